"""`permute_2D_sparse_data` and `permute_1D_sparse_data` as upstream spells them for other layouts."""

from __future__ import annotations

from torch import Tensor

from flambeau.rec.ops._checks import require
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.permute import permute_1D_sparse_data, permute_2D_sparse_data

__all__ = [
    "permute_2D_sparse_data_input1D",
    "permute_2D_sparse_preallocated_out",
    "permute_sequence_embeddings",
    "permute_sparse_data",
    "permute_sparse_features",
]

Permuted = tuple[Tensor, Tensor, Tensor | None]


def permute_2D_sparse_data_input1D(
    permute: Tensor,
    lengths: Tensor,
    values: Tensor,
    stride: int,
    weights: Tensor | None = None,
    permuted_lengths_sum: int | None = None,
) -> Permuted:
    """`permute_2D_sparse_data` of lengths (T * `stride`,), which come back as (T' * `stride`,).

    Raises:
        RuntimeError: as `permute_2D_sparse_data`; lengths that `stride` does not divide.
    """
    return OPS.permute_2D_sparse_data_input1D(  # type: ignore[no-any-return]
        permute, lengths, values, stride, weights, permuted_lengths_sum
    )


def permute_sparse_data(
    permute: Tensor,
    lengths: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    permuted_lengths_sum: int | None = None,
) -> Permuted:
    """`permute_2D_sparse_data` of lengths (T, B), `permute_1D_sparse_data` of lengths (N,)."""
    return OPS.permute_sparse_data(permute, lengths, values, weights, permuted_lengths_sum)  # type: ignore[no-any-return]


def permute_sparse_features(
    permute: Tensor, lengths: Tensor, indices: Tensor, weights: Tensor | None = None
) -> Permuted:
    """`permute_2D_sparse_data` by an older name."""
    return OPS.permute_sparse_features(permute, lengths, indices, weights)  # type: ignore[no-any-return]


def permute_sequence_embeddings(permute: Tensor, lengths: Tensor, embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """`permute_2D_sparse_data` of embeddings (L, D), one for each item of the bags.

    Returns:
        Lengths (T', B) and embeddings (L', D).
    """
    return OPS.permute_sequence_embeddings(permute, lengths, embeddings)  # type: ignore[no-any-return]


def permute_2D_sparse_preallocated_out(
    permute: Tensor,
    lengths: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    permuted_lengths_sum: int | None = None,
    permuted_lengths_out: Tensor | None = None,
    permuted_indices_out: Tensor | None = None,
    permuted_weights_out: Tensor | None = None,
) -> Permuted:
    """`permute_2D_sparse_data` into tensors that are there.

    Args:
        permute: as for `permute_2D_sparse_data`, like the following.
        lengths: (T, B).
        values: (L, ...).
        weights: (L, ...), or None.
        permuted_lengths_sum: items of the result, where that is known.
        permuted_lengths_out: (T', B) for the lengths, or None.
        permuted_indices_out: (L', ...) for the values, or None.
        permuted_weights_out: (L', ...) for the weights, or None.

    Returns:
        What was given to be written to, and new tensors for the rest.
    """
    return OPS.permute_2D_sparse_preallocated_out(  # type: ignore[no-any-return]
        permute, lengths, values, weights, permuted_lengths_sum, permuted_lengths_out, permuted_indices_out,
        permuted_weights_out,
    )  # fmt: skip


def _flat(
    permute: Tensor,
    lengths: Tensor,
    values: Tensor,
    stride: int,
    weights: Tensor | None = None,
    permuted_lengths_sum: int | None = None,
) -> Permuted:
    op = "permute_2D_sparse_data_input1D"
    require(lengths.dim() == 1, f"{op}: lengths has shape {tuple(lengths.shape)}, expected (features * stride,).")
    require(
        stride > 0 and lengths.shape[0] % stride == 0,
        f"{op}: stride is {stride}, expected one that divides the {lengths.shape[0]} lengths.",
    )
    matrix = lengths.reshape(-1, stride)
    found, items, heavy = permute_2D_sparse_data(permute, matrix, values, weights, permuted_lengths_sum)
    return found.reshape(-1), items, heavy


def _by_dim(
    permute: Tensor,
    lengths: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    permuted_lengths_sum: int | None = None,
) -> Permuted:
    moved = permute_1D_sparse_data if lengths.dim() == 1 else permute_2D_sparse_data
    return moved(permute, lengths, values, weights, permuted_lengths_sum)


def _features(permute: Tensor, lengths: Tensor, indices: Tensor, weights: Tensor | None = None) -> Permuted:
    return permute_2D_sparse_data(permute, lengths, indices, weights)


def _sequences(permute: Tensor, lengths: Tensor, embeddings: Tensor) -> tuple[Tensor, Tensor]:
    return permute_2D_sparse_data(permute, lengths, embeddings)[:2]


def _into(
    permute: Tensor,
    lengths: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    permuted_lengths_sum: int | None = None,
    permuted_lengths_out: Tensor | None = None,
    permuted_indices_out: Tensor | None = None,
    permuted_weights_out: Tensor | None = None,
) -> Permuted:
    made = permute_2D_sparse_data(permute, lengths, values, weights, permuted_lengths_sum)
    given = permuted_lengths_out, permuted_indices_out, permuted_weights_out
    written = [one if out is None or one is None else out.copy_(one) for one, out in zip(made, given, strict=True)]
    return written[0], written[1], written[2]  # type: ignore[return-value]


_ARGUMENTS = "Tensor? weights=None, SymInt? permuted_lengths_sum=None"
_HEAD = "Tensor permute, Tensor lengths, Tensor values"
register_composite(
    f"permute_2D_sparse_data_input1D({_HEAD}, SymInt stride, {_ARGUMENTS}) -> (Tensor, Tensor, Tensor?)", _flat
)
register_composite(f"permute_sparse_data({_HEAD}, {_ARGUMENTS}) -> (Tensor, Tensor, Tensor?)", _by_dim)
register_composite(
    "permute_sparse_features(Tensor permute, Tensor lengths, Tensor indices, Tensor? weights=None) "
    "-> (Tensor, Tensor, Tensor?)",
    _features,
)
register_composite(
    "permute_sequence_embeddings(Tensor permute, Tensor lengths, Tensor embeddings) -> (Tensor, Tensor)", _sequences
)
register_composite(
    f"permute_2D_sparse_preallocated_out({_HEAD}, {_ARGUMENTS}, Tensor(a!)? permuted_lengths_out=None, Tensor(b!)? "
    "permuted_indices_out=None, Tensor(c!)? permuted_weights_out=None) -> (Tensor(a!), Tensor(b!), Tensor(c!)?)",
    _into,
)
