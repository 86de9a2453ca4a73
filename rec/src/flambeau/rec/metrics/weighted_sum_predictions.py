"""The weighted sum of the predictions."""

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
    "WeightedSumPredictionsMetric",
    "WeightedSumPredictionsMetricComputation",
    "compute_weighted_predictions_sum",
    "get_weighted_sum_prediction_states",
]


def compute_weighted_predictions_sum(labels: Tensor, predictions: Tensor, weights: Tensor) -> Tensor:
    """sum(w p) over examples.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
    """
    return example_sum(weights * predictions)


def get_weighted_sum_prediction_states(
    labels: Tensor, predictions: Tensor, weights: Tensor | None
) -> dict[str, Tensor]:
    """A batch's part of the state.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples); None is 1 for all.
    """
    if weights is None:
        weights = torch.ones_like(predictions)
    return {"weighted_predictions_sum": compute_weighted_predictions_sum(labels, predictions, weights)}


class WeightedSumPredictionsMetricComputation(SummedComputation):
    """State of the weighted sum of the predictions."""

    STATES = ("weighted_predictions_sum",)

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return get_weighted_sum_prediction_states(labels, predictions, weights)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        return [(MetricName.WEIGHTED_SUM_PREDICTIONS, sums["weighted_predictions_sum"])]


class WeightedSumPredictionsMetric(RecMetric):
    """sum(w p) over examples."""

    _namespace = MetricNamespace.WEIGHTED_SUM_PREDICTIONS
    _computation_class = WeightedSumPredictionsMetricComputation
