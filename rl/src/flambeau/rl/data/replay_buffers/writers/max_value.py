"""A writer that keeps the items of highest rank."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import is_tensor_collection
from flambeau.rl.data.replay_buffers.storages import Storage
from flambeau.rl.data.replay_buffers.writers.base import Writer
from flambeau.rl.data.replay_buffers.writers.round_robin import _shallow

__all__ = ["TensorDictMaxValueWriter"]

_REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": torch.sum,
    "max": torch.max,
    "min": torch.min,
    "mean": torch.mean,
    "median": torch.median,
}


class TensorDictMaxValueWriter(Writer):
    """Keeps the tensordicts whose entry under `rank_key` is highest; once the storage is full, better ones take the
    place of the worst.

    Args:
        rank_key: the entry that ranks an item; by default ("next", "reward").
        reduction: how an entry of several numbers becomes one: "sum", "max", "min", "mean" or "median".
        kwargs: see `Writer`.

    Raises:
        ValueError: another reduction.
    """

    def __init__(self, rank_key: Any = None, reduction: str = "sum", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if reduction not in _REDUCTIONS:
            raise ValueError(f"reduction is {reduction!r}, expected one of {', '.join(_REDUCTIONS)}.")
        self._rank_key = ("next", "reward") if rank_key is None else rank_key
        self._reduction = reduction
        self._best: list[tuple[float, int]] = []  # a heap, the worst in front
        self._write_count = 0

    @property
    def _cursor(self) -> int:
        """The place of the next item while there is room."""
        return len(self._best)

    def register_storage(self, storage: Storage) -> None:
        """Write to this storage from now on.

        Raises:
            ValueError: a storage with several dimensions of places.
        """
        if storage.ndim > 1:
            raise ValueError(
                f"TensorDictMaxValueWriter ranks single items; its storage has ndim={storage.ndim}, expected 1."
            )
        super().register_storage(storage)

    def get_insert_index(self, data: Any) -> int | None:
        """The place where an item goes, None where it is not among the best. The rank is taken over at once.

        Raises:
            KeyError: no entry to rank it by.
        """
        storage = self._registered
        rank = self._rank(data)
        if len(self._best) < storage.max_size:
            place = len(self._best)
            heapq.heappush(self._best, (rank, place))
            return place
        worst, place = self._best[0]
        if rank <= worst:
            return None
        heapq.heapreplace(self._best, (rank, place))
        return place

    def _rank(self, data: Any) -> float:
        value = data.get(self._rank_key, None)
        if value is None:
            present = ", ".join(map(str, data.keys(True, True)))
            raise KeyError(
                f"TensorDictMaxValueWriter: no entry {self._rank_key!r} to rank items by; there are {present}. Give "
                "rank_key."
            )
        return float(_REDUCTIONS[self._reduction](value.to(torch.float64)) if value.numel() != 1 else value.item())

    def add(self, data: Any) -> int | None:
        """Write one item if it is among the best; its place, or None."""
        place = self.get_insert_index(data)
        if place is not None:
            self._write(place, data)
        return place

    def extend(self, data: Any) -> Tensor:
        """Write those rows that are among the best; their places, one for each that was written and still is there."""
        chosen: dict[int, int] = {}  # place -> row
        for row, item in enumerate(data.unbind(0) if is_tensor_collection(data) else data):
            place = self.get_insert_index(item)
            if place is not None:
                chosen[place] = row
        if chosen:
            self._write_rows(chosen, data)
        return torch.tensor(list(chosen), dtype=torch.int64)

    def _write(self, place: int, item: Any) -> None:
        item = _shallow(item)
        item.set("index", torch.tensor(place, device=item.device).expand(item.shape))
        self._registered.set(place, item)
        self._write_count += 1

    def _write_rows(self, chosen: dict[int, int], data: Any) -> None:
        storage = self._registered
        if not hasattr(storage, "device") or isinstance(data, list) or not is_tensor_collection(data):
            for place in sorted(chosen):
                self._write(place, data[chosen[place]])
            return
        order = sorted(chosen)
        places = torch.tensor(order)
        rows = data[torch.tensor([chosen[place] for place in order])]
        rows.set("index", places.reshape(-1, *[1] * (rows.ndim - 1)).expand(rows.shape))
        storage.set(places if order != list(range(order[0], order[-1] + 1)) else range(order[0], order[-1] + 1), rows)
        self._write_count += len(order)

    def _empty(self, empty_write_count: bool = True) -> None:
        self._best = []
        if empty_write_count:
            self._write_count = 0

    def state_dict(self) -> dict[str, Any]:
        """The ranks of the items that are kept."""
        return {"_best": [list(each) for each in self._best], "_write_count": self._write_count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another writer's `state_dict` was made."""
        self._best = [(float(rank), int(place)) for rank, place in state_dict["_best"]]
        heapq.heapify(self._best)
        self._write_count = int(state_dict["_write_count"])

    def dumps(self, path: Any) -> None:
        """Write the state below a folder, as `metadata.json`."""
        self._dump(path, self.state_dict())

    def loads(self, path: Any) -> None:
        """Read the state from a folder that `dumps` wrote."""
        self.load_state_dict(self._loaded(path))

    def __getstate__(self) -> dict[str, Any]:
        from multiprocessing.context import get_spawning_popen

        if get_spawning_popen() is not None:
            raise RuntimeError(
                "A TensorDictMaxValueWriter cannot be shared by processes, which would rank items each on its own; "
                "write in one process."
            )
        return super().__getstate__()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rank_key={self._rank_key!r}, reduction={self._reduction!r})"
