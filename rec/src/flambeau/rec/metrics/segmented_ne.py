"""Normalized entropy of groups of examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.metrics._computation import MetricComputationReport, RecMetricComputation
from flambeau.rec.metrics._errors import InputError, RecMetricException
from flambeau.rec.metrics._ratios import ETA, cross_entropy, entropy
from flambeau.rec.metrics.metrics_config import RecTaskInfo
from flambeau.rec.metrics.metrics_namespace import MetricName, MetricNameBase, MetricNamespace, MetricPrefix
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = [
    "LABELS",
    "PREDICTIONS",
    "WEIGHTS",
    "GroupingKeyConfig",
    "SegmentedNEMetric",
    "SegmentedNEMetricComputation",
    "compute_cross_entropy",
    "compute_logloss",
    "compute_ne",
    "compute_ne_fused",
    "compute_ne_helper",
    "get_segemented_ne_states",
    "get_segemented_ne_states_fused",
]

PREDICTIONS = "predictions"
LABELS = "labels"
WEIGHTS = "weights"
_SUMS = ("cross_entropy_sum", "weighted_num_samples", "pos_labels", "neg_labels")


@dataclass
class GroupingKeyConfig:
    """An input that says of each example which group it belongs to.

    Attributes:
        name: key among the required inputs.
        num_groups: groups are 0 to num_groups - 1.
        cast_keys_to_int: the input may be of floating point.
    """

    name: str
    num_groups: int = 1
    cast_keys_to_int: bool = False


def compute_cross_entropy(labels: Tensor, predictions: Tensor, weights: Tensor, eta: float) -> Tensor:
    """-w (y log2 p + (1 - y) log2(1 - p)) of each example, float64, in bits.

    Args:
        labels: (..., examples).
        predictions: (..., examples).
        weights: (..., examples).
        eta: how near to 0 and 1 predictions may come.
    """
    return cross_entropy(labels, predictions, weights, eta)


def compute_logloss(ce_sum: Tensor, pos_labels: Tensor, neg_labels: Tensor, eta: float) -> Tensor:
    """The mean cross entropy, in bits.

    Args:
        ce_sum: sums of the cross entropy.
        pos_labels: sums of the positive labels' weights.
        neg_labels: sums of the negative labels' weights.
        eta: the smallest number of examples that is divided by.
    """
    return ce_sum / (pos_labels + neg_labels).clamp(min=eta)


def compute_ne_helper(
    ce_sum: Tensor, weighted_num_samples: Tensor, pos_labels: Tensor, neg_labels: Tensor, eta: float
) -> Tensor:
    """Normalized entropy of sums of any shape, see `flambeau.rec.metrics.ne.compute_ne`."""
    mean = (pos_labels / weighted_num_samples).clamp(eta, 1 - eta)
    return ce_sum / entropy(pos_labels, neg_labels, mean)


def compute_ne(
    ce_sum: Tensor, weighted_num_samples: Tensor, pos_labels: Tensor, neg_labels: Tensor, num_groups: int, eta: float
) -> Tensor:
    """Normalized entropy of each group.

    Args:
        ce_sum: (groups,).
        weighted_num_samples: (groups,).
        pos_labels: (groups,).
        neg_labels: (groups,).
        num_groups: how many groups there are.
        eta: how near to 0 and 1 the mean label may come.

    Returns:
        (groups,), float32.
    """
    return compute_ne_helper(ce_sum, weighted_num_samples, pos_labels, neg_labels, eta).float()


def compute_ne_fused(
    ce_sum: Tensor,
    weighted_num_samples: Tensor,
    pos_labels: Tensor,
    neg_labels: Tensor,
    num_groups: int,
    n_tasks: int,
    eta: float,
) -> Tensor:
    """Normalized entropy of each group of each task, (tasks, groups), float32; arguments as of `compute_ne`."""
    return compute_ne_helper(ce_sum, weighted_num_samples, pos_labels, neg_labels, eta).float()


def get_segemented_ne_states(
    labels: Tensor, predictions: Tensor, weights: Tensor, grouping_keys: Tensor, eta: float, num_groups: int
) -> dict[str, Tensor]:
    """A batch's part of the states, of one task.

    Args:
        labels: (1, examples) or (examples,).
        predictions: likewise.
        weights: likewise.
        grouping_keys: likewise, in [0, groups).
        eta: how near to 0 and 1 predictions may come.
        num_groups: how many groups there are.

    Returns:
        (groups,), float64 each.
    """
    y, p, w = (value.reshape(1, -1) for value in (labels, predictions, weights))
    states = get_segemented_ne_states_fused(y, p, w, grouping_keys.reshape(-1), eta, num_groups, 1)
    return {name: value[0] for name, value in states.items()}


def get_segemented_ne_states_fused(
    labels: Tensor,
    predictions: Tensor,
    weights: Tensor,
    grouping_keys: Tensor,
    eta: float,
    num_groups: int,
    n_tasks: int,
) -> dict[str, Tensor]:
    """A batch's part of the states, of several tasks.

    Args:
        labels: (tasks, examples).
        predictions: (tasks, examples).
        weights: (tasks, examples).
        grouping_keys: (examples,), in [0, groups).
        eta: how near to 0 and 1 predictions may come.
        num_groups: how many groups there are.
        n_tasks: number of tasks.

    Returns:
        (tasks, groups), float64 each.

    Raises:
        InputError: a key that is no group.
    """
    examples = labels.shape[-1]
    keys = grouping_keys.long().reshape(-1 if examples else 1, examples)
    if keys.numel() and not 0 <= int(keys.min()) <= int(keys.max()) < num_groups:
        raise InputError(
            f"Grouping keys go from {int(keys.min())} to {int(keys.max())}, but num_groups is {num_groups}; raise it, "
            f"or change the keys."
        )
    parts = {
        "cross_entropy_sum": compute_cross_entropy(labels, predictions, weights, eta),
        "weighted_num_samples": weights,
        "pos_labels": weights * labels,
        "neg_labels": weights * (1.0 - labels),
    }
    index = keys.expand(n_tasks, -1)
    empty = torch.zeros(n_tasks, num_groups, dtype=torch.float64, device=labels.device)
    return {name: empty.scatter_add(-1, index, value.double()) for name, value in parts.items()}


class SegmentedNEMetricComputation(RecMetricComputation):
    """States and formulas of normalized entropy by groups.

    Args:
        args: see `RecMetricComputation`.
        include_logloss: report the mean cross entropies too.
        num_groups: how many groups there are, for keys that do not say it.
        grouping_keys: the input with the groups, or several: names, `GroupingKeyConfig`s, or dictionaries of their
            fields.
        cast_keys_to_int: the input may be of floating point, of keys that do not say it.
        kwargs: see `RecMetricComputation`.

    Raises:
        ValueError: `grouping_keys` is something else, or empty.
        KeyError: a dictionary has no name.
    """

    def __init__(
        self,
        *args: Any,
        include_logloss: bool = False,
        num_groups: int = 1,
        grouping_keys: str | list[str] | list[dict[str, Any]] | list[GroupingKeyConfig] = "grouping_keys",
        cast_keys_to_int: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._include_logloss = include_logloss
        self.eta = ETA
        self._several = not isinstance(grouping_keys, str)
        self._keys = _configs(grouping_keys, num_groups, cast_keys_to_int)
        for key in self._keys:
            default = torch.zeros((self._n_tasks, key.num_groups), dtype=torch.float64)
            for name in _SUMS:
                self._add_state(
                    self._state(key, name), default, add_window_state=True, dist_reduce_fx="sum", persistent=True
                )

    def _state(self, key: GroupingKeyConfig, name: str) -> str:
        return f"{key.name}_{name}" if self._several else name

    def update(
        self,
        *,
        predictions: Tensor | None,
        labels: Tensor,
        weights: Tensor | None,
        required_inputs: Mapping[str, Tensor] | None = None,
        **kwargs: Any,
    ) -> None:
        """See `RecMetricComputation.update`; grouping keys are (examples,) or (1, examples)."""
        self._given(predictions=predictions, weights=weights)
        for key in self._keys:
            states = get_segemented_ne_states_fused(
                labels,
                predictions,  # type: ignore[arg-type]
                weights,  # type: ignore[arg-type]
                self._groups(key, required_inputs),
                self.eta,
                key.num_groups,
                self._n_tasks,
            )
            named = {self._state(key, name): value for name, value in states.items()}
            self._aggregate(named, labels.shape[-1])

    def _groups(self, key: GroupingKeyConfig, required_inputs: Mapping[str, Tensor] | None) -> Tensor:
        if required_inputs is None or key.name not in required_inputs:
            raise RecMetricException(
                f"SegmentedNEMetricComputation needs required_inputs[{key.name!r}], the group of each example; got "
                f"{sorted(required_inputs or {})}."
            )
        groups = required_inputs[key.name]
        if groups.dtype != torch.int64 and not (key.cast_keys_to_int and groups.is_floating_point()):
            raise RecMetricException(
                f"Grouping key {key.name!r} is {groups.dtype}; expected torch.int64, or floating point with "
                f"cast_keys_to_int=True."
            )
        return groups

    def _sums(self, key: GroupingKeyConfig, prefix: MetricPrefix) -> dict[str, Tensor]:
        names = {name: self._state(key, name) for name in _SUMS}
        if prefix is MetricPrefix.WINDOW:
            return {name: self.get_window_state(state) for name, state in names.items()}
        return {name: getattr(self, state) for name, state in names.items()}

    def _compute(self) -> list[MetricComputationReport]:
        reports = []
        for key in self._keys:
            sums = {prefix: self._sums(key, prefix) for prefix in (MetricPrefix.LIFETIME, MetricPrefix.WINDOW)}
            values = {
                prefix: compute_ne_fused(*_parts(parts), key.num_groups, self._n_tasks, self.eta)
                for prefix, parts in sums.items()
            }
            reports += self._by_group(key, MetricName.SEGMENTED_NE, values)
            if self._include_logloss:
                values = {
                    prefix: compute_logloss(parts[_SUMS[0]], parts[_SUMS[2]], parts[_SUMS[3]], self.eta)
                    for prefix, parts in sums.items()
                }
                reports += self._by_group(key, MetricName.LOG_LOSS, values)
        return reports

    def _by_group(
        self, key: GroupingKeyConfig, name: MetricNameBase, values: Mapping[MetricPrefix, Tensor]
    ) -> list[MetricComputationReport]:
        single = self._compute_mode.name == "UNFUSED_TASKS_COMPUTATION"
        ending = f"@{key.name}" if self._several else ""
        return [
            MetricComputationReport(name, prefix, value[0, group] if single else value[:, group], f"_{group}{ending}")
            for group in range(key.num_groups)
            for prefix, value in values.items()
        ]


class SegmentedNEMetric(RecMetric):
    """Normalized entropy of groups; see `SegmentedNEMetricComputation` for what says which group an example is of."""

    _namespace = MetricNamespace.SEGMENTED_NE
    _computation_class = SegmentedNEMetricComputation

    def _get_task_required_inputs(self, task_config: RecTaskInfo | list[RecTaskInfo]) -> set[str]:
        keys = _configs(self._options.get("grouping_keys", "grouping_keys"), 1, False)
        return {key.name for key in keys}


def _parts(sums: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return sums[_SUMS[0]], sums[_SUMS[1]], sums[_SUMS[2]], sums[_SUMS[3]]


def _configs(keys: Any, num_groups: int, cast_keys_to_int: bool) -> list[GroupingKeyConfig]:
    if isinstance(keys, str):
        keys = [keys]
    if not isinstance(keys, list | tuple):
        raise OptionError(f"grouping_keys is {keys!r}; expected a name, or a list of names or GroupingKeyConfigs.")
    if not keys:
        raise OptionError("grouping_keys is empty; name one input or more.")
    return [_config(key, num_groups, cast_keys_to_int) for key in keys]


def _config(key: Any, num_groups: int, cast_keys_to_int: bool) -> GroupingKeyConfig:
    if isinstance(key, GroupingKeyConfig):
        return key
    if isinstance(key, dict):
        return GroupingKeyConfig(
            key["name"], key.get("num_groups", num_groups), key.get("cast_keys_to_int", cast_keys_to_int)
        )
    return GroupingKeyConfig(str(key), num_groups, cast_keys_to_int)
