"""Normalized entropy without the part that wrong calibration makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics import ne
from flambeau.rec.metrics._computation import SummedComputation
from flambeau.rec.metrics._ratios import ETA, cross_entropy, entropy, example_sum
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = [
    "CaliFreeNEMetric",
    "CaliFreeNEMetricComputation",
    "compute_cali_free_ne",
    "compute_cross_entropy",
    "get_cali_free_ne_states",
]


def compute_cross_entropy(labels: Tensor, predictions: Tensor, weights: Tensor, eta: float) -> Tensor:
    """-w (y log2 p + (1 - y) log2(1 - p)) of each example, float64, in bits.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
        eta: how near to 0 and 1 predictions may come.
    """
    return cross_entropy(labels, predictions, weights, eta)


def compute_cali_free_ne(
    ce_sum: Tensor,
    weighted_num_samples: Tensor,
    pos_labels: Tensor,
    neg_labels: Tensor,
    weighted_sum_predictions: Tensor,
    eta: float,
    allow_missing_label_with_zero_weight: bool = False,
) -> Tensor:
    """Normalized entropy over -(P log2 q + (W - P) log2(1 - q)), q the mean prediction.

    Args:
        ce_sum: sums of the cross entropy, in bits.
        weighted_num_samples: W, sums of the weights.
        pos_labels: P, sums of the positive labels' weights.
        neg_labels: sums of the negative labels' weights.
        weighted_sum_predictions: sums of the weighted predictions.
        eta: how near to 0 and 1 the means may come.
        allow_missing_label_with_zero_weight: a task without any weight has the value `eta`.
    """
    value = ne.compute_ne(ce_sum, weighted_num_samples, pos_labels, neg_labels, eta)
    mean = (weighted_sum_predictions / weighted_num_samples).clamp(eta, 1 - eta)
    result = value / entropy(pos_labels, weighted_num_samples - pos_labels, mean)
    return torch.where(weighted_num_samples == 0, eta, result) if allow_missing_label_with_zero_weight else result


def get_cali_free_ne_states(labels: Tensor, predictions: Tensor, weights: Tensor, eta: float) -> dict[str, Tensor]:
    """A batch's part of the states.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
        eta: how near to 0 and 1 predictions may come.
    """
    return {
        **ne.get_ne_states(labels, predictions, weights, eta),
        "weighted_sum_predictions": example_sum(weights * predictions),
    }


class CaliFreeNEMetricComputation(SummedComputation):
    """States and formula of calibration-free normalized entropy.

    Args:
        args: see `RecMetricComputation`.
        allow_missing_label_with_zero_weight: see `compute_cali_free_ne`.
        kwargs: see `RecMetricComputation`.
    """

    STATES = ("cross_entropy_sum", "weighted_num_samples", "pos_labels", "neg_labels", "weighted_sum_predictions")

    def __init__(self, *args: Any, allow_missing_label_with_zero_weight: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, allow_missing_label_with_zero_weight=allow_missing_label_with_zero_weight, **kwargs)
        self.eta = ETA

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return get_cali_free_ne_states(labels, predictions, weights, self.eta)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        entropy_sum, samples, positive, negative, predicted = (sums[name] for name in self.STATES)
        sizes = entropy_sum, samples, positive, negative, predicted
        value = compute_cali_free_ne(*sizes, self.eta, self._allow_missing_label_with_zero_weight)
        return [(MetricName.CALI_FREE_NE, value)]


class CaliFreeNEMetric(RecMetric):
    """Calibration-free normalized entropy."""

    _namespace = MetricNamespace.CALI_FREE_NE
    _computation_class = CaliFreeNEMetricComputation
