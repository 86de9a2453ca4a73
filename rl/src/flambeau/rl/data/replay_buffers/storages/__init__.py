"""Storages: where a replay buffer keeps its items."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "base": ("Storage",),
        "compressed": ("CompressedListStorage",),
        "ensemble": ("StorageEnsemble",),
        "list": ("LazyStackStorage", "ListStorage"),
        "memmap": ("LazyMemmapStorage",),
        "store": ("StoreStorage",),
        "tensor": ("LazyTensorStorage", "TensorStorage"),
    },
)
