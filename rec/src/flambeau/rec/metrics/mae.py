"""Mean absolute error."""

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
    "ERROR_SUM",
    "WEIGHTED_NUM_SAMPLES",
    "MAEMetric",
    "MAEMetricComputation",
    "compute_error_sum",
    "compute_mae",
    "get_mae_states",
]

ERROR_SUM = "error_sum"
WEIGHTED_NUM_SAMPLES = "weighted_num_samples"


def compute_error_sum(labels: Tensor, predictions: Tensor, weights: Tensor) -> Tensor:
    """sum(w |y - p|) over examples.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
    """
    predictions = predictions.double()
    return example_sum(weights * torch.abs(labels - predictions))


def compute_mae(error_sum: Tensor, weighted_num_samples: Tensor) -> Tensor:
    """The mean absolute error, float64; 0 where there is no weight."""
    return ratio(error_sum, weighted_num_samples)


def get_mae_states(labels: Tensor, predictions: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """A batch's part of the states.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
    """
    return {
        ERROR_SUM: compute_error_sum(labels, predictions, weights),
        WEIGHTED_NUM_SAMPLES: example_sum(weights),
    }


class MAEMetricComputation(SummedComputation):
    """States and formula of the mean absolute error."""

    STATES = (ERROR_SUM, WEIGHTED_NUM_SAMPLES)

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return get_mae_states(labels, predictions, weights)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        return [(MetricName.MAE, compute_mae(sums[ERROR_SUM], sums[WEIGHTED_NUM_SAMPLES]))]


class MAEMetric(RecMetric):
    """Mean absolute error, sum(w |y - p|) / sum(w)."""

    _namespace = MetricNamespace.MAE
    _computation_class = MAEMetricComputation
