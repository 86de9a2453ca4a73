"""The weighted mean of any of the model's outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics._computation import MetricComputationReport, SummedComputation
from flambeau.rec.metrics._errors import InputError, RecMetricException
from flambeau.rec.metrics._ratios import example_sum
from flambeau.rec.metrics.metrics_config import RecTaskInfo
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNamespace, MetricPrefix
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = ["TensorWeightedAvgMetric", "TensorWeightedAvgMetricComputation", "get_mean"]

_STACKED = "target_tensor"
"""Key of the tensors of all tasks, (tasks, examples)."""


def get_mean(value_sum: Tensor, num_samples: Tensor) -> Tensor:
    """The sum over the number; not a number where that is 0."""
    return value_sum / num_samples


class TensorWeightedAvgMetricComputation(SummedComputation):
    """States and formula of the mean of the input that a task names.

    Args:
        args: see `RecMetricComputation`.
        tasks: the tasks; each has a `tensor_name`.
        description: goes to the end of the values' keys.
        kwargs: see `RecMetricComputation`.

    Raises:
        RecMetricException: a task has no `tensor_name`.
    """

    STATES = ("weighted_sum", "weighted_num_samples")

    def __init__(self, *args: Any, tasks: list[RecTaskInfo], description: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for task in tasks:
            if task.tensor_name is None:
                raise RecMetricException(
                    f"Task {task.name!r} has no tensor_name; name the model's output whose mean is wanted."
                )
        self.tasks = tasks
        self._description = description

    def update(
        self,
        *,
        predictions: Tensor | None,
        labels: Tensor,
        weights: Tensor | None,
        required_inputs: Mapping[str, Tensor] | None = None,
        **kwargs: Any,
    ) -> None:
        """See `RecMetricComputation.update`; the tensors are (examples,), (1, examples) or (tasks, examples)."""
        values = self._targets(labels, required_inputs)
        loads = torch.ones_like(values) if weights is None else weights
        if not all(task.weighted for task in self.tasks):
            weighted = torch.tensor([task.weighted for task in self.tasks], device=loads.device)
            loads = torch.where(weighted[:, None], loads, 1.0)
        # Upstream: the window counts updates, not examples.
        self._aggregate(
            {"weighted_sum": example_sum(values * loads), "weighted_num_samples": example_sum(loads)}, labels.shape[0]
        )

    def _targets(self, labels: Tensor, required_inputs: Mapping[str, Tensor] | None) -> Tensor:
        """The tensors of all tasks, (tasks, examples)."""
        given = required_inputs or {}
        if _STACKED in given:
            return given[_STACKED].reshape(labels.shape)
        found = []
        for at, task in enumerate(self.tasks):
            if task.tensor_name is None or task.tensor_name not in given:
                raise RecMetricException(
                    f"required_inputs has no {task.tensor_name!r}, of which task {task.name!r} wants the mean; it has "
                    f"{sorted(given)}."
                )
            value = given[task.tensor_name]
            found.append(value[at] if value.shape == labels.shape and len(self.tasks) > 1 else value.reshape(-1))
        if any(one.numel() != labels.shape[-1] for one in found):
            sizes = {task.tensor_name: one.numel() for task, one in zip(self.tasks, found, strict=True)}
            raise InputError(f"Tensors have {sizes} elements for {labels.shape[-1]} examples; give one for each.")
        return torch.stack(found)

    def _compute(self) -> list[MetricComputationReport]:
        return [
            MetricComputationReport(
                MetricName.WEIGHTED_AVG,
                prefix,
                get_mean(sums["weighted_sum"], sums["weighted_num_samples"]),
                self._description,
            )
            for prefix in (MetricPrefix.LIFETIME, MetricPrefix.WINDOW)
            for sums in [self._sums(prefix)]
        ]


class TensorWeightedAvgMetric(RecMetric):
    """Weighted mean of the model's output that a task's `tensor_name` says."""

    _namespace = MetricNamespace.WEIGHTED_AVG
    _computation_class = TensorWeightedAvgMetricComputation

    def _get_task_kwargs(self, task_config: RecTaskInfo | list[RecTaskInfo]) -> dict[str, Any]:
        return {"tasks": task_config if isinstance(task_config, list) else [task_config]}

    def _get_task_required_inputs(self, task_config: RecTaskInfo | list[RecTaskInfo]) -> set[str]:
        tasks = task_config if isinstance(task_config, list) else [task_config]
        return {task.tensor_name for task in tasks if task.tensor_name is not None}
