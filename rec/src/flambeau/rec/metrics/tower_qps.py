"""Examples per second of each task."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.metrics._computation import MetricComputationReport, RecMetricComputation
from flambeau.rec.metrics._errors import RecMetricException
from flambeau.rec.metrics._stages import StageCounter
from flambeau.rec.metrics.metrics_config import BatchSizeStage, RecComputeMode, RecTaskInfo
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNamespace, MetricPrefix
from flambeau.rec.metrics.rec_metric import RecMetric, RecModelOutput

__all__ = [
    "NUM_EXAMPLES",
    "TIME_LAPSE",
    "WARMUP_EXAMPLES",
    "WARMUP_STEPS",
    "TowerQPSMetric",
    "TowerQPSMetricComputation",
]

WARMUP_STEPS = 100
NUM_EXAMPLES = "num_examples"
WARMUP_EXAMPLES = "warmup_examples"
TIME_LAPSE = "time_lapse"


class TowerQPSMetricComputation(RecMetricComputation):
    """States and formula of examples per second.

    Args:
        args: see `RecMetricComputation`.
        kwargs: `warmup_steps`, steps that do not count, and see `RecMetricComputation`.

    Raises:
        ValueError: `warmup_steps` is below 1.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._warmup_steps: int = kwargs.pop("warmup_steps", WARMUP_STEPS)
        if self._warmup_steps < 1:
            raise OptionError(f"warmup_steps is {self._warmup_steps}; expected 1 or more.")
        super().__init__(*args, **kwargs)
        # All ranks' examples, in the time of the slowest one.
        for name, dtype, reduction, window in (
            (NUM_EXAMPLES, torch.long, "sum", True),
            (WARMUP_EXAMPLES, torch.long, "sum", False),
            (TIME_LAPSE, torch.float64, "max", True),
        ):
            default = torch.zeros(self._n_tasks, dtype=dtype)
            self._add_state(name, default, add_window_state=window, dist_reduce_fx=reduction, persistent=True)
        self._steps = 0
        self._previous_ts = 0.0

    def update(self, *, predictions: Tensor | None, labels: Tensor, weights: Tensor | None, **kwargs: Any) -> None:
        """See `RecMetricComputation.update`; only the number of labels counts."""
        now = time.monotonic()
        self._steps += 1
        count = labels.shape[-1]
        examples = torch.full((self._n_tasks,), count, device=labels.device)
        state: Tensor = getattr(self, NUM_EXAMPLES)
        state += examples
        if self._steps <= self._warmup_steps:
            warmup: Tensor = getattr(self, WARMUP_EXAMPLES)
            warmup += examples
        else:
            lapse = torch.full((self._n_tasks,), now - self._previous_ts, dtype=torch.float64, device=labels.device)
            total: Tensor = getattr(self, TIME_LAPSE)
            total += lapse
            self._aggregate_window_state(NUM_EXAMPLES, examples, count)
            self._aggregate_window_state(TIME_LAPSE, lapse, count)
        self._previous_ts = now

    def _compute(self) -> list[MetricComputationReport]:
        total: Tensor = getattr(self, NUM_EXAMPLES)
        lifetime = _per_second(total - getattr(self, WARMUP_EXAMPLES), getattr(self, TIME_LAPSE))
        window = _per_second(self.get_window_state(NUM_EXAMPLES), self.get_window_state(TIME_LAPSE))
        return [
            MetricComputationReport(MetricName.TOWER_QPS, MetricPrefix.LIFETIME, lifetime),
            MetricComputationReport(MetricName.TOWER_QPS, MetricPrefix.WINDOW, window),
            MetricComputationReport(MetricName.TOTAL_EXAMPLES, MetricPrefix.DEFAULT, total),
        ]


def _per_second(examples: Tensor, lapse: Tensor) -> Tensor:
    return torch.where(lapse <= 0.0, 0.0, examples / lapse).double()


class TowerQPSMetric(RecMetric):
    """Examples per second of each task, which needs their labels alone.

    Args:
        world_size, my_rank, batch_size, tasks, compute_mode, window_size, fused_update_limit, process_group: see
            `RecMetric`.
        warmup_steps: steps that do not count.
        batch_size_stages: a schedule of batch sizes; the number of batches is saved.
        kwargs: see `RecMetric`.

    Raises:
        RecMetricException: updates are to be joined, whose time nobody would know.
    """

    _namespace = MetricNamespace.TOWER_QPS
    _computation_class = TowerQPSMetricComputation

    def __init__(
        self,
        world_size: int,
        my_rank: int,
        batch_size: int,
        tasks: list[RecTaskInfo],
        compute_mode: RecComputeMode = RecComputeMode.UNFUSED_TASKS_COMPUTATION,
        window_size: int = 100,
        fused_update_limit: int = 0,
        process_group: dist.ProcessGroup | None = None,
        warmup_steps: int = WARMUP_STEPS,
        batch_size_stages: list[BatchSizeStage] | None = None,
        **kwargs: Any,
    ) -> None:
        if fused_update_limit > 0:
            raise RecMetricException(
                f"fused_update_limit is {fused_update_limit}, but of joined batches nobody knows how long each "
                f"took; set it "
                f"to 0."
            )
        super().__init__(
            world_size,
            my_rank,
            batch_size,
            tasks,
            compute_mode,
            window_size,
            fused_update_limit,
            process_group=process_group,
            warmup_steps=warmup_steps,
            **kwargs,
        )
        self._stages = StageCounter(batch_size_stages)
        self._register_state_dict_hook(self.state_dict_hook)  # type: ignore[no-untyped-call]
        self._register_load_state_dict_pre_hook(self.load_state_dict_hook)  # type: ignore[no-untyped-call]

    @property
    def num_batch(self) -> int:
        """Batches so far."""
        return self._stages.num_batch

    @staticmethod
    def state_dict_hook(
        module: nn.Module, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any]
    ) -> None:
        """Put the number of batches into the state, where there are stages."""
        if isinstance(module, TowerQPSMetric):
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

    def update(
        self,
        *,
        predictions: RecModelOutput | None,
        labels: RecModelOutput,
        weights: RecModelOutput | None,
        **kwargs: Any,
    ) -> None:
        """Count a batch of each task.

        Args:
            predictions: not used.
            labels: (examples,) of each task by its name; of fused tasks also (tasks, examples).
            weights: not used, unless batches without weight are left out.
            kwargs: not used.
        """
        self._stages.step()
        # Whatever the predictions are, an example is one that has a label.
        super().update(predictions=labels, labels=labels, weights=weights, **kwargs)
