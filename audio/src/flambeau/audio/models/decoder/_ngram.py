"""N-gram language models from files: ARPA, plain or gzipped, and the binary files of KenLM."""

from __future__ import annotations

import ctypes
import functools
import gzip
import mmap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flambeau.audio._native import LIBRARY
from flambeau.core.errors import FlambeauError

__all__ = ["LanguageModelError", "NGramModel"]

_P, _I32, _I64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
_SIGNATURES: dict[str, tuple[list[Any], Any]] = {
    "fb_lm_open": ([_P, _I64, ctypes.c_char_p, _I64], _P),
    "fb_lm_free": ([_P], None),
    "fb_lm_order": ([_P], _I32),
    "fb_lm_words": ([_P, ctypes.c_char_p, _P, _I64, _P], None),
    "fb_lm_score": ([_P, _P, _I64, _I32, _I32, _P], None),
    "fb_lm_first": ([_P, _P, _I64, _P], None),
}


class LanguageModelError(FlambeauError, RuntimeError, ValueError):
    """A file that is no n-gram model, or a damaged one."""


@functools.cache
def _function(name: str) -> Callable[..., Any]:
    return LIBRARY.function(name, *_SIGNATURES[name])


class NGramModel:
    """An n-gram model: log10 probabilities of words, each after those before it.

    A binary file is mapped and read where it lies, so that opening one of gigabytes takes no time and processes share
    it; it must stay as it is while the model is used. An ARPA file is read into memory.

    Args:
        path: an ARPA file, also gzipped, or a binary file of KenLM (hash tables or tries, also quantised).

    Attributes:
        order: the most words of an n-gram.

    Raises:
        LanguageModelError: neither, truncated, or damaged; the message says where.
        FileNotFoundError: there is no such file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._bytes = _content(Path(path))
        message = ctypes.create_string_buffer(512)
        self.handle: int | None = _function("fb_lm_open")(self._bytes.ctypes.data, len(self._bytes), message, 512)
        if not self.handle:
            raise LanguageModelError(
                f"{path} is no language model that can be read: {message.value.decode(errors='replace')}."
            )
        # Kept, because kernels may be switched off while the model lives.
        self._free = _function("fb_lm_free")
        self.order: int = _function("fb_lm_order")(self.handle)

    def __del__(self) -> None:
        handle, self.handle = getattr(self, "handle", None), None
        if handle:
            self._free(handle)

    def __reduce__(self) -> tuple[type[NGramModel], tuple[str]]:
        return type(self), (self.path,)

    def words(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """The numbers of words, 0 for those the model does not know."""
        encoded = [text.encode() for text in texts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
        numbers = np.empty(len(encoded), np.uint32)
        _function("fb_lm_words")(self.handle, b"".join(encoded), offsets.ctypes.data, len(encoded), numbers.ctypes.data)
        return numbers

    def score(self, texts: Sequence[str], *, begin: bool = True, end: bool = True) -> list[float]:
        """log10 of the probability of each word, and with `end` of the sentence's end.

        Args:
            texts: the words of a sentence.
            begin: whether the first word begins the sentence.
            end: whether the last word ends it.
        """
        numbers = self.words(texts)
        scores = np.empty(len(texts) + 1, np.float32)
        _function("fb_lm_score")(
            self.handle, numbers.ctypes.data, len(numbers), int(begin), int(end), scores.ctypes.data
        )
        return [float(score) for score in scores[: len(texts) + int(end)]]

    def first_scores(self, numbers: np.ndarray[Any, np.dtype[np.uint32]]) -> list[float]:
        """log10 of the probability of each of some words, by number, at the beginning of a sentence."""
        numbers = np.ascontiguousarray(numbers, np.uint32)
        scores = np.empty(len(numbers), np.float32)
        _function("fb_lm_first")(self.handle, numbers.ctypes.data, len(numbers), scores.ctypes.data)
        return [float(score) for score in scores]


def _content(path: Path) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes of a file: mapped, or unpacked where it is gzipped."""
    with path.open("rb") as file:
        head = file.read(2)
        if not head:
            raise LanguageModelError(f"{path} is empty; expected an ARPA file or a binary file of KenLM.")
        if head == b"\x1f\x8b":
            return _unpacked(path)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped, np.uint8)


def _unpacked(path: Path) -> np.ndarray[Any, np.dtype[np.uint8]]:
    try:
        with gzip.open(path) as file:
            return np.frombuffer(file.read(), np.uint8)
    except (OSError, EOFError) as error:
        raise LanguageModelError(f"{path} cannot be unpacked: {error}.") from error
