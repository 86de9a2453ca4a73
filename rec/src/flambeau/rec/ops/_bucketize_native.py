"""Bucketizing by the native kernel, through ctypes: `rec::Bucketing` in native/bucketize.cpp says what it is given."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.ops._bucketize_types import Bucketed, Sharding
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops.bounds import even_bags

__all__ = ["bucketize"]

_POINTERS = (
    "lengths",
    "indices",
    "weights",
    "blocks",
    "all_blocks",
    "bounds",
    "kept",
    "first_bags",
    "new_lengths",
    "new_indices",
    "new_weights",
    "positions",
    "order",
    "mapping",
)


class _Job(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_int64) for name in ("bags", "features", "total", "shards", "weight_bytes")),
        *((name, ctypes.c_int32) for name in ("wide_lengths", "wide_indices", "threads")),
    ]


@cache
def _function() -> Callable[..., Any]:
    return LIBRARY.function("fb_rec_bucketize", [ctypes.c_void_p], ctypes.c_int32)


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def bucketize(
    lengths: Tensor,
    indices: Tensor,
    weights: Tensor | None,
    sharding: Sharding,
    positions: bool,
    order: bool,
    mapping: bool,
) -> Bucketed | None:
    """Give indices to shards; None where lengths are negative or do not add up. Tensors are contiguous.

    Raises:
        MemoryError: there is none left.
    """
    bags, total = lengths.shape[0], indices.shape[0]
    result = Bucketed(
        lengths.new_empty(sharding.shards * bags),
        torch.empty_like(indices),
        None if weights is None else torch.empty_like(weights),
        *(torch.empty_like(indices) if wanted else None for wanted in (positions, order, mapping)),
    )
    features, first_bags = sharding.block_sizes.shape[0], sharding.first_bags
    even = even_bags(features, bags)
    job = _Job(
        lengths.data_ptr(),
        indices.data_ptr(),
        _address(weights),
        sharding.block_sizes.data_ptr(),
        _address(sharding.total_blocks),
        _address(sharding.bounds),
        _address(sharding.kept),
        ctypes.addressof(even) if first_bags is None else first_bags.data_ptr(),
        result.lengths.data_ptr(),
        result.indices.data_ptr(),
        _address(result.weights),
        _address(result.positions),
        _address(result.order),
        _address(result.mapping),
        bags,
        features,
        total,
        sharding.shards,
        0 if weights is None or not total else weights.numel() // total * weights.element_size(),
        lengths.dtype == torch.int64,
        indices.dtype == torch.int64,
        torch.get_num_threads(),
    )
    status = _function()(ctypes.byref(job))
    if status == 1:
        raise MemoryError(f"no memory left to give {total} indices to {sharding.shards} shards.")
    return None if status else result
