"""What all samplers have in common."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

if TYPE_CHECKING:
    from flambeau.rl.data.replay_buffers.storages import Storage

__all__ = ["METADATA", "Sampler", "no_items"]

METADATA = "sampler_metadata.json"


def no_items() -> RuntimeError:
    """The error of drawing from nothing."""
    return RuntimeError("Cannot sample from an empty storage. Extend the buffer first.")


class Sampler(ABC):
    """Decides which items of a storage make up a batch."""

    # Drawn anew where another process wrote over items that belong together.
    _draws_sequences: ClassVar[bool] = False
    # Whether processes that share a buffer share what this sampler knows of the items.
    _weighs: ClassVar[bool] = False
    _rng: torch.Generator | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            raise TypeError(f"{type(self).__name__} takes no arguments.")

    @abstractmethod
    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        """Draw a batch: places, as `Storage.take` accepts them, and what else is known of the items."""

    def add(self, index: Any) -> None:
        """An item was written at a place."""
        return

    def extend(self, index: Any) -> None:
        """Items were written at places."""
        return

    def update_priority(self, index: Any, priority: Any, *, storage: Storage | None = None) -> dict[str, Any] | None:
        """Weigh items anew; nothing for samplers that do not weigh."""
        return None

    def mark_update(self, index: Any, *, storage: Storage | None = None) -> None:
        """Items at places were changed."""
        return

    def can_sample(self, storage: Storage, batch_size: int | None) -> bool:
        """Whether there is something to draw from."""
        return len(storage) > 0

    @property
    def default_priority(self) -> Any:
        """The weight of an item that was not weighed yet."""
        return 1.0

    @property
    def ran_out(self) -> bool:
        """Whether all items have been drawn once; never for samplers that draw with replacement."""
        return False

    @ran_out.setter
    def ran_out(self, value: bool) -> None:
        return None

    def _empty(self) -> None:
        """The storage was emptied."""
        return

    def _freed(self, count: int) -> list[int]:
        """Up to `count` places whose items were used up, where new items go first."""
        return []

    def _left(self, taken: int) -> int | None:
        """How many items can still be drawn; None for all that there are."""
        return None

    def _mend(self) -> None:
        """Put in order what another process left half done when it was killed."""
        return

    def share_(self) -> None:
        """Keep in memory that processes share what all of them must know."""
        return

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another sampler's `state_dict` was made."""
        return

    def dumps(self, path: Any) -> None:
        """Write the state below a folder."""
        return

    def loads(self, path: Any) -> None:
        """Read the state from a folder that `dumps` wrote."""
        return

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_rng"] = None  # generators cannot be pickled
        return state


def dump_json(path: Any, content: dict[str, Any]) -> None:
    """Write a sampler's state as JSON, tensors as lists."""
    folder = Path(path).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    plain = {key: value.tolist() if isinstance(value, Tensor) else value for key, value in content.items()}
    (folder / METADATA).write_text(json.dumps(plain), encoding="utf-8")


def load_json(path: Any) -> dict[str, Any]:
    """What `dump_json` wrote."""
    found: dict[str, Any] = json.loads((Path(path).absolute() / METADATA).read_text(encoding="utf-8"))
    return found
