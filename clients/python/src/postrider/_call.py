"""A request before it is sent."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal
from urllib.parse import quote

# Methods that may be carried out twice without harm.
REPEATABLE = frozenset({"GET", "PUT", "DELETE"})


class _Omitted(Enum):
    OMITTED = 0

    def __repr__(self) -> str:
        return "OMIT"


Omit = Literal[_Omitted.OMITTED]
OMIT: Final = _Omitted.OMITTED
"""An argument that is not given; None clears a field where an operation says so."""


def path(template: str, *values: str) -> str:
    """Fills the values into a path, each as one segment of it."""
    for value in values:
        if value in ("", ".", ".."):
            raise ValueError(f"{value!r} cannot be the id of anything")
    return template.format(*(quote(value, safe="") for value in values))


def _encode(value: object) -> Any:
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        text = value.astimezone(dt.timezone.utc).isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{value!r} has no form in JSON")


def _query(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(_encode(value) if isinstance(value, dt.date) else value)


class Upload(ABC):
    """A body that is sent piece by piece. One object stands for all tries of it."""

    content_type: str
    length: int | None

    @property
    @abstractmethod
    def can_be_sent(self) -> bool:
        """Whether it can be read from its beginning, still or again."""

    @abstractmethod
    def pieces(self) -> Iterator[bytes]:
        """The body of one try."""

    @abstractmethod
    def async_pieces(self) -> AsyncIterator[bytes]:
        """The same, for the client that awaits."""


@dataclass
class Call:
    """A request. One object stands for all tries of it."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    body_is_optional: bool = False
    upload: Upload | None = None
    infers_type: bool = False
    wait: int | None = None
    keyed: bool = False
    idempotency_key: str | None = None
    admin: bool = False
    timeout: float | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Made once, so that every try has the same.
        if self.keyed:
            self.headers["Idempotency-Key"] = self.idempotency_key or str(uuid.uuid4())
        if self.wait is not None:
            self.headers["Prefer"] = f"wait={self.wait}"

    @property
    def is_repeatable(self) -> bool:
        """Whether nothing is done twice when it is sent again after its answer was lost."""
        return self.keyed or self.method in REPEATABLE

    @property
    def can_be_sent(self) -> bool:
        """Whether there is still all of its body."""
        return self.upload is None or self.upload.can_be_sent

    def parameters(self) -> dict[str, str]:
        """The query without what is not given."""
        given = {key: value for key, value in self.query.items() if value is not OMIT}
        return {key: _query(value) for key, value in given.items() if value is not None}

    def content(self) -> bytes | None:
        """The body without what is not given."""
        if self.body is None:
            return None
        given = {key: value for key, value in self.body.items() if value is not OMIT}
        if self.body_is_optional and not given:
            return None
        if self.infers_type and "type" not in given:
            kinds = [kind for kind in ("template", "text") if given.get(kind) is not None]
            given |= {"type": kinds[0]} if kinds else {}
        return json.dumps(
            given, default=_encode, allow_nan=False, ensure_ascii=False, separators=(",", ":")
        ).encode()
