"""Holds rendered manifests against Kubernetes' schemas, and against what the chart promises."""

import sys

import kubernetes_validate
import yaml

# Of the Prometheus operator, whose schemas are not Kubernetes'.
OTHERS = {"ServiceMonitor", "PrometheusRule"}
VERSION = "1.31"


def main() -> None:
    kinds = []
    for name in sys.argv[1:]:
        with open(name) as file:
            made = [one for one in yaml.safe_load_all(file) if one]
        kinds.append({one["kind"] for one in made})
        for one in made:
            if one["kind"] not in OTHERS:
                kubernetes_validate.validate(one, VERSION, strict=True)
        check_server(next(one for one in made if one["kind"] == "StatefulSet"))
    assert kinds[0] == {"NetworkPolicy", "Service", "StatefulSet"}, kinds[0]
    assert kinds[1] == kinds[0] | OTHERS | {"Ingress"}, kinds[1]
    rules = next(one for one in made if one["kind"] == "PrometheusRule")
    assert len(rules["spec"]["groups"][0]["rules"]) > 5
    server = next(one for one in made if one["kind"] == "StatefulSet")
    variables = {one["name"]: one.get("value") for one in container(server)["env"]}
    # A large number keeps its digits.
    assert variables["POSTRIDER__LIMITS__BYTES_MAX"] == "42949672960", variables
    assert variables["POSTRIDER__SERVER__DOCS"] == "false", variables
    assert len(container(server)["env"]) == len(variables), "a variable is there twice"


def container(server: dict) -> dict:
    return server["spec"]["template"]["spec"]["containers"][0]


def check_server(server: dict) -> None:
    assert server["spec"]["replicas"] == 1
    pod = server["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 65532
    assert container(server)["securityContext"]["readOnlyRootFilesystem"]
    ports = {one["name"] for one in container(server)["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container(server)[probe]["httpGet"]["port"] in ports
    selector = server["spec"]["selector"]["matchLabels"]
    assert selector.items() <= server["spec"]["template"]["metadata"]["labels"].items()


main()
