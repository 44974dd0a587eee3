"""Webhooks: those of the server are taken, forgeries are not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import queue
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from server import Server

from postrider import (
    Postrider,
    PostriderError,
    WebhookVerificationError,
    models,
    verify_webhook,
    verify_webhook_batch,
)

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
EVENT = {
    "id": "evt_1",
    "type": "otp.verified",
    "timestamp": "2026-01-31T09:25:00.000Z",
    "sequence": 1,
    "data": {"request_id": "otp_1", "phone": "+15550123456"},
}


@pytest.fixture
def received() -> Iterator[tuple[str, queue.Queue[tuple[dict[str, str], bytes]]]]:
    """An endpoint, and what it is sent."""
    came: queue.Queue[tuple[dict[str, str], bytes]] = queue.Queue()

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            came.put((dict(self.headers), body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    endpoint = HTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=endpoint.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{endpoint.server_address[1]}/hooks", came
    endpoint.shutdown()
    endpoint.server_close()


def signed(body: bytes, at: float | None = None, secret: str = SECRET) -> dict[str, str]:
    """Headers as the standard says, without the library that reads them."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    seconds = str(int(time.time() if at is None else at))
    mac = hmac.new(key, b"evt_1." + seconds.encode() + b"." + body, hashlib.sha256)
    signature = "v1," + base64.b64encode(mac.digest()).decode()
    return {
        "Webhook-Id": "evt_1",
        "Webhook-Timestamp": seconds,
        "Webhook-Signature": signature,
    }


def test_the_servers_webhooks_are_taken(server: Server, received: Any) -> None:
    url, came = received
    with Postrider(server.url, server.key) as client:
        hook = client.webhooks.create(url=url, events=["otp.sent"])
        batched = client.webhooks.create(url=url, events=["otp.sent"], batch=True)
        client.otp.send(phone="+15550123411")
        deliveries = [came.get(timeout=20) for _ in range(2)]
        kinds = set()
        for headers, body in deliveries:
            if body.startswith(b"["):
                [event] = verify_webhook_batch(body, headers, batched.secret)
                with pytest.raises(WebhookVerificationError, match="batch"):
                    verify_webhook(body, headers, batched.secret)
            else:
                event = verify_webhook(body, headers, hook.secret)
                assert verify_webhook_batch(body.decode(), headers, hook.secret) == [event]
            assert isinstance(event, models.OtpSentEvent)
            assert event.data.phone == "+15550123411"
            kinds.add(body[:1])
        assert kinds == {b"[", b"{"}
        # While a secret is replaced both sign.
        old, new = hook.secret, client.webhooks.rotate_secret(hook.id).secret
        client.webhooks.test(hook.id)
        headers, body = came.get(timeout=20)
        for secret in (old, new):
            assert verify_webhook(body, headers, secret).type == "webhook.test"
        for it in (hook, batched):
            client.webhooks.delete(it.id)


def test_the_vector_of_the_standard_is_taken() -> None:
    body = b'{"test": 2432232314}'
    headers = signed(body, 1614265330) | {"Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek"}
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    text = b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330." + body
    made = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    assert made == "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    with pytest.raises(WebhookVerificationError, match="too old"):
        verify_webhook(body, headers | {"Webhook-Signature": f"v1,{made}"}, SECRET)


def forgeries() -> Iterator[tuple[str, bytes, dict[str, str], str]]:
    body = json.dumps(EVENT).encode()
    good = signed(body)
    assert verify_webhook(body, good, SECRET).id == "evt_1"
    assert verify_webhook(body, {k.lower(): v for k, v in good.items()}, f"{SECRET}\n")
    signature = good["Webhook-Signature"]
    yield "another body", body.replace(b"3456", b"3457"), good, SECRET
    yield "another secret", body, good, "whsec_" + base64.b64encode(b"x" * 24).decode()
    yield "another id", body, good | {"Webhook-Id": "evt_2"}, SECRET
    yield "another time", body, good | {"Webhook-Timestamp": str(int(time.time()) + 1)}, SECRET
    yield "old", body, signed(body, time.time() - 400), SECRET
    yield "of the future", body, signed(body, time.time() + 400), SECRET
    yield "no time", body, good | {"Webhook-Timestamp": "soon"}, SECRET
    yield "an endless time", body, good | {"Webhook-Timestamp": "inf"}, SECRET
    others = (
        "",
        "v1",
        "v1,",
        "v1,a,b",
        ",",
        "v1,!",
        "v1a," + signature[3:],
        "v2," + signature[3:],
        signature[:-2],
    )
    for at, other in enumerate(others):
        yield f"signature {at}", body, good | {"Webhook-Signature": other}, SECRET
    for name in good:
        yield f"no {name}", body, {k: v for k, v in good.items() if k != name}, SECRET
    yield "no text", b"\xff", good, SECRET
    for secret in ("", "whsec_", "whsec_!", "whsec_ä"):
        yield f"secret {secret!r}", body, good, secret
    for other_body in (b"", b"7", b"{}", b'{"id": 7}', b"not JSON"):
        yield f"no event {other_body!r}", other_body, signed(other_body), SECRET


NAMES = [it[0] for it in forgeries()]


@pytest.mark.parametrize("name", NAMES)
def test_a_forgery_is_refused(name: str) -> None:
    # Made now: signatures age.
    [(body, headers, secret)] = [it[1:] for it in forgeries() if it[0] == name]
    with pytest.raises(PostriderError) as caught:
        verify_webhook(body, headers, secret)
    assert caught.value.code == "WEBHOOK_NOT_VERIFIED"
    assert isinstance(caught.value, WebhookVerificationError)
