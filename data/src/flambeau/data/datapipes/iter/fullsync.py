"""Ending a pass on all ranks together."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, TypeVar

import torch

from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe

T_co = TypeVar("T_co", covariant=True)


class PrefetchTimeoutError(RuntimeError):
    """The other ranks did not answer in time.

    Args:
        timeout: seconds that were waited.
    """

    def __init__(self, timeout: float) -> None:
        super().__init__(
            f"fullsync: not every rank had its next sample, or its end, within {timeout:g} s; look at the ranks that "
            "lag, or raise the timeout."
        )
        self.timeout = timeout

    def __reduce__(self) -> tuple[type[PrefetchTimeoutError], tuple[float]]:
        return type(self), (self.timeout,)


@functional_datapipe("fullsync")
class FullSyncIterDataPipe(IterDataPipe[T_co]):
    """Ends on every rank as soon as one rank has no more samples (functional name: `fullsync`).

    A rank that waited for gradients of a rank without samples would wait for ever. At every step the ranks agree, over
    a gloo group of their own, whether all of them have a next sample.

    Args:
        datapipe: source.
        timeout: seconds to wait for the other ranks, > 0.

    Raises:
        RuntimeError: while iterating, when there is no process group.
        PrefetchTimeoutError: while iterating, when a rank did not answer in time.
    """

    state_fields = ("_ahead",)
    transient = ("_group",)

    def __init__(self, datapipe: IterDataPipe[T_co], timeout: float = 1800) -> None:
        if timeout <= 0:
            raise ValueError(f"timeout has to be > 0 seconds, got {timeout}.")
        self.datapipe = datapipe
        self.timeout = timeout

    def reset(self) -> None:
        """Go back to the beginning."""
        self._ahead: list[Any] = []

    def __iter__(self) -> Iterator[T_co]:
        import torch.distributed as dist

        if not (dist.is_available() and dist.is_initialized()):
            raise RuntimeError("fullsync needs a process group; call torch.distributed.init_process_group first.")
        if "_group" not in self.__dict__:
            self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=self.timeout))
        source = iter(self.datapipe)
        while True:
            if not self._ahead:
                self._ahead.extend(_one(source))
            everyone = torch.tensor([len(self._ahead)], dtype=torch.int32)
            self._agree(everyone)
            if not everyone.item():
                return
            yield self._ahead.pop()

    def _agree(self, everyone: torch.Tensor) -> None:
        """Let all ranks have the least of their values."""
        import torch.distributed as dist

        try:
            dist.all_reduce(everyone, op=dist.ReduceOp.MIN, group=self._group)
        except RuntimeError as error:
            if "timed out" not in str(error).lower():  # gloo has no class of its own for it
                raise
            raise PrefetchTimeoutError(self.timeout) from error

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


def _one(source: Iterator[Any]) -> list[Any]:
    for item in source:
        return [item]
    return []
