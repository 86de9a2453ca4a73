"""Earlier forms of transforms, built by functions."""

from __future__ import annotations

import io
import os
from typing import Any

from torch import Tensor, nn

from flambeau.text._exporting import NotScripted
from flambeau.text.data import functional
from flambeau.text.prototype.vectors import Vectors
from flambeau.text.transforms import RegexTokenizer
from flambeau.text.vocab.vocab import Vocab

__all__ = [
    "PRETRAINED_SP_MODEL",
    "BasicEnglishNormalize",
    "SentencePieceProcessor",
    "SentencePieceTokenizer",
    "VectorTransform",
    "VocabTransform",
    "basic_english_normalize",
    "load_sp_model",
    "sentencepiece_processor",
    "sentencepiece_tokenizer",
]

PRETRAINED_SP_MODEL = {
    f"text_{kind}_{size}": f"https://pytorch.s3.amazonaws.com/models/text/pretrained_spm/text_{kind}_{size}.model"
    for kind in ("unigram", "bpe")
    for size in (15000, 25000, 50000)
}
"""URLs of published SentencePiece models, by name."""

_BASIC_ENGLISH = [
    (r"\'", " '  "),
    (r"\"", ""),
    (r"\.", " . "),
    (r"<br \/>", " "),
    (r",", " , "),
    (r"\(", " ( "),
    (r"\)", " ) "),
    (r"\!", " ! "),
    (r"\?", " ? "),
    (r"\;", " "),
    (r"\:", " "),
    (r"\s+", " "),
]
_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def basic_english_normalize() -> BasicEnglishNormalize:
    """A tokenizer of English that knows ASCII alone: `get_tokenizer("basic_english")` also lower-cases other letters.

    Raises:
        ImportError: neither google-re2 nor regex is installed.
    """
    return BasicEnglishNormalize(RegexTokenizer(_BASIC_ENGLISH))


def load_sp_model(sp_model: str | os.PathLike[str] | io.BufferedReader) -> Any:
    """As `flambeau.text.data.functional.load_sp_model`.

    Args:
        sp_model: path of the model, or the open file.
    """
    return functional.load_sp_model(sp_model)


class BasicEnglishNormalize(NotScripted, nn.Module):
    """Lower-cases the letters from A to Z, then applies a tokenizer.

    Args:
        regex_tokenizer: the tokenizer.
    """

    def __init__(self, regex_tokenizer: RegexTokenizer) -> None:
        super().__init__()
        self.regex_tokenizer = regex_tokenizer

    def forward(self, line: str) -> list[str]:
        """The tokens of one text.

        Raises:
            TypeError: it is no str.
        """
        if not isinstance(line, str):
            raise TypeError(f"BasicEnglishNormalize takes a str, got {type(line).__name__}.")
        tokens: list[str] = self.regex_tokenizer(line.translate(_LOWER))
        return tokens


def sentencepiece_tokenizer(sp_model: str | os.PathLike[str] | io.BufferedReader) -> SentencePieceTokenizer:
    """The tokenizer of a SentencePiece model, which is given as for `load_sp_model`.

    Example:
        `sentencepiece_tokenizer(PRETRAINED_SP_MODEL["text_bpe_25000"])("hello world")`
    """
    return SentencePieceTokenizer(load_sp_model(sp_model))


class SentencePieceTokenizer(NotScripted, nn.Module):
    """The pieces of a text.

    Args:
        spm_model: from `load_sp_model`.
    """

    def __init__(self, spm_model: Any) -> None:
        super().__init__()
        self.sp_model = spm_model

    def forward(self, line: str) -> list[str]:
        """The pieces of one text."""
        pieces: list[str] = self.sp_model.EncodeAsPieces(line)
        return pieces

    def decode(self, tokens: list[str]) -> str:
        """The text of pieces."""
        return str(self.sp_model.DecodePieces(tokens))


def sentencepiece_processor(sp_model: str | os.PathLike[str] | io.BufferedReader) -> SentencePieceProcessor:
    """The processor of a SentencePiece model, which is given as for `load_sp_model`."""
    return SentencePieceProcessor(load_sp_model(sp_model))


class SentencePieceProcessor(NotScripted, nn.Module):
    """The ids of a text.

    Args:
        spm_model: from `load_sp_model`.
    """

    def __init__(self, spm_model: Any) -> None:
        super().__init__()
        self.sp_model = spm_model

    def forward(self, line: str) -> list[int]:
        """The ids of one text."""
        ids: list[int] = self.sp_model.EncodeAsIds(line)
        return ids

    def decode(self, ids: list[int]) -> str:
        """The text of ids."""
        return str(self.sp_model.DecodeIds(ids))


class VocabTransform(NotScripted, nn.Module):
    """Tokens become their indices in a vocabulary.

    Args:
        vocab: the vocabulary.
    """

    def __init__(self, vocab: Vocab) -> None:
        super().__init__()
        self.vocab = vocab

    def forward(self, tokens: list[str]) -> list[int]:
        """The indices of tokens; errors are those of `Vocab.lookup_indices`."""
        indices: list[int] = self.vocab(tokens)
        return indices


class VectorTransform(NotScripted, nn.Module):
    """Tokens become their vectors.

    Args:
        vector: the vectors.
    """

    def __init__(self, vector: Vectors) -> None:
        super().__init__()
        self.vector = vector

    def forward(self, tokens: list[str]) -> Tensor:
        """(tokens, dim) float32."""
        vectors: Tensor = self.vector(tokens)
        return vectors
