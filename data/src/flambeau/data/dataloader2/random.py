"""Seeds for ranks and workers: the same for all of them, or one for each, from one number.

The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011): a counter that is enciphered, so that engines for
workers are made without running the others.
"""

from __future__ import annotations

from typing import Any

import torch

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORD = 0xFFFFFFFF
_LIMIT = 1 << 64


def _block(key: tuple[int, int], counter: int) -> tuple[int, int, int, int]:
    """Four 32-bit words: the counter, of 128 bits, enciphered."""
    a, b, c, d = (counter >> shift & _WORD for shift in (0, 32, 64, 96))
    low, high = key
    for _ in range(_ROUNDS):
        first, second = _MULTIPLIERS[0] * a, _MULTIPLIERS[1] * c
        a, b, c, d = (second >> 32) ^ b ^ low, second & _WORD, (first >> 32) ^ d ^ high, first & _WORD
        low, high = (low + _WEYL[0]) & _WORD, (high + _WEYL[1]) & _WORD
    return a, b, c, d


class PhiloxEngine:
    """64-bit numbers from a seed.

    Args:
        seed: from 0 to 2**64 - 1; may be set later.

    Example:
        >>> PhiloxEngine(123).generate()
        9025247384375923790
    """

    def __init__(self, seed: int | None = None) -> None:
        self._key: tuple[int, int] = (0, 0)
        self._spawn_key: tuple[int, int] = (0, 0)
        self._counter = 0
        self._ready: list[int] = []
        self._seeded = False
        if seed is not None:
            self.seed(seed)

    def seed(self, seed: int) -> PhiloxEngine:
        """Begin anew with a seed; returns the engine.

        Raises:
            ValueError: it is not from 0 to 2**64 - 1.
        """
        if not 0 <= seed < _LIMIT:
            raise ValueError(f"a seed is from 0 to 2**64 - 1, got {seed}.")
        self._key = (seed & _WORD, seed >> 32)
        first = _block(self._key, 0)
        self._spawn_key = (first[0], first[1])
        self._counter = 1
        self._ready = []
        self._seeded = True
        return self

    def generate(self) -> int:
        """The next number, from 0 to 2**64 - 1.

        Raises:
            RuntimeError: the engine has no seed.
        """
        self._check()
        if not self._ready:
            a, b, c, d = _block(self._key, self._counter)
            self._counter += 1
            self._ready = [d << 32 | c, b << 32 | a]
        return self._ready.pop()

    def clone(self) -> PhiloxEngine:
        """An engine that goes on with the same numbers."""
        other = PhiloxEngine()
        other.set_state(self.get_state())
        return other

    def spawn(self, index: int) -> PhiloxEngine:
        """The engine of a worker: another for each index, however many numbers this one has given.

        Raises:
            RuntimeError: the engine has no seed.
        """
        self._check()
        words = _block(self._spawn_key, index - index % 2)
        low, high = words[index % 2 * 2 : index % 2 * 2 + 2]
        return PhiloxEngine(high << 32 | low)

    @property
    def untouched(self) -> bool:
        """Whether no number was asked for since the seed was set."""
        return self._counter <= 1

    def get_state(self) -> list[Any]:
        """Plain values for `set_state`."""
        return [list(self._key), list(self._spawn_key), self._counter, list(self._ready), self._seeded]

    def set_state(self, state: list[Any]) -> None:
        """Go on where `get_state` was called."""
        key, spawn_key, self._counter, ready, self._seeded = state
        self._key, self._spawn_key, self._ready = tuple(key), tuple(spawn_key), list(ready)

    def _check(self) -> None:
        if not self._seeded:
            raise RuntimeError("the engine has no seed; call seed() first.")


class SeedGenerator:
    """Seeds for pipes: `generate_shared_seed` is the same in all processes, `generate_seed` differs by worker.

    Args:
        seed: from 0 to 2**64 - 1; drawn from torch's generator when None.
    """

    def __init__(self, seed: int | None = None, _rngs: tuple[PhiloxEngine, PhiloxEngine] | None = None) -> None:
        if seed is not None and _rngs is not None:
            raise ValueError("SeedGenerator takes a seed or engines, not both.")
        if _rngs is not None:
            self._shared_rng, self._worker_rng = _rngs
        else:
            self._shared_rng, self._worker_rng = PhiloxEngine(), PhiloxEngine()
            self.seed(seed)

    def seed(self, seed: int | None = None) -> None:
        """Begin anew with a seed, for both kinds."""
        chosen = _drawn() if seed is None else seed
        self._shared_rng.seed(chosen)
        self._worker_rng.seed(chosen)

    def generate_shared_seed(self) -> int:
        """The next seed that all processes have in common."""
        return self._shared_rng.generate()

    def generate_seed(self) -> int:
        """The next seed of this worker."""
        return self._worker_rng.generate()

    def spawn(self, worker_id: int, inplace: bool = False) -> SeedGenerator:
        """The generator of a worker: shared seeds as here, others its own.

        Args:
            worker_id: >= 0.
            inplace: change this generator rather than make another.
        """
        if worker_id < 0:
            raise ValueError(f"worker_id has to be >= 0, got {worker_id}.")
        if inplace:
            self._worker_rng = self._worker_rng.spawn(worker_id)
            return self
        return SeedGenerator(_rngs=(self._shared_rng.clone(), self._worker_rng.spawn(worker_id)))

    def clone(self) -> SeedGenerator:
        """A generator that goes on with the same seeds."""
        return SeedGenerator(_rngs=(self._shared_rng.clone(), self._worker_rng.clone()))

    def for_worker(self, worker_id: int) -> SeedGenerator:
        """As `spawn`; but where this generator has given worker seeds already, the worker's follow from those.

        Upstream: `spawn` gives a worker the same seeds however often it is called, and so the same in every pass.
        """
        if self._worker_rng.untouched:
            return self.spawn(worker_id)
        own = PhiloxEngine(self._worker_rng.clone().generate())
        return SeedGenerator(_rngs=(self._shared_rng.clone(), own.spawn(worker_id)))

    def state_dict(self) -> dict[str, Any]:
        """Plain values for `load_state_dict`."""
        return {"shared": self._shared_rng.get_state(), "worker": self._worker_rng.get_state()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where `state_dict` was called."""
        self._shared_rng.set_state(state_dict["shared"])
        self._worker_rng.set_state(state_dict["worker"])


def _drawn() -> int:
    return int(torch.empty((), dtype=torch.int64).random_().item())


def dist_share_seed(seed: int, process_group: Any = None) -> int:
    """The seed of rank 0, on every rank.

    Args:
        seed: from 0 to 2**64 - 1; only rank 0's counts.
        process_group: of torch.distributed; its backend takes tensors of the CPU.
    """
    import torch.distributed as dist

    halves = torch.tensor([seed & _WORD, seed >> 32], dtype=torch.int64)
    dist.broadcast(halves, src=0, group=process_group)
    low, high = halves.tolist()
    return int(high) << 32 | int(low)
