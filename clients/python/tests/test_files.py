"""Files are sent and fetched piece by piece, and a broken download goes on."""

from __future__ import annotations

import hashlib
import io
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Face
from server import Passed, Server, fake, refused

from postrider import ConnectionFailedError, PostriderError, errors

LOST = Passed(is_lost=True)
# More than one piece of every kind.
FILE = b"%PDF" + bytes(range(256)) * 3_000


def upload(face: Face, client: Any, content: Any) -> Any:
    return face.run(client.media.upload(content, content_type="application/pdf", filename="a.pdf"))


def fetched(face: Face, client: Any, id: str) -> bytes:
    found: bytes = face.run(client.media.content(id).read())
    return found


def test_a_file_goes_there_and_back(face: Face, client: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(b"before" + FILE)
    with path.open("rb") as opened:
        opened.seek(6)
        for content in (FILE, opened, iter([FILE[:9], FILE[9:]])):
            media = upload(face, client, content)
            assert (media.state, media.mime_type, media.filename, media.size, media.sha256) == (
                "ready",
                "application/pdf",
                "a.pdf",
                len(FILE),
                hashlib.sha256(FILE).hexdigest(),
            )
            assert face.run(client.media.get(media.media_id)) == media
            assert fetched(face, client, media.media_id) == FILE
            assert b"".join(face.take(client.media.content(media.media_id))) == FILE
            face.run(client.media.delete(media.media_id))
            with pytest.raises(errors.NotFoundError):
                fetched(face, client, media.media_id)


def test_pieces_that_are_awaited_are_for_who_awaits(face: Face, client: Any) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield FILE[:9]
        yield FILE[9:]

    if face.kind == "async":
        assert upload(face, client, pieces()).size == len(FILE)
    else:
        with pytest.raises(TypeError, match="awaits"):
            upload(face, client, pieces())


def test_text_is_no_file(face: Face, client: Any) -> None:
    for content in ("text", io.StringIO("text")):
        with pytest.raises(TypeError, match="'rb'"):
            upload(face, client, content)


def test_what_is_refused_is_said(face: Face, client: Any) -> None:
    with pytest.raises(PostriderError) as caught:
        face.run(client.media.upload(b"MZ", content_type="application/x-msdownload"))
    assert (caught.value.status, caught.value.code) == (415, "UNSUPPORTED_MEDIA_TYPE")
    with pytest.raises(errors.ValidationError):
        upload(face, client, b"")


def test_an_upload_is_sent_again_when_surely_nothing_was_kept(face: Face, server: Server) -> None:
    with fake(server.address) as proxy:
        through = face.client(proxy.url, server.key)
        for content in (FILE, io.BytesIO(FILE)):
            proxy.seen.clear()
            proxy.plan = [refused(429, "RATE_LIMITED", retry_after="1"), Passed()]
            assert upload(face, through, content).size == len(FILE)
            assert [seen.body for seen in proxy.seen] == [FILE, FILE]
            proxy.plan = [LOST]
            with pytest.raises(ConnectionFailedError):
                upload(face, through, content)
            assert proxy.plan == []
            assert len(proxy.seen) == 3


def test_pieces_that_are_used_up_are_not_sent_again(face: Face) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"%PDF"

    with fake(otherwise=refused(429, "RATE_LIMITED", retry_after="1")) as server:
        client = face.client(server.url, "key")
        with pytest.raises(errors.RateLimitedError):
            upload(face, client, pieces())
        assert ([seen.body for seen in server.seen], client.waits) == ([b"%PDF"], [])


def test_a_download_that_breaks_off_goes_on(face: Face, client: Any, server: Server) -> None:
    id = upload(face, client, FILE).media_id
    cut = {"content-length": str(len(FILE)), "connection": "close"}
    with fake(server.address) as proxy:
        through = face.client(proxy.url, server.key)
        proxy.plan = [(200, cut, FILE[:1000]), Passed()]
        assert fetched(face, through, id) == FILE
        assert [seen.headers.get("range") for seen in proxy.seen] == [None, "bytes=1000-"]
        # Who answers with all of it again would have a part of it come twice.
        proxy.plan = [(200, cut, FILE[:1000]), (200, {}, FILE)]
        with pytest.raises(PostriderError, match="the whole file"):
            fetched(face, through, id)
