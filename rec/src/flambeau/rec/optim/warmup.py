"""Learning rates that go by stages of a training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, unique
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.optim.keyed import KeyedOptimizer, OptimizerWrapper

__all__ = ["WarmupOptimizer", "WarmupPolicy", "WarmupStage"]


@unique
class WarmupPolicy(Enum):
    """What the learning rate is multiplied by at iteration i of the training, with the `value` v of the stage.

    ===============================  ====================================================================
    NONE                             1
    LINEAR                           v + (1 - v) * i / max_iters
    CONSTANT                         v
    POLY                             (1 - i / decay_iters) ** v
    STEP                             v ** (i // decay_iters)
    INVSQRT                          1 / sqrt(i)
    COSINE_ANNEALING_WARM_RESTARTS   v + (1 - v) * (1 + cos(pi * (i mod sgdr_period) / sgdr_period)) / 2
    INTERPOLATE                      v until start_interpolating_iters, then in a line to end_value
    ===============================  ====================================================================
    """

    NONE = "none"
    LINEAR = "linear"
    CONSTANT = "constant"
    POLY = "poly"
    STEP = "step"
    INVSQRT = "inv_sqrt"
    COSINE_ANNEALING_WARM_RESTARTS = "cosine_annealing_warm_restarts"
    INTERPOLATE = "interpolate"


@dataclass
class WarmupStage:
    """Iterations with one way of setting the learning rate.

    Args:
        policy: see there.
        max_iters: the last iteration of the stage, counted from the beginning of the training.
        value: v of the policy.
        lr_scale: a factor besides.
        decay_iters: of POLY and STEP; -1 for `max_iters` and 1.
        sgdr_period: iterations from one restart to the next (Loshchilov and Hutter 2017, arXiv:1608.03983).
        start_interpolating_iters: of INTERPOLATE, which needs it.
        end_value: of INTERPOLATE, which needs it.
    """

    policy: WarmupPolicy = WarmupPolicy.LINEAR
    max_iters: int = 1
    value: float = 1.0
    lr_scale: float = 1.0
    decay_iters: int = -1
    sgdr_period: int = 1
    start_interpolating_iters: int | None = None
    end_value: float | None = None


def _completed(stages: list[WarmupStage]) -> list[WarmupStage]:
    """The stages with defaults for what is not given, and one without end after them."""
    last = 0
    for at, stage in enumerate(stages):
        if stage.max_iters <= last:
            raise OptionError(
                f"stages[{at}] ends at iteration {stage.max_iters}, expected more than {last}, where the one before "
                "ends: max_iters count from the beginning."
            )
        last = stage.max_iters
        if stage.policy == WarmupPolicy.INTERPOLATE and None in (stage.start_interpolating_iters, stage.end_value):
            raise OptionError(
                f"stages[{at}] interpolates from start_interpolating_iters={stage.start_interpolating_iters} to "
                f"end_value={stage.end_value}; give both."
            )
        if stage.decay_iters <= 0:
            stage.decay_iters = 1 if stage.policy == WarmupPolicy.STEP else stage.max_iters
    return [*stages, WarmupStage(policy=WarmupPolicy.NONE, max_iters=1 << 60)]


def _multiplier(stage: WarmupStage, iteration: int) -> float:
    """What the learning rate is multiplied by."""
    v = stage.value
    factor = 1.0
    if stage.policy == WarmupPolicy.LINEAR:
        factor = v + (1 - v) * iteration / stage.max_iters
    elif stage.policy == WarmupPolicy.CONSTANT:
        factor = v
    elif stage.policy == WarmupPolicy.POLY:
        factor = math.pow(1 - iteration / stage.decay_iters, v)
    elif stage.policy == WarmupPolicy.STEP:
        factor = math.pow(v, iteration // stage.decay_iters)
    elif stage.policy == WarmupPolicy.INVSQRT:
        factor = 1 / math.sqrt(max(iteration, 1))
    elif stage.policy == WarmupPolicy.COSINE_ANNEALING_WARM_RESTARTS:
        phase = iteration % stage.sgdr_period / stage.sgdr_period
        factor = v + (1 - v) * 0.5 * (1 + math.cos(math.pi * phase))
    elif stage.policy == WarmupPolicy.INTERPOLATE:
        assert stage.start_interpolating_iters is not None
        assert stage.end_value is not None
        start = stage.start_interpolating_iters
        share = max(iteration - start, 0) / max(stage.max_iters - start, 1)
        factor = v + (stage.end_value - v) * share
    return factor * stage.lr_scale


class WarmupOptimizer(OptimizerWrapper):
    """An optimizer whose learning rate is set anew after each step.

    Where it stands is part of its state, under a parameter of its own.

    Args:
        optimizer: what makes the steps.
        stages: one after another; after the last one the learning rate is `lr`.
        lr: what stages multiply.
        lr_param: what groups of parameters call their learning rate.
        param_name: of its own parameter.
    """

    def __init__(
        self,
        optimizer: KeyedOptimizer,
        stages: list[WarmupStage],
        lr: float = 0.1,
        lr_param: str = "lr",
        param_name: str = "__warmup",
    ) -> None:
        super().__init__(optimizer)
        self._stages = _completed(stages)
        self._lr_param, self._lr = lr_param, lr
        self._warmup_param = torch.nn.Parameter()
        self.params = {**self.params, param_name: self._warmup_param}
        self._param_name = param_name
        self._iteration, self._stage = 0, 0
        self._set_lr()

    def _place(self) -> dict[str, Tensor]:
        return {"warmup": torch.tensor([self._iteration, self._stage], dtype=torch.long)}

    def _set_lr(self) -> None:
        rate = self._lr * _multiplier(self._stages[self._stage], self._iteration)
        for group in self.param_groups:
            group[self._lr_param] = rate  # type: ignore[index]

    def post_load_state_dict(self) -> None:
        """Tell the other one, then set the learning rate."""
        super().post_load_state_dict()
        self._set_lr()

    def state_dict(self) -> dict[str, Any]:
        """That of the other one; after the first step with the iteration and the stage, too."""
        found = super().state_dict()
        if self._iteration:
            found["state"] = {**found["state"], self._param_name: self._place()}
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take a state over, and go on from where it stands.

        Raises:
            ValueError: it does not say where it stands, though steps were made here; and as of
                `KeyedOptimizer.load_state_dict`.
        """
        states = dict(state_dict["state"])
        place = states.pop(self._param_name, None)
        if place is None and self._iteration:
            raise ValueError(f"state_dict has no state of {self._param_name!r}, which says how far the training is.")
        self._iteration, self._stage = (0, 0) if place is None else place["warmup"].tolist()
        super().load_state_dict({**state_dict, "state": states})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Make a step, then set the learning rate of the next one."""
        super().step(closure)
        self._iteration += 1
        while self._iteration > self._stages[self._stage].max_iters:
            self._stage += 1
        self._set_lr()
