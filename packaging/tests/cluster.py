"""Runs clusters as the compose file, the chart and the example set them up, without containers.

    cluster.py BINARY NATS_SERVER ARCHIVE [MANIFESTS]

Each container becomes a process with an address of its own on the loopback network, with its command, its
environment and its files. ARCHIVE has the settings that the image has, MANIFESTS is the rendered chart. A code
is sent and verified through nodes that do not own its workspace, while the owner is emptied and restarted.
"""

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 90
# What the test adds to the settings: a number without a provider, fewer shards to wait for, and room for NATS
# on any disk.
ADDED = {"POSTRIDER__SANDBOX__ENABLED": "true", "POSTRIDER__CLUSTER__SHARDS": "8"}
ROOM = "max_file_store: 200GB\n"
SECRETS = {"POSTRIDER_MASTER_KEY": "00112233" * 8, "POSTRIDER_ADMIN_TOKEN": "the-token-of-administrators"}
KEYS = {"master-key": SECRETS["POSTRIDER_MASTER_KEY"], "admin-token": SECRETS["POSTRIDER_ADMIN_TOKEN"]}


def check(what: bool, why: object) -> None:
    if not what:
        sys.exit(f"packaging/tests/cluster.py: {why}")


def until(what: str, ask):
    """The first answer that is something."""
    deadline, answer = time.monotonic() + PATIENCE_SECONDS, None
    while time.monotonic() < deadline:
        if answer := ask():
            return answer
        time.sleep(0.2)
    check(False, f"{what}: not within {PATIENCE_SECONDS} s")


@dataclass
class Container:
    """What one container is told."""

    name: str
    host: str
    args: list[str]
    env: dict[str, str]
    # Of a node: commands after its start and before its stop.
    after_start: list[str] = field(default_factory=lambda: ["cluster", "undrain", "--wait", "60"])
    before_stop: list[str] = field(default_factory=lambda: ["cluster", "drain"])


@dataclass
class Node:
    """A node that runs."""

    name: str
    server: str
    env: dict[str, str]
    start: object
    process: object = None
    after_start: list[str] = field(default_factory=list)
    before_stop: list[str] = field(default_factory=list)


class Place:
    """Where processes have their addresses and files."""

    def __init__(self, binary: str, nats: str) -> None:
        self.binary, self.nats = binary, nats
        self.held = tempfile.TemporaryDirectory()
        self.dir = Path(self.held.name)
        self.net = f"127.{random.randint(64, 254)}.{random.randint(1, 254)}"
        self.running: list[subprocess.Popen] = []

    def __enter__(self) -> "Place":
        return self

    def __exit__(self, *_) -> None:
        """Ends the nodes before what they need."""
        for process in reversed(self.running):
            process.terminate()
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.held.cleanup()

    def spawn(self, args: list[str], env: dict[str, str], log: str) -> subprocess.Popen:
        with open(self.dir / f"{log}.log", "ab") as out:
            process = subprocess.Popen(args, env=env | {"PATH": os.environ["PATH"]}, stdout=out, stderr=out)
        self.running.append(process)
        return process

    def postrider(self, args: list[str], env: dict[str, str], seconds: int = 200):
        return subprocess.run([self.binary, *args], env=env, capture_output=True, text=True, timeout=seconds)


# Of the image.
def image() -> tuple[dict[str, str], list[str]]:
    text = (ROOT / "packaging/container/Containerfile").read_text().replace("\\\n", " ")
    env = dict(one.split("=", 1) for one in re.search(r"^ENV (.*)$", text, re.M)[1].split())
    return env, json.loads(re.search(r"^CMD (\[.*\])$", text, re.M)[1])


def compose(path: Path) -> tuple[list[Container], list[Container], Container]:
    """NATS servers, nodes and the container that makes the cluster."""
    text = path.read_text()
    for name, value in SECRETS.items():
        text = re.sub(rf"\$\{{{name}:\?[^}}]*\}}", f'"{value}"', text)
    services = yaml.safe_load(text)["services"]
    def one(name: str) -> Container:
        service = services[name]
        return Container(name, name, service.get("command", []), service.get("environment", {}))
    named = lambda start: [one(name) for name in services if name.startswith(start)]
    return named("nats-"), named("pr-"), one("init")


