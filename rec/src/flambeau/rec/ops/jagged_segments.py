"""Segments packed into rows of one length.

They are jagged rows given by their lengths; `jagged_conversion` does the work.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._jagged_layout import NUMBERS, check_whole
from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.cumsum import asynchronous_complete_cumsum
from flambeau.rec.ops.jagged_conversion import one_to_dense, one_to_jagged

__all__ = ["pack_segments", "pack_segments_v2"]


def pack_segments(t_in: Tensor, lengths: Tensor, max_length: int) -> Tensor:
    """Lay segments into rows of one length, padded with 0.

    Args:
        t_in: (L, ...), floating, int32 or int64: the items of all segments, one after the other.
        lengths: (segments,) int32 or int64: items of each, adding up to at most L.
        max_length: size of the result's second dimension, at least 1; longer segments are cut.

    Returns:
        (segments, max_length, ...). Its gradient flows to the items that are there.

    Raises:
        RuntimeError: shapes or dtypes that do not fit, lengths that are negative or add up to more than L.

    Example:
        >>> pack_segments(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2, 1]), 2)
        tensor([[1., 2.],
                [3., 0.]])
    """
    return OPS.pack_segments(t_in, lengths, max_length)  # type: ignore[no-any-return]


def pack_segments_v2(
    t_in: Tensor, lengths: Tensor, max_length: int, pad_minf: bool = False, return_presence_mask: bool = False
) -> tuple[Tensor, Tensor | None]:
    """`pack_segments` with a choice of padding, and where there is an item.

    Args:
        t_in: (L, ...), floating, int32 or int64.
        lengths: (segments,) int32 or int64.
        max_length: size of the result's second dimension, at least 1.
        pad_minf: pad with minus infinity, as for a softmax; floating dtypes only.
        return_presence_mask: whether to give the mask.

    Returns:
        (segments, max_length, ...), and (segments, max_length) of bool, or None.

    Raises:
        RuntimeError: as for `pack_segments`.
    """
    return OPS.pack_segments_v2(t_in, lengths, max_length, pad_minf, return_presence_mask)  # type: ignore[no-any-return]


def _check(op: str, lengths: Tensor, max_length: Any) -> None:
    check_whole(op, "lengths", lengths)
    if isinstance(max_length, int) and max_length < 1:
        raise RuntimeError(f"{op}: max_length is {max_length}, expected 1 or more.")


def _pack(op: str, t_in: Tensor, lengths: Tensor, max_length: int, padding: float = 0.0) -> Tensor:
    _check(op, lengths, max_length)
    if t_in.dtype not in NUMBERS:
        raise RuntimeError(f"{op}: t_in is {t_in.dtype}, expected a floating dtype, int32 or int64; convert it.")
    if padding and not t_in.is_floating_point():
        raise RuntimeError(f"{op}: pad_minf is True, but t_in is {t_in.dtype}, which has no infinity; convert t_in.")
    return one_to_dense(t_in, asynchronous_complete_cumsum(lengths), max_length, padding)


def _pack_v2(
    t_in: Tensor, lengths: Tensor, max_length: int, pad_minf: bool = False, return_presence_mask: bool = False
) -> tuple[Tensor, Tensor | None]:
    packed = _pack("pack_segments_v2", t_in, lengths, max_length, float("-inf") if pad_minf else 0.0)
    if not return_presence_mask:
        return packed, None
    return packed, torch.arange(max_length, device=lengths.device) < lengths[:, None]


def _unpack(data: Tensor, lengths: Tensor, total_length: int, max_length: int) -> Tensor:
    _check("pack_segments_backward", lengths, max_length)
    return one_to_jagged(data, asynchronous_complete_cumsum(lengths), total_length)


register_composite(
    "pack_segments(Tensor t_in, Tensor lengths, SymInt max_length) -> Tensor",
    lambda t_in, lengths, max_length: _pack("pack_segments", t_in, lengths, max_length),
)
register_composite(
    "pack_segments_v2(Tensor t_in, Tensor lengths, SymInt max_length, bool pad_minf=False, "
    "bool return_presence_mask=False) -> (Tensor packed_segments, Tensor? presence_mask)",
    _pack_v2,
)
register_composite(
    "pack_segments_backward(Tensor data, Tensor lengths, SymInt total_length, SymInt max_length) -> Tensor", _unpack
)
