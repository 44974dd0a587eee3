"""The server and the clients of the tests."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from server import Server
from server import server as running_server

from postrider import AsyncPostrider, Postrider


class Face:
    """One of the two clients. Tests use both alike: `run` awaits what has to be awaited."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.loop = asyncio.new_event_loop()
        self.clients: list[Any] = []

    def client(self, url: str, key: str | None, **options: Any) -> Any:
        """A client, and in `waits` the seconds that it would have waited."""
        made: Any = (Postrider if self.kind == "sync" else AsyncPostrider)(url, key, **options)
        made.waits = []

        async def wait(seconds: float) -> None:
            made.waits.append(seconds)

        made._transport.sleep = made.waits.append if self.kind == "sync" else wait
        self.clients.append(made)
        return made

    def run(self, value: Any) -> Any:
        return self.loop.run_until_complete(value) if inspect.isawaitable(value) else value

    def take(self, rows: Any, count: int | None = None) -> list[Any]:
        """The first rows, or all of them."""
        if not hasattr(rows, "__aiter__"):
            return list(itertools.islice(rows, count))
        return self.loop.run_until_complete(self._take(rows, count))

    async def _take(self, rows: Any, count: int | None) -> list[Any]:
        found: list[Any] = []
        if count == 0:
            return found
        async for row in rows:
            found.append(row)
            if len(found) == count:
                break
        return found

    def close(self) -> None:
        for client in self.clients:
            self.run(client.close())
        self.loop.close()


@pytest.fixture(params=["sync", "async"])
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    made = Face(request.param)
    yield made
    made.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture
def client(face: Face, server: Server) -> Any:
    return face.client(server.url, server.key, admin_token=server.token)


PHONES = itertools.count(15_550_100_000)


@pytest.fixture
def phone() -> str:
    """A phone that no other test has."""
    return f"+{next(PHONES)}"
