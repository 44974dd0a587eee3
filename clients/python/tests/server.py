"""A sandbox of its own, and servers between that lose answers or refuse."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

START_SECONDS_MAX = 120
# What is on disk after a power cut is not tested here, so a busy disk need not be waited for.
MEMORY = "/dev/shm"


class Server:
    """The binary under test, which can be stopped, killed and started again on its port."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.address = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        banner, log = self.directory / "banner", self.directory / "log"
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("POSTRIDER_")
        }
        for limit in ("KEY_REQUESTS_PER_HOUR", "OTP_PER_PHONE_10M", "OTP_PER_WORKSPACE_HOUR"):
            environment[f"POSTRIDER__LIMITS__{limit}"] = "0"
        data = self.directory / "data"
        command = [os.environ["POSTRIDER_BINARY"], "--listen", self.address, "--data-dir"]
        with banner.open("w") as out, log.open("a") as errors:
            self.process = subprocess.Popen(
                [*command, str(data)], stdout=out, stderr=errors, env=environment
            )
        end = time.monotonic() + START_SECONDS_MAX
        while "listens on " not in (text := banner.read_text()) or "\n" not in text:
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise AssertionError(f"the server does not start: {log.read_text()}")
            time.sleep(0.02)
        self.url = text.split("listens on ", 1)[1].split()[0]
        self.address = self.url.removeprefix("http://")
        self.key = (data / "demo.key").read_text().strip()
        self.token = (data / "admin.token").read_text().strip()

    def stop(self, *, kill: bool = False) -> None:
        self.process.kill() if kill else self.process.terminate()
        self.process.wait(timeout=60)


@contextmanager
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as place:
        running = Server(Path(place))
        try:
            yield running
        finally:
            running.stop(kill=True)


class Handler(BaseHTTPRequestHandler):
    """Answers as the fake that it belongs to says."""

    protocol_version = "HTTP/1.1"
    server: Fake

    def answer(self) -> None:
        body = self.body()
        seen = Seen(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
        self.server.seen.append(seen)
        planned = self.server.plan.pop(0) if self.server.plan else self.server.otherwise
        if isinstance(planned, Passed):
            status, headers, content = self.server.forward(seen)
            if planned.is_lost:
                self.close_connection = True
                return
        else:
            status, headers, content = planned
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "content-length" not in headers:
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", "0")))
        found = b""
        while length := int(self.rfile.readline(), 16):
            found += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return found

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


class Seen:
    """A request that a fake has seen."""

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.method, self.path, self.headers, self.body = method, path, headers, body

    def json(self) -> Any:
        return json.loads(self.body)


class Passed:
    """The real server answers; the answer may be lost on its way."""

    def __init__(self, *, is_lost: bool = False) -> None:
        self.is_lost = is_lost


Answer = tuple[int, dict[str, str], bytes]


def refused(status: int, code: str, reason: str | None = None, **headers: str) -> Answer:
    """A refusal as the server writes it."""
    body = {"error": "…", "message": "no", "code": code, "request_id": "req_1"}
    if reason:
        body["reason"] = reason
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, {"content-type": "application/json", **named}, json.dumps(body).encode()


class Fake(ThreadingHTTPServer):
    """Answers what is planned, and then what comes otherwise."""

    daemon_threads = True

    def __init__(self, behind: str, otherwise: Answer | Passed) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behind = behind
        self.otherwise = otherwise
        self.plan: list[Answer | Passed] = []
        self.seen: list[Seen] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def forward(self, seen: Seen) -> Answer:
        connection = http.client.HTTPConnection(self.behind, timeout=30)
        headers = {k: v for k, v in seen.headers.items() if k not in ("host", "connection")}
        connection.request(seen.method, seen.path, seen.body, headers)
        answer = connection.getresponse()
        content = answer.read()
        kept = ("content-type", "retry-after", "idempotency-replayed", "x-request-id")
        found = {k: v for k, v in answer.getheaders() if k.lower() in kept}
        connection.close()
        return answer.status, found, content


@contextmanager
def fake(behind: str = "", otherwise: Answer | Passed | None = None) -> Iterator[Fake]:
    running = Fake(behind, otherwise or Passed())
    try:
        yield running
    finally:
        running.shutdown()
        running.server_close()
