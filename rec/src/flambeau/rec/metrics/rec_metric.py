"""Metrics of all tasks: what a batch of each goes to, and what is reported under which key."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.metrics._computation import (
    MAX_BUFFER_COUNT,
    MetricComputationReport,
    RecMetricComputation,
    WindowBuffer,
)
from flambeau.rec.metrics._errors import InputError, RecMetricException
from flambeau.rec.metrics.metrics_config import RecComputeMode, RecTaskInfo
from flambeau.rec.metrics.metrics_namespace import MetricNameBase, MetricNamespaceBase, compose_metric_key

__all__ = [
    "MAX_BUFFER_COUNT",
    "MetricComputationReport",
    "RecMetric",
    "RecMetricComputation",
    "RecMetricException",
    "RecMetricList",
    "RecModelOutput",
    "WindowBuffer",
]

RecModelOutput = Tensor | dict[str, Tensor]
"""(tasks, examples), or a tensor of each task by its name."""

_FUSED = (RecComputeMode.FUSED_TASKS_COMPUTATION, RecComputeMode.FUSED_TASKS_AND_STATES_COMPUTATION)
_ValueIterator = Iterator[tuple[RecTaskInfo, MetricNameBase, Any, str, str | None]]


class RecMetric(nn.Module, ABC):
    """A metric of one or more tasks.

    Subclasses say which computation it is, and what the keys of its values begin with::

        class MyMetric(RecMetric):
            _namespace = MyNamespace.MINE
            _computation_class = MyComputation

    Args:
        world_size: how many ranks take part.
        my_rank: of this process.
        batch_size: examples of a batch on each rank.
        tasks: what is predicted.
        compute_mode: how the tasks are computed.
        window_size: examples of all ranks together that window values are of.
        fused_update_limit: batches that are joined before the metric sees them; 0 joins none. Saves time on
            accelerators.
        compute_on_all_ranks: every rank gets the values, not only rank 0.
        should_validate_update: leave out batches whose weights are all zero.
        process_group: the ranks; all by default.
        kwargs: options of the computation; `should_clone_update_inputs` and `enable_pt2_compile`, see `MetricsConfig`.

    Raises:
        ValueError: the window is smaller than a batch, or batches of fused tasks are to be joined.
    """

    _computation_class: type[RecMetricComputation]
    _namespace: MetricNamespaceBase

    LABELS: str = "labels"
    PREDICTIONS: str = "predictions"
    WEIGHTS: str = "weights"

    def __init__(
        self,
        world_size: int,
        my_rank: int,
        batch_size: int,
        tasks: list[RecTaskInfo],
        compute_mode: RecComputeMode = RecComputeMode.UNFUSED_TASKS_COMPUTATION,
        window_size: int = 100,
        fused_update_limit: int = 0,
        compute_on_all_ranks: bool = False,
        should_validate_update: bool = False,
        process_group: dist.ProcessGroup | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        fused = compute_mode in _FUSED
        if fused and fused_update_limit > 0:
            raise OptionError(
                f"fused_update_limit is {fused_update_limit}, but batches of fused tasks are not joined; set it "
                f"to 0, or "
                f"compute_mode to UNFUSED_TASKS_COMPUTATION."
            )
        local_window = math.ceil(window_size / world_size)
        if local_window < batch_size:
            raise OptionError(
                f"window_size is {window_size}, {local_window} on each of {world_size} ranks, which is less than the "
                f"batch_size {batch_size}; give {batch_size * world_size} or more."
            )
        self._should_clone_update_inputs = bool(kwargs.pop("should_clone_update_inputs", False))
        self._world_size = world_size
        self._my_rank = my_rank
        self._batch_size = batch_size
        self._tasks = tasks
        self._compute_mode = compute_mode
        self._is_fused = fused
        self._window_size = local_window
        self._fused_update_limit = fused_update_limit
        self._should_validate_update = should_validate_update
        self._options = kwargs
        self._required_inputs: set[str] = set()
        self._update_buffers: list[dict[str, Any]] = []
        self._metrics_computations = nn.ModuleList()
        for group in [tasks] if fused else [[task] for task in tasks]:
            about: Any = group if fused else group[0]
            options = {
                "fused_update_limit": fused_update_limit,
                "enable_pt2_compile": False,
                **kwargs,
                **self._get_task_kwargs(about),
            }
            self._metrics_computations.append(
                self._computation_class(
                    my_rank=my_rank,
                    batch_size=batch_size,
                    n_tasks=len(group),
                    window_size=local_window,
                    compute_on_all_ranks=compute_on_all_ranks,
                    should_validate_update=should_validate_update,
                    compute_mode=compute_mode,
                    process_group=process_group,
                    **options,
                )
            )
            self._required_inputs |= set(self._get_task_required_inputs(about))

    def _get_task_kwargs(self, task_config: RecTaskInfo | list[RecTaskInfo]) -> dict[str, Any]:
        """Options of the computation that depend on its task, or on all of them where they are fused."""
        return {}

    def _get_task_required_inputs(self, task_config: RecTaskInfo | list[RecTaskInfo]) -> set[str]:
        """Keys of the model's outputs that the metric needs beside labels, predictions and weights."""
        return set()

    @property
    def _computations(self) -> list[RecMetricComputation]:
        return cast("list[RecMetricComputation]", list(self._metrics_computations))

    def get_required_inputs(self) -> set[str]:
        """Keys of the model's outputs that the metric needs beside labels, predictions and weights."""
        return self._required_inputs

    def update(
        self, *, predictions: RecModelOutput, labels: RecModelOutput, weights: RecModelOutput | None, **kwargs: Any
    ) -> None:
        """Take a batch of each task in.

        Args:
            predictions: (examples,) of each task by its name; tasks may be missing, and have different numbers of
                examples. Of fused tasks, which cannot, also (tasks, examples).
            labels: likewise.
            weights: likewise; None is 1 for all.
            kwargs: `required_inputs`, further inputs by name, and what else the metric takes.

        Raises:
            InputError: they do not fit together.
            KeyError: a task has predictions, but no labels or weights.
        """
        with torch.no_grad():
            if self._should_clone_update_inputs:
                predictions, labels, weights, kwargs = self.clone_update_inputs(predictions, labels, weights, **kwargs)
            batch = {"predictions": predictions, "labels": labels, "weights": weights, **kwargs}
            if self._fused_update_limit > 0:
                self._update_buffers.append(self._by_task(batch))
                self._check_fused_update(force=False)
            else:
                self._update(**batch)

    def clone_update_inputs(
        self, predictions: RecModelOutput, labels: RecModelOutput, weights: RecModelOutput | None, **kwargs: Any
    ) -> tuple[RecModelOutput, RecModelOutput, RecModelOutput | None, dict[str, Any]]:
        """Copies of what `update` is given, for inputs whose memory is used again.

        Returns:
            predictions, labels, weights, and the further arguments.
        """
        return _cloned(predictions), _cloned(labels), _cloned(weights), _cloned(kwargs)

    def _update(self, **batch: Any) -> None:
        if self._is_fused:
            self._update_fused(**batch)
            return
        for task, computation in zip(self._tasks, self._computations, strict=True):
            self._update_task(task, computation, **batch)

    def _update_fused(
        self, *, predictions: RecModelOutput, labels: RecModelOutput, weights: RecModelOutput | None, **kwargs: Any
    ) -> None:
        scores, truths = self._stacked(predictions, "predictions"), self._stacked(labels, "labels")
        tasks = len(self._tasks)
        if scores.ndim < 3:
            scores = scores.reshape(tasks, -1)
        truths = truths.reshape(tasks, -1) if truths.ndim < 3 else truths
        loads = torch.ones_like(_examples(scores, truths)) if weights is None else self._stacked(weights, "weights")
        loads = loads.reshape(tasks, -1)
        self._check_examples(", ".join(task.name for task in self._tasks), scores, truths, loads)
        computation = self._computations[0]
        if self._should_validate_update:
            valid = self._check_nonempty_weights(loads)
            if not valid.any():
                return
            computation.has_valid_update.logical_or_(valid)  # type: ignore[operator]
        computation.update(predictions=scores, labels=truths, weights=loads, **kwargs)

    def _update_task(
        self,
        task: RecTaskInfo,
        computation: RecMetricComputation,
        *,
        predictions: RecModelOutput,
        labels: RecModelOutput,
        weights: RecModelOutput | None,
        **kwargs: Any,
    ) -> None:
        if isinstance(predictions, Tensor) or isinstance(labels, Tensor) or isinstance(weights, Tensor):
            raise InputError(
                f"The tasks of {type(self).__name__} are not fused, so predictions, labels and weights must be tensors "
                f"by the tasks' names, not one tensor; or set compute_mode to FUSED_TASKS_COMPUTATION."
            )
        if task.name not in predictions:
            return
        scores, truths = predictions[task.name], labels[task.name]
        loads = None if weights is None else weights[task.name]
        if scores.numel() == 0:
            if truths.numel() or (loads is not None and loads.numel()):
                raise InputError(f"Task {task.name!r} has labels or weights, but its predictions are empty.")
            return
        # Of several classes there is a prediction for each.
        scores = scores.reshape(1, -1) if truths.ndim == scores.ndim else scores.reshape(1, -1, scores.shape[-1])
        truths = truths.reshape(1, -1)
        loads = torch.ones_like(_examples(scores, truths)) if loads is None else loads.reshape(1, -1)
        self._check_examples(task.name, scores, truths, loads)
        if self._should_validate_update:
            valid = self._check_nonempty_weights(loads)
            if not valid.any():
                return
            computation.has_valid_update.logical_or_(valid)  # type: ignore[operator]
        if "required_inputs" in kwargs:
            kwargs["required_inputs"] = {
                name: self._task_input(name, value, truths) for name, value in kwargs["required_inputs"].items()
            }
        computation.update(predictions=scores, labels=truths, weights=loads, **kwargs)

    def _task_input(self, name: str, value: Tensor, labels: Tensor) -> Tensor:
        if value.numel() != labels.numel():
            raise InputError(
                f"required_inputs[{name!r}] has {value.numel()} elements, but there are {labels.numel()} labels; give "
                f"one for each example."
            )
        return value.reshape(labels.shape)

    def _check_examples(self, task: str, predictions: Tensor, labels: Tensor, weights: Tensor) -> None:
        """The same number of examples of each, unless the metric knows what to do with others."""

    def _stacked(self, values: RecModelOutput, name: str) -> Tensor:
        if isinstance(values, Tensor):
            return values
        sizes = {task.name: tuple(values[task.name].shape) for task in self._tasks}
        if len(set(sizes.values())) > 1:
            raise InputError(
                f"{name} of fused tasks must be of one shape, but they are {sizes}; set compute_mode to "
                f"UNFUSED_TASKS_COMPUTATION."
            )
        return torch.stack([values[task.name] for task in self._tasks])

    def _check_nonempty_weights(self, weights: Tensor) -> Tensor:
        """Which tasks have any weight, (tasks,), bool."""
        return weights.count_nonzero(dim=-1) > 0

    def _by_task(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A batch with weights for all tasks, so that it can be joined with others."""
        if batch["weights"] is None:
            labels, scores = batch["labels"], batch["predictions"]
            batch["weights"] = {name: torch.ones_like(_examples(scores[name], labels[name])) for name in scores}
        return batch

    def _check_fused_update(self, force: bool) -> None:
        """Take the waiting batches in as one, if they are as many as are joined, or by force."""
        waiting = self._update_buffers
        if not waiting or (len(waiting) < self._fused_update_limit and not force):
            return
        self._update_buffers = []
        self._update(**_joined(waiting))

    def _unfused_tasks_iter(self, compute_scope: str) -> _ValueIterator:
        for task, computation in zip(self._tasks, self._computations, strict=True):
            computation.pre_compute()
            valid = not self._should_validate_update or bool(computation.has_valid_update)
            for report in getattr(computation, f"{compute_scope}compute")():
                value = report.value if valid else torch.zeros_like(report.value)
                yield task, report.name, value, f"{compute_scope}{report.metric_prefix}", report.description

    def _fused_tasks_iter(self, compute_scope: str) -> _ValueIterator:
        computation = self._computations[0]
        computation.pre_compute()
        for report in getattr(computation, f"{compute_scope}compute")():
            for at, task in enumerate(self._tasks):
                value = report.value[at]
                if self._should_validate_update and not bool(computation.has_valid_update[at]):  # type: ignore[index]
                    value = torch.zeros_like(value)
                yield task, report.name, value, f"{compute_scope}{report.metric_prefix}", report.description

    def _values(self, compute_scope: str) -> dict[str, Any]:
        self._check_fused_update(force=True)
        tasks = self._fused_tasks_iter if self._is_fused else self._unfused_tasks_iter
        with torch.no_grad():
            return {
                compose_metric_key(self._namespace, task.name, name, cast("Any", prefix), description): value
                for task, name, value, prefix, description in tasks(compute_scope)
            }

    def compute(self) -> dict[str, Any]:
        """The values of all ranks' examples by key; none on ranks that do not compute."""
        return self._values("")

    def local_compute(self) -> dict[str, Any]:
        """The values of this rank's examples by key, whose names begin with `local_`."""
        return self._values("local_")

    def sync(self) -> None:
        """Replace the states by those of all ranks together, until `unsync`."""
        self._check_fused_update(force=True)
        for computation in self._computations:
            computation.sync()

    def unsync(self) -> None:
        """Take back the states of this rank, if they were replaced."""
        for computation in self._computations:
            if computation._is_synced:
                computation.unsync()

    def reset(self) -> None:
        """Forget all examples."""
        self._update_buffers = []
        for computation in self._computations:
            computation.reset()

    def get_memory_usage(self) -> dict[Tensor, int]:
        """Bytes of every tensor that is kept: states, what windows remember, and batches that wait to be joined."""
        found: list[Any] = [self._update_buffers]
        for computation in self._computations:
            found += [list(computation.metric_state.values()), list(computation._defaults.values())]
            found += [list(buffer.buffers) for buffer in (computation._batch_window_buffers or {}).values()]
        return {one: one.numel() * one.element_size() for one in _tensors(found)}

    def state_dict(  # type: ignore[override]
        self, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """The persistent states, after batches that wait were taken in."""
        self._check_fused_update(force=True)
        return cast("dict[str, Any]", super().state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars))  # type: ignore[type-var]


class RecMetricList(nn.Module):
    """Several metrics, used as one.

    Args:
        rec_metrics: the metrics.
    """

    rec_metrics: nn.ModuleList

    def __init__(self, rec_metrics: list[RecMetric]) -> None:
        super().__init__()
        self.rec_metrics = nn.ModuleList(rec_metrics)
        required = {name for metric in rec_metrics for name in metric.get_required_inputs()}
        self.required_inputs: list[str] | None = sorted(required) or None

    def __len__(self) -> int:
        return len(self.rec_metrics)

    def __getitem__(self, index: int) -> nn.Module:
        return self.rec_metrics[index]

    def __iter__(self) -> Iterator[RecMetric]:
        return iter(cast("Any", self.rec_metrics))

    def get_required_inputs(self) -> list[str] | None:
        """Keys of the model's outputs that any of the metrics needs; None where none does."""
        return self.required_inputs

    def update(
        self, *, predictions: RecModelOutput, labels: RecModelOutput, weights: RecModelOutput | None, **kwargs: Any
    ) -> None:
        """Take a batch of each task into every metric; see `RecMetric.update`."""
        for metric in self:
            metric.update(predictions=predictions, labels=labels, weights=weights, **kwargs)

    def compute(self) -> dict[str, Any]:
        """The values of all metrics by key."""
        return {key: value for metric in self for key, value in metric.compute().items()}

    def local_compute(self) -> dict[str, Any]:
        """The values of this rank's examples by key."""
        return {key: value for metric in self for key, value in metric.local_compute().items()}

    def sync(self) -> None:
        """Replace the states by those of all ranks together, until `unsync`."""
        for metric in self:
            metric.sync()

    def unsync(self) -> None:
        """Take back the states of this rank."""
        for metric in self:
            metric.unsync()

    def reset(self) -> None:
        """Forget all examples."""
        for metric in self:
            metric.reset()


def _examples(predictions: Tensor, labels: Tensor) -> Tensor:
    """Something of one element an example, of the predictions' dtype."""
    return predictions if predictions.ndim == labels.ndim else predictions[..., 0]


def _cloned(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    return {name: _cloned(one) for name, one in value.items()} if isinstance(value, dict) else value


def _joined(batches: list[dict[str, Any]]) -> dict[str, Any]:
    """Several batches as one, task by task; of other arguments than tensors the latest."""
    joined = dict(batches[-1])
    for name, value in joined.items():
        parts = [batch[name] for batch in batches if batch.get(name) is not None]
        if isinstance(value, dict):
            keys = dict.fromkeys(key for part in parts for key in part)
            joined[name] = {key: torch.cat([part[key] for part in parts if key in part]) for key in keys}
        elif isinstance(value, Tensor):
            joined[name] = torch.cat(parts)
    return joined


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from _tensors(list(value.values()))
    elif isinstance(value, list):
        for one in value:
            yield from _tensors(one)
