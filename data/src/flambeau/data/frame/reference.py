"""The recommender functions in NumPy and Python: definition, fallback, and the oracle of the kernels' tests."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.data.frame.errors import FrameValueError

Array = np.ndarray[Any, Any]

# Modes of the kernels.
HAS, COUNT, MAX_COUNT, JACCARD = range(4)
COSINE, SUM, LEAST, GREATEST = range(4)

_MULTIPLIER = np.uint64(0x9DDFEA08EB382D69)


def sigrid_hash(values: Array, salt: int, max_value: int) -> Array:
    """Thomas Wang's 64-bit mix, CityHash's 128-to-64-bit join with the salt, modulo as a signed number."""
    if max_value == 1:
        return np.zeros(len(values), np.int64)
    k = values.astype(np.int64).view(np.uint64)
    with np.errstate(over="ignore"):
        k = ~k + (k << np.uint64(21))
        k = k ^ (k >> np.uint64(24))
        k = k + (k << np.uint64(3)) + (k << np.uint64(8))
        k = k ^ (k >> np.uint64(14))
        k = k + (k << np.uint64(2)) + (k << np.uint64(4))
        k = k ^ (k >> np.uint64(28))
        k = k + (k << np.uint64(31))
        upper = np.uint64(salt & 0xFFFFFFFFFFFFFFFF)
        a = (k ^ upper) * _MULTIPLIER
        a = a ^ (a >> np.uint64(47))
        b = (upper ^ a) * _MULTIPLIER
        b = b ^ (b >> np.uint64(47))
        b = b * _MULTIPLIER
    result: Array = np.mod(b.view(np.int64), np.int64(max_value))
    return result


def hash_rows(columns: Sequence[tuple[Array, Array | None, int, int]], result: Array) -> None:
    """Columns (values, which are there, salt, max_value) into one array; not hashed where max_value is 0."""
    for place, (values, present, salt, max_value) in enumerate(columns):
        made = sigrid_hash(values, salt, max_value) if max_value else values
        result[:, place] = made if present is None else np.where(present, made, 0)


def bucketize(values: Array, borders: Array) -> Array:
    """The place i = lower_bound(borders, x), one more where x is the border itself and not the last."""
    place = np.searchsorted(borders, values, side="left")
    above = np.minimum(place + 1, len(borders) - 1)
    return np.where((place >= len(borders) - 1) | (values < borders[above]), place, place + 1).astype(np.int32)


def firstx(offsets: Array, values: Array, count: int) -> tuple[Array, Array]:
    """The first `count` items of every list, as offsets and items."""
    lengths = np.minimum(np.diff(offsets), count)
    starts = np.zeros(len(offsets), np.int64)
    np.cumsum(lengths, out=starts[1:])
    place = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths) + np.repeat(offsets[:-1], lengths)
    return starts, values[place]


def overlap(mode: int, offsets: Array, ids: Array, other_offsets: Array, others: Array) -> Array:
    """What two multisets of ids have in common, for each pair of lists."""
    result = np.zeros(len(offsets) - 1, np.float32)
    for row in range(len(result)):
        mine = Counter(ids[offsets[row] : offsets[row + 1]].tolist())
        theirs = Counter(others[other_offsets[row] : other_offsets[row + 1]].tolist())
        common = (mine & theirs).total()
        if mode == HAS:
            result[row] = float(common > 0)
        elif mode == COUNT:
            result[row] = common
        elif mode == MAX_COUNT:
            result[row] = sum(max(mine[one], theirs[one]) for one in mine.keys() & theirs.keys())
        else:
            union = mine.total() + theirs.total() - common
            result[row] = np.float32(common) / np.float32(union) if union else 0.0
    return result


_FOLDS: dict[int, Callable[[Sequence[float]], float]] = {SUM: sum, LEAST: min, GREATEST: max}


def scored_overlap(
    mode: int, offsets: Array, ids: Array, scores: Array | None, other_offsets: Array, others: Array, matching: Array
) -> Array:
    """What two lists of ids with scores have in common, for each pair of lists; summed in double precision."""
    result = np.zeros(len(offsets) - 1, np.float32)
    for row in range(len(result)):
        own, other = slice(*offsets[row : row + 2]), slice(*other_offsets[row : row + 2])
        theirs: dict[int, list[float]] = {}
        for one, score in zip(others[other].tolist(), matching[other].tolist(), strict=True):
            theirs.setdefault(one, []).append(score)
        if mode == COSINE:
            assert scores is not None  # the cosine takes both
            result[row] = _cosine(ids[own].tolist(), scores[own].tolist(), theirs, row)
            continue
        fold = _FOLDS[mode]
        shared = [fold(theirs[one]) for one in sorted(set(ids[own].tolist()) & theirs.keys())]
        result[row] = fold(shared) if shared else 0.0
    return result


def _cosine(ids: list[int], scores: list[float], theirs: dict[int, list[float]], row: int) -> float:
    mine: dict[int, float] = {}
    for one, score in zip(ids, scores, strict=True):
        mine[one] = mine.get(one, 0.0) + score
    sums = {one: sum(each) for one, each in theirs.items()}
    dot = sum(mine[one] * sums[one] for one in sorted(mine.keys() & sums.keys()))
    norm = _length(mine) * _length(sums)
    if norm == 0.0:
        raise zero_norm(row)
    return dot / norm


def _length(vector: dict[int, float]) -> float:
    return math.sqrt(sum(vector[one] ** 2 for one in sorted(vector)))


def zero_norm(row: int) -> FrameValueError:
    """The error for scores of which all are zero, or none are there."""
    return FrameValueError(
        f"get_cosine_similarity: row {row} has scores of norm zero, and no angle; drop rows without scores first."
    )


def check_scores(offsets: Array, score_offsets: Array) -> None:
    """Refuse lists of scores that do not fit their lists of ids.

    Raises:
        ValueError: a row has more or fewer scores than ids.
    """
    if not np.array_equal(offsets, score_offsets):
        row = int(np.flatnonzero(np.diff(offsets) != np.diff(score_offsets))[0])
        got, wanted = np.diff(score_offsets)[row], np.diff(offsets)[row]
        raise FrameValueError(f"row {row} has {got} scores for {wanted} ids; expected one score for each id.")
