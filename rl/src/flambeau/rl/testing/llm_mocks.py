"""Stand-ins for language models and their data, where a test needs nothing of a real one; see `tiny_llm` for those."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

__all__ = [
    "DummyStrDataLoader",
    "DummyTensorDataLoader",
    "MockTransformerConfig",
    "MockTransformerModel",
    "MockTransformerOutput",
]

_VOCABULARY = 10_000


class DummyStrDataLoader:
    """Random words without end.

    Args:
        batch_size: how many at a time, in a list at "query"; 0 for one alone, at "text".
    """

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size

    def generate_random_string(self, length: int = 10) -> str:
        """Small letters.

        Args:
            length: how many.
        """
        return "".join(random.choices(string.ascii_lowercase, k=length))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while True:
            if not self.batch_size:
                yield {"text": self.generate_random_string()}
            else:
                yield {"query": [self.generate_random_string() for _ in range(self.batch_size)]}


class DummyTensorDataLoader:
    """Random tokens without end, of random lengths, with their attention mask.

    Args:
        batch_size: how many sequences at a time; 0 for one alone.
        max_length: tokens of a sequence, at most.
        padding: pad them on the left with 0; otherwise several come as a list.
    """

    def __init__(self, batch_size: int = 0, max_length: int = 10, padding: bool = False) -> None:
        self.batch_size, self.max_length, self.padding = batch_size, max_length, padding

    def generate_random_tensor(self) -> Tensor:
        """(tokens,), int64, from 1 to 9999."""
        length = int(torch.randint(1, self.max_length + 1, ()))
        return torch.randint(1, _VOCABULARY, (length,))

    def pad_tensor(self, tensor: Tensor) -> Tensor:
        """Tokens with zeros before them, (max_length,)."""
        return nn.functional.pad(tensor, (self.max_length - len(tensor), 0))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while True:
            rows = [self.generate_random_tensor() for _ in range(self.batch_size or 1)]
            rows = [self.pad_tensor(row) for row in rows] if self.padding else rows
            if not self.batch_size:
                yield {"tokens": rows[0], "attention_mask": rows[0] != 0}
            elif self.padding:
                tokens = torch.stack(rows)
                yield {"tokens": tokens, "attention_mask": tokens != 0}
            else:
                yield {"tokens": rows, "attention_mask": [row != 0 for row in rows]}


class MockTransformerConfig:
    """What a wrapper reads of a configuration.

    Args:
        vocab_size: of the tokens.
        max_position_embeddings: tokens of a sequence, at most.
    """

    def __init__(self, vocab_size: int, max_position_embeddings: int = 2048) -> None:
        self.vocab_size, self.max_position_embeddings = vocab_size, max_position_embeddings
        self.hidden_size = vocab_size


class MockTransformerOutput:
    """What a model gives, as an attribute and by name.

    Args:
        logits: (batch, tokens, vocabulary).
    """

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def __getitem__(self, key: str) -> Tensor:
        if key != "logits":
            raise KeyError(f"a MockTransformerOutput has no {key!r}, but 'logits'.")
        return self.logits


class MockTransformerModel(nn.Module):
    """A model whose logits depend on the token before alone: a table.

    Args:
        vocab_size: of the tokens.
        device: of the table.
    """

    def __init__(self, vocab_size: int, device: Any = "cpu") -> None:
        super().__init__()
        self.config = MockTransformerConfig(vocab_size)
        self.device = torch.device(device)
        self.embedding = nn.Embedding(vocab_size, vocab_size, device=device)

    def get_tokenizer(self) -> Any:
        """A tokenizer that is made on the spot; ids above the vocabulary are for the caller to avoid."""
        from flambeau.rl.testing.tiny_llm import tiny_tokenizer

        return tiny_tokenizer()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **kwargs: Any) -> MockTransformerOutput:
        """Look logits up.

        Args:
            input_ids: (batch, tokens).
            attention_mask: not looked at.
            **kwargs: not looked at.
        """
        return MockTransformerOutput(self.embedding(input_ids))
