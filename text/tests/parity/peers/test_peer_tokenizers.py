"""Our tokenizers beside tokenizers and tiktoken, over texts of all planes of Unicode and characters of every category.

torchtext's classes stand first: where it and these libraries differ, ours do as torchtext's (see
`test_peer_torchtext.py`), and the difference stands in `differences.toml`.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from unicode_corpus import TEXTS, categories

from flambeau.core.testing.differential import Cell, Suite, cross
from flambeau.text import transforms

tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers; `nox -s parity -- peers` has it")
tiktoken = pytest.importorskip("tiktoken", reason="needs tiktoken; `nox -s parity -- peers` has it")

V = Path(__file__).resolve().parents[1] / "vocabularies"
# The pattern by which OpenAI's own code cuts texts for GPT-2; it is published with the model.
GPT2_PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""


@functools.cache
def our_tokenizer(name: str) -> Any:
    made = {
        "gpt2": lambda: transforms.GPT2BPETokenizer(V / "gpt2_encoder.json", V / "gpt2_vocab.bpe"),
        "bert_uncased": lambda: transforms.BERTTokenizer(V / "bert_uncased_vocab.txt"),
        "bert_cased": lambda: transforms.BERTTokenizer(V / "bert_cased_vocab.txt", do_lower_case=False),
        "unigram": lambda: transforms.SentencePieceTokenizer(V / "sp_unigram.model"),
    }
    return made[name]()


@functools.cache
def peer_tokenizer(name: str) -> Any:
    if name == "gpt2_tiktoken":
        encoder = json.loads((V / "gpt2_encoder.json").read_text(encoding="utf-8"))
        raw = {character: byte for byte, character in transforms.bytes_to_unicode().items()}
        ranks = {bytes(raw[one] for one in token): rank for token, rank in encoder.items() if set(token) <= set(raw)}
        return tiktoken.Encoding("small", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={})
    if name == "gpt2":
        return tokenizers.ByteLevelBPETokenizer(str(V / "gpt2_encoder.json"), str(V / "gpt2_vocab.bpe"))
    lower = name == "bert_uncased"
    return tokenizers.BertWordPieceTokenizer(str(V / f"{name}_vocab.txt"), lowercase=lower)


def _with_peer(name: str) -> Any:
    return lambda text: peer_tokenizer(name).encode(text, **_OPTIONS.get(name, {})).ids


_OPTIONS: dict[str, dict[str, Any]] = {name: {"add_special_tokens": False} for name in ("bert_uncased", "bert_cased")}


def each(tokenize: Any, points: list[str]) -> dict[str, list[int]]:
    """The ids of a text for each character, by its number."""
    return {f"U+{ord(point):04X}": tokenize(f"a{point}b") for point in points}


OURS = SimpleNamespace(
    gpt2=lambda text: our_tokenizer("gpt2").encode_ids(text),
    gpt2_tiktoken=lambda text: our_tokenizer("gpt2").encode_ids(text),
    bert_uncased=lambda text: our_tokenizer("bert_uncased").encode_ids(text),
    bert_cased=lambda text: our_tokenizer("bert_cased").encode_ids(text),
)
PEERS = SimpleNamespace(
    gpt2=_with_peer("gpt2"),
    gpt2_tiktoken=lambda text: peer_tokenizer("gpt2_tiktoken").encode(text, disallowed_special=()),
    bert_uncased=_with_peer("bert_uncased"),
    bert_cased=_with_peer("bert_cased"),
)
SUITE = Suite(
    "tokenizers",
    ours=OURS,
    peer=PEERS,
    roots=("flambeau.text", "tokenizers"),
    differences=Path(__file__).with_name("differences.toml"),
)
KINDS = {name: {"text": (lambda library, text=text: text)} for name, text in TEXTS.items()}
SUITE.add(*cross("texts", KINDS, [f"{name}(text)" for name in vars(OURS)]))
# Characters of every category and plane, between two letters.
SWEEP = {name: {"points": (lambda library, points=points: points)} for name, points in categories("14.0.0")}
for tokenizer_name in vars(OURS):
    SUITE.add(*cross("code points", SWEEP, [f"each({tokenizer_name}, points)"], names={"each": each}))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell: Cell) -> None:
    SUITE.check(cell)


def test_every_intended_difference_is_one() -> None:
    SUITE.check_differences()
