"""Trajectories of different lengths as rows of one tensor, and discounts as filters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["roll_by_gather"]


def roll_by_gather(mat: Tensor, dim: int, shifts: Tensor) -> Tensor:
    """Roll each column, or each row, of a matrix by a number of its own.

    Args:
        mat: (rows, columns).
        dim: 0 to roll along the rows' dimension, one shift a column; 1 to roll along columns, one shift a row.
        shifts: (columns,) or (rows,) int64; forward where positive.

    Returns:
        The same shape.

    Raises:
        NotImplementedError: another dimension.

    Example:
        >>> roll_by_gather(torch.tensor([[0, 1, 2], [3, 4, 5]]), 1, torch.tensor([0, 1]))
        tensor([[0, 1, 2],
                [5, 3, 4]])
    """
    if dim not in (0, 1, -1, -2):
        raise NotImplementedError(f"`dim` is {dim}, expected 0 or 1: only matrices are rolled.")
    dim %= 2
    steps = torch.arange(mat.shape[dim], device=mat.device)
    places = (steps[:, None] - shifts[None, :]) if dim == 0 else (steps[None, :] - shifts[:, None])
    return mat.gather(dim, (places % mat.shape[dim]).expand(mat.shape))


def _flatten_batch(tensor: Tensor, time_dim: int = -1) -> Tensor:
    """Batch and time as one dimension."""
    time = time_dim % tensor.dim()
    return tensor.flatten(0, time)


def _get_num_per_traj(done: Tensor) -> Tensor:
    """How many steps each trajectory has, (trajectories,) int64; rows end trajectories, too."""
    ends = done.clone()
    ends[..., -1] = True
    at = ends.flatten().nonzero().flatten()
    return torch.diff(at, prepend=at.new_full((1,), -1))


def _get_num_per_traj_init(is_init: Tensor) -> Tensor:
    """The same from flags of first steps."""
    done = torch.zeros_like(is_init)
    done[..., :-1] = is_init[..., 1:]
    return _get_num_per_traj(done)


def _mask_of(splits: Tensor) -> Tensor:
    return torch.arange(int(splits.max()), device=splits.device) < splits.unsqueeze(-1)


def _split_and_pad_sequence(tensor: Any, splits: Tensor, return_mask: bool = False, time_dim: int = -1) -> Any:
    """Trajectories as rows, padded by zeros: `(*batch, time, *features)` to (trajectories, longest, *features).

    A tensordict, whose last batch dimension is time, gives one of batch size (trajectories, longest).
    """
    mask = _mask_of(splits)

    def padded(values: Tensor) -> Tensor:
        rows = values.new_zeros(*mask.shape, *values.shape[1:])
        rows[mask] = values
        return rows

    if isinstance(tensor, Tensor):
        result: Any = padded(_flatten_batch(tensor, time_dim))
    else:
        flat = tensor.reshape(-1)
        result = flat._fast_apply(padded, batch_size=mask.shape)
    return (result, mask) if return_mask else result


def _inv_pad_sequence(tensor: Any, splits: Tensor, mask: Tensor | None = None) -> Any:
    """The steps of padded trajectories one after the other: the inverse of `_split_and_pad_sequence`."""
    return tensor[_mask_of(splits) if mask is None else mask]
