"""The latest values of two inputs, as they come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics._computation import MetricComputationReport, RecMetricComputation
from flambeau.rec.metrics._errors import RecMetricException
from flambeau.rec.metrics.metrics_config import RecTaskInfo
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNamespace, MetricPrefix
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = ["OutputMetric", "OutputMetricComputation"]

_INPUTS = ("latest_imp", "total_latest_imp")


class OutputMetricComputation(RecMetricComputation):
    """The means over a batch of the inputs `latest_imp` and `total_latest_imp`, as of the latest batch."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in _INPUTS:
            default = torch.zeros(self._n_tasks, dtype=torch.float64)
            self._add_state(name, default, add_window_state=False, dist_reduce_fx="mean", persistent=False)

    def update(
        self,
        *,
        predictions: Tensor | None,
        labels: Tensor,
        weights: Tensor | None,
        required_inputs: Mapping[str, Tensor] | None = None,
        **kwargs: Any,
    ) -> None:
        """See `RecMetricComputation.update`."""
        if required_inputs is None or any(name not in required_inputs for name in _INPUTS):
            raise RecMetricException(
                f"OutputMetricComputation needs {' and '.join(map(repr, _INPUTS))} in required_inputs, but got "
                f"{sorted(required_inputs or {})}; the model's outputs must have these keys."
            )
        for name in _INPUTS:
            setattr(self, name, required_inputs[name].double().mean(-1).expand(self._n_tasks).clone())

    def _compute(self) -> list[MetricComputationReport]:
        return [
            MetricComputationReport(MetricName.OUTPUT, MetricPrefix.DEFAULT, getattr(self, name), f"_{name}")
            for name in _INPUTS
        ]


class OutputMetric(RecMetric):
    """The latest values of `latest_imp` and `total_latest_imp`."""

    _namespace = MetricNamespace.OUTPUT
    _computation_class = OutputMetricComputation

    def _get_task_required_inputs(self, task_config: RecTaskInfo | list[RecTaskInfo]) -> set[str]:
        return set(_INPUTS)
