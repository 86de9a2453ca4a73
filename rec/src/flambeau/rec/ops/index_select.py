"""Rows chosen by index from one tensor, from a group of them, or from many that lie behind one another.

A gradient adds up what reaches a row, in the order of the indices, whatever the number of threads; float16 and bfloat16
are added up in float32 and rounded once. The native kernels are in `native/rows.cpp`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._checks import require, require_indices
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = [
    "batch_index_select_dim0",
    "batch_index_select_dim0_tensor",
    "group_index_select_dim0",
    "index_add_rows",
    "index_select_dim0",
]


def index_select_dim0(
    input: Tensor,
    indices: Tensor,
    consecutive_range_start: int | None = 0,
    consecutive_range_length: int | None = 0,
    skip_indices_sorting_fwd: bool | None = None,
) -> Tensor:
    """Choose rows: `input[indices]`.

    Args:
        input: (N, ...), any dtype.
        indices: (M,) int32 or int64, 0 to N - 1.
        consecutive_range_start: the smallest index, where it is known. A hint that is not needed here.
        consecutive_range_length: how many indices follow it. A hint that is not needed here.
        skip_indices_sorting_fwd: whether to sort late. A hint that is not needed here.

    Returns:
        (M, ...). Gradients flow to a floating `input`; those of a row that is chosen several times add up.

    Raises:
        RuntimeError: an index that is no row, another shape or dtype.

    Example:
        >>> index_select_dim0(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1, 0, 1]))
        tensor([[3., 4.],
                [1., 2.],
                [3., 4.]])
    """
    return OPS.index_select_dim0(  # type: ignore[no-any-return]
        input, indices, consecutive_range_start, consecutive_range_length, skip_indices_sorting_fwd
    )


def index_add_rows(grad: Tensor, indices: Tensor, rows: int) -> Tensor:
    """Add rows up by index, in order: the gradient of `index_select_dim0`.

    Args:
        grad: (M, ...) float32, float64, float16 or bfloat16; the latter two are added up in float32.
        indices: (M,) int32 or int64, 0 to `rows` - 1.
        rows: N, of the result.

    Returns:
        (N, ...) of the same dtype.

    Raises:
        RuntimeError: an index that is no row, another shape or dtype.
    """
    return OPS.index_add_rows(grad, indices, rows)  # type: ignore[no-any-return]


def group_index_select_dim0(input_group: Sequence[Tensor], indices_group: Sequence[Tensor]) -> list[Tensor]:
    """`index_select_dim0` of each of several tensors.

    Args:
        input_group: G tensors (N_g, ...).
        indices_group: G tensors (M_g,) of int32 or int64.

    Returns:
        G tensors (M_g, ...). Gradients as for `index_select_dim0`.

    Raises:
        RuntimeError: as for `index_select_dim0`; groups of different sizes.
    """
    return OPS.group_index_select_dim0(input_group, indices_group)  # type: ignore[no-any-return]


def batch_index_select_dim0(
    inputs: Tensor,
    indices: Tensor,
    input_num_indices: Sequence[int],
    input_rows: Sequence[int],
    input_columns: Sequence[int],
    permute_output_dim_0_1: bool = False,
) -> Tensor:
    """Choose rows of G matrices that lie behind one another in memory.

    Args:
        inputs: (sum of rows times columns,): the matrices, each row by row.
        indices: (sum of `input_num_indices`,) int32 or int64: the rows of the first matrix, then of the second, ...
        input_num_indices: G numbers: how many rows are chosen of each.
        input_rows: G numbers.
        input_columns: G numbers.
        permute_output_dim_0_1: give the first chosen rows of all matrices, then the second ones, ...; as many must be
            chosen of each matrix then.

    Returns:
        One dimension: the chosen rows of the first matrix, then of the second, ...; or the other way round. Gradients
        flow to `inputs`.

    Raises:
        RuntimeError: numbers that do not fit the tensors or one another, an index that is no row.

    Example:
        >>> flat = torch.arange(10)  # (3, 2) and (2, 2)
        >>> batch_index_select_dim0(flat, torch.tensor([2, 0, 1, 1]), [2, 2], [3, 2], [2, 2])
        tensor([4, 5, 0, 1, 8, 9, 8, 9])
    """
    return OPS.batch_index_select_dim0(  # type: ignore[no-any-return]
        inputs, indices, input_num_indices, input_rows, input_columns, permute_output_dim_0_1
    )


def batch_index_select_dim0_tensor(
    inputs: Tensor,
    indices: Tensor,
    input_num_indices: Tensor,
    input_rows: Tensor,
    input_columns: Tensor,
    permute_output_dim_0_1: bool = False,
) -> Tensor:
    """`batch_index_select_dim0` with numbers in tensors (G,) of int64."""
    return OPS.batch_index_select_dim0_tensor(  # type: ignore[no-any-return]
        inputs, indices, input_num_indices, input_rows, input_columns, permute_output_dim_0_1
    )


# --- one tensor ----------------------------------------------------------------------------------------------------


def _check(input: Tensor, indices: Tensor) -> None:
    """The same sentences as native/rows.cpp."""
    if input.dim() < 1:
        raise RuntimeError(
            f"index_select_dim0: input has shape {tuple(input.shape)} and dtype {input.dtype}, expected (rows, ...)."
        )
    require_indices("index_select_dim0", "indices", indices)


def _check_rows(indices: Tensor, rows: int) -> None:
    stray = ((indices < 0) | (indices >= rows)).nonzero()
    if len(stray):
        place = int(stray[0])
        raise RuntimeError(
            f"index_select_dim0: indices has {int(indices[place])} at {place}, expected 0 to {rows - 1}: the input has "
            f"{rows} rows."
        )


def _fake(input: Tensor, indices: Tensor, start: Any = 0, length: Any = 0, skip: bool | None = None) -> Tensor:
    _check(input, indices)
    return input.new_empty((indices.shape[0], *input.shape[1:]))


def _reference(input: Tensor, indices: Tensor, start: Any = 0, length: Any = 0, skip: bool | None = None) -> Tensor:
    _check(input, indices)
    if indices.device.type == "cpu":  # elsewhere the device itself complains, without being waited for
        _check_rows(indices, input.shape[0])
    return input.contiguous()[indices]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.rows = inputs[0].shape[0]
    ctx.save_for_backward(inputs[1])


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (indices,) = ctx.saved_tensors
    return index_add_rows(grad, indices, ctx.rows), None, None, None, None


def _fake_add(grad: Tensor, indices: Tensor, rows: int) -> Tensor:
    require_indices("index_add_rows", "indices", indices)
    return grad.new_empty((rows, *grad.shape[1:]))


def _reference_add(grad: Tensor, indices: Tensor, rows: int) -> Tensor:
    require_indices("index_add_rows", "indices", indices)
    require(
        grad.dim() > 0 and grad.shape[0] == len(indices) and rows >= 0,
        f"index_add_rows: grad has shape {tuple(grad.shape)} and there are {rows} rows; expected ({len(indices)}, "
        "...): a row for each index.",
    )
    _check_rows(indices, rows)
    wide = grad.float() if grad.dtype in (torch.float16, torch.bfloat16) else grad
    return wide.new_zeros((rows, *grad.shape[1:])).index_add_(0, indices, wide).to(grad.dtype)


def _setup_context_add(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])


def _backward_add(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return index_select_dim0(grad, *ctx.saved_tensors), None, None


register_op(
    "index_select_dim0(Tensor input, Tensor indices, SymInt? consecutive_range_start=0, SymInt? "
    "consecutive_range_length=0, bool? skip_indices_sorting_fwd=None) -> Tensor",
    library=LIBRARY,
    fake=_fake,
    python=_reference,
    setup_context=_setup_context,
    backward=_backward,
)
register_op(
    "index_add_rows(Tensor grad, Tensor indices, SymInt rows) -> Tensor",
    library=LIBRARY,
    fake=_fake_add,
    python=_reference_add,
    setup_context=_setup_context_add,
    backward=_backward_add,
)

# --- a group -------------------------------------------------------------------------------------------------------


def _check_group(inputs: Sequence[Tensor], indices: Sequence[Tensor]) -> None:
    require(
        len(inputs) == len(indices),
        f"group_index_select_dim0: there are {len(inputs)} inputs and {len(indices)} tensors of indices; give one for "
        "each input.",
    )


def _fake_group(inputs: Sequence[Tensor], indices: Sequence[Tensor]) -> list[Tensor]:
    _check_group(inputs, indices)
    return [_fake(one, chosen) for one, chosen in zip(inputs, indices, strict=True)]


def _reference_group(inputs: Sequence[Tensor], indices: Sequence[Tensor]) -> list[Tensor]:
    _check_group(inputs, indices)
    return [_reference(one, chosen) for one, chosen in zip(inputs, indices, strict=True)]


def _native_group(inputs: Sequence[Tensor], indices: Sequence[Tensor]) -> list[Tensor]:
    _check_group(inputs, indices)
    outputs = []
    for table, chosen in zip(inputs, indices, strict=True):
        _check(table, chosen)
        rows = table.contiguous()
        output = torch.empty((chosen.shape[0], *table.shape[1:]), dtype=table.dtype)
        width = output.stride(0) * table.element_size() if output.numel() else 0
        _select(rows, 0, table.shape[0], width, chosen.contiguous(), output, 0, width)
        outputs.append(output)
    return outputs


def _setup_context_group(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    ctx.rows = [one.shape[0] for one in inputs[0]]
    ctx.save_for_backward(*inputs[1])


def _backward_group(ctx: Any, grads: Sequence[Tensor | None]) -> tuple[Any, ...]:
    found = [
        None if grad is None else index_add_rows(grad, indices, rows)
        for grad, indices, rows in zip(grads, ctx.saved_tensors, ctx.rows, strict=True)
    ]
    return found, [None] * len(found)


register_op(
    "group_index_select_dim0(Tensor[] input_group, Tensor[] indices_group) -> Tensor[]",
    library=LIBRARY,
    symbol=_native_group,
    fake=_fake_group,
    python=_reference_group,
    setup_context=_setup_context_group,
    backward=_backward_group,
)

# --- matrices behind one another -----------------------------------------------------------------------------------

_Numbers = Sequence[int]


def _check_batch(
    inputs: Tensor, indices: Tensor, counts: _Numbers, rows: _Numbers, columns: _Numbers, permuted: bool
) -> None:
    op = "batch_index_select_dim0"
    require_indices(op, "indices", indices)
    require(
        len(counts) == len(rows) == len(columns),
        f"{op}: input_num_indices, input_rows and input_columns have {len(counts)}, {len(rows)} and {len(columns)} "
        "numbers; give one for each matrix.",
    )
    require(inputs.dim() == 1, f"{op}: inputs has shape {tuple(inputs.shape)}, expected one dimension: flatten it.")
    if permuted:
        require(
            all(count == counts[0] for count in counts),
            f"{op}: input_num_indices has {list(counts)}; with permute_output_dim_0_1 as many rows are chosen of each.",
        )


def _check_sizes(inputs: Tensor, indices: Tensor, counts: _Numbers, rows: _Numbers, columns: _Numbers) -> None:
    size = sum(r * c for r, c in zip(rows, columns, strict=True))
    require(
        inputs.numel() == size and indices.numel() == sum(counts),
        f"batch_index_select_dim0: inputs has {inputs.numel()} numbers and indices {indices.numel()}; rows, columns "
        f"and input_num_indices say {size} and {sum(counts)}.",
    )


def _matrices(counts: _Numbers, rows: _Numbers, columns: _Numbers) -> Any:
    """Of each matrix: where it begins, rows, columns, where its indices begin, how many they are."""
    begins = [0, *accumulate(r * c for r, c in zip(rows, columns, strict=True))]
    firsts = [0, *accumulate(counts)]
    return zip(begins, rows, columns, firsts, counts, strict=False)


def _fake_batch(
    inputs: Tensor, indices: Tensor, counts: _Numbers, rows: _Numbers, columns: _Numbers, permuted: bool = False
) -> Tensor:
    _check_batch(inputs, indices, counts, rows, columns, permuted)
    return inputs.new_empty(sum(n * c for n, c in zip(counts, columns, strict=True)))


def _reference_batch(
    inputs: Tensor, indices: Tensor, counts: _Numbers, rows: _Numbers, columns: _Numbers, permuted: bool = False
) -> Tensor:
    _check_batch(inputs, indices, counts, rows, columns, permuted)
    _check_sizes(inputs, indices, counts, rows, columns)
    chosen = [
        _reference(inputs[begin : begin + r * c].view(r, c), indices[first : first + n])
        for begin, r, c, first, n in _matrices(counts, rows, columns)
    ]
    if permuted and chosen:
        return torch.cat(chosen, 1).reshape(-1)
    return torch.cat([one.reshape(-1) for one in chosen]) if chosen else inputs.new_empty(0)


def _native_batch(
    inputs: Tensor, indices: Tensor, counts: _Numbers, rows: _Numbers, columns: _Numbers, permuted: bool = False
) -> Tensor:
    _check_batch(inputs, indices, counts, rows, columns, permuted)
    _check_sizes(inputs, indices, counts, rows, columns)
    flat, chosen, size = inputs.contiguous(), indices.contiguous(), inputs.element_size()
    output = flat.new_empty(sum(n * c for n, c in zip(counts, columns, strict=True)))
    width, at = sum(columns), 0
    for begin, r, c, first, n in _matrices(counts, rows, columns):
        step = width if permuted else c
        _select(flat, begin, r, c * size, chosen[first : first + n], output, at, step * size)
        at += c if permuted else n * c
    return output


def _setup_context_batch(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.layout = inputs[2:5]
    ctx.permuted = inputs[5] if len(inputs) > 5 else False


def _backward_batch(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    add = torch.ops.flambeau_rec.batch_index_add_rows
    found = add(grad, *ctx.saved_tensors, *ctx.layout, ctx.permuted)
    return found, None, None, None, None, None


def _fake_batch_add(
    grad: Tensor, indices: Tensor, counts: _Numbers, rows: _Numbers, columns: _Numbers, permuted: bool
) -> Tensor:
    return grad.new_empty(sum(r * c for r, c in zip(rows, columns, strict=True)))


def _reference_batch_add(
    grad: Tensor, indices: Tensor, counts: _Numbers, rows: _Numbers, columns: _Numbers, permuted: bool
) -> Tensor:
    width, at, found = sum(columns), 0, [grad.new_empty(0)]
    for _, r, c, first, n in _matrices(counts, rows, columns):
        part = grad.view(n, width)[:, at : at + c] if permuted else grad[at : at + n * c].view(n, c)
        found.append(_reference_add(part, indices[first : first + n], r).reshape(-1))
        at += c if permuted else n * c
    return torch.cat(found)


def _native_batch_add(
    grad: Tensor, indices: Tensor, counts: _Numbers, rows: _Numbers, columns: _Numbers, permuted: bool
) -> Tensor:
    flow, chosen, size = grad.contiguous(), indices.contiguous(), grad.element_size()
    output = flow.new_empty(sum(r * c for r, c in zip(rows, columns, strict=True)))
    width, at = sum(columns), 0
    for begin, r, c, first, n in _matrices(counts, rows, columns):
        status = _functions().add(
            flow.data_ptr() + at * size,
            n,
            c,
            width if permuted else c,
            chosen[first : first + n].data_ptr(),
            chosen.dtype == torch.int64,
            r,
            _DTYPES.get(grad.dtype, -1),
            output.data_ptr() + begin * size,
            torch.get_num_threads(),
        )
        require(status != 1, f"batch_index_select_dim0: no memory left to sort {n} indices.")
        require(
            status == 0,
            f"batch_index_select_dim0: the gradient has dtype {grad.dtype}, expected float32, float64, float16 or "
            "bfloat16.",
        )
        at += c if permuted else n * c
    return output


_LAYOUT = "SymInt[] input_num_indices, SymInt[] input_rows, SymInt[] input_columns"
register_op(
    f"batch_index_select_dim0(Tensor inputs, Tensor indices, {_LAYOUT}, bool permute_output_dim_0_1=False) -> Tensor",
    library=LIBRARY,
    symbol=_native_batch,
    fake=_fake_batch,
    python=_reference_batch,
    setup_context=_setup_context_batch,
    backward=_backward_batch,
)
register_op(
    f"batch_index_add_rows(Tensor grad, Tensor indices, {_LAYOUT}, bool permute_output_dim_0_1) -> Tensor",
    library=LIBRARY,
    symbol=_native_batch_add,
    fake=_fake_batch_add,
    python=_reference_batch_add,
)


def _fake_tensor(
    inputs: Tensor, indices: Tensor, counts: Tensor, rows: Tensor, columns: Tensor, permuted: bool = False
) -> Tensor:
    require_indices("batch_index_select_dim0_tensor", "indices", indices)
    return inputs.new_empty(torch.library.get_ctx().new_dynamic_size())


def _by_tensor(
    inputs: Tensor, indices: Tensor, counts: Tensor, rows: Tensor, columns: Tensor, permuted: bool = False
) -> Tensor:
    select = torch.ops.flambeau_rec.batch_index_select_dim0
    return select(inputs, indices, counts.tolist(), rows.tolist(), columns.tolist(), permuted)  # type: ignore[no-any-return]


def _setup_context_tensor(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[1:5])
    ctx.permuted = inputs[5] if len(inputs) > 5 else False
    ctx.size = inputs[0].shape[0]


def _backward_tensor(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    add = torch.ops.flambeau_rec.batch_index_add_rows_tensor
    return add(grad, *ctx.saved_tensors, ctx.permuted, ctx.size), None, None, None, None, None


def _fake_tensor_add(
    grad: Tensor, indices: Tensor, counts: Tensor, rows: Tensor, columns: Tensor, permuted: bool, size: int
) -> Tensor:
    return grad.new_empty(size)


def _by_tensor_add(
    grad: Tensor, indices: Tensor, counts: Tensor, rows: Tensor, columns: Tensor, permuted: bool, size: int
) -> Tensor:
    add = torch.ops.flambeau_rec.batch_index_add_rows
    return add(grad, indices, counts.tolist(), rows.tolist(), columns.tolist(), permuted)  # type: ignore[no-any-return]


_TENSORS = "Tensor input_num_indices, Tensor input_rows, Tensor input_columns"
register_op(
    f"batch_index_select_dim0_tensor(Tensor inputs, Tensor indices, {_TENSORS}, bool permute_output_dim_0_1=False) "
    "-> Tensor",
    library=LIBRARY,
    fake=_fake_tensor,
    python=_by_tensor,
    setup_context=_setup_context_tensor,
    backward=_backward_tensor,
)
register_op(
    f"batch_index_add_rows_tensor(Tensor grad, Tensor indices, {_TENSORS}, bool permute_output_dim_0_1, SymInt size) "
    "-> Tensor",
    library=LIBRARY,
    fake=_fake_tensor_add,
    python=_by_tensor_add,
)

# --- native kernels through ctypes ---------------------------------------------------------------------------------

# `fb::DType` of kernel.h.
_DTYPES = {torch.float16: 9, torch.bfloat16: 10, torch.float32: 11, torch.float64: 12}


class _Functions:
    def __init__(self) -> None:
        pointer, size, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
        take: Callable[..., Any] = LIBRARY.function
        self.select = take(
            "fb_rec_select_rows", [pointer, size, size, pointer, number, size, pointer, size, number], size
        )
        self.add = take(
            "fb_rec_add_rows", [pointer, size, size, size, pointer, number, size, number, pointer, number], number
        )


@cache
def _functions() -> _Functions:
    return _Functions()


def _select(
    table: Tensor, begin: int, rows: int, width: int, indices: Tensor, output: Tensor, at: int, step: int
) -> None:
    """Rows of `width` bytes from the element `begin` of a table on, to the element `at` of the output on."""
    size = table.element_size()
    place = _functions().select(
        table.data_ptr() + begin * size,
        rows,
        width,
        indices.data_ptr(),
        indices.dtype == torch.int64,
        indices.numel(),
        output.data_ptr() + at * size,
        step,
        torch.get_num_threads(),
    )
    if place >= 0:
        _check_rows(indices, rows)
