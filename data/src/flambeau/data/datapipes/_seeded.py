"""Base of the pipes that draw: their seeds, and how passes follow from each other."""

from __future__ import annotations

import random
from typing import Any, ClassVar, Self, TypeVar

import torch

from flambeau.data.datapipes.datapipe import IterDataPipe

T_co = TypeVar("T_co", covariant=True)
_MIX = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


class Seeded(IterDataPipe[T_co]):
    """Base of random pipes: `_rng` begins each pass with the seed that was set, and is part of the state.

    Without a seed one is drawn from torch's generator. After a seeded pass, a pass without a new seed has one that
    follows from the last, so that all ranks and workers go on with the same order.
    """

    state_fields: ClassVar[tuple[str, ...] | None] = ("_rng", "_seed", "_pass_seed", "_chained")

    def __init__(self) -> None:
        self._rng = random.Random()
        self._seed: int | None = None
        self._pass_seed: int | None = None
        self._chained = False

    def set_seed(self, seed: int) -> Self:
        """Begin the next pass with this seed; returns the pipe itself."""
        self._seed = seed
        return self

    def reset(self) -> None:
        """Go back to the beginning."""
        if self._seed is not None:
            self._pass_seed, self._seed, self._chained = self._seed, None, True
        elif self._chained and self._pass_seed is not None:
            self._pass_seed = _next(self._pass_seed)
        else:
            self._pass_seed = int(torch.empty((), dtype=torch.int64).random_().item())
        self._rng.seed(self._pass_seed)

    def get_origin(self, begun: bool) -> dict[str, Any] | None:
        """The seed of this pass, or of the next one."""
        seed = self._pass_seed if begun else self._seed
        return None if seed is None else {"seed": seed}

    def load_origin(self, origin: dict[str, Any]) -> None:
        """Take over a seed."""
        self._seed = origin["seed"]

    def _configuration(self) -> dict[str, Any]:
        # A copy begins a pass of its own, as the next one here would begin.
        kept = {"_rng": random.Random(0), "_seed": self._seed, "_pass_seed": self._pass_seed, "_chained": self._chained}
        return super()._configuration() | kept


def _next(seed: int) -> int:
    """A seed that follows from a seed (the finaliser of SplitMix64; Steele, Lea and Flood 2014)."""
    mixed = (seed + _MIX) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return mixed ^ (mixed >> 31)
