"""The mean label of the latest batch, for values that are no predictions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics._computation import MetricComputationReport, RecMetricComputation
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNamespace, MetricPrefix
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = ["ScalarMetric", "ScalarMetricComputation"]


class ScalarMetricComputation(RecMetricComputation):
    """The mean label of the latest batch, and the mean of that over the batches of the window."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("labels", "window_count"):
            default = torch.zeros(self._n_tasks, dtype=torch.float64)
            self._add_state(name, default, add_window_state=True, dist_reduce_fx="mean", persistent=False)

    def update(self, *, predictions: Tensor | None, labels: Tensor, weights: Tensor | None, **kwargs: Any) -> None:
        """See `RecMetricComputation.update`; only the labels count."""
        mean = labels.mean(-1)
        one = torch.ones_like(mean, dtype=torch.float64)
        self.labels: Tensor = mean
        self.window_count: Tensor = one
        # Upstream: the window counts updates, not examples.
        self._aggregate_window_state("labels", mean, labels.shape[0])
        self._aggregate_window_state("window_count", one, labels.shape[0])

    def _compute(self) -> list[MetricComputationReport]:
        window = self.get_window_state("labels") / self.get_window_state("window_count")
        return [
            MetricComputationReport(MetricName.SCALAR, MetricPrefix.LIFETIME, self.labels),
            MetricComputationReport(MetricName.SCALAR, MetricPrefix.WINDOW, window),
        ]


class ScalarMetric(RecMetric):
    """The mean label of the latest batch, and its mean over the window."""

    _namespace = MetricNamespace.SCALAR
    _computation_class = ScalarMetricComputation
