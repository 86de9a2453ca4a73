"""Tensors whose memory on an accelerator is lent out while their content waits on the host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

__all__ = ["HostStash"]


class HostStash:
    """Keeps the content of tensors on the host, and gives their memory back, until it is restored.

    Args:
        stream: on which copies are made; None on the CPU.
    """

    def __init__(self, stream: Any = None) -> None:
        self._stream = stream
        self._kept: list[tuple[Any, Tensor]] = []

    def __len__(self) -> int:
        return len(self._kept)

    def stash(self, tensors: Iterable[Tensor]) -> None:
        """Copy tensors to the host, and free their memory; whatever views it is of no use until `restore`.

        Args:
            tensors: those that lie in the same memory count once.
        """
        storages = {one.untyped_storage().data_ptr(): one.untyped_storage() for one in tensors if one.numel()}
        current = torch.cuda.current_stream() if self._stream is not None else None
        if self._stream is not None:
            self._stream.wait_stream(current)
        for storage in storages.values():
            content = _bytes(storage)
            pinned = content.device.type == "cuda"
            kept = torch.empty(content.shape, dtype=torch.uint8, pin_memory=pinned)
            with torch.cuda.stream(self._stream):
                kept.copy_(content, non_blocking=pinned)
            self._kept.append((storage, kept))
        if self._stream is not None:
            self._stream.synchronize()  # memory is free once the copy is made
        for storage, _ in self._kept:
            storage.resize_(0)

    def restore(self) -> None:
        """Give tensors their memory and content back; without any that were stashed, nothing."""
        for storage, kept in self._kept:
            storage.resize_(kept.numel())
            _bytes(storage).copy_(kept, non_blocking=kept.is_pinned())
        self._kept.clear()


def _bytes(storage: Any) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
