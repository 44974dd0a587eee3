"""Holds the compose file against what it promises; its schema is not in Debian."""

import sys

import yaml


def main() -> None:
    with open(sys.argv[1]) as file:
        compose = yaml.safe_load(file)
    assert set(compose) == {"services", "volumes"}, set(compose)
    server = compose["services"]["postrider"]
    known = {"image", "restart", "environment", "ports", "volumes", "read_only", "cap_drop",
             "security_opt", "ulimits", "stop_grace_period"}
    assert set(server) <= known, set(server) - known
    assert all(port.startswith("127.0.0.1:") for port in server["ports"]), "strangers reach it"
    mounted = dict(one.split(":") for one in server["volumes"])
    assert set(mounted) == set(compose["volumes"]) and "/var/lib/postrider" in mounted.values()
    assert server["read_only"] and server["cap_drop"] == ["ALL"]
    print("ok: the compose file")


main()
