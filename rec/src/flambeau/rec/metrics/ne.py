"""Normalized entropy: the cross entropy over that of predicting the mean label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics._computation import MetricComputationReport, SummedComputation
from flambeau.rec.metrics._ratios import ETA, cross_entropy, entropy, example_sum
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace, MetricPrefix
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = ["NEMetric", "NEMetricComputation", "compute_cross_entropy", "compute_logloss", "compute_ne", "get_ne_states"]


def compute_cross_entropy(labels: Tensor, predictions: Tensor, weights: Tensor, eta: float) -> Tensor:
    """-w (y log2 p + (1 - y) log2(1 - p)) of each example, float64, in bits.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
        eta: how near to 0 and 1 predictions may come.
    """
    return cross_entropy(labels, predictions, weights, eta)


def compute_logloss(ce_sum: Tensor, pos_labels: Tensor, neg_labels: Tensor, eta: float) -> Tensor:
    """The mean cross entropy, in bits.

    Args:
        ce_sum: sums of the cross entropy.
        pos_labels: sums of the positive labels' weights.
        neg_labels: sums of the negative labels' weights.
        eta: the smallest number of examples that is divided by.
    """
    return ce_sum / (pos_labels + neg_labels).clamp(min=eta)


def compute_ne(
    ce_sum: Tensor,
    weighted_num_samples: Tensor,
    pos_labels: Tensor,
    neg_labels: Tensor,
    eta: float,
    allow_missing_label_with_zero_weight: bool = False,
) -> Tensor:
    """Normalized entropy; below 1 is better than predicting the mean label.

    Args:
        ce_sum: sums of the cross entropy, in bits.
        weighted_num_samples: sums of the weights.
        pos_labels: sums of the positive labels' weights.
        neg_labels: sums of the negative labels' weights.
        eta: how near to 0 and 1 the mean label may come.
        allow_missing_label_with_zero_weight: a task without any weight has the value `eta`.

    References:
        He et al. 2014, "Practical Lessons from Predicting Clicks on Ads at Facebook", section 3.
    """
    mean = (pos_labels / weighted_num_samples).clamp(eta, 1 - eta)
    result = ce_sum / entropy(pos_labels, neg_labels, mean)
    return torch.where(weighted_num_samples == 0, eta, result) if allow_missing_label_with_zero_weight else result


def get_ne_states(labels: Tensor, predictions: Tensor, weights: Tensor, eta: float) -> dict[str, Tensor]:
    """A batch's part of the states.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
        eta: how near to 0 and 1 predictions may come.
    """
    return {
        "cross_entropy_sum": example_sum(compute_cross_entropy(labels, predictions, weights, eta)),
        "weighted_num_samples": example_sum(weights),
        "pos_labels": example_sum(weights * labels),
        "neg_labels": example_sum(weights * (1.0 - labels)),
    }


class NEMetricComputation(SummedComputation):
    """States and formulas of normalized entropy.

    Args:
        args: see `RecMetricComputation`.
        include_logloss: report the mean cross entropy too.
        allow_missing_label_with_zero_weight: see `compute_ne`.
        kwargs: see `RecMetricComputation`.
    """

    STATES = ("cross_entropy_sum", "weighted_num_samples", "pos_labels", "neg_labels")

    def __init__(
        self,
        *args: Any,
        include_logloss: bool = False,
        allow_missing_label_with_zero_weight: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, allow_missing_label_with_zero_weight=allow_missing_label_with_zero_weight, **kwargs)
        self._include_logloss = include_logloss
        self.eta = ETA

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return get_ne_states(labels, predictions, weights, self.eta)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        entropy_sum, samples, positive, negative = (sums[name] for name in self.STATES)
        sizes = entropy_sum, samples, positive, negative
        return [(MetricName.NE, compute_ne(*sizes, self.eta, self._allow_missing_label_with_zero_weight))]

    def _compute(self) -> list[MetricComputationReport]:
        reports = super()._compute()
        if self._include_logloss:
            for prefix in (MetricPrefix.LIFETIME, MetricPrefix.WINDOW):
                sums = self._sums(prefix)
                value = compute_logloss(sums["cross_entropy_sum"], sums["pos_labels"], sums["neg_labels"], self.eta)
                reports.append(MetricComputationReport(MetricName.LOG_LOSS, prefix, value))
        return reports


class NEMetric(RecMetric):
    """Normalized entropy; the mean cross entropy with `include_logloss`."""

    _namespace = MetricNamespace.NE
    _computation_class = NEMetricComputation
