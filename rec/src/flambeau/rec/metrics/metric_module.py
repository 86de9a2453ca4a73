"""All metrics of a training loop in one module: batches go in, and from time to time values come out."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from flambeau.rec.errors import OptionError
from flambeau.rec.metrics._errors import RecMetricException
from flambeau.rec.metrics._gathering import gathered_states
from flambeau.rec.metrics.catalogue import REC_METRICS_MAPPING
from flambeau.rec.metrics.deferrable_metrics import DeferrableMetrics
from flambeau.rec.metrics.metrics_config import (
    BatchSizeStage,
    MetricsConfig,
    RecMetricDef,
    RecMetricEnumBase,
    RecTaskInfo,
    StateMetricEnum,
    validate_batch_size_stages,
)
from flambeau.rec.metrics.metrics_namespace import (
    MetricNamespace,
    compose_customized_metric_key,
    compose_metric_namespace,
)
from flambeau.rec.metrics.model_utils import parse_task_model_outputs
from flambeau.rec.metrics.rec_metric import RecMetric, RecMetricList
from flambeau.rec.metrics.throughput import ThroughputMetric

__all__ = [
    "MODEL_METRIC_LABEL",
    "REC_METRICS_MAPPING",
    "STATE_METRICS_NAMESPACE_MAPPING",
    "MetricValue",
    "MetricsFuture",
    "MetricsOutput",
    "MetricsResult",
    "RecMetricModule",
    "StateMetric",
    "generate_metric_module",
]

logger = logging.getLogger(__name__)

MODEL_METRIC_LABEL = "model"
MetricValue = Tensor | float
MetricsResult = dict[str, MetricValue]
MetricsFuture = Future[MetricsResult]
MetricsOutput = MetricsResult | MetricsFuture | DeferrableMetrics
States = dict[str, dict[str, dict[str, Tensor | list[Tensor]]]]
Module = TypeVar("Module", bound="RecMetricModule")

STATE_METRICS_NAMESPACE_MAPPING = {
    StateMetricEnum.OPTIMIZERS: MetricNamespace.OPTIMIZERS,
    StateMetricEnum.MODEL_CONFIGURATOR: MetricNamespace.MODEL_CONFIGURATOR,
}


class StateMetric(ABC):
    """A part of the training loop that reports values of its own along with the metrics."""

    @abstractmethod
    def get_metrics(self) -> MetricsResult:
        """The values by name."""


class RecMetricModule(nn.Module):
    """All metrics of a training loop.

    Args:
        batch_size: examples of a batch on each rank.
        world_size: how many ranks take part.
        rec_tasks: the model's tasks, by which its outputs are taken apart.
        rec_metrics: the metrics.
        throughput_metric: measures throughput.
        state_metrics: further values by the name of who reports them.
        compute_interval_steps: batches from one computation to the next.
        min_compute_interval: seconds between two computations at least; the number of batches is adjusted to it.
        max_compute_interval: at most.

    Attributes:
        trained_batches: batches so far, by which `should_compute` goes.
        compute_count: computations so far.
    """

    rec_metrics: RecMetricList
    throughput_metric: ThroughputMetric | None

    def __init__(
        self,
        batch_size: int,
        world_size: int,
        rec_tasks: list[RecTaskInfo] | None = None,
        rec_metrics: RecMetricList | None = None,
        throughput_metric: ThroughputMetric | None = None,
        state_metrics: dict[str, StateMetric] | None = None,
        compute_interval_steps: int = 100,
        min_compute_interval: float = 0.0,
        max_compute_interval: float = float("inf"),
    ) -> None:
        super().__init__()
        self.rec_tasks = rec_tasks if rec_tasks else []
        self.rec_metrics = rec_metrics if rec_metrics is not None else RecMetricList([])
        self.throughput_metric = throughput_metric
        self.state_metrics = state_metrics if state_metrics else {}
        self.trained_batches = 0
        self.batch_size = batch_size
        self.world_size = world_size
        self.compute_count = 0
        self.compute_interval_steps = compute_interval_steps
        self.min_compute_interval = min_compute_interval
        self.max_compute_interval = max_compute_interval
        if min_compute_interval == 0.0 and max_compute_interval == float("inf"):
            self.min_compute_interval = self.max_compute_interval = -1.0
        self.last_compute_time = -1.0
        self._register_load_state_dict_pre_hook(self.load_state_dict_hook)  # type: ignore[no-untyped-call]

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
        """A checkpoint without throughput loads all the same: its counts start at 0."""
        if self.throughput_metric is None:
            return
        for name, value in self.throughput_metric.named_buffers():
            key = f"{prefix}throughput_metric.{name}"
            if key not in state_dict and name not in self.throughput_metric._non_persistent_buffers_set:
                state_dict[key] = torch.zeros_like(value)

    def _update_rec_metrics(self, model_out: dict[str, Tensor], **kwargs: Any) -> None:
        if not len(self.rec_metrics) or not self.rec_tasks:
            return
        labels, predictions, weights, required = parse_task_model_outputs(
            self.rec_tasks, model_out, self.get_required_inputs()
        )
        if required:
            kwargs["required_inputs"] = required
        self.rec_metrics.update(predictions=predictions, labels=labels, weights=weights, **kwargs)

    def update(self, model_out: dict[str, Tensor], **kwargs: Any) -> None:
        """Take a batch in.

        Args:
            model_out: the model's outputs, by the keys that the tasks name.
            kwargs: passed on to the metrics.

        Raises:
            ValueError, KeyError: a task's key is missing.
        """
        with torch.no_grad():
            self._update_rec_metrics(model_out, **kwargs)
            if self.throughput_metric is not None:
                self.throughput_metric.update()
        self.trained_batches += 1

    def _adjust_compute_interval(self) -> None:
        """Choose the number of batches so that the time between computations stays within its bounds."""
        if self.min_compute_interval < 0:
            return
        now = time.time()
        before, self.last_compute_time = self.last_compute_time, now
        if before < 0:
            return
        # The slowest rank decides, so that all compute after the same batch.
        lapse = torch.tensor(now - before, dtype=torch.float64)
        if dist.is_available() and dist.is_initialized() and self.world_size > 1:
            device = "cuda" if dist.get_backend() == "nccl" else "cpu"
            lapse = lapse.to(device)
            dist.all_reduce(lapse, op=dist.ReduceOp.MAX)
        seconds_per_step = float(lapse) / max(self.compute_interval_steps, 1)
        if seconds_per_step <= 0:
            return
        if not self.min_compute_interval <= float(lapse) <= self.max_compute_interval:
            longest = self.max_compute_interval
            wanted = self.min_compute_interval if float(lapse) < self.min_compute_interval else longest
            steps = wanted / seconds_per_step
            steps = -(-steps // 1) if float(lapse) < self.min_compute_interval else steps // 1
            self.compute_interval_steps = max(1, int(steps))
            logger.info("Metrics are computed every %d batches from now on.", self.compute_interval_steps)

    def should_compute(self) -> bool:
        """Whether values are due after the latest batch."""
        return self.trained_batches % max(self.compute_interval_steps, 1) == 0

    def compute(self) -> DeferrableMetrics:
        """All values of all ranks' examples by key; every rank has to call it."""
        self.compute_count += 1
        values: dict[str, Any] = {}
        if len(self.rec_metrics):
            self._adjust_compute_interval()
            values.update(self.rec_metrics.compute())
        if self.throughput_metric is not None:
            values.update(self.throughput_metric.compute())
        values.update(self._state_values())
        return DeferrableMetrics(values)

    def _state_values(self) -> dict[str, Any]:
        return {
            compose_customized_metric_key(namespace, name): value
            for namespace, state_metric in self.state_metrics.items()
            for name, value in state_metric.get_metrics().items()
        }

    def local_compute(self) -> DeferrableMetrics:
        """The values of this rank's examples by key."""
        return DeferrableMetrics(self.rec_metrics.local_compute() if len(self.rec_metrics) else {})

    def async_compute(self) -> DeferrableMetrics:
        """Computing while training goes on, which `CPUOffloadedRecMetricModule` does.

        Raises:
            RecMetricException: this module computes at once.
        """
        raise RecMetricException(
            f"{type(self).__name__} computes at once; use compute(), or CPUOffloadedRecMetricModule for "
            f"async_compute()."
        )

    def sync(self) -> None:
        """Replace the states by those of all ranks together, until `unsync`; for checkpoints."""
        self.rec_metrics.sync()

    def unsync(self) -> None:
        """Take back the states of this rank."""
        self.rec_metrics.unsync()

    def reset(self) -> None:
        """Forget all examples."""
        self.rec_metrics.reset()

    def get_required_inputs(self) -> list[str] | None:
        """Keys of the model's outputs that any metric needs beside labels, predictions and weights."""
        return self.rec_metrics.get_required_inputs()

    def get_memory_usage(self) -> dict[Tensor, int]:
        """Bytes of every tensor that the metrics keep."""
        return {key: size for metric in self.rec_metrics for key, size in metric.get_memory_usage().items()}

    def get_pre_compute_states(self, pg: dist.ProcessGroup | DeviceMesh | None = None) -> States:
        """The states of all ranks together, which another process can compute values from.

        Args:
            pg: the ranks; all by default.

        Returns:
            Namespace of the metric -> task -> state -> tensor, or a list of all ranks' tensors. Of fused tasks, whose
            states are in one, it is under the first one's name. Throughput is this rank's.
        """
        group = pg.get_group() if isinstance(pg, DeviceMesh) else pg
        found: States = {}
        for metric in self.rec_metrics:
            metric._check_fused_update(force=True)
            found[str(metric._namespace)] = gathered_states(metric, group)
        if self.throughput_metric is not None:
            name = str(MetricNamespace.THROUGHPUT)
            found[name] = {name: {key: value.clone() for key, value in self.throughput_metric.named_buffers()}}
        return found

    def load_pre_compute_states(self, source: States) -> None:
        """Take over what `get_pre_compute_states` gave; values are computed from it without other ranks.

        Args:
            source: namespace of the metric -> task -> state.

        Raises:
            KeyError: a metric or task is missing.
        """
        for metric in self.rec_metrics:
            tasks = source[str(metric._namespace)]
            for task, computation in zip(metric._tasks, metric._computations, strict=False):
                for name, value in tasks[task.name].items():
                    copies = value.clone() if isinstance(value, Tensor) else [part.clone() for part in value]
                    setattr(computation, name, copies)
                computation._update_count = max(computation._update_count, 1)
                computation._computed = None
                computation._to_sync = False  # they are those of all ranks already
        name = str(MetricNamespace.THROUGHPUT)
        if self.throughput_metric is not None and name in source:
            for key, buffer in source[name][name].items():
                self.throughput_metric.get_buffer(key).copy_(buffer)  # type: ignore[arg-type]

    def shutdown(self) -> None:
        """Stop whatever goes on beside training; nothing does here."""


