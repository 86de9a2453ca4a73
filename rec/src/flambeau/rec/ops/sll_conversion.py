"""Square matrices of sequences padded to one size, masked; and sequences made of others.

The native kernel is `native/sll_conversion.cpp`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._jagged_layout import NUMBERS, check_offsets, check_whole, locate
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.jagged_elementwise import jagged_dense_elementwise_add_jagged_output

__all__ = [
    "sll_dense_jagged_cat_jagged_out",
    "sll_jagged2_to_padded_dense",
    "sll_jagged_dense_elementwise_add",
    "sll_jagged_dense_elementwise_mul_jagged_out",
    "sll_jagged_self_substraction_jagged_out",
]


def sll_jagged2_to_padded_dense(values: Tensor, offsets: Tensor, max_length: int, padding_value: float) -> Tensor:
    """Lay each sequence's square matrix into one of a common size.

    Args:
        values: (numbers,), floating, int32 or int64: for each sequence of n items n * n numbers, row after row.
        offsets: (sequences + 1,) int32 or int64: where each matrix begins, and where the last one ends.
        max_length: rows and columns of the result; larger matrices are cut.
        padding_value: what is put where a matrix has no number.

    Returns:
        (sequences, max_length, max_length).

    Raises:
        RuntimeError: a matrix that is not square, or offsets that do not fit.
    """
    return OPS.sll_jagged2_to_padded_dense(values, offsets, max_length, padding_value)  # type: ignore[no-any-return]


def sll_jagged_dense_elementwise_add(
    x: Tensor, x_offsets: Tensor, y: Tensor, max_seq_len: int, use_fbgemm_kernel: bool = True
) -> Tensor:
    """`jagged_dense_elementwise_add_jagged_output` of one jagged dimension, items alone.

    Args:
        x: (L, D), floating, int32 or int64.
        x_offsets: (sequences + 1,) int32 or int64.
        y: (sequences, longest, D) of the same dtype.
        max_seq_len: ignored, as `y` tells it.
        use_fbgemm_kernel: ignored.

    Returns:
        (L, D).

    Raises:
        RuntimeError: as for `jagged_dense_elementwise_add_jagged_output`.
    """
    return OPS.sll_jagged_dense_elementwise_add(x, x_offsets, y, max_seq_len, use_fbgemm_kernel)  # type: ignore[no-any-return]


def sll_jagged_dense_elementwise_mul_jagged_out(
    x: Tensor, y: Tensor, x_seq_lengths: Tensor, x_offsets: Tensor, max_seq_len: int
) -> Tensor:
    """Multiply each sequence's square matrix by the upper left of one matrix, such as a mask.

    Args:
        x: (numbers,), floating, int32 or int64: for each sequence of n items n * n numbers, row after row.
        y: (longest, longest), any dtype, bool as well; as large as the longest sequence.
        x_seq_lengths: (sequences,) int32 or int64: n of each.
        x_offsets: (sequences + 1,) int32 or int64: where each matrix begins, and where the last one ends.
        max_seq_len: ignored, as `y` tells it.

    Returns:
        (numbers,) of the dtype that both have in common.

    Raises:
        RuntimeError: a matrix that is not square or too large, or offsets that do not fit.
    """
    return OPS.sll_jagged_dense_elementwise_mul_jagged_out(  # type: ignore[no-any-return]
        x, y, x_seq_lengths, x_offsets, max_seq_len
    )


def sll_dense_jagged_cat_jagged_out(
    a: Tensor, b: Tensor, a_offsets: Tensor, max_seq_len: int
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Put one item before each sequence.

    Args:
        a: (sequences,), any dtype: the items to come first.
        b: (L,) of the same dtype: the sequences.
        a_offsets: (sequences + 1,) int32 or int64: where each sequence begins in `b`, and where the last one ends.
        max_seq_len: ignored, as offsets tell it.

    Returns:
        Items (L + sequences,), and offsets (sequences + 1,) int64.

    Raises:
        RuntimeError: shapes, dtypes or offsets that do not fit.

    Example:
        >>> sll_dense_jagged_cat_jagged_out(torch.tensor([8, 9]), torch.tensor([1, 2, 3]), torch.tensor([0, 2, 3]), 2)
        (tensor([8, 1, 2, 9, 3]), tensor([0, 3, 5]))
    """
    return OPS.sll_dense_jagged_cat_jagged_out(a, b, a_offsets, max_seq_len)  # type: ignore[no-any-return]


