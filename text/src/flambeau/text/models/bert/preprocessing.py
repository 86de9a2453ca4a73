"""Texts as BERT reads them: word pieces between a first and a last token, padded."""

from __future__ import annotations

import os

import torch
from torch import Tensor, nn

from flambeau.text import functional
from flambeau.text._exporting import NotScripted
from flambeau.text._tokenizers.bert import BERTTokenizer
from flambeau.text.weights.files import asset

__all__ = ["BertTransform"]


class BertTransform(NotScripted, nn.Module):
    """Make padded ids of texts: `[CLS]`, the pieces, `[SEP]`, and `[PAD]` up to the longest text.

    Args:
        vocab_path: a vocabulary's file or URL, one piece a line.
        do_lower_case: for vocabularies of lower case, without accents.
        max_seq_len: most ids of a text, the first and the last included.

    Raises:
        ValueError: the vocabulary lacks one of the three tokens, or `max_seq_len` has no room for two.

    Example:
        >>> from flambeau.text.models import MiniLM_L6_Weights
        >>> transform = MiniLM_L6_Weights.SENTENCE_PAIRS.transforms()
        >>> transform(["Hello world", "Hi"]).tolist()
        [[101, 7592, 2088, 102], [101, 7632, 102, 0]]
    """

    def __init__(self, vocab_path: str | os.PathLike[str], do_lower_case: bool = True, max_seq_len: int = 512) -> None:
        super().__init__()
        if max_seq_len < 2:
            raise ValueError(f"max_seq_len is {max_seq_len}, expected at least 2, for the first and the last token.")
        self.tokenizer = BERTTokenizer(str(asset(vocab_path)), do_lower_case=do_lower_case)
        self.max_seq_len = max_seq_len
        self.begin, self.end, self.padding = (self._id(token) for token in ("[CLS]", "[SEP]", "[PAD]"))

    def forward(self, input: str | list[str]) -> Tensor:
        """Ids of a text (T,), or of several (N, T), int64.

        Raises:
            TypeError: the input is neither.
        """
        if isinstance(input, str):
            return torch.tensor(self._bounded(self.tokenizer.encode_ids(input)), dtype=torch.long)
        bounded = [self._bounded(ids) for ids in self.tokenizer.encode_ids(input)]
        return functional.to_tensor(bounded, self.padding) if bounded else torch.empty(0, 0, dtype=torch.long)

    def _bounded(self, ids: list[int]) -> list[int]:
        return [self.begin, *ids[: self.max_seq_len - 2], self.end]

    def _id(self, token: str) -> int:
        # Beside other text a special token is no word; a vocabulary's own table knows it.
        if token not in self.tokenizer._vocabulary:
            raise ValueError(f"the vocabulary has no {token}; is it a BERT's?")
        return self.tokenizer._vocabulary[token]
