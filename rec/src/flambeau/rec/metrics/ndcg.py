"""Normalized discounted cumulative gain of sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics._computation import SummedComputation
from flambeau.rec.metrics._errors import InputError, RecMetricException
from flambeau.rec.metrics._sessions import sessions_sorted
from flambeau.rec.metrics.metrics_config import RecTaskInfo
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = ["NUM_SESSIONS", "REQUIRED_INPUTS", "SESSION_KEY", "SUM_NDCG", "NDCGComputation", "NDCGMetric"]

SUM_NDCG = "sum_ndcg"
NUM_SESSIONS = "num_sessions"
REQUIRED_INPUTS = "required_inputs"
SESSION_KEY = "session_id"

_NO_GAIN = 1e-6
"""Takes the place of the ideal gain of sessions that have none to be had."""


class NDCGComputation(SummedComputation):
    """States and formula of NDCG.

    Args:
        args: see `RecMetricComputation`.
        exponential_gain: an example's gain is 2^label - 1, not the label.
        session_key: key among the required inputs of the session of each example.
        k: examples of a session that count, from the highest prediction down; all with -1.
        report_ndcg_as_decreasing_curve: report 1 - NDCG.
        remove_single_length_sessions: leave out sessions of one example.
        scale_by_weights_tensor: weights multiply the gains; otherwise the largest of a session multiplies its value.
        is_negative_task_mask: for each task, whether predictions and labels are of the opposite: 1 minus them counts.
        kwargs: see `RecMetricComputation`.
    """

    STATES = (SUM_NDCG, NUM_SESSIONS)

    def __init__(
        self,
        *args: Any,
        exponential_gain: bool = False,
        session_key: str = SESSION_KEY,
        k: int = -1,
        report_ndcg_as_decreasing_curve: bool = True,
        remove_single_length_sessions: bool = False,
        scale_by_weights_tensor: bool = False,
        is_negative_task_mask: list[bool] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._exponential_gain = exponential_gain
        self._session_key = session_key
        self._k = k
        self._decreasing = report_ndcg_as_decreasing_curve
        self._remove_single_length_sessions = remove_single_length_sessions
        self._scale_by_weights = scale_by_weights_tensor
        self._is_negative_task_mask = is_negative_task_mask

    def contributions(
        self,
        predictions: Tensor,
        labels: Tensor,
        weights: Tensor,
        required_inputs: Mapping[str, Tensor] | None = None,
        **kwargs: Any,
    ) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        if required_inputs is None or self._session_key not in required_inputs:
            raise RecMetricException(
                f"NDCG needs required_inputs[{self._session_key!r}], the session of each example; got "
                f"{sorted(required_inputs or {})}."
            )
        sessions = self._sessions(required_inputs[self._session_key], labels)
        if self._is_negative_task_mask is not None:
            negative = torch.tensor(self._is_negative_task_mask, device=labels.device)[:, None]
            predictions = torch.where(negative, 1.0 - predictions, predictions)
            labels = torch.where(negative, 1.0 - labels, labels)
        rows = [self._row(*row) for row in zip(predictions, labels, weights, sessions, strict=True)]
        return {
            SUM_NDCG: torch.stack([total for total, _ in rows]),
            NUM_SESSIONS: torch.stack([number for _, number in rows]),
        }

    def _sessions(self, sessions: Tensor, labels: Tensor) -> Tensor:
        if sessions.numel() == labels.numel():
            return sessions.reshape(labels.shape)
        if sessions.numel() != labels.shape[-1]:
            raise InputError(
                f"{self._session_key!r} has {sessions.numel()} elements for {labels.shape[-1]} examples; give "
                f"one for each."
            )
        return sessions.reshape(1, -1).expand_as(labels)

    def _row(self, predictions: Tensor, labels: Tensor, weights: Tensor, sessions: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of the sessions' values, and how many sessions there are, of one task."""
        sessions, lengths = sessions.unique(return_inverse=True, return_counts=True)[1:]
        gains = torch.exp2(labels.double()) - 1.0 if self._exponential_gain else labels.double()
        if self._scale_by_weights:
            gains = gains * weights
        found = self._gain(sessions, predictions, gains, len(lengths))
        ideal = self._gain(sessions, gains, gains, len(lengths))
        values = found / torch.where(ideal == 0.0, _NO_GAIN, ideal)
        if self._decreasing:
            values = 1.0 - values
        if not self._scale_by_weights:
            largest = weights.new_zeros(len(lengths)).scatter_reduce(0, sessions, weights, "amax", include_self=False)
            values = values * largest
        if self._remove_single_length_sessions:
            values, lengths = values[lengths > 1], lengths[lengths > 1]
        return values.sum().double(), torch.tensor(float(len(lengths)), dtype=torch.float64, device=labels.device)

    def _gain(self, sessions: Tensor, ranked_by: Tensor, gains: Tensor, number: int) -> Tensor:
        """The discounted gain of each session, (sessions,), float64."""
        order, starts = sessions_sorted(sessions, ranked_by)
        rank = torch.arange(len(order), device=order.device) - starts
        discounted = gains[order] / torch.log2(rank.double() + 2.0)
        if self._k >= 0:
            discounted = torch.where(rank < self._k, discounted, 0.0)
        return discounted.new_zeros(number).scatter_add_(0, sessions[order], discounted)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        return [(MetricName.NDCG, sums[SUM_NDCG] / sums[NUM_SESSIONS])]


class NDCGMetric(RecMetric):
    """NDCG of sessions, averaged over them; see `NDCGComputation` for its options.

    References:
        Järvelin and Kekäläinen 2002, "Cumulated gain-based evaluation of IR techniques".
    """

    _namespace = MetricNamespace.NDCG
    _computation_class = NDCGComputation

    def _get_task_required_inputs(self, task_config: RecTaskInfo | list[RecTaskInfo]) -> set[str]:
        return {self._options.get("session_key", SESSION_KEY)}

    def _get_task_kwargs(self, task_config: RecTaskInfo | list[RecTaskInfo]) -> dict[str, Any]:
        tasks = task_config if isinstance(task_config, list) else [task_config]
        negative = [task.is_negative_task for task in tasks]
        return {"is_negative_task_mask": negative} if any(negative) else {}
