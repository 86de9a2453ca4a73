"""Draws without replacement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from flambeau.rl.data.replay_buffers.samplers.base import Sampler, dump_json, load_json, no_items

if TYPE_CHECKING:
    from flambeau.rl.data.replay_buffers.storages import Storage

__all__ = ["SamplerWithoutReplacement"]


class SamplerWithoutReplacement(Sampler):
    """Draws each item once before any is drawn again. When the storage has grown or shrunk, it begins anew.

    Args:
        drop_last: leave out the items that do not fill a batch, at the end of each pass.
        shuffle: in random order; otherwise from the first place on.
    """

    def __init__(self, drop_last: bool = False, shuffle: bool = True) -> None:
        self._sample_list: Tensor | None = None
        self.len_storage = 0
        self.drop_last = drop_last
        self._ran_out = False
        self.shuffle = shuffle

    def can_sample(self, storage: Storage, batch_size: int | None) -> bool:
        """Whether there is something to draw from; with `drop_last`, whether it makes a batch."""
        return len(storage) >= (batch_size or 1) if self.drop_last else len(storage) > 0

    @property
    def ran_out(self) -> bool:
        """Whether the last batch ended a pass."""
        return self._ran_out

    @ran_out.setter
    def ran_out(self, value: bool) -> None:
        self._ran_out = value

    def _order(self, count: int, device: Any = None) -> Tensor:
        if self.shuffle:
            return torch.randperm(count, generator=self._rng, device=device)
        return torch.arange(count, device=device)

    def _next(self, count: int, batch_size: int, device: Any = None) -> Tensor:
        """The next of `count` things."""
        if self._sample_list is None or self.len_storage != count:
            self._sample_list = self._order(count, device)
        if self.drop_last and len(self._sample_list) < batch_size:
            raise ValueError(
                f"The batch size ({batch_size}) is greater than the {count} items there are, so that no batch can be "
                "drawn without replacement. Lower it, take another sampler, or turn drop_last off."
            )
        self.len_storage = count
        drawn, rest = self._sample_list[:batch_size], self._sample_list[batch_size:]
        self._ran_out = not len(rest) or (self.drop_last and len(rest) < batch_size)
        self._sample_list = self._order(count, device) if self._ran_out else rest
        return drawn

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        """Draw places.

        Raises:
            RuntimeError: the storage is empty.
            ValueError: with `drop_last`, fewer items than a batch needs.
        """
        count = len(storage)
        if not count:
            raise no_items()
        places = self._next(count, batch_size, getattr(storage, "device", None))
        shape = storage.shape
        if storage.ndim > 1 and shape is not None:
            return torch.unravel_index(places, shape), {}
        return places, {}

    def _empty(self) -> None:
        self._sample_list = None
        self.len_storage = 0
        self._ran_out = False

    def state_dict(self) -> dict[str, Any]:
        """What is left of the pass."""
        return {
            "len_storage": self.len_storage,
            "_sample_list": self._sample_list,
            "drop_last": self.drop_last,
            "_ran_out": self._ran_out,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another sampler's `state_dict` was made."""
        self.len_storage = state_dict["len_storage"]
        left = state_dict["_sample_list"]
        self._sample_list = None if left is None else torch.as_tensor(left, dtype=torch.int64)
        self.drop_last = state_dict["drop_last"]
        self._ran_out = state_dict["_ran_out"]

    def dumps(self, path: Any) -> None:
        """Write the state below a folder, as JSON."""
        dump_json(path, SamplerWithoutReplacement.state_dict(self))

    def loads(self, path: Any) -> None:
        """Read the state from a folder that `dumps` wrote."""
        SamplerWithoutReplacement.load_state_dict(self, load_json(path))

    def __repr__(self) -> str:
        drawn = self.len_storage - (0 if self._sample_list is None else len(self._sample_list))
        share = 100 * drawn / self.len_storage if self.len_storage else 0
        return f"{type(self).__name__}({share: 4.4f}% sampled)"
