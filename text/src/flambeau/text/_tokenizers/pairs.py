"""Byte pair encoding in plain Python: what the native tokenizers are checked against, and what serves without them.

R. Sennrich, B. Haddow and A. Birch (2016), "Neural Machine Translation of Rare Words with Subword Units", section 3.2,
arXiv:1508.07909; bytes as printable characters after A. Radford et al. (2019), "Language Models are Unsupervised
Multitask Learners", section 2.2.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

Ranks = Mapping[tuple[str, str], int]


@functools.cache
def _byte_characters() -> dict[int, str]:
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in set(shown)]
    return {
        **{byte: chr(byte) for byte in shown},
        **{byte: chr(256 + place) for place, byte in enumerate(hidden)},
    }


def bytes_to_unicode() -> dict[int, str]:
    """The printable character that stands for each byte in vocabularies of byte pairs.

    Returns:
        256 bytes with their characters: printable ones of Latin-1 stand for themselves and come first, the others are
        U+0100 and following.

    Example:
        >>> bytes_to_unicode()[32]
        'Ġ'
    """
    return dict(_byte_characters())


def get_pairs(word: Sequence[str]) -> set[tuple[str, str]]:
    """All pairs of neighbours in a word.

    Args:
        word: its symbols, at least one.

    Example:
        >>> sorted(get_pairs(("l", "o", "w")))
        [('l', 'o'), ('o', 'w')]
    """
    return set(itertools.pairwise(word))


def merged(word: Sequence[str], ranks: Ranks) -> list[tuple[str, int]]:
    """The symbols that a word ends up as, each with the number of first symbols in it.

    The pair of lowest rank is merged wherever it stands, from left to right, until no pair has a rank.
    """
    symbols = [(symbol, 1) for symbol in word]
    while len(symbols) > 1:
        pairs = [(left[0], right[0]) for left, right in itertools.pairwise(symbols)]
        best = min(pairs, key=lambda pair: ranks.get(pair, math.inf))
        if best not in ranks:
            break
        joined, at = [], 0
        while at < len(symbols):
            if at < len(pairs) and pairs[at] == best:
                joined.append((best[0] + best[1], symbols[at][1] + symbols[at + 1][1]))
                at += 2
            else:
                joined.append(symbols[at])
                at += 1
        symbols = joined
    return symbols


class Symbols:
    """Numbers for the symbols of a vocabulary and its merges, as the native tokenizers want them."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self.numbers = dict(zip(vocabulary, range(len(vocabulary)), strict=True))
        self.ids = list(vocabulary.values())

    def number(self, symbol: str) -> int:
        """The number of a symbol; one that the vocabulary lacks gets a number without an id."""
        known = self.numbers.get(symbol)
        if known is None:
            known = self.numbers[symbol] = len(self.ids)
            self.ids.append(-1)
        return known

    def merges(self, ranks: Ranks) -> Any:
        """Left, right and resulting symbol, and rank, of each merge, as an array (merges, 4) of int32."""
        import numpy as np

        lefts, rights = [left for left, _ in ranks], [right for _, right in ranks]
        columns, count = [], len(lefts)
        for symbols in (lefts, rights, list(map(operator.add, lefts, rights))):
            try:
                columns.append(np.fromiter(map(self.numbers.__getitem__, symbols), np.int32, count))
            except KeyError:  # one of them is no token
                columns.append(np.fromiter(map(self.number, symbols), np.int32, count))
        return np.stack([*columns, np.fromiter(ranks.values(), np.int32, count)], 1)
