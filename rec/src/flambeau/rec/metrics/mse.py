"""Mean squared error, its root, and the share of variance that is explained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics._computation import MetricComputationReport, SummedComputation
from flambeau.rec.metrics._ratios import example_sum, ratio
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace, MetricPrefix
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = [
    "ERROR_SUM",
    "LABEL_SQUARED_SUM",
    "LABEL_SUM",
    "WEIGHTED_NUM_SAMPLES",
    "MSEMetric",
    "MSEMetricComputation",
    "compute_error_sum",
    "compute_mse",
    "compute_r_squared",
    "compute_rmse",
    "get_mse_states",
]

ERROR_SUM = "error_sum"
WEIGHTED_NUM_SAMPLES = "weighted_num_samples"
LABEL_SUM = "label_sum"
LABEL_SQUARED_SUM = "label_squared_sum"


def compute_error_sum(labels: Tensor, predictions: Tensor, weights: Tensor) -> Tensor:
    """sum(w (y - p)^2) over examples.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
    """
    predictions = predictions.double()
    return example_sum(weights * torch.square(labels - predictions))


def compute_mse(error_sum: Tensor, weighted_num_samples: Tensor) -> Tensor:
    """The mean squared error, float64; 0 where there is no weight."""
    return ratio(error_sum, weighted_num_samples)


def compute_rmse(error_sum: Tensor, weighted_num_samples: Tensor) -> Tensor:
    """The root of the mean squared error, float64; 0 where there is no weight."""
    return torch.sqrt(compute_mse(error_sum, weighted_num_samples))


def compute_r_squared(
    error_sum: Tensor, weighted_num_samples: Tensor, label_sum: Tensor, label_squared_sum: Tensor
) -> Tensor:
    """1 - error / variance of the labels, float64; 1 is perfect, and constant predictions have 0 at most."""
    total = label_squared_sum - torch.square(label_sum) / weighted_num_samples
    return torch.where(total == 0.0, 1.0, 1.0 - error_sum / total).double()


def get_mse_states(labels: Tensor, predictions: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """A batch's part of the states.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
    """
    return {
        ERROR_SUM: compute_error_sum(labels, predictions, weights),
        WEIGHTED_NUM_SAMPLES: example_sum(weights),
        LABEL_SUM: example_sum(weights * labels),
        LABEL_SQUARED_SUM: example_sum(weights * torch.square(labels)),
    }


class MSEMetricComputation(SummedComputation):
    """States and formulas of the mean squared error.

    Args:
        args: see `RecMetricComputation`.
        include_r_squared: report R^2 too.
        kwargs: see `RecMetricComputation`.
    """

    STATES: tuple[str, ...] = (ERROR_SUM, WEIGHTED_NUM_SAMPLES)

    def __init__(self, *args: Any, include_r_squared: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._include_r_squared = include_r_squared
        if include_r_squared:
            self.STATES = (*self.STATES, LABEL_SUM, LABEL_SQUARED_SUM)
            self._add_sum(LABEL_SUM)
            self._add_sum(LABEL_SQUARED_SUM)

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        if self._include_r_squared:
            return get_mse_states(labels, predictions, weights)
        return {
            ERROR_SUM: compute_error_sum(labels, predictions, weights),
            WEIGHTED_NUM_SAMPLES: example_sum(weights),
        }

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        sizes = sums[ERROR_SUM], sums[WEIGHTED_NUM_SAMPLES]
        return [(MetricName.MSE, compute_mse(*sizes)), (MetricName.RMSE, compute_rmse(*sizes))]

    def _compute(self) -> list[MetricComputationReport]:
        reports = super()._compute()
        if self._include_r_squared:
            for prefix in (MetricPrefix.LIFETIME, MetricPrefix.WINDOW):
                sums = self._sums(prefix)
                value = compute_r_squared(
                    sums[ERROR_SUM], sums[WEIGHTED_NUM_SAMPLES], sums[LABEL_SUM], sums[LABEL_SQUARED_SUM]
                )
                reports.append(MetricComputationReport(MetricName.R_SQUARED, prefix, value))
        return reports


class MSEMetric(RecMetric):
    """Mean squared error and its root; R^2 with `include_r_squared`."""

    _namespace = MetricNamespace.MSE
    _computation_class = MSEMetricComputation
