"""Operators for sequence learning on the CPU, by FBGEMM's Python names.

`flambeau.rec.ops.sll_*` says what they take, give and refuse; these are the same functions, and run on any device.
"""

from __future__ import annotations

from torch import Tensor

from flambeau.rec.fbgemm_gpu.sll._applied import applied
from flambeau.rec.ops import jagged_matmul, sll_attention, sll_conversion, sll_matmul, sll_softmax
from flambeau.rec.ops._short_calls import OPS

__all__ = [
    "ArrayJaggedBmmNopaddingCPU",
    "CPUJaggedDenseElementwiseMul",
    "Jagged2SoftmaxCPU",
    "JaggedDenseAddCPU",
    "JaggedDenseBmmCPU",
    "JaggedJaggedBmm",
    "JaggedJaggedBmmNoPaddingCPU",
    "JaggedSoftmaxCPU",
    "cpu_array_jagged_bmm_jagged_out",
    "cpu_array_jagged_bmm_jagged_out_kernel",
    "cpu_dense_jagged_cat_jagged_out",
    "cpu_jagged2_softmax",
    "cpu_jagged2_to_padded_dense",
    "cpu_jagged_dense_bmm",
    "cpu_jagged_dense_bmm_kernel",
    "cpu_jagged_dense_elementwise_add",
    "cpu_jagged_dense_elementwise_mul_jagged_out",
    "cpu_jagged_dense_flash_attention",
    "cpu_jagged_flash_attention_basic",
    "cpu_jagged_jagged_bmm",
    "cpu_jagged_jagged_bmm_jagged_out",
    "cpu_jagged_jagged_bmm_jagged_out_kernel",
    "cpu_jagged_jagged_bmm_kernel",
    "cpu_jagged_self_substraction_jagged_out",
    "cpu_jagged_softmax",
]


def cpu_jagged_jagged_bmm_kernel(x: Tensor, y: Tensor, x_offsets: Tensor, max_seq_len: int) -> Tensor:
    """See `flambeau.rec.ops.jagged_matmul.jagged_jagged_bmm`."""
    return jagged_matmul.jagged_jagged_bmm(x, y, x_offsets, max_seq_len)


def cpu_jagged_dense_bmm_kernel(x: Tensor, y: Tensor, x_offsets: Tensor, max_seq_len: int) -> Tensor:
    """See `flambeau.rec.ops.jagged_matmul.jagged_dense_bmm`."""
    return jagged_matmul.jagged_dense_bmm(x, x_offsets, y, max_seq_len)[0]


def cpu_jagged_dense_bmm(
    x: Tensor, y: Tensor, x_offsets: Tensor, N: int, allow_tf32: bool, use_fbgemm_kernel: bool = True
) -> Tensor:
    """See `flambeau.rec.ops.sll_matmul.sll_jagged_dense_bmm`."""
    return sll_matmul.sll_jagged_dense_bmm(x, y, x_offsets, N, allow_tf32, use_fbgemm_kernel)


def cpu_jagged_jagged_bmm(
    x: Tensor, y: Tensor, x_offsets: Tensor, N: int, allow_tf32: bool, use_fbgemm_kernel: bool = True
) -> Tensor:
    """See `flambeau.rec.ops.sll_matmul.sll_jagged_jagged_bmm`."""
    return sll_matmul.sll_jagged_jagged_bmm(x, y, x_offsets, N, allow_tf32, use_fbgemm_kernel)