def manifests(path: Path) -> tuple[list[Container], list[Container], Container]:
    made = [one for one in yaml.safe_load_all(path.read_text()) if one]
    def pods(workload: dict, names: list[str]) -> list[Container]:
        spec = workload["spec"]["template"]["spec"]["containers"][0]
        hooks = spec.get("lifecycle", {})
        hook = lambda name: hooks[name]["exec"]["command"][1:] if name in hooks else []
        def pod(name: str) -> Container:
            env = {}
            for one in spec["env"]:
                source = one.get("valueFrom", {})
                key = source.get("secretKeyRef", {}).get("key")
                env[one["name"]] = KEYS[key] if key else name if source else expanded(one["value"], env)
            host = f"{name}.{workload['spec'].get('serviceName')}"
            args = [expanded(arg, env) for arg in spec.get("args", [])]
            return Container(name, host, args, env, hook("postStart"), hook("preStop"))
        return [pod(name) for name in names]
    kinds = lambda kind: [one for one in made if one["kind"] == kind]
    sets = sorted(kinds("StatefulSet"), key=lambda one: one["metadata"]["name"].endswith("-nats"))
    nodes, nats = [pods(one, [f"{one['metadata']['name']}-{n}" for n in range(one["spec"]["replicas"])])
                   for one in sets]
    return nats, nodes, pods(kinds("Job")[0], ["init"])[0]


def initialised(ended: subprocess.CompletedProcess) -> str | None:
    """What `cluster init` says; nothing while NATS is not ready for it."""
    waits = any(code in ended.stderr for code in ("NATS_UNREACHABLE", "NATS_NOT_SYNCED", "NATS_UNREPLICATED"))
    check(ended.returncode == 0 or waits, ended.stderr)
    return ended.stdout or None


