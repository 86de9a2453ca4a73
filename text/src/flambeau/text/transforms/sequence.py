"""Steps between tokens and the tensors that models take, one sequence or many at a time."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.text import functional
from flambeau.text._exporting import NotScripted
from flambeau.text._tokenizers import files
from flambeau.text.vocab.vocab import Vocab

__all__ = [
    "AddToken",
    "LabelToIndex",
    "PadTransform",
    "Sequential",
    "StrToIntTransform",
    "ToTensor",
    "Truncate",
    "VocabTransform",
]


class VocabTransform(NotScripted, nn.Module):
    """Tokens become their indices in a vocabulary.

    Args:
        vocab: the vocabulary.

    Raises:
        AssertionError: it is no `Vocab`.

    Example:
        >>> VocabTransform(Vocab(["a", "b"]))([["b"], ["a", "b"]])
        [[1], [0, 1]]
    """

    def __init__(self, vocab: Vocab) -> None:
        super().__init__()
        if not isinstance(vocab, Vocab):
            raise AssertionError(f"VocabTransform takes a Vocab, got {type(vocab).__name__}.")
        self.vocab = vocab

    def forward(self, input: Any) -> Any:
        """Indices for a list of str, lists of indices for a list of such lists.

        Raises:
            TypeError: another type.
            RuntimeError: a token is unknown and the vocabulary has no default index.
        """
        if isinstance(input, list) and input and isinstance(input[0], list):
            lookup = self.vocab.lookup_indices
            return [lookup(tokens) for tokens in input]
        return self.vocab.lookup_indices(input)


class ToTensor(NotScripted, nn.Module):
    """`functional.to_tensor` as a step.

    Args:
        padding_value: fills up rows that are shorter than the longest.
        dtype: of the tensor of many sequences.
    """

    def __init__(self, padding_value: int | None = None, dtype: torch.dtype = torch.long) -> None:
        super().__init__()
        self.padding_value = padding_value
        self.dtype = dtype

    def forward(self, input: Any) -> Tensor:
        """A list of int as (ids,), a list of such lists as (sequences, most ids)."""
        return functional.to_tensor(input, padding_value=self.padding_value, dtype=self.dtype)


class LabelToIndex(NotScripted, nn.Module):
    """Labels become numbers from 0 on.

    Args:
        label_names: the labels in order.
        label_path: or a file with one a line, or its URL; empty lines do not count.
        sort_names: number them in alphabetical order instead.

    Raises:
        AssertionError: neither or both are given.
        RuntimeError: a label occurs twice.

    Example:
        >>> LabelToIndex(["neg", "pos"])(["pos", "neg"])
        [1, 0]
    """

    def __init__(
        self,
        label_names: list[str] | None = None,
        label_path: str | os.PathLike[str] | None = None,
        sort_names: bool = False,
    ) -> None:
        if bool(label_names) == bool(label_path):
            raise AssertionError("LabelToIndex takes label_names or label_path: one of them, and not both.")
        super().__init__()
        names = list(label_names or ())
        if label_path:
            lines = files.local(label_path).read_text(encoding="utf-8").split("\n")
            names = [line.strip() for line in lines if line.strip()]
        self._label_vocab = Vocab(sorted(names) if sort_names else names)

    @property
    def label_names(self) -> list[str]:
        """The labels by number."""
        return self._label_vocab.get_itos()

    def forward(self, input: Any) -> Any:
        """The number of a label, or those of a list of labels.

        Raises:
            TypeError: another type.
            RuntimeError: an unknown label.
        """
        if isinstance(input, str):
            return self._label_vocab[input]
        if not isinstance(input, list):
            raise TypeError(f"LabelToIndex takes a str or a list of str, got {type(input).__name__}.")
        return self._label_vocab.lookup_indices(input)


class Truncate(NotScripted, nn.Module):
    """`functional.truncate` as a step.

    Args:
        max_seq_len: how many tokens to keep.
    """

    def __init__(self, max_seq_len: int) -> None:
        super().__init__()
        self.max_seq_len = max_seq_len

    def forward(self, input: Any) -> Any:
        """The first tokens of a sequence, or of each of many."""
        return functional.truncate(input, self.max_seq_len)

    def extra_repr(self) -> str:
        """What the module's repr shows."""
        return str(self.max_seq_len)


class AddToken(NotScripted, nn.Module):
    """`functional.add_token` as a step.

    Args:
        token: int, or str among str.
        begin: put it in front; False puts it at the end.
    """

    def __init__(self, token: int | str, begin: bool = True) -> None:
        super().__init__()
        self.token = token
        self.begin = begin

    def forward(self, input: Any) -> Any:
        """A sequence, or each of many, with the token."""
        return functional.add_token(input, self.token, self.begin)

    def extra_repr(self) -> str:
        """What the module's repr shows."""
        return f"{self.token!r}, begin={self.begin}"


class PadTransform(nn.Module):
    """Tensors are filled up to a length.

    Args:
        max_length: of the last dimension afterwards; longer tensors stay as they are.
        pad_value: what to fill up with, on the right.
    """

    def __init__(self, max_length: int, pad_value: int) -> None:
        super().__init__()
        self.max_length = max_length
        self.pad_value = float(pad_value)

    def forward(self, x: Tensor) -> Tensor:
        """(..., ids) as (..., at least `max_length`), of the same dtype."""
        missing = self.max_length - x.size(-1)
        return nn.functional.pad(x, (0, missing), value=self.pad_value) if missing > 0 else x


class StrToIntTransform(NotScripted, nn.Module):
    """`functional.str_to_int` as a step."""

    def forward(self, input: Any) -> Any:
        """Numbers for a list of str, lists of numbers for a list of such lists."""
        return functional.str_to_int(input)


class Sequential(nn.Sequential):
    """Steps, one after another; the first may take anything.

    Example:
        >>> Sequential(StrToIntTransform(), Truncate(2), AddToken(0), ToTensor(padding_value=1))([["5", "6"], ["7"]])
        tensor([[0, 5, 6],
                [0, 7, 1]])
    """

    def forward(self, input: Any) -> Any:
        """What the last step gives."""
        for module in self:
            input = module(input)
        return input