def sll_jagged_self_substraction_jagged_out(
    a: Tensor, offsets_a: Tensor, offsets_b: Tensor, max_seq_len: int
) -> Tensor:  # fmt: skip
    """Differences within sequences, as of times: the item in row i less the one after that in column j.

    Args:
        a: (L,), floating, int32 or int64.
        offsets_a: (sequences + 1,) int32 or int64: where each sequence begins, and where the last one ends.
        offsets_b: (sequences + 1,) int32 or int64: the same of the result; a sequence of n items has (n - 1) * (n - 1)
            numbers in it.
        max_seq_len: ignored, as offsets tell it.

    Returns:
        (numbers,): for each sequence a[i] - a[j + 1] for i, j < n - 1, row after row.

    Raises:
        RuntimeError: shapes, dtypes or offsets that do not fit.
    """
    return OPS.sll_jagged_self_substraction_jagged_out(a, offsets_a, offsets_b, max_seq_len)  # type: ignore[no-any-return]


# --- squares --------------------------------------------------------------------------------------


def _check_numbers(op: str, values: Tensor) -> None:
    if values.dim() != 1 or values.dtype not in NUMBERS:
        raise RuntimeError(
            f"{op}: values has shape {tuple(values.shape)} and dtype {values.dtype}, expected (numbers,) of a floating "
            "dtype, int32 or int64."
        )


