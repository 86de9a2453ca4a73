"""The recommender functions on plain arrays: native where flambeau-data was built with its kernels, else NumPy.

Lists come as offsets (int64, rows + 1, rising from 0) and items. Both ways give the same bits; `reference` holds the
definitions.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flambeau.data._native import LIBRARY
from flambeau.data.frame import reference

Array = np.ndarray[Any, Any]

_POINTER, _INT = ctypes.c_void_p, ctypes.c_int64
_SUFFIX = {"int32": "i32", "int64": "i64", "float32": "f32", "float64": "f64"}


@functools.cache
def _function(name: str, arguments: str, result: str = "") -> Callable[..., Any] | None:
    """A kernel of the library, None where there is no library; "p" is a pointer, "i" a whole number."""
    if LIBRARY.load() is None:
        return None
    kinds = {"p": _POINTER, "i": _INT}
    return LIBRARY.function(name, [kinds[one] for one in arguments], kinds.get(result))


def _at(array: Array) -> int:
    return array.ctypes.data


def sigrid_hash(values: Array, salt: int, max_value: int) -> Array:
    """Numbers hashed to [0, max_value); see `functional.sigrid_hash`.

    Args:
        values: (n,), int64.
        salt: chooses the hash function.
        max_value: > 0.

    Returns:
        (n,), int64.
    """
    kernel = _function("fb_frame_sigrid_hash", "piiip")
    if kernel is None:
        return reference.sigrid_hash(values, salt, max_value)
    values = np.ascontiguousarray(values, np.int64)
    result = np.empty(len(values), np.int64)
    kernel(_at(values), len(values), salt, max_value, _at(result))
    return result


@dataclass(frozen=True)
class HashedColumn:
    """A column for `hash_rows`.

    Attributes:
        values: (rows,), int8 to int64.
        bits: an Arrow bitmap of which values are there, None for all.
        first_bit: number of the first value's bit.
        salt: of the hash function.
        max_value: hashed to [0, max_value); 0 for a column that is not hashed.
    """

    values: Array
    bits: Array | None
    first_bit: int
    salt: int = 0
    max_value: int = 0


def hash_rows(columns: Sequence[HashedColumn], result: Array, threads: int) -> None:
    """Columns of whole numbers, hashed or not, written into one array; 0 where they are missing.

    Args:
        columns: of as many values as there are rows.
        result: (rows, columns), int64, of any strides; written to.
        threads: used at most.
    """
    kernel = _function("fb_frame_hash_rows", "ppppppiiiiip")
    if kernel is None:
        reference.hash_rows([(one.values, present(one), one.salt, one.max_value) for one in columns], result)
        return
    whole = [np.ascontiguousarray(one.values) for one in columns]
    lists = (
        [_at(one) for one in whole],
        [one.itemsize for one in whole],
        [0 if one.bits is None else _at(one.bits) for one in columns],
        [one.first_bit for one in columns],
        [one.salt for one in columns],
        [one.max_value for one in columns],
    )
    arrays = [np.array(one, np.int64) for one in lists]
    strides = [one // result.itemsize for one in result.strides]
    kernel(*map(_at, arrays), len(columns), len(result), *strides, threads, _at(result))


def present(one: HashedColumn) -> Array | None:
    """Which values of a column are there, None for all."""
    if one.bits is None:
        return None
    bits = np.unpackbits(one.bits, bitorder="little")
    return bits[one.first_bit : one.first_bit + len(one.values)].astype(bool)


def bucketize(values: Array, borders: list[float]) -> Array:
    """The bucket of each number; see `functional.bucketize`.

    Args:
        values: (n,), int32, int64, float32 or float64; other types are widened.
        borders: not falling, at least one.

    Returns:
        (n,), int32.
    """
    if values.dtype.name not in _SUFFIX:
        values = values.astype(np.int32)
    limits = np.asarray(borders, values.dtype)
    kernel = _function(f"fb_frame_bucketize_{_SUFFIX[values.dtype.name]}", "pipip")
    if kernel is None:
        return reference.bucketize(values, limits)
    values = np.ascontiguousarray(values)
    result = np.empty(len(values), np.int32)
    kernel(_at(values), len(values), _at(limits), len(limits), _at(result))
    return result


def firstx(offsets: Array, values: Array, count: int) -> tuple[Array, Array]:
    """The first `count` items of every list.

    Returns:
        New offsets and items.
    """
    kernel = _function("fb_frame_firstx", "piipip", "i")
    if kernel is None:
        return reference.firstx(offsets, values, count)
    offsets, values = np.ascontiguousarray(offsets, np.int64), np.ascontiguousarray(values)
    lengths = np.minimum(np.diff(offsets), count)
    starts = np.zeros(len(offsets), np.int64)
    np.cumsum(lengths, out=starts[1:])
    result = np.empty(int(starts[-1]), values.dtype)
    kernel(_at(offsets), len(lengths), count, _at(values), values.itemsize, _at(result))
    return starts, result


def _overlap(mode: int, offsets: Array, ids: Array, other_offsets: Array, others: Array) -> Array:
    kernel = _function("fb_frame_overlap", "ippppip", "i")
    if kernel is None:
        return reference.overlap(mode, offsets, ids, other_offsets, others)
    arrays = [np.ascontiguousarray(one, np.int64) for one in (offsets, ids, other_offsets, others)]
    result = np.empty(len(offsets) - 1, np.float32)
    _check(kernel(mode, *map(_at, arrays), len(result), _at(result)), "overlap")
    return result


def _scored(
    mode: int, offsets: Array, ids: Array, scores: Array | None, other_offsets: Array, others: Array, matching: Array
) -> Array:
    kernel = _function("fb_frame_scored_overlap", "ippppppip", "i")
    if kernel is None:
        return reference.scored_overlap(mode, offsets, ids, scores, other_offsets, others, matching)
    whole = [np.ascontiguousarray(one, np.int64) for one in (offsets, ids, other_offsets, others)]
    mine = None if scores is None else np.ascontiguousarray(scores, np.float32)
    theirs = np.ascontiguousarray(matching, np.float32)
    result = np.empty(len(offsets) - 1, np.float32)
    at = _at(mine) if mine is not None else None
    outcome = kernel(
        mode, _at(whole[0]), _at(whole[1]), at, _at(whole[2]), _at(whole[3]), _at(theirs), len(result), _at(result)
    )
    _check(outcome, "get_cosine_similarity" if mode == reference.COSINE else "get_score")
    return result


def _check(outcome: int, name: str) -> None:
    if outcome == -1:
        raise MemoryError(f"{name}: no memory to sort the longest list in")
    if outcome > 0:
        raise reference.zero_norm(outcome - 1)


def _with_scores(mode: int) -> Callable[..., Array]:
    def call(o1: Array, ids: Array, so1: Array, scores: Array, o2: Array, others: Array, so2: Array, m: Array) -> Array:
        reference.check_scores(o1, so1)
        reference.check_scores(o2, so2)
        return _scored(mode, o1, ids, scores, o2, others, m)

    return call


def _with_matching_scores(mode: int) -> Callable[..., Array]:
    def call(o1: Array, ids: Array, o2: Array, others: Array, so2: Array, matching: Array) -> Array:
        reference.check_scores(o2, so2)
        return _scored(mode, o1, ids, None, o2, others, matching)

    return call


OVERLAPS: dict[str, Callable[..., Array]] = {
    "has_id_overlap": functools.partial(_overlap, reference.HAS),
    "id_overlap_count": functools.partial(_overlap, reference.COUNT),
    "get_max_count": functools.partial(_overlap, reference.MAX_COUNT),
    "get_jaccard_similarity": functools.partial(_overlap, reference.JACCARD),
    "get_cosine_similarity": _with_scores(reference.COSINE),
    "get_score_sum": _with_scores(reference.SUM),
    "get_score_min": _with_matching_scores(reference.LEAST),
    "get_score_max": _with_matching_scores(reference.GREATEST),
}
"""Overlap functions by their public name; arguments are offsets and items of each list column in turn."""
