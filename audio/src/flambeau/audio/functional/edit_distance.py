"""The distance of two sequences by single changes; the native kernel is `native/edit_distance.cpp`."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import torch

from flambeau.audio._native import LIBRARY, kernel

__all__ = ["edit_distance"]


def edit_distance(seq1: Sequence[Any], seq2: Sequence[Any]) -> int:
    """The least number of insertions, deletions and substitutions that turn one sequence into the other.

    Args:
        seq1: characters of a string, words, labels, or a tensor (length,); items must be hashable.
        seq2: likewise.

    Returns:
        The Levenshtein distance, 0 to the longer length.

    Example:
        >>> edit_distance("kitten", "sitting")
        3

    References:
        Myers 1999, "A Fast Bit-Vector Algorithm for Approximate String Matching Based on Dynamic Programming".
    """
    numbers: dict[Hashable, int] = {}
    left, right = (
        array("q", [numbers.setdefault(item, len(numbers)) for item in _items(sequence)]) for sequence in (seq1, seq2)
    )
    if LIBRARY.provider == "python":
        return _reference(left, right)
    call = kernel("fb_edit_distance", "pnpn", "n")
    return int(call(left.buffer_info()[0], len(left), right.buffer_info()[0], len(right)))


def _items(sequence: Iterable[Any]) -> Iterable[Any]:
    return sequence.tolist() if isinstance(sequence, torch.Tensor) else sequence


def _reference(left: Sequence[int], right: Sequence[int]) -> int:
    """Row by row of the table of all prefixes' distances (Wagner and Fischer 1974)."""
    above = list(range(len(right) + 1))
    for row, symbol in enumerate(left, start=1):
        here = [row]
        for column, other in enumerate(right, start=1):
            here.append(min(above[column] + 1, here[-1] + 1, above[column - 1] + (symbol != other)))
        above = here
    return above[-1]
