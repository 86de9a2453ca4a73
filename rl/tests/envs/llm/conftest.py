"""What tests of conversations share lies beside them; a tokenizer and a model, made here."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def tokenizer():
    pytest.importorskip("transformers", reason="needs transformers; the extra `llm` has it")
    from flambeau.rl.testing.tiny_llm import tiny_tokenizer

    return tiny_tokenizer()


@pytest.fixture(scope="session")
def model(tokenizer):
    from flambeau.rl.testing.tiny_llm import tiny_causal_lm

    return tiny_causal_lm(tokenizer)
