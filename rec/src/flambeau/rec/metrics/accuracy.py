"""The weighted share of examples that are predicted right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics._computation import SummedComputation
from flambeau.rec.metrics._ratios import example_sum, ratio
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = [
    "THRESHOLD",
    "AccuracyMetric",
    "AccuracyMetricComputation",
    "compute_accuracy",
    "compute_accuracy_sum",
    "get_accuracy_states",
]

THRESHOLD = "threshold"


def compute_accuracy(accuracy_sum: Tensor, weighted_num_samples: Tensor) -> Tensor:
    """The share of right predictions, float64; 0 where there is no weight."""
    return ratio(accuracy_sum, weighted_num_samples)


def compute_accuracy_sum(labels: Tensor, predictions: Tensor, weights: Tensor, threshold: float = 0.5) -> Tensor:
    """The weight of the examples that are predicted right.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
        threshold: predictions above it count as positive.
    """
    return example_sum(weights * ((predictions >= threshold) == labels))


def get_accuracy_states(
    labels: Tensor, predictions: Tensor, weights: Tensor | None, threshold: float = 0.5
) -> dict[str, Tensor]:
    """A batch's part of the states.

    Args:
        labels: (tasks, examples), 0 or 1.
        predictions: (tasks, examples).
        weights: (tasks, examples); None is 1 for all.
        threshold: predictions above it count as positive.
    """
    if weights is None:
        weights = torch.ones_like(predictions)
    return {
        "accuracy_sum": compute_accuracy_sum(labels, predictions, weights, threshold),
        "weighted_num_samples": example_sum(weights),
    }


class AccuracyMetricComputation(SummedComputation):
    """States and formula of accuracy.

    Args:
        args: see `RecMetricComputation`.
        threshold: predictions from it on count as positive.
        kwargs: see `RecMetricComputation`.
    """

    STATES = ("accuracy_sum", "weighted_num_samples")

    def __init__(self, *args: Any, threshold: float = 0.5, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._threshold = threshold

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return get_accuracy_states(labels, predictions, weights, self._threshold)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        return [(MetricName.ACCURACY, compute_accuracy(sums["accuracy_sum"], sums["weighted_num_samples"]))]


class AccuracyMetric(RecMetric):
    """Accuracy at a threshold."""

    _namespace = MetricNamespace.ACCURACY
    _computation_class = AccuracyMetricComputation
