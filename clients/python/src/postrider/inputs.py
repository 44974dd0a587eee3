"""What requests hold."""

from ._generated.inputs import *  # noqa: F403
