"""The weighted share of positive examples among the highest predictions of each session."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from flambeau.rec.metrics._ratios import example_sum, ratio
from flambeau.rec.metrics._session_metric import SessionMetric, SessionMetricComputation
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace

__all__ = ["NUM_FALSE_POS", "NUM_TRUE_POS", "PrecisionSessionMetric", "PrecisionSessionMetricComputation"]

NUM_TRUE_POS = "num_true_pos"
NUM_FALSE_POS = "num_false_pos"


def _precision(num_true_pos: Tensor, num_false_pos: Tensor) -> Tensor:
    """Positive examples among those predicted positive, float64; 0 where there is none."""
    return ratio(num_true_pos, num_true_pos + num_false_pos)


class PrecisionSessionMetricComputation(SessionMetricComputation):
    """States and formula of precision within sessions.

    Args:
        args: see `RecMetricComputation`.
        session_metric_def: the input that says which session an example belongs to, and how many are predicted
            positive.
        kwargs: see `RecMetricComputation`.

    Raises:
        RecMetricException: `top_threshold` is not given.
    """

    STATES = (NUM_TRUE_POS, NUM_FALSE_POS)

    def get_precision_states(
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
            NUM_FALSE_POS: example_sum(weights * chosen * (1.0 - positive.to(weights.dtype))),
        }

    def session_states(
        self, labels: Tensor, predictions: Tensor, weights: Tensor, session: Tensor
    ) -> dict[str, Tensor]:
        """See `SessionMetricComputation`."""
        return self.get_precision_states(labels, predictions, weights, session)

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """See `SummedComputation`."""
        return [(MetricName.PRECISION_SESSION_LEVEL, _precision(sums[NUM_TRUE_POS], sums[NUM_FALSE_POS]))]


class PrecisionSessionMetric(SessionMetric):
    """The weighted share of positive examples among the highest predictions of each session.

    Args:
        world_size, my_rank, batch_size, tasks, compute_mode, window_size, fused_update_limit, process_group: see
            `RecMetric`. Each task has its `session_metric_def`.
        kwargs: see `RecMetric`.

    Raises:
        RecMetricException: tasks or updates are to be fused, or a task has no `session_metric_def`.
    """

    _namespace = MetricNamespace.PRECISION_SESSION_LEVEL
    _computation_class = PrecisionSessionMetricComputation
