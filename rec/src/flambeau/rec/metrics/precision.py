"""The weighted share of positive examples among those predicted positive."""

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
    "PrecisionMetric",
    "PrecisionMetricComputation",
    "compute_false_pos_sum",
    "compute_precision",
    "compute_true_pos_sum",
    "get_precision_states",
]

THRESHOLD = "threshold"


def compute_precision(num_true_positives: Tensor, num_false_positives: Tensor) -> Tensor:
    """Positive examples among those predicted positive, float64; 0 where there is none."""
    return ratio(num_true_positives, num_true_positives + num_false_positives)


def compute_true_pos_sum(labels: Tensor, predictions: Tensor, weights: Tensor, threshold: float = 0.5) -> Tensor:
    """The weight of positive examples that are predicted positive.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
        threshold: predictions from it on count as positive.
    """
    return example_sum(weights * ((predictions >= threshold) * labels))


def compute_false_pos_sum(labels: Tensor, predictions: Tensor, weights: Tensor, threshold: float = 0.5) -> Tensor:
    """The weight of negative examples that are predicted positive.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
        threshold: predictions from it on count as positive.
    """
    return example_sum(weights * ((predictions >= threshold) * (1 - labels)))


def get_precision_states(
    labels: Tensor, predictions: Tensor, weights: Tensor | None, threshold: float = 0.5
) -> dict[str, Tensor]:
    """A batch's part of the states.

    Args:
        labels: (tasks, examples), 0 or 1.
        predictions: (tasks, examples).
        weights: (tasks, examples); None is 1 for all.
        threshold: predictions from it on count as positive.
    """
    if weights is None:
        weights = torch.ones_like(predictions)
    return {
        "true_pos_sum": compute_true_pos_sum(labels, predictions, weights, threshold),
        "false_pos_sum": compute_false_pos_sum(labels, predictions, weights, threshold),
    }


class PrecisionMetricComputation(SummedComputation):
    """States and formula of precision.

    Args:
        args: see `RecMetricComputation`.
        threshold: predictions from it on count as positive.
        kwargs: see `RecMetricComputation`.
    """

    STATES = ("true_pos_sum", "false_pos_sum")

    def __init__(self, *args: Any, threshold: float = 0.5, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._threshold = threshold

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return get_precision_states(labels, predictions, weights, self._threshold)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        return [(MetricName.PRECISION, compute_precision(sums["true_pos_sum"], sums["false_pos_sum"]))]


class PrecisionMetric(RecMetric):
    """The weighted share of positive examples among those predicted positive at a threshold."""

    _namespace = MetricNamespace.PRECISION
    _computation_class = PrecisionMetricComputation
