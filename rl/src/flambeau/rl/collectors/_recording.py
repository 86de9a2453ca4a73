"""Steps as they come, and the batch they become."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase
from flambeau.rl.envs._keys import NestedKey, as_tuple

IDS = ("collector", "traj_ids")


class Recording:
    """The steps of one batch.

    Args:
        template: a step in zeros; its keys come first in the batch, in its order.
        length: number of steps of a batch.
        dense: stack them in memory, all keys of the first step.
        device: where the batch goes.
        left_out: keys that it does not have.
    """

    def __init__(
        self, template: Any, length: int, dense: bool, device: torch.device | None, left_out: list[NestedKey]
    ) -> None:
        self.template, self.length, self.dense, self.device = template, length, dense, device
        self.left_out = left_out
        self.dim = template.ndim
        self.order = _order(template)
        self.out: Any = None

    def stacked(self, steps: list[Any]) -> Any:
        """Steps as one tensordict.

        Args:
            steps: tensordicts with "next"; fewer than the length where a rollout was ended early.
        """
        if self.dense:
            return _stacked(steps, self.dim)
        return LazyStackedTensorDict.maybe_dense_stack(steps, self.dim)

    def batch(self, steps: Any, ids: Tensor | None, same: bool) -> Any:
        """The batch.

        Args:
            steps: what `stacked` returned, or another tensordict of steps.
            ids: numbers of trajectories; None for none.
            same: write into the batch that was given last.
        """
        dim = self.dim
        batch = _in_order(steps, self.order) if self.dense else steps
        count = batch.batch_size[dim]
        for key in [key for key in list(batch.keys()) if key.startswith("_")]:
            del batch[key]
        if self.left_out:
            batch = batch.exclude(*self.left_out)
        if ids is not None:
            batch.set(IDS, ids if batch.device is None else ids.to(batch.device))
        if count < self.length:
            batch = _filled_up(batch, self.length - count, dim)
        if self.device is not None and batch.device != self.device:
            batch = batch.to(self.device)
        _name_time(batch)
        if same:
            if self.out is None or self.out.batch_size != batch.batch_size:
                self.out = batch
            else:
                self.out.update_(batch)
            return self.out
        return batch


def _order(template: Any) -> dict[str, Any]:
    return {key: _order(value) if _is_nested(value) else None for key, value in template.items()}


def _in_order(batch: Any, order: dict[str, Any]) -> Any:
    """A tensordict with its keys in a given order, and others behind."""
    if type(batch) is not TensorDict:
        return batch
    names = list(batch.keys())
    known = [name for name in order if name in names]
    others = [name for name in names if name not in order]
    out = batch.empty()
    for name in (*known, *others):
        value = batch._get_str(name)
        if order.get(name) is not None:
            value = _in_order(value, order[name])
        out._set_str(name, value, validated=True, inplace=False, non_blocking=False)
    return out


def _is_nested(value: Any) -> bool:
    return isinstance(value, TensorDictBase)


def _stacked(steps: list[Any], dim: int) -> Any:
    """Tensordicts in one, with the keys of the first."""
    first = steps[0]
    out = first.empty()
    size = first.batch_size
    out.batch_size = torch.Size([*size[:dim], len(steps), *size[dim:]])
    if isinstance(first, LazyStackedTensorDict):
        return torch.stack([step.contiguous() for step in steps], dim)
    for name in list(first.keys()):
        parts = [step.get(name) for step in steps]
        stacked = _stacked(parts, dim) if _is_nested(parts[0]) else torch.stack(parts, dim)
        out._set_str(name, stacked, validated=True, inplace=False, non_blocking=False)
    return out


def _filled_up(batch: Any, count: int, dim: int) -> Any:
    """A batch with steps of zeros behind those it has, which belong to trajectory -1."""
    size = list(batch.batch_size)
    size[dim] = count
    rest = batch.narrow(dim, 0, 1).expand(size).clone().zero_()
    if IDS in rest.keys(True):
        rest.set(IDS, torch.full_like(rest.get(IDS), -1))
    return torch.cat([batch, rest], dim)


def _name_time(batch: Any) -> None:
    batch.names = [*([None] * (batch.ndim - 1)), "time"]


def truncate_last(batch: Any, keys: list[NestedKey], last: int) -> None:
    """Mark a step of a batch as truncated, and as done.

    Args:
        batch: (..., time).
        keys: of truncations.
        last: the step.
    """
    time = batch.ndim - 1
    for key in keys:
        for name in ("truncated", "done"):
            value = batch.get(("next", *as_tuple(key)[:-1], name), None)
            if value is not None:
                value.select(time, last).fill_(True)
