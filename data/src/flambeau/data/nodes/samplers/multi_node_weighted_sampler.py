"""Nodes mixed at random, by weights."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

from flambeau.data._cursor import decode_tensor, encode_tensor
from flambeau.data.nodes.base_node import BaseNode, T
from flambeau.data.nodes.samplers._mixture import Mixture
from flambeau.data.nodes.samplers.stop_criteria import StopCriteria

_DRAWS = 1000  # turns drawn at a time


class MultiNodeWeightedSampler(Mixture[T]):
    """Items of several nodes, each time of one that is drawn with a probability in proportion to its weight.

    Args:
        source_nodes: name -> node.
        weights: name -> weight, >= 0, for the same names; they need not add up to one.
        stop_criteria: one of `StopCriteria`.
        rank: of this process; None asks torch.distributed, or the environment's RANK, else 0. Ranks draw differently.
        world_size: number of processes; None likewise.
        seed: with rank, world size and epoch it decides the turns.

    Raises:
        ValueError: weights that do not fit the nodes, are negative, or all zero; an unknown criterion.
    """

    def __init__(
        self,
        source_nodes: Mapping[str, BaseNode[T]],
        weights: dict[str, float],
        stop_criteria: str = StopCriteria.CYCLE_UNTIL_ALL_DATASETS_EXHAUSTED,
        rank: int | None = None,
        world_size: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(dict(source_nodes), stop_criteria)
        _check_weights(weights, self.source_nodes)
        self.weights = weights
        self.rank, self.world_size = _place(rank, world_size)
        self.seed = seed
        self.epoch = 0
        self._started = False
        self._num_yielded = 0
        self._names = list(weights)
        self._probabilities = torch.tensor([float(weights[name]) for name in self._names], dtype=torch.float64)
        self._generator = torch.Generator()
        self._drawn_from = ""
        self._turns: list[int] = []
        self._turn = 0

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """As `BaseNode.reset`."""
        super().reset(initial_state)
        if initial_state is not None:
            self.epoch, self._started = initial_state["epoch"], initial_state["started"]
            self._num_yielded = initial_state["num_yielded"]
            self._generator.set_state(decode_tensor(initial_state["generator"]))
            self._draw()
            self._turn = initial_state["turn"]
            return
        self.epoch += int(self._started)
        self._started, self._num_yielded = False, 0
        self._generator.manual_seed(_seed_of(self.seed, self.rank, self.world_size, self.epoch))
        self._draw()

    def next(self) -> T:
        """As `BaseNode.next`."""
        self._started = True
        while not self.over():
            name = self._next_name()
            if self.skips(name):
                continue
            found, read = self.read(name)
            if found:
                self._num_yielded += 1
                item: T = read
                return item
        raise StopIteration

    def get_state(self) -> dict[str, Any]:
        """As `BaseNode.get_state`."""
        own = {
            "epoch": self.epoch,
            "started": self._started,
            "num_yielded": self._num_yielded,
            "generator": self._drawn_from,
            "turn": self._turn,
        }
        return {**super().get_state(), **own}

    def _next_name(self) -> str:
        if self._turn >= len(self._turns):
            self._draw()
        self._turn += 1
        return self._names[self._turns[self._turn - 1]]

    def _draw(self) -> None:
        self._drawn_from = encode_tensor(self._generator.get_state())
        self._turns = torch.multinomial(
            self._probabilities, _DRAWS, replacement=True, generator=self._generator
        ).tolist()
        self._turn = 0


def _seed_of(seed: int, rank: int, world_size: int, epoch: int) -> int:
    """Upstream's, so that the turns are the same: of the numbers that follow a rank's seed, one for each epoch."""
    generator = torch.Generator().manual_seed(seed * world_size + rank)
    return int(torch.randint(0, 2**32 - 1, size=(epoch + 1,), generator=generator)[-1])


def _place(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if rank is None or world_size is None:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            here = (torch.distributed.get_rank(), torch.distributed.get_world_size())
        else:
            here = (int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))
        rank = here[0] if rank is None else rank
        world_size = here[1] if world_size is None else world_size
    if not 0 <= rank < world_size:
        raise ValueError(f"rank is {rank}, expected 0 to {world_size - 1} (world_size is {world_size}).")
    return rank, world_size


def _check_weights(weights: dict[str, float], nodes: dict[str, Any]) -> None:
    if set(weights) != set(nodes):
        raise ValueError(f"weights are for {sorted(weights)}, nodes are {sorted(nodes)}; expected the same names.")
    if any(weight < 0 for weight in weights.values()) or not sum(weights.values()) > 0:
        raise ValueError(f"weights are {weights}, expected numbers >= 0 that are not all zero.")
