"""The weighted mean of the predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from torch import Tensor

from flambeau.rec.metrics._computation import SummedComputation
from flambeau.rec.metrics._ratios import example_sum
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = ["WeightedAvgMetric", "WeightedAvgMetricComputation", "get_mean"]


def get_mean(value_sum: Tensor, num_samples: Tensor) -> Tensor:
    """sum(w p) / sum(w); 0 where there is no weight."""
    return value_sum / num_samples


class WeightedAvgMetricComputation(SummedComputation):
    """States and formula of the weighted mean."""

    STATES = ("weighted_sum", "weighted_num_samples")

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return {
            "weighted_sum": example_sum(predictions * weights),
            "weighted_num_samples": example_sum(weights),
        }

    def update(self, *, predictions: Tensor | None, labels: Tensor, weights: Tensor | None, **kwargs: Any) -> None:
        """See `RecMetricComputation.update`."""
        self._given(predictions=predictions, weights=weights)
        # Upstream: the window counts updates, not examples.
        states = self.contributions(cast("Tensor", predictions), labels, cast("Tensor", weights))
        self._aggregate(states, labels.shape[0])

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        return [(MetricName.WEIGHTED_AVG, get_mean(sums["weighted_sum"], sums["weighted_num_samples"]))]


class WeightedAvgMetric(RecMetric):
    """Weighted mean of the predictions."""

    _namespace = MetricNamespace.WEIGHTED_AVG
    _computation_class = WeightedAvgMetricComputation
