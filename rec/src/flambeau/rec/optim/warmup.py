"""Learning rates that go by stages of a training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, unique
from typing import Any

import torch

from flambeau.rec.optim.keyed import KeyedOptimizer, OptimizerWrapper

__all__ = ["WarmupOptimizer", "WarmupPolicy", "WarmupStage"]


@unique
class WarmupPolicy(Enum):
    """What the learning rate is multiplied by at iteration i of a stage, with its `value` v.

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
        max_iters: iterations of the stage.
        value: v of the policy.
        lr_scale: a factor besides.
        decay_iters: of POLY and STEP; -1 for `max_iters` and 1.
        sgdr_period: iterations from one restart to the next (Loshchilov and Hutter 2017, arXiv:1608.03983).
        start_interpolating_iters: of INTERPOLATE; 0 where not given.
        end_value: of INTERPOLATE.
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
            raise ValueError(
                f"stages[{at}] ends at iteration {stage.max_iters}, expected more than {last}, where the one before "
                "ends: max_iters count from the beginning."
            )
        last = stage.max_iters
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
        start, end = stage.start_interpolating_iters or 0, stage.end_value if stage.end_value is not None else v
        share = (iteration - start) / (stage.max_iters - start)
        factor = v if iteration <= start else v + (end - v) * min(share, 1.0)
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
        self._iteration, self._stage = 0, 0
        self._remember()
        self._set_lr()

    def _remember(self) -> None:
        kept = {"warmup": torch.tensor([self._iteration, self._stage], dtype=torch.long)}
        self.state[self._warmup_param] = kept  # type: ignore[index]

    def _set_lr(self) -> None:
        rate = self._lr * _multiplier(self._stages[self._stage], self._iteration)
        for group in self.param_groups:
            group[self._lr_param] = rate  # type: ignore[index]

    def post_load_state_dict(self) -> None:
        """Go on from where the state stands."""
        iteration, stage = self.state[self._warmup_param]["warmup"].tolist()
        self._iteration, self._stage = iteration, stage
        self._set_lr()

    def step(self, closure: Any = None) -> None:
        """Make a step, then set the learning rate of the next one."""
        super().step(closure)
        self._iteration += 1
        while self._iteration >= self._stages[self._stage].max_iters:
            self._stage += 1
        self._remember()
        self._set_lr()
