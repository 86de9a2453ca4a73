"""SentencePiece models, by the package of that name."""

from __future__ import annotations

import os
from typing import Any, Self

import torch
from torch import Tensor, nn

from flambeau.text import functional
from flambeau.text._exporting import NotScripted
from flambeau.text._tokenizers import export, files
from flambeau.text._tokenizers.base import Encoding, Unit, _characters, each, identities, texts, utf8
from flambeau.text._tokenizers.sentencepiece_model import read_pieces


class SentencePieceTokenizer(NotScripted, nn.Module):
    """The pieces of a SentencePiece model (needs the package `sentencepiece`).

    Args:
        sp_model_path: file or URL of a model.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the file is no SentencePiece model.
        ImportError: the package is not installed.

    References:
        T. Kudo and J. Richardson (2018), "SentencePiece", arXiv:1808.06226.
    """

    def __init__(self, sp_model_path: str | os.PathLike[str]) -> None:
        super().__init__()
        path = files.local(sp_model_path)
        self._model = path.read_bytes()
        self._engine: Any = _loaded(self._model, os.fspath(sp_model_path))

    @classmethod
    def from_tokenizer_json(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `to_tokenizer_json` of this class wrote.

        Args:
            path: file or URL.

        Raises:
            FileNotFoundError: no such file.
            ValueError: the file is damaged, or describes a tokenizer that is none of SentencePiece.
            ImportError: the package is not installed.
        """
        from flambeau.text._tokenizers import sentencepiece_json, sentencepiece_model

        content = export.read(path)
        try:
            model = sentencepiece_json.model_of(content)
            # What it would write itself tells whether nothing of the file was overlooked.
            written, _ = sentencepiece_json.document(model)
        except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
            raise ValueError(f"{os.fspath(path)!r} describes no {cls.__name__} ({error!r}).") from error
        for part in ("normalizer", "pre_tokenizer", "model"):
            if export.comparable(written[part]) != export.comparable(content.get(part)):
                raise ValueError(
                    f"{os.fspath(path)!r}: its {part} is not that of a {cls.__name__}, whose ids would differ from "
                    "those that the file stands for; load it with the library tokenizers."
                )
        tokenizer = cls.__new__(cls)
        nn.Module.__init__(tokenizer)
        tokenizer._model = sentencepiece_model.write(model)
        tokenizer._engine = _loaded(tokenizer._model, os.fspath(path))
        return tokenizer

    def to_tokenizer_json(self, path: str | os.PathLike[str], *, strict: bool = False) -> list[str]:
        """Write the model as a `tokenizer.json`, which the library `tokenizers` and others load.

        Args:
            path: of the file.
            strict: refuse to write what would behave otherwise in any known case.

        Returns:
            The known differences: what a reader of the file does otherwise, one sentence each.

        Raises:
            ValueError: the schema has nothing for a model of this kind; or `strict`, and there are differences.
        """
        from flambeau.text._tokenizers import sentencepiece_json, sentencepiece_model

        content, differences = sentencepiece_json.document(sentencepiece_model.read(self._model))
        export.write(path, content, differences, strict=strict)
        return differences

    @property
    def vocab_size(self) -> int:
        """The number of pieces."""
        return int(self._engine.get_piece_size())

    def forward(self, input: Any) -> Any:
        """Pieces as strings: a list for a str, a list of lists for a list of str.

        Raises:
            TypeError: it is neither, or holds a lone surrogate.
        """
        return self._encoded(input, str)

    def encode_ids(self, input: str | list[str]) -> Any:
        """Ids as numbers: a list for a str, a list of lists for a list of str.

        Raises:
            TypeError: it is neither, or holds a lone surrogate.
        """
        return self._encoded(input, int)

    def encode_offsets(self, input: str | list[str], unit: Unit = "character") -> Any:
        """Ids, and where in the text each comes from, as `Encoding`: one for a str, else a list.

        Args:
            input: one text or many.
            unit: of the spans: "character", that is, places in the str; or "byte", places in its UTF-8.

        Raises:
            TypeError: `input` is neither, or holds a lone surrogate.
            ValueError: another unit.
        """
        if unit not in ("character", "byte"):
            raise ValueError(f"unit is {unit!r}; expected 'character' or 'byte'.")
        return each(input, lambda text: self._offsets(text, unit))

    def to_tensor(self, input: str | list[str], padding_value: int | None = None) -> Tensor:
        """Ids as a tensor.

        Args:
            input: one text or many.
            padding_value: fills up rows that are shorter than the longest; needed if any is.

        Returns:
            int64, (tokens,) for one text and (texts, most tokens) for many.

        Raises:
            TypeError: `input` is neither, or holds a lone surrogate.
            ValueError: rows of different lengths, and no `padding_value`.
        """
        ids = self.encode_ids(input)
        return functional.to_tensor(ids, padding_value) if ids or isinstance(input, str) else torch.empty(0, 0).long()

    def decode(self, tokens: Any) -> str:
        """The text of ids, as numbers or as strings of digits.

        Raises:
            IndexError: an id that the model has not.
        """
        ids = identities(tokens)
        for place, identity in enumerate(ids):
            if not 0 <= identity < self.vocab_size:
                raise IndexError(f"Id {identity} at place {place} is not one of the model's {self.vocab_size}.")
        return str(self._engine.decode(ids))

    def extra_repr(self) -> str:
        """What the module's repr shows."""
        return f"vocab_size={self.vocab_size}"

    def _encoded(self, input: Any, kind: type) -> Any:
        together = input if isinstance(input, str) else "".join(texts(input))
        if not together.isascii():
            for text in [input] if isinstance(input, str) else input:
                utf8(text)
        return self._engine.encode(input, out_type=kind)

    def _offsets(self, text: str, unit: Unit) -> Encoding:
        data = utf8(text)
        # The one form with places that every version of the package has; they are in bytes.
        pieces = read_pieces(self._engine.encode(text, out_type="serialized_proto"))
        ids, spans = [piece.id for piece in pieces], [(piece.begin, piece.end) for piece in pieces]
        if unit == "character":
            places = [*_characters(data), len(text)]
            spans = [(places[begin], places[end]) for begin, end in spans]
        return Encoding(ids, spans)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_engine"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._engine = _loaded(self._model, "the pickled model")


def _loaded(model: bytes, name: str) -> Any:
    try:
        import sentencepiece
    except ImportError as error:
        raise ImportError("SentencePiece models need a package: pip install sentencepiece.") from error
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise ValueError(f"{name!r} is no SentencePiece model ({len(model)} bytes).") from error
    return processor
