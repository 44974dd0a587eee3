"""Lists that ask for their next page when it is needed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar, cast

import pydantic

from ._call import OMIT, Call
from ._transport import AsyncTransport, Transport

RowT = TypeVar("RowT")
AnswerT = TypeVar("AnswerT", bound=pydantic.BaseModel)

# As many rows as the server gives at a time: fewer requests, of which a key has a limit.
ROWS_OF_A_PAGE = 200


def _with(call: Call, **query: Any) -> Call:
    given = {key: value for key, value in query.items() if value is not None}
    return replace(call, query={**call.query, **given})


def _first(call: Call) -> Call:
    return _with(call, limit=ROWS_OF_A_PAGE) if call.query.get("limit") is OMIT else call


def _rows(answer: Any) -> list[Any]:
    return cast("list[Any]", answer.data)


def _next_page(call: Call, answer: Any) -> Call | None:
    """The call for the page after this one; None after the last."""
    limit = call.query["limit"]
    is_last = not _rows(answer) or answer.page * limit >= answer.total
    return None if is_last else _with(call, page=answer.page + 1)


def _next_cursor(call: Call, answer: Any) -> Call | None:
    """The same for a log, whose last part names no other cursor than the one asked for."""
    query: Mapping[str, Any] = call.query
    is_last = answer.next_cursor is None or answer.next_cursor == query.get("cursor")
    return None if is_last else _with(call, cursor=answer.next_cursor)


class Pages(Generic[RowT, AnswerT]):
    """The rows of a list, of all its pages. Every loop asks anew."""

    _next = staticmethod(_next_page)

    def __init__(self, transport: Transport, call: Call, kind: type[AnswerT]) -> None:
        self._transport = transport
        self._call = _first(call)
        self._kind = kind

    def __iter__(self) -> Iterator[RowT]:
        for answer in self.pages():
            yield from _rows(answer)

    def pages(self) -> Iterator[AnswerT]:
        """The pages as the server answers them, with `total` and what else they have."""
        call: Call | None = self._call
        while call is not None:
            answer = self._transport.answer(call, self._kind)
            yield answer
            call = self._next(call, answer)

    def page(self) -> AnswerT:
        """One page alone: the first, or the one that was asked for."""
        return self._transport.answer(self._call, self._kind)


class CursorPages(Pages[RowT, AnswerT]):
    """The entries of a log, up to its present end."""

    _next = staticmethod(_next_cursor)


class AsyncPages(Generic[RowT, AnswerT]):
    """The rows of a list, of all its pages. Every loop asks anew."""

    _next = staticmethod(_next_page)

    def __init__(self, transport: AsyncTransport, call: Call, kind: type[AnswerT]) -> None:
        self._transport = transport
        self._call = _first(call)
        self._kind = kind

    async def __aiter__(self) -> AsyncIterator[RowT]:
        async for answer in self.pages():
            for row in _rows(answer):
                yield row

    async def pages(self) -> AsyncIterator[AnswerT]:
        """The pages as the server answers them, with `total` and what else they have."""
        call: Call | None = self._call
        while call is not None:
            answer = await self._transport.answer(call, self._kind)
            yield answer
            call = self._next(call, answer)

    async def page(self) -> AnswerT:
        """One page alone: the first, or the one that was asked for."""
        return await self._transport.answer(self._call, self._kind)


class AsyncCursorPages(AsyncPages[RowT, AnswerT]):
    """The entries of a log, up to its present end."""

    _next = staticmethod(_next_cursor)
