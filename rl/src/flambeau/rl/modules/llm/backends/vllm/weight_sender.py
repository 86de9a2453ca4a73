"""The trainer's end of the process group by which engines get weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.modules.llm.backends.vllm.vllm_utils import get_open_port, stateless_init_process_group

__all__ = ["WeightSender"]


class WeightSender:
    """Broadcasts weights to all workers of one engine or of several.

    Args:
        calls: start a method in the workers of each engine and return at once, (name, args) -> something to wait for.
        wait: waits for what the calls gave, and raises what the workers raised.
        workers: how many workers each engine has.
        make_group: makes the communicator of rank 0.
    """

    def __init__(
        self, calls: list[Callable[[str, tuple[Any, ...]], Any]], wait: Callable[[list[Any]], Any], workers: int,
        make_group: Callable[..., Any] = stateless_init_process_group,
    ) -> None:  # fmt: skip
        self._calls, self._wait, self._workers, self._make_group = calls, wait, workers, make_group
        self.address, self.port = "localhost", get_open_port()
        self._group: Any = None

    def join(self) -> None:
        """Make the process group, once."""
        if self._group is not None:
            return
        size = 1 + self._workers * len(self._calls)
        pending = [
            call("init_weight_update_group", (self.address, self.port, 1 + at * self._workers, size))
            for at, call in enumerate(self._calls)
        ]
        self._group = self._make_group(self.address, self.port, 0, size)
        self._wait(pending)

    def send(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        """Broadcast tensors, one after the other.

        Args:
            weights: names and tensors.

        Raises:
            RuntimeError: `join` was not called.
        """
        if self._group is None:
            raise RuntimeError("there is no process group yet; call init_weight_update_group first.")
        for name, weight in weights:
            described = (name, str(weight.dtype).removeprefix("torch."), tuple(weight.shape))
            pending = [call("update_weight", described) for call in self._calls]
            stream = torch.cuda.current_stream() if torch.cuda.is_available() else None
            self._group.broadcast(weight.detach(), src=0, stream=stream)
            self._wait(pending)
