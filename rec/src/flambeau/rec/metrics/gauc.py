"""AUC within sessions, averaged over sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics._computation import MetricComputationReport, SummedComputation
from flambeau.rec.metrics._errors import InputError
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNamespace, MetricPrefix
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = [
    "GAUCMetric",
    "GAUCMetricComputation",
    "compute_gauc_3d",
    "compute_window_auc",
    "get_auc_states",
    "to_3d",
]

_EPSILON = 1e-9


def to_3d(tensor_2d: Tensor, seq_lengths: Tensor, max_length: int) -> Tensor:
    """Rows of sessions, laid end to end, as a block for each session, filled up with zeros.

    Args:
        tensor_2d: (examples, columns).
        seq_lengths: (sessions,), examples of each.
        max_length: examples of a block; longer sessions are cut.

    Returns:
        (sessions, max_length, columns).
    """
    place = torch.arange(max_length, device=seq_lengths.device)
    starts = seq_lengths.cumsum(0) - seq_lengths
    inside = place < seq_lengths[:, None]
    rows = (starts[:, None] + place).masked_fill(~inside, 0)
    if tensor_2d.shape[0] == 0:
        return tensor_2d.new_zeros((len(seq_lengths), max_length, tensor_2d.shape[1]))
    return tensor_2d[rows] * inside[..., None]


def compute_gauc_3d(predictions: Tensor, labels: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """The sum of the sessions' AUCs, and how many sessions have one.

    A session has one if some of its weights are not zero, its labels are not all alike, and neither are its
    predictions.

    Args:
        predictions: (tasks, sessions, examples).
        labels: likewise, 0 or 1.
        weights: likewise; 0 where a session has no more examples.

    Returns:
        `auc_sum` and `num_samples`, (tasks,) each.
    """
    order = predictions.argsort(dim=-1, descending=True, stable=True)
    truths, loads = labels.gather(-1, order), weights.gather(-1, order)
    positive = (loads * truths).cumsum(-1)
    negative = (loads * (1.0 - truths)).cumsum(-1)
    whole = positive[..., -1] * negative[..., -1]
    area = torch.trapezoid(positive, negative, dim=-1)
    weightless = weights == 0
    highest = predictions.masked_fill(weightless, -torch.inf).amax(-1)
    lowest = predictions.masked_fill(weightless, torch.inf).amin(-1)
    counted = (whole != 0) & (highest > lowest)
    return {
        "auc_sum": torch.where(counted, area / whole, 0.0).sum(-1),
        "num_samples": counted.sum(-1),
    }


def get_auc_states(labels: Tensor, predictions: Tensor, weights: Tensor, num_candidates: Tensor) -> dict[str, Tensor]:
    """A batch's part of the states.

    Args:
        labels: (tasks, examples), 0 or 1, the sessions one after another.
        predictions: (tasks, examples).
        weights: (tasks, examples).
        num_candidates: (sessions,), examples of each session.

    Returns:
        `auc_sum` and `num_samples`, (tasks,) each.

    Raises:
        InputError: the sessions have more or fewer examples than there are.
    """
    counts = num_candidates.reshape(-1).long()
    examples = int(counts.sum())
    if examples != labels.shape[-1]:
        raise InputError(
            f"num_candidates add up to {examples}, but there are {labels.shape[-1]} examples; give the number of "
            f"examples of each session."
        )
    longest = max(int(counts.max()) if counts.numel() else 0, 1)
    blocks = (to_3d(values.T, counts, longest).permute(2, 0, 1) for values in (predictions, labels, weights))
    return compute_gauc_3d(*blocks)


def compute_window_auc(auc: Tensor, num_samples: Tensor) -> dict[str, Tensor]:
    """The mean over sessions.

    Args:
        auc: sums of the sessions' AUCs.
        num_samples: numbers of sessions.

    Returns:
        `gauc`, 0.5 where there are no sessions, and `num_samples`.
    """
    return {"gauc": (auc + _EPSILON) / (num_samples + 2 * _EPSILON), "num_samples": num_samples}


class GAUCMetricComputation(SummedComputation):
    """States and formula of GAUC; `update` takes `num_candidates`, the number of examples of each session."""

    STATES = ("auc_sum", "num_samples")

    def update(
        self,
        *,
        predictions: Tensor | None,
        labels: Tensor,
        weights: Tensor | None,
        num_candidates: Tensor | None = None,
        **kwargs: Any,
    ) -> None:
        """See `RecMetricComputation.update`.

        Args:
            predictions: (tasks, examples), the sessions one after another.
            labels: (tasks, examples).
            weights: (tasks, examples).
            num_candidates: (sessions,), examples of each session.
            kwargs: not used.

        Raises:
            InputError: `num_candidates` is missing, or does not fit.
        """
        if num_candidates is None:
            raise InputError("GAUC needs num_candidates, the number of examples of each session; pass it to update().")
        super().update(predictions=predictions, labels=labels, weights=weights, num_candidates=num_candidates, **kwargs)

    def contributions(self, predictions: Tensor, labels: Tensor, weights: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        return get_auc_states(labels, predictions, weights, kwargs["num_candidates"])

    def _compute(self) -> list[MetricComputationReport]:
        def means(prefix: MetricPrefix) -> Mapping[str, Tensor]:
            sums = self._sums(prefix)
            return compute_window_auc(sums["auc_sum"], sums["num_samples"])

        values = {prefix: means(prefix) for prefix in (MetricPrefix.LIFETIME, MetricPrefix.WINDOW)}
        return [
            MetricComputationReport(name, prefix, value[key])
            for name, key in ((MetricName.GAUC, "gauc"), (MetricName.GAUC_NUM_SAMPLES, "num_samples"))
            for prefix, value in values.items()
        ]


class GAUCMetric(RecMetric):
    """AUC within sessions, averaged over sessions.

    References:
        Zhou et al. 2018, "Deep Interest Network for Click-Through Rate Prediction", section 6.2.
    """

    _namespace = MetricNamespace.GAUC
    _computation_class = GAUCMetricComputation
