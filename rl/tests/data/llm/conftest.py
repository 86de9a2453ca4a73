"""A tokenizer made here."""

import pytest


@pytest.fixture(scope="session")
def tokenizer():
    pytest.importorskip("transformers", reason="needs transformers; the extra `llm` has it")
    from flambeau.rl.testing.tiny_llm import tiny_tokenizer

    return tiny_tokenizer(padding_side="right")
