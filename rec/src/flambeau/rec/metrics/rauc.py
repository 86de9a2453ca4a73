"""Regression AUC: the share of pairs of examples that predictions do not rank the wrong way round."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics._computation import MetricComputationReport
from flambeau.rec.metrics._pairs import concordant_weight
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
    "RAUCMetric",
    "RAUCMetricComputation",
    "compute_rauc",
    "compute_rauc_per_group",
    "conquer_and_count",
    "count_reverse_pairs_divide_and_conquer",
    "divide",
]


def conquer_and_count(input: list[float], left_index: int, mid_index: int, right_index: int) -> int:
    """Merge two sorted neighbouring parts of a list in place, and count the pairs that were the wrong way round.

    Args:
        input: numbers, sorted from `left_index` to `mid_index` and from there to `right_index`.
        left_index: of the first number.
        mid_index: of the left part's last number.
        right_index: of the last number.
    """
    left = input[left_index : mid_index + 1]
    right = input[mid_index + 1 : right_index + 1]
    wrong = sum(len(left) - bisect_right(left, value) for value in right)
    input[left_index : right_index + 1] = sorted(left + right)
    return wrong


def divide(input: list[float], low: int, high: int) -> int:
    """Sort a part of a list in place, and count its pairs that were the wrong way round.

    Args:
        input: numbers.
        low: index of the first.
        high: index of the last.
    """
    if low >= high:
        return 0
    middle = (low + high) // 2
    wrong = divide(input, low, middle) + divide(input, middle + 1, high)
    return wrong + conquer_and_count(input, low, middle, high)


def count_reverse_pairs_divide_and_conquer(input: list[float]) -> float:
    """1 - the share of pairs whose first number is the larger one; 0.5 where there are no pairs.

    Args:
        input: numbers.
    """
    pairs = len(input) * (len(input) - 1) / 2
    return 1.0 - divide(list(input), 0, len(input) - 1) / pairs if pairs else 0.5


def compute_rauc(
    n_tasks: int, predictions: Sequence[Tensor], labels: Sequence[Tensor], weights: Sequence[Tensor]
) -> Tensor:
    """Regression AUC, in O(n log n): 1 - the share of pairs whose labels and predictions differ in opposite directions.

    Args:
        n_tasks: number of tasks.
        predictions: parts of (tasks, examples).
        labels: likewise.
        weights: not used.

    Returns:
        (tasks,), float32; 0.5 where there are fewer than two examples.
    """
    scores, truths = joined(predictions, n_tasks), joined(labels, n_tasks)
    examples = scores.shape[-1]
    if examples < 2:
        return torch.full((n_tasks,), 0.5, device=scores.device)
    wrong = concordant_weight(scores, -truths, torch.ones_like(scores, dtype=torch.float64))
    return (1.0 - wrong / (examples * (examples - 1) / 2)).float()


def compute_rauc_per_group(
    n_tasks: int,
    predictions: Sequence[Tensor],
    labels: Sequence[Tensor],
    weights: Sequence[Tensor],
    grouping_keys: Tensor,
) -> Tensor:
    """The mean of the regression AUCs within groups.

    Args:
        n_tasks: number of tasks.
        predictions: parts of (tasks, examples).
        labels: likewise.
        weights: not used.
        grouping_keys: (examples,), the group of each.

    Returns:
        (tasks,), float32; 0.5 where there are no groups.
    """
    return mean_over_groups(compute_rauc, n_tasks, predictions, labels, weights, grouping_keys)


class RAUCMetricComputation(SampleComputation):
    """States and formula of regression AUC.

    Args:
        args: see `RecMetricComputation`.
        grouped_rauc: report the mean over groups too.
        fused_update_limit: batches that are joined; not with groups.
        kwargs: see `RecMetricComputation`.
    """

    def __init__(self, *args: Any, grouped_rauc: bool = False, fused_update_limit: int = 0, **kwargs: Any) -> None:
        super().__init__(*args, grouped=grouped_rauc, fused_update_limit=fused_update_limit, **kwargs)

    def _compute(self) -> list[MetricComputationReport]:
        values = [(MetricName.RAUC, compute_rauc(self._n_tasks, *self._examples()))]
        if self._grouped:
            keys = self._samples(GROUPING_KEYS)
            grouped = compute_rauc_per_group(self._n_tasks, *self._examples(), keys)
            values.append((MetricName.GROUPED_RAUC, grouped))
        return [MetricComputationReport(name, MetricPrefix.WINDOW, value) for name, value in values]


class RAUCMetric(SampleMetric):
    """Regression AUC of the latest examples; over groups with `grouped_rauc`."""

    _namespace = MetricNamespace.RAUC
    _computation_class = RAUCMetricComputation
    _grouping_option = "grouped_rauc"