def _cells(op: str, offsets: Tensor, sides: Tensor, total: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of each number its sequence, row and column, and whether it is in one."""
    check_offsets(op, "offsets", offsets, total)
    counts = offsets.diff()
    if offsets.device.type == "cpu" and bool((sides * sides != counts).any()):
        at = int((sides * sides != counts).nonzero()[0])
        raise RuntimeError(
            f"{op}: offsets gives {int(counts[at])} numbers to sequence {at}, expected the square of its length."
        )
    sequence, place = locate(offsets, total)
    inside = (sequence >= 0) & (sequence < len(sides))
    wide = torch.cat([sides.long(), sides.new_ones(1).long()])[torch.where(inside, sequence, len(sides))].clamp(min=1)
    return sequence, place // wide, place % wide, inside


def _sides(offsets: Tensor) -> Tensor:
    return offsets.diff().double().sqrt().round().to(offsets.dtype)


_PADDED = "sll_jagged2_to_padded_dense"


def _to_padded(values: Tensor, offsets: Tensor, longest: int, padding: float) -> Tensor:
    check_whole(_PADDED, "offsets", offsets)
    _check_numbers(_PADDED, values)
    sequence, row, column, inside = _cells(_PADDED, offsets, _sides(offsets), values.shape[0])
    inside = inside & (row < longest) & (column < longest)
    dense = values.new_full((offsets.shape[0] - 1, longest, longest), padding)
    dense[sequence[inside], row[inside], column[inside]] = values[inside]
    return dense


def _from_padded(dense: Tensor, offsets: Tensor, total: int) -> Tensor:
    op, longest = f"{_PADDED}_backward", dense.shape[-1]
    sequence, row, column, inside = _cells(op, offsets, _sides(offsets), total)
    inside = inside & (row < longest) & (column < longest)
    values = dense.new_zeros(total)
    values[inside] = dense[sequence[inside], row[inside], column[inside]]
    return values


def _fake_padded(values: Tensor, offsets: Tensor, longest: int, padding: float) -> Tensor:
    check_whole(_PADDED, "offsets", offsets)
    _check_numbers(_PADDED, values)
    return values.new_empty((offsets.shape[0] - 1, longest, longest))


def _keep_padded(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.numbers = inputs[0].shape[0]


def _padded_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (offsets,) = ctx.saved_tensors
    return OPS._sll_padded_dense_to_jagged2(grad, offsets, ctx.numbers), None, None, None


def _keep_dense(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.longest = inputs[0].shape[1]


def _dense_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (offsets,) = ctx.saved_tensors
    return OPS.sll_jagged2_to_padded_dense(grad, offsets, ctx.longest, 0.0), None, None


register_op(
    "sll_jagged2_to_padded_dense(Tensor values, Tensor offsets, int max_length, float padding_value) -> Tensor",
    library=LIBRARY,
    fake=_fake_padded,
    python=_to_padded,
    setup_context=_keep_padded,
    backward=_padded_gradient,
)
register_op(
    "_sll_padded_dense_to_jagged2(Tensor dense, Tensor offsets, SymInt numbers) -> Tensor",
    library=LIBRARY,
    fake=lambda dense, offsets, numbers: dense.new_empty(numbers),
    python=_from_padded,
    setup_context=_keep_dense,
    backward=_dense_gradient,
)

_MUL = "sll_jagged_dense_elementwise_mul_jagged_out"


def _check_times(x: Tensor, y: Tensor, lengths: Tensor, offsets: Tensor) -> None:
    check_whole(_MUL, "x_seq_lengths", lengths)
    check_whole(_MUL, "x_offsets", offsets)
    if y.dim() != 2 or y.dtype != x.dtype:
        raise RuntimeError(
            f"{_MUL}: y has shape {tuple(y.shape)} and dtype {y.dtype}, expected (longest, longest) of {x.dtype} as x."
        )
    _check_numbers(_MUL, x)
    if lengths.shape[0] != offsets.shape[0] - 1:
        raise RuntimeError(
            f"{_MUL}: x_seq_lengths has {lengths.shape[0]} entries for {offsets.shape[0] - 1} sequences, expected as "
            "many."
        )


def _times(x: Tensor, y: Tensor, lengths: Tensor, offsets: Tensor) -> Tensor:
    _check_times(x, y, lengths, offsets)
    if lengths.device.type == "cpu" and len(lengths) and int(lengths.max()) > min(y.shape):
        at = int(lengths.argmax())
        raise RuntimeError(
            f"{_MUL}: sequence {at} has length {int(lengths[at])}, but y has shape {tuple(y.shape)}."
        )  # fmt: skip
    _, row, column, inside = _cells(_MUL, offsets, lengths, x.shape[0])
    made = torch.zeros_like(x, memory_format=torch.contiguous_format)
    made[inside] = x[inside] * y[row[inside], column[inside]]
    return made


def _fake_times(x: Tensor, y: Tensor, lengths: Tensor, offsets: Tensor) -> Tensor:
    _check_times(x, y, lengths, offsets)
    return x.new_empty(x.shape)


def _keep_times(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _times_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, y, lengths, offsets = ctx.saved_tensors
    ops = torch.ops.flambeau_rec
    to_x = ops._sll_times_dense(grad, y, lengths, offsets) if ctx.needs_input_grad[0] else None
    to_y = None
    if ctx.needs_input_grad[1]:
        side = max(y.shape)
        to_y = ops.sll_jagged2_to_padded_dense(grad * x, offsets, side, 0.0).sum(0)[: y.shape[0], : y.shape[1]]
    return to_x, to_y, None, None


register_op(
    "_sll_times_dense(Tensor x, Tensor y, Tensor x_seq_lengths, Tensor x_offsets) -> Tensor",
    library=LIBRARY,
    fake=_fake_times,
    python=_times,
    setup_context=_keep_times,
    backward=_times_gradient,
)


def _times_any(x: Tensor, y: Tensor, lengths: Tensor, offsets: Tensor, max_seq_len: int) -> Tensor:
    common = torch.result_type(x, y)
    return OPS._sll_times_dense(x.to(common), y.to(common), lengths, offsets)  # type: ignore[no-any-return]


register_composite(
    f"{_MUL}(Tensor x, Tensor y, Tensor x_seq_lengths, Tensor x_offsets, int max_seq_len) -> Tensor", _times_any
)
register_composite(
    "sll_jagged_dense_elementwise_add(Tensor x, Tensor x_offsets, Tensor y, int max_seq_len, "
    "bool use_fbgemm_kernel=True) -> Tensor",
    lambda x, offsets, y, *_: jagged_dense_elementwise_add_jagged_output(x, [offsets], y)[0],
)

# --- sequences made of others ---------------------------------------------------------------------

_CAT, _DIFFER = "sll_dense_jagged_cat_jagged_out", "sll_jagged_self_substraction_jagged_out"


def _check_cat(a: Tensor, b: Tensor, offsets: Tensor) -> None:
    if a.dim() != 1 or b.dim() != 1 or a.dtype != b.dtype:
        raise RuntimeError(
            f"{_CAT}: a has shape {tuple(a.shape)} and dtype {a.dtype}, b {tuple(b.shape)} and {b.dtype}, expected "
            "(sequences,) and (items,) of one dtype."
        )
    check_whole(_CAT, "a_offsets", offsets)
    if a.shape[0] != offsets.shape[0] - 1:
        raise RuntimeError(
            f"{_CAT}: a has {a.shape[0]} items, expected {offsets.shape[0] - 1}: one for each sequence."
        )  # fmt: skip


def _fake_cat(a: Tensor, b: Tensor, offsets: Tensor, max_seq_len: int) -> tuple[Tensor, Tensor]:
    _check_cat(a, b, offsets)
    count = torch.library.get_ctx().new_dynamic_size()
    return a.new_empty(count), offsets.new_empty(offsets.shape, dtype=torch.int64)


def _cat(a: Tensor, b: Tensor, offsets: Tensor, max_seq_len: int) -> tuple[Tensor, Tensor]:
    _check_cat(a, b, offsets)
    check_offsets(_CAT, "a_offsets", offsets, b.shape[0])
    ends = offsets.long() + torch.arange(len(offsets), device=offsets.device)
    first, last = int(offsets[0]), int(offsets[-1])
    made = a.new_empty(last - first + len(a))
    heads = ends[:-1] - first
    rest = torch.ones(len(made), dtype=torch.bool, device=a.device)
    rest[heads] = False
    made[heads], made[rest] = a, b[first:last]
    return made, ends


def _keep_cat(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(inputs[2], output[1])
    ctx.items = inputs[1].shape[0]


def _cat_gradient(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    offsets, ends = ctx.saved_tensors
    row, _ = locate(offsets, ctx.items)
    inside = (row >= 0) & (row < offsets.shape[0] - 1)
    items = torch.arange(ctx.items, device=grad.device)
    sources = torch.where(inside, items - offsets[0] + row + 1, 0)
    to_b = torch.where(inside, grad[sources], 0) if grad.shape[0] else grad.new_zeros(ctx.items)
    return grad[ends[:-1] - offsets[0]], to_b, None, None


def _check_differ(a: Tensor, offsets_a: Tensor, offsets_b: Tensor) -> None:
    check_whole(_DIFFER, "offsets_a", offsets_a)
    check_whole(_DIFFER, "offsets_b", offsets_b)
    _check_numbers(_DIFFER, a)
    if offsets_a.shape != offsets_b.shape:
        raise RuntimeError(
            f"{_DIFFER}: offsets_a has {offsets_a.shape[0]} entries and offsets_b {offsets_b.shape[0]}, expected as "
            "many."
        )


def _fake_differ(a: Tensor, offsets_a: Tensor, offsets_b: Tensor, max_seq_len: int) -> Tensor:
    _check_differ(a, offsets_a, offsets_b)
    return a.new_empty(torch.library.get_ctx().new_dynamic_size())


def _pairs(offsets_a: Tensor, offsets_b: Tensor, items: int, numbers: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of each number of the result the items it is the difference of, and whether it is in a sequence."""
    check_offsets(_DIFFER, "offsets_a", offsets_a, items)
    sides = (offsets_a.diff() - 1).clamp(min=0)
    sequence, row, column, inside = _cells(_DIFFER, offsets_b, sides, numbers)
    first = offsets_a.long()[torch.where(inside, sequence, 0)]
    return first + row, first + column + 1, inside


def _differ(a: Tensor, offsets_a: Tensor, offsets_b: Tensor, max_seq_len: int) -> Tensor:
    _check_differ(a, offsets_a, offsets_b)
    left, right, inside = _pairs(offsets_a, offsets_b, a.shape[0], int(offsets_b[-1]))
    made = a.new_zeros(len(inside))
    made[inside] = a[left[inside]] - a[right[inside]]
    return made


def _keep_differ(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1], inputs[2])
    ctx.items = inputs[0].shape[0]


def _differ_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    offsets_a, offsets_b = ctx.saved_tensors
    left, right, inside = _pairs(offsets_a, offsets_b, ctx.items, grad.shape[0])
    flow, nowhere = torch.where(inside, grad, 0), grad.new_zeros(ctx.items)
    last = max(ctx.items - 1, 0)
    return nowhere.index_add(0, left.clamp(max=last), flow) - nowhere.index_add(0, right.clamp(max=last), flow), *(
        None,
    ) * 3


register_op(
    f"{_CAT}(Tensor a, Tensor b, Tensor a_offsets, int max_seq_len) -> (Tensor, Tensor)",
    library=LIBRARY,
    fake=_fake_cat,
    python=_cat,
    setup_context=_keep_cat,
    backward=_cat_gradient,
)
register_op(
    f"{_DIFFER}(Tensor a, Tensor offsets_a, Tensor offsets_b, int max_seq_len) -> Tensor",
    library=LIBRARY,
    fake=_fake_differ,
    python=_differ,
    setup_context=_keep_differ,
    backward=_differ_gradient,
)
