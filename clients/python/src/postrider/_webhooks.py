"""Checks that a webhook comes from the server, and reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pydantic
from standardwebhooks import Webhook

from ._errors import WebhookVerificationError

if TYPE_CHECKING:
    from ._generated.models import Event


def verify_webhook(body: bytes | str, headers: Mapping[str, str], secret: str) -> Event:
    """The event of a delivery, whose body must be as it arrived, byte for byte.

    Raises `WebhookVerificationError` if it was not signed with the endpoint's secret, or longer
    ago than five minutes. A delivery may come twice: an event's id tells.
    """
    text = _verified(body, headers, secret)
    if text.lstrip().startswith("["):
        raise _error("it is a batch: an endpoint with `batch` needs verify_webhook_batch")
    return _parsed(text)[0]


def verify_webhook_batch(body: bytes | str, headers: Mapping[str, str], secret: str) -> list[Event]:
    """The events of a delivery to an endpoint with `batch`: one or several."""
    return _parsed(_verified(body, headers, secret))


def _error(message: str) -> WebhookVerificationError:
    return WebhookVerificationError(
        f"the webhook is refused: {message}", code="WEBHOOK_NOT_VERIFIED"
    )


def _verified(body: bytes | str, headers: Mapping[str, str], secret: str) -> str:
    try:
        text = body if isinstance(body, str) else body.decode()
        Webhook(secret.strip()).verify(text, dict(headers), json_parse=False)
    except Exception as error:
        # Forged headers make the library raise more than its own error.
        raise _error(str(error) or type(error).__name__) from error
    return text


def _parsed(text: str) -> list[Event]:
    from ._generated import models

    is_batch = text.lstrip().startswith("[")
    kind: Any = list[models.Event] if is_batch else models.Event
    try:
        found = pydantic.TypeAdapter(kind).validate_json(text)
    except pydantic.ValidationError as error:
        raise _error(f"it is no event: {error}") from error
    return found if is_batch else [found]
