"""Rows of a jagged tensor cut: a piece of each, or its beginning.

The native kernel is in `native/jagged_selection.cpp`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._jagged_layout import check_total, check_whole
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = ["jagged_1d_to_truncated_values", "jagged_slice"]


def jagged_slice(x_values: Tensor, x_lengths: Tensor, start: Tensor, slice_length: int) -> tuple[Tensor, Tensor]:
    """Cut a piece out of each row.

    Args:
        x_values: (L, ...), any dtype.
        x_lengths: (rows,) int32 or int64, adding up to L.
        start: (rows,) int32 or int64: the first item of each piece, within its row.
        slice_length: items of a piece; pieces end with their rows.

    Returns:
        Items (L', ...) and lengths (rows,).

    Raises:
        RuntimeError: a piece that begins before or behind its row, or lengths that do not fit.

    Example:
        >>> jagged_slice(torch.tensor([1, 2, 3, 4]), torch.tensor([3, 1]), torch.tensor([1, 0]), 2)
        (tensor([2, 3, 4]), tensor([2, 1]))
    """
    return OPS.jagged_slice(x_values, x_lengths, start, slice_length)  # type: ignore[no-any-return]


def jagged_1d_to_truncated_values(values: Tensor, lengths: Tensor, max_truncated_length: int) -> Tensor:
    """The first items of each row.

    Args:
        values: (L, ...), any dtype.
        lengths: (rows,) int32 or int64, adding up to at most L.
        max_truncated_length: items of a row that stay.

    Returns:
        (L', ...).

    Raises:
        RuntimeError: lengths that are negative or add up to more than L.
    """
    return OPS.jagged_1d_to_truncated_values(values, lengths, max_truncated_length)  # type: ignore[no-any-return]


def _exclusive(lengths: Tensor) -> Tensor:
    return lengths.long().cumsum(0) - lengths.long()


def _check_slice(values: Tensor, lengths: Tensor, source: Tensor, made: Tensor, target: Tensor) -> None:
    if values.dim() < 1:
        raise RuntimeError(f"jagged_slice: values has shape {tuple(values.shape)}, expected (items, ...).")
    for what, tensor in (
        ("x_lengths", lengths), ("src_start", source), ("output_lengths", made), ("tgt_start", target)
    ):  # fmt: skip
        check_whole("jagged_slice", what, tensor)
        if tensor.shape[0] != lengths.shape[0]:
            raise RuntimeError(
                f"jagged_slice: {what} has {tensor.shape[0]} entries, expected {lengths.shape[0]} as x_lengths."
            )


def _slice(
    values: Tensor, lengths: Tensor, source: Tensor, made: Tensor, target: Tensor, items: int, most: int, fill: bool
) -> Tensor:
    _check_slice(values, lengths, source, made, target)
    check_total("jagged_slice", values, lengths)
    result = values.new_zeros((items, *values.shape[1:]))
    counts = torch.minimum(lengths - source, made - target).clamp(0, max(most, 0)).long()
    place = torch.arange(int(counts.sum()), device=values.device) - _exclusive(counts).repeat_interleave(counts)
    from_, to = ((_exclusive(of) + at).repeat_interleave(counts) for of, at in ((lengths, source), (made, target)))
    result[to + place] = values[from_ + place]
    return result


def _fake_slice(
    values: Tensor, lengths: Tensor, source: Tensor, made: Tensor, target: Tensor, items: int, most: int, fill: bool
) -> Tensor:
    _check_slice(values, lengths, source, made, target)
    return values.new_empty((items, *values.shape[1:]))


def _keep_slice(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    values, *whole = inputs
    ctx.save_for_backward(*whole[:4])
    ctx.items, ctx.most = values.shape[0], inputs[6]


def _slice_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    lengths, source, made, target = ctx.saved_tensors
    back = torch.ops.flambeau_rec.jagged_slice_forward
    return back(grad, made, target, lengths, source, ctx.items, ctx.most, True), *(None,) * 7


register_op(
    "jagged_slice_forward(Tensor x_values, Tensor x_lengths, Tensor src_start, Tensor output_lengths, "
    "Tensor tgt_start, SymInt num_output_rows, SymInt slice_length, bool fill_zeros) -> Tensor",
    library=LIBRARY,
    fake=_fake_slice,
    python=_slice,
    setup_context=_keep_slice,
    backward=_slice_gradient,
)


def _check_pieces(values: Tensor, lengths: Tensor, start: Tensor, most: int) -> None:
    _check_slice(values, lengths, start, lengths, start)
    if most < 0:
        raise RuntimeError(f"jagged_slice: slice_length is {most}, expected 0 or more.")


def _fake_pieces(values: Tensor, lengths: Tensor, start: Tensor, most: int) -> tuple[Tensor, Tensor]:
    _check_pieces(values, lengths, start, most)
    count = torch.library.get_ctx().new_dynamic_size()
    return values.new_empty((count, *values.shape[1:])), lengths.new_empty(lengths.shape)


def _pieces(values: Tensor, lengths: Tensor, start: Tensor, most: int) -> tuple[Tensor, Tensor]:
    _check_pieces(values, lengths, start, most)
    wrong = (start < 0) | (start > lengths)
    if bool(wrong.any()):
        at = int(wrong.nonzero()[0])
        raise RuntimeError(
            f"jagged_slice: start has {int(start[at])} at {at}, expected 0 to {int(lengths[at])}, the length of the "
            "row."
        )
    check_total("jagged_slice", values, lengths)
    made = (lengths - start).clamp(max=most).to(lengths.dtype)
    return _slice(values, lengths, start, made, torch.zeros_like(start), int(made.sum()), most, False), made


def _keep_pieces(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    values, lengths, start, ctx.most = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(lengths, start, output[1])
    ctx.items = values.shape[0]


def _pieces_gradient(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    lengths, start, made = ctx.saved_tensors
    back = torch.ops.flambeau_rec.jagged_slice_forward
    flow = back(grad, made, torch.zeros_like(start), lengths, start, ctx.items, ctx.most, True)
    return flow, None, None, None


register_op(
    "jagged_slice(Tensor x_values, Tensor x_lengths, Tensor start, int slice_length) -> (Tensor, Tensor)",
    library=LIBRARY,
    fake=_fake_pieces,
    python=_pieces,
    setup_context=_keep_pieces,
    backward=_pieces_gradient,
)


def _check_truncated(values: Tensor, lengths: Tensor) -> None:
    if values.dim() < 1:
        raise RuntimeError(
            f"jagged_1d_to_truncated_values: values has shape {tuple(values.shape)}, expected (items, ...)."
        )
    check_whole("jagged_1d_to_truncated_values", "lengths", lengths)


def _fake_truncated(values: Tensor, lengths: Tensor, most: int) -> Tensor:
    _check_truncated(values, lengths)
    return values.new_empty((torch.library.get_ctx().new_dynamic_size(), *values.shape[1:]))


def _truncated(values: Tensor, lengths: Tensor, most: int) -> Tensor:
    _check_truncated(values, lengths)
    check_total("jagged_1d_to_truncated_values", values, lengths)
    cut, start = lengths.clamp(0, max(most, 0)), torch.zeros_like(lengths)
    return _slice(values, lengths, start, cut, start, int(cut.sum()), max(most, 0), False)


def _keep_truncated(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.items, ctx.most = inputs[0].shape[0], inputs[2]


def _truncated_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (lengths,) = ctx.saved_tensors
    start, back = torch.zeros_like(lengths), torch.ops.flambeau_rec.jagged_slice_forward
    made = lengths.clamp(max=ctx.most)
    return back(grad, made, start, lengths, start, ctx.items, ctx.most, True), None, None


register_op(
    "jagged_1d_to_truncated_values(Tensor values, Tensor lengths, int max_truncated_length) -> Tensor",
    library=LIBRARY,
    fake=_fake_truncated,
    python=_truncated,
    setup_context=_keep_truncated,
    backward=_truncated_gradient,
)
