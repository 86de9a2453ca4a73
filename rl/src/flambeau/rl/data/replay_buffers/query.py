"""Trajectories of stored steps, and conditions on them: `rb.query((traj.reward.sum() > 100) & (traj.length < 200))`."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorClass

__all__ = ["Trajectory", "TrajectoryPredicate", "filter_trajectories", "iter_trajectories", "traj"]

_IDS = (("collector", "traj_ids"), "traj_ids", "episode")
_ENDS = (("next", "done"), ("next", "terminated"), ("next", "truncated"))


class Trajectory(TensorClass["nocast", "shadow"]):  # type: ignore[misc,name-defined]
    """Steps that follow one another, (steps,). Entries are attributes: at the root, else below "next".

    Args:
        data: a tensordict of the steps.
        batch_size: (steps,).
    """

    data: Any

    @property
    def length(self) -> int:
        """How many steps there are."""
        return int(_steps(self).batch_size[0])

    @property
    def total_reward(self) -> Tensor:
        """The sum of rewards."""
        total: Tensor = _read(_steps(self), "reward").sum()
        return total

    def get(self, key: Any, default: Any = None) -> Any:
        """An entry at the root, else below "next", else `default`."""
        return _found(_steps(self), key, default)

    def keys(self, *args: Any, **kwargs: Any) -> Any:
        """Keys of the steps."""
        return _steps(self).keys(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = _found(_steps(self), name, None)
        if found is None:
            raise AttributeError(f"A trajectory has no entry {name!r}; it has {sorted(map(str, self.keys()))}.")
        return found

    def __getitem__(self, index: Any) -> Any:
        names = index if isinstance(index, tuple) else (index,)
        if names and all(isinstance(part, str) for part in names):
            return _read(_steps(self), index)
        return super().__getitem__(index)

    def __repr__(self) -> str:
        return f"Trajectory(length={self.length}, keys={sorted(map(str, self.keys()))})"


def _steps(trajectory: Trajectory) -> Any:
    return trajectory._tensordict.get("data")


def _found(steps: Any, key: Any, default: Any) -> Any:
    names = key if isinstance(key, tuple) else (key,)
    for each in (names, ("next", *names)):
        value = steps.get(each, None)
        if value is not None:
            return value
    return default


def _read(steps: Any, key: Any) -> Any:
    value = _found(steps, key, None)
    if value is None:
        there = sorted(map(str, steps.keys(True, True)))
        raise KeyError(f"A trajectory has no entry {key!r}, neither at its root nor below 'next'; it has {there}.")
    return value


class TrajectoryPredicate:
    """A condition on trajectories; conditions are joined by `&`, `|` and `~`.

    Args:
        fn: takes a `Trajectory`.
        description: for a person.
        keys: entries that it reads; None if that is not known.
    """

    def __init__(
        self, fn: Callable[[Any], bool], description: str = "predicate", keys: frozenset[Any] | None = None
    ) -> None:
        self._fn, self._description, self._keys = fn, description, keys

    def __call__(self, trajectory: Trajectory) -> bool:
        """Whether it holds."""
        return bool(self._fn(trajectory))

    def required_keys(self) -> frozenset[Any] | None:
        """Entries that it reads; None if that is not known."""
        return self._keys

    def __and__(self, other: TrajectoryPredicate) -> TrajectoryPredicate:
        return self._joined(other, "&", lambda trajectory: self(trajectory) and other(trajectory))

    def __or__(self, other: TrajectoryPredicate) -> TrajectoryPredicate:
        return self._joined(other, "|", lambda trajectory: self(trajectory) or other(trajectory))

    def __invert__(self) -> TrajectoryPredicate:
        return TrajectoryPredicate(lambda trajectory: not self(trajectory), f"~{self._description}", self._keys)

    def _joined(self, other: TrajectoryPredicate, sign: str, both: Callable[[Any], bool]) -> TrajectoryPredicate:
        if not isinstance(other, TrajectoryPredicate):
            return NotImplemented
        keys = None if self._keys is None or other._keys is None else self._keys | other._keys
        return TrajectoryPredicate(both, f"({self._description} {sign} {other._description})", keys)

    def __bool__(self) -> bool:
        raise TypeError("A condition on trajectories is neither true nor false; join conditions by &, | and ~.")

    def __repr__(self) -> str:
        return f"TrajectoryPredicate({self._description})"


class _Expression:
    """What can be computed of a trajectory.

    Args:
        fn: takes a `Trajectory`.
        description: for a person.
        keys: entries that it reads.
    """

    __hash__ = None  # type: ignore[assignment]  # comparisons make conditions

    def __init__(self, fn: Callable[[Any], Any], description: str, keys: frozenset[Any]) -> None:
        self._fn, self._description, self._keys = fn, description, keys

    def _compared(self, sign: str, compare: Callable[[Any, Any], Any], value: Any) -> Any:
        return self._condition(
            lambda trajectory: compare(self._fn(trajectory), value), f"({self._description} {sign} {value!r})"
        )

    def _condition(self, fn: Callable[[Any], Any], description: str) -> Any:
        return TrajectoryPredicate(fn, description, self._keys)

    def __gt__(self, value: Any) -> Any:
        return self._compared(">", operator.gt, value)

    def __ge__(self, value: Any) -> Any:
        return self._compared(">=", operator.ge, value)

    def __lt__(self, value: Any) -> Any:
        return self._compared("<", operator.lt, value)

    def __le__(self, value: Any) -> Any:
        return self._compared("<=", operator.le, value)

    def __eq__(self, value: object) -> Any:
        return self._compared("==", operator.eq, value)

    def __ne__(self, value: object) -> Any:
        return self._compared("!=", operator.ne, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._description})"


class _Number(_Expression):
    """One value of a trajectory."""


class _Elements(_Expression):
    """A condition on each step, of which `any` and `all` make one on the trajectory."""

    def any(self) -> TrajectoryPredicate:
        """Whether it holds at one step."""
        return self._reduced("any")

    def all(self) -> TrajectoryPredicate:
        """Whether it holds at all steps."""
        return self._reduced("all")

    def _reduced(self, name: str) -> TrajectoryPredicate:
        return TrajectoryPredicate(
            lambda trajectory: bool(getattr(torch.as_tensor(self._fn(trajectory)), name)()),
            f"{self._description}.{name}()",
            self._keys,
        )


class _Entry(_Elements):
    """An entry of a trajectory: compared step by step, or reduced to a number."""

    def _condition(self, fn: Callable[[Any], Any], description: str) -> Any:
        return _Elements(fn, description, self._keys)

    def _number(self, name: str, reduce: Callable[[Tensor], Any]) -> _Number:
        return _Number(lambda trajectory: reduce(self._fn(trajectory)), f"{self._description}.{name}()", self._keys)

    def sum(self) -> _Number:
        """The sum over all steps."""
        return self._number("sum", lambda value: value.sum().item())

    def mean(self) -> _Number:
        """The mean over all steps."""
        return self._number("mean", lambda value: value.double().mean().item())

    def max(self) -> _Number:
        """The largest value."""
        return self._number("max", lambda value: value.max().item())

    def min(self) -> _Number:
        """The smallest value."""
        return self._number("min", lambda value: value.min().item())

    def first(self) -> _Number:
        """The first step's value, which must be one."""
        return self._number("first", lambda value: value[0].item())

    def last(self) -> _Number:
        """The last step's value, which must be one."""
        return self._number("last", lambda value: value[-1].item())


