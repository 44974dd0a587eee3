"""Starts a server, has schemathesis fuzz it, and judges what was found."""

import base64
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPORT = HERE.parents[1] / "target/schemathesis/report.ndjson"
# Fewer would mean that much of the document was not tested.
CASES_MIN = 3000
# It takes a minute of one core; this ends a run that hangs, beside the tests too.
FUZZER_SECONDS_MAX = int(os.environ.get("FUZZER_SECONDS_MAX", "900"))
START_SECONDS_MAX = 30

SETTINGS = {
    # No limit of requests or codes stands between the fuzzer and the routes.
    "LIMITS__KEY_REQUESTS_PER_HOUR": "0",
    "LIMITS__UNAUTHENTICATED_PER_MINUTE": "0",
    "LIMITS__CONTACTS_PER_MINUTE": "0",
    "LIMITS__OTP_PER_PHONE_10M": "0",
    "LIMITS__OTP_PER_WORKSPACE_HOUR": "0",
    # No provider outside this machine is ever asked.
    "CLOUD_API__BASE_URL": "http://127.0.0.1:9",
    "LOG__FORMAT": "json",
}


class Server:
    """A sandbox with a data directory of its own, on a port that was free."""

    def __init__(self, binary: str, directory: Path) -> None:
        self.data = directory / "data"
        self.log = directory / "log"
        banner = directory / "banner"
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("POSTRIDER_")}
        environment |= {f"POSTRIDER__{name}": value for name, value in SETTINGS.items()}
        command = [str(Path(binary).resolve()), "--listen", "127.0.0.1:0",
                   "--data-dir", str(self.data)]
        with banner.open("w") as out, self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=out, stderr=log, env=environment)
        end = time.monotonic() + START_SECONDS_MAX
        while "listens on " not in (text := banner.read_text()) or "\n" not in text:
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                sys.exit(f"the server does not start: {self.log.read_text()}")
            time.sleep(0.05)
        self.url = text.split("listens on ", 1)[1].split()[0]
        self.token = (self.data / "admin.token").read_text().strip()

    def admin(self, method: str, path: str, body: dict) -> dict:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(
            f"{self.url}/admin/v1/{path}", json.dumps(body).encode(), headers, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def prepare(self) -> str:
        """Makes what the examples of the document name, and a key."""
        for workspace in ("main", "fuzzed"):
            self.admin("POST", "workspaces", {"id": workspace, "name": workspace})
            self.admin("PUT", f"workspaces/{workspace}/credits", {"credits": 1_000_000_000})
            self.admin("POST", f"workspaces/{workspace}/numbers", {"kind": "sandbox"})
            for name, category in (("welcome", "utility"), ("spring_sale", "marketing")):
                body = [{"type": "BODY", "text": "Hello"}]
                template = {"name": name, "language": "en", "category": category,
                            "components": body}
                self.admin("POST", f"workspaces/{workspace}/templates", template)
        scopes = ["messaging:send", "contacts:read", "contacts:write", "analytics:read",
                  "webhooks:manage"]
        key = {"name": "fuzzer", "scopes": scopes}
        return self.admin("POST", "workspaces/main/keys", key)["key"]

    def stop(self) -> list[str]:
        """Stops it, and says what is wrong with its log and its end."""
        self.process.terminate()
        try:
            code = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = "none: it did not stop"
        wrong = [] if code == 0 else [f"the server ended with code {code}"]
        for line in self.log.read_text().splitlines():
            if '"level":"ERROR"' in line or not line.startswith("{"):
                wrong.append(f"the server's log: {line}")
        return wrong


def run_fuzzer(server: Server, key: str, directory: Path) -> tuple[int, str]:
    environment = os.environ | {"POSTRIDER_KEY": key, "POSTRIDER_ADMIN_TOKEN": server.token}
    command = [str(Path(sys.executable).with_name("schemathesis")), "--no-color",
               "--config-file", str(HERE / "schemathesis.toml"),
               "run", f"{server.url}/openapi.json", "--report", "ndjson",
               "--report-ndjson-path", str(REPORT), *sys.argv[2:]]
    output = directory / "output"
    with output.open("w") as out:
        ran = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, env=environment,
                             cwd=directory, timeout=FUZZER_SECONDS_MAX, check=False)
    return ran.returncode, output.read_text()


