"""The two clients."""

from __future__ import annotations

from types import TracebackType

import httpx

from ._attempts import Patience
from ._generated.async_resources import AsyncResources
from ._generated.resources import Resources
from ._transport import AsyncTransport, Transport


class Postrider(Resources):
    """A client of one server.

    `api_key` is for everything but `client.admin`, which needs `admin_token`. `timeout` is how long
    an answer may take, in seconds, and `max_retries` how often a request is sent again that was
    refused for a time or not answered; one that could have an effect twice never is. A refusal that
    asks for a longer wait than `max_wait` seconds is raised at once.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        admin_token: str | None = None,
        timeout: float = 30.0,
        max_retries: int = 3,
        max_wait: float = 60.0,
        http_client: httpx.Client | None = None,
    ) -> None:
        patience = Patience(max_retries, max_wait, timeout)
        self._transport = Transport(base_url, api_key, admin_token, patience, http_client)
        super().__init__(self._transport)

    def close(self) -> None:
        """Closes its connections."""
        self._transport.close()

    def __enter__(self) -> Postrider:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncPostrider(AsyncResources):
    """The same as `Postrider`, with `await`."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        admin_token: str | None = None,
        timeout: float = 30.0,
        max_retries: int = 3,
        max_wait: float = 60.0,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        patience = Patience(max_retries, max_wait, timeout)
        self._transport = AsyncTransport(base_url, api_key, admin_token, patience, http_client)
        super().__init__(self._transport)

    async def close(self) -> None:
        """Closes its connections."""
        await self._transport.close()

    async def __aenter__(self) -> AsyncPostrider:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
