"""Metrics that are not measured, for code that wants a metric module in any case."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from flambeau.rec.metrics.deferrable_metrics import DeferrableMetrics
from flambeau.rec.metrics.metric_module import RecMetricModule

__all__ = ["NoOpMetricModule"]


class NoOpMetricModule(RecMetricModule):
    """Takes everything, keeps nothing, and has no values."""

    def __init__(self) -> None:
        super().__init__(batch_size=1, world_size=1)

    def update(self, model_out: dict[str, Tensor], **kwargs: Any) -> None:
        """Nothing."""

    def should_compute(self) -> bool:
        """False."""
        return False

    def compute(self) -> DeferrableMetrics:
        """No values."""
        return DeferrableMetrics({})

    def local_compute(self) -> DeferrableMetrics:
        """No values."""
        return DeferrableMetrics({})

    def async_compute(self, future: Future[dict[str, Any]] | None = None) -> DeferrableMetrics:
        """No values, which a future that is given gets, too."""
        if future is not None and not future.done():
            future.set_result({})
        return DeferrableMetrics({})

    def sync(self) -> None:
        """Nothing."""

    def unsync(self) -> None:
        """Nothing."""

    def reset(self) -> None:
        """Nothing."""

    def get_required_inputs(self) -> list[str] | None:
        """None."""
        return None

    def get_pre_compute_states(
        self, pg: dist.ProcessGroup | DeviceMesh | None = None
    ) -> dict[str, dict[str, dict[str, Tensor | list[Tensor]]]]:
        """No states."""
        return {}

    def load_pre_compute_states(self, source: dict[str, dict[str, dict[str, Tensor | list[Tensor]]]]) -> None:
        """Nothing."""

    def shutdown(self) -> None:
        """Nothing."""
