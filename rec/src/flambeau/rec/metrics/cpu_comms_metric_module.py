"""Values from snapshots of states, gathered from all ranks by the CPU while training goes on."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from flambeau.rec.metrics._computation import RecMetricComputation
from flambeau.rec.metrics.metric_module import RecMetricModule
from flambeau.rec.metrics.metric_state_snapshot import MetricStateSnapshot, prefixed

__all__ = ["CPUCommsRecMetricModule", "set_update_called"]


def set_update_called(computation: RecMetricComputation) -> None:
    """Let a computation pass as updated: its states come from a snapshot."""
    computation._update_count = max(computation._update_count, 1)


class CPUCommsRecMetricModule(RecMetricModule):
    """Computes values of the states that it is given; it is never updated itself.

    Args:
        args: see `RecMetricModule`.
        kwargs: see `RecMetricModule`; the metrics are this module's own.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for metric in self.rec_metrics:
            for computation in metric._computations:
                set_update_called(computation)

    def load_local_metric_state_snapshot(self, state_snapshot: MetricStateSnapshot) -> None:
        """Take over states of this rank.

        Args:
            state_snapshot: of metrics that are configured alike.

        Raises:
            KeyError: it lacks a state.
        """
        for metric in self.rec_metrics:
            for prefix, computation in prefixed(metric):
                for name in computation.metric_state:
                    state = state_snapshot.metric_states[prefix + name]
                    # Sums are added to in place; the snapshot stays as it is.
                    setattr(computation, name, state.clone() if isinstance(state, Tensor) else list(state))
                computation._computed = None
                set_update_called(computation)
        self.throughput_metric = state_snapshot.throughput_metric
