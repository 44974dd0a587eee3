"""Holds rendered manifests against Kubernetes' schemas, and against what the chart promises."""

import sys

import kubernetes_validate
import yaml

# Of the Prometheus operator, whose schemas are not Kubernetes'.
OTHERS = {"ServiceMonitor", "PrometheusRule"}
VERSION = "1.31"


SINGLE = {"NetworkPolicy", "Service", "StatefulSet"}
CLUSTER = SINGLE | {"ConfigMap", "Job", "PodDisruptionBudget"}


def main() -> None:
    """Takes a single node as it is and with everything on, then the same of a cluster."""
    made = [read(name) for name in sys.argv[1:]]
    single, single_all, cluster, cluster_all = made
    kinds = [{one["kind"] for one in manifests} for manifests in made]
    assert kinds[0] == SINGLE, kinds[0]
    assert kinds[1] == SINGLE | OTHERS | {"Ingress"}, kinds[1]
    assert kinds[2] == CLUSTER, kinds[2]
    # The servers of somebody else are not started.
    assert kinds[3] == kinds[1] | CLUSTER - {"ConfigMap"}, kinds[3]
    for manifests in made:
        named = [(one["kind"], one["metadata"]["name"]) for one in manifests]
        assert len(set(named)) == len(named), named
        for one in manifests:
            if one["kind"] not in OTHERS:
                kubernetes_validate.validate(one, VERSION, strict=True)
            if one["kind"] in {"StatefulSet", "Job"}:
                check_workload(one)
            if one["kind"] == "Service":
                check_service(one, manifests)
    check_single(single_all)
    assert [server["spec"]["replicas"] for server in servers(single)] == [1]
    check_cluster(cluster, 3)
    check_cluster(cluster_all, 5)


def read(name: str) -> list[dict]:
    with open(name) as file:
        return [one for one in yaml.safe_load_all(file) if one]


def of(kind: str, manifests: list[dict]) -> list[dict]:
    return [one for one in manifests if one["kind"] == kind]


def servers(manifests: list[dict]) -> list[dict]:
    """The nodes first."""
    return sorted(of("StatefulSet", manifests), key=lambda one: len(one["metadata"]["name"]))


def pod(workload: dict) -> dict:
    return workload["spec"]["template"]["spec"]


def container(workload: dict) -> dict:
    return pod(workload)["containers"][0]


def variables(workload: dict) -> dict:
    listed = container(workload)["env"]
    named = {one["name"]: one.get("value") for one in listed}
    assert len(listed) == len(named), "a variable is there twice"
    return named


def check_workload(workload: dict) -> None:
    assert pod(workload)["securityContext"]["runAsNonRoot"]
    assert pod(workload)["securityContext"]["runAsUser"] == 65532
    assert container(workload)["securityContext"]["readOnlyRootFilesystem"]
    variables(workload)
    if workload["kind"] == "Job":
        return
    ports = {one["name"] for one in container(workload)["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container(workload)[probe]["httpGet"]["port"] in ports
    selector = workload["spec"]["selector"]["matchLabels"]
    assert selector.items() <= workload["spec"]["template"]["metadata"]["labels"].items()
    volumes = {one["name"] for one in pod(workload)["volumes"]}
    volumes |= {one["metadata"]["name"] for one in workload["spec"]["volumeClaimTemplates"]}
    assert {one["name"] for one in container(workload)["volumeMounts"]} == volumes


def check_service(service: dict, manifests: list[dict]) -> None:
    """It leads to one workload, and to ports that are there."""
    wanted = service["spec"]["selector"].items()
    found = [one for one in of("StatefulSet", manifests) + of("Job", manifests)
             if wanted <= one["spec"]["template"]["metadata"]["labels"].items()]
    assert len(found) == 1, [one["metadata"]["name"] for one in found]
    ports = container(found[0])["ports"]
    known = {one["name"] for one in ports} | {one["containerPort"] for one in ports}
    for port in service["spec"]["ports"]:
        assert port.get("targetPort", port["port"]) in known, port


def check_single(manifests: list[dict]) -> None:
    rules = of("PrometheusRule", manifests)[0]
    assert len(rules["spec"]["groups"][0]["rules"]) > 5
    server = servers(manifests)[0]
    # A large number keeps its digits.
    assert variables(server)["POSTRIDER__LIMITS__BYTES_MAX"] == "42949672960"
    assert variables(server)["POSTRIDER__SERVER__DOCS"] == "false"
    # A server with names refuses what is for none of them.
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container(server)[probe]["httpGet"]["httpHeaders"]
        assert asked == [{"name": "Host", "value": "api.example.com"}], asked


def check_cluster(manifests: list[dict], replicas: int) -> None:
    nodes = servers(manifests)[0]
    assert nodes["spec"]["replicas"] == replicas
    services = {one["metadata"]["name"]: one for one in of("Service", manifests)}
    for server in servers(manifests):
        # Each has a name, whether it is ready or not.
        assert services[server["spec"]["serviceName"]]["spec"]["clusterIP"] == "None"
        assert services[server["spec"]["serviceName"]]["spec"]["publishNotReadyAddresses"]
        budgets = [one for one in of("PodDisruptionBudget", manifests)
                   if one["spec"]["selector"] == server["spec"]["selector"]]
        assert [one["spec"]["maxUnavailable"] for one in budgets] == [1]
    # The job says the same of the cluster as its nodes.
    job, of_nodes = variables(of("Job", manifests)[0]), variables(nodes)
    of_nodes.pop("POSTRIDER__CLUSTER__ADVERTISE")
    assert job | {"POSTRIDER__CLUSTER__NODE": None} == of_nodes, set(job.items()) ^ set(of_nodes.items())
    hooks = container(nodes)["lifecycle"]
    drain = hooks["preStop"]["exec"]["command"]
    assert pod(nodes)["terminationGracePeriodSeconds"] >= int(drain[-1]) + 35, drain
    for name in ("POSTRIDER__SECRETS__MASTER_KEY", "POSTRIDER__ADMIN__TOKEN"):
        refs = [one["valueFrom"]["secretKeyRef"] for one in container(nodes)["env"] if one["name"] == name]
        assert len(refs) == 1, name


main()
