"""Indices and offsets checked against the tables that they are for, and repaired where that is wanted.

The native kernel is in `native/bounds.cpp`.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._checks import require, require_indices
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS, shorten_on_cpu

__all__ = ["bounds_check_indices"]

logger = logging.getLogger("flambeau.rec")

FATAL, WARNING, IGNORE, NONE = range(4)
_FIRST_V2 = 4  # modes 4 to 6 are the first three, for a kernel that accelerators have two of upstream


def bounds_check_indices(
    rows_per_table: Tensor,
    indices: Tensor,
    offsets: Tensor,
    bounds_check_mode: int,
    warning: Tensor,
    weights: Tensor | None = None,
    B_offsets: Tensor | None = None,
    max_B: int = -1,
    b_t_map: Tensor | None = None,
    info_B_num_bits: int = -1,
    info_B_mask: int = -1,
    bounds_check_version: int = 1,
    prefetch_pipeline: bool = False,
) -> None:
    """Check that each index is a row of its feature's table, and that offsets do not decrease; -1 is always allowed.

    Modes: 0 (fatal) refuses; 1 (warning) makes indices that are no rows 0 and brings offsets into order, counts, and
    logs the first fault of a call; 2 (ignore) repairs without a word; 3 (none) does nothing; 4 to 6 are as 0 to 2.

    Args:
        rows_per_table: (T,) int64: rows of each feature's table.
        indices: (L,) int32 or int64; changed in place.
        offsets: (T * B + 1,) int32 or int64: where each bag begins, and where the last ends; changed in place.
        bounds_check_mode: 0 to 6.
        warning: (1,) int64: what is found wrong is added to it in mode 1.
        weights: (L,), or None; only its size is checked.
        B_offsets: (T + 1,): which bags are a feature's, where features have batches of their own.
        max_B: the largest batch. A hint, as the following.
        b_t_map: not read.
        info_B_num_bits: not read.
        info_B_mask: not read.
        bounds_check_version: not read.
        prefetch_pipeline: not read.

    Raises:
        RuntimeError: in mode 0, with the feature, the index and its place; shapes or dtypes that do not fit.
    """
    OPS.bounds_check_indices(
        rows_per_table, indices, offsets, bounds_check_mode, warning, weights, B_offsets, max_B, b_t_map,
        info_B_num_bits, info_B_mask, bounds_check_version, prefetch_pipeline,
    )  # fmt: skip


def _check(rows: Tensor, indices: Tensor, offsets: Tensor, weights: Tensor | None, bag_offsets: Tensor | None) -> None:
    op = "bounds_check_indices"
    for name, tensor in (("rows_per_table", rows), ("indices", indices), ("offsets", offsets)):
        require_indices(op, name, tensor)
    if weights is not None and weights.shape[0] != indices.shape[0]:
        raise RuntimeError(
            f"{op}: weights has shape {tuple(weights.shape)}, expected ({indices.shape[0]},): one for each index."
        )
    bags, features = offsets.shape[0] - 1, rows.shape[0]
    if bag_offsets is None:
        if bags < 0 or (bags % features if features else bags):
            raise RuntimeError(
                f"{op}: offsets has {bags + 1} entries, expected one more than bags, of which each of {features} "
                "features has as many."
            )
    else:
        require_indices(op, "B_offsets", bag_offsets)
        require(
            bag_offsets.shape[0] == features + 1,
            f"{op}: B_offsets has {bag_offsets.shape[0]} entries, expected one more than the {features} features.",
        )


def _first_bags(rows: Tensor, offsets: Tensor, bag_offsets: Tensor | None) -> Tensor:
    features, bags = rows.shape[0], offsets.shape[0] - 1
    if bag_offsets is None:
        return torch.arange(features + 1, device=offsets.device) * (bags // features if features else 0)
    first = bag_offsets.long().contiguous()
    require(
        bool((first.diff() >= 0).all()) and int(first[0]) == 0 and int(first[-1]) == bags,
        f"bounds_check_indices: B_offsets do not go from 0 to the {bags} bags of offsets.",
    )
    return first


def _fake(
    rows: Tensor,
    indices: Tensor,
    offsets: Tensor,
    mode: int,
    warning: Tensor,
    weights: Tensor | None = None,
    bag_offsets: Tensor | None = None,
    *_: Any,
) -> None:
    _check(rows, indices, offsets, weights, bag_offsets)


def _mode(mode: int) -> int:
    if not 0 <= mode < _FIRST_V2 + NONE:
        raise RuntimeError(f"bounds_check_indices: bounds_check_mode is {mode}, expected 0 to 6.")
    return mode - _FIRST_V2 if mode >= _FIRST_V2 else mode


def _say(fault: tuple[int, ...]) -> str:
    kind, feature, bag, place, value, limit, end = fault
    if kind == 1:
        return (
            f"indices has {value} at {place}, for feature {feature} whose table has {limit} rows; expected 0 to "
            f"{limit - 1}, or -1 for an index that was pruned."
        )
    if kind == 2:
        return (
            f"offsets has {value} at {bag} and {end} behind it, for feature {feature}; expected offsets that do not "
            f"decrease, from 0 to the {limit} indices."
        )
    return f"the last of offsets is {value}, expected {limit}: the number of indices."


def _native(
    rows: Tensor,
    indices: Tensor,
    offsets: Tensor,
    mode: int,
    warning: Tensor,
    weights: Tensor | None = None,
    bag_offsets: Tensor | None = None,
    *_: Any,
) -> None:
    mode = _mode(mode)
    _check(rows, indices, offsets, weights, bag_offsets)
    if mode == NONE:
        return
    ids, bounds = indices.contiguous(), offsets.contiguous()
    sizes = rows.long().contiguous()
    features, bags = sizes.shape[0], bounds.shape[0] - 1
    places: Any = None if bag_offsets is None else _first_bags(rows, offsets, bag_offsets)
    fault = _Fault()
    found = _function()(
        sizes.data_ptr(),
        ids.data_ptr(),
        ids.dtype == torch.int64,
        bounds.data_ptr(),
        bounds.dtype == torch.int64,
        even_bags(features, bags) if places is None else places.data_ptr(),
        features,
        ids.shape[0],
        mode == FATAL,
        fault,
    )
    for given, repaired in ((indices, ids), (offsets, bounds)):
        if repaired is not given:
            given.copy_(repaired)
    if found < 0:
        raise RuntimeError(f"bounds_check_indices: {_say(tuple(fault))}")
    if found and mode == WARNING:
        logger.warning("bounds_check_indices repaired %d faults; the first: %s", found, _say(tuple(fault)))
        warning += found


@cache
def _function() -> Callable[..., Any]:
    pointer, size, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
    arguments = [pointer, pointer, number, pointer, number, pointer, size, size, number, pointer]
    return LIBRARY.function("fb_rec_check_bounds", arguments, size)


_Fault = ctypes.c_int64 * 7  # `rec::Fault`


def even_bags(features: int, bags: int) -> ctypes.Array[ctypes.c_int64]:
    """Where the bags of each feature begin and the last's end, of features that have as many each."""
    each = bags // features if features else 0
    return (ctypes.c_int64 * (features + 1))(*[feature * each for feature in range(features + 1)])


