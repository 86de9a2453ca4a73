"""Normalized entropy of predictions that are corrected for negative down-sampling first."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from flambeau.rec.metrics._ratios import recalibrated
from flambeau.rec.metrics.metrics_namespace import MetricNamespace
from flambeau.rec.metrics.ne import NEMetricComputation
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = ["RecalibratedNEMetric", "RecalibratedNEMetricComputation"]


class RecalibratedNEMetricComputation(NEMetricComputation):
    """As normalized entropy, of p / (p + (1 - p) / c).

    Args:
        args: see `RecMetricComputation`.
        include_logloss: report the mean cross entropy too.
        allow_missing_label_with_zero_weight: see `compute_ne`.
        recalibration_coefficient: c, the share of negative examples that were kept.
        kwargs: see `RecMetricComputation`.
    """

    def __init__(
        self,
        *args: Any,
        include_logloss: bool = False,
        allow_missing_label_with_zero_weight: bool = False,
        recalibration_coefficient: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            *args,
            include_logloss=include_logloss,
            allow_missing_label_with_zero_weight=allow_missing_label_with_zero_weight,
            **kwargs,
        )
        self._recalibration_coefficient = recalibration_coefficient

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return super().contributions(
            recalibrated(predictions, self._recalibration_coefficient), labels, weights, **kwargs
        )


class RecalibratedNEMetric(RecMetric):
    """Normalized entropy of recalibrated predictions."""

    _namespace = MetricNamespace.RECALIBRATED_NE
    _computation_class = RecalibratedNEMetricComputation
