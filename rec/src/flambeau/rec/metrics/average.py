"""The weighted means of labels and of predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from flambeau.rec.metrics._computation import SummedComputation
from flambeau.rec.metrics._ratios import example_sum, ratio
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = [
    "LABEL_SUM",
    "PREDICTION_SUM",
    "WEIGHTED_NUM_SAMPLES",
    "AverageMetric",
    "AverageMetricComputation",
    "compute_average",
    "get_average_states",
]

LABEL_SUM = "label_sum"
PREDICTION_SUM = "prediction_sum"
WEIGHTED_NUM_SAMPLES = "weighted_num_samples"


def compute_average(weighted_sum: Tensor, weighted_num_samples: Tensor) -> Tensor:
    """The mean, float64; 0 where there is no weight."""
    return ratio(weighted_sum, weighted_num_samples)


def get_average_states(labels: Tensor, predictions: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """A batch's part of the states.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
    """
    return {
        LABEL_SUM: example_sum(labels * weights),
        PREDICTION_SUM: example_sum(predictions * weights),
        WEIGHTED_NUM_SAMPLES: example_sum(weights),
    }


class AverageMetricComputation(SummedComputation):
    """States and formulas of the weighted means."""

    STATES = (LABEL_SUM, PREDICTION_SUM, WEIGHTED_NUM_SAMPLES)

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return get_average_states(labels, predictions, weights)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        samples = sums[WEIGHTED_NUM_SAMPLES]
        return [
            (MetricName.LABEL_AVERAGE, compute_average(sums[LABEL_SUM], samples)),
            (MetricName.PREDICTION_AVERAGE, compute_average(sums[PREDICTION_SUM], samples)),
        ]


class AverageMetric(RecMetric):
    """Weighted means of labels and of predictions."""

    _namespace = MetricNamespace.AVERAGE
    _computation_class = AverageMetricComputation
