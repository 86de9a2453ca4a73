"""What all writers have in common."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import torch
from torch import Tensor

if TYPE_CHECKING:
    from flambeau.rl.data.replay_buffers.storages import Storage

__all__ = ["ImmutableDatasetWriter", "Writer"]

METADATA = "metadata.json"


class Writer(ABC):
    """Decides at which places of a storage new items go.

    Args:
        compilable: accepted for code written for upstream; writers need no other form under torch.compile.
    """

    tracks_generations: Any = False
    _storage: Storage | None = None
    _rng: torch.Generator | None = None

    def __init__(self, compilable: bool = False) -> None:
        self._storage = None
        self._compilable = compilable

    def register_storage(self, storage: Storage) -> None:
        """Write to this storage from now on."""
        self._storage = storage

    @property
    def _registered(self) -> Storage:
        if self._storage is None:
            raise RuntimeError(
                f"{type(self).__name__} has no storage yet; call register_storage, or give it to a buffer."
            )
        return self._storage

    @abstractmethod
    def add(self, data: Any) -> Any:
        """Write one item; its place."""

    @abstractmethod
    def extend(self, data: Any) -> Any:
        """Write several items; their places."""

    @abstractmethod
    def _empty(self, empty_write_count: bool = True) -> None:
        """Begin at the first place again."""
        return

    def generations_of(self, index: int | Tensor) -> Tensor:
        """How often places were written over; -1 for those that never were written, or where nobody counts."""
        return torch.full_like(torch.as_tensor(index), -1)

    def share_(self) -> None:
        """Keep what the writer counts in memory that processes share."""
        return

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another writer's `state_dict` was made."""
        return

    def dumps(self, path: Any) -> None:
        """Write the state below a folder."""
        return

    def loads(self, path: Any) -> None:
        """Read the state from a folder that `dumps` wrote."""
        return

    def _dump(self, path: Any, content: dict[str, Any]) -> None:
        folder = Path(path).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / METADATA).write_text(json.dumps(content), encoding="utf-8")

    def _loaded(self, path: Any) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((Path(path).absolute() / METADATA).read_text(encoding="utf-8"))
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_rng"] = None
        return state


class ImmutableDatasetWriter(Writer):
    """The writer of a dataset, which refuses to write."""

    WRITING_ERR: ClassVar[str] = "A data set is read only; copy what you need of it into a buffer of your own."

    def _refuse(self) -> NoReturn:
        raise RuntimeError(f"{self.WRITING_ERR} Copy what you need of it into a ReplayBuffer of your own.")

    def add(self, data: Any) -> int:
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        self._refuse()

    def extend(self, data: Any) -> Tensor:
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        self._refuse()

    def _empty(self, empty_write_count: bool = True) -> None:
        self._refuse()
