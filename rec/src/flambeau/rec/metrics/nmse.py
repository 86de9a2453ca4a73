"""Mean squared error relative to that of predicting 1 for every example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics._ratios import ratio
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace
from flambeau.rec.metrics.mse import MSEMetricComputation, compute_error_sum, compute_mse, compute_rmse, get_mse_states
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = [
    "CONST_PRED_ERROR_SUM",
    "ERROR_SUM",
    "WEIGHTED_NUM_SAMPLES",
    "NMSEMetric",
    "NMSEMetricComputation",
    "compute_norm",
    "get_norm_mse_states",
]

CONST_PRED_ERROR_SUM = "const_pred_error_sum"
ERROR_SUM = "error_sum"
WEIGHTED_NUM_SAMPLES = "weighted_num_samples"


def compute_norm(model_error_sum: Tensor, baseline_error_sum: Tensor) -> Tensor:
    """The model's error relative to the baseline's, float64; 0 where the baseline has none."""
    return ratio(model_error_sum, baseline_error_sum)


def get_norm_mse_states(labels: Tensor, predictions: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """A batch's part of the states.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
    """
    return {
        **get_mse_states(labels, predictions, weights),
        CONST_PRED_ERROR_SUM: compute_error_sum(labels, torch.ones_like(labels), weights),
    }


class NMSEMetricComputation(MSEMetricComputation):
    """States and formulas of the normalized mean squared error."""

    STATES = (ERROR_SUM, WEIGHTED_NUM_SAMPLES, CONST_PRED_ERROR_SUM)

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        states = get_norm_mse_states(labels, predictions, weights)
        return {name: states[name] for name in self.STATES}

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        samples = sums[WEIGHTED_NUM_SAMPLES]
        model, baseline = sums[ERROR_SUM], sums[CONST_PRED_ERROR_SUM]
        return [
            (MetricName.NMSE, compute_norm(compute_mse(model, samples), compute_mse(baseline, samples))),
            (MetricName.NRMSE, compute_norm(compute_rmse(model, samples), compute_rmse(baseline, samples))),
        ]


class NMSEMetric(RecMetric):
    """Mean squared error over that of the constant prediction 1, and the same of the roots."""

    _namespace = MetricNamespace.NMSE
    _computation_class = NMSEMetricComputation
