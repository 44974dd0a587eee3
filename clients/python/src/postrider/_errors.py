"""The one error that this package raises, and where it comes from."""

from __future__ import annotations

from typing import Any


class PostriderError(Exception):
    """A request that failed, or a webhook that is not genuine.

    `code` says which; a refusal of the server also has a class of its own, such as
    `OtpExpiredError`.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int | None = None,
        reason: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        """For a person; of a bad value it names the field."""
        self.code = code
        """For a program."""
        self.status = status
        """The HTTP status; None where no answer came."""
        self.reason = reason
        """What is behind a code that has several causes."""
        self.request_id = request_id
        """The request's id, which the server's log has too."""
        self.retry_after = retry_after
        """Seconds to wait before another try."""

    def __str__(self) -> str:
        status = "" if self.status is None else f"{self.status} "
        reason = "" if self.reason is None else f", {self.reason}"
        request = "" if self.request_id is None else f" [{self.request_id}]"
        return f"{self.message} ({status}{self.code}{reason}){request}"

    def __reduce__(self) -> tuple[Any, ...]:
        # By its attributes: what an exception has by itself is its message alone.
        return _again, (type(self), self.message, self.__dict__.copy())


def _again(kind: type[PostriderError], message: str, attributes: dict[str, Any]) -> PostriderError:
    error = kind(message, code="")
    error.__dict__.update(attributes)
    return error


class ConnectionFailedError(PostriderError):
    """No answer came. Whether the server did what it was asked is not known, unless it was never
    reached: then `code` is `CONNECTION_FAILED`, and else `ANSWER_LOST`."""


class AnswerTimeoutError(PostriderError):
    """No answer came in time (`TIMEOUT`). Whether the server did what it was asked is not known."""


class UnexpectedAnswerError(PostriderError):
    """What answered is not Postrider, or one whose answers this version does not know
    (`UNEXPECTED_ANSWER`)."""


class WebhookVerificationError(PostriderError):
    """The body was not signed with this secret, or not lately (`WEBHOOK_NOT_VERIFIED`)."""
