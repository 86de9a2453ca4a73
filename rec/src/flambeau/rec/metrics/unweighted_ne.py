"""Normalized entropy with all weights 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics import ne
from flambeau.rec.metrics._ratios import cross_entropy
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = [
    "UnweightedNEMetric",
    "UnweightedNEMetricComputation",
    "compute_cross_entropy",
    "compute_ne",
    "get_unweighted_ne_states",
]


def compute_cross_entropy(labels: Tensor, predictions: Tensor, weights: Tensor, eta: float) -> Tensor:
    """-w (y log2 p + (1 - y) log2(1 - p)) of each example, float64, in bits.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
        eta: how near to 0 and 1 predictions may come.
    """
    return cross_entropy(labels, predictions, weights, eta)


def compute_ne(
    ce_sum: Tensor,
    weighted_num_samples: Tensor,
    pos_labels: Tensor,
    neg_labels: Tensor,
    eta: float,
    allow_missing_label_with_zero_weight: bool = False,
) -> Tensor:
    """Normalized entropy, as `flambeau.rec.metrics.ne.compute_ne`."""
    return ne.compute_ne(
        ce_sum, weighted_num_samples, pos_labels, neg_labels, eta, allow_missing_label_with_zero_weight
    )


def get_unweighted_ne_states(labels: Tensor, predictions: Tensor, weights: Tensor, eta: float) -> dict[str, Tensor]:
    """A batch's part of the states, every example counting 1.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples), of which only the shape counts.
        eta: how near to 0 and 1 predictions may come.
    """
    return ne.get_ne_states(labels, predictions, torch.ones_like(weights), eta)


class UnweightedNEMetricComputation(ne.NEMetricComputation):
    """States and formula of unweighted normalized entropy.

    Args:
        args: see `RecMetricComputation`.
        allow_missing_label_with_zero_weight: see `compute_ne`.
        kwargs: see `RecMetricComputation`.
    """

    def __init__(self, *args: Any, allow_missing_label_with_zero_weight: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, allow_missing_label_with_zero_weight=allow_missing_label_with_zero_weight, **kwargs)

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return get_unweighted_ne_states(labels, predictions, weights, self.eta)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        return [(MetricName.UNWEIGHTED_NE, value) for _, value in super().values(sums)]


class UnweightedNEMetric(RecMetric):
    """Normalized entropy with all weights 1."""

    _namespace = MetricNamespace.UNWEIGHTED_NE
    _computation_class = UnweightedNEMetricComputation