def _generate_rec_metrics(
    config: MetricsConfig,
    world_size: int,
    my_rank: int,
    batch_size: int,
    process_group: dist.ProcessGroup | None,
    batch_size_stages: list[BatchSizeStage] | None,
) -> RecMetricList:
    metrics: list[RecMetric] = []
    for kind, definition in config.rec_metrics.items():
        options: dict[str, Any] = {
            "enable_pt2_compile": config.enable_pt2_compile,
            "should_clone_update_inputs": config.should_clone_update_inputs,
            **(definition.arguments or {}),
        }
        if str(kind) == "tower_qps" and batch_size_stages is not None:
            options["batch_size_stages"] = batch_size_stages
        metrics.append(
            _metric_class(kind)(
                world_size=world_size,
                my_rank=my_rank,
                batch_size=batch_size,
                tasks=_tasks(kind, definition, config),
                compute_mode=config.rec_compute_mode,
                window_size=definition.window_size,
                fused_update_limit=config.fused_update_limit,
                compute_on_all_ranks=config.compute_on_all_ranks,
                should_validate_update=config.should_validate_update,
                process_group=process_group,
                **options,
            )
        )
    return RecMetricList(metrics)


def _metric_class(kind: RecMetricEnumBase) -> type[RecMetric]:
    if kind not in REC_METRICS_MAPPING:
        known = ", ".join(sorted(str(one) for one in REC_METRICS_MAPPING))
        raise KeyError(f"There is no metric of kind {kind}; register_metric() adds one. There are {known}.")
    return REC_METRICS_MAPPING[kind]


