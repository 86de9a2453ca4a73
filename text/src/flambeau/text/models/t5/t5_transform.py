"""Texts as T5 reads them: ids of SentencePiece, an end, and padding; and back."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.text import functional
from flambeau.text._exporting import NotScripted
from flambeau.text._tokenizers.sentencepiece import SentencePieceTokenizer
from flambeau.text.weights.files import asset

__all__ = ["T5Transform"]


class T5Transform(NotScripted, nn.Module):
    """Make padded ids of texts, and texts of ids.

    Args:
        sp_model_path: file or URL of a SentencePiece model.
        max_seq_len: most ids of a text, its end included.
        eos_idx: the id that ends a text.
        padding_idx: the id of padding.

    Raises:
        FileNotFoundError: no such file.
        ImportError: the package `sentencepiece` is not installed.

    Example:
        >>> from flambeau.text.models import T5_BASE
        >>> transform = T5_BASE.transform()
        >>> transform(["Hello world", "Attention rocks!"]).shape
        torch.Size([2, 4])
    """

    def __init__(self, sp_model_path: str | os.PathLike[str], max_seq_len: int, eos_idx: int, padding_idx: int) -> None:
        super().__init__()
        if max_seq_len < 1:
            raise ValueError(f"max_seq_len is {max_seq_len}, expected at least 1: every text has an end.")
        self.sp_model = SentencePieceTokenizer(asset(sp_model_path))
        self.max_seq_len, self.eos_idx, self.padding_idx = max_seq_len, eos_idx, padding_idx

    def forward(self, input: str | list[str]) -> Tensor:
        """Ids of a text (T,), or of several (N, T), int64, padded on the right.

        Raises:
            TypeError: the input is neither.
        """
        found = self.encode(input)
        if isinstance(input, str):
            return torch.tensor(self._ended(found), dtype=torch.long)
        ended = [self._ended(ids) for ids in found]
        return functional.to_tensor(ended, self.padding_idx) if ended else torch.empty(0, 0, dtype=torch.long)

    def encode(self, input: str | list[str]) -> Any:
        """Ids of a text as a list, or of several as lists, neither cut nor ended.

        Raises:
            TypeError: the input is neither.
        """
        return self.sp_model.encode_ids(input)

    def decode(self, input: list[int] | list[list[int]]) -> str | list[str]:
        """The text of a list of ids, or the texts of several.

        Raises:
            TypeError: the input is neither; upstream's type of error.
            IndexError: an id that the model has not.
        """
        given: Any = input  # of any type, for all that is known
        if isinstance(given, list) and given and all(isinstance(ids, list) for ids in given):
            return [self._decoded(ids) for ids in given]
        return self._decoded(input)

    def _decoded(self, ids: Any) -> str:
        if not isinstance(ids, list) or not all(type(identity) is int for identity in ids):
            raise TypeError(f"ids are a {type(ids).__name__}, expected a list of int or a list of such lists.")
        return self.sp_model.decode(ids)

    def _ended(self, ids: list[int]) -> list[int]:
        return [*ids[: self.max_seq_len - 1], self.eos_idx]
