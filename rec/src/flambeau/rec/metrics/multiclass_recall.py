"""Recall at k of classes: how often the label is among the k highest predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from torch import Tensor

from flambeau.rec.metrics._computation import SummedComputation
from flambeau.rec.metrics._errors import InputError
from flambeau.rec.metrics._ratios import example_sum
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = [
    "MulticlassRecallMetric",
    "MulticlassRecallMetricComputation",
    "compute_multiclass_recall_at_k",
    "compute_true_positives_at_k",
    "get_multiclass_recall_states",
]


def compute_true_positives_at_k(predictions: Tensor, labels: Tensor, weights: Tensor, n_classes: int) -> Tensor:
    """The weight of the examples whose label is among the k highest predictions, for every k.

    Args:
        predictions: (tasks, examples, classes).
        labels: (tasks, examples), classes.
        weights: (tasks, examples).
        n_classes: number of classes.

    Returns:
        (tasks, classes), for k = 1, 2, ...
    """
    order = predictions.argsort(dim=-1, descending=True, stable=True)[..., :n_classes]
    hits = order == labels[..., None]
    return (weights[..., None] * hits).sum(-2).cumsum(-1)


def compute_multiclass_recall_at_k(tp_at_k: Tensor, total_weights: Tensor) -> Tensor:
    """The share of the examples whose label is among the k highest predictions.

    Args:
        tp_at_k: (tasks, classes).
        total_weights: (tasks,).

    Returns:
        (tasks, classes).
    """
    return tp_at_k / total_weights[..., None]


def get_multiclass_recall_states(
    predictions: Tensor, labels: Tensor, weights: Tensor, n_classes: int
) -> dict[str, Tensor]:
    """A batch's part of the states; arguments as of `compute_true_positives_at_k`."""
    return {
        "tp_at_k": compute_true_positives_at_k(predictions, labels, weights, n_classes),
        "total_weights": example_sum(weights),
    }


class MulticlassRecallMetricComputation(SummedComputation):
    """States and formula of recall at k.

    Args:
        args: see `RecMetricComputation`.
        kwargs: `number_of_classes`, and see `RecMetricComputation`.

    Raises:
        KeyError: `number_of_classes` is not given.
    """

    STATES: tuple[str, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._n_classes: int = kwargs.pop("number_of_classes")
        super().__init__(*args, **kwargs)
        self.STATES = ("tp_at_k", "total_weights")
        self._add_sum("tp_at_k", self._n_classes)
        self._add_sum("total_weights")

    def update(self, *, predictions: Tensor | None, labels: Tensor, weights: Tensor | None, **kwargs: Any) -> None:
        """See `RecMetricComputation.update`; predictions are (tasks, examples, classes)."""
        self._given(predictions=predictions, weights=weights)
        scores = cast("Tensor", predictions)
        if scores.ndim != 3 or scores.shape[-1] != self._n_classes:
            raise InputError(
                f"predictions are {tuple(scores.shape)}; expected (tasks, examples, {self._n_classes}), a "
                f"prediction for "
                f"each of number_of_classes."
            )
        states = get_multiclass_recall_states(scores, labels, cast("Tensor", weights), self._n_classes)
        self._aggregate(states, scores.shape[-2])

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        value = compute_multiclass_recall_at_k(sums["tp_at_k"], sums["total_weights"])
        return [(MetricName.MULTICLASS_RECALL, value)]


class MulticlassRecallMetric(RecMetric):
    """Recall at k of classes, for every k; `number_of_classes` says how many there are."""

    _namespace = MetricNamespace.MULTICLASS_RECALL
    _computation_class = MulticlassRecallMetricComputation
