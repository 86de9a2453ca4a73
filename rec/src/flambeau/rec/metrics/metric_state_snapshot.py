"""States of metrics as they are at one moment."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor

from flambeau.rec.metrics._computation import RecMetricComputation
from flambeau.rec.metrics.rec_metric import RecMetric, RecMetricList
from flambeau.rec.metrics.throughput import ThroughputMetric

__all__ = ["MetricStateSnapshot"]


class MetricStateSnapshot:
    """Copies of the states of metrics.

    Args:
        metric_states: `<task>_<computation>_<state>` -> copy of the state.
        throughput_metric: a copy of it.
    """

    def __init__(self, metric_states: dict[str, Any], throughput_metric: ThroughputMetric | None) -> None:
        self.metric_states = metric_states
        self.throughput_metric = throughput_metric

    @classmethod
    def from_metrics(
        cls, rec_metrics: RecMetricList, throughput_metric: ThroughputMetric | None = None
    ) -> MetricStateSnapshot:
        """Copy the states of metrics, after batches that wait to be joined were taken in.

        Args:
            rec_metrics: the metrics.
            throughput_metric: the throughput, if it is measured.
        """
        states: dict[str, Any] = {}
        for metric in rec_metrics:
            metric._check_fused_update(force=True)
            for prefix, computation in prefixed(metric):
                computation.pre_compute()
                for name, state in computation.metric_state.items():
                    states[prefix + name] = (
                        state.clone() if isinstance(state, Tensor) else [part.clone() for part in state]
                    )
        return cls(states, copy.deepcopy(throughput_metric))


def prefixed(metric: RecMetric) -> list[tuple[str, RecMetricComputation]]:
    """The computations of a metric, each with what its states' keys begin with."""
    tasks = ["_".join(task.name for task in metric._tasks)] if metric._is_fused else [t.name for t in metric._tasks]
    return [
        (f"{task}_{type(computation).__name__}_", computation)
        for task, computation in zip(tasks, metric._computations, strict=True)
    ]