def text_of(content: dict | None) -> str:
    return base64.b64decode((content or {}).get("$base64", "")).decode(errors="replace")


def read_report() -> tuple[int, list[dict], list[str]]:
    """The number of cases, the failures of checks, and what kept the fuzzer from its work."""
    cases, failures, broken = 0, [], []
    stopped = "the fuzzer did not finish"
    for line in REPORT.read_text().splitlines():
        [(kind, event)] = json.loads(line).items()
        if "Error" in kind or kind == "Interrupted":
            broken.append(f"{kind}: {json.dumps(event)[:2000]}")
        if kind == "EngineFinished":
            stopped = "" if event["stop_reason"] == "completed" else event["stop_reason"]
        recorder = event.get("recorder", {}) if kind == "ScenarioFinished" else {}
        cases += len(recorder.get("cases", {}))
        for case, checks in recorder.get("checks", {}).items():
            interaction = recorder["interactions"].get(case) or {}
            for check in checks:
                if check["status"] == "failure":
                    failures.append(failure_of(check, interaction))
    return cases, failures, broken + ([stopped] if stopped else [])


def failure_of(check: dict, interaction: dict) -> dict:
    failure = check["failure_info"]["failure"]
    request, response = interaction.get("request") or {}, interaction.get("response") or {}
    return {
        "operation": failure["operation"],
        "check": check["name"],
        "status": response.get("status_code", 0),
        "answer": text_of(response.get("content")),
        "message": failure["message"],
        "request": f"{request.get('method')} {request.get('uri')} {text_of(request.get('body'))}",
    }


def judge(failures: list[dict], accepted: list[dict]) -> list[str]:
    """What is not accepted, once for each operation, check and status; and what need not be."""
    def covers(entry: dict, failure: dict) -> bool:
        same = all(entry[field] == failure[field] for field in ("check", "status"))
        return same and failure["operation"] in entry["operations"] and (
            entry["message"] in failure["answer"])

    wrong, seen, used = [], set(), set()
    for failure in failures:
        found = [at for at, entry in enumerate(accepted) if covers(entry, failure)]
        used.update(found)
        kind = (failure["operation"], failure["check"], failure["status"])
        if not found and kind not in seen:
            seen.add(kind)
            wrong.append("\n  ".join([
                f"{failure['operation']}: {failure['check']}", failure["message"],
                f"request: {failure['request'][:1500]}",
                f"answer: {failure['status']} {failure['answer'][:600]}"]))
    for at, entry in enumerate(accepted):
        if at not in used and not entry.get("random", False):
            wrong.append(f"accepted.toml: nothing needs {entry['operations']} "
                         f"{entry['check']} {entry['message']!r} any more")
        if not entry["reason"].strip():
            wrong.append(f"accepted.toml: {entry['operations']} has no reason")
    return wrong


def main() -> None:
    accepted = tomllib.loads((HERE / "accepted.toml").read_text()).get("accepted", [])
    REPORT.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        server = Server(sys.argv[1], directory)
        try:
            code, output = run_fuzzer(server, server.prepare(), directory)
        finally:
            wrong = server.stop()
    if not REPORT.exists():
        sys.exit(f"schemathesis did not run:\n{output}")
    cases, failures, broken = read_report()
    wrong += broken + judge(failures, accepted)
    if cases < CASES_MIN:
        wrong.append(f"only {cases} cases were made")
    if code not in (0, 1):
        wrong.append(f"schemathesis ended with code {code}:\n{output[-4000:]}")
    for one in wrong:
        print(f"- {one}\n")
    print(f"{cases} cases, {len(failures)} failures of checks, {len(wrong)} of them or of the list "
          f"not accepted")
    sys.exit(1 if wrong else 0)


main()
