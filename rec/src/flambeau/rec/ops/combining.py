"""Lists of indices, of offsets or lengths, and of weights made the input of one look-up.

Everything becomes int32 and lies one after another. Features without weights get weights of 1 where another has some.
The native kernel is in `native/combining.cpp`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._checks import INDICES, require, require_indices
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS, shorten_on_cpu

__all__ = [
    "padding_fused_tbe_input_combine",
    "padding_fused_tbe_input_combine_with_length",
    "tbe_input_combine",
    "tbe_input_combine_with_length",
]

Tensors = Sequence[Tensor]
Combined = tuple[Tensor, Tensor, Tensor]


def tbe_input_combine(
    indices_list: Tensors, offsets_list: Tensors, per_sample_weights: Tensors, include_last_offsets: Tensor
) -> Combined:
    """Join features that are given by offsets.

    Args:
        indices_list: T tensors (L_t,) of int32 or int64.
        offsets_list: T tensors (B_t,) or (B_t + 1,) of int32 or int64: where each bag begins, and maybe where the last
            ends.
        per_sample_weights: T tensors (L_t,) of float32, or empty ones for features without weights.
        include_last_offsets: (T,) bool, on the CPU: whether a feature's offsets say where the last bag ends.

    Returns:
        Indices (sum of L_t,) int32, offsets (sum of B_t, and one,) int32, weights (sum of L_t,) float32, or (0,) where
        no feature has any.

    Raises:
        RuntimeError: lists of different sizes, other shapes or dtypes.

    Example:
        >>> indices, offsets = [torch.tensor([7, 8]), torch.tensor([9])], [torch.tensor([0, 1]), torch.tensor([0, 1])]
        >>> tbe_input_combine(indices, offsets, [torch.empty(0)] * 2, torch.tensor([False, True]))
        (tensor([7, 8, 9], dtype=torch.int32), tensor([0, 1, 2, 3], dtype=torch.int32), tensor([]))
    """
    return OPS.tbe_input_combine(  # type: ignore[no-any-return]
        indices_list, offsets_list, per_sample_weights, include_last_offsets
    )


def tbe_input_combine_with_length(
    indices_list: Tensors, lengths_list: Tensors, per_sample_weights: Tensors
) -> Combined:
    """Join features that are given by lengths.

    Args:
        indices_list: T tensors (L_t,) of int32 or int64.
        lengths_list: T tensors (B_t,) of int32 or int64.
        per_sample_weights: T tensors (L_t,) of float32, or empty ones.

    Returns:
        Indices (sum of L_t,) int32, lengths (sum of B_t,) int32, weights as `tbe_input_combine`.

    Raises:
        RuntimeError: lists of different sizes, other shapes or dtypes.
    """
    return OPS.tbe_input_combine_with_length(indices_list, lengths_list, per_sample_weights)  # type: ignore[no-any-return]


def padding_fused_tbe_input_combine(
    indices_list: Tensors,
    offsets_list: Tensors,
    per_sample_weights: Tensors,
    include_last_offsets: Tensor,
    batch_size: int,
) -> Combined:
    """`tbe_input_combine` with empty bags behind each feature's, so that it has `batch_size` of them."""
    return OPS.padding_fused_tbe_input_combine(  # type: ignore[no-any-return]
        indices_list, offsets_list, per_sample_weights, include_last_offsets, batch_size
    )


def padding_fused_tbe_input_combine_with_length(
    indices_list: Tensors, lengths_list: Tensors, per_sample_weights: Tensors, batch_size: int
) -> Combined:
    """`tbe_input_combine_with_length` with empty bags behind each feature's, so that it has `batch_size` of them."""
    return OPS.padding_fused_tbe_input_combine_with_length(  # type: ignore[no-any-return]
        indices_list, lengths_list, per_sample_weights, batch_size
    )


# --- one meaning for all -------------------------------------------------------------------------------------------


def _check(op: str, indices: Tensors, bags: Tensors, weights: Tensors) -> None:
    require(
        len(indices) == len(bags) == len(weights) > 0,
        f"{op}: there are {len(indices)} tensors of indices, {len(bags)} of offsets or lengths and {len(weights)} of "
        "weights; give one of each for every feature.",
    )
    for one, more, some in zip(indices, bags, weights, strict=True):
        require_indices(op, "indices_list", one)
        require_indices(op, "offsets_list or lengths_list", more)
        if some.numel():
            require(
                some.shape == one.shape and some.dtype == torch.float32,
                f"{op}: per_sample_weights has shape {tuple(some.shape)} and dtype {some.dtype}, expected "
                f"{tuple(one.shape)} of float32.",
            )


def _bag_counts(op: str, bags: Tensors, last: Tensor | None, batch: int) -> list[int]:
    if last is None:
        counts = [one.shape[0] for one in bags]
    else:
        require(
            last.dtype == torch.bool and last.shape == (len(bags),),
            f"{op}: include_last_offsets has shape {tuple(last.shape)} and dtype {last.dtype}, expected ({len(bags)},) "
            "of bool.",
        )
        counts = [one.shape[0] - int(known) for one, known in zip(bags, last.tolist(), strict=True)]
    require(
        batch < 0 or all(count <= batch for count in counts),
        f"{op}: batch_size is {batch}, and features have {counts} bags; expected at least as many.",
    )
    return counts


