"""Examples per second of training."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.metrics._stages import StageCounter
from flambeau.rec.metrics.metrics_config import BatchSizeStage
from flambeau.rec.metrics.metrics_namespace import (
    MetricName,
    MetricNameBase,
    MetricNamespace,
    MetricPrefix,
    compose_metric_key,
)

__all__ = ["MAX_WINDOW_TS", "ThroughputMetric"]

MAX_WINDOW_TS = 7200
"""Seconds that a window lasts at most."""


class ThroughputMetric(nn.Module):
    """Examples per second of all ranks: since the start, in the latest seconds, and since this process started.

    The first steps are slower than the rest, and do not count. Lifetime counts go on from a checkpoint; attempt counts,
    which are those of this process, do not.

    Args:
        batch_size: examples of a batch on each rank.
        world_size: how many ranks take part.
        window_seconds: what the window value is of; at most 7,200.
        warmup_steps: steps that do not count.
        batch_size_stages: batch sizes that follow one another, in place of `batch_size`.

    Raises:
        ValueError: `window_seconds` or `warmup_steps` is below 1, or the stages do not fit together.
    """

    total_examples: Tensor
    warmup_examples: Tensor
    time_lapse_after_warmup: Tensor
    attempt_examples: Tensor
    attempt_warmup_examples: Tensor
    attempt_time_lapse_after_warmup: Tensor

    def __init__(
        self,
        *,
        batch_size: int,
        world_size: int,
        window_seconds: int,
        warmup_steps: int = 100,
        batch_size_stages: list[BatchSizeStage] | None = None,
    ) -> None:
        super().__init__()
        if window_seconds < 1:
            raise OptionError(f"window_seconds is {window_seconds}; expected 1 or more.")
        if warmup_steps < 1:
            raise OptionError(
                f"warmup_steps is {warmup_steps}; expected 1 or more, so that there is a step to count from."
            )
        self._batch_size = batch_size
        self._world_size = world_size
        self._window_seconds = min(window_seconds, MAX_WINDOW_TS)
        self._warmup_steps = warmup_steps
        self._stages = StageCounter(batch_size_stages)
        self._steps = 0
        self._previous_ts = 0.0
        self._window: deque[tuple[float, int]] = deque()
        self._window_time = 0.0
        self._window_examples = 0
        for name, persistent in (("", True), ("attempt_", False)):
            total = "total" if persistent else "attempt"
            self.register_buffer(f"{total}_examples", torch.tensor(0), persistent)
            self.register_buffer(f"{name}warmup_examples", torch.tensor(0), persistent)
            lapse = torch.tensor(0.0, dtype=torch.float64)
            self.register_buffer(f"{name}time_lapse_after_warmup", lapse, persistent)
        self._register_state_dict_hook(self.state_dict_hook)  # type: ignore[no-untyped-call]
        self._register_load_state_dict_pre_hook(self.load_state_dict_hook)  # type: ignore[no-untyped-call]

    @property
    def num_batch(self) -> int:
        """Batches so far, by which the stage is found."""
        return self._stages.num_batch

    def set_num_batch(self, num_batch: int) -> None:
        """Set how many batches there were."""
        self._stages.num_batch = num_batch

    @staticmethod
    def state_dict_hook(
        module: nn.Module, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any]
    ) -> None:
        """Put the number of batches into the state, where there are stages."""
        if isinstance(module, ThroughputMetric):
            module._stages.save(state_dict, prefix)

    def load_state_dict_hook(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take the number of batches out of the state, where it is in it."""
        self._stages.load(state_dict, prefix)

    def update(self) -> None:
        """Count a step, which ends now."""
        now = time.monotonic()
        self._steps += 1
        examples = (self._stages.step() or self._batch_size) * self._world_size
        self.total_examples += examples
        self.attempt_examples += examples
        if self._steps <= self._warmup_steps:
            self.warmup_examples += examples
            self.attempt_warmup_examples += examples
        else:
            lapse = now - self._previous_ts
            self.time_lapse_after_warmup += lapse
            self.attempt_time_lapse_after_warmup += lapse
            self._window.append((lapse, examples))
            self._window_time += lapse
            self._window_examples += examples
            while self._window_time > self._window_seconds:
                lapse, examples = self._window.popleft()
                self._window_time -= lapse
                self._window_examples -= examples
        self._previous_ts = now

    def compute(self) -> dict[str, Tensor]:
        """Numbers of examples, and after the warm-up examples per second, by key."""
        values = {
            _key(MetricName.TOTAL_EXAMPLES): self.total_examples.clone(),
            _key(MetricName.ATTEMPT_EXAMPLES): self.attempt_examples.clone(),
        }
        if self._steps > self._warmup_steps:
            lifetime = (self.total_examples - self.warmup_examples) / self.time_lapse_after_warmup
            window = self._window_examples / self._window_time if self._window else 0.0
            attempt = (self.attempt_examples - self.attempt_warmup_examples) / self.attempt_time_lapse_after_warmup
            values[_key(MetricName.THROUGHPUT, MetricPrefix.LIFETIME)] = lifetime
            values[_key(MetricName.THROUGHPUT, MetricPrefix.WINDOW)] = torch.tensor(window, dtype=torch.float64)
            values[_key(MetricName.THROUGHPUT, MetricPrefix.ATTEMPT)] = attempt
        if (size := self._stages.batch_size) is not None:
            values[_key(MetricName.BATCH_SIZE)] = torch.tensor(size, dtype=torch.int32)
        return values


def _key(name: MetricNameBase, prefix: MetricPrefix = MetricPrefix.DEFAULT) -> str:
    return compose_metric_key(MetricNamespace.THROUGHPUT, str(MetricNamespace.THROUGHPUT), name, prefix)
