"""Changes to a whole pipeline that are asked for where it is loaded."""

from __future__ import annotations

import abc
import warnings
from typing import Any

from flambeau.data.dataloader2.graph import list_dps, traverse_dps


class Adapter(abc.ABC):
    """Takes the last pipe of a pipeline and returns the last pipe of the changed one."""

    @abc.abstractmethod
    def __call__(self, datapipe: Any) -> Any:
        """Change the pipeline."""


class Shuffle(Adapter):
    """Turns all shuffling on or off.

    Args:
        enable: True turns it on, and adds a `shuffle()` at the end, with a warning, where there is none; False turns
            it off; None leaves all as it is.
    """

    def __init__(self, enable: bool | None = True) -> None:
        self.enable = enable

    def __call__(self, datapipe: Any) -> Any:
        """Change the pipeline."""
        if self.enable is None:
            return datapipe
        shufflers = [
            pipe for pipe in list_dps(traverse_dps(datapipe)) if callable(getattr(type(pipe), "set_shuffle", None))
        ]
        if not shufflers and self.enable:
            warnings.warn(
                "Shuffle(True): the pipeline has no shuffle, so one is added at its end, with its usual buffer of "
                "10,000 samples; put a shuffle() where it belongs, or use Shuffle(None).",
                UserWarning,
                stacklevel=3,
            )
            datapipe = datapipe.shuffle()
            shufflers = [datapipe]
        for pipe in shufflers:
            pipe.set_shuffle(self.enable)
        return datapipe


class CacheTimeout(Adapter):
    """Sets how long a pipeline waits for other processes that fill a disk cache.

    Args:
        timeout: seconds, >= 0; None leaves all as it is.
    """

    def __init__(self, timeout: float | None = None) -> None:
        if timeout is not None and timeout < 0:
            raise ValueError(f"timeout has to be >= 0 seconds, got {timeout}.")
        self.timeout = timeout

    def __call__(self, datapipe: Any) -> Any:
        """Change the pipeline."""
        if self.timeout is not None:
            for pipe in list_dps(traverse_dps(datapipe)):
                if callable(getattr(type(pipe), "set_timeout", None)):
                    pipe.set_timeout(self.timeout)
        return datapipe
