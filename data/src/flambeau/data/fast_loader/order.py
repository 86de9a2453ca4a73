"""Which samples make up which batch."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.data.nodes.base_node import BaseNode


class IndexBatches(BaseNode[list[int]]):
    """Lists of indices, epoch after epoch, in an order that a seed and the epoch decide.

    The state is how many indices all ranks have taken together, so resuming costs one permutation, and the number of
    ranks may change: what remains is dealt out to those there are.

    Args:
        count: samples.
        batch_size: indices in a list.
        shuffle: whether to draw an order.
        drop_last: whether a shorter list at the end is left out, on all ranks alike.
        seed: None takes one from torch's global generator at the first use.
        rank: of this process.
        world_size: number of processes. They get equally many lists; without `drop_last` a few indices are repeated for
            that.
    """

    def __init__(
        self,
        count: int,
        batch_size: int,
        *,
        shuffle: bool,
        drop_last: bool,
        seed: int | None,
        rank: int,
        world_size: int,
    ) -> None:
        super().__init__()
        self.count, self.batch_size, self.shuffle, self.drop_last = count, batch_size, shuffle, drop_last
        self.rank, self.world_size = rank, world_size
        self._seed = seed
        self._epoch = 0
        self._started = False
        self._before = self._given = 0
        self._own = torch.empty(0, dtype=torch.int64)

    def __len__(self) -> int:
        share = self.count // self.world_size if self.drop_last else -(-self.count // self.world_size)
        return share // self.batch_size if self.drop_last else -(-share // self.batch_size)

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """As `BaseNode.reset`."""
        super().reset(initial_state)
        if initial_state is None:
            self._epoch += int(self._started)
            self._started, self._before = False, 0
            if self._seed is None:
                self._seed = int(torch.empty((), dtype=torch.int64).random_().item()) if self.shuffle else 0
        else:
            self._check_count(initial_state["count"])
            self._epoch, self._started = initial_state["epoch"], initial_state["started"]
            self._seed, self._before = initial_state["seed"], initial_state["taken"]
        self._given = 0
        self._own = self._part(self._order())

    def next(self) -> list[int]:
        """As `BaseNode.next`."""
        batch = self._own[self._given : self._given + self.batch_size].tolist()
        if not batch or (self.drop_last and len(batch) < self.batch_size):
            raise StopIteration
        self._given += len(batch)
        self._started = True
        return batch

    def get_state(self) -> dict[str, Any]:
        """As `BaseNode.get_state`."""
        return {
            "count": self.count,
            "epoch": self._epoch,
            "started": self._started,
            "seed": self._seed,
            "taken": min(self.count, self._before + self._given * self.world_size),
        }

    def _order(self) -> torch.Tensor:
        if not self.shuffle:
            return torch.arange(self.count)
        generator = torch.Generator()
        generator.manual_seed((self._seed or 0) + self._epoch)
        return torch.randperm(self.count, generator=generator)

    def _part(self, order: torch.Tensor) -> torch.Tensor:
        rest = order[self._before :]
        if self.drop_last:
            rest = rest[: len(rest) // self.world_size * self.world_size]
        elif len(rest) % self.world_size:
            missing = self.world_size - len(rest) % self.world_size
            repeats = order.repeat(-(-missing // len(order)))[:missing]
            rest = torch.cat([rest, repeats])
        return rest[self.rank :: self.world_size]

    def _check_count(self, count: int) -> None:
        if count != self.count:
            raise ValueError(
                f"The state is of a data set of {count} samples, this one has {self.count}; load the same."
            )
