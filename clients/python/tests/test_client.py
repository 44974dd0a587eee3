"""The clients against a server."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from typing import Any

import pytest
from conftest import Face
from server import Server, fake, refused

from postrider import PostriderError, errors, models


def test_a_code_is_sent_and_verified(face: Face, client: Any, phone: str) -> None:
    sent = face.run(client.otp.send(phone=phone, length=8))
    assert sent.request_id.startswith("otp_")
    assert sent.expires_at > dt.datetime.now(dt.timezone.utc)
    [shown] = face.run(client.sandbox.messages(to=phone)).data
    assert len(shown.code) == 8
    wrong = face.run(client.otp.verify(request_id=sent.request_id, otp="0"))
    assert (wrong.verified, wrong.code, wrong.attempts_remaining) == (False, "OTP_INVALID", 4)
    assert face.run(client.otp.verify(request_id=sent.request_id, otp=shown.code)).verified
    assert face.run(client.otp.get(sent.request_id)).status == "verified"


def test_a_refusal_is_an_error_of_its_code(face: Face, client: Any) -> None:
    with pytest.raises(PostriderError) as caught:
        face.run(client.otp.send(phone="nobody"))
    error = caught.value
    assert isinstance(error, errors.ValidationError)
    assert (error.status, error.code, error.reason) == (400, "VALIDATION_ERROR", None)
    assert "`phone`" in error.message
    assert error.request_id
    assert error.request_id.startswith("req_")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.__dict__, str(again)) == (type(error), error.__dict__, str(error))
    with pytest.raises(errors.UnprocessableError) as caught_text:
        face.run(client.messages.send(to="+15550199999", text="Hello"))
    assert caught_text.value.reason == "conversation_window_closed"
    with pytest.raises(errors.UnauthorizedError):
        face.run(face.client(client._transport._base_url, "no key").otp.get("otp_1"))


def test_a_message_waits_for_the_channel(face: Face, client: Any, phone: str) -> None:
    body = [{"type": "body", "parameters": [{"type": "text", "text": it} for it in ("Ada", "7")]}]
    template = {"name": "order_update", "language": "en", "components": body}
    sent = face.run(client.messages.send(to=phone, template=template, wait=20))
    assert sent.status == "sent"
    message = face.run(client.messages.get(sent.message_id))
    assert isinstance(message.template, models.UsedTemplate)
    assert (message.to, message.template.name, message.delivered_at) == (
        phone,
        "order_update",
        None,
    )


def test_a_broadcast_has_recipients(face: Face, client: Any, phone: str) -> None:
    made = face.run(
        client.broadcasts.create(
            name="Spring", template_name="spring_sale", recipients=[phone, {"to": "+15550198765"}]
        )
    )
    assert made.total_recipients == 2
    rows = face.take(client.broadcasts.recipients(made.broadcast_id, limit=1))
    assert {row.to for row in rows} == {phone, "+15550198765"}


def test_lists_page_by_themselves(face: Face, client: Any, phone: str) -> None:
    names = [f"{phone} {at}" for at in range(5)]
    for at, name in enumerate(names):
        fields = {"some_key": at, "otherKey": [at]}
        face.run(client.contacts.create(name=name, custom_fields=fields))
    for limit in (1, 2, 5, 200):
        found = face.take(client.contacts.list(search=phone, limit=limit))
        assert sorted(contact.name for contact in found) == names
    assert found[0].custom_fields == {"some_key": 4, "otherKey": [4]}
    pages = face.take(client.contacts.list(search=phone, limit=2).pages())
    assert [(page.page, page.total, len(page.data)) for page in pages] == [
        (1, 5, 2),
        (2, 5, 2),
        (3, 5, 1),
    ]
    assert face.run(client.contacts.list(search=phone, page=3, limit=2).page()).page == 3
    assert not face.take(client.contacts.list(search="nobody has this name"))
    listed = face.take(client.contacts.list())
    exported = face.take(client.contacts.export())
    assert {contact.id for contact in listed} == {contact.id for contact in exported}
    after = face.take(client.contacts.export(after=exported[1].id))
    assert [contact.id for contact in after] == [contact.id for contact in exported[2:]]


def test_a_page_asks_for_no_more_than_needed(face: Face, client: Any, server: Server) -> None:
    with fake(server.address) as proxy:
        through = face.client(proxy.url, server.key)
        face.take(through.contacts.list(search="nobody", limit=2))
        assert [seen.path for seen in proxy.seen] == ["/v1/contacts?limit=2&search=nobody"]


def test_none_clears_and_what_is_left_out_stays(face: Face, client: Any, phone: str) -> None:
    made = face.run(client.contacts.create(name="Ada", phone=phone, email="a@example.com"))
    changed = face.run(client.contacts.update(made.id, name="Ada L.", email=None))
    assert (changed.name, changed.phone, changed.email) == ("Ada L.", phone, None)
    assert face.run(client.contacts.delete(made.id)) is None
    with pytest.raises(errors.NotFoundError):
        face.run(client.contacts.get(made.id))


def test_the_log_is_read_to_its_end(face: Face, client: Any, phone: str) -> None:
    for _ in range(3):
        face.run(client.otp.send(phone=phone))
    for limit in (2, 200):
        found = face.take(client.events.list(type="otp.sent", limit=limit))
        assert [it.data.phone for it in found].count(phone) == 3
    everything = face.take(client.events.list(limit=3))
    assert [it.sequence for it in everything] == list(range(1, len(everything) + 1))


def test_a_later_server_is_understood(face: Face) -> None:
    event = {
        "id": "evt_1",
        "type": "otp.teleported",
        "timestamp": "2026-01-31T09:25:00.000Z",
        "sequence": 1,
        "data": {"phone": "+15550123456"},
        "more": 1,
    }
    body = json.dumps({"data": [event], "next_cursor": "AQ", "more": {}}).encode()
    with fake(otherwise=(200, {"content-type": "application/json"}, body)) as later:
        page = face.run(face.client(later.url, "key").events.list(cursor="AQ").page())
        assert isinstance(page.data[0], models.UnknownEvent)
        assert page.data[0].data == {"phone": "+15550123456"}


def test_who_administers_has_a_token(face: Face, client: Any, server: Server) -> None:
    name = f"made-{face.kind}"
    face.run(client.admin.workspaces.create(id=name, name="Made"))
    assert name in {it.id for it in face.take(client.admin.workspaces.list(limit=1))}
    assert face.run(client.admin.credits.set(name, credits=7)).credits == 7
    key = face.run(client.admin.keys.create(name, name="k", scopes=["contacts:read"])).key
    assert not face.take(face.client(server.url, key).contacts.list())
    with pytest.raises(PostriderError) as caught:
        face.run(face.client(server.url, key).admin.workspaces.get(name))
    assert caught.value.code == "NO_KEY"
    face.run(client.admin.workspaces.delete(name, name="Made"))


@pytest.mark.parametrize("id", ["", ".", ".."])
def test_an_id_is_one_segment_of_a_path(face: Face, client: Any, id: str) -> None:
    with pytest.raises(ValueError, match="cannot be the id"):
        face.run(client.contacts.delete(id))
    with fake(otherwise=refused(404, "NOT_FOUND")) as nothing:
        with pytest.raises(errors.NotFoundError):
            face.run(face.client(nothing.url, "key").contacts.get("a/b?c#d%"))
        assert nothing.seen[0].path == "/v1/contacts/a%2Fb%3Fc%23d%25"
    face.run(client.suppressions.create(phone="+15550197531"))
    face.run(client.suppressions.delete("+15550197531"))


def test_a_time_needs_its_zone(face: Face, client: Any) -> None:
    later = dt.datetime(2099, 6, 21, 9, 0, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    made = face.run(
        client.broadcasts.create(
            name="Later",
            template_name="spring_sale",
            recipients=["+15550123456"],
            schedule_at=later,
        )
    )
    assert face.run(client.broadcasts.cancel(made.broadcast_id)).schedule_at == later
    with pytest.raises(ValueError, match="no time zone"):
        face.run(client.webhooks.replay("whk_1", since=later.replace(tzinfo=None)))


def test_a_body_that_may_be_left_out_is_left_out(face: Face) -> None:
    with fake(otherwise=refused(418, "TEAPOT")) as server:
        client = face.client(server.url, "key")
        for given in ({}, {"typing": False}):
            with pytest.raises(PostriderError):
                face.run(client.conversations.mark_read("cnv_1", **given))
        assert [seen.body for seen in server.seen] == [b"", b'{"typing":false}']
