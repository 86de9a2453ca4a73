"""Functions on streams of texts."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar

from torch.utils.data import Dataset

from flambeau.text._tokenizers import files
from flambeau.text._tokenizers import sentencepiece as pieces

__all__ = [
    "custom_replace",
    "filter_wikipedia_xml",
    "generate_sp_model",
    "load_sp_model",
    "numericalize_tokens_from_iterator",
    "sentencepiece_numericalizer",
    "sentencepiece_tokenizer",
    "simple_space_split",
    "to_map_style_dataset",
]

T = TypeVar("T")


def generate_sp_model(
    filename: str | os.PathLike[str],
    vocab_size: int = 20000,
    model_type: Literal["unigram", "bpe", "char", "word"] = "unigram",
    model_prefix: str = "m_user",
) -> None:
    """Train a SentencePiece model (needs the package `sentencepiece`).

    Args:
        filename: texts, one a line.
        vocab_size: how many pieces.
        model_type: how they are found.
        model_prefix: `<model_prefix>.model` and `<model_prefix>.vocab` are written.

    Raises:
        ImportError: the package is not installed.
        RuntimeError: the text is too short for so many pieces, or the package refuses otherwise.
    """
    try:
        import sentencepiece
    except ImportError as error:
        raise ImportError("SentencePiece models need a package: pip install sentencepiece.") from error
    sentencepiece.SentencePieceTrainer.Train(
        input=os.fspath(filename), vocab_size=vocab_size, model_type=model_type, model_prefix=model_prefix
    )


def load_sp_model(spm: str | os.PathLike[str] | io.BufferedReader) -> Any:
    """Load a SentencePiece model (needs the package `sentencepiece`).

    Args:
        spm: file, URL, or a file that is open for reading bytes.

    Returns:
        The package's processor: `Encode`, `EncodeAsIds`, `EncodeAsPieces`, `DecodeIds`, `DecodePieces`,
        `GetPieceSize`, `PieceToId`, `IdToPiece`, `unk_id`.

    Raises:
        TypeError: another type.
        FileNotFoundError: no such file.
        ValueError: the file is no SentencePiece model.
        ImportError: the package is not installed.
    """
    if isinstance(spm, io.BufferedReader):
        return pieces._loaded(spm.read(), str(spm.name))
    if not isinstance(spm, str | os.PathLike):
        raise TypeError(f"load_sp_model takes a path or a file open for reading bytes, got {type(spm).__name__}.")
    return pieces._loaded(files.local(spm).read_bytes(), os.fspath(spm))


def sentencepiece_numericalizer(sp_model: Any) -> Callable[[Iterable[str]], Iterator[list[int]]]:
    """A generator of the ids of each text.

    Args:
        sp_model: from `load_sp_model`.

    Returns:
        A function from texts to an iterator of their lists of ids.
    """

    def numericalize(txt_iter: Iterable[str]) -> Iterator[list[int]]:
        for line in txt_iter:
            yield sp_model.EncodeAsIds(line)

    return numericalize


def sentencepiece_tokenizer(sp_model: Any) -> Callable[[Iterable[str]], Iterator[list[str]]]:
    """A generator of the pieces of each text.

    Args:
        sp_model: from `load_sp_model`.

    Returns:
        A function from texts to an iterator of their lists of pieces.
    """

    def tokenize(txt_iter: Iterable[str]) -> Iterator[list[str]]:
        for line in txt_iter:
            yield sp_model.EncodeAsPieces(line)

    return tokenize


def custom_replace(replace_pattern: Iterable[tuple[str, str]]) -> Callable[[Iterable[str]], Iterator[str]]:
    r"""A generator of texts in which patterns are replaced, one after another.

    Args:
        replace_pattern: pairs of a regular expression of Python's `re` and its replacement.

    Example:
        >>> list(custom_replace([("S", "s"), (r"\s+", " ")])(["Sentence  piece"]))
        ['sentence piece']
    """
    compiled = [(re.compile(pattern), replacement) for pattern, replacement in replace_pattern]

    def replace(txt_iter: Iterable[str]) -> Iterator[str]:
        for line in txt_iter:
            for pattern, replacement in compiled:
                line = pattern.sub(replacement, line)  # what all replacements make of it
            yield line

    return replace


def simple_space_split(iterator: Iterable[str]) -> Iterator[list[str]]:
    """The words of each text, split at whitespace.

    Args:
        iterator: texts.

    Example:
        >>> list(simple_space_split(["the  mill", ""]))
        [['the', 'mill'], []]
    """
    for line in iterator:
        yield line.split()


def numericalize_tokens_from_iterator(
    vocab: Mapping[str, int] | Any, iterator: Iterable[Iterable[str]], removed_tokens: Iterable[str] | None = None
) -> Iterator[Iterator[int]]:
    """For each list of tokens an iterator of their indices.

    Args:
        vocab: anything that gives an index for a token with `[]`.
        iterator: lists of tokens.
        removed_tokens: tokens that are left out.

    Example:
        >>> vocab = {"a": 0, "b": 1}
        >>> [list(ids) for ids in numericalize_tokens_from_iterator(vocab, [["b", "a"], ["b"]])]
        [[1, 0], [1]]
    """
    removed = frozenset(removed_tokens or ())
    for tokens in iterator:
        yield map(vocab.__getitem__, (token for token in tokens if token not in removed))


def filter_wikipedia_xml(text_iterator: Iterable[str]) -> Iterator[str]:
    """What people read of a dump of Wikipedia: letters from a to z, with digits spelled out, line by line.

    Redirects and lines with nothing left are left out. The rules are those by which the corpora enwik8 and text8 were
    made.

    Args:
        text_iterator: lines of the dump.

    Raises:
        TypeError: this cannot be iterated.

    References:
        M. Mahoney (2006), "About the Test Data", mattmahoney.net/dc/textdata.
    """
    clean = custom_replace(_WIKIPEDIA)
    for line in text_iterator:
        if "#redirect" in line or "#REDIRECT" in line:
            continue
        text = next(clean([line])).strip()
        if text:
            yield text


def to_map_style_dataset(iter_data: Iterable[T]) -> Dataset[T]:
    """A data set with length and `[]`, of everything that an iterable gives, held in memory.

    Args:
        iter_data: a pipeline, or anything else that ends.
    """
    return _MapStyleDataset(iter_data)


class _MapStyleDataset(Dataset[T]):
    def __init__(self, iter_data: Iterable[T]) -> None:
        self._data = list(iter_data)

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: int) -> T:
        return self._data[idx]


_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_WIKIPEDIA = [
    (r"<.*>", ""),  # tags, with all between the first and the last of a line
    (r"&amp;", "&"),
    (r"&lt;", "<"),
    (r"&gt;", ">"),
    (r"<ref[^<]*<\/ref>", ""),
    (r"<[^>]*>", ""),
    (r"\[http:[^] ]*", "["),  # addresses; what they are called stays
    (r"\|thumb", ""),
    (r"\|left", ""),
    (r"\|right", ""),
    (r"\|\d+px", ""),
    (r"\[\[image:[^\[\]]*\|", ""),
    (r"\[\[category:([^|\]]*)[^]]*\]\]", r"[[\1]]"),  # upstream: `$1`, whatever the name
    (r"\[\[[a-z\-]*:[^\]]*\]\]", ""),  # links to other languages
    (r"\[\[[^\|\]]*\|", "[["),  # targets of links
    (r"\{\{[^\}]*\}\}", ""),
    (r"\{[^\}]*\}", ""),
    (r"\[", ""),
    (r"\]", ""),
    (r"&[^;]*;", " "),
    *((chr(letter), chr(letter).lower()) for letter in range(ord("A"), ord("Z") + 1)),
    *((str(digit), f" {name} ") for digit, name in enumerate(_DIGITS)),
    (r"[^a-z]+", " "),
]