def _tasks(kind: RecMetricEnumBase, definition: RecMetricDef, config: MetricsConfig) -> list[RecTaskInfo]:
    if bool(definition.rec_tasks) == bool(definition.rec_task_indices):
        both = "both are given" if definition.rec_tasks else "neither is"
        raise OptionError(f"The definition of {kind} takes either rec_tasks or rec_task_indices; {both}.")
    return definition.rec_tasks or [config.rec_tasks[at] for at in definition.rec_task_indices]


def _generate_state_metrics(
    config: MetricsConfig, state_metrics_mapping: Mapping[StateMetricEnum, StateMetric]
) -> dict[str, StateMetric]:
    found = {}
    for kind in config.state_metrics:
        namespace = STATE_METRICS_NAMESPACE_MAPPING[kind]
        found[compose_metric_namespace(namespace, str(namespace))] = state_metrics_mapping[kind]
    return found


def generate_metric_module(
    metric_class: type[Module],
    metrics_config: MetricsConfig,
    batch_size: int,
    world_size: int,
    my_rank: int,
    state_metrics_mapping: dict[StateMetricEnum, StateMetric],
    device: torch.device,
    process_group: dist.ProcessGroup | None = None,
    batch_size_stages: list[BatchSizeStage] | None = None,
    module_kwargs: dict[str, Any] | None = None,
) -> Module:
    """Build a metric module from a configuration.

    Args:
        metric_class: `RecMetricModule`, or a class derived from it.
        metrics_config: what is to be measured.
        batch_size: examples of a batch on each rank.
        world_size: how many ranks take part.
        my_rank: of this process.
        state_metrics_mapping: who reports the values that `metrics_config.state_metrics` names.
        device: where states are kept.
        process_group: the ranks; all by default.
        batch_size_stages: a schedule of batch sizes.
        module_kwargs: further arguments of `metric_class`.

    Raises:
        ValueError: a metric has no tasks, or they are given twice; the stages do not fit together.
        KeyError: there is no metric of a kind, or nobody reports a kind of values.

    Example:
        >>> from flambeau.rec.metrics.metrics_config import DefaultMetricsConfig
        >>> module = generate_metric_module(
        ...     RecMetricModule, DefaultMetricsConfig, batch_size=2, world_size=1, my_rank=0,
        ...     state_metrics_mapping={}, device=torch.device("cpu"),
        ... )
        >>> module.update({"label": torch.tensor([1.0, 0.0]), "prediction": torch.tensor([0.5, 0.5]),
        ...                "weight": torch.tensor([1.0, 1.0])})
        >>> module.compute()["ne-DefaultTask|lifetime_ne"]
        tensor([1.], dtype=torch.float64)
    """
    validate_batch_size_stages(batch_size_stages)
    rec_metrics = _generate_rec_metrics(
        metrics_config, world_size, my_rank, batch_size, process_group, batch_size_stages
    )
    throughput = None
    if metrics_config.throughput_metric is not None:
        throughput = ThroughputMetric(
            batch_size=batch_size,
            world_size=world_size,
            window_seconds=metrics_config.throughput_metric.window_size,
            warmup_steps=metrics_config.throughput_metric.warmup_steps,
            batch_size_stages=batch_size_stages,
        )
    module = metric_class(
        batch_size=batch_size,
        world_size=world_size,
        rec_tasks=metrics_config.rec_tasks,
        rec_metrics=rec_metrics,
        throughput_metric=throughput,
        state_metrics=_generate_state_metrics(metrics_config, state_metrics_mapping),
        compute_interval_steps=metrics_config.compute_interval_steps,
        min_compute_interval=metrics_config.min_compute_interval,
        max_compute_interval=metrics_config.max_compute_interval,
        **(module_kwargs or {}),
    )
    return module.to(device)
