"""What envelopes share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

__all__ = ["BaseEnvelope"]


class BaseEnvelope(ABC):
    """Takes bodies out of their envelopes for a handler, and puts its answers into theirs.

    Args:
        handle_fn: the handler, called with the inputs of all requests and the context.
    """

    def __init__(self, handle_fn: Callable[[list[Any], Any], list[Any]]) -> None:
        self._handle_fn = handle_fn
        self.context: Any = None

    def handle(self, data: list[dict[str, Any]], context: Any) -> list[Any]:
        """Answers to a batch of wrapped requests."""
        self.context = context
        inputs = self.parse_input(data)
        return self.format_output(self._handle_fn(inputs, context))

    @abstractmethod
    def parse_input(self, data: list[dict[str, Any]]) -> list[Any]:
        """The inputs of all requests, one after the other."""

    @abstractmethod
    def format_output(self, data: list[Any]) -> list[Any]:
        """One answer for each request."""
