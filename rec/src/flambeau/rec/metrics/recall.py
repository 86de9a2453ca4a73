"""The weighted share of positive examples that are predicted positive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics._computation import SummedComputation
from flambeau.rec.metrics._ratios import example_sum
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace
from flambeau.rec.metrics.precision import THRESHOLD, compute_true_pos_sum
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = [
    "THRESHOLD",
    "RecallMetric",
    "RecallMetricComputation",
    "compute_false_neg_sum",
    "compute_recall",
    "compute_true_pos_sum",
    "get_recall_states",
]


def compute_recall(num_true_positives: Tensor, num_false_negitives: Tensor) -> Tensor:
    """Positive examples that are found; 0 where there is none."""
    total = num_true_positives + num_false_negitives
    return torch.where(total == 0.0, 0.0, num_true_positives / total)


def compute_false_neg_sum(labels: Tensor, predictions: Tensor, weights: Tensor, threshold: float = 0.5) -> Tensor:
    """The weight of positive examples that are predicted negative.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
        threshold: predictions from it on count as positive.
    """
    return example_sum(weights * ((predictions < threshold) * labels))


def get_recall_states(
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
        "false_neg_sum": compute_false_neg_sum(labels, predictions, weights, threshold),
    }


class RecallMetricComputation(SummedComputation):
    """States and formula of recall.

    Args:
        args: see `RecMetricComputation`.
        threshold: predictions from it on count as positive.
        kwargs: see `RecMetricComputation`.
    """

    STATES = ("true_pos_sum", "false_neg_sum")

    def __init__(self, *args: Any, threshold: float = 0.5, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._threshold = threshold

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return get_recall_states(labels, predictions, weights, self._threshold)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        return [(MetricName.RECALL, compute_recall(sums["true_pos_sum"], sums["false_neg_sum"]))]


class RecallMetric(RecMetric):
    """The weighted share of positive examples that are predicted positive at a threshold."""

    _namespace = MetricNamespace.RECALL
    _computation_class = RecallMetricComputation