def cpu_dense_jagged_cat_jagged_out(
    a: Tensor, b: Tensor, b_offsets: Tensor, max_seq_len: int
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """See `flambeau.rec.ops.sll_conversion.sll_dense_jagged_cat_jagged_out`."""
    return sll_conversion.sll_dense_jagged_cat_jagged_out(a, b, b_offsets, max_seq_len)


def cpu_jagged_self_substraction_jagged_out(
    jagged_A: Tensor, offsets_a: Tensor, offsets_b: Tensor, max_seq_len: int
) -> Tensor:
    """See `flambeau.rec.ops.sll_conversion.sll_jagged_self_substraction_jagged_out`."""
    return sll_conversion.sll_jagged_self_substraction_jagged_out(jagged_A, offsets_a, offsets_b, max_seq_len)


def cpu_jagged2_to_padded_dense(
    values: Tensor, offsets: Tensor, max_length: int, padding_value: float = 0.0
) -> Tensor:  # fmt: skip
    """See `flambeau.rec.ops.sll_conversion.sll_jagged2_to_padded_dense`."""
    return sll_conversion.sll_jagged2_to_padded_dense(values, offsets, max_length, padding_value)


def cpu_jagged_dense_elementwise_mul_jagged_out(
    x: Tensor, y: Tensor, x_seq_lengths: Tensor, x_offsets: Tensor, max_seq_len: int
) -> Tensor:
    """See `flambeau.rec.ops.sll_conversion.sll_jagged_dense_elementwise_mul_jagged_out`."""
    return sll_conversion.sll_jagged_dense_elementwise_mul_jagged_out(x, y, x_seq_lengths, x_offsets, max_seq_len)


def cpu_jagged_softmax(x: Tensor, x_offsets: Tensor, max_seq_len: int, use_fbgemm_kernel: bool = True) -> Tensor:
    """See `flambeau.rec.ops.sll_softmax.sll_jagged_softmax`."""
    return sll_softmax.sll_jagged_softmax(x, x_offsets, max_seq_len, use_fbgemm_kernel)


def cpu_jagged2_softmax(
    x: Tensor, offsets: Tensor, offsets_total: Tensor, max_seq_len: int, transpose: bool
) -> Tensor:  # fmt: skip
    """See `flambeau.rec.ops.sll_softmax.sll_jagged2_softmax`."""
    return sll_softmax.sll_jagged2_softmax(x, offsets, offsets_total, max_seq_len, transpose)


def cpu_jagged_jagged_bmm_jagged_out_kernel(
    jagged_A: Tensor, jagged_B: Tensor, max_seq_len: int, lengths_m: Tensor, lengths_n: Tensor, lengths_mn: Tensor,
    offsets_m: Tensor, offsets_n: Tensor, offsets_mn: Tensor, allow_tf32: bool = False,
) -> Tensor:  # fmt: skip
    """`sll_jagged_jagged_bmm_jagged_out` with the second operand (K, items).

    See `flambeau.rec.ops.sll_matmul.sll_jagged_jagged_bmm_jagged_out`.
    """
    return cpu_jagged_jagged_bmm_jagged_out(
        jagged_A, jagged_B.T, lengths_m, offsets_m, lengths_n, offsets_n, lengths_mn, offsets_mn, max_seq_len,
        allow_tf32,
    )  # fmt: skip


def cpu_array_jagged_bmm_jagged_out_kernel(
    array_A: Tensor, jagged_B: Tensor, lengths_am: Tensor, lengths_bk: Tensor, lengths_cm: Tensor, offsets_am: Tensor,
    offsets_bk: Tensor, offsets_cm: Tensor, max_seq_len: int, allow_tf32: bool = False, transpose: int = 0,
) -> Tensor:  # fmt: skip
    """`sll_array_jagged_bmm_jagged_out`, of matrices as they are or transposed.

    See `flambeau.rec.ops.sll_matmul.sll_array_jagged_bmm_jagged_out`.
    """
    return OPS._sll_matrix_times_items(  # type: ignore[no-any-return]
        array_A, jagged_B, offsets_am, offsets_bk, offsets_cm, max_seq_len, jagged_B.shape[0], bool(transpose)
    )


def cpu_array_jagged_bmm_jagged_out(
    x: Tensor, y: Tensor, x_lengths: Tensor, x_offsets: Tensor, y_lengths: Tensor, y_offsets: Tensor,
    z_lengths: Tensor, z_offsets: Tensor, max_seq_len: int, allow_tf32: bool = True,
) -> Tensor:  # fmt: skip
    """See `flambeau.rec.ops.sll_matmul.sll_array_jagged_bmm_jagged_out`."""
    return sll_matmul.sll_array_jagged_bmm_jagged_out(
        x, y, x_lengths, x_offsets, y_lengths, y_offsets, z_lengths, z_offsets, max_seq_len, allow_tf32
    )


def cpu_jagged_jagged_bmm_jagged_out(
    x: Tensor, y: Tensor, x_lengths: Tensor, x_offsets: Tensor, y_lengths: Tensor, y_offsets: Tensor,
    z_lengths: Tensor, z_offsets: Tensor, max_seq_len: int, allow_tf32: bool = True,
) -> Tensor:  # fmt: skip
    """See `flambeau.rec.ops.sll_matmul.sll_jagged_jagged_bmm_jagged_out`."""
    return sll_matmul.sll_jagged_jagged_bmm_jagged_out(
        x, y, x_lengths, x_offsets, y_lengths, y_offsets, z_lengths, z_offsets, max_seq_len, allow_tf32
    )


def cpu_jagged_flash_attention_basic(
    q_weights: Tensor, k_weights: Tensor, v_weights: Tensor, offsets: Tensor, max_seq_len: int,
    use_mask: bool = False, allow_tf32: bool = True,
) -> Tensor:  # fmt: skip
    """See `flambeau.rec.ops.sll_attention.sll_jagged_flash_attention_basic`."""
    return sll_attention.sll_jagged_flash_attention_basic(
        q_weights, k_weights, v_weights, offsets, max_seq_len, use_mask, allow_tf32
    )


def cpu_jagged_dense_elementwise_add(
    x: Tensor, x_offsets: Tensor, y: Tensor, max_seq_len: int, use_fbgemm_kernel: bool = True
) -> Tensor:
    """See `flambeau.rec.ops.sll_conversion.sll_jagged_dense_elementwise_add`."""
    return sll_conversion.sll_jagged_dense_elementwise_add(x, x_offsets, y, max_seq_len, use_fbgemm_kernel)


def cpu_jagged_dense_flash_attention(
    q: Tensor, k: Tensor, v: Tensor, attn_bias: Tensor, offsets: Tensor, max_seq_len: int, allow_tf32: bool = True
) -> Tensor:
    """See `flambeau.rec.ops.sll_attention.sll_jagged_dense_flash_attention`."""
    return sll_attention.sll_jagged_dense_flash_attention(q, k, v, attn_bias, offsets, max_seq_len, allow_tf32)


def _softmax_of_matrices(
    x: Tensor, x_offsets: Tensor, row_offsets: Tensor, head_offsets: Tensor, max_seq_len_row: int,
    max_seq_len_head: int, transpose: bool = True,
) -> Tensor:  # fmt: skip
    return cpu_jagged2_softmax(x, row_offsets, x_offsets, max_seq_len_row, transpose)


JaggedDenseBmmCPU = applied("JaggedDenseBmmCPU", cpu_jagged_dense_bmm_kernel, __name__)
JaggedJaggedBmm = applied("JaggedJaggedBmm", cpu_jagged_jagged_bmm_kernel, __name__)
CPUJaggedDenseElementwiseMul = applied(
    "CPUJaggedDenseElementwiseMul", cpu_jagged_dense_elementwise_mul_jagged_out, __name__
)
JaggedSoftmaxCPU = applied("JaggedSoftmaxCPU", cpu_jagged_softmax, __name__)
Jagged2SoftmaxCPU = applied("Jagged2SoftmaxCPU", _softmax_of_matrices, __name__)
ArrayJaggedBmmNopaddingCPU = applied("ArrayJaggedBmmNopaddingCPU", cpu_array_jagged_bmm_jagged_out, __name__)
JaggedJaggedBmmNoPaddingCPU = applied("JaggedJaggedBmmNoPaddingCPU", cpu_jagged_jagged_bmm_jagged_out, __name__)
JaggedDenseAddCPU = applied("JaggedDenseAddCPU", cpu_jagged_dense_elementwise_add, __name__)
