"""Errors by their code."""

from ._generated.errors import *  # noqa: F403
