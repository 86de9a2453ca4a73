"""Steps as they come, and the batch they become."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import LazyStackedTensorDict, TensorDictBase, is_tensor_collection
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

    def batch(self, steps: list[Any], ids: list[Tensor] | None, same: bool) -> Any:
        """The batch.

        Args:
            steps: tensordicts with "next"; fewer than the length where a rollout was ended early.
            ids: numbers of trajectories, a step; None for none.
            same: write into the batch that was given last.
        """
        dim = self.dim
        if self.dense:
            batch = _stacked(steps, dim, self.order)
        else:
            batch = LazyStackedTensorDict.maybe_dense_stack(steps, dim)
        for key in [key for key in batch.keys() if key.startswith("_")]:
            del batch[key]
        if self.left_out:
            batch = batch.exclude(*self.left_out)
        if ids is not None:
            numbers = torch.stack(ids, dim)
            batch.set(IDS, numbers if batch.device is None else numbers.to(batch.device))
        if len(steps) < self.length:
            batch = _filled_up(batch, self.length - len(steps), dim)
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
    return {
        key: _order(value) if is_tensor_collection(value) and hasattr(value, "keys") and _is_nested(value) else None
        for key, value in template.items()
    }


def _is_nested(value: Any) -> bool:
    return isinstance(value, TensorDictBase)


def _stacked(steps: list[Any], dim: int, order: dict[str, Any] | None) -> Any:
    """Tensordicts in one, with keys in a given order, and others behind."""
    first = steps[0]
    out = first.empty()
    size = first.batch_size
    out.batch_size = torch.Size([*size[:dim], len(steps), *size[dim:]])
    if isinstance(first, LazyStackedTensorDict):
        return torch.stack([step.contiguous() for step in steps], dim)
    names = list(first.keys())
    if order is not None:
        known = set(names)
        names = [name for name in order if name in known] + [name for name in names if name not in order]
    for name in names:
        value = first._get_str(name, None) if hasattr(first, "_get_str") else first.get(name)
        parts = [step.get(name) for step in steps]
        if isinstance(value, Tensor):
            stacked: Any = torch.stack(parts, dim)
        elif _is_nested(value):
            stacked = _stacked(parts, dim, None if order is None else order.get(name))
        else:
            stacked = torch.stack(parts, dim)
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
