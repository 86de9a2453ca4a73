"""The weighted share of positive examples that are among the highest predictions of their session."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from flambeau.rec.metrics._ratios import example_sum, ratio
from flambeau.rec.metrics._session_metric import SessionMetric, SessionMetricComputation
from flambeau.rec.metrics._sessions import number_below
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace

__all__ = [
    "NUM_FALSE_NEGATIVE",
    "NUM_TRUE_POS",
    "RecallSessionMetric",
    "RecallSessionMetricComputation",
    "ranking_within_session",
]

NUM_TRUE_POS = "num_true_pos"
NUM_FALSE_NEGATIVE = "num_false_neg"


def ranking_within_session(predictions: Tensor, session: Tensor) -> Tensor:
    """How many examples of the same session have a lower prediction, (examples,), int64.

    Args:
        predictions: (examples,).
        session: (examples,), the session of each.
    """
    return number_below(session.reshape(-1), predictions.reshape(-1)).reshape(predictions.shape)


def _recall(num_true_pos: Tensor, num_false_neg: Tensor) -> Tensor:
    """Positive examples that are found, float64; 0 where there is none."""
    return ratio(num_true_pos, num_true_pos + num_false_neg)


class RecallSessionMetricComputation(SessionMetricComputation):
    """States and formula of recall within sessions.

    Args:
        args: see `RecMetricComputation`.
        session_metric_def: the input that says which session an example belongs to, and how many are predicted
            positive.
        kwargs: see `RecMetricComputation`.

    Raises:
        RecMetricException: `top_threshold` is not given.
    """

    STATES = (NUM_TRUE_POS, NUM_FALSE_NEGATIVE)

    def get_recall_states(
        self, labels: Tensor, predictions: Tensor, weights: Tensor, session: Tensor
    ) -> dict[str, Tensor]:
        """A batch's part of the states.

        Args:
            labels: (1, examples), 0 or 1, or values that are ranked first.
            predictions: (1, examples).
            weights: (1, examples).
            session: (1, examples), the session of each.
        """
        chosen = self._top(predictions, session)
        positive = self._top(labels, session) if self.run_ranking_of_labels else labels
        return {
            NUM_TRUE_POS: example_sum(weights * chosen * positive),
            NUM_FALSE_NEGATIVE: example_sum(weights * ~chosen * positive),
        }

    def session_states(
        self, labels: Tensor, predictions: Tensor, weights: Tensor, session: Tensor
    ) -> dict[str, Tensor]:
        """See `SessionMetricComputation`."""
        return self.get_recall_states(labels, predictions, weights, session)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        return [(MetricName.RECALL_SESSION_LEVEL, _recall(sums[NUM_TRUE_POS], sums[NUM_FALSE_NEGATIVE]))]


class RecallSessionMetric(SessionMetric):
    """The weighted share of positive examples that are among the highest predictions of their session.

    Args:
        world_size, my_rank, batch_size, tasks, compute_mode, window_size, fused_update_limit, process_group: see
            `RecMetric`. Each task has its `session_metric_def`.
        kwargs: see `RecMetric`.

    Raises:
        RecMetricException: tasks or updates are to be fused, or a task has no `session_metric_def`.
    """

    _namespace = MetricNamespace.RECALL_SESSION_LEVEL
    _computation_class = RecallSessionMetricComputation
