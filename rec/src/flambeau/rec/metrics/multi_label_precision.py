"""Precision of labels that are bits of a whole number."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.metrics._computation import MetricComputationReport, SummedComputation
from flambeau.rec.metrics._ratios import example_sum
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNamespace, MetricPrefix
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = ["MultiLabelPrecisionMetric", "MultiLabelPrecisionMetricComputation", "compute_multi_label_precision"]


def compute_multi_label_precision(num_true_positives: Tensor, num_false_positives: Tensor) -> Tensor:
    """Positive examples among those predicted positive; 0 where there is none."""
    total = num_true_positives + num_false_positives
    return torch.where(total == 0.0, 0.0, num_true_positives / total)


class MultiLabelPrecisionMetricComputation(SummedComputation):
    """States and formula of the precision of each label.

    Bit i of predictions and labels, which are whole numbers, says whether an example has label i.

    Args:
        args: see `RecMetricComputation`.
        num_labels: how many labels there are, at most 62.
        label_names: their names, for states and keys; `label_0`, `label_1`, ... by default.
        kwargs: see `RecMetricComputation`.
    """

    def __init__(self, *args: Any, num_labels: int = 1, label_names: list[str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._label_names = label_names or [f"label_{at}" for at in range(num_labels)]
        self._num_labels = num_labels
        if len(self._label_names) != num_labels:
            raise OptionError(
                f"label_names has {len(self._label_names)} names, but num_labels is {num_labels}; give a name for each."
            )
        self.STATES = tuple(f"{kind}_pos_sum_{name}" for name in self._label_names for kind in ("true", "false"))
        for name in self.STATES:
            self._add_sum(name)

    def update(self, *, predictions: Tensor | None, labels: Tensor, weights: Tensor | None, **kwargs: Any) -> None:
        """See `RecMetricComputation.update`; without weights every example counts 1."""
        self._given(predictions=predictions)
        if weights is None:
            weights = torch.ones_like(labels, dtype=torch.float64)
        super().update(predictions=predictions, labels=labels, weights=weights, **kwargs)

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        chosen, positive = predictions.long(), labels.long()
        states = {}
        for at, name in enumerate(self._label_names):
            found = weights * (chosen >> at & 1)
            states[f"true_pos_sum_{name}"] = example_sum(found * (positive >> at & 1))
            states[f"false_pos_sum_{name}"] = example_sum(found * (1 - (positive >> at & 1)))
        return states

    def _compute(self) -> list[MetricComputationReport]:
        return [
            MetricComputationReport(
                MetricName.MULTI_LABEL_PRECISION,
                prefix,
                compute_multi_label_precision(sums[f"true_pos_sum_{name}"], sums[f"false_pos_sum_{name}"]),
                name,
            )
            for name in self._label_names
            for prefix in (MetricPrefix.LIFETIME, MetricPrefix.WINDOW)
            for sums in [self._sums(prefix)]
        ]


class MultiLabelPrecisionMetric(RecMetric):
    """Precision of each of `num_labels` labels, the bits of predictions and labels."""

    _namespace = MetricNamespace.MULTI_LABEL_PRECISION
    _computation_class = MultiLabelPrecisionMetricComputation
