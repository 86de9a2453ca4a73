"""A list of items whose tensors are kept compressed."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from flambeau.data.tensordict import is_tensor_collection
from flambeau.rl.data.replay_buffers.storages.list import ListStorage

__all__ = ["CompressedListStorage"]


class CompressedListStorage(ListStorage):
    """Items in a list, each of their tensors compressed on its own: a game's frames take a small part of their room.

    Several items are read as a lazy stack, so that they may differ in shapes.

    Args:
        max_size: how many items there may be.
        compression_fn: bytes -> bytes; by default zlib's, at `compression_level`.
        decompression_fn: the way back; must be given with `compression_fn`.
        compression_level: of the default compression: 0 for none, 1 the fastest, 9 the smallest.
        device: where tensors that are read live.
        compilable: see `Storage`.

    Raises:
        TypeError: only one of `compression_fn` and `decompression_fn`.
        ValueError: max_size < 1, or another level.
    """

    _default_checkpointer: ClassVar[str] = "CompressedListStorageCheckpointer"

    def __init__(
        self,
        max_size: int,
        *,
        compression_fn: Callable[[bytes], bytes] | None = None,
        decompression_fn: Callable[[bytes], bytes] | None = None,
        compression_level: int = 3,
        device: torch.device | str = "cpu",
        compilable: bool = False,
    ) -> None:
        if (compression_fn is None) != (decompression_fn is None):
            raise TypeError("CompressedListStorage: compression_fn and decompression_fn belong together; give both.")
        if not 0 <= compression_level <= 9:
            raise ValueError(f"CompressedListStorage: compression_level is {compression_level}, expected 0 to 9.")
        super().__init__(max_size, compilable=compilable, device=device)
        self.compression_level = compression_level
        self._compression_fn, self._decompression_fn = compression_fn, decompression_fn

    def to_bytestream(self, data_to_bytestream: Any) -> bytes:
        """The bytes of a tensor's or array's values, in order; of other objects, of their array."""
        if isinstance(data_to_bytestream, Tensor):
            plain = data_to_bytestream.detach().as_subclass(Tensor).cpu().contiguous().reshape(-1)
            return plain.view(torch.uint8).numpy().tobytes()
        return np.ascontiguousarray(data_to_bytestream).tobytes()

    def bytes(self) -> int:
        """How many bytes the compressed tensors take."""
        return sum(leaf.size for item in self._storage for leaf in _leaves(item))

    def _kept(self, item: Any) -> Any:
        if isinstance(item, Tensor):
            data = self.to_bytestream(item)
            compress = self._compression_fn
            packed = zlib.compress(data, self.compression_level) if compress is None else compress(data)
            return Packed(packed, str(item.dtype).removeprefix("torch."), tuple(item.shape))
        if is_tensor_collection(item):
            leaves = {key: self._kept(value) for key, value in item.items(True, True)}
            return PackedCollection(item.empty(recurse=True), leaves)
        return tree_map(lambda leaf: self._kept(leaf) if isinstance(leaf, Tensor) else leaf, item)

    def _opened(self, item: Any) -> Any:
        if isinstance(item, Packed):
            decompress = self._decompression_fn or zlib.decompress
            dtype = getattr(torch, item.dtype)
            data = bytearray(decompress(item.data))
            found = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
            return found.reshape(item.shape).to(self.device)
        if isinstance(item, PackedCollection):
            collection = item.skeleton.clone()
            for key, leaf in item.leaves.items():
                collection.set(key, self._opened(leaf))
            return collection
        return tree_map(
            lambda leaf: self._opened(leaf) if isinstance(leaf, Packed) else leaf,
            item,
            is_leaf=lambda leaf: isinstance(leaf, Packed),
        )

    def get(self, index: Any) -> Any:
        """The item at an int, else a list of items."""
        found = super().get(index)
        return [self._opened(item) for item in found] if isinstance(found, list) else self._opened(found)

    def state_dict(self) -> dict[str, Any]:
        """The compressed items."""
        return {"_storage": [_described(item) for item in self._storage]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the items of a `state_dict`."""
        self._storage = [_restored(item) for item in state_dict["_storage"]]
        self.journal.note_any()


@dataclass(frozen=True)
class Packed:
    """A tensor's compressed bytes."""

    data: bytes
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many they are."""
        return len(self.data)


@dataclass(frozen=True)
class PackedCollection:
    """A collection without its leaves, and these."""

    skeleton: Any
    leaves: dict[Any, Any]


def _leaves(item: Any) -> list[Packed]:
    if isinstance(item, Packed):
        return [item]
    if isinstance(item, PackedCollection):
        return [leaf for each in item.leaves.values() for leaf in _leaves(each)]
    found: list[Packed] = []
    tree_map(lambda leaf: found.extend(_leaves(leaf)), item, is_leaf=lambda leaf: isinstance(leaf, Packed))
    return found if not isinstance(item, (str, bytes, int, float, type(None))) else []


def _described(item: Any) -> Any:
    """An item as torch.save writes it and torch.load reads it without unpickling objects."""
    if isinstance(item, Packed):
        data = torch.frombuffer(bytearray(item.data), dtype=torch.uint8) if item.data else torch.empty(0).byte()
        return {"__packed__": data, "dtype": item.dtype, "shape": list(item.shape)}
    if isinstance(item, PackedCollection):
        leaves = [[key, _described(leaf)] for key, leaf in item.leaves.items()]
        return {"__collection__": item.skeleton.state_dict(), "leaves": leaves}
    return tree_map(
        lambda leaf: _described(leaf) if isinstance(leaf, Packed) else leaf,
        item,
        is_leaf=lambda leaf: isinstance(leaf, Packed),
    )


def _restored(item: Any) -> Any:
    from flambeau.data.tensordict import TensorDict

    if isinstance(item, dict) and "__packed__" in item:
        return Packed(item["__packed__"].numpy().tobytes(), item["dtype"], tuple(item["shape"]))
    if isinstance(item, dict) and "__collection__" in item:
        skeleton = TensorDict({}, []).load_state_dict(item["__collection__"])
        return PackedCollection(skeleton, {_key(key): _restored(leaf) for key, leaf in item["leaves"]})
    if isinstance(item, (list, tuple)):
        return type(item)(_restored(each) for each in item)
    if isinstance(item, dict):
        return {key: _restored(each) for key, each in item.items()}
    return item


def _key(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key
