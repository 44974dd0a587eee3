"""Cuts what arrives into lines, and lines into the messages of an event stream: pure."""

from __future__ import annotations

import re
from dataclasses import dataclass


class Lines:
    """Lines of bytes that arrive in pieces. Only what is ended by a line break is a line."""

    def __init__(self, ends: bytes) -> None:
        self._end = re.compile(ends)
        self._rest = b""

    def feed(self, piece: bytes) -> list[bytes]:
        *lines, self._rest = self._end.split(self._rest + piece)
        return lines


@dataclass(frozen=True)
class Message:
    """A message of the stream; one without data only moves the position."""

    id: str | None
    data: str


class Messages:
    """The messages of a text/event-stream. What is cut off is none."""

    def __init__(self) -> None:
        # A CR at the end of a piece may be half of a CRLF, so it waits for what follows.
        self._lines = Lines(rb"\r\n|\n|\r(?!\Z)")
        self._id: str | None = None
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[Message]:
        found = []
        for line in self._lines.feed(piece):
            if line:
                self._field(line.decode("utf-8", "replace"))
            else:
                if self._data or self._id is not None:
                    found.append(Message(self._id, "\n".join(self._data)))
                self._id, self._data = None, []
        return found

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value
