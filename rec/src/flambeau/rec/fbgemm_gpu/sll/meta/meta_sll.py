"""Operators for sequence learning on tensors without data, by FBGEMM's Python names.

Every operator of ours has a shape-only twin, which `torch.compile`, `torch.export` and tensors on "meta" make use of.
"""

from __future__ import annotations

from torch import Tensor

from flambeau.rec.fbgemm_gpu.sll._applied import applied
from flambeau.rec.ops import sll_conversion, sll_matmul, sll_softmax
from flambeau.rec.ops._short_calls import OPS

__all__ = [
    "ArrayJaggedBmmNopadding",
    "Jagged2SoftmaxMeta",
    "JaggedJaggedBmmNoPaddingMeta",
    "MetaJaggedDenseElementwiseMul",
    "meta_array_jagged_bmm_jagged_out",
    "meta_jagged2_softmax",
    "meta_jagged_dense_elementwise_mul_jagged_out",
    "meta_jagged_jagged_bmm_jagged_out",
    "meta_jagged_self_substraction_jagged_out",
]


def meta_jagged_self_substraction_jagged_out(
    jagged_A: Tensor, offsets_a: Tensor, offsets_b: Tensor, max_seq_len: int
) -> Tensor:
    """See `flambeau.rec.ops.sll_conversion.sll_jagged_self_substraction_jagged_out`; its size is known while "
    "tracing only.
    """
    return sll_conversion.sll_jagged_self_substraction_jagged_out(jagged_A, offsets_a, offsets_b, max_seq_len)


def meta_jagged_dense_elementwise_mul_jagged_out(
    x: Tensor, y: Tensor, x_seq_lengths: Tensor, x_offsets: Tensor, max_seq_len: int
) -> Tensor:
    """See `flambeau.rec.ops.sll_conversion.sll_jagged_dense_elementwise_mul_jagged_out`."""
    return sll_conversion.sll_jagged_dense_elementwise_mul_jagged_out(x, y, x_seq_lengths, x_offsets, max_seq_len)


def meta_jagged2_softmax(
    x: Tensor, offsets: Tensor, offsets_total: Tensor, max_seq_len: int, transpose: bool
) -> Tensor:  # fmt: skip
    """See `flambeau.rec.ops.sll_softmax.sll_jagged2_softmax`."""
    return sll_softmax.sll_jagged2_softmax(x, offsets, offsets_total, max_seq_len, transpose)


def meta_array_jagged_bmm_jagged_out(
    x: Tensor, y: Tensor, x_lengths: Tensor, x_offsets: Tensor, y_lengths: Tensor, y_offsets: Tensor,
    z_lengths: Tensor, z_offsets: Tensor, max_seq_len: int, allow_tf32: bool = True,
) -> Tensor:  # fmt: skip
    """See `flambeau.rec.ops.sll_matmul.sll_array_jagged_bmm_jagged_out`."""
    return sll_matmul.sll_array_jagged_bmm_jagged_out(
        x, y, x_lengths, x_offsets, y_lengths, y_offsets, z_lengths, z_offsets, max_seq_len, allow_tf32
    )


def meta_jagged_jagged_bmm_jagged_out(
    x: Tensor, y: Tensor, x_lengths: Tensor, x_offsets: Tensor, y_lengths: Tensor, y_offsets: Tensor,
    z_lengths: Tensor, z_offsets: Tensor, max_seq_len: int, allow_tf32: bool = True,
) -> Tensor:  # fmt: skip
    """See `flambeau.rec.ops.sll_matmul.sll_jagged_jagged_bmm_jagged_out`; `z_lengths` has data, which tells "
    "the size.
    """
    return OPS._sll_outer(x, y, x_offsets, y_offsets, z_offsets, int(z_lengths.sum()))  # type: ignore[no-any-return]


def _softmax_of_matrices(
    x: Tensor, x_offsets: Tensor, row_offsets: Tensor, head_offsets: Tensor, max_seq_len_row: int,
    max_seq_len_head: int, transpose: bool = True,
) -> Tensor:  # fmt: skip
    return meta_jagged2_softmax(x, row_offsets, x_offsets, max_seq_len_row, transpose)


MetaJaggedDenseElementwiseMul = applied(
    "MetaJaggedDenseElementwiseMul", meta_jagged_dense_elementwise_mul_jagged_out, __name__
)
Jagged2SoftmaxMeta = applied("Jagged2SoftmaxMeta", _softmax_of_matrices, __name__)
ArrayJaggedBmmNopadding = applied("ArrayJaggedBmmNopadding", meta_array_jagged_bmm_jagged_out, __name__)
JaggedJaggedBmmNoPaddingMeta = applied("JaggedJaggedBmmNoPaddingMeta", meta_jagged_jagged_bmm_jagged_out, __name__)
