"""The native kernels of table-batched embeddings through ctypes: `native/tbe.h` says what they are given."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._tbe_types import OPTIMIZERS, Lookup, OptimizerSettings, OptimizerStates

_POINTER, _LONG, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_float
FORMATS = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}


class _Batch(ctypes.Structure):
    _fields_ = [
        *(
            (name, _POINTER)
            for name in (
                "weights",
                "weights_offsets",
                "rows",
                "dims",
                "row_bases",
                "indices",
                "offsets",
                "bag_weights",
                "bag_starts",
                "columns",
                "outputs",
            )
        ),
        *((name, _LONG) for name in ("row_width", "features", "total")),
        *((name, _INT) for name in ("wide_indices", "format", "pooling", "threads")),
        *((name, _POINTER) for name in ("cache", "slots")),
        ("cache_width", _LONG),
    ]


class _Gradients(ctypes.Structure):
    _fields_ = [
        *(
            (name, _POINTER)
            for name in (
                "output",
                "wanted",
                "m1",
                "m2",
                "prev_iter",
                "counter",
                "m1_offsets",
                "m2_offsets",
                "row_offsets",
            )
        ),
        ("seed", ctypes.c_uint64),
        ("stochastic", _INT),
    ]


class _Settings(ctypes.Structure):
    _fields_ = [
        ("optimizer", _INT),
        *((name, _FLOAT) for name in ("lr", "eps", "weight_decay", "beta1", "beta2", "momentum", "eta", "max_norm")),
        ("weight_decay_mode", _INT),
        ("iteration", _LONG),
        *((n, _INT) for n in ("counter_halflife", "learning_rate_mode", "regularization_mode", "tail_is_ratio")),
        ("adjustment_iter", _LONG),
        *(
            (name, _FLOAT)
            for name in (
                "adjustment_ub",
                "max_counter",
                "tail_threshold",
                "weight_norm_coefficient",
                "lower_bound",
                "ar_alpha",
                "min_shrinkage",
            )
        ),
        *((name, _INT) for name in ("grad_sum_decay", "rowwise_bias_correction")),
        ("decay_from", _LONG),
    ]


@dataclass(frozen=True)
class _Functions:
    check: Callable[..., Any]
    fits: Callable[..., Any]
    forward: Callable[..., Any]
    backward: Callable[..., Any]
    weights_gradient: Callable[..., Any]


@cache
def _functions() -> _Functions:
    take = LIBRARY.function
    return _Functions(
        take("fb_tbe_check", [_POINTER, _POINTER], _INT),
        take("fb_tbe_fits", [_POINTER], _INT),
        take("fb_tbe_forward", [_POINTER, _POINTER], None),
        take("fb_tbe_backward", [_POINTER] * 3, _INT),
        take("fb_tbe_weights_gradient", [_POINTER] * 4, None),
    )


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _batch(lookup: Lookup) -> int:
    """The address of its description, which lives as long as it: it is checked and looked up at once."""
    described: _Batch | None = lookup.described
    if described is None:
        described = lookup.described = _describe(lookup)
    return ctypes.addressof(described)


def _describe(lookup: Lookup) -> _Batch:
    layout = lookup.layout.data_ptr()
    features = lookup.layout.shape[1]
    row = 8 * features
    return _Batch(
        lookup.weights.data_ptr(),
        layout,
        layout + row,
        layout + 2 * row,
        layout + 3 * row,
        lookup.indices.data_ptr(),
        lookup.offsets.data_ptr(),
        _address(lookup.bag_weights),
        lookup.bag_starts.data_ptr(),
        layout + 4 * row,
        _address(lookup.outputs),
        lookup.row_width,
        features,
        lookup.indices.numel(),
        lookup.indices.dtype == torch.int64,
        FORMATS[lookup.weights.dtype],
        lookup.pooling,
        torch.get_num_threads(),
        _address(lookup.cache),
        _address(lookup.slots),
        0 if lookup.cache is None else lookup.cache.shape[1],
    )


def find_stray(lookup: Lookup) -> tuple[int, int, int] | None:
    """Place, feature and index of the first one outside of its table; None where there is none."""
    stray = (_LONG * 3)()
    if not _functions().check(_batch(lookup), stray):
        return None
    return stray[0], stray[1], stray[2]


def fits(lookup: Lookup) -> bool:
    """Whether offsets rise from 0 to total, and all indices are rows."""
    return bool(_functions().fits(_batch(lookup)))


def forward(lookup: Lookup, output: Tensor) -> None:
    """Write the pooled rows, float32."""
    _functions().forward(_batch(lookup), output.data_ptr())


def backward(
    lookup: Lookup, gradient: Tensor, wanted: Tensor | None, states: OptimizerStates, settings: OptimizerSettings
) -> None:
    """Update tables and states.

    Raises:
        MemoryError: there is none left; nothing was changed then.
    """
    gradients = _Gradients(
        gradient.data_ptr(),
        _address(wanted),
        _address(states.momentum1),
        _address(states.momentum2),
        _address(states.prev_iter),
        _address(states.row_counter),
        _address(states.momentum1_offsets),
        _address(states.momentum2_offsets),
        _address(states.row_offsets),
        settings.seed,
        settings.stochastic_rounding and lookup.weights.dtype != torch.float32,
    )
    filled = _Settings(OPTIMIZERS.index(settings.optimizer), *_numbers(settings))
    batch = _describe(lookup)  # anew: tables may have moved since they were looked up
    if _functions().backward(ctypes.byref(batch), ctypes.byref(gradients), ctypes.byref(filled)):
        raise MemoryError(f"no memory left to sort {lookup.indices.numel()} indices.")


_numbers = attrgetter(*(name for name, *_ in _Settings._fields_[1:]))


def weights_gradient(lookup: Lookup, gradient: Tensor, wanted: Tensor | None) -> Tensor:
    """(total,): the gradient of each index's weight."""
    result = torch.empty(lookup.indices.numel())
    batch = _describe(lookup)
    _functions().weights_gradient(ctypes.byref(batch), gradient.data_ptr(), _address(wanted), result.data_ptr())
    return result
