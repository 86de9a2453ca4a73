"""The schema of `tokenizer.json`: parts that several tokenizers write."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flambeau.core.files import write_atomic

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def document(
    model: dict[str, Any],
    *,
    normalizer: dict[str, Any] | None = None,
    pre_tokenizer: dict[str, Any] | None = None,
    decoder: dict[str, Any] | None = None,
    special: Iterable[tuple[int, str]] = (),
) -> dict[str, Any]:
    """The whole file. `special` are ids and texts of tokens that are never split."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": identity, "content": text, **flags} for identity, text in sorted(special)],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": decoder,
        "model": model,
    }


def byte_pairs(
    vocabulary: Mapping[str, int], ranks: Mapping[tuple[str, str], int], *, unknown: str | None = None, suffix: str = ""
) -> dict[str, Any]:
    """A model of byte pairs."""
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": unknown,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": suffix or None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": dict(vocabulary),
        "merges": [list(pair) for pair, _ in sorted(ranks.items(), key=lambda item: item[1])],
    }


def split(pattern: str, *, keep: bool) -> dict[str, Any]:
    """Words are what a pattern matches; what lies between them is kept as words, too, or dropped."""
    how = {"behavior": "Isolated", "invert": False} if keep else {"behavior": "Removed", "invert": True}
    return {"type": "Split", "pattern": {"Regex": pattern}, **how}


def sequence(kind: str, *parts: dict[str, Any]) -> dict[str, Any]:
    """Several steps as one: kind is "normalizers" or "pretokenizers"."""
    return {"type": "Sequence", kind: list(parts)}


def write(path: str | os.PathLike[str], content: dict[str, Any], differences: list[str], *, strict: bool) -> None:
    """Write the file whole, or with `strict` refuse when readers would behave otherwise."""
    if strict and differences:
        raise ValueError(
            "tokenizer.json cannot express all that this tokenizer does; write it with strict=False if these do not "
            "matter: " + " ".join(differences)
        )
    write_atomic(Path(path), json.dumps(content, ensure_ascii=False, indent=1))
