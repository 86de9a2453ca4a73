"""Vocabularies from files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

from flambeau.text._tokenizers import files
from flambeau.text.vocab.vocab import Vocab
from flambeau.text.vocab.vocab_factory import build_vocab_from_iterator
from flambeau.text.vocab.vocab_factory import vocab as counted

__all__ = ["build_vocab_from_text_file", "load_vocab_from_file"]


def build_vocab_from_text_file(
    file_path: str | os.PathLike[str],
    tokenizer: Callable[[str], list[str]] | None = None,
    min_freq: int = 1,
    num_cpus: int = 4,
) -> Vocab:
    """A vocabulary of the tokens of a text, the most frequent first, equally frequent ones by code points.

    Args:
        file_path: UTF-8 text, or its URL.
        tokenizer: from a line to its tokens; None splits at whitespace.
        min_freq: tokens that occur less often are left out.
        num_cpus: accepted; the file is read by one thread.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is not UTF-8.
    """
    split = str.split if tokenizer is None else tokenizer
    with files.local(file_path).open(encoding="utf-8") as file:
        return build_vocab_from_iterator(map(split, (line.rstrip("\n") for line in file)), min_freq=min_freq)


def load_vocab_from_file(file_path: str | os.PathLike[str], min_freq: int = 1, num_cpus: int = 4) -> Vocab:
    """A vocabulary of the lines of a file, in the order in which they first occur.

    Args:
        file_path: UTF-8 text or its URL, a token a line.
        min_freq: tokens that are there less often are left out.
        num_cpus: accepted; the file is read by one thread.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is not UTF-8.
    """
    with files.local(file_path).open(encoding="utf-8") as file:
        return counted(Counter(line.rstrip("\n") for line in file), min_freq=min_freq)
