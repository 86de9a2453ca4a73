"""Parameters of samplers that change as training goes on."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.data.replay_buffers.samplers.base import Sampler

__all__ = ["LambdaScheduler", "LinearScheduler", "ParameterScheduler", "SchedulerList", "StepScheduler"]

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {"multiplicative": operator.mul, "additive": operator.add}


class ParameterScheduler(ABC):
    """Gives one parameter of a sampler a new value at each call of `step`.

    Args:
        obj: the sampler, or a buffer, whose sampler is meant.
        param_name: the sampler's attribute, such as "beta".
        min_value: the least value it is given; None for no bound.
        max_value: the largest.

    Raises:
        TypeError: neither a sampler nor a buffer.
        ValueError: the sampler has no such attribute.
    """

    def __init__(
        self, obj: Any, param_name: str, min_value: float | None = None, max_value: float | None = None
    ) -> None:
        from flambeau.rl.data.replay_buffers.replay_buffers.base import ReplayBuffer

        if not isinstance(obj, (ReplayBuffer, Sampler)):
            raise TypeError(
                f"{type(self).__name__}: obj has type {type(obj).__name__}, expected a sampler or a buffer."
            )
        self.sampler: Any = obj.sampler if isinstance(obj, ReplayBuffer) else obj
        if not hasattr(self.sampler, param_name):
            raise ValueError(f"A {type(self.sampler).__name__} has no attribute {param_name!r} to schedule.")
        self.param_name = param_name
        self._min_val = -math.inf if min_value is None else min_value
        self._max_val = math.inf if max_value is None else max_value
        self.initial_val = getattr(self.sampler, param_name)
        self._step_cnt = 0

    def step(self) -> None:
        """Go on by one, and set the parameter."""
        self._step_cnt += 1
        value = self._step()
        if isinstance(value, Tensor):
            value = torch.clamp(value, self._min_val, self._max_val)
        else:
            value = min(max(value, self._min_val), self._max_val)
        setattr(self.sampler, self.param_name, value)

    @abstractmethod
    def _step(self) -> Any:
        """The value at `self._step_cnt`, which counts from 1."""

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes."""
        return {name: value for name, value in self.__dict__.items() if name != "sampler"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another scheduler's `state_dict` was made."""
        self.__dict__.update(state_dict)


class LambdaScheduler(ParameterScheduler):
    """The initial value times a function of the number of steps.

    Args:
        obj: see `ParameterScheduler`.
        param_name: see `ParameterScheduler`.
        lambda_fn: the number of steps, from 1 -> factor.
        min_value: see `ParameterScheduler`.
        max_value: see `ParameterScheduler`.
    """

    def __init__(
        self,
        obj: Any,
        param_name: str,
        lambda_fn: Callable[[int], float],
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(obj, param_name, min_value, max_value)
        self.lambda_fn = lambda_fn

    def _step(self) -> Any:
        return self.initial_val * self.lambda_fn(self._step_cnt)


class LinearScheduler(ParameterScheduler):
    """From the initial value to another one in steps of equal size.

    Args:
        obj: see `ParameterScheduler`.
        param_name: see `ParameterScheduler`.
        final_value: the value after `num_steps`, and from then on.
        num_steps: how many steps there are, > 0.

    Raises:
        ValueError: num_steps < 1.
    """

    def __init__(self, obj: Any, param_name: str, final_value: float, num_steps: int) -> None:
        super().__init__(obj, param_name)
        if num_steps < 1:
            raise ValueError(f"LinearScheduler: num_steps is {num_steps}, expected at least 1.")
        if isinstance(self.initial_val, Tensor):
            final_value = torch.as_tensor(final_value).to(self.initial_val)  # type: ignore[assignment]
        self.final_val = final_value
        self.num_steps = num_steps
        self._delta = (self.final_val - self.initial_val) / num_steps

    def _step(self) -> Any:
        if self._step_cnt < self.num_steps:
            return self.initial_val + self._delta * self._step_cnt
        return self.final_val


class StepScheduler(ParameterScheduler):
    """The present value times a factor, or plus a number, every so many steps.

    Args:
        obj: see `ParameterScheduler`.
        param_name: see `ParameterScheduler`.
        gamma: the factor or number.
        n_steps: after how many steps it changes.
        mode: "multiplicative" or "additive".
        min_value: see `ParameterScheduler`.
        max_value: see `ParameterScheduler`.

    Raises:
        ValueError: another mode.
    """

    def __init__(
        self,
        obj: Any,
        param_name: str,
        gamma: float = 0.9,
        n_steps: int = 1,
        mode: str = "multiplicative",
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(obj, param_name, min_value, max_value)
        if mode not in _OPERATORS:
            raise ValueError(f"StepScheduler: mode is {mode!r}, expected one of {', '.join(_OPERATORS)}.")
        self.gamma = gamma
        self.n_steps = n_steps
        self.mode = mode

    def _step(self) -> Any:
        present = getattr(self.sampler, self.param_name)
        if self._step_cnt % self.n_steps:
            return present
        return _OPERATORS[self.mode](present, self.gamma)


class SchedulerList:
    """Several schedulers that step together.

    Args:
        schedulers: a list of them, or one.
    """

    def __init__(self, schedulers: Sequence[ParameterScheduler] | ParameterScheduler) -> None:
        self.schedulers = [schedulers] if isinstance(schedulers, ParameterScheduler) else list(schedulers)

    def append(self, scheduler: ParameterScheduler) -> None:
        """One more."""
        self.schedulers.append(scheduler)

    def step(self) -> None:
        """Let each go on by one."""
        for each in self.schedulers:
            each.step()
