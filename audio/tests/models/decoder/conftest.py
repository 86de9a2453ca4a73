"""Emissions, lexica and language models for the tests of decoders."""

from pathlib import Path

import pytest
import torch

FILES = Path(__file__).parent / "files"
TOKENS = ["-", "|", "a", "b", "c"]


@pytest.fixture
def lexicon(tmp_path):
    path = tmp_path / "lexicon.txt"
    path.write_text("ab a b |\nba b a |\ncab c a b |\na a |\nabc a b c |\n")
    return path


@pytest.fixture
def arpa(tmp_path):
    path = tmp_path / "words.arpa"
    path.write_text(
        "\\data\\\nngram 1=7\nngram 2=3\n\n\\1-grams:\n-1.2\t<s>\t-0.3\n-1.0\t</s>\n-2.0\t<unk>\n-0.9\tab\t-0.25\n"
        "-1.1\tba\t-0.2\n-1.3\tcab\t-0.15\n-0.7\ta\n\n\\2-grams:\n-0.4\t<s> ab\n-0.5\tab ba\n-0.6\tba </s>\n\n\\end\\\n"
    )
    return path


def emissions(seed: int, batch: int = 2, frames: int = 20) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(batch, frames, len(TOKENS), generator=generator)).log_softmax(-1)


def plain(hypotheses):
    return [(h.tokens.tolist(), h.words, pytest.approx(h.score, rel=1e-5), h.timesteps.tolist()) for h in hypotheses]
