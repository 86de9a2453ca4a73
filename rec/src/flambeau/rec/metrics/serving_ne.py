"""Normalized entropy of examples as they are served, with their number."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from flambeau.rec.metrics._computation import MetricComputationReport
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNamespace, MetricPrefix
from flambeau.rec.metrics.ne import NEMetricComputation
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = ["NUM_EXAMPLES", "ServingNEMetric", "ServingNEMetricComputation"]

NUM_EXAMPLES = "num_examples"


class ServingNEMetricComputation(NEMetricComputation):
    """As `NEMetricComputation`, and the number of examples with any weight."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._add_state(
            NUM_EXAMPLES,
            torch.zeros(self._n_tasks, dtype=torch.long),
            add_window_state=False,
            dist_reduce_fx="sum",
            persistent=True,
        )

    def update(self, *, predictions: Tensor | None, labels: Tensor, weights: Tensor | None, **kwargs: Any) -> None:
        """See `RecMetricComputation.update`."""
        super().update(predictions=predictions, labels=labels, weights=weights, **kwargs)
        num_examples = getattr(self, NUM_EXAMPLES)
        num_examples += torch.count_nonzero(cast("Tensor", weights), dim=-1)

    def _compute(self) -> list[MetricComputationReport]:
        total = MetricComputationReport(MetricName.TOTAL_EXAMPLES, MetricPrefix.DEFAULT, getattr(self, NUM_EXAMPLES))
        return [*super()._compute(), total]


class ServingNEMetric(RecMetric):
    """Normalized entropy, and the number of examples with any weight."""

    _namespace = MetricNamespace.SERVING_NE
    _computation_class = ServingNEMetricComputation
