"""SentencePiece models, by the package of that name."""

from __future__ import annotations

import os
from typing import Any

from torch import nn

from flambeau.text._tokenizers import files
from flambeau.text._tokenizers.base import Encoding, each, identities, texts, utf8


class SentencePieceTokenizer(nn.Module):
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

    is_jitable = False

    def __init__(self, sp_model_path: str | os.PathLike[str]) -> None:
        super().__init__()
        path = files.local(sp_model_path)
        self._model = path.read_bytes()
        self._engine: Any = _loaded(self._model, os.fspath(sp_model_path))

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

    def encode_offsets(self, input: str | list[str]) -> Any:
        """Ids, and the characters of the text that each comes from, as `Encoding`; one for a str, else a list."""
        return each(input, self._offsets)

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
        for text in [input] if isinstance(input, str) else texts(input):
            utf8(text)
        return self._engine.encode(input, out_type=kind)

    def _offsets(self, text: str) -> Encoding:
        utf8(text)
        pieces = self._engine.encode(text, out_type="immutable_proto").pieces
        return Encoding([piece.id for piece in pieces], [(piece.begin, piece.end) for piece in pieces])

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
