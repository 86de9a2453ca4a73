"""What all storages have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from flambeau.rl.data.replay_buffers._journal import Journal

if TYPE_CHECKING:
    from flambeau.rl.data.replay_buffers._publication import Publication
    from flambeau.rl.data.replay_buffers.checkpointers import StorageCheckpointerBase

__all__ = ["Storage"]


class Storage:
    """Where a replay buffer keeps its items: places from 0 to `max_size` - 1.

    Args:
        max_size: how many items there may be, > 0.
        checkpointer: how the storage is written to disk; by default as its class says.
        compilable: accepted for code written for upstream; storages need no other form under torch.compile.

    Raises:
        ValueError: max_size < 1.
    """

    ndim = 1
    supports_conditional_update: ClassVar[bool] = False
    appends: ClassVar[bool] = False  # whether places must be filled one after another
    _default_checkpointer: ClassVar[str] = "StorageCheckpointerBase"
    max_size: int

    def __init__(
        self, max_size: int, checkpointer: StorageCheckpointerBase | None = None, compilable: bool = False
    ) -> None:
        if max_size < 1:
            raise ValueError(f"{type(self).__name__}: max_size is {max_size}, expected at least 1.")
        self.max_size = int(max_size)
        self._checkpointer = checkpointer
        self._compilable = compilable
        self._attached: list[Any] = []
        self._rng: torch.Generator | None = None
        self._last_cursor: Any = None
        self.journal = Journal()
        self.publication: Publication | None = None
        self.ring_counters: Any = None  # cursor and number of rows written, of the ring's writers

    @property
    def checkpointer(self) -> StorageCheckpointerBase:
        """How the storage is written to disk."""
        if self._checkpointer is None:
            from flambeau.rl.data.replay_buffers import checkpointers

            self._checkpointer = getattr(checkpointers, self._default_checkpointer)()
        found: StorageCheckpointerBase = self._checkpointer
        return found

    @checkpointer.setter
    def checkpointer(self, value: StorageCheckpointerBase | None) -> None:
        self._checkpointer = value

    def register_save_hook(self, hook: Callable[..., Any]) -> None:
        """Have a function change the data before the storage is written to disk."""
        self.checkpointer.register_save_hook(hook)

    def register_load_hook(self, hook: Callable[..., Any]) -> None:
        """Have a function change the data after the storage was read from disk."""
        self.checkpointer.register_load_hook(hook)

    def dumps(self, path: Any) -> None:
        """Write the storage to a folder."""
        self.checkpointer.dumps(self, path)

    def loads(self, path: Any) -> None:
        """Read the storage from a folder that `dumps` wrote."""
        self.checkpointer.loads(self, path)
        self.journal.note_any()

    def dump(self, *args: Any, **kwargs: Any) -> None:
        """The same as `dumps`."""
        self.dumps(*args, **kwargs)

    save = dump

    def load(self, *args: Any, **kwargs: Any) -> None:
        """The same as `loads`."""
        self.loads(*args, **kwargs)

    def attach(self, buffer: Any) -> None:
        """Tell an object of what is written with `storage[index] = value`, by its method `mark_update(index)`."""
        if not any(each is buffer for each in self._attached):
            self._attached.append(buffer)

    @abstractmethod
    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> None:
        """Write items at places."""

    @abstractmethod
    def get(self, index: Any) -> Any:
        """The items at places."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """The content, for `load_state_dict`."""

    @abstractmethod
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the content of a `state_dict`."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def contains(self, item: Any) -> Any:
        """Whether there is something at a place; for several places, a tensor."""

    @abstractmethod
    def _empty(self) -> None:
        """Forget all items."""

    def take(self, index: Any) -> Any:
        """The items at places that a sampler drew, which are known to be there."""
        return self.get(index)

    def contains_any(self, index: Any) -> bool:
        """Whether there is something at one of the places."""
        return bool(torch.as_tensor(self.contains(index)).any())

    @property
    def _is_full(self) -> bool:
        return len(self) == self.max_size

    @property
    def shape(self) -> torch.Size | None:
        """Sizes of the dimensions that places are counted in."""
        return torch.Size([self.max_size])

    @property
    def _max_size_along_dim0(self) -> int:
        return self.max_size

    def flatten(self) -> Storage:
        """The same items in one dimension of places.

        Raises:
            NotImplementedError: the storage has no such form.
        """
        raise NotImplementedError(f"{type(self).__name__} has one dimension of places; there is nothing to flatten.")

    def _random_places(self, count: int) -> Any:
        """Places drawn uniformly: a tensor, or one a dimension."""
        return torch.randint(0, len(self), (count,), generator=self._rng, device=getattr(self, "device", None))

    def __getitem__(self, item: Any) -> Any:
        return self.get(item)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.set(index, value)
        for each in self._attached:
            each.mark_update(index)

    def __iter__(self) -> Iterator[Any]:
        for place in range(len(self)):
            yield self.get(place)

    def __contains__(self, item: Any) -> Any:
        return self.contains(item)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_rng"] = None  # generators cannot be pickled
        return state


def as_places(index: Any, length: int) -> Tensor | None:
    """Places as a flat int64 tensor, where an index names single ones; None for slices and the like."""
    if isinstance(index, Tensor):
        if index.dtype == torch.bool:
            return index.nonzero().squeeze(-1)
        return index.reshape(-1)
    if isinstance(index, int):
        return torch.tensor([index % length if length else index])
    if isinstance(index, (list, range)) or hasattr(index, "__array__"):
        return torch.as_tensor(index).reshape(-1)
    if isinstance(index, slice):
        return torch.arange(length)[index]
    return None
