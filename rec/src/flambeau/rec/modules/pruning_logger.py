"""Where prunings are logged."""

from __future__ import annotations

import abc
import types
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["PruningLogBase", "PruningLogger", "PruningLoggerDefault"]


@dataclass
class PruningLogBase:
    """What is logged of a pruning; to be extended by those who log."""


class PruningLogger(abc.ABC):
    """Logs prunings; to be written by those who keep logs."""

    @classmethod
    @abc.abstractmethod
    @contextmanager
    def pruning_logger(
        cls, event: str, trainer: str | None = None, publisher: str | None = None
    ) -> Generator[object, None, None]:
        """A log of one event, whose attributes are set while it lasts.

        Args:
            event: what happens.
            trainer: who trains.
            publisher: who publishes.
        """
        yield PruningLogBase()


class PruningLoggerDefault(PruningLogger):
    """Logs nothing."""

    @classmethod
    @contextmanager
    def pruning_logger(
        cls, event: str, trainer: str | None = None, publisher: str | None = None
    ) -> Generator[object, None, None]:
        """Something whose attributes can be set; see `PruningLogger.pruning_logger`."""
        yield types.SimpleNamespace()
