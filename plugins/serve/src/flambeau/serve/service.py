"""A handler of an archive, called with batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.serve.context import Context

__all__ = ["Service"]


class Service:
    """A handler and its context, as TorchServe's workers hold them.

    Args:
        entry_point: called with the batch's data and the context.
        context: of the model.
    """

    def __init__(self, entry_point: Callable[[Any, Context], Any], context: Context) -> None:
        self._entry_point = entry_point
        self._context = context

    @property
    def context(self) -> Context:
        """Of the model."""
        return self._context

    def predict(self, data: list[dict[str, Any]]) -> list[Any]:
        """The handler's answers.

        Raises:
            ValueError: it returned no list, or one of another length.
        """
        found = self._entry_point(data, self._context)
        if not isinstance(found, list):
            raise ValueError("Invalid model predict output")
        if len(found) != len(data):
            raise ValueError("number of batch response mismatched")
        return found
