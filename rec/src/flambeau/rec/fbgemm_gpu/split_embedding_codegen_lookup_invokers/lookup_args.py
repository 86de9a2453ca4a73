"""Numbers of an optimizer, and where the bags of batches of different sizes lie."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

__all__ = ["OptimizerArgs", "VBEMetadata"]


class VBEMetadata(NamedTuple):
    """Where bags lie where features and processes bring batches of different sizes.

    Args:
        B_offsets: (features + 1,) int32: which bags are a feature's.
        output_offsets_feature_rank: (processes * features + 1,) int64: where in the flat output each feature of each
            process begins, process by process.
        B_offsets_rank_per_feature: (features, processes + 1) int32: which bags of a feature are a process's.
        max_B_feature_rank: the largest batch of a feature and process.
        max_B: the largest batch of a feature.
        output_size: numbers of the flat output.
        vbe_output: the output, where there is one already.
        vbe_output_offsets: (processes, features) int64: where in it each begins.
    """

    B_offsets: Tensor | None
    output_offsets_feature_rank: Tensor | None
    B_offsets_rank_per_feature: Tensor | None
    max_B_feature_rank: int = -1
    max_B: int = -1
    output_size: int = -1
    vbe_output: Tensor | None = None
    vbe_output_offsets: Tensor | None = None


class OptimizerArgs(NamedTuple):
    """The numbers of an optimizer; see `SplitTableBatchedEmbeddingBagsCodegen`."""

    stochastic_rounding: bool
    gradient_clipping: bool
    max_gradient: float
    max_norm: float
    eps: float
    beta1: float
    beta2: float
    weight_decay: float
    weight_decay_mode: int
    eta: float
    momentum: float
    counter_halflife: int
    adjustment_iter: int
    adjustment_ub: float
    learning_rate_mode: int
    grad_sum_decay: int
    tail_id_threshold: float
    is_tail_id_thresh_ratio: int
    total_hash_size: int
    weight_norm_coefficient: float
    lower_bound: float
    regularization_mode: int
    use_rowwise_bias_correction: bool
