"""Rows of a jagged tensor chosen and added up, and items chosen by a mask.

The native kernels are `native/jagged_selection.cpp`. Offsets of selections are running sums of lengths without the
leading 0, as FBGEMM's are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._jagged_layout import NUMBERS, check_total, check_whole
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = ["jagged_index_select", "masked_select_jagged_1d"]


def jagged_index_select(
    values: Tensor, lengths: Tensor, indices: Tensor, num_dense_output_rows: int | None = None
) -> list[Tensor]:
    """Choose rows.

    Args:
        values: (L, ...), any dtype: the items of all rows, row after row.
        lengths: (rows,) int32 or int64: items of each row.
        indices: (chosen,) int32 or int64: the rows wanted, in order; any may be left out or repeated.
        num_dense_output_rows: how many items are chosen, where it is known, which spares waiting for an accelerator.

    Returns:
        Items (L', ...) and lengths (chosen,). Gradients of rows that are repeated add up.

    Raises:
        RuntimeError: a row that there is not, or shapes and lengths that do not fit.

    Example:
        >>> jagged_index_select(torch.tensor([1, 2, 3]), torch.tensor([2, 1]), torch.tensor([1, 0, 1]))
        [tensor([3, 1, 2, 3]), tensor([1, 2, 1])]
    """
    return OPS.jagged_index_select(values, lengths, indices, num_dense_output_rows)  # type: ignore[no-any-return]


def masked_select_jagged_1d(
    values: Tensor, lengths: Tensor, mask: Tensor, check_length: bool | None = False
) -> tuple[Tensor, Tensor]:
    """The items where a mask is true.

    Args:
        values: (L,), any dtype.
        lengths: (rows,) int32 or int64.
        mask: (L,), bool.
        check_length: whether lengths must add up to L; items behind the last row belong to no row otherwise.

    Returns:
        Items (L',), and how many of them each row has, (rows,).

    Raises:
        RuntimeError: shapes or dtypes that do not fit, or lengths that add up to more than L.
    """
    return OPS.masked_select_jagged_1d(values, lengths, mask, check_length)  # type: ignore[no-any-return]


# --- rows -----------------------------------------------------------------------------------------

_SELECT, _ADD = "jagged_index_select", "jagged_index_add_2d"


def _check_rows(op: str, values: Tensor, indices: Tensor, inputs: Tensor, outputs: Tensor) -> None:
    if values.dim() < 1:
        raise RuntimeError(f"{op}: values has shape {tuple(values.shape)}, expected (items, ...).")
    for what, tensor in (("indices", indices), ("input_offsets", inputs), ("output_offsets", outputs)):
        check_whole(op, what, tensor)


def _sources(op: str, indices: Tensor, chosen: Tensor, every: Tensor) -> Tensor:
    """Of each item of the rows chosen its place among all items; both sides are given by where rows end."""
    rows, order = len(every), indices.long()
    if order.device.type == "cpu":
        wrong = (order < 0) | (order >= rows)
        if bool(wrong.any()):
            at = int(wrong.nonzero()[0])
            raise RuntimeError(
                f"{op}: indices has {int(order[at])} at {at}, expected 0 to {rows - 1}: there are {rows} rows."
            )
    if len(order) != len(chosen):
        raise RuntimeError(f"{op}: indices has {len(order)} entries for {len(chosen)} chosen rows, expected as many.")
    if not len(order):
        return order
    starts = torch.cat([every.new_zeros(1), every[:-1]]).long()
    firsts = torch.cat([chosen.new_zeros(1), chosen[:-1]]).long()
    counts = chosen.long() - firsts
    if order.device.type == "cpu" and not torch.equal(counts, (every.long() - starts)[order]):
        raise RuntimeError(f"{op}: a row has another number of items where it is chosen than where it comes from.")
    total = int(chosen[-1])
    return torch.arange(total, device=order.device) + (starts[order] - firsts).repeat_interleave(
        counts, output_size=total
    )


def _select(values: Tensor, indices: Tensor, inputs: Tensor, outputs: Tensor, count: int | None = None) -> Tensor:
    _check_rows(_SELECT, values, indices, inputs, outputs)
    sources = _sources(_SELECT, indices, outputs, inputs)
    total = len(sources) if count is None else count
    if total < len(sources):
        raise RuntimeError(
            f"{_SELECT}: num_dense_output_rows is {total}, expected {len(sources)}: as many items are chosen."
        )
    selected = values[sources]
    return torch.cat([selected, values.new_zeros((total - len(sources), *values.shape[1:]))])


def _index_add(values: Tensor, indices: Tensor, inputs: Tensor, outputs: Tensor, made: int, given: int) -> Tensor:
    _check_rows(_ADD, values, indices, inputs, outputs)
    if given > values.shape[0]:
        raise RuntimeError(
            f"{_ADD}: num_dense_input_rows is {given}, but values has {values.shape[0]} items."
        )  # fmt: skip
    if values.dtype not in NUMBERS:
        raise RuntimeError(f"{_ADD}: values is {values.dtype}, expected a floating dtype, int32 or int64; convert it.")
    targets = _sources(_ADD, indices, inputs, outputs)
    wide = values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
    sums = wide.new_zeros((made, *values.shape[1:]))
    return sums.index_add(0, targets, wide[: len(targets)]).to(values.dtype)


def _fake_select(values: Tensor, indices: Tensor, inputs: Tensor, outputs: Tensor, count: Any = None) -> Tensor:
    _check_rows(_SELECT, values, indices, inputs, outputs)
    total = torch.library.get_ctx().new_dynamic_size() if count is None else count
    return values.new_empty((total, *values.shape[1:]))


def _fake_index_add(values: Tensor, indices: Tensor, inputs: Tensor, outputs: Tensor, made: int, given: int) -> Tensor:
    _check_rows(_ADD, values, indices, inputs, outputs)
    return values.new_empty((made, *values.shape[1:]))


def _keep_rows(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    values, indices, before, after = inputs[:4]
    ctx.save_for_backward(indices, before, after)
    ctx.items, ctx.arguments = values.shape[0], len(inputs)


def _select_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    indices, before, after = ctx.saved_tensors
    add = torch.ops.flambeau_rec.jagged_index_add_2d_forward_v2
    # How many items there are to add, the ends of rows say as well; the size of `grad` is not always known while
    # tracing.
    return add(grad, indices, after, before, ctx.items, 0), *(None,) * (ctx.arguments - 1)


def _index_add_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    indices, before, after = ctx.saved_tensors
    select = torch.ops.flambeau_rec.jagged_index_select_2d_forward_v2
    return select(grad, indices, after, before, ctx.items), *(None,) * (ctx.arguments - 1)


_ROWS = "Tensor values, Tensor indices, Tensor input_offsets, Tensor output_offsets"
for _schema, _twin, _python, _backward in (
    ("select_2d_forward({}, int num_dense_output_rows)", _fake_select, _select, _select_gradient),
    ("select_2d_forward_v2({}, int? num_dense_output_rows=None)", _fake_select, _select, _select_gradient),
    (
        "add_2d_forward({}, int num_dense_input_rows, int num_output_rows)",
        lambda values, indices, before, after, given, made: _fake_index_add(
            values, indices, before, after, made, given
        ),
        lambda values, indices, before, after, given, made: _index_add(values, indices, before, after, made, given),
        _index_add_gradient,
    ),
    (
        "add_2d_forward_v2({}, SymInt num_output_rows, SymInt num_dense_input_rows)",
        _fake_index_add, _index_add, _index_add_gradient,
    ),
):  # fmt: skip
    register_op(
        f"jagged_index_{_schema.format(_ROWS)} -> Tensor",
        library=LIBRARY,
        fake=_twin,
        python=_python,
        setup_context=_keep_rows,
        backward=_backward,
    )


def _choose(values: Tensor, lengths: Tensor, indices: Tensor, count: int | None = None) -> list[Tensor]:
    check_whole(_SELECT, "lengths", lengths)
    check_whole(_SELECT, "indices", indices)
    chosen = lengths.index_select(0, indices)
    select = torch.ops.flambeau_rec.jagged_index_select_2d_forward_v2
    return [select(values, indices, lengths.cumsum(0), chosen.cumsum(0), count), chosen]


register_composite(
    "jagged_index_select(Tensor values, Tensor lengths, Tensor indices, int? num_dense_output_rows=None) -> Tensor[]",
    _choose,
)

# --- items ----------------------------------------------------------------------------------------


def _check_masked(values: Tensor, lengths: Tensor, mask: Tensor) -> None:
    op = "masked_select_jagged_1d"
    if values.dim() != 1:
        raise RuntimeError(f"{op}: values has shape {tuple(values.shape)}, expected (items,).")
    check_whole(op, "lengths", lengths)
    if mask.dtype != torch.bool or mask.shape != values.shape:
        raise RuntimeError(
            f"{op}: mask has shape {tuple(mask.shape)} and dtype {mask.dtype}, expected ({values.shape[0]},) of "
            "torch.bool."
        )


def _fake_masked(values: Tensor, lengths: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    _check_masked(values, lengths, mask)
    return values.new_empty(torch.library.get_ctx().new_dynamic_size()), lengths.new_empty(lengths.shape)


def _masked(values: Tensor, lengths: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    _check_masked(values, lengths, mask)
    check_total("masked_select_jagged_1d", values, lengths)
    sums = torch.cat([mask.new_zeros(1, dtype=torch.int64), mask.cumsum(0)])
    ends = lengths.long().cumsum(0)
    return values[mask], (sums[ends] - sums[ends - lengths.long()]).to(lengths.dtype)


def _keep_masked(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(inputs[2])
    ctx.mark_non_differentiable(output[1])


def _masked_gradient(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    (mask,) = ctx.saved_tensors
    return grad.new_zeros(mask.shape).masked_scatter(mask, grad), None, None


register_op(
    "_masked_select_jagged_1d(Tensor values, Tensor lengths, Tensor mask) -> (Tensor, Tensor)",
    library=LIBRARY,
    fake=_fake_masked,
    python=_masked,
    setup_context=_keep_masked,
    backward=_masked_gradient,
)


def _masked_checked(values: Tensor, lengths: Tensor, mask: Tensor, check_length: bool | None = False) -> Any:
    if check_length:
        # An assertion that can be traced, and that accelerators need not be waited for.
        message = f"masked_select_jagged_1d: lengths do not add up to {values.shape[0]}: one for each item."
        torch._assert_async(lengths.sum() == values.shape[0], message)
    return OPS._masked_select_jagged_1d(values, lengths, mask)


register_composite(
    "masked_select_jagged_1d(Tensor values, Tensor lengths, Tensor mask, bool? check_length=False) -> (Tensor, Tensor)",
    _masked_checked,
)
