"""AUC: how often an example with a click is ranked above one without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics._computation import MetricComputationReport
from flambeau.rec.metrics._samples import (
    GROUPING_KEYS,
    LABELS,
    PREDICTIONS,
    REQUIRED_INPUTS,
    WEIGHTS,
    SampleComputation,
    SampleMetric,
    joined,
    mean_over_groups,
)
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNamespace, MetricPrefix

__all__ = [
    "GROUPING_KEYS",
    "LABELS",
    "PREDICTIONS",
    "REQUIRED_INPUTS",
    "WEIGHTS",
    "AUCMetric",
    "AUCMetricComputation",
    "compute_auc",
    "compute_auc_per_group",
]

_BIN = 0.039
"""Labels from here on count as positive with `apply_bin`."""


def compute_auc(
    n_tasks: int,
    predictions: Sequence[Tensor],
    labels: Sequence[Tensor],
    weights: Sequence[Tensor],
    apply_bin: bool = False,
) -> Tensor:
    """The area under the ROC curve, by the trapezoidal rule over examples from the highest prediction down.

    Examples of equal predictions keep their order; the curve has a point for each.

    Args:
        n_tasks: number of tasks.
        predictions: parts of (tasks, examples).
        labels: likewise, in [0, 1].
        weights: likewise.
        apply_bin: labels of 0.039 and above are 1, all others 0.

    Returns:
        (tasks,); 0.5 where all examples are positive, or none is.
    """
    scores, truths, loads = (joined(parts, n_tasks) for parts in (predictions, labels, weights))
    if scores.shape[-1] == 0:
        return torch.full((n_tasks,), 0.5, device=scores.device)
    order = scores.argsort(dim=-1, descending=True, stable=True)
    truths, loads = truths.gather(-1, order), loads.gather(-1, order)
    if apply_bin:
        truths = (truths >= _BIN).to(truths.dtype)
    positive = (loads * truths).cumsum(-1)
    negative = (loads * (1.0 - truths)).cumsum(-1)
    whole = positive[:, -1] * negative[:, -1]
    return torch.where(whole == 0, 0.5, torch.trapezoid(positive, negative, dim=-1) / whole)


def compute_auc_per_group(
    n_tasks: int,
    predictions: Sequence[Tensor],
    labels: Sequence[Tensor],
    weights: Sequence[Tensor],
    grouping_keys: Tensor,
) -> Tensor:
    """The mean of the areas within groups.

    Args:
        n_tasks: number of tasks.
        predictions: parts of (tasks, examples).
        labels: likewise, in [0, 1].
        weights: likewise.
        grouping_keys: (examples,), the group of each.

    Returns:
        (tasks,); 0.5 where there are no groups.
    """
    return mean_over_groups(compute_auc, n_tasks, predictions, labels, weights, grouping_keys)


class AUCMetricComputation(SampleComputation):
    """States and formula of AUC.

    Args:
        args: see `RecMetricComputation`.
        grouped_auc: report the mean over groups too.
        apply_bin: see `compute_auc`.
        fused_update_limit: batches that are joined before they are kept.
        kwargs: see `RecMetricComputation`.
    """

    def __init__(
        self,
        *args: Any,
        grouped_auc: bool = False,
        apply_bin: bool = False,
        fused_update_limit: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, grouped=grouped_auc, fused_update_limit=fused_update_limit, **kwargs)
        self._apply_bin = apply_bin

    def _compute(self) -> list[MetricComputationReport]:
        values = [(MetricName.AUC, compute_auc(self._n_tasks, *self._examples(), self._apply_bin))]
        if self._grouped:
            keys = self._samples(GROUPING_KEYS)
            values.append((MetricName.GROUPED_AUC, compute_auc_per_group(self._n_tasks, *self._examples(), keys)))
        return [MetricComputationReport(name, MetricPrefix.WINDOW, value) for name, value in values]


class AUCMetric(SampleMetric):
    """AUC of the latest examples; the mean over groups with `grouped_auc`."""

    _namespace = MetricNamespace.AUC
    _computation_class = AUCMetricComputation
    _grouping_option = "grouped_auc"
