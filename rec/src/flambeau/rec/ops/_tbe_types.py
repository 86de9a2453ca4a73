"""What table-batched embeddings are given: the tables and bags of a batch, and the optimizer in their backward pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from torch import Tensor

SUM, MEAN, NONE = range(3)

OPTIMIZERS = (
    "exact_sgd", "exact_adagrad", "exact_row_wise_adagrad", "row_wise_adagrad_with_counter", "adam",
    "partial_row_wise_adam", "lamb", "partial_row_wise_lamb", "lars_sgd", "row_wise_rmsprop_ar",
)  # fmt: skip
"""In the order of `Optimizer` in native/tbe_optimizers.h."""


@dataclass  # not frozen, which would make each batch's five times as slow to construct
class Lookup:
    """Tables and bags. It is never changed.

    Args:
        weights: all tables in one piece of memory; float32, float16 or bfloat16.
        layout: (5, features) int64: where the table of each feature begins in `weights`, its rows, its columns, the
            number of its first row among all rows of all tables, and where the feature begins in a row of the output.
        indices: (total,) int32 or int64, each a row of its feature's table.
        offsets: (bags + 1,) int64, feature-major.
        bag_starts: (features + 1,) int64: which bags are a feature's.
        row_width: of the output.
        pooling: SUM, MEAN or NONE.
        bag_weights: (total,) float32: a factor for each index.
        outputs: (bags,) int64: where in the output each bag begins, where that is not by example and feature.
        cache: (slots, widest): rows that are kept here rather than in `weights` for the time being.
        slots: (total,) int32: which of them each index's row is; -1 for rows in `weights`.
        find_slots: gives `slots` as they are now, where a cache may have changed meanwhile.
        fits: whether it is known that offsets rise from 0 to total and that all indices are rows.

    Attributes:
        described: what native kernels are told of it, once they were.
    """

    weights: Tensor
    layout: Tensor
    indices: Tensor
    offsets: Tensor
    bag_starts: Tensor
    row_width: int
    pooling: int
    bag_weights: Tensor | None = None
    outputs: Tensor | None = None
    cache: Tensor | None = None
    slots: Tensor | None = None
    find_slots: Callable[[], Tensor] | None = None
    fits: bool = False
    described: Any = field(default=None, init=False, repr=False, compare=False)

    def located(self) -> Lookup:
        """This one, with its rows where they are now."""
        return self if self.find_slots is None else replace(self, slots=self.find_slots())


class OptimizerStates(NamedTuple):
    """What an optimizer remembers of all tables: arrays, and where each feature's table begins in them.

    Native kernels have them in float32.
    """

    momentum1: Tensor | None = None
    momentum1_offsets: Tensor | None = None
    momentum2: Tensor | None = None
    momentum2_offsets: Tensor | None = None
    prev_iter: Tensor | None = None
    row_counter: Tensor | None = None
    row_offsets: Tensor | None = None


class OptimizerSettings(NamedTuple):
    """The numbers of an optimizer; the names and meanings are those of FBGEMM's."""

    optimizer: str
    lr: float
    iteration: int
    eps: float = 1e-8
    weight_decay: float = 0.0
    weight_decay_mode: int = 0
    beta1: float = 0.9
    beta2: float = 0.999
    momentum: float = 0.9
    eta: float = 0.001
    max_norm: float = 0.0
    counter_halflife: int = -1
    learning_rate_mode: int = -1
    regularization_mode: int = 0
    tail_is_ratio: int = 0
    adjustment_iter: int = -1
    adjustment_ub: float = 1.0
    max_counter: float = 0.0
    tail_threshold: float = 0.0
    weight_norm_coefficient: float = 0.0
    lower_bound: float = 0.0
    ar_alpha: float = 0.0
    min_shrinkage: float = 0.1
    grad_sum_decay: int = -1
    rowwise_bias_correction: int = 0
    decay_from: int = 0
    stochastic_rounding: bool = False
    seed: int = 0
