"""Small vocabularies, made here: byte pairs learned from a few words, and word pieces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flambeau.text import transforms
from flambeau.text._tokenizers import native

MERGES = [
    "h e",
    "l l",
    "he ll",
    "hell o",
    "Ġ w",
    "o r",
    "Ġw or",
    "l d",
    "Ġwor ld",
    "Ã ©",
    "1 2",
    "a a",
    "aa a",
    "aa aa",
]
CLIP_MERGES = [
    "h e",
    "l l",
    "he ll",
    "hell o</w>",
    "w o",
    "wo r",
    "l d</w>",
    "wor ld</w>",
    "Ã ©</w>",
    "a a",
    "a a</w>",
]
WORDS = ["h e", "l l", "he ll", "hell o</w>", "w o", "l d</w>", "é é</w>"]
PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "hello",
    "world",
    "un",
    "##believ",
    "##able",
    "e",
    "##e",
    "a",
    "##a",
    "##b",
    "中",
    ",",
    ".",
    "!",
    "don",
    "'",
    "t",
    "naive",
    "ナイフ",
    "é",
    "##é",
]


def write_gpt2(folder: Path) -> tuple[str, str]:
    characters = list(transforms.bytes_to_unicode().values())
    tokens = [*characters, *("".join(merge.split()) for merge in MERGES), "<|endoftext|>"]
    (folder / "encoder.json").write_text(json.dumps({token: place for place, token in enumerate(tokens)}), "utf-8")
    (folder / "vocab.bpe").write_text("\n".join(["#version: 0.2", *MERGES, ""]), "utf-8")
    return str(folder / "encoder.json"), str(folder / "vocab.bpe")


def write_char_bpe(folder: Path) -> tuple[str, str]:
    tokens = ["<unk>", "<pad>", *"helowrdé", *(f"{letter}</w>" for letter in "helowrdé\n")]
    tokens += ["".join(merge.split()) for merge in WORDS]
    (folder / "char.json").write_text(json.dumps({token: place for place, token in enumerate(tokens)}), "utf-8")
    (folder / "char.txt").write_text("\n".join(["#version: 0.2", *WORDS, ""]), "utf-8")
    return str(folder / "char.json"), str(folder / "char.txt")


def write_clip(folder: Path) -> str:
    (folder / "clip.bpe").write_text("\n".join(["#version: 0.2", *CLIP_MERGES]), "utf-8")
    return str(folder / "clip.bpe")


def write_bert(folder: Path) -> str:
    (folder / "vocab.txt").write_text("\n".join([*PIECES, ""]), "utf-8")
    return str(folder / "vocab.txt")


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("vocabularies")


@pytest.fixture(params=["gpt2", "gpt2_special", "clip", "bert", "bert_never_split", "char_bpe"])
def tokenizer(request, folder):
    """Each kind of tokenizer, with nothing of another test in it."""
    return made(request.param, folder)


def made(name: str, folder: Path):
    if name == "clip":
        return transforms.CLIPTokenizer(write_clip(folder))
    if name == "bert":
        return transforms.BERTTokenizer(write_bert(folder))
    if name == "bert_never_split":
        return transforms.BERTTokenizer(write_bert(folder), never_split=["don't", "é", "[MASK]", "ナイフ"])
    if name == "char_bpe":
        encoder, merges = write_char_bpe(folder)
        return transforms.CharBPETokenizer(encoder, merges, unk_token="<unk>", suffix="</w>", special_tokens=["<pad>"])
    tokenizer = transforms.GPT2BPETokenizer(*write_gpt2(folder))
    if name == "gpt2_special":
        tokenizer.add_special_tokens(
            {"eos_token": "<|endoftext|>", "additional_special_tokens": ["a.b", "<s>", "<s>x"]}
        )
    return tokenizer


@pytest.fixture
def needs_native():
    if not native.available():
        pytest.skip("the native library is not built")
