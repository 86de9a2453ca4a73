"""What every tokenizer of ids offers: one text or many, ids as strings or numbers, offsets, tensors, copies."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self, TypeVar, overload

import torch
from torch import Tensor, nn

from flambeau.text._exporting import NotScripted
from flambeau.text._tokenizers import files, native

Result = TypeVar("Result")
Unit = Literal["character", "byte"]
# Attributes that are found when they are first needed: not all tokenizers decode, or show ids as strings.
_FOUND = ("_tokens", "_shown")


class Piece(NamedTuple):
    """A token of a text: its id, -1 where the vocabulary has none, and the bytes of the text that it comes from."""

    id: int
    token: str
    begin: int
    end: int


class Encoding(NamedTuple):
    """Ids of a text, and for each where in the text it comes from, as (begin, end).

    Two tokens may share a character: those that are parts of its bytes.
    """

    ids: list[int]
    spans: list[tuple[int, int]]


class Tokenizer(NotScripted, nn.Module):
    """A text becomes the tokens of a vocabulary.

    Tokenizers are safe to use from many threads, and copies and pickles of them are complete. Where the native library
    is absent, a reference in Python gives the same.
    """

    def __init__(self, vocabulary: dict[str, int], *, return_tokens: bool = False) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._return_tokens = return_tokens
        self._native: native.NativeTokenizer | None = None
        self._renew()

    def _renew(self) -> None:
        """After a change of the vocabulary."""
        for name in _FOUND:
            self.__dict__.pop(name, None)
        self._native = None

    @cached_property
    def _tokens(self) -> dict[int, str]:
        return {identity: token for token, identity in self._vocabulary.items()}

    @cached_property
    def _shown(self) -> dict[int, str]:
        """What `forward` gives for an id."""
        return self._tokens if self._return_tokens else {identity: str(identity) for identity in self._tokens}

    @property
    def vocab_size(self) -> int:
        """The number of tokens, special ones included."""
        return len(self._vocabulary)

    def forward(self, input: Any) -> Any:
        """Tokenize one text or many.

        Args:
            input: str, or list of str.

        Returns:
            For a str the list of its tokens: ids as strings, as upstream has them, or tokens (`return_tokens`). For a
            list one such list per text.

        Raises:
            TypeError: it is neither, or holds a lone surrogate.
        """
        if isinstance(input, str):
            return list(map(self._shown.__getitem__, self._ids(input)))
        return [list(map(self._shown.__getitem__, ids)) for ids in self._batch(input)]

    @overload
    def encode_ids(self, input: str) -> list[int]: ...
    @overload
    def encode_ids(self, input: list[str]) -> list[list[int]]: ...

    def encode_ids(self, input: str | list[str]) -> list[int] | list[list[int]]:
        """Ids as numbers. Many texts are shared among torch's threads, without the GIL.

        Args:
            input: one text or many.

        Raises:
            TypeError: it is neither, or holds a lone surrogate.
        """
        return self._ids(input) if isinstance(input, str) else self._batch(input)

    @overload
    def encode_offsets(self, input: str, unit: Unit = ...) -> Encoding: ...
    @overload
    def encode_offsets(self, input: list[str], unit: Unit = ...) -> list[Encoding]: ...

    def encode_offsets(self, input: str | list[str], unit: Unit = "character") -> Encoding | list[Encoding]:
        """Ids, and where in the text each comes from.

        Args:
            input: one text or many.
            unit: of the spans: "character", that is, places in the str; or "byte", places in its UTF-8.

        Raises:
            TypeError: `input` is neither, or holds a lone surrogate.
            ValueError: another unit.
        """
        if unit not in ("character", "byte"):
            raise ValueError(f"unit is {unit!r}; expected 'character' or 'byte'.")
        if isinstance(input, str):
            return self._offsets(input, unit)
        return [self._offsets(text, unit) for text in texts(input)]

    def to_tensor(self, input: str | list[str], padding_value: int | None = None) -> Tensor:
        """Ids as a tensor, without lists on the way.

        Args:
            input: one text or many.
            padding_value: fills up rows that are shorter than the longest; needed if any is.

        Returns:
            int64, (tokens,) for one text and (texts, most tokens) for many.

        Raises:
            TypeError: `input` is neither, or holds a lone surrogate.
            ValueError: rows of different lengths, and no `padding_value`.
        """
        if isinstance(input, str):
            return torch.tensor(self._ids(input), dtype=torch.int64)
        ids, rows = self._rows(input)
        lengths = rows[1:] - rows[:-1]
        width = int(lengths.max(initial=0))
        if padding_value is None and len(lengths) and int(lengths.min()) != width:
            raise ValueError(f"Rows have {int(lengths.min())} to {width} ids; give padding_value, which fills them up.")
        if native.available():
            return torch.from_numpy(native.pad(ids, rows, padding_value or 0, width))
        output = torch.full((len(lengths), width), padding_value or 0, dtype=torch.int64)
        for row, (begin, end) in enumerate(itertools.pairwise(rows)):
            output[row, : end - begin] = torch.from_numpy(ids[begin:end])
        return output

    def to_tokenizer_json(self, path: str | os.PathLike[str], *, strict: bool = False) -> list[str]:
        """Write the tokenizer as a `tokenizer.json`, which the library `tokenizers` and others load.

        Readers may know a later Unicode, in which some code points are letters that are none here.

        Args:
            path: of the file.
            strict: refuse to write what would behave otherwise in any known case.

        Returns:
            The known differences: what a reader of the file does otherwise, one sentence each.

        Raises:
            ValueError: `strict`, and there are differences.
        """
        from flambeau.text._tokenizers.export import write

        content, differences = self._tokenizer_json()
        write(path, content, differences, strict=strict)
        return differences

    @classmethod
    def from_tokenizer_json(cls, path: str | os.PathLike[str], return_tokens: bool = False) -> Self:
        """Read what `to_tokenizer_json` of this class wrote.

        Args:
            path: file or URL.
            return_tokens: give tokens instead of ids as strings.

        Raises:
            FileNotFoundError: no such file.
            ValueError: the file is damaged, or describes a tokenizer that this class is not.
        """
        from flambeau.text._tokenizers import export

        content = export.read(path)
        tokenizer = cls.__new__(cls)
        try:
            tokenizer._fill(content)
            vocabulary = content["model"]["vocab"]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{os.fspath(path)!r} describes no {cls.__name__} ({error!r}).") from error
        files.check_vocabulary(vocabulary, os.fspath(path))
        Tokenizer.__init__(tokenizer, vocabulary, return_tokens=return_tokens)
        # What it would write itself tells whether nothing of the file was overlooked.
        written, _ = tokenizer._tokenizer_json()
        for part in ("normalizer", "pre_tokenizer", "model"):
            if export.comparable(written[part]) != export.comparable(content.get(part)):
                raise ValueError(
                    f"{os.fspath(path)!r}: its {part} is not that of a {cls.__name__}, whose ids would differ from "
                    "those that the file stands for; load it with the library tokenizers."
                )
        return tokenizer

    def extra_repr(self) -> str:
        """What the module's repr shows."""
        return f"vocab_size={self.vocab_size}, return_tokens={self._return_tokens}"

    def __getstate__(self) -> dict[str, Any]:
        return {**{name: value for name, value in self.__dict__.items() if name not in _FOUND}, "_native": None}

    # What the kinds of tokenizers define.

    def _prepared(self, text: str) -> str:
        """The text that is tokenized, where it is not the one given."""
        return text

    def _sources(self, text: str) -> Sequence[int]:
        """For each character of the prepared text the place in `text` that it comes from."""
        return range(len(text))

    def _make_native(self) -> native.NativeTokenizer:
        raise TypeError(f"{type(self).__name__} does not say how it is built natively.")

    def _reference(self, text: str) -> list[Piece]:
        """The pieces of a prepared text."""
        raise TypeError(f"{type(self).__name__} does not say what it does.")

    def _fill(self, content: dict[str, Any]) -> None:
        """Set what the constructor sets before the vocabulary, from a tokenizer.json."""
        raise TypeError(f"{type(self).__name__} cannot be read from tokenizer.json.")

    def _missing(self, piece: Piece) -> Exception:
        """The error for a piece without id."""
        return KeyError(f"{piece.token!r} is not in the vocabulary of {len(self._vocabulary)} tokens.")

    def _tokenizer_json(self) -> tuple[dict[str, Any], list[str]]:
        raise TypeError(f"{type(self).__name__} cannot be expressed as tokenizer.json.")

    # How they are called.

    def _known(self, ids: Any) -> list[str]:
        """The tokens of some ids.

        Raises:
            IndexError: an id that the vocabulary has not.
        """
        numbers = identities(ids)
        try:
            return [self._tokens[identity] for identity in numbers]
        except KeyError as error:
            place = numbers.index(error.args[0])
            raise IndexError(
                f"Id {error.args[0]} at place {place} is not in the vocabulary of {self.vocab_size} tokens."
            ) from None

    def _engine(self) -> native.NativeTokenizer | None:
        if self._native is None and native.available():
            self._native = self._make_native()
        return self._native

    def _ids(self, text: str) -> list[int]:
        prepared = self._prepared(text)
        engine = self._native or self._engine()
        if engine is None:
            return [piece.id for piece in self._checked(prepared)]
        ids = engine.encode(utf8(prepared))
        if not engine.complete and -1 in ids:
            self._checked(prepared)
        return ids

    def _batch(self, input: Any) -> list[list[int]]:
        if self._engine() is None:
            return [self._ids(text) for text in texts(input)]
        ids, rows = self._rows(input)
        flat, ends = ids.tolist(), rows.tolist()
        return [flat[begin:end] for begin, end in itertools.pairwise(ends)]

    def _rows(self, input: Any) -> tuple[Any, Any]:
        import numpy as np

        prepared = [self._prepared(text) for text in texts(input)]
        engine = self._engine()
        if engine is None:
            lists = [[piece.id for piece in self._checked(text)] for text in prepared]
            rows = np.cumsum([0, *map(len, lists)])
            return np.array([identity for ids in lists for identity in ids], np.int32), rows
        ids, rows = engine.encode_batch([utf8(text) for text in prepared])
        if len(ids) and int(ids.min()) < 0:
            self._checked(prepared[int(np.searchsorted(rows, int(ids.argmin()), side="right")) - 1])
        return ids, rows

    def _checked(self, prepared: str) -> list[Piece]:
        utf8(prepared)
        pieces = self._reference(prepared)
        for piece in pieces:
            if piece.id < 0:
                raise self._missing(piece)
        return pieces

    def _offsets(self, text: str, unit: Unit) -> Encoding:
        prepared = self._prepared(text)
        data = utf8(prepared)
        engine = self._engine()
        if engine is None:
            pieces = self._checked(prepared)
            ids, spans = [piece.id for piece in pieces], [(piece.begin, piece.end) for piece in pieces]
        else:
            ids, spans = engine.encode_spans(data)
            if -1 in ids:
                self._checked(prepared)
        if unit == "byte" and prepared == text:
            return Encoding(ids, spans)
        places = _characters(data)
        sources = self._sources(text)
        spans = [(sources[places[begin]], sources[places[max(end - 1, begin)]] + 1) for begin, end in spans]
        if unit == "byte":
            starts = _starts(text)
            spans = [(starts[begin], starts[end]) for begin, end in spans]
        return Encoding(ids, spans)


