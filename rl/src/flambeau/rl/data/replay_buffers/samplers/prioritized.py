"""Draws in proportion to priorities: prioritized experience replay (Schaul et al., arXiv:1511.05952)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from flambeau.data.tensordict import MemoryMappedTensor
from flambeau.rl._torchrl import (
    MinSegmentTreeFp32,
    MinSegmentTreeFp64,
    SumSegmentTreeFp32,
    SumSegmentTreeFp64,
)
from flambeau.rl.data.replay_buffers._counters import Counters
from flambeau.rl.data.replay_buffers.samplers.base import Sampler, dump_json, load_json, no_items

if TYPE_CHECKING:
    from flambeau.rl.data.replay_buffers.storages import Storage

__all__ = ["PrioritizedSampler"]

_TREES: dict[torch.dtype, tuple[Any, Any]] = {
    torch.float32: (SumSegmentTreeFp32, MinSegmentTreeFp32),
    torch.float64: (SumSegmentTreeFp64, MinSegmentTreeFp64),
}


class PrioritizedSampler(Sampler):
    """Draws item i with probability p_i / sum(p), where p_i = (priority_i + eps) ** alpha, with replacement.

    Batches come with "priority_weight": (p_i / min(p)) ** -beta, which makes up for the uneven draws in a loss. Items
    that have no priority yet have the highest that was seen.

    Args:
        max_capacity: how many places the storage has.
        alpha: how much priorities count, >= 0; at 0 draws are uniform.
        beta: how much of the unevenness the weights make up for, >= 0.
        eps: added to priorities, so that none is 0.
        dtype: float32 or float64, of the trees.
        reduction: how priorities of several numbers become one: "max", "min", "mean" or "median".
        max_priority_within_buffer: whether the highest priority is that of the items that are stored, instead of all
            that were ever seen.
        device: where the trees live.

    Raises:
        ValueError: alpha or beta below 0.
        NotImplementedError: another dtype.
    """

    _weighs: ClassVar[bool] = True

    def __init__(
        self,
        max_capacity: int,
        alpha: float,
        beta: float,
        eps: float = 1e-8,
        dtype: torch.dtype = torch.float32,
        reduction: str = "max",
        max_priority_within_buffer: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        for name, value in (("alpha", alpha), ("beta", beta)):
            if value < 0:
                raise ValueError(f"{name} must be greater than or equal to 0, got {name}={value}.")
        if dtype not in _TREES:
            raise NotImplementedError(f"PrioritizedSampler: dtype is {dtype}, expected float32 or float64.")
        self._max_capacity = max_capacity
        self._alpha, self._beta, self._eps = alpha, beta, eps
        self.reduction = reduction
        self.dtype = dtype
        self._max_priority_within_buffer = max_priority_within_buffer
        self._device = None if device is None else torch.device(device)
        self._init()

    def _init(self) -> None:
        sums, minima = _TREES[self.dtype]
        self._sum_tree = sums(self._max_capacity, self._device)
        self._min_tree = minima(self._max_capacity, self._device)
        # The highest priority and its place; -1 for none yet.
        self._highest = torch.full((1,), -1.0, dtype=torch.float64)
        self._highest_place = Counters(1, -1)

    @property
    def _max_priority(self) -> tuple[Tensor | None, Tensor | None]:
        """The highest priority and its place, tensors; None where there is none yet."""
        if self._highest_place[0] < 0:
            return None, None
        return self._highest[0].to(self.dtype), self._highest_place.tensor[0].clone()

    @property
    def alpha(self) -> float:
        """How much priorities count."""
        return self._alpha

    @alpha.setter
    def alpha(self, value: float) -> None:
        self._alpha = value

    @property
    def beta(self) -> float:
        """How much of the draws' unevenness the weights make up for."""
        return self._beta

    @beta.setter
    def beta(self, value: float) -> None:
        self._beta = value

    @property
    def max_size(self) -> int:
        """How many places the storage has."""
        return self._max_capacity

    @property
    def device(self) -> torch.device | None:
        """Where the trees live."""
        return self._device

    @property
    def default_priority(self) -> Any:
        """The weight that makes an item that was not weighed yet as likely as the likeliest."""
        return 1.0 if self._highest_place[0] < 0 else self._max_priority[0]

    def _default_mass(self) -> float:
        highest = 1.0 if self._highest_place[0] < 0 else float(self._highest[0])
        return float((highest + self._eps) ** self._alpha) if self._highest_place[0] >= 0 else 1.0

    # Drawing

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        """Draw places, with "priority_weight" (batch_size,).

        Raises:
            RuntimeError: the storage is empty, or no item has a priority above 0.
        """
        count = len(storage)
        if not count:
            raise no_items()
        places, weights = self._draw(self._sum_tree, count, batch_size)
        if storage.ndim > 1:
            shape = storage.shape
            assert shape is not None
            return torch.unravel_index(places, shape), {"priority_weight": weights}
        return places, {"priority_weight": weights}

    def _draw(self, tree: Any, count: int, batch_size: int) -> tuple[Tensor, Tensor]:
        """Places drawn in proportion to a tree's entries, and their weights."""
        total = tree.query(0, count)
        lowest = self._min_tree.query(0, count)
        if not total > 0:
            raise RuntimeError(
                f"The sum of all priorities is {total}: nothing can be drawn. Give some item a priority above 0."
            )
        if not lowest > 0:
            raise RuntimeError(f"The lowest priority is {lowest}, which gives no weights; priorities must be above 0.")
        # Upstream: with no generator of its own, the draws are NumPy's.
        if self._rng is None:
            mass = torch.from_numpy(np.random.uniform(0.0, total, size=batch_size))
        else:
            mass = torch.rand(batch_size, generator=self._rng, device=self._rng.device) * total
        places = tree.scan_lower_bound(mass).clamp_max_(count - 1)
        masses = self._sum_tree[places]
        weights = (masses / lowest) ** -self._beta
        return places, weights

    # Weighing

    def add(self, index: Any) -> None:
        """An item was written at a place: it gets the highest priority."""
        self._written(torch.as_tensor([index]) if isinstance(index, int) else torch.as_tensor(index))

    def extend(self, index: Any) -> None:
        """Items were written at places: they get the highest priority."""
        self._written(torch.stack(list(index), -1) if isinstance(index, tuple) else torch.as_tensor(index))

    def _written(self, index: Tensor) -> None:
        if index.ndim > 1:
            index = self._flat(index, None)
        if not index.numel():
            return
        self._set(index.reshape(-1), self._default_mass())
        self._forget_highest(index)

    def mark_update(self, index: Any, *, storage: Storage | None = None) -> None:
        """Items at places were changed: they get the highest priority."""
        self.update_priority(index, self.default_priority, storage=storage)

    def _set(self, index: Tensor, mass: Any) -> None:
        self._sum_tree[index] = mass
        self._min_tree[index] = mass

    def _forget_highest(self, index: Tensor) -> None:
        """Look for the highest priority anew if its item was written over."""
        if not self._max_priority_within_buffer or self._highest_place[0] < 0:
            return
        if bool((index == int(self._highest_place[0])).any()):
            self._find_highest()

    def _find_highest(self) -> None:
        masses = torch.as_tensor(self._sum_tree.DumpValues())
        mass, place = masses.max(0)
        priority = float(mass) ** (1 / self._alpha) - self._eps if self._alpha else 1.0
        self._highest[0] = float(torch.tensor(priority, dtype=self.dtype))
        self._highest_place[0] = int(place)

    def update_priority(self, index: Any, priority: Any, *, storage: Storage | None = None) -> dict[str, Any] | None:
        """Weigh items.

        Args:
            index: their places: an int, a tensor (n,), a mask, or for storages with several dimensions of places a
                tensor (n, ndim) or one tensor a dimension.
            priority: a number for all, or one for each, >= 0.
            storage: what the places are in; for masks and several dimensions.

        Raises:
            RuntimeError: not as many priorities as places.
            ValueError: a priority below 0, or none.
        """
        priority = torch.as_tensor(priority, dtype=self.dtype).detach()
        places = self._places(index, storage)
        if priority.device.type == "cpu" and not bool((priority >= 0).all()):
            wrong = priority[~(priority >= 0)][0]
            raise ValueError(f"priority has {float(wrong)}, expected numbers of at least 0.")
        if priority.numel() == 1:
            priority = priority.reshape(())
        elif priority.numel() != places.numel():
            raise RuntimeError(
                f"priority has {priority.numel()} values for {places.numel()} places; give one for each or for all."
            )
        else:
            priority = priority.reshape(-1)
        if not places.numel():
            return None
        highest, at = priority.max(0) if priority.ndim else (priority, torch.tensor(0))
        self._set(places, torch.pow(priority + self._eps, self._alpha))
        if self._highest_place[0] < 0 or float(highest) > float(self._highest[0]):
            self._highest[0] = float(highest)
            # Of a priority for all, the last place is taken.
            self._highest_place[0] = int(places[at]) if priority.ndim else int(places[-1])
        else:
            self._forget_highest(places)
        return None

    def _places(self, index: Any, storage: Storage | None) -> Tensor:
        """Flat places, (n,)."""
        if isinstance(index, tuple):
            index = torch.stack([torch.as_tensor(part) for part in index], -1) if len(index) > 1 else index[0]
        index = torch.as_tensor(index)
        if index.dtype == torch.bool:
            index = index.nonzero().squeeze(-1)
        if storage is not None and storage.ndim > 1 and index.ndim > 1:
            return self._flat(index, storage)
        flat: Tensor = index.reshape(-1)
        return flat

    def _flat(self, index: Tensor, storage: Storage | None) -> Tensor:
        storage = storage or self._storage
        shape = None if storage is None else storage.shape
        if shape is None or index.shape[-1] != len(shape):
            return index.reshape(-1)
        places = index[..., 0]
        for extent, part in zip(shape[1:], index.unbind(-1)[1:], strict=True):
            places = places * extent + part
        flat: Tensor = places.reshape(-1)
        return flat

    _storage: Storage | None = None

    # State

    def _empty(self) -> None:
        shared = self._sum_tree._tree.is_shared()
        self._init()
        if shared:
            self.share_()

    def _mend(self) -> None:
        for tree in (self._sum_tree, self._min_tree):
            tree.LoadValues(tree.DumpValues())

    def share_(self) -> None:
        """Keep the trees in memory that processes share."""
        self._sum_tree.share_memory_()
        self._min_tree.share_memory_()
        self._highest.share_memory_()
        self._highest_place.share()

    def state_dict(self) -> dict[str, Any]:
        """The trees, the exponents and the highest priority."""
        from copy import deepcopy

        return {
            "_schema_version": 1,
            "_alpha": self._alpha,
            "_beta": self._beta,
            "_eps": self._eps,
            "_max_priority": self._max_priority,
            "_sum_tree": deepcopy(self._sum_tree),
            "_min_tree": deepcopy(self._min_tree),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another sampler's `state_dict` was made."""
        self._alpha = state_dict["_alpha"]
        self._beta = state_dict["_beta"]
        self._eps = state_dict["_eps"]
        for name in ("_sum_tree", "_min_tree"):
            getattr(self, name).LoadValues(state_dict[name].DumpValues())
        self._load_highest(state_dict["_max_priority"])

    def _load_highest(self, highest: Any) -> None:
        priority, place = highest if isinstance(highest, (tuple, list)) else (highest, 0)
        self._highest[0] = -1.0 if priority is None else float(priority)
        self._highest_place[0] = -1 if priority is None else int(place or 0)

    def dumps(self, path: Any) -> None:
        """Write the state below a folder: the trees' entries as memory-mapped tensors, the rest as JSON."""
        folder = Path(path).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        for name, tree in (("sumtree", self._sum_tree), ("mintree", self._min_tree)):
            MemoryMappedTensor.from_tensor(
                torch.from_numpy(tree.DumpValues()), filename=folder / f"{name}.memmap", existsok=True
            )
        priority, place = self._max_priority
        dump_json(
            folder,
            {
                "_alpha": self._alpha,
                "_beta": self._beta,
                "_eps": self._eps,
                "_max_priority": [None if priority is None else float(priority), None if place is None else int(place)],
                "_max_capacity": self._max_capacity,
            },
        )

    def loads(self, path: Any) -> None:
        """Read the state from a folder that `dumps` wrote.

        Raises:
            ValueError: the trees have another size.
        """
        folder = Path(path).absolute()
        found = load_json(folder)
        size = found.get("_max_capacity", self._max_capacity)
        if size != self._max_capacity:
            raise ValueError(
                f"PrioritizedSampler: {folder} has priorities of {size} places, this sampler has {self._max_capacity}; "
                f"make one with max_capacity={size}."
            )
        for name, tree in (("sumtree", self._sum_tree), ("mintree", self._min_tree)):
            file = folder / f"{name}.memmap"
            expected = size * self.dtype.itemsize
            if file.stat().st_size != expected:
                raise ValueError(
                    f"{file} has {file.stat().st_size} bytes, expected {expected}: it is damaged, or was written with "
                    "another dtype."
                )
            tree.LoadValues(MemoryMappedTensor.from_filename(file, self.dtype, torch.Size([size])).numpy().copy())
        self._alpha, self._beta, self._eps = found["_alpha"], found["_beta"], found["_eps"]
        self._load_highest(found["_max_priority"])

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(alpha={self._alpha}, beta={self._beta}, eps={self._eps}, "
            f"reduction={self.reduction})"
        )
