"""Pooled embeddings brought together from several devices, and gradients laid out as ranks expect them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from flambeau.rec.ops._checks import require
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._short_calls import OPS

__all__ = [
    "all_to_one_device",
    "merge_pooled_embeddings",
    "recat_embedding_grad_output",
    "recat_embedding_grad_output_mixed_D",
    "recat_embedding_grad_output_mixed_D_batch",
    "sum_reduce_to_one",
]


def merge_pooled_embeddings(
    pooled_embeddings: Sequence[Tensor], uncat_dim_size: int, target_device: torch.device, cat_dim: int = 1
) -> Tensor:
    """Join matrices of several devices on one.

    Args:
        pooled_embeddings: matrices of one dtype.
        uncat_dim_size: their size in the other dimension.
        target_device: of the result.
        cat_dim: 0 or 1, the dimension that they are joined along.

    Returns:
        One matrix. Gradients flow back to where the matrices came from.

    Raises:
        RuntimeError: sizes that differ from `uncat_dim_size`, another dimension, nothing to join.
    """
    return OPS.merge_pooled_embeddings(pooled_embeddings, uncat_dim_size, target_device, cat_dim)  # type: ignore[no-any-return]


def all_to_one_device(input_tensors: Sequence[Tensor], target_device: torch.device) -> list[Tensor]:
    """Bring tensors to one device.

    Args:
        input_tensors: any.
        target_device: where they go.

    Returns:
        The same tensors there; those that were there already are given as they are.
    """
    return OPS.all_to_one_device(input_tensors, target_device)  # type: ignore[no-any-return]


def sum_reduce_to_one(input_tensors: Sequence[Tensor], target_device: torch.device) -> Tensor:
    """Add up tensors of several devices on one.

    Args:
        input_tensors: of one shape and dtype.
        target_device: of the result.

    Returns:
        Their sum, in the order of the list.

    Raises:
        RuntimeError: nothing to add up.
    """
    return OPS.sum_reduce_to_one(input_tensors, target_device)  # type: ignore[no-any-return]


def recat_embedding_grad_output(grad_output: Tensor, num_features_per_rank: Sequence[int]) -> Tensor:
    """Lay the gradient of all features out rank by rank.

    Args:
        grad_output: (B, T, D).
        num_features_per_rank: how many of the T features each rank has.

    Returns:
        (B * T * D,): of each rank, its features of all examples.

    Raises:
        RuntimeError: features that do not add up to T.
    """
    return OPS.recat_embedding_grad_output(grad_output, num_features_per_rank)  # type: ignore[no-any-return]


def recat_embedding_grad_output_mixed_D(grad_output: Tensor, dim_sum_per_rank: Sequence[int]) -> Tensor:
    """Lay the gradient of all columns out rank by rank.

    Args:
        grad_output: (B, columns).
        dim_sum_per_rank: how many of the columns each rank has.

    Returns:
        (B * columns,): of each rank, its columns of all examples.

    Raises:
        RuntimeError: columns that do not add up.

    Example:
        >>> recat_embedding_grad_output_mixed_D(torch.tensor([[0, 1, 2], [3, 4, 5]]), [1, 2])
        tensor([0, 3, 1, 2, 4, 5])
    """
    return OPS.recat_embedding_grad_output_mixed_D(grad_output, dim_sum_per_rank)  # type: ignore[no-any-return]


def recat_embedding_grad_output_mixed_D_batch(
    grad_output: Tensor, dim_sum_per_rank: Tensor, cumsum_dim_sum_per_rank: Tensor
) -> Tensor:
    """`recat_embedding_grad_output_mixed_D` with numbers in tensors, without waiting for their device.

    Args:
        grad_output: (B, columns).
        dim_sum_per_rank: (ranks,) how many of the columns each rank has.
        cumsum_dim_sum_per_rank: (ranks,) where they begin.

    Returns:
        (B * columns,).
    """
    return OPS.recat_embedding_grad_output_mixed_D_batch(  # type: ignore[no-any-return]
        grad_output, dim_sum_per_rank, cumsum_dim_sum_per_rank
    )


def _merge(tensors: Sequence[Tensor], uncat_dim_size: int, target_device: torch.device, cat_dim: int = 1) -> Tensor:
    op = "merge_pooled_embeddings"
    require(len(tensors) > 0, f"{op}: pooled_embeddings is empty, expected at least one tensor.")
    require(cat_dim in (0, 1), f"{op}: cat_dim is {cat_dim}, expected 0 or 1.")
    for at, one in enumerate(tensors):
        require(
            one.dim() == 2 and one.shape[1 - cat_dim] == uncat_dim_size,
            f"{op}: pooled_embeddings[{at}] has shape {tuple(one.shape)}, expected two dimensions, with "
            f"{uncat_dim_size} in dimension {1 - cat_dim}.",
        )
    return torch.cat([one.to(target_device) for one in tensors], cat_dim)


def _all(tensors: Sequence[Tensor], target_device: torch.device) -> list[Tensor]:
    return [one.to(target_device, non_blocking=True) for one in tensors]


def _sum(tensors: Sequence[Tensor], target_device: torch.device) -> Tensor:
    require(len(tensors) > 0, "sum_reduce_to_one: input_tensors is empty, expected at least one tensor.")
    total = tensors[0].to(target_device, copy=True)
    for one in tensors[1:]:
        total = total + one.to(target_device)
    return total


def _by_features(grad: Tensor, counts: Sequence[int]) -> Tensor:
    require(
        grad.dim() == 3 and sum(counts) == grad.shape[1],
        f"recat_embedding_grad_output: grad_output has shape {tuple(grad.shape)} and num_features_per_rank adds up to "
        f"{sum(counts)}; expected (B, {sum(counts)}, D).",
    )
    return torch.cat([one.reshape(-1) for one in grad.split(list(counts), 1)])


def _by_columns(grad: Tensor, counts: Sequence[int]) -> Tensor:
    require(
        grad.dim() == 2 and sum(counts) == grad.shape[1],
        f"recat_embedding_grad_output_mixed_D: grad_output has shape {tuple(grad.shape)} and dim_sum_per_rank adds up "
        f"to {sum(counts)}; expected (B, {sum(counts)}).",
    )
    return torch.cat([one.reshape(-1) for one in grad.split(list(counts), 1)])


def _by_tensor(grad: Tensor, counts: Tensor, begins: Tensor) -> Tensor:
    batch, columns = grad.shape
    items = torch.arange(batch * columns, device=grad.device)
    ends = counts.long().cumsum(0)
    rank = torch.searchsorted(ends * batch, items, right=True).clamp(max=counts.shape[0] - 1)
    begin, width = (ends - counts)[rank], counts.long()[rank]
    inside = items - begin * batch
    return grad.reshape(-1)[inside // width * columns + begin + inside % width]


register_composite(
    "merge_pooled_embeddings(Tensor[] pooled_embeddings, SymInt uncat_dim_size, Device target_device, SymInt "
    "cat_dim=1) -> Tensor",
    _merge,
)
register_composite("all_to_one_device(Tensor[] input_tensors, Device target_device) -> Tensor[]", _all)
register_composite("sum_reduce_to_one(Tensor[] input_tensors, Device target_device) -> Tensor", _sum)
register_composite(
    "recat_embedding_grad_output(Tensor grad_output, int[] num_features_per_rank) -> Tensor", _by_features
)
register_composite(
    "recat_embedding_grad_output_mixed_D(Tensor grad_output, int[] dim_sum_per_rank) -> Tensor", _by_columns
)
register_composite(
    "recat_embedding_grad_output_mixed_D_batch(Tensor grad_output, Tensor dim_sum_per_rank, Tensor "
    "cumsum_dim_sum_per_rank) -> Tensor",
    _by_tensor,
)
