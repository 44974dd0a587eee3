"""Sends requests, waits and sends them again; the same twice, with and without `await`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

import httpx
import pydantic

from ._attempts import Attempts, Patience
from ._call import Call
from ._errors import PostriderError, UnexpectedAnswerError
from ._version import VERSION

AnswerT = TypeVar("AnswerT", bound=pydantic.BaseModel)

# The server sends a sign of life every 15 seconds.
STREAM_SILENCE_SECONDS = 45.0


class Shared:
    """What both transports know."""

    def __init__(
        self, base_url: str, api_key: str | None, admin_token: str | None, patience: Patience
    ) -> None:
        self.patience = patience
        self._base_url = base_url.strip().rstrip("/").removesuffix("/v1")
        self._keys = {False: api_key, True: admin_token}

    def request(self, client: httpx.Client | httpx.AsyncClient, call: Call) -> httpx.Request:
        """The request of one try."""
        key = self._keys[call.admin]
        if key is None:
            what = "an admin token" if call.admin else "an API key"
            raise PostriderError(f"{call.path} needs {what}, and none was given", code="NO_KEY")
        headers = {
            "Authorization": f"Bearer {key.strip()}",
            "User-Agent": f"postrider-python/{VERSION}",
            **call.headers,
        }
        content: bytes | Iterator[bytes] | AsyncIterator[bytes] | None = call.content()
        if content is not None:
            headers["Content-Type"] = "application/json"
        if call.upload is not None:
            headers["Content-Type"] = call.upload.content_type
            if call.upload.length is not None:
                headers["Content-Length"] = str(call.upload.length)
            is_async = isinstance(client, httpx.AsyncClient)
            content = call.upload.async_pieces() if is_async else call.upload.pieces()
        seconds = self.patience.timeout if call.timeout is None else call.timeout
        return client.build_request(
            call.method,
            self._base_url + call.path,
            params=call.parameters(),
            headers=headers,
            content=content,
            timeout=httpx.Timeout(seconds, read=seconds + (call.wait or 0)),
        )

    def stream_request(self, client: httpx.Client | httpx.AsyncClient, call: Call) -> httpx.Request:
        """The request of a stream, which may be silent for longer."""
        request = self.request(client, call)
        timeouts = httpx.Timeout(self.patience.timeout, read=STREAM_SILENCE_SECONDS)
        request.extensions["timeout"] = timeouts.as_dict()
        return request


def decode(answer: httpx.Response, kind: type[AnswerT]) -> AnswerT:
    """The body of an answer as a model."""
    try:
        return kind.model_validate_json(answer.content)
    except pydantic.ValidationError as error:
        raise UnexpectedAnswerError(
            f"the answer is no {kind.__name__}: {error}",
            code="UNEXPECTED_ANSWER",
            status=answer.status_code,
            request_id=answer.headers.get("x-request-id"),
        ) from error


class Transport(Shared):
    """Sends requests one after the other."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        admin_token: str | None,
        patience: Patience,
        client: httpx.Client | None,
    ) -> None:
        super().__init__(base_url, api_key, admin_token, patience)
        self._client = client or httpx.Client()
        self.sleep = time.sleep

    def close(self) -> None:
        self._client.close()

    def send(self, call: Call) -> httpx.Response:
        attempts = Attempts(call, self.patience)
        while True:
            try:
                answer = self._client.send(self.request(self._client, call))
            except httpx.RequestError as error:
                wait = attempts.lost(error)
            else:
                if answer.is_success:
                    return answer
                wait = attempts.refused(answer)
            self.sleep(wait)

    def answer(self, call: Call, kind: type[AnswerT]) -> AnswerT:
        return decode(self.send(call), kind)

    def nothing(self, call: Call) -> None:
        self.send(call)

    @contextmanager
    def open(self, call: Call, attempts: Attempts) -> Iterator[httpx.Response]:
        """The answer of a stream, whose body is read by the caller."""
        while True:
            try:
                request = self.stream_request(self._client, call)
                answer = self._client.send(request, stream=True)
                if not answer.is_success:
                    answer.read()
            except httpx.RequestError as error:
                wait = attempts.lost(error)
            else:
                if answer.is_success:
                    break
                wait = attempts.refused(answer)
            self.sleep(wait)
        try:
            yield answer
        finally:
            answer.close()


class AsyncTransport(Shared):
    """Sends requests of many tasks at a time."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        admin_token: str | None,
        patience: Patience,
        client: httpx.AsyncClient | None,
    ) -> None:
        super().__init__(base_url, api_key, admin_token, patience)
        self._client = client or httpx.AsyncClient()
        self.sleep = asyncio.sleep

    async def close(self) -> None:
        await self._client.aclose()

    async def send(self, call: Call) -> httpx.Response:
        attempts = Attempts(call, self.patience)
        while True:
            try:
                answer = await self._client.send(self.request(self._client, call))
            except httpx.RequestError as error:
                wait = attempts.lost(error)
            else:
                if answer.is_success:
                    return answer
                wait = attempts.refused(answer)
            await self.sleep(wait)

    async def answer(self, call: Call, kind: type[AnswerT]) -> AnswerT:
        return decode(await self.send(call), kind)

    async def nothing(self, call: Call) -> None:
        await self.send(call)

    @asynccontextmanager
    async def open(self, call: Call, attempts: Attempts) -> AsyncIterator[httpx.Response]:
        """The answer of a stream, whose body is read by the caller."""
        while True:
            try:
                request = self.stream_request(self._client, call)
                answer = await self._client.send(request, stream=True)
                if not answer.is_success:
                    await answer.aread()
            except httpx.RequestError as error:
                wait = attempts.lost(error)
            else:
                if answer.is_success:
                    break
                wait = attempts.refused(answer)
            await self.sleep(wait)
        try:
            yield answer
        finally:
            await answer.aclose()
