"""Answers without an end, which go on where they broke off."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import httpx
import pydantic

from ._attempts import Attempts
from ._call import Call
from ._errors import UnexpectedAnswerError
from ._lines import Lines, Messages
from ._transport import AsyncTransport, Transport

if TYPE_CHECKING:
    from ._generated.models import Event

RowT = TypeVar("RowT", bound=pydantic.BaseModel)


def parse(kind: Any, text: str | bytes) -> Any:
    """One row of a stream."""
    try:
        return pydantic.TypeAdapter(kind).validate_json(text)
    except pydantic.ValidationError as error:
        raise UnexpectedAnswerError(
            f"the stream has what this version does not know: {error}", code="UNEXPECTED_ANSWER"
        ) from error


class _Position:
    """Where a stream of events is, and what it has of the next message."""

    def __init__(self, call: Call, after: str | int | None, cursor: str | None) -> None:
        self._call = call
        self._cursor = cursor
        self._messages = Messages()
        self.last_id = None if after is None else str(after)

    def call(self) -> Call:
        """The call that goes on here. What the last one left unfinished comes again."""
        self._messages = Messages()
        if self.last_id is not None:
            return replace(self._call, headers={"Last-Event-ID": self.last_id})
        return replace(self._call, query={"cursor": self._cursor})

    def feed(self, piece: bytes) -> Iterator[Event]:
        from ._generated import models

        for message in self._messages.feed(piece):
            # What has no id is not in the log: the clock's pings, and what else a server may tell.
            if not message.id:
                continue
            event = parse(models.Event, message.data) if message.data else None
            # Before it is handed out: who stops at this event goes on after it.
            self.last_id = message.id
            if event is not None:
                yield event


class EventStream:
    """Events as they come. It connects again by itself, also over restarts of the server, and goes
    on after the last event; it ends when it is closed or the server refuses it."""

    def __init__(
        self, transport: Transport, call: Call, after: str | int | None, cursor: str | None
    ) -> None:
        self._transport = transport
        self._position = _Position(call, after, cursor)
        self._events = self._run()

    @property
    def last_id(self) -> str | None:
        """The id of the last event: `after` of a later stream."""
        return self._position.last_id

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def __enter__(self) -> EventStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends it."""
        self._events.close()

    def _run(self) -> Generator[Event, None, None]:
        attempts = Attempts(self._position.call(), self._transport.patience)
        while True:
            try:
                call = self._position.call()
                with self._transport.open(call, attempts) as answer:
                    # A server that was there once will be there again.
                    attempts = Attempts(call, self._transport.patience, endless=True)
                    for piece in answer.iter_bytes():
                        attempts.progress()
                        yield from self._position.feed(piece)
            except httpx.RequestError:
                pass
            self._transport.sleep(attempts.pause())


class AsyncEventStream:
    """Events as they come. It connects again by itself, also over restarts of the server, and goes
    on after the last event; it ends when it is closed or the server refuses it."""

    def __init__(
        self, transport: AsyncTransport, call: Call, after: str | int | None, cursor: str | None
    ) -> None:
        self._transport = transport
        self._position = _Position(call, after, cursor)
        self._events = self._run()

    @property
    def last_id(self) -> str | None:
        """The id of the last event: `after` of a later stream."""
        return self._position.last_id

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        return await self._events.__anext__()

    async def __aenter__(self) -> AsyncEventStream:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends it."""
        await self._events.aclose()

    async def _run(self) -> AsyncGenerator[Event, None]:
        attempts = Attempts(self._position.call(), self._transport.patience)
        while True:
            try:
                call = self._position.call()
                async with self._transport.open(call, attempts) as answer:
                    # A server that was there once will be there again.
                    attempts = Attempts(call, self._transport.patience, endless=True)
                    async for piece in answer.aiter_bytes():
                        attempts.progress()
                        for event in self._position.feed(piece):
                            yield event
            except httpx.RequestError:
                pass
            await self._transport.sleep(attempts.pause())


class _Rows:
    """How far an export is."""

    def __init__(self, call: Call, kind: Any) -> None:
        self.call = call
        self._kind = kind
        self._lines = Lines(rb"\n")

    def feed(self, piece: bytes) -> Iterator[Any]:
        for line in self._lines.feed(piece):
            row = parse(self._kind, line)
            self.call = replace(self.call, query={**self.call.query, "after": row.id})
            yield row

    def again(self) -> Call:
        self._lines = Lines(rb"\n")
        return self.call


class Export(Generic[RowT]):
    """Every row, in one answer. One that breaks off is continued after the last row."""

    def __init__(self, transport: Transport, call: Call, kind: type[RowT]) -> None:
        self._transport = transport
        self._call = call
        self._kind = kind

    def __iter__(self) -> Iterator[RowT]:
        rows = _Rows(self._call, self._kind)
        attempts = Attempts(self._call, self._transport.patience)
        while True:
            try:
                with self._transport.open(rows.again(), attempts) as answer:
                    for piece in answer.iter_bytes():
                        attempts.progress()
                        yield from rows.feed(piece)
                return
            except httpx.RequestError as error:
                self._transport.sleep(attempts.lost(error))


class AsyncExport(Generic[RowT]):
    """Every row, in one answer. One that breaks off is continued after the last row."""

    def __init__(self, transport: AsyncTransport, call: Call, kind: type[RowT]) -> None:
        self._transport = transport
        self._call = call
        self._kind = kind

    async def __aiter__(self) -> AsyncIterator[RowT]:
        rows = _Rows(self._call, self._kind)
        attempts = Attempts(self._call, self._transport.patience)
        while True:
            try:
                async with self._transport.open(rows.again(), attempts) as answer:
                    async for piece in answer.aiter_bytes():
                        attempts.progress()
                        for row in rows.feed(piece):
                            yield row
                return
            except httpx.RequestError as error:
                await self._transport.sleep(attempts.lost(error))
