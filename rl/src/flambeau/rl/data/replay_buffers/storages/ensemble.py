"""The storages of several buffers side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

import torch
from torch import Tensor

from flambeau.rl.data.replay_buffers.storages.base import Storage

__all__ = ["StorageEnsemble"]


class StorageEnsemble(Storage):
    """Storages of the buffers of an ensemble, which is read together and written through its buffers.

    Args:
        storages: one for each buffer.
        transforms: one for each, or None, which changes what is read of it.
    """

    _default_checkpointer: ClassVar[str] = "StorageEnsembleCheckpointer"

    def __init__(self, *storages: Storage, transforms: Sequence[Callable[[Any], Any] | None] | None = None) -> None:
        self._rng_private: torch.Generator | None = None
        self._storages = storages
        self._transforms: list[Any] = list(transforms) if transforms is not None else [None] * len(storages)
        if len(self._transforms) != len(storages):
            raise TypeError(
                f"StorageEnsemble: {len(self._transforms)} transforms for {len(storages)} storages; give one for each, "
                "None where there is none."
            )
        super().__init__(max(sum(each.max_size for each in storages), 1))

    @property
    def _rng(self) -> torch.Generator | None:
        return self._rng_private

    @_rng.setter
    def _rng(self, value: torch.Generator | None) -> None:
        self._rng_private = value
        for each in self._storages:
            each._rng = value

    @property
    def _attached(self) -> list[Any]:
        return []

    @_attached.setter
    def _attached(self, value: list[Any]) -> None:
        return

    def attach(self, buffer: Any) -> None:
        """Tell an object of what is written to one of the storages."""
        for each in self._storages:
            each.attach(buffer)

    def __len__(self) -> int:
        return sum(len(each) for each in self._storages)

    @property
    def is_full(self) -> bool:
        """Whether every storage is."""
        return all(each._is_full for each in self._storages)

    def get(self, item: Any) -> list[Any]:
        """The items at places, for an index with "buffer_ids" and "index": a list, one part for each buffer."""
        return self.take(item)

    def take(self, index: Any) -> list[Any]:
        """The items at places that a sampler drew: a list, one part for each buffer."""
        found = []
        for owner, places in zip(index["buffer_ids"][:, 0].tolist(), index["index"], strict=True):
            several = places.ndim > 1
            data = self._storages[owner].take(tuple(places.unbind(-1)) if several else places)
            found.append(data)
        return found

    def transformed(self, owner: int, data: Any) -> Any:
        """What is read of one storage, changed as its buffer's batches are."""
        transform = self._transforms[owner]
        return data if transform is None else transform(data)

    def __getitem__(self, index: Any) -> Any:
        """A storage at an int, an ensemble of some at a slice or list; with a second index, items of these."""
        if isinstance(index, tuple):
            if index[0] is Ellipsis:
                index = (slice(None), *index[1:])
            owners, rest = index[0], index[1] if len(index) == 2 else index[1:]
            if isinstance(owners, int):
                return self.transformed(owners, self._storages[owners][rest])
            return [self.transformed(at, self._storages[at][rest]) for at in self._numbers(owners)]
        if isinstance(index, int):
            return self._storages[index]
        chosen = self._numbers(index)
        return StorageEnsemble(
            *(self._storages[at] for at in chosen), transforms=[self._transforms[at] for at in chosen]
        )

    def _numbers(self, index: Any) -> list[int]:
        every = list(range(len(self._storages)))
        if isinstance(index, slice):
            return every[index]
        if index is Ellipsis:
            return every
        if isinstance(index, Tensor) and index.dtype == torch.bool:
            index = index.nonzero().squeeze(-1)
        return [every[int(at)] for at in index]

    def contains(self, item: Any) -> Any:
        """Whether there is something at places, for an index with "buffer_ids" and "index"."""
        found = torch.zeros(item["index"].shape, dtype=torch.bool)
        for at, each in enumerate(self._storages):
            chosen = item["buffer_ids"] == at
            found[chosen] = each.contains(item["index"][chosen])
        return found

    def _refuse(self) -> NoReturn:
        raise RuntimeError("An ensemble is written through its buffers: extend them instead.")

    def add(self, value: Any) -> Any:
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        self._refuse()

    def extend(self, value: Any) -> Any:
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        self._refuse()

    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> None:
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        self._refuse()

    def _empty(self) -> None:
        for each in self._storages:
            each._empty()

    def share_(self) -> StorageEnsemble:
        """Keep the items of each storage in memory that processes share."""
        for each in self._storages:
            if not hasattr(each, "share_"):
                raise RuntimeError(
                    f"A {type(each).__name__} of the ensemble cannot be shared by processes; use a LazyMemmapStorage."
                )
            each.share_()
        return self

    def state_dict(self) -> dict[str, Any]:
        """The content of each storage, by its number."""
        return {str(at): each.state_dict() for at, each in enumerate(self._storages)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the contents of another ensemble's storages."""
        for at, each in enumerate(self._storages):
            each.load_state_dict(state_dict[str(at)])

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_rng_private"] = None
        return state

    def __repr__(self) -> str:
        return f"StorageEnsemble({', '.join(map(repr, self._storages))})"
