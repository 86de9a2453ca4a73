"""The schema of `tokenizer.json`: parts that several tokenizers write."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flambeau.core.files import write_atomic
from flambeau.text._tokenizers import files

Ranks = dict[tuple[str, str], int]

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


def complete(vocabulary: Mapping[str, int], ranks: Mapping[tuple[str, str], int], differences: list[str]) -> Ranks:
    """The merges of which the vocabulary has the parts and the result; readers refuse others."""
    whole = {pair: rank for pair, rank in ranks.items() if all(part in vocabulary for part in (*pair, "".join(pair)))}
    if len(whole) < len(ranks):
        count = len(ranks) - len(whole)
        differences.append(f"{count} merges are left out, of which the vocabulary lacks a part or the result.")
    return whole


def special(content: Mapping[str, Any]) -> list[str]:
    """The texts of the added tokens, in the order of their ids."""
    return [token["content"] for token in sorted(content["added_tokens"], key=lambda token: token["id"])]


def ranks_of(content: Mapping[str, Any]) -> Ranks:
    """The merges of a file, as pairs or, in older files, as texts with a space between."""
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in content["model"]["merges"]]
    return {(left, right): rank for rank, (left, right) in enumerate(pairs)}


def comparable(part: Any) -> Any:
    """A part of a file without its vocabulary and merges, the two forms of which say the same."""
    if not isinstance(part, dict):
        return part
    return {key: value for key, value in part.items() if key not in ("vocab", "merges")}


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a file.

    Raises:
        ValueError: it is not a JSON object.
    """
    try:
        content = json.loads(files.read_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(f"{os.fspath(path)!r} is not JSON (line {error.lineno}: {error.msg}).") from error
    if not isinstance(content, dict):
        raise ValueError(f"{os.fspath(path)!r} holds a {type(content).__name__}; a tokenizer.json is an object.")
    return content


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
