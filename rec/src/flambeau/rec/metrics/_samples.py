"""Metrics of the latest examples themselves, which no sums of them can tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from flambeau.rec.metrics._computation import RecMetricComputation
from flambeau.rec.metrics._errors import InputError
from flambeau.rec.metrics.metrics_config import RecTaskInfo
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = [
    "GROUPING_KEYS",
    "LABELS",
    "PREDICTIONS",
    "REQUIRED_INPUTS",
    "WEIGHTS",
    "SampleComputation",
    "SampleMetric",
    "joined",
    "mean_over_groups",
]

PREDICTIONS = "predictions"
LABELS = "labels"
WEIGHTS = "weights"
GROUPING_KEYS = "grouping_keys"
REQUIRED_INPUTS = "required_inputs"


def joined(parts: Sequence[Tensor] | Tensor, n_tasks: int) -> Tensor:
    """Parts of (tasks, examples) as one tensor; no parts are no examples."""
    if isinstance(parts, Tensor):
        return parts
    if not parts:
        return torch.zeros(n_tasks, 0)
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=-1)


def mean_over_groups(
    formula: Callable[..., Tensor],
    n_tasks: int,
    predictions: Sequence[Tensor] | Tensor,
    labels: Sequence[Tensor] | Tensor,
    weights: Sequence[Tensor] | Tensor,
    grouping_keys: Tensor,
) -> Tensor:
    """The mean over groups of a formula of their examples, each group counting as much; 0.5 without groups.

    Args:
        formula: of n_tasks, and parts of predictions, labels and weights; gives (tasks,).
        n_tasks: number of tasks.
        predictions: parts of (tasks, examples).
        labels: likewise.
        weights: likewise.
        grouping_keys: (examples,).
    """
    if grouping_keys.numel() == 0:
        return torch.full((n_tasks,), 0.5, device=grouping_keys.device)
    # Sorted once, the examples of a group are neighbours, so that a group costs no pass over all examples.
    order = grouping_keys.argsort(stable=True)
    sizes = grouping_keys[order].unique_consecutive(return_counts=True)[1].tolist()
    columns = [joined(parts, n_tasks)[:, order].split(sizes, dim=-1) for parts in (predictions, labels, weights)]
    values = [formula(n_tasks, [p], [y], [w]) for p, y, w in zip(*columns, strict=True)]
    return torch.stack(values).mean(0)


def _all_ranks(parts: Any) -> list[Tensor]:
    return [torch.cat(parts, dim=-1)]


class SampleComputation(RecMetricComputation):
    """Predictions, labels and weights of the latest examples, as lists of (tasks, examples), float32.

    Args:
        args: see `RecMetricComputation`.
        grouped: keep the group of each example too, `required_inputs["grouping_keys"]`.
        kwargs: see `RecMetricComputation`.
    """

    def __init__(self, *args: Any, grouped: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._grouped = grouped
        self._names = (PREDICTIONS, LABELS, WEIGHTS, *([GROUPING_KEYS] if grouped else []))
        self._num_samples = 0
        for name in self._names:
            self._add_state(name, [], add_window_state=False, dist_reduce_fx=_all_ranks, persistent=False)

    def update(self, *, predictions: Tensor | None, labels: Tensor, weights: Tensor | None, **kwargs: Any) -> None:
        """Keep a batch, and forget the oldest examples beyond the window; see `RecMetricComputation.update`."""
        self._given(predictions=predictions, weights=weights)
        batch = {
            PREDICTIONS: cast("Tensor", predictions).float(),
            LABELS: labels.float(),
            WEIGHTS: cast("Tensor", weights).float(),
        }
        if self._grouped:
            batch[GROUPING_KEYS] = self._groups(labels.shape[-1], **kwargs)
        self._keep(batch)

    def _groups(self, examples: int, required_inputs: Mapping[str, Tensor] | None = None, **kwargs: Any) -> Tensor:
        if required_inputs is None or GROUPING_KEYS not in required_inputs:
            raise InputError(
                f"{type(self).__name__} averages over groups, but required_inputs has no {GROUPING_KEYS!r}; the "
                f"model's "
                f"outputs must have this key."
            )
        keys = required_inputs[GROUPING_KEYS]
        # Of fused tasks there may be a row for each, all alike.
        keys = keys.reshape(-1, examples)[0] if keys.numel() % max(examples, 1) == 0 and examples else keys.reshape(-1)
        if keys.numel() != examples:
            raise InputError(
                f"{GROUPING_KEYS!r} has {keys.numel()} elements for {examples} examples; give one for each."
            )
        return keys

    def _samples(self, name: str) -> Tensor:
        """All examples' values of one kind, (tasks, examples), and (examples,) of the groups."""
        parts = cast("list[Tensor]", getattr(self, name))
        if not parts and name == GROUPING_KEYS:
            return torch.zeros(0, dtype=torch.int64)
        return joined(parts, self._n_tasks)

    def _examples(self) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        return [self._samples(PREDICTIONS)], [self._samples(LABELS)], [self._samples(WEIGHTS)]

    def _keep(self, batch: Mapping[str, Tensor]) -> None:
        for name in self._names:
            getattr(self, name).append(batch[name][..., -self._window_size :])
        self._num_samples += min(batch[PREDICTIONS].shape[-1], self._window_size)
        surplus = self._num_samples - self._window_size
        if surplus > 0:
            for name in self._names:
                _drop(getattr(self, name), surplus)
            self._num_samples = self._window_size

    def reset(self) -> None:
        """Forget all examples."""
        super().reset()
        self._num_samples = 0


class SampleMetric(RecMetric):
    """A metric of the latest examples, over groups if an option says so."""

    _grouping_option: str

    def _get_task_required_inputs(self, task_config: RecTaskInfo | list[RecTaskInfo]) -> set[str]:
        return {GROUPING_KEYS} if self._options.get(self._grouping_option) else set()


def _drop(parts: list[Tensor], count: int) -> None:
    """Remove the oldest examples in place."""
    while count:
        size = parts[0].shape[-1]
        if size > count:
            parts[0] = parts[0][..., count:]
            return
        count -= size
        parts.pop(0)
