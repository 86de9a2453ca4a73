"""Tensors in files: `MemoryMappedTensor`, and the layout in which whole TensorDicts are stored."""

from __future__ import annotations

from flambeau.data.tensordict.memmap.pickles import set_allow_pickle
from flambeau.data.tensordict.memmap.readonly import ReadOnly as _ReadOnly
from flambeau.data.tensordict.memmap.tensor import MemoryMappedTensor, implements_for_memmap

__all__ = ["MemoryMappedTensor", "implements_for_memmap", "set_allow_pickle"]
