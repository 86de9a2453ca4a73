"""Bounded actions, chosen by the number of an interval."""

from __future__ import annotations

import enum
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.data.tensor_specs import Bounded, Categorical, MultiCategorical, MultiOneHot, OneHot, TensorSpec
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["ActionDiscretizer"]


class ActionDiscretizer(Transform):
    """Bounded actions, each dimension of which is cut into intervals of the same length, chosen by their numbers.

    Args:
        num_intervals: how many; or a tensor with a number for each dimension of actions.
        action_key: of the environment's action.
        out_action_key: of the numbers; default: `action_key`.
        sampling: which value of an interval is taken, a `SamplingStrategy`; default: its middle.
        categorical: choices are numbers; else one-hot vectors, one behind the other.

    Raises:
        TypeError: the environment's action is not bounded.

    Example:
        >>> from flambeau.rl.envs import PendulumEnv
        >>> from flambeau.rl.envs.transforms import TransformedEnv
        >>> env = TransformedEnv(PendulumEnv(), ActionDiscretizer(num_intervals=4))
        >>> inner = env.transform.inv(env.reset().set("action", torch.tensor([3])))
        >>> inner["action"]
        tensor([1.5000])
    """

    class SamplingStrategy(enum.IntEnum):
        """The value of an interval that is taken: its middle, its lower or upper end, or a random one."""

        MEDIAN = 0
        LOW = 1
        HIGH = 2
        RANDOM = 3

    def __init__(
        self,
        num_intervals: int | Tensor,
        action_key: NestedKey = "action",
        out_action_key: NestedKey | None = None,
        sampling: Any = None,
        categorical: bool = True,
    ) -> None:
        outer = action_key if out_action_key is None else out_action_key
        super().__init__(in_keys_inv=[action_key], out_keys_inv=[outer])
        self.action_key = action_key
        self.out_action_key = outer
        self.num_intervals: int | Tensor
        if isinstance(num_intervals, Tensor):
            self.register_buffer("num_intervals", num_intervals)
        else:
            self.num_intervals = num_intervals
        self.sampling = self.SamplingStrategy(0 if sampling is None else sampling)
        self.categorical = categorical

    def custom_arange(self, nint: int | Tensor, device: Any) -> Tensor:
        """Where in each of some intervals of [0, 1] the value is that is taken.

        Args:
            nint: number of intervals.
            device: of the result.

        Returns:
            (nint,), ascending.
        """
        count = int(nint)
        return (torch.arange(count, dtype=torch.float32, device=device) + self._offset()) / count

    def _offset(self) -> float:
        """Where in an interval the value is, from 0 to 1; of random ones where the interval begins."""
        return {self.SamplingStrategy.MEDIAN: 0.5, self.SamplingStrategy.HIGH: 1.0}.get(self.sampling, 0.0)

    # Specs

    def transform_input_spec(self, input_spec: Any) -> Any:
        """Numbers of intervals in the place of actions.

        Args:
            input_spec: a composite.
        """
        actions = input_spec["full_action_spec"]
        spec = actions[self.action_key]
        if not isinstance(spec, Bounded):
            raise TypeError(f"ActionDiscretizer cuts bounded actions into intervals; got {type(spec).__name__}.")
        if self.out_action_key != self.action_key:
            del actions[self.action_key]
        actions[self.out_action_key] = self._choices(spec)
        input_spec["full_action_spec"] = actions
        self._tabulate(spec)
        return input_spec

    def _tabulate(self, spec: Any) -> None:
        """Keep the numbers of intervals, and their values where all dimensions have as many."""
        if isinstance(self.num_intervals, Tensor):
            self.register_buffer("nvec", self.num_intervals)
            return
        low, high = spec[(0,) * (len(spec.shape) - 1)].low, spec[(0,) * (len(spec.shape) - 1)].high
        at = self._places_of(torch.arange(self.num_intervals, device=low.device), self.num_intervals, low.dtype)
        self.register_buffer("intervals", low.unsqueeze(-1) + (high - low).unsqueeze(-1) * at)
        self.register_buffer("nvec", self._numbers(spec).clone())

    def _places_of(self, choice: Tensor, number: Any, dtype: torch.dtype) -> Tensor:
        """Where between the bounds the values of intervals are, from 0 to 1."""
        return choice.to(dtype) / number + self._offset() / number  # type: ignore[no-any-return]

    def _choices(self, spec: Any) -> TensorSpec:
        numbers = self._numbers(spec)
        shape, device = spec.shape, spec.device
        if not shape or (not isinstance(self.num_intervals, Tensor) and not shape):
            kind = Categorical if self.categorical else OneHot
            return kind(int(numbers), device=device)
        sizes = numbers.tolist()
        batch = shape[:-1]
        if self.categorical:
            return MultiCategorical(sizes, shape=shape, device=device)
        return MultiOneHot(sizes, shape=(*batch, sum(sizes)), device=device)

    def _numbers(self, spec: Any) -> Tensor:
        """How many intervals each dimension has."""
        numbers = torch.as_tensor(self.num_intervals)
        return numbers.expand(spec.shape[-1:]) if spec.shape else numbers

    # Data

    def inv(self, tensordict: Any) -> Any:
        """The actions of the numbers in a tensordict.

        Args:
            tensordict: is not changed.
        """
        return self._inv_call(tensordict.copy())

    def _inv_call(self, tensordict: Any) -> Any:
        parent = self.parent
        if parent is None:
            raise RuntimeError("ActionDiscretizer needs an environment, whose actions have bounds; append it to one.")
        choice = tensordict.get(self.out_action_key, None)
        if choice is None:
            if self.missing_tolerance:
                return tensordict
            raise self._missing(self.out_action_key, tensordict)
        spec = parent.full_action_spec[self.action_key]
        numbers = self._numbers(spec).to(choice.device)
        if not self.categorical:
            choice = _places(choice, numbers)
        low, high = spec.low, spec.high
        at = self._places_of(choice, numbers, low.dtype)
        if self.sampling == self.SamplingStrategy.RANDOM:
            at = at + torch.rand(at.shape, dtype=low.dtype, device=low.device) / numbers
        tensordict.set(self.action_key, (low + at * (high - low)).to(spec.dtype))
        if self.out_action_key != self.action_key:
            tensordict.del_(self.out_action_key)
        return tensordict

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(\n    num_intervals={self.num_intervals},\n    action_key={self.action_key},\n"
            f"    out_action_key={self.out_action_key},\n    sampling={int(self.sampling)},\n"
            f"    categorical={self.categorical})"
        )


def _places(one_hot: Tensor, numbers: Tensor) -> Tensor:
    """From one-hot vectors one behind the other to numbers."""
    if not numbers.ndim:
        return one_hot.long().argmax(-1)
    parts = one_hot.long().split(numbers.tolist(), -1)
    return torch.stack([part.argmax(-1) for part in parts], -1)
