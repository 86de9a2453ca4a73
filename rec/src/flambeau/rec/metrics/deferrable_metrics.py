"""Values that may still be on their way: computed by another thread, or by an accelerator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import torch
from torch import Tensor

__all__ = ["DeferrableMetrics", "device_supports_async", "transfer_tensors_to_cpu"]


class DeferrableMetrics(Mapping[str, Any]):
    """Values by key, or the promise of them; whoever reads one waits for it.

    Args:
        inner: the values, or a future of them.

    Example:
        >>> promised = Future()
        >>> values = DeferrableMetrics(promised)
        >>> values.update({"step": 3})
        >>> promised.set_result({"loss": 0.5})
        >>> dict(values)
        {'loss': 0.5, 'step': 3}
    """

    def __init__(self, inner: dict[str, Any] | Future[dict[str, Any]]) -> None:
        self._inner = inner
        self._additions: list[dict[str, Any] | DeferrableMetrics] = []

    def resolve(self) -> dict[str, Any]:
        """The values, after waiting for them.

        Raises:
            Exception: what the computation raised.
        """
        if isinstance(self._inner, Future):
            self._inner = dict(self._inner.result())
        while self._additions:
            addition = self._additions.pop(0)
            self._inner.update(addition.resolve() if isinstance(addition, DeferrableMetrics) else addition)
        return self._inner

    def is_resolved(self) -> bool:
        """Whether the values are there, so that nobody would wait."""
        if isinstance(self._inner, Future) and not self._inner.done():
            return False
        return all(one.is_resolved() for one in self._additions if isinstance(one, DeferrableMetrics))

    def update(self, other: dict[str, Any] | DeferrableMetrics) -> None:
        """Add values, or replace them, without waiting for any.

        Args:
            other: values by key, or the promise of them.
        """
        self._additions.append(other if isinstance(other, DeferrableMetrics) else dict(other))
        if not isinstance(self._inner, Future) and self.is_resolved():
            self.resolve()

    def subscribe(
        self, callback: Callable[[dict[str, Any]], None], on_error: Callable[[Exception], None] | None = None
    ) -> None:
        """Call a function with the values when they are there, at once if they are.

        Args:
            callback: called with the values, by the thread that has them last.
            on_error: called with the error if there are none to come.
        """
        pending = self._pending()
        if pending is not None:
            pending.add_done_callback(lambda _: self.subscribe(callback, on_error))
            return
        try:
            values = self.resolve()
        except Exception as error:
            if on_error is None:
                raise
            on_error(error)
            return
        callback(values)

    def _pending(self) -> Future[dict[str, Any]] | None:
        """A future that is waited for."""
        if isinstance(self._inner, Future) and not self._inner.done():
            return self._inner
        promised = (one._pending() for one in self._additions if isinstance(one, DeferrableMetrics))
        return next((one for one in promised if one is not None), None)

    def __getitem__(self, key: str) -> Any:
        return self.resolve()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.resolve())

    def __len__(self) -> int:
        return len(self.resolve())

    def __repr__(self) -> str:
        return f"DeferrableMetrics({f'resolved, {len(self)} keys' if self.is_resolved() else 'pending'})"


def device_supports_async(device: torch.device) -> bool:
    """Whether copies from a device can go on while the host does something else."""
    return device.type == "cuda"


def transfer_tensors_to_cpu(tensors: dict[str, Any]) -> tuple[dict[str, Any], torch.cuda.Event | None]:
    """Start copying the tensors among some values to the CPU.

    Args:
        tensors: values by name; what is no tensor stays as it is.

    Returns:
        The copies, and the event after which they can be read; None where they can be at once.
    """
    asynchronous = any(isinstance(one, Tensor) and device_supports_async(one.device) for one in tensors.values())
    copies = {
        name: one.detach().to("cpu", non_blocking=asynchronous) if isinstance(one, Tensor) else one
        for name, one in tensors.items()
    }
    event = None
    if asynchronous:
        event = torch.cuda.Event()
        event.record()
    return copies, event
