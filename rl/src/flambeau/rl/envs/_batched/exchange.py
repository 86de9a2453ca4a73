"""Tensors of environments in shared memory, so that pipes carry only which of them are there."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.envs._keys import NestedKey


class Placed(NamedTuple):
    """What goes through a pipe in the place of a tensordict: which keys of the row hold it, and what has no place."""

    keys: tuple[int, ...]
    rest: TensorDictBase | None


class Rows:
    """A row of shared memory for each environment.

    Args:
        example: what a row holds.
        count: how many.
    """

    def __init__(self, example: TensorDictBase, count: int) -> None:
        self.batch_size = example.batch_size
        self.keys: list[NestedKey] = list(example.keys(True, True))
        self._leaves = [
            torch.zeros(count, *example.get(key).shape, dtype=example.get(key).dtype).share_memory_()
            for key in self.keys
        ]
        self._places = {key: at for at, key in enumerate(self.keys)}

    def put(self, row: int, data: TensorDictBase) -> Placed:
        """Write what has a place; the rest has to be sent."""
        written: list[int] = []
        rest: Any = None
        for key, value in data.items(True, True):
            place = self._places.get(key)
            if place is not None and isinstance(value, Tensor) and self._fits(place, value):
                self._leaves[place][row].copy_(value)
                written.append(place)
            else:
                rest = TensorDict(batch_size=data.batch_size) if rest is None else rest
                rest.set(key, value)
        return Placed(tuple(written), rest)

    def _fits(self, place: int, value: Tensor) -> bool:
        leaf = self._leaves[place]
        return bool(value.dtype == leaf.dtype and value.shape == leaf.shape[1:])

    def get(self, row: int, placed: Placed) -> TensorDict:
        """What was written, as a copy."""
        found = TensorDict(batch_size=self.batch_size)
        for place in placed.keys:
            found.set(self.keys[place], self._leaves[place][row].clone())
        return found if placed.rest is None else found.update(placed.rest)


class Exchange:
    """Rows for what environments are told, and for what they answer.

    Args:
        example: a whole step, as `fake_tensordict` gives it.
        count: number of environments.
    """

    def __init__(self, example: TensorDictBase, count: int) -> None:
        root = example.exclude("next")
        self.asked, self.roots, self.steps = Rows(root, count), Rows(root, count), Rows(example, count)

    @property
    def keys(self) -> tuple[NestedKey, ...]:
        """Keys that have a place."""
        return tuple(self.steps.keys)

    def ask(self, row: int, data: Any) -> Any:
        """What is sent of what an environment is told."""
        return self.asked.put(row, data) if isinstance(data, TensorDictBase) else data

    def asked_of(self, row: int, sent: Any) -> Any:
        """What an environment is told, of what was sent."""
        return self.asked.get(row, sent) if isinstance(sent, Placed) else sent

    def answer(self, row: int, what: str, data: Any) -> Any:
        """What is sent of an answer."""
        if what == "step":
            return self.steps.put(row, data)
        if what == "step_and_maybe_reset":
            return self.steps.put(row, data[0]), self.roots.put(row, data[1])
        return self.roots.put(row, data) if what == "reset" else data

    def answered(self, row: int, what: str, sent: Any) -> Any:
        """An answer, of what was sent."""
        if what == "step":
            return self.steps.get(row, sent)
        if what == "step_and_maybe_reset":
            return self.steps.get(row, sent[0]), self.roots.get(row, sent[1])
        return self.roots.get(row, sent) if what == "reset" else sent


def unplaceable(examples: Sequence[TensorDictBase]) -> str | None:
    """Why environments' data have no place in rows of memory; None where they have."""
    first = examples[0]
    for key, leaf in first.items(True, True):
        if not isinstance(leaf, Tensor):
            return f"{key!r} is no tensor"
        if leaf.device.type != "cpu":
            return f"{key!r} is on {leaf.device}"
    layout = {key: (leaf.shape, leaf.dtype) for key, leaf in first.items(True, True)}
    for at, each in enumerate(examples):
        if each.batch_size != first.batch_size:
            return f"environment {at} has another batch size than the first"
        if {key: (getattr(leaf, "shape", None), leaf.dtype) for key, leaf in each.items(True, True)} != layout:
            return f"environment {at} has other keys, shapes or dtypes than the first"
    return None


class ExchangeStats:
    """How many answers came at a time, and how long they took on their way.

    Args:
        count: number of environments.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._clear()

    def _clear(self) -> None:
        self._batches = self._answers = 0
        self._sent: dict[int, float] = {}
        self._times: deque[float] = deque(maxlen=1024)

    def sent(self, at: int) -> None:
        """An environment was told something."""
        self._sent[at] = time.monotonic()

    def heard(self, numbers: Sequence[int]) -> None:
        """Environments answered."""
        if not numbers:
            return
        now = time.monotonic()
        self._batches += 1
        self._answers += len(numbers)
        self._times.extend(1e3 * (now - self._sent.pop(at)) for at in numbers if at in self._sent)

    def facts(self, reset: bool) -> dict[str, float | int]:
        """Counts, and times in milliseconds.

        Args:
            reset: begin anew afterwards.
        """
        times = sorted(self._times)
        last = len(times) - 1
        found: dict[str, float | int] = {
            "batches": self._batches,
            "results": self._answers,
            "avg_batch_size": self._answers / max(self._batches, 1),
            "fill_rate": self._answers / max(self._batches, 1) / self._count,
            "p50_exchange_ms": times[round(0.5 * last)] if times else 0.0,
            "p95_exchange_ms": times[round(0.95 * last)] if times else 0.0,
        }
        if reset:
            self._clear()
        return found