def texts(input: Any) -> list[str]:
    """The input itself, if it is a list of str.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(input, list):
        raise TypeError(f"A tokenizer takes a str or a list of str, got {type(input).__name__}.")
    for place, text in enumerate(input):
        if not isinstance(text, str):
            raise TypeError(f"A tokenizer takes a list of str, got {type(text).__name__} at place {place}.")
    return input


def utf8(text: str) -> bytes:
    """The text's bytes.

    Raises:
        TypeError: it holds a lone surrogate, which no text that came from bytes does.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise TypeError(
            f"The text has a lone surrogate (U+{ord(text[error.start]):04X}) at place {error.start}, which is no "
            "character; decode with errors='replace', or drop it."
        ) from error


def each(input: Any, function: Callable[[str], Result]) -> Result | list[Result]:
    """A function of one text, applied to one or to each of a list."""
    return function(input) if isinstance(input, str) else [function(text) for text in texts(input)]


def identities(ids: Any) -> list[int]:
    """Ids as numbers, from a list of them or of strings, or from a tensor of one dimension.

    Raises:
        ValueError: a string is no whole number.
        TypeError: it is something else.
    """
    if isinstance(ids, Tensor):
        ids = ids.tolist()
    if isinstance(ids, str) or not isinstance(ids, Sequence):
        raise TypeError(f"decode takes a list of ids, got {type(ids).__name__}.")
    return [int(identity) for identity in ids]


def _characters(data: bytes) -> Sequence[int]:
    """The place of the character that each byte belongs to."""
    if data.isascii():
        return range(len(data))
    places, at = [], -1
    for byte in data:
        at += (byte & 0xC0) != 0x80
        places.append(at)
    return places


def _starts(text: str) -> Sequence[int]:
    """The byte at which each character begins, and the end."""
    if text.isascii():
        return range(len(text) + 1)
    starts = [0]
    for character in text:
        starts.append(starts[-1] + len(character.encode()))
    return starts
