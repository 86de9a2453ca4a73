"""Calibration of predictions that are corrected for negative down-sampling first."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from flambeau.rec.metrics._ratios import recalibrated
from flambeau.rec.metrics.calibration import CalibrationMetricComputation
from flambeau.rec.metrics.metrics_namespace import MetricNamespace
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = [
    "CALIBRATION_DENOM",
    "CALIBRATION_NUM",
    "RecalibratedCalibrationMetric",
    "RecalibratedCalibrationMetricComputation",
]

CALIBRATION_NUM = "calibration_num"
CALIBRATION_DENOM = "calibration_denom"


class RecalibratedCalibrationMetricComputation(CalibrationMetricComputation):
    """As calibration, of p / (p + (1 - p) / c).

    Args:
        args: see `RecMetricComputation`.
        recalibration_coefficient: c, the share of negative examples that were kept.
        kwargs: see `RecMetricComputation`.
    """

    def __init__(self, *args: Any, recalibration_coefficient: float = 1.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._recalibration_coefficient = recalibration_coefficient

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return super().contributions(
            recalibrated(predictions, self._recalibration_coefficient), labels, weights, **kwargs
        )


class RecalibratedCalibrationMetric(RecMetric):
    """Calibration of recalibrated predictions."""

    _namespace = MetricNamespace.RECALIBRATED_CALIBRATION
    _computation_class = RecalibratedCalibrationMetricComputation
