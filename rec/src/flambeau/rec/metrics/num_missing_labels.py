"""The number of examples without a label."""

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
    "NumMissingLabelsMetric",
    "NumMissingLabelsMetricComputation",
    "compute_missing_label_sum",
    "get_num_missing_labels_states",
]


def compute_missing_label_sum(labels: Tensor, predictions: Tensor, weights: Tensor) -> Tensor:
    """The weight of the examples whose label is not a number.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
    """
    return example_sum(weights * labels.isnan())


def get_num_missing_labels_states(labels: Tensor, predictions: Tensor, weights: Tensor | None) -> dict[str, Tensor]:
    """A batch's part of the state.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples); None is 1 for all.
    """
    if weights is None:
        weights = torch.ones_like(predictions)
    return {"missing_label_sum": compute_missing_label_sum(labels, predictions, weights)}


class NumMissingLabelsMetricComputation(SummedComputation):
    """State of the number of missing labels."""

    STATES = ("missing_label_sum",)

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return get_num_missing_labels_states(labels, predictions, weights)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        return [(MetricName.NUM_MISSING_LABELS, sums["missing_label_sum"])]


class NumMissingLabelsMetric(RecMetric):
    """The weight of the examples whose label is not a number."""

    _namespace = MetricNamespace.NUM_MISSING_LABELS
    _computation_class = NumMissingLabelsMetricComputation