def reference(
    op: str, indices: Tensors, bags: Tensors, weights: Tensors, last: Tensor | None, offsets: bool, batch: int
) -> Combined:
    """The operators in plain torch."""
    _check(op, indices, bags, weights)
    base, joined = 0, []
    for one, ids, count in zip(bags, indices, _bag_counts(op, bags, last, batch), strict=True):
        shifted = one[:count] + (base if offsets else 0)
        base += ids.shape[0]
        padding = shifted.new_full((max(batch - count, 0),), base if offsets else 0)
        joined += [shifted.int(), padding.int()]
    if offsets:
        joined.append(joined[0].new_tensor([base]))
    weighted = any(one.numel() for one in weights)
    filled = [
        one if one.numel() else torch.ones(ids.shape, device=ids.device)
        for one, ids in zip(weights, indices, strict=True)
    ]
    empty = torch.empty(0, device=indices[0].device)
    return torch.cat([one.int() for one in indices]), torch.cat(joined), torch.cat(filled) if weighted else empty


def native(
    op: str, indices: Tensors, bags: Tensors, weights: Tensors, last: Tensor | None, offsets: bool, batch: int
) -> Combined:
    """The operators by the native kernel, or by torch where that takes less time than telling the kernel."""
    if last is None and batch < 0 and (joined := _joined(indices, bags, weights)) is not None:
        return joined
    _check(op, indices, bags, weights)
    ids, sizes = [one.contiguous() for one in indices], [one.contiguous() for one in bags]
    factors = [one.contiguous() for one in weights]
    counts = _bag_counts(op, bags, last, batch)
    total, features = sum(one.shape[0] for one in ids), len(ids)
    weighted = any(one.numel() for one in factors)
    result = (
        torch.empty(total, dtype=torch.int32),
        torch.empty((features * batch if batch >= 0 else sum(counts)) + offsets, dtype=torch.int32),
        torch.empty(total if weighted else 0, dtype=torch.float32),
    )
    pointers, longs, flags = ctypes.c_void_p * features, ctypes.c_int64 * features, ctypes.c_int32 * features
    arrays: tuple[Any, ...] = (
        pointers(*[one.data_ptr() for one in ids]),
        longs(*[one.shape[0] for one in ids]),
        flags(*[one.dtype == torch.int64 for one in ids]),
        pointers(*[one.data_ptr() for one in sizes]),
        longs(*counts),
        flags(*[one.dtype == torch.int64 for one in sizes]),
        pointers(*[one.data_ptr() if one.numel() else None for one in factors]),
    )
    lists = _Lists(
        *map(ctypes.addressof, arrays),
        features,
        batch,
        offsets,
        result[0].data_ptr(),
        result[1].data_ptr(),
        result[2].data_ptr() if weighted else None,
    )
    _function()(ctypes.byref(lists))
    return result


_SMALL = 16384  # indices up to which two passes over them take less time than telling the kernel about them


def _joined(indices: Tensors, bags: Tensors, weights: Tensors) -> Combined | None:
    """What is to be put together as it is; None where it is much, does not fit, or only some features have weights."""
    total = heavy = 0
    for one, more, some in zip(indices, bags, weights, strict=False):
        if one.dtype not in INDICES or more.dtype not in INDICES or one.dim() != 1 or more.dim() != 1:
            return None
        items, factors = one.numel(), some.numel()
        if factors and (factors != items or some.dim() != 1 or some.dtype is not torch.float32):
            return None
        total += items
        heavy += factors
    if not len(indices) == len(bags) == len(weights) > 0 or total > _SMALL or heavy not in (0, total):
        return None
    factors_of_all = torch.cat([*weights]) if heavy else torch.empty(0, dtype=torch.float32)
    return torch.cat([*indices]).int(), torch.cat([*bags]).int(), factors_of_all


class _Lists(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("indices", "index_counts", "wide_indices", "bags", "bag_counts")),
        *((name, ctypes.c_void_p) for name in ("wide_bags", "weights")),
        *((name, ctypes.c_int64) for name in ("features", "batch")),
        ("offsets", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("new_indices", "new_bags", "new_weights")),
    ]


@cache
def _function() -> Callable[..., Any]:
    return LIBRARY.function("fb_rec_combine", [ctypes.c_void_p], None)


def _make(name: str, *, offsets: bool, padded: bool) -> None:
    def parts(args: tuple[Any, ...]) -> tuple[Any, ...]:
        last = args[3] if offsets else None
        return *args[:3], last, offsets, args[-1] if padded else -1

    def fake(*args: Any) -> Combined:
        indices, bags, weights, _, _, batch = parts(args)
        _check(name, indices, bags, weights)
        total = sum(one.shape[0] for one in indices)
        # How many bags there are without padding depends on which features say where their last one ends.
        if padded:
            bag_count = len(bags) * batch + offsets
        elif offsets:
            bag_count = torch.library.get_ctx().new_dynamic_size()
        else:
            bag_count = sum(one.shape[0] for one in bags)
        empty = indices[0].new_empty
        size = total if any(one.numel() for one in weights) else 0
        return empty(total, dtype=torch.int32), empty(bag_count, dtype=torch.int32), empty(size, dtype=torch.float32)

    bags = "offsets_list" if offsets else "lengths_list"

    def kernel(*args: Any) -> Combined:
        return native(name, *parts(args))

    overload = register_op(
        f"{name}(Tensor[] indices_list, Tensor[] {bags}, Tensor[] per_sample_weights"
        f"{', Tensor include_last_offsets' if offsets else ''}{', int batch_size' if padded else ''}) "
        "-> (Tensor, Tensor, Tensor)",
        library=LIBRARY,
        symbol=kernel,
        fake=fake,
        python=lambda *args: reference(name, *parts(args)),
    )
    if LIBRARY.operators[name]["provider"] == "ctypes":
        shorten_on_cpu(overload, kernel)


_make("tbe_input_combine", offsets=True, padded=False)
_make("tbe_input_combine_with_length", offsets=False, padded=False)
_make("padding_fused_tbe_input_combine", offsets=True, padded=True)
_make("padding_fused_tbe_input_combine_with_length", offsets=False, padded=True)
