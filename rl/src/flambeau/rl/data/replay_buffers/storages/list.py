"""Storages that keep Python objects, each on its own."""

from __future__ import annotations

from collections.abc import Sequence
from multiprocessing.context import get_spawning_popen
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from flambeau.data.tensordict import TensorDictBase, is_tensor_collection, lazy_stack
from flambeau.rl.data.replay_buffers.storages.base import Storage

__all__ = ["LazyStackStorage", "ListStorage"]

_UNBOUNDED = 2**63 - 1
_SEQUENCES = (list, tuple, set, range, np.ndarray, Tensor, TensorDictBase)


class ListStorage(Storage):
    """Items as they are, in a list; they may be of any kind, and differ.

    It cannot be shared by processes; take a `LazyTensorStorage` or `LazyMemmapStorage` for that.

    Args:
        max_size: how many items there may be; None for any number.
        compilable: see `Storage`.
        device: where tensors and collections of tensors are moved when they are added; None leaves them where they are.
    """

    appends: ClassVar[bool] = True
    _default_checkpointer: ClassVar[str] = "ListStorageCheckpointer"

    def __init__(
        self,
        max_size: int | None = None,
        *,
        compilable: bool = False,
        device: torch.device | str | int | None = None,
    ) -> None:
        super().__init__(_UNBOUNDED if max_size is None else max_size, compilable=compilable)
        self._storage: list[Any] = []
        self.device = None if device is None else torch.device(device)

    @property
    def initialized(self) -> bool:
        """Always: a list needs no example of what it will hold."""
        return True

    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> None:
        """Write items at places: one at an int, as many as there are places at any other index.

        Raises:
            RuntimeError: a place further than one behind the last item, or outside of the storage.
            TypeError: data that has no order.
            ValueError: not as many items as places.
        """
        if isinstance(cursor, (int, np.integer)):
            self._set_one(int(cursor), data)
            self.journal.note(int(cursor), 1)
            return
        places: Any
        if isinstance(cursor, slice):
            places = range(*cursor.indices(len(self._storage)))
        else:
            places = cursor.tolist() if isinstance(cursor, (Tensor, np.ndarray)) else list(cursor)
        if not isinstance(data, _SEQUENCES) and not is_tensor_collection(data):
            raise TypeError(
                f"{type(self).__name__}: data has type {type(data).__name__}, from which items cannot be taken in "
                "order; give a list, tuple, set, range, array, tensor or tensordict."
            )
        if len(data) != len(places):
            raise ValueError(
                f"{type(self).__name__}: data has {len(data)} items for {len(places)} places. A tuple is taken as "
                "a sequence of items; for tensors side by side use a LazyTensorStorage."
            )
        for place, item in zip(places, data, strict=True):
            self._set_one(place, item)
        self.journal.note_any()

    def _set_one(self, place: int, item: Any) -> None:
        if place >= self.max_size:
            raise RuntimeError(
                f"{type(self).__name__}: place {place} is outside of the storage, which has {self.max_size} places."
            )
        if place > len(self._storage):
            raise RuntimeError(
                f"{type(self).__name__}: place {place} is more than one behind the last item, which is at "
                f"{len(self._storage) - 1}; items are added one after another."
            )
        item = self._kept(item)
        if place == len(self._storage):
            self._storage.append(item)
        else:
            self._storage[place] = item

    def _kept(self, item: Any) -> Any:
        if self.device is None:
            return item
        return tree_map(lambda leaf: leaf.to(self.device) if hasattr(leaf, "to") else leaf, item, is_leaf=_has_device)

    def get(self, index: Any) -> Any:
        """The item at an int, else a list of items."""
        if isinstance(index, (int, slice)):
            return self._storage[index]
        if isinstance(index, (Tensor, np.ndarray)):
            if index.dtype in (torch.bool, np.dtype(bool)):
                index = index.nonzero()[0] if isinstance(index, np.ndarray) else index.nonzero().squeeze(-1)
            index = index.tolist()
        if isinstance(index, int):
            return self._storage[index]
        if isinstance(index, tuple) and len(index) == 1:
            return self.get(index[0])
        return [self._storage[place] for place in index]

    def __len__(self) -> int:
        return len(self._storage)

    def contains(self, item: Any) -> Any:
        """Whether there is something at a place; for a tensor of places, a tensor."""
        if isinstance(item, int):
            return (item + len(self) if item < 0 else item) in range(len(self))
        if isinstance(item, Tensor):
            return torch.tensor([self.contains(each) for each in item.reshape(-1).tolist()]).reshape(item.shape)
        raise NotImplementedError(f"contains: item has type {type(item).__name__}, expected an int or a tensor.")

    def state_dict(self) -> dict[str, Any]:
        """The items; tensordicts by their own state."""
        return {"_storage": [item if not is_tensor_collection(item) else item.state_dict() for item in self._storage]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the items of a `state_dict`."""
        from flambeau.data.tensordict import TensorDict

        self._storage = [
            TensorDict({}, []).load_state_dict(item) if isinstance(item, dict) else item
            for item in state_dict["_storage"]
        ]
        self.journal.note_any()

    def _empty(self) -> None:
        self._storage = []
        self.journal.note_any()

    def __getstate__(self) -> dict[str, Any]:
        if get_spawning_popen() is not None:
            raise RuntimeError(
                f"A {type(self).__name__} cannot be shared by processes: each would have a list of its own. Use a "
                "LazyMemmapStorage, or a LazyTensorStorage, whose memory they share."
            )
        return super().__getstate__()

    def __repr__(self) -> str:
        shown = ", ".join(type(item).__name__ for item in self._storage[:3])
        rest = ", ..." if len(self._storage) > 3 else ""
        return f"{type(self).__name__}(items=[{shown}{rest}])" if self._storage else f"{type(self).__name__}()"


class LazyStackStorage(ListStorage):
    """Tensordicts in a list; what is read of several is a lazy stack of them, so that they may differ in shapes.

    Args:
        max_size: how many items there may be; None for any number.
        compilable: see `Storage`.
        stack_dim: the dimension of the stack.
        device: see `ListStorage`.
    """

    def __init__(
        self,
        max_size: int | None = None,
        *,
        compilable: bool = False,
        stack_dim: int = 0,
        device: torch.device | str | int | None = None,
    ) -> None:
        super().__init__(max_size, compilable=compilable, device=device)
        self.stack_dim = stack_dim

    def get(self, index: Any) -> Any:
        """The item at an int, else a lazy stack; tensors are stacked to a tensor."""
        found = super().get(index)
        if isinstance(index, (int, np.integer)) or not isinstance(found, Sequence) or not found:
            return found
        dim = self.stack_dim
        if dim < 0:
            dim += found[0].ndim + 1
        if is_tensor_collection(found[0]):
            return lazy_stack(list(found), dim)
        return torch.stack(list(found), dim)


def _has_device(item: Any) -> bool:
    return bool(is_tensor_collection(item))
