"""What is sent again, when, and what never is."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from conftest import Face
from server import Answer, Passed, Server, fake, refused

from postrider import ConnectionFailedError, PostriderError, errors

LOST = Passed(is_lost=True)


def shown(face: Face, client: Any, phone: str) -> int:
    return len(face.run(client.sandbox.messages(to=phone)).data)


def test_a_lost_answer_sends_no_second_code(
    face: Face, client: Any, server: Server, phone: str
) -> None:
    with fake(server.address) as proxy:
        through = face.client(proxy.url, server.key)
        proxy.plan = [LOST, LOST, Passed()]
        sent = face.run(through.otp.send(phone=phone))
        assert len(proxy.seen) == 3
        assert len({seen.headers["idempotency-key"] for seen in proxy.seen}) == 1
        assert len({seen.body for seen in proxy.seen}) == 1
    assert shown(face, client, phone) == 1
    assert face.run(client.otp.get(sent.request_id)).status == "active"
    assert 0.25 <= through.waits[0] <= 0.5 <= through.waits[1] <= 1.0


@pytest.mark.parametrize("what", ["message", "broadcast", "contact", "reply"])
def test_what_takes_a_key_is_done_once(
    face: Face, client: Any, server: Server, phone: str, what: str
) -> None:
    face.run(client.sandbox.receive(from_=phone, text="Hello"))
    [conversation] = [
        it for it in face.take(client.conversations.list()) if it.contact.phone == phone
    ]
    with fake(server.address) as proxy:
        through = face.client(proxy.url, server.key)
        calls = {
            "message": lambda: through.messages.send(to=phone, text="Hello", wait=1),
            "broadcast": lambda: through.broadcasts.create(
                name="Spring", template_name="spring_sale", recipients=[phone]
            ),
            "contact": lambda: through.contacts.create(name=f"Ada {phone}"),
            "reply": lambda: through.conversations.reply(conversation.id, text="Hello"),
        }
        proxy.plan = [LOST]
        face.run(calls[what]())
        assert len(proxy.seen) == 2
    if what == "contact":
        assert len(face.take(client.contacts.list(search=f"Ada {phone}"))) == 1
    elif what != "broadcast":
        assert shown(face, client, phone) == 1
    else:
        [made] = [
            it
            for it in face.take(client.broadcasts.list())
            if it.name == "Spring"
            and face.take(client.broadcasts.recipients(it.broadcast_id))[0].to == phone
        ]
        assert made.total_recipients == 1


def test_what_takes_no_key_is_not_repeated(
    face: Face, client: Any, server: Server, phone: str
) -> None:
    sent = face.run(client.otp.send(phone=phone))
    with fake(server.address) as proxy:
        through = face.client(proxy.url, server.key)
        plans: list[tuple[Answer | Passed, str]] = [
            (LOST, "ANSWER_LOST"),
            (refused(503, "SERVICE_UNAVAILABLE", retry_after="1"), "SERVICE_UNAVAILABLE"),
            (refused(500, "SERVER_ERROR", retry_after="1"), "SERVER_ERROR"),
            ((502, {}, b"<html>"), "UNEXPECTED_ANSWER"),
        ]
        for planned, code in plans:
            proxy.plan, proxy.seen = [planned], []
            with pytest.raises(PostriderError) as caught:
                face.run(through.otp.resend(request_id=sent.request_id))
            assert (caught.value.code, len(proxy.seen)) == (code, 1)
        assert through.waits == []
    assert shown(face, client, phone) == 2, "the code, and the one whose answer was lost"


def test_a_refusal_for_a_time_is_waited_for(face: Face, server: Server, phone: str) -> None:
    with fake(server.address) as proxy:
        through = face.client(proxy.url, server.key)
        proxy.plan = [
            refused(429, "RATE_LIMITED", retry_after="7"),
            refused(503, "SERVICE_UNAVAILABLE", retry_after="2"),
            refused(409, "CONFLICT", "idempotency_under_way"),
        ]
        face.run(through.otp.send(phone=phone, idempotency_key=f"mine-{phone}-{face.kind}"))
        keys = {seen.headers["idempotency-key"] for seen in proxy.seen}
        assert keys == {f"mine-{phone}-{face.kind}"}
        assert [int(wait) for wait in through.waits[:2]] == [7, 2]
        # Nothing was done yet, so also what takes no key is sent again.
        proxy.plan, through.waits[:] = [refused(429, "RATE_LIMITED", retry_after="3")], []
        with pytest.raises(errors.NotFoundError):
            face.run(through.otp.verify(request_id="otp_1", otp="1"))
        assert [int(wait) for wait in through.waits] == [3]


def test_the_patience_of_a_client_ends(face: Face) -> None:
    with fake(otherwise=refused(429, "OTP_RATE_LIMITED", retry_after="599")) as busy:
        with pytest.raises(errors.OtpRateLimitedError) as caught:
            face.run(face.client(busy.url, "key").otp.send(phone="+15550123456"))
        assert (caught.value.retry_after, len(busy.seen)) == (599, 1)
    with fake(otherwise=refused(503, "SERVICE_UNAVAILABLE", retry_after="1")) as busy:
        with pytest.raises(errors.ServiceUnavailableError):
            face.run(face.client(busy.url, "key", max_retries=2).otp.get("otp_1"))
        assert len(busy.seen) == 3
    with fake(otherwise=refused(409, "CONFLICT")) as taken:
        with pytest.raises(errors.ConflictError):
            face.run(face.client(taken.url, "key").contacts.create(name="Ada"))
        assert len(taken.seen) == 1
    with fake(otherwise=(302, {"location": "http://127.0.0.1:1/"}, b"")) as elsewhere:
        with pytest.raises(PostriderError):
            face.run(face.client(elsewhere.url, "key").otp.get("otp_1"))
        assert len(elsewhere.seen) == 1


def test_a_server_that_is_not_there_is_tried_again(face: Face) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = face.client(f"http://127.0.0.1:{free.getsockname()[1]}", "key", max_retries=2)
        with pytest.raises(ConnectionFailedError) as caught:
            face.run(nobody.otp.verify(request_id="otp_1", otp="1"))
    assert (caught.value.code, caught.value.status) == ("CONNECTION_FAILED", None)
    assert len(nobody.waits) == 2


def test_an_answer_may_take_no_longer_than_told(face: Face) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        client = face.client(f"http://127.0.0.1:{silent.getsockname()[1]}", "key", max_retries=1)
        with pytest.raises(PostriderError) as caught:
            face.run(client.otp.get("otp_1", timeout=0.05))
    assert (caught.value.code, len(client.waits)) == ("TIMEOUT", 1)


def test_what_is_not_postrider_is_said_to_be(face: Face) -> None:
    for body in (b"<html>", b"[]", b'{"request_id": 7}', b""):
        with fake(otherwise=(200, {}, body)) as other, pytest.raises(PostriderError) as caught:
            face.run(face.client(other.url, "key").otp.send(phone="+15550123456"))
        assert caught.value.code == "UNEXPECTED_ANSWER"
