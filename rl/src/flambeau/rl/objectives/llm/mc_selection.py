"""Which of more answers than are needed a group is made of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import Any, Literal

from flambeau.data.tensordict import TensorDictBase

__all__ = ["MCAdvantageSelector"]

_STRATEGIES = ("first", "uniform", "balanced")
Bounds = tuple[float, float]


class MCAdvantageSelector:
    """Choose trajectories from a group that has more of them than an update takes.

    Args:
        strategy: "first" takes those that came first; "uniform" those at even distances in the order of their values;
            "balanced" those whose mean is nearest to the middle of the bounds, and without bounds as "uniform".
        max_combinations: how many choices "balanced" compares; of more it takes the even ones if their mean is within
            the bounds, else it adds to the lowest one what brings the mean nearest to the middle.
        in_keys: what is read of the candidates; the first has one number for each.

    Raises:
        ValueError: an unknown strategy, or no key.

    Example:
        >>> import torch
        >>> from flambeau.data.tensordict import TensorDict
        >>> returns = TensorDict({"return": torch.tensor([0.0, 0.0, 0.0, 1.0])}, [4])
        >>> MCAdvantageSelector().select(returns, group_size=2, keep_return_bounds=(0.1, 0.9))
        [0, 3]
    """

    def __init__(
        self, strategy: Literal["first", "uniform", "balanced"] = "balanced", *, max_combinations: int = 100_000,
        in_keys: list[Any] | None = None,
    ) -> None:  # fmt: skip
        if strategy not in _STRATEGIES:
            raise ValueError(f"strategy is {strategy!r}, expected one of {_STRATEGIES}.")
        if in_keys is not None and not in_keys:
            raise ValueError("in_keys is empty, expected at least the key of the values.")
        self.strategy, self.max_combinations = strategy, max_combinations
        self.in_keys = ["return"] if in_keys is None else list(in_keys)

    def select(
        self, candidates: TensorDictBase, *, group_size: int, keep_return_bounds: Bounds | None = None
    ) -> list[int] | None:
        """The places of the chosen ones.

        Args:
            candidates: one element each; `MCAdvantage` gives "return" and "trajectories".
            group_size: how many to choose.
            keep_return_bounds: between which their mean must lie, bounds excluded.

        Returns:
            Their places, or None where no choice lies within the bounds.

        Raises:
            ValueError: there are fewer candidates, or their values are not one number each.
        """
        values = self._values(candidates)
        if len(values) < group_size:
            raise ValueError(f"group_size is {group_size}, more than the {len(values)} candidates.")
        if self.strategy == "first":
            chosen = list(range(group_size))
        elif self.strategy == "uniform" or keep_return_bounds is None:
            chosen = _evenly(values, group_size)
        else:
            return self._balanced(values, group_size, keep_return_bounds)
        return chosen if _within(values, chosen, keep_return_bounds) else None

    def _values(self, candidates: TensorDictBase) -> list[float]:
        values = candidates.get(self.in_keys[0])
        count = candidates.batch_size[0]
        if values.numel() != count:
            raise ValueError(
                f"the entry {self.in_keys[0]!r} has shape {tuple(values.shape)}, expected one number for each of "
                f"{count} candidates; override select for others."
            )
        return [float(value) for value in values.reshape(-1).tolist()]

    def _balanced(self, values: Sequence[float], size: int, bounds: Bounds) -> list[int] | None:
        middle = sum(bounds) / 2
        if comb(len(values), size) > self.max_combinations:
            return _greedily(values, size, bounds, middle)
        best = min(
            (chosen for chosen in combinations(range(len(values)), size) if _within(values, chosen, bounds)),
            key=lambda chosen: abs(_mean(values, chosen) - middle),
            default=None,
        )
        return None if best is None else list(best)


def _mean(values: Sequence[float], chosen: Sequence[int]) -> float:
    return sum(values[at] for at in chosen) / len(chosen)


def _within(values: Sequence[float], chosen: Sequence[int], bounds: Bounds | None) -> bool:
    return bounds is None or bounds[0] < _mean(values, chosen) < bounds[1]


def _evenly(values: Sequence[float], size: int) -> list[int]:
    order = sorted(range(len(values)), key=lambda at: values[at])
    if size == 1:
        return [order[len(order) // 2]]
    return [order[round(step * (len(order) - 1) / (size - 1))] for step in range(size)]


def _greedily(values: Sequence[float], size: int, bounds: Bounds, middle: float) -> list[int] | None:
    chosen = _evenly(values, size)
    if _within(values, chosen, bounds):
        return chosen
    chosen = [min(range(len(values)), key=lambda at: values[at])]
    while len(chosen) < size:
        left = [at for at in range(len(values)) if at not in chosen]
        chosen.append(min(left, key=lambda at: abs(_mean(values, [*chosen, at]) - middle)))
    return chosen if _within(values, chosen, bounds) else None