class _Reference:
    """`traj`: entries of a trajectory as attributes, or by their keys."""

    length = _Number(lambda trajectory: trajectory.length, "traj.length", frozenset())
    total_reward = _Number(
        lambda trajectory: trajectory.total_reward.item(), "traj.total_reward", frozenset({"reward"})
    )

    def __getattr__(self, name: str) -> _Entry:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._entry(name, f"traj.{name}")

    def __getitem__(self, key: Any) -> _Entry:
        return self._entry(key, f"traj[{key!r}]")

    def _entry(self, key: Any, description: str) -> _Entry:
        return _Entry(lambda trajectory: _read(_steps(trajectory), key), description, frozenset({key}))

    def __repr__(self) -> str:
        return "traj"


traj = _Reference()


def iter_trajectories(data: Any, trajectory_key: Any = None) -> Iterator[Trajectory]:
    """Go through the trajectories of steps that are stored one behind the other.

    They are told by `trajectory_key`, else by ("collector", "traj_ids"), "traj_ids" or "episode", else by flags at
    their ends, with a warning: then one without an end is not told from the one behind it.

    Args:
        data: a tensordict (steps,).
        trajectory_key: the entry that numbers trajectories.

    Raises:
        ValueError: more than one dimension.
        KeyError: nothing tells trajectories, or `trajectory_key` is not there.
    """
    if len(data.batch_size) != 1:
        raise ValueError(f"data has batch size {tuple(data.batch_size)}, expected (steps,); reshape(-1) gives such.")
    stops = _stops(data, trajectory_key)
    start = 0
    for stop in stops:
        part = data[start:stop]
        yield Trajectory(data=part, batch_size=part.batch_size)
        start = stop


def _stops(data: Any, trajectory_key: Any) -> list[int]:
    """Behind which steps a trajectory ends."""
    count = data.batch_size[0]
    if not count:
        return []
    keys = [trajectory_key] if trajectory_key is not None else list(_IDS)
    numbers = next((value for key in keys if (value := data.get(key, None)) is not None), None)
    if numbers is not None:
        flat = numbers.reshape(count, -1)
        ends = (flat[1:] != flat[:-1]).any(-1)
    elif trajectory_key is not None:
        raise KeyError(f"data has no entry {trajectory_key!r}, which numbers trajectories.")
    else:
        flags = [value for key in _ENDS if (value := data.get(key, None)) is not None]
        if not flags:
            raise KeyError(f"nothing tells trajectories: data has none of {_IDS} and none of {_ENDS}.")
        warnings.warn(
            "Trajectories are told by flags at their ends, so that one without such a flag is not told from the one "
            "behind it; store numbers of trajectories to be sure.",
            UserWarning,
            stacklevel=3,
        )
        ends = torch.stack([flag.reshape(count, -1).any(-1) for flag in flags]).any(0)[:-1]
    return [*(ends.nonzero().flatten() + 1).tolist(), count]


def filter_trajectories(
    data: Any, predicate: Callable[[Trajectory], bool] | None = None, *, trajectory_key: Any = None
) -> list[Trajectory]:
    """The trajectories for which a condition holds; see `iter_trajectories`.

    Args:
        data: a tensordict (steps,).
        predicate: a condition made of `traj`, or a function; all for None.
        trajectory_key: the entry that numbers trajectories.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> steps = TensorDict({"episode": torch.tensor([0, 0, 1]), "reward": torch.ones(3)}, [3])
        >>> filter_trajectories(steps, traj.reward.sum() > 1)
        [Trajectory(length=2, keys=['episode', 'reward'])]
    """
    found = iter_trajectories(data, trajectory_key)
    return [trajectory for trajectory in found if predicate is None or predicate(trajectory)]
