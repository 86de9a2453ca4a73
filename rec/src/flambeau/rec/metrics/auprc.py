"""AUPRC: precision at each threshold, summed over the recall it adds."""

from __future__ import annotations

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
    "LIFETIME_WEIGHT",
    "LIFETIME_WEIGHTED_AUPRC",
    "PREDICTIONS",
    "REQUIRED_INPUTS",
    "WEIGHTS",
    "AUPRCMetric",
    "AUPRCMetricComputation",
    "compute_auprc",
    "compute_auprc_per_group",
]

LIFETIME_WEIGHT = "lifetime_weight"
LIFETIME_WEIGHTED_AUPRC = "lifetime_weighted_auprc"


def compute_auprc(n_tasks: int, predictions: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """The area under the precision-recall curve: precision times the gain of recall, at each distinct prediction.

    Args:
        n_tasks: number of tasks.
        predictions: (tasks, examples), or parts of it.
        labels: likewise, in [0, 1].
        weights: likewise.

    Returns:
        (tasks,), float32; 0 where no example is positive.
    """
    scores, truths, loads = (joined(parts, n_tasks) for parts in (predictions, labels, weights))
    if scores.shape[-1] == 0:
        return torch.zeros(n_tasks, device=scores.device)
    scores, order = scores.sort(dim=-1, descending=True, stable=True)
    truths, loads = truths.gather(-1, order), loads.gather(-1, order)
    positive, all_ = (loads * truths).cumsum(-1), loads.cumsum(-1)
    # Examples of one prediction are one threshold, which the last of them stands for.
    last = torch.ones_like(scores, dtype=torch.bool)
    last[:, :-1] = scores.diff(dim=-1) != 0
    # What each threshold adds: its positives beyond those of the threshold before.
    before = torch.where(last, positive, 0.0).cummax(-1).values.roll(1, -1)
    before[:, 0] = 0.0
    gain = torch.where(
        last & (all_ > 0), (positive - before) * positive / all_.clamp(min=torch.finfo(all_.dtype).tiny), 0.0
    )
    total = positive[:, -1]
    return torch.where(total > 0, gain.sum(-1) / total.masked_fill(total <= 0, 1.0), 0.0).float()


def compute_auprc_per_group(
    n_tasks: int, predictions: Tensor, labels: Tensor, weights: Tensor, grouping_keys: Tensor
) -> Tensor:
    """The mean of the areas within groups.

    Args:
        n_tasks: number of tasks.
        predictions: (tasks, examples), or parts of it.
        labels: likewise, in [0, 1].
        weights: likewise.
        grouping_keys: (examples,), the group of each.

    Returns:
        (tasks,), float32; 0.5 where there are no groups.
    """
    return mean_over_groups(compute_auprc, n_tasks, predictions, labels, weights, grouping_keys)


class AUPRCMetricComputation(SampleComputation):
    """States and formula of the area under the precision-recall curve.

    The lifetime value is the mean of the window's values at each computation, by the window's weight.

    Args:
        args: see `RecMetricComputation`.
        grouped_auprc: report the mean over groups too.
        fused_update_limit: batches that are joined before they are kept.
        kwargs: see `RecMetricComputation`.
    """

    def __init__(self, *args: Any, grouped_auprc: bool = False, fused_update_limit: int = 0, **kwargs: Any) -> None:
        super().__init__(*args, grouped=grouped_auprc, fused_update_limit=fused_update_limit, **kwargs)
        self._forget_lifetime()

    def _forget_lifetime(self) -> None:
        # No states: what is computed from all ranks' examples is of all ranks, and stays when they are parted again.
        setattr(self, LIFETIME_WEIGHT, torch.zeros(self._n_tasks, dtype=torch.float64))
        setattr(self, LIFETIME_WEIGHTED_AUPRC, torch.zeros(self._n_tasks, dtype=torch.float64))

    def _lifetime(self, window: Tensor) -> Tensor:
        weight = self._samples(WEIGHTS).double().sum(-1).cpu()
        total = getattr(self, LIFETIME_WEIGHT) + weight
        weighted = getattr(self, LIFETIME_WEIGHTED_AUPRC) + weight * window.double().cpu()
        setattr(self, LIFETIME_WEIGHT, total)
        setattr(self, LIFETIME_WEIGHTED_AUPRC, weighted)
        return torch.where(total == 0, 0.5, weighted / total).to(window.device)

    def _compute(self) -> list[MetricComputationReport]:
        scores, truths, loads = (parts[0] for parts in self._examples())
        window = compute_auprc(self._n_tasks, scores, truths, loads)
        reports = [
            MetricComputationReport(MetricName.AUPRC, MetricPrefix.WINDOW, window),
            MetricComputationReport(MetricName.AUPRC, MetricPrefix.LIFETIME, self._lifetime(window)),
        ]
        if self._grouped:
            grouped = compute_auprc_per_group(self._n_tasks, scores, truths, loads, self._samples(GROUPING_KEYS))
            reports.append(MetricComputationReport(MetricName.GROUPED_AUPRC, MetricPrefix.WINDOW, grouped))
        return reports

    def reset(self) -> None:
        """Forget all examples."""
        super().reset()
        self._forget_lifetime()


class AUPRCMetric(SampleMetric):
    """Area under the precision-recall curve of the latest examples; the mean over groups with `grouped_auprc`."""

    _namespace = MetricNamespace.AUPRC
    _computation_class = AUPRCMetricComputation
    _grouping_option = "grouped_auprc"
