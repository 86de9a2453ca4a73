"""Weights in memory that processes share: one writes, others read, and nobody waits or sees half of an update."""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.multiprocessing as mp

from flambeau.data.tensordict import TensorDictBase

_VERSION, _TAKEN = 0, 1
_PAUSE_S = 2e-4
"""Between looks at what another process writes."""


class Mailbox:
    """The latest weights for one reader.

    The version is odd while they are being written; a reader that sees it change reads again.

    Args:
        weights: what they are like; a copy of these is there at first.
        copy: make a copy; else their own memory is shared from now on.
    """

    def __init__(self, weights: TensorDictBase, copy: bool = True) -> None:
        self.weights: Any = (weights.detach().clone().cpu() if copy else weights.data).share_memory_()
        self.counters = torch.zeros(2, dtype=torch.int64).share_memory_()

    def fits(self, weights: TensorDictBase) -> bool:
        """Whether weights have the same names, shapes and dtypes."""
        return _layout(self.weights) == _layout(weights)

    def write(self, weights: TensorDictBase) -> int:
        """Put new weights in the place of the last ones.

        Returns:
            Their version.
        """
        version = int(self.counters[_VERSION]) | 1
        self.counters[_VERSION] = version
        self.weights.update_(weights)
        self.counters[_VERSION] = version + 1
        return version + 1

    @property
    def is_new(self) -> bool:
        """Whether there are weights that the reader has not taken, and nobody is writing."""
        version = int(self.counters[_VERSION])
        return version % 2 == 0 and version != int(self.counters[_TAKEN])

    def read(self) -> TensorDictBase | None:
        """The latest weights, as a copy; None while they are being written."""
        version = int(self.counters[_VERSION])
        if version % 2:
            return None
        weights: TensorDictBase = self.weights.clone()
        if int(self.counters[_VERSION]) != version:
            return None
        self.counters[_TAKEN] = version
        return weights

    def wait_taken(self, version: int, timeout: float, alive: Callable[[], bool] | None) -> None:
        """Wait until the reader took a version, or a later one.

        Args:
            version: as `write` returned it.
            timeout: in seconds.
            alive: whether the reader still is; where it is not, nobody waits.

        Raises:
            TimeoutError: it took longer.
        """
        deadline = time.monotonic() + timeout
        while int(self.counters[_TAKEN]) < version:
            if alive is not None and not alive():
                return
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"A worker has not taken new weights for {timeout:g} s. Workers look for them between steps; "
                    "set the environment variable TORCHRL_WEIGHT_SYNC_TIMEOUT to more seconds if these take so long, "
                    "or do not wait, with sync=False."
                )
            time.sleep(_PAUSE_S)


def _layout(weights: Any) -> dict[Any, Any]:
    return {key: (value.shape, value.dtype) for key, value in weights.items(True, True)}


class Slot:
    """Where a reader finds its mailbox: a pipe, over which it comes as soon as there are weights to make one of."""

    def __init__(self) -> None:
        self._reader, self._writer = mp.Pipe(duplex=False)
        self._box: Mailbox | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_reader": self._reader, "_writer": None, "_box": self._box}

    def post(self, weights: TensorDictBase) -> tuple[Mailbox, int]:
        """Write weights for the reader; their mailbox and version."""
        if self._box is None or not self._box.fits(weights):
            self._box = Mailbox(weights)
            self._box.counters[_VERSION] = 2
            self._sender().send(self._box)
            return self._box, 2
        return self._box, self._box.write(weights)

    def share(self, box: Mailbox) -> None:
        """Give the reader a mailbox that others read, too."""
        self._box = box
        self._sender().send(box)

    def _sender(self) -> Connection:
        if self._writer is None:
            raise RuntimeError("Only the process that made the weight scheme sends weights.")
        return self._writer

    def found(self, timeout: float | None) -> Mailbox | None:
        """The reader's mailbox; None where there is none after `timeout` seconds, which is None for no end."""
        wait = timeout if self._box is None else 0
        while self._reader.poll(wait):
            self._box = self._reader.recv()
            wait = 0
        return self._box

    def close(self) -> None:
        """Close the pipe."""
        for end in (self._reader, self._writer):
            if end is not None:
                end.close()
