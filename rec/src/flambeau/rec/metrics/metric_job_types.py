"""What the threads of metrics that are computed off the accelerator hand to one another."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from flambeau.rec.metrics.metric_state_snapshot import MetricStateSnapshot

__all__ = ["MetricComputeJob", "MetricUpdateJob", "SynchronizationMarker"]

MetricsResult = dict[str, Any]


@dataclass(slots=True, eq=False)
class MetricUpdateJob:
    """Take a batch in.

    Attributes:
        model_out: the model's outputs by key.
        kwargs: further arguments of `RecMetricModule.update`.
        merged_count: how many batches were joined in it.
    """

    model_out: dict[str, Tensor]
    kwargs: dict[str, Any]
    merged_count: int = 1


@dataclass(slots=True, eq=False)
class SynchronizationMarker:
    """Take a snapshot of the states once all batches before it are in.

    Attributes:
        future: gets the values.
    """

    future: Future[MetricsResult]


@dataclass(slots=True, eq=False)
class MetricComputeJob:
    """Compute the values of a snapshot.

    Attributes:
        future: gets the values.
        metric_state_snapshot: the states.
    """

    future: Future[MetricsResult]
    metric_state_snapshot: MetricStateSnapshot
