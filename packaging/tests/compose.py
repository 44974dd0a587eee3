"""Holds the compose files against what they promise; their schema is not in Debian."""

import re
import sys

import yaml

KNOWN = {"image", "restart", "environment", "ports", "volumes", "read_only", "cap_drop", "security_opt",
         "ulimits", "stop_grace_period", "command", "depends_on"}


def main() -> None:
    for name in sys.argv[1:]:
        with open(name) as file:
            compose = yaml.safe_load(file)
        ours = {key for key in compose if not key.startswith("x-")}
        assert ours == {"services", "volumes"}, ours
        for service in compose["services"].values():
            check_service(service, compose)
        print(f"ok: {name} has {len(compose['services'])} services")


def check_service(service: dict, compose: dict) -> None:
    assert set(service) <= KNOWN, set(service) - KNOWN
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), "strangers reach it"
    mounted = dict(one.split(":")[:2] for one in service.get("volumes", []) if not one.startswith("./"))
    assert set(mounted) <= set(compose["volumes"]), mounted
    if service.get("command") != ["cluster", "init"]:
        assert set(mounted.values()) & {"/var/lib/postrider", "/data"}, "its data would be lost"
    assert set(service.get("depends_on", [])) <= set(compose["services"])
    # Everything that is expanded has a value, or says what to do.
    for variable in re.findall(r"\$\{([^}]*)\}", str(service)):
        assert ":-" in variable or ":?" in variable, variable


main()
