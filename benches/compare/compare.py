"""Starts Postrider and its rivals in turns, drives them, and prints a table.

Called by `benches/compare/run`, which installs what it needs. Each round of each system has a new
data directory, on the file system of target/. Systems alternate; a row is the median of its rounds.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEY = "the-key-of-the-comparison"
CONNECTIONS = 64
# Those of `cargo bench -- curve`.
CURVE = (1, 16, 64, 256, 1024)
REDIS = ["redis-server", "--port", "16379", "--appendonly", "yes", "--appendfsync", "always",
         "--save", "", "--dir"]
REDIS_URL = "redis://127.0.0.1:16379"


class Started:
    """Processes that end together."""

    def __init__(self, folder: Path):
        self.folder, self.processes = folder, []

    def start(self, command: list, port: int | None = None, **environment: str) -> None:
        log = open(self.folder / "log", "ab")
        made = subprocess.Popen([str(it) for it in command], stdout=log, stderr=log, cwd=self.folder,
                                start_new_session=True, env=dict(os.environ, **environment))
        self.processes.append(made)
        end = time.monotonic() + 60
        while port:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            if made.poll() is not None or time.monotonic() > end:
                sys.exit(f"{command[0]} does not start:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def end(self) -> None:
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def api(method: str, url: str, key: str, body: object = None) -> dict:
    request = urllib.request.Request(url, method=method, data=body and json.dumps(body).encode())
    request.add_header("Authorization", f"Bearer {key}")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read() or "null")


def wrk(url: str, seconds: float, connections: int, **environment: str) -> dict:
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s",
               str(HERE / "load.lua"), url]
    said = subprocess.run(command, env=dict(os.environ, **environment), check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    found = re.search(r"^RESULT (\d+) (\d+) (\d+) (\d+) (\d+)$", said, re.MULTILINE)
    requests, took, p50, p99, errors = map(int, found.groups())
    return {"rate": (requests - errors) / (took / 1e6), "p50": p50 / 1e3, "p99": p99 / 1e3,
            "errors": errors}


def postrider(started: Started, options) -> str:
    """Starts a server without limits; gives the key of its workspace."""
    none = dict.fromkeys(("LIMITS__KEY_REQUESTS_PER_HOUR", "LIMITS__OTP_PER_WORKSPACE_HOUR",
                          "SERVER__MAX_CONNECTIONS_PER_ADDRESS"), "0")
    settings = {f"POSTRIDER__{name}": value for name, value in none.items()}
    settings["POSTRIDER__GUARD__UNVERIFIED_PER_PREFIX_HOUR"] = "0"
    data = started.folder / "data"
    started.start([options.binary, "--listen", "127.0.0.1:18080", "--data-dir", data], 18080, **settings)
    while not (data / "demo.key").exists():
        time.sleep(0.02)
    key = (data / "demo.key").read_text().strip()
    token = (data / "admin.token").read_text().strip()
    api("PUT", "http://127.0.0.1:18080/admin/v1/workspaces/demo/credits", token, {"credits": 900_000_000})
    return key


def send_postrider(started: Started, options) -> dict:
    key = postrider(started, options)
    return drive("http://127.0.0.1:18080", options, KEY=key)


def send_axum(started: Started, options) -> dict:
    started.start([*REDIS, started.folder], 16379)
    started.start([options.rivals / "send", "127.0.0.1:18081", REDIS_URL, KEY], 18081)
    return drive("http://127.0.0.1:18081", options, KEY=KEY)


def send_fastapi(started: Started, options) -> dict:
    started.start([*REDIS, started.folder], 16379)
    started.start([options.venv / "bin/uvicorn", "--app-dir", HERE, "fastapi_send:app", "--port", 18082,
                   "--workers", 2, "--no-access-log"], 18082, REDIS_URL=REDIS_URL, API_KEY=KEY)
    return drive("http://127.0.0.1:18082", options, KEY=KEY)


def send_kannel(started: Started, options) -> dict:
    store = started.folder / "store"
    store.mkdir()
    text = (HERE / "kannel.conf").read_text().replace("@STORE@", str(store))
    (started.folder / "kannel.conf").write_text(text)
    started.start(["bearerbox", "-v", 4, "kannel.conf"], 13001)
    started.start(["/usr/lib/kannel/test/fakesmsc", "-H", "127.0.0.1", "-r", 10000, "-m", 0,
                   "1 2 text nothing"])
    started.start(["smsbox", "-v", 4, "kannel.conf"], 13013)
    path = "/cgi-bin/sendsms?username=compare&password=compare&from=1&text=123456+is+your+code."
    return drive("http://127.0.0.1:13013", options, SENDSMS=path)


def drive(url: str, options, **environment: str) -> dict:
    connections = options.connections
    wrk(url, options.warm_up, connections, FIRST="0", **environment)
    return wrk(url, options.seconds, connections, FIRST="50000000", **environment)


def arrived(count: int) -> dict:
    """Waits until the sink has that many, and gives their rate."""
    end = time.monotonic() + 600
    while True:
        with urllib.request.urlopen("http://127.0.0.1:18083/") as answer:
            seen, took = map(int, answer.read().split())
        if seen >= count:
            return {"rate": (seen - 1) / (took / 1e9), "errors": seen - count}
        if time.monotonic() > end:
            sys.exit(f"only {seen} of {count} webhooks came")
        time.sleep(0.05)


def hooks_postrider(started: Started, options) -> dict:
    started.start([options.rivals / "sink", "127.0.0.1:18083"], 18083)
    key = postrider(started, options)
    base = "http://127.0.0.1:18080/v1"
    hook = api("POST", f"{base}/webhooks", key,
               {"url": "http://127.0.0.1:18083/", "events": ["otp.sent"]})["id"]
    # What it misses while it is disabled, it gets when it is enabled.
    api("PATCH", f"{base}/webhooks/{hook}", key, {"enabled": False})
    sent = wrk("http://127.0.0.1:18080", options.seconds, CONNECTIONS, FIRST="0", KEY=key)
    count = int(sent["rate"] * options.seconds * 0.9)
    api("PATCH", f"{base}/webhooks/{hook}", key, {"enabled": True})
    return {**arrived(count), "errors": 0}


def hooks_loop(started: Started, options) -> dict:
    started.start([options.rivals / "sink", "127.0.0.1:18083"], 18083)
    started.start([*REDIS, started.folder], 16379)
    count = options.events
    with socket.create_connection(("127.0.0.1", 16379)) as redis:
        for first in range(0, count, 1000):
            events = [json.dumps({"id": f"evt_{at:032x}", "type": "otp.sent", "data": {
                "request_id": f"otp_{at:032x}", "phone": "+15550123456"}}).encode()
                for at in range(first, min(first + 1000, count))]
            parts = [b"RPUSH", b"hooks", *events]
            redis.sendall(b"*%d\r\n" % len(parts) + b"".join(
                b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
            redis.recv(100)
    started.start([options.rivals / "hooks", REDIS_URL, "http://127.0.0.1:18083/"])
    return arrived(count)


ROWS = {
    "send": ("codes sent a second, each durable when it is answered", {
        "Postrider": send_postrider,
        "axum over Redis": send_axum,
        "FastAPI over Redis": send_fastapi,
        "Kannel, `sendsms` to its fake centre (not synced)": send_kannel,
    }),
    "webhooks": ("webhooks delivered a second, signed and repeated until they are taken", {
        "Postrider": hooks_postrider,
        "a loop of an HTTP client over a list in Redis": hooks_loop,
    }),
}


# What `curve` drives with each number of connections.
ON_CURVE = {"Postrider": send_postrider, "axum over Redis": send_axum}


def measured(run, options) -> dict:
    """One round of one system, in a new directory."""
    folder = Path(tempfile.mkdtemp(dir=options.rivals.parent, prefix="round-"))
    started = Started(folder)
    try:
        return run(started, options)
    finally:
        started.end()
        shutil.rmtree(folder)


def middle(rounds: list) -> dict:
    return sorted(rounds, key=lambda one: one["rate"])[len(rounds) // 2]


def curve(options) -> None:
    """Prints how rate and times go with the connections, for docs/performance.md."""
    ours, theirs = ON_CURVE
    print(f"| connections | {ours}/s | p50 ms | p99 ms | {theirs}/s | p50 ms | p99 ms | ratio |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    for options.connections in (1, 4) if options.quick else CURVE:
        results = {system: [] for system in ON_CURVE}
        for _ in range(options.rounds):
            for system, run in ON_CURVE.items():
                results[system].append(measured(run, options))
        refused = {system: sum(one["errors"] for one in rounds) for system, rounds in results.items()}
        if any(refused.values()):
            sys.exit(f"with {options.connections} connections, refused or failed: {refused}")
        sides = [middle(rounds) for rounds in results.values()]
        cells = " | ".join(f"{it['rate']:.0f} | {it['p50']:.2f} | {it['p99']:.2f}" for it in sides)
        ratio = sides[0]["rate"] / sides[1]["rate"]
        print(f"| {options.connections} | {cells} | {ratio:.2f} |", flush=True)


def said(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def versions(options) -> str:
    pip = said(options.venv / "bin/pip", "list", "--format", "freeze", "--disable-pip-version-check")
    python = ", ".join(line.replace("==", " ") for line in pip.split()
                       if line.split("==")[0] in ("fastapi", "redis", "uvicorn"))
    lock = (HERE / "rivals/Cargo.lock").read_text()
    crate = lambda name: re.search(rf'name = "{name}"\nversion = "([^"]*)"', lock)[1]
    kannel = said("dpkg-query", "-W", "-f", "${Version}", "kannel")
    return (f"{said(options.binary, '--version').strip()}; axum {crate('axum')}, redis (crate) "
            f"{crate('redis')}, reqwest {crate('reqwest')}; {python}, "
            f"{sys.implementation.name} {sys.version.split()[0]}; "
            f"redis-server {re.search('v=([0-9.]+)', said('redis-server', '--version'))[1]}; "
            f"Kannel {kannel}; {said('wrk', '-v').split(' [')[0]}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--rivals", type=Path, required=True)
    parser.add_argument("--venv", type=Path, required=True)
    parser.add_argument("--only", default=",".join(ROWS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.warm_up, options.events, options.connections = 3, 100_000, CONNECTIONS
    if options.quick:
        options.rounds, options.seconds, options.warm_up, options.events = 1, 2, 1, 2_000
    options.binary, options.rivals, options.venv = (
        path.absolute() for path in (options.binary, options.rivals, options.venv))
    names = options.only.split(",")
    unknown = set(names) - {*ROWS, "curve"}
    if unknown:
        parser.error(f"no such rows: {', '.join(sorted(unknown))}")
    print(versions(options), end="\n\n")
    if "curve" in names:
        curve(options)
        names.remove("curve")
    if not names:
        return
    print("| what | with | a second | all rounds | p50 / p99 ms | refused or failed |")
    print("|---|---|--:|---|--:|--:|")
    for name in names:
        what, systems = ROWS[name]
        results = {system: [] for system in systems}
        for _ in range(options.rounds):
            for system, run in systems.items():
                results[system].append(measured(run, options))
        for system, rounds in results.items():
            rates = [one["rate"] for one in rounds]
            one = middle(rounds)
            times = f"{one['p50']:.2f} / {one['p99']:.2f}" if "p50" in one else "–"
            print(f"| {what} | {system} | {statistics.median(rates):.0f} "
                  f"| {', '.join(f'{rate:.0f}' for rate in rates)} | {times} "
                  f"| {sum(one['errors'] for one in rounds)} |", flush=True)


main()
