"""Streams of an accelerator, which stages of a pipeline run on; on the CPU there are none, and nothing waits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from flambeau.rec.streamable import Multistreamable

__all__ = ["current_stream", "keep_for", "moved", "new_stream", "on_stream", "waited"]


def new_stream(device: torch.device, priority: int = -1) -> Any:
    """A stream of an accelerator; None on the CPU.

    Args:
        device: of the stages.
        priority: lower numbers go first.
    """
    return torch.cuda.Stream(device, priority=priority) if device.type == "cuda" else None


def current_stream(device: torch.device) -> Any:
    """The stream that kernels are put on now; None on the CPU."""
    return torch.cuda.current_stream(device) if device.type == "cuda" else None


def on_stream(stream: Any) -> contextlib.AbstractContextManager[Any]:
    """Within it, kernels are put on a stream; nothing changes without one, or with one of the CPU."""
    return torch.cuda.stream(stream) if isinstance(stream, torch.cuda.Stream) else contextlib.nullcontext()


def waited(stream: Any, other: Any) -> None:
    """Have a stream wait for what another one does; either may be None."""
    if isinstance(stream, torch.cuda.Stream) and isinstance(other, torch.cuda.Stream) and stream != other:
        stream.wait_stream(other)


def moved(batch: Any, device: torch.device) -> Any:
    """The batch on a device, without waiting; what has no `to` as it is."""
    return batch.to(device, non_blocking=True) if hasattr(batch, "to") else batch


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, (torch.Tensor, Multistreamable)) or callable(getattr(value, "record_stream", None)):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def keep_for(value: Any, stream: Any) -> None:
    """Keep the memory of tensors until a stream is done with it.

    Args:
        value: tensors, what has `record_stream`, and lists and dictionaries of them.
        stream: None on the CPU, where nothing has to be done.
    """
    if isinstance(stream, torch.cuda.Stream):
        for one in _tensors(value):
            one.record_stream(stream)
