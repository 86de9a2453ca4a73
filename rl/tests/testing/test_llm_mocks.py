"""Stand-ins for language models give what a wrapper reads."""

from __future__ import annotations

import pytest
import torch

from flambeau.rl.testing.llm_mocks import DummyStrDataLoader, DummyTensorDataLoader, MockTransformerModel


def test_words_come_alone_or_in_batches():
    assert len(next(iter(DummyStrDataLoader()))["text"]) == 10
    assert len(next(iter(DummyStrDataLoader(3)))["query"]) == 3


def test_tokens_come_alone_in_lists_or_padded():
    alone = next(iter(DummyTensorDataLoader(max_length=4)))
    assert 1 <= len(alone["tokens"]) <= 4
    assert len(next(iter(DummyTensorDataLoader(2)))["tokens"]) == 2
    padded = next(iter(DummyTensorDataLoader(2, max_length=6, padding=True)))
    assert padded["tokens"].shape == (2, 6)
    assert torch.equal(padded["tokens"] != 0, padded["attention_mask"])


def test_logits_are_rows_of_a_table():
    model = MockTransformerModel(7)
    output = model(torch.tensor([[1, 2]]))
    assert torch.equal(output.logits[0], model.embedding.weight[[1, 2]])
    assert output["logits"] is output.logits
    with pytest.raises(KeyError, match="logits"):
        output["hidden"]
