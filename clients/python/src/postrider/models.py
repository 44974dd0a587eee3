"""What the server answers, and its events."""

from ._generated.models import *  # noqa: F403