def reference(
    rows: Tensor,
    indices: Tensor,
    offsets: Tensor,
    mode: int,
    warning: Tensor,
    weights: Tensor | None = None,
    bag_offsets: Tensor | None = None,
    *_: Any,
) -> None:
    """The operator in plain torch. On an accelerator only the fatal mode waits for the device."""
    mode = _mode(mode)
    _check(rows, indices, offsets, weights, bag_offsets)
    if mode == NONE:
        return
    total = indices.shape[0]
    ordered = offsets.clamp(0, total).cummax(0).values
    # A bag begins where its predecessor was made to end.
    begins = torch.cat([offsets[:1], ordered[1:]])[: len(offsets) - 1]
    faulty_bags = (begins < 0) | (begins > offsets[1:]) | (offsets[1:] > total)
    last_is_wrong = (ordered if len(begins) else offsets)[-1:] != total
    first_bags = _first_bags(rows, offsets, bag_offsets)
    items = torch.arange(total, device=indices.device)
    bag = torch.searchsorted(ordered[1:].contiguous(), items.to(ordered.dtype), right=True)
    inside = (bag < len(ordered) - 1) & (items >= ordered[0])
    feature = (torch.searchsorted(first_bags, bag, right=True) - 1).clamp(0, max(len(rows) - 1, 0))
    limits = rows[feature] if len(rows) else items
    stray = inside & (indices != -1) & ((indices < 0) | (indices >= limits))
    if mode == FATAL:
        fault = _first_fault(offsets, indices, limits, feature, bag, stray, faulty_bags, first_bags, total)
        if fault is not None:
            raise RuntimeError(f"bounds_check_indices: {_say(fault)}")
        return
    if mode == WARNING:
        found = stray.sum() + faulty_bags.sum() + last_is_wrong.sum()
        warning += found
        if indices.device.type == "cpu" and int(found):
            fault = _first_fault(offsets, indices, limits, feature, bag, stray, faulty_bags, first_bags, total)
            logger.warning(
                "bounds_check_indices repaired %d faults; the first: %s", int(found), _say(fault or (3,) * 7)
            )
    indices.masked_fill_(stray, 0)
    offsets.copy_(torch.cat([ordered[:-1], ordered.new_tensor([total])]))


def _first_fault(
    offsets: Tensor,
    indices: Tensor,
    limits: Tensor,
    feature: Tensor,
    bag: Tensor,
    stray: Tensor,
    faulty_bags: Tensor,
    first_bags: Tensor,
    total: int,
) -> tuple[int, ...] | None:
    """As native/bounds.cpp meets them: bag by bag, its offsets before its indices."""
    bags, places = faulty_bags.nonzero(), stray.nonzero()
    first_bag = int(bags[0]) if len(bags) else len(faulty_bags)
    if len(places) and int(bag[places[0]]) < first_bag:
        at = int(places[0])
        return 1, int(feature[at]), int(bag[at]), at, int(indices[at]), int(limits[at]), 0
    if len(bags):
        owner = int(torch.searchsorted(first_bags, first_bag, right=True)) - 1
        return 2, owner, first_bag, first_bag, int(offsets[first_bag]), total, int(offsets[first_bag + 1])
    if int(offsets[-1]) != total:
        return 3, len(first_bags) - 1, len(faulty_bags), len(faulty_bags), int(offsets[-1]), total, 0
    return None


_OVERLOAD = register_op(
    "bounds_check_indices(Tensor rows_per_table, Tensor(a!) indices, Tensor(b!) offsets, int bounds_check_mode, "
    "Tensor(c!) warning, Tensor(d!)? weights=None, Tensor? B_offsets=None, SymInt max_B=-1, Tensor? b_t_map=None, "
    "int info_B_num_bits=-1, int info_B_mask=-1, int bounds_check_version=1, bool prefetch_pipeline=False) -> ()",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=reference,
)
if LIBRARY.operators["bounds_check_indices"]["provider"] == "ctypes":
    shorten_on_cpu(_OVERLOAD, _native)