def expanded(text: str, env: dict[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda found: env[found[1]], text)


def contained(place: Place, archive: str, of: tuple[list[Container], list[Container], Container]) -> list[Node]:
    """Starts the containers as processes; gives the nodes."""
    servers, nodes, init = of
    base, command = image()
    with tarfile.open(archive) as files:
        inside = next(one for one in files.getnames() if one.endswith("etc/postrider/config.toml"))
        (place.dir / "config.toml").write_bytes(files.extractfile(inside).read())
    address = {one.host: f"{place.net}.{n}" for n, one in enumerate([*servers, *nodes, init], 1)}

    def here(text: str, one: Container) -> str:
        own, data = address[one.host], str(place.dir / one.name)
        text = re.sub(r"([a-z0-9.-]+)(?=:\d)", lambda host: address.get(host[1], host[1]), text)
        text = re.sub(r"\b(0\.0\.0\.0|127\.0\.0\.1)(?=:\d)", own, text)
        text = text.replace("/etc/nats/nats.conf", f"{data}.conf").replace("/var/lib/postrider", data)
        return text.replace("/etc/postrider/config.toml", str(place.dir / "config.toml"))

    def environment(one: Container) -> dict[str, str]:
        return {name: here(value, one) for name, value in (base | one.env | ADDED).items()}

    for one in servers:
        text = here((ROOT / "packaging/container/nats.conf").read_text(), one)
        text = text.replace('"/data"', f'"{place.dir / one.name}"\n  {ROOM}')
        (place.dir / f"{one.name}.conf").write_text(text)
        place.spawn([place.nats, *(here(arg, one) for arg in one.args)], {}, one.name)
    # One that failed on its way may have made it already.
    until("the cluster is made", lambda: initialised(place.postrider(init.args, environment(init))))
    again = initialised(place.postrider(init.args, environment(init)))
    check(again and "is there" in again, f"a second init does not find the cluster: {again}")

    def node(one: Container) -> Node:
        env = environment(one)
        args = [here(arg, one) for arg in one.args or command]
        start = lambda: place.spawn([place.binary, *args], env, one.name)
        return Node(env["POSTRIDER__CLUSTER__NODE"], f"http://{address[one.host]}:8080", env, start,
                    None, one.after_start, one.before_stop)
    return [node(one) for one in nodes]


def example(place: Place) -> list[Node]:
    """The same of the script that starts three of each."""
    address, script = f"{place.net}.1", str(ROOT / "packaging/cluster-example")
    env = {"PATH": os.environ["PATH"], "ADDRESS": address, "NATS_SERVER": place.nats, "POSTRIDER": place.binary}
    data = place.dir / "example"
    log = place.dir / "all.log"
    place.all = place.spawn([script, str(data)], env, "all")
    until("three nodes", lambda: "three nodes are ready" in log.read_text() or place.all.poll() is not None)
    check(place.all.poll() is None, log.read_text())
    told = subprocess.run(["sh", "-c", f". {data}/environment && env"], env={}, capture_output=True, text=True)
    settings = dict(line.split("=", 1) for line in told.stdout.splitlines())

    class Started:
        """The process of a node, which is no child of this one."""

        def __init__(self, n: int) -> None:
            self.pid = int((data / f"pr-{n}.pid").read_text())

        def poll(self):
            return None if Path(f"/proc/{self.pid}/cmdline").exists() and self.shown() else 0

        def shown(self) -> bool:
            return b"serve" in Path(f"/proc/{self.pid}/cmdline").read_bytes()

        def send_signal(self, which: int) -> None:
            os.kill(self.pid, which)

        def wait(self, _seconds: int) -> int:
            return until("its end", lambda: self.poll() == 0) and 0

    def node(n: int) -> Node:
        def start():
            if place.started >= 3:
                again = place.spawn([script, "--node", str(n), str(data)], env, f"again-{n}")
                said = place.dir / f"again-{n}.log"
                until(f"pr-{n} again", lambda: f"pr-{n} runs" in said.read_text() or again.poll() is not None)
            place.started += 1
            return Started(n)
        own = settings | {"POSTRIDER_SERVER": f"http://{address}:808{n}", "POSTRIDER__CLUSTER__NODE": f"pr-{n}"}
        return Node(f"pr-{n}", own["POSTRIDER_SERVER"], own, start, None,
                    ["cluster", "undrain", "--wait", "60"], ["cluster", "drain"])
    place.started = 0
    return [node(n) for n in (1, 2, 3)]


def ask(node: Node, token: str, path: str, body: dict | None = None) -> tuple[int, dict]:
    request = urllib.request.Request(
        node.server + path, None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as refusal:
        return refusal.code, json.loads(refusal.read())


def settled(node: Node, token: str, path: str, body: dict | None = None) -> tuple[int, dict]:
    """The answer once the shard has an owner that stays: before that nothing is done, and it may be sent again."""
    def answered():
        status, answer = ask(node, token, path, body)
        return None if answer and answer.get("reason") in ("no_owner", "draining") else (status, answer)
    return until(path, answered)


def done(node: Node, token: str, path: str, body: dict | None = None) -> dict:
    status, answer = settled(node, token, path, body)
    check(200 <= status < 300, f"{node.name} {path}: {status} {answer}")
    return answer


def started(place: Place, node: Node) -> None:
    node.process = node.start()
    after = place.postrider(node.after_start, node.env)
    check(after.returncode == 0, f"{node.after_start} of {node.name}: {after}")
    healthy = lambda: place.postrider(["health"], node.env).returncode == 0
    until(f"{node.name} is healthy", lambda: node.process.poll() is not None or healthy())
    check(node.process.poll() is None, f"{node.name} has ended: {logs(place)}")


def logs(place: Place) -> str:
    found = [*place.dir.glob("*.log"), *place.dir.glob("example/*.log")]
    return "\n".join(f"{path.name}: {path.read_text()[-2000:]}" for path in found)


def spread(node: Node, token: str, nodes: int) -> list[dict]:
    """The shards, once all are owned, by so many nodes."""
    def owned():
        state = done(node, token, "/admin/v1/cluster")
        owners = {shard["owner"] for shard in state["shards"]}
        return state["ready"] and len(owners) == nodes and state["shards"]
    return until(f"shards of {nodes} nodes", owned)


def code(through: Node, verified_by: Node, key: str, phone: str) -> None:
    sent = done(through, key, "/v1/otp/send", {"phone": phone})
    listed = lambda: done(verified_by, key, f"/v1/sandbox/messages?to=%2B{phone[1:]}")["data"]
    guess = {"request_id": sent["request_id"], "otp": until("the code", listed)[0]["code"]}
    check(done(verified_by, key, "/v1/otp/verify", guess)["verified"], "it is not verified")
    check(settled(through, key, "/v1/otp/verify", guess)[0] in (409, 410, 422), "a code is accepted twice")


def tried(place: Place, nodes: list[Node]) -> None:
    begun = time.monotonic()
    token = nodes[0].env["POSTRIDER__ADMIN__TOKEN"]
    for node in nodes:
        started(place, node)
    shards = spread(nodes[0], token, len(nodes))
    done(nodes[0], token, "/admin/v1/workspaces", {"id": "acme", "name": "Acme"})
    at = "/admin/v1/workspaces/acme"
    done(nodes[1], token, f"{at}/credits", {"add": 100})
    done(nodes[2], token, f"{at}/numbers", {"kind": "sandbox"})
    key = done(nodes[0], token, f"{at}/keys", {"name": "test", "scopes": ["messaging:send"]})["key"]
    # The list is that of all shards, so each node asks all the others.
    for node in nodes:
        listed = done(node, token, "/admin/v1/workspaces")["data"]
        check([one["id"] for one in listed] == ["acme"], f"{node.name} lists {listed}")
    shard = int(hashlib.sha256(b"acme").hexdigest()[:4], 16) * len(shards) >> 16
    owner = next(node for node in nodes if node.name == shards[shard]["owner"])
    others = [node for node in nodes if node is not owner]
    code(others[0], others[1], key, "+15550123456")
    # The owner is emptied before it stops, so nobody waits for a lease.
    emptied = place.postrider(owner.before_stop, owner.env)
    check(emptied.returncode == 0, f"{owner.before_stop}: {emptied}")
    unready = place.postrider(["health"], owner.env)
    check(unready.returncode == 1 and "drains" in unready.stderr, f"it is given requests: {unready}")
    code(owner, others[0], key, "+15550123457")
    owner.process.send_signal(signal.SIGTERM)
    check(owner.process.wait(PATIENCE_SECONDS) == 0, "it does not stop cleanly")
    code(others[0], others[1], key, "+15550123458")
    started(place, owner)
    spread(others[0], token, len(nodes))
    print(f"ok: {len(shards)} shards, {len(nodes)} nodes; codes through nodes that do not own them, one restarted "
          f"({time.monotonic() - begun:.0f} s)")


def main() -> None:
    binary, nats, archive, *rendered = sys.argv[1:]
    of_compose = compose(ROOT / "packaging/container/cluster.yaml")
    ways = {
        "the example": example,
        "the compose file": lambda place: contained(place, archive, of_compose),
    }
    for path in rendered:
        ways["the chart"] = lambda place: contained(place, archive, manifests(Path(path)))
    for what, way in ways.items():
        with Place(os.path.realpath(binary), os.path.realpath(nats)) as place:
            print(what, flush=True)
            try:
                tried(place, way(place))
            except BaseException:
                print(logs(place), flush=True)
                raise
            if what == "the example":
                place.all.terminate()
                check(place.all.wait(PATIENCE_SECONDS) == 0, "it does not end")
        left = subprocess.run(["pgrep", "-af", str(place.dir)], capture_output=True, text=True).stdout
        check(not left, f"it still runs: {left}")


main()
