"""Calibration: the sum of the predictions over that of the labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from flambeau.rec.metrics._computation import SummedComputation
from flambeau.rec.metrics._ratios import example_sum, ratio
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = [
    "CALIBRATION_DENOM",
    "CALIBRATION_NUM",
    "CalibrationMetric",
    "CalibrationMetricComputation",
    "compute_calibration",
    "get_calibration_states",
]

CALIBRATION_NUM = "calibration_num"
CALIBRATION_DENOM = "calibration_denom"


def compute_calibration(calibration_num: Tensor, calibration_denom: Tensor) -> Tensor:
    """sum(w p) / sum(w y), float64; 0 where there is no positive label."""
    return ratio(calibration_num, calibration_denom)


def get_calibration_states(labels: Tensor, predictions: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """A batch's part of the states.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
    """
    return {
        CALIBRATION_NUM: example_sum(predictions * weights),
        CALIBRATION_DENOM: example_sum(labels * weights),
    }


class CalibrationMetricComputation(SummedComputation):
    """States and formula of calibration."""

    STATES = (CALIBRATION_NUM, CALIBRATION_DENOM)

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return get_calibration_states(labels, predictions, weights)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        return [(MetricName.CALIBRATION, compute_calibration(sums[CALIBRATION_NUM], sums[CALIBRATION_DENOM]))]


class CalibrationMetric(RecMetric):
    """Calibration, sum(w p) / sum(w y); 1 is perfect."""

    _namespace = MetricNamespace.CALIBRATION
    _computation_class = CalibrationMetricComputation
