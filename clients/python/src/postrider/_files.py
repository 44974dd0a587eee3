"""Files that are sent and fetched piece by piece, so that none has to be in memory."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from dataclasses import replace
from typing import BinaryIO, TypeAlias

import httpx
from typing_extensions import TypeIs

from ._attempts import Attempts
from ._call import Call, Upload
from ._errors import UnexpectedAnswerError
from ._transport import AsyncTransport, Transport

Content: TypeAlias = bytes | BinaryIO | Iterable[bytes]
"""What is uploaded: bytes, a file that is open for reading them, or pieces."""
AsyncContent: TypeAlias = Content | AsyncIterable[bytes]

PIECE_BYTES = 256 * 1024


class FileUpload(Upload):
    """A file that is sent. What can be read only once is not sent a second time."""

    def __init__(self, content: AsyncContent, content_type: str) -> None:
        if isinstance(content, (str, io.TextIOBase)):
            raise TypeError("a file is bytes, and not text: open it with mode 'rb'")
        self.content_type = content_type
        self.length: int | None = None
        if isinstance(content, (bytes, bytearray, memoryview)):
            content = io.BytesIO(content)
        self._content: BinaryIO | Iterable[bytes] | AsyncIterable[bytes] = content
        self._is_used = False
        self._start: int | None = None
        if _is_open_file(content) and content.seekable():
            self._start = content.tell()
            self.length = content.seek(0, io.SEEK_END) - self._start

    @property
    def can_be_sent(self) -> bool:
        return not self._is_used or self.length is not None

    def pieces(self) -> Iterator[bytes]:
        content = self._from_start()
        if isinstance(content, AsyncIterable):
            raise TypeError("pieces that are awaited need the client that awaits")
        if _is_open_file(content):
            while piece := content.read(PIECE_BYTES):
                yield piece
        else:
            yield from content

    async def async_pieces(self) -> AsyncIterator[bytes]:
        content = self._from_start()
        if isinstance(content, AsyncIterable):
            async for piece in content:
                yield piece
        elif _is_open_file(content):
            while piece := await asyncio.to_thread(content.read, PIECE_BYTES):
                yield piece
        else:
            for piece in content:
                yield piece

    def _from_start(self) -> BinaryIO | Iterable[bytes] | AsyncIterable[bytes]:
        # When the first piece is wanted, and not before: without a connection nothing is used up.
        self._is_used = True
        if self._start is not None and _is_open_file(self._content):
            self._content.seek(self._start)
        return self._content


def _is_open_file(content: object) -> TypeIs[BinaryIO]:
    return hasattr(content, "read")


class _Place:
    """How far a download is."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._received = 0

    def call(self) -> Call:
        """The call for what is still to come."""
        # What is compressed on its way has other positions.
        headers = {"Accept-Encoding": "identity"}
        if self._received > 0:
            headers["Range"] = f"bytes={self._received}-"
        return replace(self._call, headers=headers)

    def check(self, answer: httpx.Response) -> None:
        if self._received > 0 and answer.status_code != httpx.codes.PARTIAL_CONTENT:
            raise UnexpectedAnswerError(
                "the answer is the whole file, and not the rest of it",
                code="UNEXPECTED_ANSWER",
                status=answer.status_code,
                request_id=answer.headers.get("x-request-id"),
            )

    def took(self, piece: bytes) -> bytes:
        self._received += len(piece)
        return piece


class Download:
    """The bytes of a file, in pieces. One that breaks off is continued where it did."""

    def __init__(self, transport: Transport, call: Call) -> None:
        self._transport = transport
        self._call = call

    def read(self) -> bytes:
        """All of them."""
        return b"".join(self)

    def __iter__(self) -> Iterator[bytes]:
        place = _Place(self._call)
        attempts = Attempts(self._call, self._transport.patience)
        while True:
            try:
                with self._transport.open(place.call(), attempts) as answer:
                    place.check(answer)
                    for piece in answer.iter_raw():
                        attempts.progress()
                        yield place.took(piece)
                return
            except httpx.RequestError as error:
                self._transport.sleep(attempts.lost(error))


class AsyncDownload:
    """The bytes of a file, in pieces. One that breaks off is continued where it did."""

    def __init__(self, transport: AsyncTransport, call: Call) -> None:
        self._transport = transport
        self._call = call

    async def read(self) -> bytes:
        """All of them."""
        return b"".join([piece async for piece in self])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        place = _Place(self._call)
        attempts = Attempts(self._call, self._transport.patience)
        while True:
            try:
                async with self._transport.open(place.call(), attempts) as answer:
                    place.check(answer)
                    async for piece in answer.aiter_raw():
                        attempts.progress()
                        yield place.took(piece)
                return
            except httpx.RequestError as error:
                await self._transport.sleep(attempts.lost(error))
