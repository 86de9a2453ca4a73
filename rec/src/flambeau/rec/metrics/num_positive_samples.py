"""The number of positive examples, weighted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics._computation import SummedComputation
from flambeau.rec.metrics._ratios import example_sum
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = [
    "NumPositiveSamplesMetric",
    "NumPositiveSamplesMetricComputation",
    "compute_weighted_pos_sum",
    "get_num_positive_sample_states",
]


def compute_weighted_pos_sum(labels: Tensor, predictions: Tensor, weights: Tensor) -> Tensor:
    """sum(w y) over examples.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
    """
    return example_sum(weights * labels)


def get_num_positive_sample_states(labels: Tensor, predictions: Tensor, weights: Tensor | None) -> dict[str, Tensor]:
    """A batch's part of the state.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples); None is 1 for all.
    """
    if weights is None:
        weights = torch.ones_like(predictions)
    return {"weighted_pos_sum": compute_weighted_pos_sum(labels, predictions, weights)}


class NumPositiveSamplesMetricComputation(SummedComputation):
    """State of the number of positive examples."""

    STATES = ("weighted_pos_sum",)

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return get_num_positive_sample_states(labels, predictions, weights)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        return [(MetricName.NUM_POSITIVE_SAMPLES, sums["weighted_pos_sum"])]


class NumPositiveSamplesMetric(RecMetric):
    """sum(w y) over examples."""

    _namespace = MetricNamespace.NUM_POSITIVE_SAMPLES
    _computation_class = NumPositiveSamplesMetricComputation
