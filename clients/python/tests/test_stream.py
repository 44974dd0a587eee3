"""The stream of events: over restarts, lost connections and refusals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from conftest import Face
from server import Server, fake, refused
from server import server as running_server

from postrider import AsyncPostrider, Postrider, PostriderError, errors
from postrider._lines import Message, Messages

CODES = 3


@pytest.fixture(scope="module")
def stopped() -> Iterator[Server]:
    """A server that these tests stop."""
    with running_server() as running:
        yield running


@pytest.fixture
def own(stopped: Server) -> Server:
    """The same, running."""
    if stopped.process.poll() is not None:
        stopped.start()
    return stopped


def some_codes(server: Server) -> None:
    with Postrider(server.url, server.key) as client:
        for _ in range(CODES):
            client.otp.send(phone="+15550123456")


def newest(server: Server) -> int:
    with Postrider(server.url, server.key) as client:
        return max((it.sequence for it in client.events.list()), default=0)


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_stream_has_no_gap_over_restarts(face: Face, own: Server, kill: bool) -> None:
    first = newest(own)
    some_codes(own)
    client = face.client(own.url, own.key)
    stream = client.events.stream(after=first)
    seen = face.take(stream, CODES)
    for _ in range(2):
        own.stop(kill=kill)
        restarting = own.start
        # It tries while nobody is there, and the server comes back meanwhile.
        client._transport.sleep = start_once(face, restarting, own)
        seen += face.take(stream, CODES)
    assert [event.sequence for event in seen] == list(range(first + 1, first + 1 + 3 * CODES))
    assert stream.last_id == seen[-1].id
    again = face.take(client.events.stream(after=seen[0].id), 1)
    assert again == [seen[1]]


def start_once(face: Face, restarting: Any, server: Server) -> Any:
    """A wait of the client in which, the second time, the server comes back and codes are sent."""
    calls: list[float] = []

    def wait(seconds: float) -> None:
        calls.append(seconds)
        if len(calls) == 2:
            restarting()
            some_codes(server)

    async def wait_later(seconds: float) -> None:
        wait(seconds)

    return wait if face.kind == "sync" else wait_later


def test_a_stream_that_saw_nothing_yet_keeps_its_place(own: Server) -> None:
    first = newest(own)

    async def follow() -> list[int]:
        async with AsyncPostrider(own.url, own.key) as client:
            stream = client.events.stream()
            begun = asyncio.ensure_future(anext(stream))
            end = time.monotonic() + 20
            while stream.last_id is None and time.monotonic() < end:
                await asyncio.sleep(0.01)
            assert stream.last_id == str(first)
            own.stop(kill=True)
            own.start()
            some_codes(own)
            return [(await begun).sequence, (await anext(stream)).sequence]

    assert asyncio.run(follow()) == [first + 1, first + 2]


def stream_of(*pieces: str) -> tuple[int, dict[str, str], bytes]:
    return 200, {"content-type": "text/event-stream"}, "".join(pieces).encode()


def event(sequence: int, text: str = "") -> str:
    data = (
        f'{{"id":"evt_{sequence}","type":"message.received",'
        f'"timestamp":"2026-01-31T09:25:00.000Z","sequence":{sequence},'
        f'"data":{{"message_id":"m","conversation_id":"c","contact_id":"k","from":"+1",'
        f'"type":"text","text":"{text}","at":"2026-01-31T09:25:00.000Z"}}}}'
    )
    return f"id: evt_{sequence}\nevent: message.received\ndata: {data}\n\n"


PING = 'event: ping\ndata: {"now":"2026-01-31T09:25:00.000Z","offset_seconds":0}\n\n'
# What a later server may tell besides.
NOTICE = "event: broadcast.progress\ndata: soon\n\n"


def test_what_is_cut_off_comes_again(face: Face) -> None:
    with fake(otherwise=refused(401, "UNAUTHORIZED")) as server:
        cut = event(2)[:-1]
        server.plan = [
            stream_of(": here\nid: 0\n\n", PING, event(1), NOTICE, cut),
            refused(503, "SERVICE_UNAVAILABLE", retry_after="9"),
            stream_of(": here\n\n", PING, event(2, "a\u2028b\u0085c"), PING, event(3)),
        ]
        client = face.client(server.url, "key", max_retries=0)
        stream = client.events.stream(cursor="AQ")
        seen = face.take(stream, 3)
        assert [it.sequence for it in seen] == [1, 2, 3]
        assert seen[1].data.text == "a\u2028b\u0085c"
        assert seen[1].data.from_ == "+1"
        with pytest.raises(errors.UnauthorizedError):
            face.take(stream, 1)
        asked = [(it.path, it.headers.get("last-event-id")) for it in server.seen]
        assert asked == [
            ("/v1/events/stream?cursor=AQ", None),
            ("/v1/events/stream", "evt_1"),
            ("/v1/events/stream", "evt_1"),
            ("/v1/events/stream", "evt_3"),
        ]
        assert any(9 <= wait <= 9.1 for wait in client.waits)


def test_a_stream_that_never_began_gives_up(face: Face) -> None:
    with fake(otherwise=refused(503, "SERVICE_UNAVAILABLE", retry_after="1")) as server:
        with pytest.raises(errors.ServiceUnavailableError):
            face.take(face.client(server.url, "key", max_retries=1).events.stream(), 1)
        assert len(server.seen) == 2


def test_an_export_goes_on_where_it_broke_off(face: Face) -> None:
    def contact(id: str) -> str:
        times = '"created_at":"2026-01-31T09:25:00Z","updated_at":"2026-01-31T09:25:00Z"'
        return f'{{"id":"{id}","name":"A\u2028","tags":[],"custom_fields":{{}},{times}}}\n'

    media = {"content-type": "application/x-ndjson"}
    with fake(otherwise=(200, media, contact("con_3").encode())) as server:
        cut = contact("con_1") + contact("con_2") + contact("con_3")[:-2]
        # It says that more will come, and closes.
        broken = {**media, "content-length": str(len(cut.encode()) + 100), "connection": "close"}
        server.plan = [(200, broken, cut.encode())]
        client = face.client(server.url, "key")
        assert [it.id for it in face.take(client.contacts.export())] == ["con_1", "con_2", "con_3"]
        paths = [it.path for it in server.seen]
        assert paths == ["/v1/contacts/export", "/v1/contacts/export?after=con_2"]


def test_messages_are_found_wherever_they_are_cut() -> None:
    text = "﻿: hi\r\nid: 7\r\n\r\ndata: ä\rdata\rdata:  b\r\rid\n\ndata: c".encode()
    expected = [Message("7", ""), Message(None, "ä\n\n b"), Message("", "")]
    for size in range(1, len(text) + 1):
        messages = Messages()
        found = [
            message
            for at in range(0, len(text), size)
            for message in messages.feed(text[at : at + size])
        ]
        assert found == expected, f"in pieces of {size}"


def test_a_silent_stream_is_left(face: Face, own: Server) -> None:
    client = face.client(own.url, own.key)
    request = client._transport.stream_request(httpx.Client(), client_call())
    assert request.extensions["timeout"]["read"] == 45.0


def client_call() -> Any:
    from postrider._call import Call

    return Call("GET", "/v1/events/stream")


def test_who_leaves_a_stream_can_take_it_up_again(face: Face, own: Server) -> None:
    first = newest(own)
    some_codes(own)
    client = face.client(own.url, own.key)
    stream = client.events.stream(after=first)
    [one] = face.take(stream, 1)
    face.run(stream.close())
    [two] = face.take(client.events.stream(after=stream.last_id), 1)
    assert (one.sequence, two.sequence) == (first + 1, first + 2)
    with pytest.raises(PostriderError) as caught:
        face.take(client.events.stream(after=first + 1000), 1)
    assert caught.value.code == "VALIDATION_ERROR"
