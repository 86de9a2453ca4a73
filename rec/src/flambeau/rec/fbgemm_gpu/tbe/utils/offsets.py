"""Bags of equal length as offsets."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from flambeau.rec.fbgemm_gpu.tbe.utils.common import get_device, to_device

__all__ = ["b_indices", "get_offsets_from_dense", "get_table_batched_offsets_from_dense"]


def get_table_batched_offsets_from_dense(
    merged_indices: Tensor, L: int | None = None, total_B: int | None = None, use_cpu: bool = False
) -> tuple[Tensor, Tensor]:
    """Flat indices and offsets of bags that are all of one length.

    Args:
        merged_indices: (T, B, L) indices; of any shape where `L` and `total_B` are given.
        L: length of a bag.
        total_B: bags of all tables, T * B.
        use_cpu: whether the result is on the CPU rather than on the accelerator.

    Returns:
        (T * B * L,) and (T * B + 1,) int64.

    Example:
        >>> get_table_batched_offsets_from_dense(torch.tensor([[[4, 5]], [[6, 7]]]), use_cpu=True)
        (tensor([4, 5, 6, 7]), tensor([0, 2, 4]))
    """
    if L is None and total_B is None:
        tables, batch, L = merged_indices.shape
        total_B = tables * batch
    assert L is not None, "L goes with total_B"
    assert total_B is not None, "total_B goes with L"
    lengths = torch.full((total_B,), L, dtype=torch.int64, device=None if use_cpu else get_device())
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    return to_device(merged_indices.contiguous().view(-1), use_cpu), to_device(offsets, use_cpu)


def get_offsets_from_dense(indices: Tensor) -> tuple[Tensor, Tensor]:
    """Flat indices of one table, and where each bag begins.

    Args:
        indices: (B, L).

    Returns:
        (B * L,) and (B,) int64 on the accelerator, or on the CPU where there is none.
    """
    batch, length = indices.shape
    offsets = torch.arange(batch, dtype=torch.int64, device=get_device()) * length
    return indices.contiguous().view(-1), offsets


def b_indices(
    b: Callable[..., Tensor],
    x: Tensor,
    per_sample_weights: Tensor | None = None,
    use_cpu: bool = False,
    do_pooling: bool = True,
) -> Tensor:
    """What torch's embedding gives for bags that are all of one length.

    Args:
        b: an `nn.EmbeddingBag`, or an `nn.Embedding` without pooling.
        x: (B, L) indices.
        per_sample_weights: (B, L) factors, for bags.
        use_cpu: whether indices go to the CPU rather than to the accelerator.
        do_pooling: whether `b` takes bags.
    """
    indices, offsets = get_offsets_from_dense(x)
    if not do_pooling:
        return b(to_device(indices, use_cpu))
    factors = None if per_sample_weights is None else per_sample_weights.view(-1)
    return b(to_device(indices, use_cpu), to_device(offsets, use_cpu), per_sample_weights=factors)
