"""N-gram models from ARPA files in plain Python: what the native reader has to agree with, and serves in its place."""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flambeau.audio.models.decoder._ngram import LanguageModelError

__all__ = ["ReferenceNGramModel"]

Words = tuple[int, ...]
_UNKNOWN = ("<unk>", "<UNK>")


class ReferenceNGramModel:
    """An n-gram model as a table from words to their probability and backoff weight.

    Args:
        path: an ARPA file, also gzipped.

    Raises:
        LanguageModelError: it is none; binary files need the native library.
    """

    def __init__(self, path: str | Path) -> None:
        self._numbers: dict[str, int] = {}
        self._table: dict[Words, tuple[float, float]] = {(0,): (-100.0, 0.0)}
        self.order = 0
        try:
            for length, fields in _ngrams(Path(path)):
                self._add(length, fields)
        except (ValueError, IndexError, KeyError) as error:
            raise LanguageModelError(
                f"{path} is no ARPA file that can be read: {error}. Without the native library only those are read."
            ) from error
        if not {"<s>", "</s>"} <= self._numbers.keys():
            raise LanguageModelError(f"{path} has no <s> or no </s> among its single words.")

    def _add(self, length: int, fields: list[str]) -> None:
        probability, *texts = fields
        weight = float(texts.pop()) if len(texts) > length else 0.0
        self.order = max(self.order, length)
        if length == 1:
            number = 0 if texts[0] in _UNKNOWN else len(self._numbers) + 1
            if number:
                self._numbers[texts[0]] = number
            words: Words = (number,)
        else:
            words = tuple(0 if text in _UNKNOWN else self._numbers[text] for text in texts)
        self._table[words] = (float(probability), weight)

    def words(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """The numbers of words, 0 for those the model does not know."""
        return np.array([self._numbers.get(text, 0) for text in texts], np.uint32)

    def first_scores(self, numbers: np.ndarray[Any, Any]) -> list[float]:
        """log10 of the probability of each of some words at the beginning of a sentence."""
        return [self.next(self.start(), int(number))[1] for number in numbers]

    def start(self) -> Words:
        """The context at the beginning of a sentence."""
        return (self._numbers["<s>"],)

    def end(self, context: Words) -> float:
        """log10 of the probability of the sentence's end."""
        return self.next(context, self._numbers["</s>"])[1]

    def next(self, context: Words, word: int) -> tuple[Words, float]:
        """The context after a word, and log10 of the word's probability."""
        after = (*context, word)[-(self.order - 1) :] if self.order > 1 else ()
        score = 0.0
        while True:
            found = self._table.get((*context, word))
            if found is not None:
                return after, score + found[0]
            score += self._table.get(context, (math.nan, 0.0))[1]
            context = context[1:]

    def score(self, texts: Sequence[str], *, begin: bool = True, end: bool = True) -> list[float]:
        """As `NGramModel.score`."""
        context = self.start() if begin else ()
        scores = []
        for word in self.words(texts):
            context, score = self.next(context, int(word))
            scores.append(score)
        return [*scores, self.end(context)] if end else scores


def _ngrams(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Length and fields of each line that has an n-gram."""
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    length = 0
    with gzip.open(path) if packed else path.open("rb") as file:
        for line in file:
            fields = [field.decode() for field in line.split()]
            if not fields or fields[0] in ("\\data\\", "ngram"):
                continue
            if fields[0] == "\\end\\":
                return
            if fields[0].startswith("\\") and fields[0].endswith("-grams:"):
                length = int(fields[0][1 : -len("-grams:")])
            elif length:
                yield length, fields
            else:
                raise ValueError(f"it begins with {fields[0][:40]!r}, expected \\data\\")
    raise ValueError("it ends without \\end\\")
