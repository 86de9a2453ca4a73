"""Maps from rows of tensordicts to rows of tensordicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.data.tensordict.nn import TensorDictModuleBase
from flambeau.rl.data.map.query import QueryModule
from flambeau.rl.data.replay_buffers.storages import LazyTensorStorage, Storage

__all__ = ["TensorDictMap", "TensorMap"]

K = TypeVar("K")
V = TypeVar("V")


class TensorMap(ABC, Generic[K, V]):
    """A map whose keys and values are tensors."""

    @abstractmethod
    def clear(self) -> None:
        """Forget everything."""

    @abstractmethod
    def __getitem__(self, item: K) -> V: ...

    @abstractmethod
    def __setitem__(self, key: K, value: V) -> None: ...

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def contains(self, item: K) -> Tensor:
        """Whether there is something for a key."""

    def __contains__(self, item: K) -> bool:
        return bool(self.contains(item).all())


class TensorDictMap(TensorDictModuleBase, TensorMap[TensorDictBase, TensorDictBase]):  # type: ignore[misc]
    """Keeps a row of values for each key that was set; `map[keys]` gives the rows of keys.

    Args:
        query_module: tells the places of keys.
        storage: where values are kept: one storage of tensordicts, or one for each entry.
        collate_fn: changes what is read.
        out_keys: the entries of values; by default those that are set first.
        write_fn: (old values, new values) -> values that are kept, where keys have some already.
    """

    def __init__(
        self,
        *,
        query_module: QueryModule,
        storage: Storage | dict[Any, Storage],
        collate_fn: Callable[[Any], Any] | None = None,
        out_keys: Sequence[Any] | None = None,
        write_fn: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        super().__init__()
        self.query_module = query_module
        self.storage = storage
        self.in_keys = list(query_module.in_keys)
        self._keys = None if out_keys is None else list(out_keys)
        if self._keys is None and isinstance(storage, dict):
            self._keys = list(storage)
        self.collate_fn = collate_fn
        self.write_fn = write_fn

    @classmethod
    def from_tensordict_pair(
        cls,
        source: TensorDictBase,
        dest: TensorDictBase,
        in_keys: Sequence[Any],
        out_keys: Sequence[Any] | None = None,
        max_size: int = 1000,
        storage_constructor: Callable[[int], Storage] | None = None,
        hash_module: Callable[..., Any] | None = None,
        collate_fn: Callable[[Any], Any] | None = None,
        write_fn: Callable[[Any, Any], Any] | None = None,
        consolidated: bool | None = None,
    ) -> TensorDictMap:
        """An empty map for keys and values like these.

        Args:
            source: an example of keys, of which `in_keys` count.
            dest: an example of values.
            in_keys: see `QueryModule`.
            out_keys: the entries of `dest` that are kept; all by default.
            max_size: how many keys there may be.
            storage_constructor: number of places -> storage; `LazyTensorStorage` by default.
            hash_module: see `QueryModule`.
            collate_fn: see the class.
            write_fn: see the class.
            consolidated: whether the values lie in one piece of memory.
        """
        keys = list(dest.keys(True, True)) if out_keys is None else list(out_keys)
        if storage_constructor is None:
            storage: Storage = LazyTensorStorage(max_size, consolidated=bool(consolidated))
        else:
            storage = storage_constructor(max_size)
        query = QueryModule(in_keys, hash_module=hash_module)
        return cls(query_module=query, storage=storage, out_keys=keys, collate_fn=collate_fn, write_fn=write_fn)

    @property
    def max_size(self) -> int:
        """How many keys there may be."""
        return int(min(each.max_size for each in self._storages()))

    @property
    def out_keys(self) -> list[Any]:
        """The entries of values."""
        return self._keys or []

    @out_keys.setter
    def out_keys(self, value: list[Any]) -> None:
        self._keys = list(value)

    def _storages(self) -> list[Storage]:
        return list(self.storage.values()) if isinstance(self.storage, dict) else [self.storage]

    def _places(self, item: TensorDictBase, *, extend: bool) -> Tensor:
        query = self.query_module
        found = query(item.select(*self.in_keys), extend=extend, write_hash=False).get(query.index_key)
        places: Tensor = found
        return places

    def contains(self, item: TensorDictBase) -> Tensor:
        """Whether there are values for keys: bool, of the keys' batch size."""
        places = self._places(item, extend=False)
        return places < len(self)

    def __setitem__(self, item: TensorDictBase, value: TensorDictBase) -> None:
        known = len(self)
        places = self._places(item, extend=True).reshape(-1)
        if len(places) and int(places.max()) >= self.max_size:
            raise RuntimeError(f"TensorDictMap: there are more than max_size={self.max_size} keys; make it larger.")
        if self._keys is None:
            self._keys = list(value.keys(True, True))
        rows = value.select(*self._keys).reshape(-1).clone(False)
        old = places < known
        if self.write_fn is not None and bool(old.any()):
            rows = rows.clone()
            rows[old] = self.write_fn(self._read(places[old]), rows[old])
        if isinstance(self.storage, dict):
            for key, each in self.storage.items():
                each.set(places, rows.get(key))
        else:
            self.storage.set(places, rows)

    def __getitem__(self, item: TensorDictBase) -> TensorDictBase:
        places = self._places(item, extend=False)
        missing = places >= len(self)
        if bool(missing.any()):
            raise KeyError(
                f"TensorDictMap: {int(missing.sum())} of {missing.numel()} keys have no values; `contains` tells which."
            )
        found: TensorDictBase = self._read(places.reshape(-1)).reshape(places.shape)
        return found

    def _read(self, places: Tensor) -> Any:
        if isinstance(self.storage, dict):
            found: Any = TensorDict({}, [len(places)])
            for key, each in self.storage.items():
                found.set(key, each.get(places))
        else:
            found = self.storage.get(places)
            if isinstance(found, list):
                found = torch.stack(found)
        return found if self.collate_fn is None else self.collate_fn(found)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The tensordict with the values of its keys."""
        return tensordict.update(self[tensordict])

    def __len__(self) -> int:
        return min(len(each) for each in self._storages())

    def clear(self) -> None:
        """Forget all keys and values."""
        for each in self._storages():
            each._empty()
        table = self.query_module.hash_to_int
        if hasattr(table, "_index"):
            table._index.clear()
