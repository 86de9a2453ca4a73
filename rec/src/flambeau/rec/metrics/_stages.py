"""Schedules of batch sizes: which one a batch has, and how many batches there were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flambeau.rec.metrics.metrics_config import BatchSizeStage, validate_batch_size_stages

__all__ = ["StageCounter"]

_KEY = "num_batch"


class StageCounter:
    """Counts batches, and knows the batch size of each.

    Args:
        stages: the schedule; None or empty for none.

    Raises:
        ValueError: the stages do not fit together.
    """

    def __init__(self, stages: Sequence[BatchSizeStage] | None) -> None:
        validate_batch_size_stages(stages)
        self.stages = list(stages or ())
        self.num_batch = 0

    def step(self) -> int | None:
        """Count a batch, and give its size; None without stages."""
        if not self.stages:
            return None
        self.num_batch += 1
        return self.batch_size

    @property
    def batch_size(self) -> int | None:
        """The size of the latest batch; None without stages."""
        if not self.stages:
            return None
        end = 0
        for stage in self.stages:
            end += stage.max_iters or 0
            if stage.max_iters is None or self.num_batch <= end:
                return stage.batch_size
        return self.stages[-1].batch_size

    def save(self, state_dict: dict[str, Any], prefix: str) -> None:
        """Put the number of batches into a state, where there are stages."""
        if self.stages:
            state_dict[prefix + _KEY] = torch.tensor(self.num_batch)

    def load(self, state_dict: dict[str, Any], prefix: str) -> None:
        """Take the number of batches out of a state; a state without starts at 0."""
        found = state_dict.pop(prefix + _KEY, None)
        if self.stages:
            self.num_batch = 0 if found is None else int(found)
