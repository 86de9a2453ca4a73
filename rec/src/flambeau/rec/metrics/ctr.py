"""The click-through rate: the weighted mean of the labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from flambeau.rec.metrics._computation import SummedComputation
from flambeau.rec.metrics._ratios import example_sum, ratio
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = ["CTR_DENOM", "CTR_NUM", "CTRMetric", "CTRMetricComputation", "compute_ctr", "get_ctr_states"]

CTR_NUM = "ctr_num"
CTR_DENOM = "ctr_denom"


def compute_ctr(ctr_num: Tensor, ctr_denom: Tensor) -> Tensor:
    """sum(w y) / sum(w), float64; 0 where there is no weight."""
    return ratio(ctr_num, ctr_denom)


def get_ctr_states(labels: Tensor, predictions: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """A batch's part of the states.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
    """
    return {CTR_NUM: example_sum(labels * weights), CTR_DENOM: example_sum(weights)}


class CTRMetricComputation(SummedComputation):
    """States and formula of the click-through rate."""

    STATES = (CTR_NUM, CTR_DENOM)

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return get_ctr_states(labels, predictions, weights)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        return [(MetricName.CTR, compute_ctr(sums[CTR_NUM], sums[CTR_DENOM]))]


class CTRMetric(RecMetric):
    """Click-through rate, sum(w y) / sum(w)."""

    _namespace = MetricNamespace.CTR
    _computation_class = CTRMetricComputation
