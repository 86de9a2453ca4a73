"""Options of the optimizers of embedding tables."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

__all__ = [
    "CounterBasedRegularizationDefinition",
    "CounterWeightDecayMode",
    "CowClipDefinition",
    "DoesNotHavePrefix",
    "EmainplaceModeDefinition",
    "EnsembleModeDefinition",
    "GlobalWeightDecayDefinition",
    "GradSumDecay",
    "LearningRateMode",
    "StepMode",
    "TailIdThreshold",
    "UserEnabledConfigDefinition",
    "WeightDecayMode",
]


class DoesNotHavePrefix(Exception):
    """A name lacks the prefix that was asked for."""


class WeightDecayMode(enum.IntEnum):
    """How tables decay: in the gradient, by themselves, by counters, or for steps in which a row was not looked up."""

    NONE = 0
    L2 = 1
    DECOUPLE = 2
    COUNTER = 3
    COWCLIP = 4
    DECOUPLE_GLOBAL = 5


class CounterWeightDecayMode(enum.IntEnum):
    """How tables decay where rows are counted."""

    NONE = 0
    L2 = 1
    DECOUPLE = 2
    ADAGRADW = 3


class StepMode(enum.IntEnum):
    """What the steps of an ensemble are counted by."""

    NONE = 0
    USE_COUNTER = 1
    USE_ITER = 2


class LearningRateMode(enum.IntEnum):
    """How the learning rate of rarely and often looked up rows differs."""

    EQUAL = -1
    TAIL_ID_LR_INCREASE = 0
    TAIL_ID_LR_DECREASE = 1
    COUNTER_SGD = 2


class GradSumDecay(enum.IntEnum):
    """Whether the sum of squared gradients decays."""

    NO_DECAY = -1
    CTR_DECAY = 0


@dataclass(frozen=True)
class TailIdThreshold:
    """From how many look-ups on a row is no rare one: a number, or a share of the largest."""

    val: float = 0
    is_ratio: bool = False


@dataclass(frozen=True)
class CounterBasedRegularizationDefinition:
    """Row-wise Adagrad that counts how often each row is looked up."""

    counter_weight_decay_mode: CounterWeightDecayMode = CounterWeightDecayMode.NONE
    counter_halflife: int = -1
    adjustment_iter: int = -1
    adjustment_ub: float = 1.0
    learning_rate_mode: LearningRateMode = LearningRateMode.EQUAL
    grad_sum_decay: GradSumDecay = GradSumDecay.NO_DECAY
    tail_id_threshold: TailIdThreshold = field(default_factory=TailIdThreshold)
    max_counter_update_freq: int = 1000


@dataclass(frozen=True)
class CowClipDefinition:
    """Clipping by the norm of the row and the number of its look-ups (Zheng et al. 2022, arXiv:2204.06240)."""

    counter_weight_decay_mode: CounterWeightDecayMode = CounterWeightDecayMode.NONE
    counter_halflife: int = -1
    weight_norm_coefficient: float = 0.0
    lower_bound: float = 0.0


@dataclass(frozen=True)
class GlobalWeightDecayDefinition:
    """Decay of rows that are not looked up, made up for when they are."""

    start_iter: int = 0
    lower_bound: float = 0.0


@dataclass(frozen=True)
class UserEnabledConfigDefinition:
    """Options that are off unless asked for."""

    use_rowwise_bias_correction: bool = False
    use_writeback_bwd_prehook: bool = False
    writeback_first_feature_only: bool = False
    precompute_writeback: bool = False


@dataclass(frozen=True)
class EnsembleModeDefinition:
    """A slow copy of the tables that takes their average over, and trades places with them."""

    step_ema: float = 10000
    step_swap: float = 10000
    step_start: float = 0
    step_ema_coef: float = 0.6
    step_mode: StepMode = StepMode.USE_ITER


@dataclass(frozen=True)
class EmainplaceModeDefinition:
    """Tables averaged with what they were some steps ago."""

    step_ema: float = 10
    step_start: float = 0
    step_ema_coef: float = 0.6
