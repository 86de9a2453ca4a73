"""Numbers counted anew in every segment, and permutations spelled out: what lengths and offsets stand for.

The native kernels are in `native/ranges.cpp`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._checks import INDICES, require, require_indices
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = [
    "expand_into_jagged_permute",
    "get_source_mask",
    "invert_permute",
    "lengths_range",
    "offsets_range",
    "repeat_arange",
    "segment_sum_csr",
]


def offsets_range(offsets: Tensor, range_size: int) -> Tensor:
    """The place of each item in its segment, of segments that are given by their beginnings.

    Args:
        offsets: (n,) int32 or int64, not decreasing, from 0 to `range_size`: where each segment begins.
        range_size: L, where the last one ends.

    Returns:
        (L,) of the same dtype.

    Raises:
        RuntimeError: offsets that decrease or lie outside, another shape or dtype.

    Example:
        >>> offsets_range(torch.tensor([0, 2, 2, 5]), 7)
        tensor([0, 1, 0, 1, 2, 0, 1])
    """
    return OPS.offsets_range(offsets, range_size)  # type: ignore[no-any-return]


def lengths_range(t_in: Tensor, shape: Sequence[int] | None = None) -> Tensor:
    """The place of each item in its segment, of segments that are given by their lengths.

    Args:
        t_in: (n,) int32 or int64, not negative, L in all.
        shape: sizes whose product is the size of the result; items that there are not are 0, those beyond are left out.

    Returns:
        (L,) of the same dtype, or (product of `shape`,).

    Raises:
        RuntimeError: a negative length, another shape or dtype.

    Example:
        >>> lengths_range(torch.tensor([2, 0, 3]))
        tensor([0, 1, 0, 1, 2])
    """
    return OPS.lengths_range(t_in, shape)  # type: ignore[no-any-return]


def repeat_arange(lengths: Tensor) -> Tensor:
    """`lengths_range` without a shape.

    Args:
        lengths: int32 or int64 of any shape, not negative, L in all.

    Returns:
        (L,) of the same dtype.

    Raises:
        RuntimeError: a negative length, another dtype.
    """
    return OPS.repeat_arange(lengths)  # type: ignore[no-any-return]


def invert_permute(permute: Tensor) -> Tensor:
    """The permutation that takes another one back.

    Args:
        permute: (n,) int32 or int64, each of 0 to n - 1 once.

    Returns:
        (n,) of the same dtype; at `permute[i]` it has i.

    Raises:
        RuntimeError: it is no permutation.

    Example:
        >>> invert_permute(torch.tensor([3, 0, 2, 1]))
        tensor([1, 3, 2, 0])
    """
    return OPS.invert_permute(permute)  # type: ignore[no-any-return]


def expand_into_jagged_permute(
    permute: Tensor, input_offset: Tensor, output_offset: Tensor, output_size: int
) -> Tensor:
    """What a permutation of rows is as a permutation of their items.

    Args:
        permute: (rows',) int32 or int64: the row of the input that each row of the output is.
        input_offset: (rows + 1,) where each row of the input begins, and where the last ends.
        output_offset: (rows' + 1,) the same for the output.
        output_size: items of the output.

    Returns:
        (output_size,) of the dtype of `input_offset`: the item of the input that each item of the output is.

    Raises:
        RuntimeError: rows that there are not, offsets that decrease or do not fit.

    Example:
        >>> expand_into_jagged_permute(torch.tensor([1, 0]), torch.tensor([0, 2, 5]), torch.tensor([0, 3, 5]), 5)
        tensor([2, 3, 4, 0, 1])
    """
    return OPS.expand_into_jagged_permute(permute, input_offset, output_offset, output_size)  # type: ignore[no-any-return]


def segment_sum_csr(batch_size: int, csr_seg: Tensor, values: Tensor) -> Tensor:
    """Sums over segments of a batch.

    Args:
        batch_size: numbers to each unit of `csr_seg`.
        csr_seg: (segments + 1,) int32 or int64, not decreasing: where segments end, in units.
        values: numbers in order, any shape; int32, int64 or floating. Halves are added up in float32 and rounded once.

    Returns:
        (segments,) of the dtype of `values`. Gradients flow to floating values.

    Raises:
        RuntimeError: segments beyond the values, another shape or dtype.

    Example:
        >>> segment_sum_csr(2, torch.tensor([0, 1, 3]), torch.arange(6.0))
        tensor([ 1., 14.])
    """
    return OPS.segment_sum_csr(batch_size, csr_seg, values)  # type: ignore[no-any-return]


def get_source_mask(num_sources: Tensor, num_targets: Tensor, output_size: int) -> Tensor:
    """Which items are sources, of rows that have sources first and targets behind them.

    Args:
        num_sources: (rows,) int32 or int64, not negative.
        num_targets: (rows,) alike.
        output_size: the sum of both.

    Returns:
        (output_size,) bool.

    Raises:
        RuntimeError: numbers that are negative or more than `output_size`, another shape or dtype.

    Example:
        >>> get_source_mask(torch.tensor([2, 0]), torch.tensor([1, 1]), 4)
        tensor([ True,  True, False, False])
    """
    return OPS.get_source_mask(num_sources, num_targets, output_size)  # type: ignore[no-any-return]


# --- segments -----------------------------------------------------------------------------------------------------


def _places(ends: Tensor, lengths: Tensor, count: int) -> Tensor:
    """The place of each of `count` items in its segment; 0 behind the last."""
    if not len(ends):
        return lengths.new_zeros(count)
    items = torch.arange(count, device=ends.device)
    segments = torch.searchsorted(ends, items, right=True)
    inside = segments < len(ends)
    starts = (ends - lengths)[segments.clamp(max=len(ends) - 1)]
    return torch.where(inside, items - starts, 0).to(lengths.dtype)


def _fake_offsets_range(offsets: Tensor, range_size: int) -> Tensor:
    require_indices("offsets_range", "offsets", offsets)
    return offsets.new_empty(range_size)


def _offsets_range(offsets: Tensor, range_size: int) -> Tensor:
    require_indices("offsets_range", "offsets", offsets)
    require(range_size >= 0, f"offsets_range: range_size is {range_size}, expected at least 0.")
    ends = torch.cat([offsets, offsets.new_tensor([range_size])])
    require(
        (ends[:-1] >= 0) & (ends[:-1] <= ends[1:]),
        f"offsets_range: offsets do not decrease, from 0 to range_size, which is {range_size}.",
    )
    before = ends.new_zeros(1) if not len(offsets) else ends[:1]
    return _places(ends, torch.cat([before, ends.diff()]), range_size)


def _fake_repeat_arange(lengths: Tensor) -> Tensor:
    if lengths.dtype not in INDICES:
        raise RuntimeError(
            f"repeat_arange: lengths has shape {tuple(lengths.shape)} and dtype {lengths.dtype}, expected int32 or "
            "int64."
        )
    return lengths.new_empty(torch.library.get_ctx().new_dynamic_size())


def _repeat_arange(lengths: Tensor) -> Tensor:
    require(lengths.dtype in INDICES, f"repeat_arange: lengths has dtype {lengths.dtype}, expected int32 or int64.")
    require(lengths >= 0, "repeat_arange: lengths has a negative number, expected at least 0.")
    flat = lengths.reshape(-1)
    ends = flat.cumsum(0)
    return _places(ends, flat, int(ends[-1]) if len(ends) else 0)


def _lengths_range(t_in: Tensor, shape: Sequence[int] | None = None) -> Tensor:
    require_indices("lengths_range", "t_in", t_in)
    if shape is None:
        return repeat_arange(t_in)
    return _places(t_in.cumsum(0), t_in, math.prod(shape))


def _lengths_range_out(output: Tensor, t_in: Tensor, shape: Sequence[int] | None = None) -> Tensor:
    result = lengths_range(t_in, shape)
    return output.resize_(result.shape).copy_(result)


# --- permutations --------------------------------------------------------------------------------------------------


def _fake_invert_permute(permute: Tensor) -> Tensor:
    require_indices("invert_permute", "permute", permute)
    return torch.empty_like(permute, memory_format=torch.contiguous_format)


def _invert_permute(permute: Tensor) -> Tensor:
    require_indices("invert_permute", "permute", permute)
    count = len(permute)
    items = torch.arange(count, dtype=permute.dtype, device=permute.device)
    require(
        permute.sort().values == items,
        f"invert_permute: permute has {permute.tolist() if count < 9 else '...'}, expected each of 0 to {count - 1} "
        "once.",
    )
    return torch.empty_like(items).scatter_(0, permute.long(), items)


def _fake_expand(permute: Tensor, input_offset: Tensor, output_offset: Tensor, output_size: int) -> Tensor:
    for name, tensor in (("permute", permute), ("input_offset", input_offset), ("output_offset", output_offset)):
        require_indices("expand_into_jagged_permute", name, tensor)
    return input_offset.new_empty(output_size)


def _expand(permute: Tensor, input_offset: Tensor, output_offset: Tensor, output_size: int) -> Tensor:
    _fake_expand(permute, input_offset, output_offset, 0)
    rows, known, order = len(permute), len(input_offset) - 1, permute.long()
    require(
        known >= 0 and len(output_offset) == rows + 1 and output_size >= 0,
        f"expand_into_jagged_permute: input_offset has shape {tuple(input_offset.shape)}, output_offset "
        f"{tuple(output_offset.shape)} and output_size is {output_size}; expected one offset more than there are rows, "
        f"which are {rows}.",
    )
    begins, ends = output_offset[:-1], output_offset[1:]
    require(
        (order >= 0) & (order < known) & (begins >= 0) & (begins <= ends) & (ends <= output_size),
        f"expand_into_jagged_permute: a row is none of the {known} of the input, or does not end within {output_size}.",
    )
    items = torch.arange(output_size, device=permute.device)
    if not rows:
        return torch.zeros_like(items, dtype=input_offset.dtype)
    row = torch.searchsorted(ends, items, right=True).clamp(max=rows - 1)
    covered = (items >= begins[row]) & (items < ends[row])
    found = input_offset[order][row] + items - begins[row]
    return torch.where(covered, found, 0).to(input_offset.dtype)


# --- sums and masks ------------------------------------------------------------------------------------------------

_SUMMED = (torch.int32, torch.int64, torch.float32, torch.float64, torch.float16, torch.bfloat16)


def _fake_segment_sum(batch_size: int, csr_seg: Tensor, values: Tensor) -> Tensor:
    require_indices("segment_sum_csr", "csr_seg", csr_seg)
    if values.dtype not in _SUMMED:
        raise RuntimeError(
            f"segment_sum_csr: values has dtype {values.dtype}, expected int32, int64 or a floating dtype; convert it."
        )
    return values.new_empty(csr_seg.shape[0] - 1)


def _segment_sum(batch_size: int, csr_seg: Tensor, values: Tensor) -> Tensor:
    require_indices("segment_sum_csr", "csr_seg", csr_seg)
    require(len(csr_seg) > 0, "segment_sum_csr: csr_seg is empty, expected the ends of segments from 0.")
    require(batch_size >= 0, f"segment_sum_csr: batch_size is {batch_size}, expected at least 0.")
    output = _fake_segment_sum(batch_size, csr_seg, values).zero_()
    flat, ends = values.reshape(-1), csr_seg.long() * batch_size
    require(
        (csr_seg[:-1] >= 0) & (csr_seg[:-1] <= csr_seg[1:]) & (ends[1:] <= len(flat)),
        f"segment_sum_csr: segments go beyond the {len(flat)} values, or their ends decrease.",
    )
    summed = flat[int(ends[0]) : int(ends[-1])]
    if output.dtype in (torch.float16, torch.bfloat16):
        return output.float().index_add_(0, _segments(ends), summed.float()).to(output.dtype)
    return output.index_add_(0, _segments(ends), summed)


def _segments(ends: Tensor) -> Tensor:
    """The segment of each item from the first one's beginning to the last one's end."""
    return torch.arange(len(ends) - 1, device=ends.device).repeat_interleave(ends.diff())


def _segment_sum_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    ctx.batch_size, csr_seg, values = inputs
    ctx.shape = values.shape
    ctx.save_for_backward(csr_seg)


def _segment_sum_backward(ctx, grad: Tensor):  # type: ignore[no-untyped-def]
    (csr_seg,) = ctx.saved_tensors
    ends = csr_seg.long() * ctx.batch_size
    items = torch.arange(math.prod(ctx.shape), device=grad.device)
    # Which segment an item is in does not need to know how many there are, so that it can be traced.
    segment = torch.searchsorted(ends, items, right=True) - 1
    inside = (segment >= 0) & (segment < grad.shape[0])
    padded = torch.cat([grad, grad.new_zeros(1)])
    return None, None, padded[torch.where(inside, segment, grad.shape[0])].reshape(ctx.shape)


def _fake_source_mask(num_sources: Tensor, num_targets: Tensor, output_size: int) -> Tensor:
    require_indices("get_source_mask", "num_sources", num_sources)
    require_indices("get_source_mask", "num_targets", num_targets)
    return num_sources.new_empty(output_size, dtype=torch.bool)


def _source_mask(num_sources: Tensor, num_targets: Tensor, output_size: int) -> Tensor:
    _fake_source_mask(num_sources, num_targets, 0)
    require(
        num_sources.shape == num_targets.shape and output_size >= 0,
        f"get_source_mask: num_sources has shape {tuple(num_sources.shape)}, num_targets {tuple(num_targets.shape)} "
        f"and output_size is {output_size}; expected one number of targets for each of sources.",
    )
    counts = torch.stack([num_sources, num_targets], 1).reshape(-1) if len(num_sources) else num_sources
    require(
        bool((counts >= 0).all()) and int(counts.sum()) <= output_size,
        f"get_source_mask: there are {counts.tolist() if len(counts) < 9 else '...'} sources and targets in turn, "
        f"expected numbers of at least 0 that add up to output_size, which is {output_size}.",
    )
    source = torch.tensor([True, False], device=counts.device).repeat(len(num_sources)).repeat_interleave(counts.long())
    return torch.cat([source, source.new_zeros(output_size - len(source))])


register_op(
    "offsets_range(Tensor offsets, SymInt range_size) -> Tensor",
    library=LIBRARY,
    fake=_fake_offsets_range,
    python=_offsets_range,
)
register_op("repeat_arange(Tensor lengths) -> Tensor", library=LIBRARY, fake=_fake_repeat_arange, python=_repeat_arange)
register_composite("lengths_range(Tensor t_in, SymInt[]? shape=None) -> Tensor", _lengths_range)
register_composite("lengths_range_out(Tensor output, Tensor t_in, SymInt[]? shape=None) -> Tensor", _lengths_range_out)
register_op(
    "invert_permute(Tensor permute) -> Tensor", library=LIBRARY, fake=_fake_invert_permute, python=_invert_permute
)
register_op(
    "expand_into_jagged_permute(Tensor permute, Tensor input_offset, Tensor output_offset, SymInt output_size) "
    "-> Tensor",
    library=LIBRARY,
    fake=_fake_expand,
    python=_expand,
)
register_op(
    "segment_sum_csr(SymInt batch_size, Tensor csr_seg, Tensor values) -> Tensor",
    library=LIBRARY,
    fake=_fake_segment_sum,
    python=_segment_sum,
    setup_context=_segment_sum_context,
    backward=_segment_sum_backward,
)
register_op(
    "get_source_mask(Tensor num_sources, Tensor num_targets, SymInt output_size) -> Tensor",
    library=LIBRARY,
    fake=_fake_source_mask,
    python=_source_mask,
)
