"""The part of normalized entropy that positive labels make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics._computation import SummedComputation
from flambeau.rec.metrics._ratios import ETA, clamped, entropy, example_sum
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = [
    "NEPositiveMetric",
    "NEPositiveMetricComputation",
    "compute_cross_entropy_positive",
    "compute_ne_positive",
    "get_ne_positive_states",
]


def compute_cross_entropy_positive(labels: Tensor, predictions: Tensor, weights: Tensor, eta: float) -> Tensor:
    """-w y log2 p of each example, float64, in bits.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
        eta: how near to 0 and 1 predictions may come.
    """
    return -weights * labels * torch.log2(clamped(predictions, eta))


def compute_ne_positive(
    ce_positive_sum: Tensor,
    weighted_num_samples: Tensor,
    pos_labels: Tensor,
    neg_labels: Tensor,
    eta: float,
    allow_missing_label_with_zero_weight: bool = False,
) -> Tensor:
    """The positive labels' part of the cross entropy, over the cross entropy of predicting the mean label.

    Args:
        ce_positive_sum: sums of the positive labels' cross entropy, in bits.
        weighted_num_samples: sums of the weights.
        pos_labels: sums of the positive labels' weights.
        neg_labels: sums of the negative labels' weights.
        eta: how near to 0 and 1 the mean label may come.
        allow_missing_label_with_zero_weight: a task without any weight has the value `eta`.
    """
    mean = (pos_labels / weighted_num_samples).clamp(eta, 1 - eta)
    result = ce_positive_sum / entropy(pos_labels, neg_labels, mean)
    return torch.where(weighted_num_samples == 0, eta, result) if allow_missing_label_with_zero_weight else result


def get_ne_positive_states(labels: Tensor, predictions: Tensor, weights: Tensor, eta: float) -> dict[str, Tensor]:
    """A batch's part of the states.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
        eta: how near to 0 and 1 predictions may come.
    """
    return {
        "cross_entropy_positive_sum": example_sum(compute_cross_entropy_positive(labels, predictions, weights, eta)),
        "weighted_num_samples": example_sum(weights),
        "pos_labels": example_sum(weights * labels),
        "neg_labels": example_sum(weights * (1.0 - labels)),
    }


class NEPositiveMetricComputation(SummedComputation):
    """States and formula of the positive part of normalized entropy.

    Args:
        args: see `RecMetricComputation`.
        allow_missing_label_with_zero_weight: see `compute_ne_positive`.
        kwargs: see `RecMetricComputation`.
    """

    STATES = ("cross_entropy_positive_sum", "weighted_num_samples", "pos_labels", "neg_labels")

    def __init__(self, *args: Any, allow_missing_label_with_zero_weight: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, allow_missing_label_with_zero_weight=allow_missing_label_with_zero_weight, **kwargs)
        self.eta = ETA

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return get_ne_positive_states(labels, predictions, weights, self.eta)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        entropy_sum, samples, positive, negative = (sums[name] for name in self.STATES)
        sizes = entropy_sum, samples, positive, negative
        value = compute_ne_positive(*sizes, self.eta, self._allow_missing_label_with_zero_weight)
        return [(MetricName.NE_POSITIVE, value)]


class NEPositiveMetric(RecMetric):
    """Normalized entropy, of positive labels alone."""

    _namespace = MetricNamespace.NE_POSITIVE
    _computation_class = NEPositiveMetricComputation
