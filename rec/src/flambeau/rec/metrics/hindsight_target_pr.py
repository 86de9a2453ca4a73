"""Precision and recall at the threshold that, in hindsight, reaches a precision."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics._computation import MetricComputationReport, SummedComputation
from flambeau.rec.metrics._ratios import ratio
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNamespace, MetricPrefix
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = [
    "TARGET_PRECISION",
    "THRESHOLD_GRANULARITY",
    "HindsightTargetPRMetric",
    "HindsightTargetPRMetricComputation",
    "compute_false_neg_sum",
    "compute_false_pos_sum",
    "compute_precision",
    "compute_recall",
    "compute_threshold_idx",
    "compute_true_pos_sum",
    "get_pr_states",
]

TARGET_PRECISION = "target_precision"
THRESHOLD_GRANULARITY = 1000
"""Thresholds from 0 to 1 that are tried."""


def compute_precision(num_true_positives: Tensor, num_false_positives: Tensor) -> Tensor:
    """Positive examples among those predicted positive, float64; 0 where there is none."""
    return ratio(num_true_positives, num_true_positives + num_false_positives)


def compute_recall(num_true_positives: Tensor, num_false_negitives: Tensor) -> Tensor:
    """Positive examples that are found; 0 where there is none."""
    total = num_true_positives + num_false_negitives
    return torch.where(total == 0.0, 0.0, num_true_positives / total)


def compute_threshold_idx(num_true_positives: Tensor, num_false_positives: Tensor, target_precision: float) -> int:
    """Index of the first threshold that reaches a precision; of the last one if none does.

    Args:
        num_true_positives: (thresholds,).
        num_false_positives: (thresholds,).
        target_precision: in [0, 1].
    """
    reached = compute_precision(num_true_positives, num_false_positives) >= target_precision
    return int(reached.int().argmax()) if reached.any() else THRESHOLD_GRANULARITY - 1


def compute_true_pos_sum(labels: Tensor, predictions: Tensor, weights: Tensor) -> Tensor:
    """The weight of the positive examples that each threshold finds.

    Args:
        labels: (..., examples), 0 or 1.
        predictions: (..., examples).
        weights: (..., examples).

    Returns:
        (..., thresholds), float64; (thresholds,) of a single task.
    """
    return _above(predictions, weights * labels)


def compute_false_pos_sum(labels: Tensor, predictions: Tensor, weights: Tensor) -> Tensor:
    """The weight of the negative examples that are predicted positive at each threshold; see `compute_true_pos_sum`."""
    return _above(predictions, weights * (1.0 - labels))


def compute_false_neg_sum(labels: Tensor, predictions: Tensor, weights: Tensor) -> Tensor:
    """The weight of the positive examples that each threshold misses; see `compute_true_pos_sum`."""
    positive = (weights * labels).double()
    return positive.sum(-1).squeeze()[..., None] - _above(predictions, positive)


def get_pr_states(labels: Tensor, predictions: Tensor, weights: Tensor | None) -> dict[str, Tensor]:
    """A batch's part of the states.

    Args:
        labels: (tasks, examples), 0 or 1.
        predictions: (tasks, examples).
        weights: (tasks, examples); None is 1 for all.
    """
    if weights is None:
        weights = torch.ones_like(predictions)
    return {
        "true_pos_sum": compute_true_pos_sum(labels, predictions, weights),
        "false_pos_sum": compute_false_pos_sum(labels, predictions, weights),
        "false_neg_sum": compute_false_neg_sum(labels, predictions, weights),
    }


def _above(predictions: Tensor, weights: Tensor) -> Tensor:
    """The weight of the predictions from each threshold on; (thresholds,) of a single task.

    An example goes to the last threshold that it reaches; sums from above give all thresholds at once.
    """
    thresholds = torch.linspace(0, 1, THRESHOLD_GRANULARITY, device=predictions.device)
    reached = torch.searchsorted(thresholds.to(predictions.dtype), predictions.contiguous(), right=True)
    sums = weights.new_zeros((*predictions.shape[:-1], THRESHOLD_GRANULARITY + 1), dtype=torch.float64)
    sums.scatter_add_(-1, reached, weights.double())
    above = sums[..., 1:].flip(-1).cumsum(-1).flip(-1)
    return above[0] if above.ndim == 2 and above.shape[0] == 1 else above


class HindsightTargetPRMetricComputation(SummedComputation):
    """States and formulas of precision and recall at a target precision.

    States are (thresholds,), and of several fused tasks (tasks, thresholds).

    Args:
        args: see `RecMetricComputation`.
        target_precision: in [0, 1].
        kwargs: see `RecMetricComputation`.
    """

    STATES: tuple[str, ...] = ()

    def __init__(self, *args: Any, target_precision: float = 0.5, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._target_precision = target_precision
        shape = (THRESHOLD_GRANULARITY,) if self._n_tasks == 1 else (self._n_tasks, THRESHOLD_GRANULARITY)
        self.STATES = ("true_pos_sum", "false_pos_sum", "false_neg_sum")
        for name in self.STATES:
            default = torch.zeros(shape, dtype=torch.float64)
            self._add_state(name, default, add_window_state=True, dist_reduce_fx="sum", persistent=True)

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return get_pr_states(labels, predictions, weights)

    def _chosen(self, prefix: MetricPrefix) -> list[Tensor]:
        """Threshold, precision and recall, (tasks,) each."""
        sums = self._sums(prefix)
        found, wrong, missed = (sums[name].reshape(-1, THRESHOLD_GRANULARITY) for name in self.STATES)
        indices = torch.tensor(
            [compute_threshold_idx(*row, self._target_precision) for row in zip(found, wrong, strict=True)],
            device=found.device,
        )
        at = indices[:, None]
        precision = compute_precision(found.gather(-1, at), wrong.gather(-1, at))[:, 0]
        recall = compute_recall(found.gather(-1, at), missed.gather(-1, at))[:, 0]
        return [indices, precision, recall]

    def _compute(self) -> list[MetricComputationReport]:
        names = (
            MetricName.HINDSIGHT_TARGET_PR,
            MetricName.HINDSIGHT_TARGET_PRECISION,
            MetricName.HINDSIGHT_TARGET_RECALL,
        )
        chosen = {prefix: self._chosen(prefix) for prefix in (MetricPrefix.LIFETIME, MetricPrefix.WINDOW)}
        single = self._n_tasks == 1 and self._compute_mode.name == "UNFUSED_TASKS_COMPUTATION"
        return [
            MetricComputationReport(name, prefix, values[at][0] if single else values[at])
            for at, name in enumerate(names)
            for prefix, values in chosen.items()
        ]


class HindsightTargetPRMetric(RecMetric):
    """Precision and recall at the lowest threshold that reaches `target_precision`, and its index."""

    _namespace = MetricNamespace.HINDSIGHT_TARGET_PR
    _computation_class = HindsightTargetPRMetricComputation
