"""SentencePiece models as `tokenizer.json`, and back."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from flambeau.text._tokenizers import export
from flambeau.text._tokenizers import sentencepiece_model as file
from flambeau.text._tokenizers.sentencepiece_model import Model, ModelPiece

_SPACE = "\u2581"  # what stands for a space in pieces
# Pieces that no text gives: less likely than anything that a text can be made of.
_NEVER = -1e6
_OPENED = ("Unigram", file.UNIGRAM), ("BPE", file.BPE), ("WordLevel", file.WORD)
_TEXTUAL = (file.NORMAL, file.USER_DEFINED)


def document(model: Model) -> tuple[dict[str, Any], list[str]]:
    """The content of the file, and what its readers do otherwise.

    Raises:
        ValueError: the schema has nothing of the kind.
    """
    if model.space_behind:
        raise ValueError("tokenizer.json cannot express a model whose words end with the mark of a space.")
    differences: list[str] = []
    form = _word_level if model.kind == file.WORD else _unigram if model.kind == file.UNIGRAM else _merges
    content = export.document(
        form(model, differences),
        normalizer=export.sequence("normalizers", *_normalizers(model)),
        pre_tokenizer=_pre_tokenizer(model),
        decoder={"type": "Sequence", "decoders": _decoders(model)},
    )
    content["added_tokens"] = [
        {"id": identity, "content": piece.text, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": False}
        for identity, piece in enumerate(model.pieces) if piece.kind == file.USER_DEFINED
    ]  # fmt: skip
    if model.charsmap:
        differences.append("Characters with several marks may be mended otherwise.")
    if content["added_tokens"]:
        differences.append("After a piece that the user defined, a text begins anew, with its space in front.")
    return content, differences


def model_of(content: Mapping[str, Any]) -> Model:
    """The model of which `document` made this.

    Raises:
        KeyError, TypeError, ValueError: this is no such document.
    """
    inner = content["model"]
    kind = dict(_OPENED)[inner["type"]]
    if kind == file.BPE and not inner["merges"]:
        kind = file.CHAR
    given = {token["id"] for token in content["added_tokens"]}
    if kind == file.UNIGRAM:
        texts = [text for text, _ in inner["vocab"]]
        scores = [float(score) for _, score in inner["vocab"]]
        unknown = inner["unk_id"]
        textual = {place for place, score in enumerate(scores) if score != _NEVER}
    else:
        texts = sorted(inner["vocab"], key=inner["vocab"].__getitem__)
        unknown = inner["vocab"][inner["unk_token"]]
        scores, textual = _ranked(texts, inner.get("merges", []))
        if kind == file.WORD:
            textual = set(range(len(texts)))
    byte_fallback = bool(inner.get("byte_fallback", False))
    pieces = []
    for place, (text, score) in enumerate(zip(texts, scores, strict=True)):
        if place == unknown:
            what = file.UNKNOWN
        elif place in given:
            what = file.USER_DEFINED
        elif byte_fallback and _is_byte(text):
            what = file.BYTE
        else:
            what = file.NORMAL if place in textual else file.CONTROL
        pieces.append(ModelPiece(text, score if what in _TEXTUAL else 0.0, what))
    steps = content["normalizer"]["normalizers"]
    charsmap = next((step["precompiled_charsmap"] for step in steps if step["type"] == "Precompiled"), "")
    return Model(
        pieces=tuple(pieces),
        kind=kind,
        charsmap=base64.b64decode(charsmap),
        dummy_prefix=any(step["type"] == "Prepend" for step in steps),
        fewer_spaces=any(step.get("pattern") == {"Regex": " {2,}"} for step in steps),
        byte_fallback=byte_fallback,
    )


def _normalizers(model: Model) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    if model.charsmap:
        charsmap = base64.b64encode(model.charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    if model.fewer_spaces:
        steps.append({"type": "Replace", "pattern": {"Regex": r"\A +| +\z"}, "content": ""})
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    if model.dummy_prefix:
        steps.append({"type": "Prepend", "prepend": _SPACE})
    return [*steps, {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}]


def _pre_tokenizer(model: Model) -> dict[str, Any] | None:
    # Where no piece goes beyond a word, words may be tokenized by themselves, which costs less.
    within = not any(_SPACE in piece.text[1:] for piece in model.pieces if piece.kind in _TEXTUAL)
    if not within:
        return None
    return {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": "never", "split": True}


def _decoders(model: Model) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}]
    if model.byte_fallback:
        steps.append({"type": "ByteFallback"})
    steps.append({"type": "Fuse"})
    if model.dummy_prefix:
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return steps


def _unigram(model: Model, differences: list[str]) -> dict[str, Any]:
    single = {piece.text for piece in model.pieces if piece.kind in _TEXTUAL and len(piece.text) == 1}
    hidden = [piece.text for piece in model.pieces if piece.kind not in _TEXTUAL]
    if found := [text for text in hidden if not set(text) <= single]:
        # Their characters are unknown, which is as unlikely as they are.
        differences.append(f"A text that spells {found[0]} ({len(found)} such pieces) gives that piece.")
    vocabulary = [[piece.text, piece.score if piece.kind in _TEXTUAL else _NEVER] for piece in model.pieces]
    return {
        "type": "Unigram",
        "unk_id": model.unknown,
        "vocab": vocabulary,
        "byte_fallback": model.byte_fallback,
    }


def _merges(model: Model, differences: list[str]) -> dict[str, Any]:
    vocabulary = {piece.text: identity for identity, piece in enumerate(model.pieces)}
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": model.pieces[model.unknown].text,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": model.byte_fallback,
        "ignore_merges": False,
        "vocab": vocabulary,
        "merges": _pairs(model) if model.kind == file.BPE else [],
    }


def _word_level(model: Model, differences: list[str]) -> dict[str, Any]:
    differences.append("Unknown words next to each other are several pieces, where this tokenizer makes them one.")
    vocabulary = {piece.text: identity for identity, piece in enumerate(model.pieces)}
    return {"type": "WordLevel", "vocab": vocabulary, "unk_token": model.pieces[model.unknown].text}


def _pairs(model: Model) -> list[list[str]]:
    """All pairs of pieces that are a piece together, those of better pieces first."""
    scores = {piece.text: piece.score for piece in model.pieces if piece.kind == file.NORMAL}
    pairs = [
        (-score, [text[:cut], text[cut:]])
        for text, score in scores.items()
        for cut in range(1, len(text))
        if text[:cut] in scores and text[cut:] in scores
    ]
    return [pair for _, pair in sorted(pairs, key=lambda found: found[0])]


def _ranked(texts: list[str], merges: list[list[str]]) -> tuple[list[float], set[int]]:
    """Scores of the pieces that merges make, in their order, and which pieces there are in texts."""
    places = {text: place for place, text in enumerate(texts)}
    scores = [float(-len(texts))] * len(texts)
    made: set[int] = set()
    for left, right in merges:
        place = places[left + right]
        if place not in made:
            scores[place] = float(-len(made))
            made.add(place)
    return scores, made | {place for place, text in enumerate(texts) if len(text) == 1}


def _is_byte(text: str) -> bool:
    return len(text) == 6 and text.startswith("<0x") and text.endswith(">")
