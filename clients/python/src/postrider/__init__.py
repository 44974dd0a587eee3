"""A client of Postrider, which sends one-time passwords and business messages."""

from . import errors, inputs, models
from ._client import AsyncPostrider, Postrider
from ._errors import (
    AnswerTimeoutError,
    ConnectionFailedError,
    PostriderError,
    UnexpectedAnswerError,
    WebhookVerificationError,
)
from ._files import AsyncDownload, Download
from ._generated.models import Event
from ._stream import AsyncEventStream, EventStream
from ._version import VERSION
from ._webhooks import verify_webhook, verify_webhook_batch

__version__ = VERSION

__all__ = [
    "AnswerTimeoutError",
    "AsyncDownload",
    "AsyncEventStream",
    "AsyncPostrider",
    "ConnectionFailedError",
    "Download",
    "Event",
    "EventStream",
    "Postrider",
    "PostriderError",
    "UnexpectedAnswerError",
    "WebhookVerificationError",
    "__version__",
    "errors",
    "inputs",
    "models",
    "verify_webhook",
    "verify_webhook_batch",
]
