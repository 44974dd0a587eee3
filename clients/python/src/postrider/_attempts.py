"""Decides whether a request is sent again, and when: pure, for both clients."""

from __future__ import annotations

import random
from dataclasses import dataclass

import httpx

from ._call import Call
from ._errors import (
    AnswerTimeoutError,
    ConnectionFailedError,
    PostriderError,
    UnexpectedAnswerError,
)
from ._generated.errors import BY_CODE

FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 8.0
# Answers after which the same request may succeed. Only after 429 it is certain that nothing was
# done; a 503 may come from a server that gave up waiting for its own disk.
TRY_LATER = frozenset({408, 429, 500, 502, 503, 504})
UNDER_WAY = "idempotency_under_way"


@dataclass(frozen=True)
class Patience:
    """How often and how long a client tries."""

    max_retries: int = 3
    max_wait: float = 60.0
    timeout: float = 30.0


def refusal(answer: httpx.Response) -> PostriderError:
    """The error of an answer that has been read."""
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict) or not isinstance(body.get("code"), str):
        return UnexpectedAnswerError(
            f"the answer is none of Postrider's: {answer.text[:200]!r}",
            code="UNEXPECTED_ANSWER",
            status=answer.status_code,
            request_id=answer.headers.get("x-request-id"),
            retry_after=_seconds(answer.headers.get("retry-after")),
        )
    seconds = answer.headers.get("retry-after", body.get("retry_after"))
    return BY_CODE.get(body["code"], PostriderError)(
        str(body.get("message", "")),
        code=body["code"],
        status=answer.status_code,
        reason=body.get("reason"),
        request_id=body.get("request_id", answer.headers.get("x-request-id")),
        retry_after=_seconds(seconds),
    )


def _seconds(value: object) -> float | None:
    try:
        seconds = float(str(value))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def failure(error: httpx.RequestError) -> PostriderError:
    """The error of a request that was not answered."""
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    if was_not_sent(error):
        return ConnectionFailedError(f"no connection: {text}", code="CONNECTION_FAILED")
    if isinstance(error, httpx.TimeoutException):
        return AnswerTimeoutError(f"no answer in time: {text}", code="TIMEOUT")
    return ConnectionFailedError(f"the answer was lost: {text}", code="ANSWER_LOST")


def was_not_sent(error: httpx.RequestError) -> bool:
    """Whether the server surely saw nothing of the request."""
    never = (
        httpx.ConnectError,
        httpx.ConnectTimeout,
        httpx.PoolTimeout,
        httpx.UnsupportedProtocol,
        httpx.LocalProtocolError,
        httpx.ProxyError,
    )
    return isinstance(error, never)


class Attempts:
    """The tries of one request. Each method gives the seconds until the next one, or raises."""

    def __init__(self, call: Call, patience: Patience, endless: bool = False) -> None:
        self._call = call
        self._patience = patience
        self._endless = endless
        self._made = 0

    def lost(self, error: httpx.RequestError) -> float:
        """The request was not answered."""
        # What can never be sent is not tried again.
        hopeless = isinstance(error, (httpx.UnsupportedProtocol, httpx.LocalProtocolError))
        again = was_not_sent(error) or self._call.is_repeatable
        if hopeless or not (again and self._call.can_be_sent) or not self._one_more():
            raise failure(error) from error
        return self._backoff()

    def refused(self, answer: httpx.Response) -> float:
        """The server answered with an error, which has been read."""
        error = refusal(answer)
        status = answer.status_code
        under_way = status == 409 and error.reason == UNDER_WAY
        again = status == 429 or under_way or (status in TRY_LATER and self._call.is_repeatable)
        wait = error.retry_after
        is_too_long = wait is not None and wait > self._patience.max_wait and not self._endless
        again = again and self._call.can_be_sent
        if not again or is_too_long or not self._one_more():
            raise error
        return self._backoff() if wait is None else wait + random.uniform(0, 0.1)

    def progress(self) -> None:
        """Something has arrived: what fails next is a new failure."""
        self._made = 0

    def pause(self) -> float:
        """A stream has ended that began well."""
        self._made += 1
        return self._backoff()

    def _one_more(self) -> bool:
        self._made += 1
        return self._endless or self._made <= self._patience.max_retries

    def _backoff(self) -> float:
        # The exponent has a bound, so that an endless stream does not overflow.
        wait = FIRST_WAIT_SECONDS * 2.0 ** min(self._made - 1, 10)
        return min(wait, LONGEST_WAIT_SECONDS) * random.uniform(0.5, 1.0)
