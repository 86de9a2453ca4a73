"""One metric of one task, or of several at once: states over all examples and over a window of the latest ones."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor

from flambeau.rec.metrics._errors import InputError, RecMetricException
from flambeau.rec.metrics._states import Metric
from flambeau.rec.metrics.metrics_config import RecComputeMode
from flambeau.rec.metrics.metrics_namespace import MetricNameBase, MetricPrefix

__all__ = ["MAX_BUFFER_COUNT", "MetricComputationReport", "RecMetricComputation", "SummedComputation", "WindowBuffer"]

MAX_BUFFER_COUNT = 1000
"""Updates that a window remembers at most, one by one."""

WINDOW = "window_"


@dataclass
class MetricComputationReport:
    """A value of a metric.

    Attributes:
        name: of the value.
        metric_prefix: what it is of.
        value: (tasks, ...), or one value of all.
        description: goes to the end of its key.
    """

    name: MetricNameBase
    metric_prefix: MetricPrefix
    value: Any
    description: str | None = None


class WindowBuffer:
    """Contributions to a sum over the latest examples.

    Args:
        max_size: examples that the window holds at most.
        max_buffer_count: contributions that it holds at most.
    """

    def __init__(self, max_size: int, max_buffer_count: int) -> None:
        self._max_size = max_size
        self._max_buffer_count = max_buffer_count
        self._buffers: deque[Tensor] = deque()
        self._used_sizes: deque[int] = deque()
        self._window_used_size = 0

    def aggregate_state(self, window_state: Tensor, curr_state: Tensor, size: int) -> None:
        """Add a contribution to a window's sum in place, and take those that are too old off it.

        Args:
            window_state: the sum.
            curr_state: of its shape.
            size: examples that the contribution is of.
        """
        expired = self.push(curr_state, size)
        window_state += curr_state
        for one in expired:
            window_state -= one

    def push(self, state: Tensor, size: int) -> list[Tensor]:
        """Remember a contribution, and give those that are too old now."""
        expired = []
        if len(self._buffers) >= self._max_buffer_count:
            expired.append(self._drop())
        self._buffers.append(state)
        self._used_sizes.append(size)
        self._window_used_size += size
        while self._window_used_size > self._max_size:
            expired.append(self._drop())
        return expired

    @property
    def buffers(self) -> deque[Tensor]:
        """The contributions, oldest first."""
        return self._buffers

    def _drop(self) -> Tensor:
        self._window_used_size -= self._used_sizes.popleft()
        return self._buffers.popleft()


class RecMetricComputation(Metric):
    """States and formula of a metric; derive from it, and from `RecMetric`, to add one of your own.

    A subclass adds its states by `_add_state`, takes batches in by `update`, and gives its values by `_compute`.

    Args:
        my_rank: of this process.
        batch_size: examples of a batch.
        n_tasks: tasks computed at once, rows of the states.
        window_size: examples of this rank that window values are of.
        compute_on_all_ranks: every rank computes, not only rank 0.
        should_validate_update: batches without weight are left out, and which tasks had any other is remembered.
        compute_mode: see `RecComputeMode`.
        process_group: the ranks; all by default.
        fused_update_limit: batches that are joined before the metric sees them.
        allow_missing_label_with_zero_weight: labels of examples without weight may be missing.
        args: not used.
        kwargs: options of `Metric`.
    """

    def __init__(
        self,
        my_rank: int,
        batch_size: int,
        n_tasks: int,
        window_size: int,
        compute_on_all_ranks: bool = False,
        should_validate_update: bool = False,
        compute_mode: RecComputeMode = RecComputeMode.UNFUSED_TASKS_COMPUTATION,
        process_group: dist.ProcessGroup | None = None,
        fused_update_limit: int = 0,
        allow_missing_label_with_zero_weight: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        compiles = bool(kwargs.pop("enable_pt2_compile", False))
        super().__init__(process_group=process_group, **kwargs)
        self._enable_pt2_compile = compiles
        self._compiled: dict[str, Callable[..., Any]] = {}
        self._my_rank = my_rank
        self._n_tasks = n_tasks
        self._batch_size = batch_size
        self._window_size = window_size
        self._compute_on_all_ranks = compute_on_all_ranks
        self._should_validate_update = should_validate_update
        self._compute_mode = compute_mode
        self._fused_update_limit = fused_update_limit
        self._allow_missing_label_with_zero_weight = allow_missing_label_with_zero_weight
        self._batch_window_buffers: dict[str, WindowBuffer] | None = {} if window_size > 0 else None
        if should_validate_update:
            self._add_state(
                "has_valid_update",
                torch.zeros(n_tasks, dtype=torch.uint8),
                add_window_state=False,
                dist_reduce_fx=_any,
                persistent=True,
            )

    @staticmethod
    def get_window_state_name(state_name: str) -> str:
        """Name of the state that holds the window's part of another."""
        return f"{WINDOW}{state_name}"

    def get_window_state(self, state_name: str) -> Tensor:
        """The window's part of a state."""
        return cast("Tensor", getattr(self, self.get_window_state_name(state_name)))

    def _add_state(self, name: str, default: Any, add_window_state: bool, **kwargs: Any) -> None:
        """Add a state, and one for its window.

        Args:
            name: of the state.
            default: see `Metric.add_state`.
            add_window_state: whether there is to be one for the window.
            kwargs: see `Metric.add_state`.

        Raises:
            RecMetricException: a window is wanted of a metric without.
        """
        self.add_state(name, default, **kwargs)
        if not add_window_state:
            return
        if self._batch_window_buffers is None:
            raise InputError(
                f"State {name!r} wants a window, but window_size is {self._window_size}; give one above 0."
            )
        window = self.get_window_state_name(name)
        # What a window remembers is not saved, so its sum is none to go on from either.
        self.add_state(window, default, **{**kwargs, "persistent": False})
        self._batch_window_buffers[window] = WindowBuffer(self._window_size, MAX_BUFFER_COUNT)

    def _aggregate_window_state(self, state_name: str, state: Tensor, num_samples: int) -> None:
        """Add a batch's contribution to a window's state.

        Args:
            state_name: of the state that the window is of.
            state: the contribution.
            num_samples: examples that it is of.

        Raises:
            RecMetricException: the metric has no window.
        """
        window = self.get_window_state_name(state_name)
        if self._batch_window_buffers is None:
            raise InputError(f"{type(self).__name__} has no window for {state_name!r}: window_size is 0.")
        self._batch_window_buffers[window].aggregate_state(getattr(self, window), state, num_samples)

    def _aggregate(self, contributions: Mapping[str, Tensor], num_samples: int) -> None:
        """Add a batch's contributions to states and their windows, all of them in few operations.

        Args:
            contributions: of the states' shapes, by their names; they are kept.
            num_samples: examples of the batch.
        """
        buffers = self._batch_window_buffers or {}
        totals, parts, windows, olds = [], [], [], []
        for name, part in contributions.items():
            totals.append(getattr(self, name))
            parts.append(part)
            buffer = buffers.get(window := self.get_window_state_name(name))
            if buffer is not None:
                state = getattr(self, window)
                totals.append(state)
                parts.append(part)
                for old in buffer.push(part, num_samples):
                    windows.append(state)
                    olds.append(old)
        torch._foreach_add_(totals, parts)
        # One state may lose several contributions, so they cannot go in one call.
        for state, old in zip(windows, olds, strict=True):
            state -= old

    def _maybe_compile(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The function, compiled where `enable_pt2_compile` asks for it."""
        if not self._enable_pt2_compile:
            return fn
        name = getattr(fn, "__qualname__", repr(fn))
        if name not in self._compiled:
            self._compiled[name] = torch.compile(fn)
        return self._compiled[name]

    @abstractmethod
    def update(self, *, predictions: Tensor | None, labels: Tensor, weights: Tensor | None, **kwargs: Any) -> None:
        """Take a batch into the states.

        Args:
            predictions: (tasks, examples).
            labels: (tasks, examples).
            weights: (tasks, examples).
            kwargs: `required_inputs`, further inputs by name.

        Raises:
            RecMetricException: the metric needs an input that is None.
        """

    @abstractmethod
    def _compute(self) -> list[MetricComputationReport]:
        """The values of the states as they are."""

    def pre_compute(self) -> None:
        """Called before states are reduced over ranks and values are computed; for states that need preparing."""

    def compute(self) -> list[MetricComputationReport]:
        """The values of all ranks' states; none where this rank does not compute."""
        if self._my_rank == 0 or self._compute_on_all_ranks:
            return self._compute()
        return []

    def local_compute(self) -> list[MetricComputationReport]:
        """The values of this rank's states."""
        return self._compute()

    def reset(self) -> None:
        """Forget all examples."""
        super().reset()
        if self._batch_window_buffers is not None:
            self._batch_window_buffers = {
                name: WindowBuffer(self._window_size, MAX_BUFFER_COUNT) for name in self._batch_window_buffers
            }

    def _given(self, **inputs: Tensor | None) -> None:
        """Say which inputs an update lacks.

        Raises:
            RecMetricException: one of them is None.
        """
        missing = [name for name, value in inputs.items() if value is None]
        if missing:
            raise RecMetricException(
                f"{type(self).__name__}.update() needs {' and '.join(missing)}, but got None; name the key of the "
                f"model's outputs in the task, or pass a tensor."
            )


class SummedComputation(RecMetricComputation):
    """A metric whose states are sums over examples, and whose values are formulas of them.

    `STATES` names the sums. `contributions` gives a batch's part of each; `values` a value from them, of all examples
    or
    of the window.
    """

    STATES: tuple[str, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in self.STATES:
            self._add_sum(name)

    def _add_sum(self, name: str, *shape: int, add_window_state: bool = True) -> None:
        """Add a sum of float64, (tasks, *shape)."""
        self._add_state(
            name,
            torch.zeros((self._n_tasks, *shape), dtype=torch.float64),
            add_window_state=add_window_state,
            dist_reduce_fx="sum",
            persistent=True,
        )

    def contributions(self, predictions: Any, labels: Any, weights: Any, **kwargs: Any) -> dict[str, Tensor]:
        """A batch's part of each sum.

        Args:
            predictions: (tasks, examples).
            labels: (tasks, examples).
            weights: (tasks, examples).
            kwargs: what else `update` was given.
        """
        raise TypeError(f"{type(self).__name__} has no contributions(); define it, or update().")

    def values(self, sums: Mapping[str, Tensor]) -> list[tuple[MetricNameBase, Tensor]]:
        """The values of sums, by the names in `STATES`, with their own names."""
        raise TypeError(f"{type(self).__name__} has no values(); define it, or _compute().")

    def update(self, *, predictions: Tensor | None, labels: Tensor, weights: Tensor | None, **kwargs: Any) -> None:
        """Add a batch to the sums; see `RecMetricComputation.update`."""
        self._given(predictions=predictions, weights=weights)
        examples = cast("Tensor", predictions).shape[-1]
        contributions = self._maybe_compile(self.contributions)
        self._aggregate(contributions(predictions, labels, weights, **kwargs), examples)

    def _sums(self, prefix: MetricPrefix) -> dict[str, Tensor]:
        if prefix is MetricPrefix.WINDOW:
            return {name: self.get_window_state(name) for name in self.STATES}
        return {name: getattr(self, name) for name in self.STATES}

    def _compute(self) -> list[MetricComputationReport]:
        return [
            MetricComputationReport(name=name, metric_prefix=prefix, value=value)
            for prefix in (MetricPrefix.LIFETIME, MetricPrefix.WINDOW)
            for name, value in self.values(self._sums(prefix))
        ]


def _any(states: Tensor) -> Tensor:
    return states.any(0).to(torch.uint8)
