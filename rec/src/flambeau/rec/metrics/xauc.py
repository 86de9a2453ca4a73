"""The weighted share of pairs of examples that labels and predictions rank alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from flambeau.rec.metrics._computation import SummedComputation
from flambeau.rec.metrics._pairs import concordant_weight, pair_weight, tied_weight
from flambeau.rec.metrics._ratios import ratio
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = [
    "ERROR_SUM",
    "WEIGHTED_NUM_PAIRS",
    "XAUCMetric",
    "XAUCMetricComputation",
    "compute_error_sum",
    "compute_weighted_num_pairs",
    "compute_xauc",
    "get_xauc_states",
]

ERROR_SUM = "error_sum"
WEIGHTED_NUM_PAIRS = "weighted_num_pairs"


def compute_error_sum(labels: Tensor, predictions: Tensor, weights: Tensor) -> Tensor:
    """The weight of the pairs that labels and predictions rank alike, in O(n log n).

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).

    Returns:
        (tasks,), float64; the sum of w_i w_j over pairs whose labels and predictions differ in the same direction, or
        are equal both.
    """
    predictions = predictions.double()
    return concordant_weight(predictions, labels, weights) + tied_weight(predictions, labels, weights)


def compute_weighted_num_pairs(weights: Tensor) -> Tensor:
    """The weight of all pairs, the sum of w_i w_j over i < j.

    Args:
        weights: (tasks, examples).
    """
    return pair_weight(weights)


def compute_xauc(error_sum: Tensor, weighted_num_pairs: Tensor) -> Tensor:
    """The share of pairs that are ranked alike, float64; 0 where there are none."""
    return ratio(error_sum, weighted_num_pairs)


def get_xauc_states(labels: Tensor, predictions: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """A batch's part of the states: pairs are those within a batch.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
    """
    return {
        ERROR_SUM: compute_error_sum(labels, predictions, weights),
        WEIGHTED_NUM_PAIRS: compute_weighted_num_pairs(weights),
    }


class XAUCMetricComputation(SummedComputation):
    """States and formula of XAUC."""

    STATES = (ERROR_SUM, WEIGHTED_NUM_PAIRS)

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return get_xauc_states(labels, predictions, weights)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        return [(MetricName.XAUC, compute_xauc(sums[ERROR_SUM], sums[WEIGHTED_NUM_PAIRS]))]


class XAUCMetric(RecMetric):
    """XAUC: AUC's generalization to real labels, such as watching times.

    References:
        Zhan et al. 2022, "Deconfounding Duration Bias in Watch-time Prediction for Video Recommendation", section 5.1.
    """

    _namespace = MetricNamespace.XAUC
    _computation_class = XAUCMetricComputation
