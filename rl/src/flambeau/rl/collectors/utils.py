"""Trajectories: batches of steps cut into them, and the numbers they have."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import torch.multiprocessing as mp
from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase, is_non_tensor
from flambeau.rl.envs._keys import NestedKey, as_tuple

__all__ = ["split_trajectories"]


class _TrajectoryPool:
    """Numbers for trajectories, each given once.

    Args:
        ctx: the multiprocessing context of processes that share it.
        lock: it is shared by processes or threads.
        first: the first number.
        stride: from one number to the next; the pools of several workers give each number once without a lock.
    """

    def __init__(self, ctx: Any = None, lock: bool = False, first: int = 0, stride: int = 1) -> None:
        self._traj_id = torch.tensor(first, dtype=torch.int).share_memory_()
        self.lock: Any = (mp if ctx is None else ctx).RLock() if lock else nullcontext()
        self.first, self.stride = first, stride

    def get_traj_and_increment(self, n: int = 1, device: Any = None) -> Tensor:
        """The next `n` numbers, int64."""
        with self.lock:
            first = int(self._traj_id)
            self._traj_id += n * self.stride
        return torch.arange(first, first + n * self.stride, self.stride, device=device)

    def state_dict(self) -> dict[str, Tensor]:
        """The next number."""
        return {"traj_id": self._traj_id.clone()}

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Go on from what `state_dict` gave."""
        with self.lock:
            ahead = max(0, int(state_dict["traj_id"]) - self.first)
            self._traj_id.fill_(self.first + -(-ahead // self.stride) * self.stride)


def split_trajectories(
    rollout_tensordict: TensorDictBase,
    *,
    prefix: Any = None,
    trajectory_key: NestedKey | None = None,
    done_key: NestedKey | None = None,
    as_nested: bool = False,
) -> TensorDictBase:
    """Cut a batch of steps into its trajectories, one a row, with zeros behind the shorter ones.

    Args:
        rollout_tensordict: (..., time); trajectories lie along its last dimension.
        prefix: where numbers of trajectories are looked for, and where the mask goes; default: "collector".
        trajectory_key: numbers of trajectories, of the shape of the batch; default: (prefix, "traj_ids"), if it is
            there.
        done_key: ends of trajectories below "next", which are gone by where there are no numbers; default: "done".
            Numbers are written then.
        as_nested: give jagged nested tensors instead of zeros and a mask; the batch size is (trajectories) then.

    Returns:
        (trajectories, longest), in order of rows and time, with a mask of the steps that are there at (prefix, "mask").

    Raises:
        KeyError: there are neither numbers nor ends.
    """
    place = ("collector",) if prefix is None else as_tuple(prefix)
    size = rollout_tensordict.batch_size
    time = size[-1] if size else 1
    flat = rollout_tensordict.reshape(-1).copy()
    flat.names = None
    ids_key = (*place, "traj_ids") if trajectory_key is None else trajectory_key
    ids = flat.get(ids_key, None)
    if ids is None:
        lengths = _between_ends(flat, done_key, time)
        numbers = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
        flat.set(ids_key, numbers.to(flat.device) if flat.device is not None else numbers)
    else:
        lengths = _of_one_number(ids.flatten())
    if as_nested:
        return _nested(flat, lengths)
    out = padded(flat, lengths, (*place, "mask"))
    if lengths == [time] * (flat.numel() // max(time, 1)):  # the rows themselves
        out.names = [None, rollout_tensordict.names[-1]] if size else [None, None]
    return out


def _of_one_number(ids: Tensor) -> list[int]:
    """Lengths of trajectories; they go on in the next row where that begins with the number of the last one."""
    starts = torch.ones_like(ids, dtype=torch.bool)
    starts[1:] = ids[1:] != ids[:-1]
    return _lengths(starts)


def _between_ends(flat: Any, done_key: NestedKey | None, time: int) -> list[int]:
    key = ("next", *as_tuple("done" if done_key is None else done_key))
    done = flat.get(key, None)
    if done is None:
        raise KeyError(
            f"split_trajectories: neither numbers of trajectories nor {key} are in the batch, which has "
            f"{sorted(map(str, flat.keys(True, True)))}; name them with trajectory_key= or done_key=."
        )
    done = done.reshape(-1, time)
    starts = torch.ones_like(done)
    starts[:, 1:] = done[:, :-1]
    return _lengths(starts)


def _lengths(starts: Tensor) -> list[int]:
    """Numbers of steps of the trajectories, in order of rows and time."""
    first = starts.flatten().nonzero().flatten()
    last = torch.cat([first[1:], first.new_tensor([starts.numel()])])
    lengths: list[int] = (last - first).tolist()
    return lengths


def padded(flat: Any, lengths: list[int], mask_key: tuple[str, ...]) -> TensorDictBase:
    """Steps, one behind the other, as rows of trajectories with zeros behind them.

    Args:
        flat: (steps, ...).
        lengths: number of steps of each trajectory.
        mask_key: where the mask of the steps goes.
    """
    mask = torch.arange(max(lengths, default=0)) < torch.tensor(lengths).unsqueeze(-1)
    where = [index.to(flat.device) if flat.device is not None else index for index in mask.nonzero(as_tuple=True)]
    out = _in_rows(flat, where, tuple(mask.shape))
    out.set(mask_key, mask if out.device is None else mask.to(out.device))
    return out


def _in_rows(flat: Any, where: list[Tensor], size: tuple[int, ...]) -> Any:
    out = TensorDict({}, [*size, *flat.batch_size[1:]], device=flat.device)
    row, column = where
    for key, value in flat.items():
        if isinstance(value, TensorDictBase) and not is_non_tensor(value):
            out.set(key, _in_rows(value, where, size))
        else:
            new = value.new_zeros((*size, *value.shape[1:]))
            new[row.to(value.device), column.to(value.device)] = value
            out.set(key, new)
    return out


def _nested(flat: Any, lengths: list[int]) -> TensorDictBase:
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    out: TensorDictBase = TensorDict({}, [len(lengths)], device=flat.device)
    for key, value in flat.items(True, True):
        out.set(key, torch.nested.nested_tensor_from_jagged(value, offsets.to(value.device)))
    return out
