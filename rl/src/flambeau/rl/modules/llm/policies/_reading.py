"""Prompts and sequences, read from a batch as conversations, text or tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.modules.llm.policies._rows import Row

__all__ = ["read_rows"]


def read_rows(tensordict: TensorDictBase, wrapper: Any) -> list[Row]:
    """One row for each element of a batch of one dimension, or of none.

    Raises:
        ValueError: an element has nothing at the wrapper's `input_key`, or no tokens.
    """
    parts = tensordict.unbind(0) if tensordict.ndim else [tensordict]
    read = {"history": _from_history, "text": _from_text, "tokens": _from_tokens}[wrapper.input_mode]
    rows = []
    for part in parts:
        value = part.get(wrapper.input_key, None)
        if value is None:
            raise ValueError(
                f"there is nothing to read at {wrapper.input_key!r}, expected with input_mode={wrapper.input_mode!r}. "
                f"There are {sorted(map(str, part.keys(True)))}."
            )
        row = read(value, part, wrapper)
        if not len(row.tokens):
            raise ValueError(f"a sequence at {wrapper.input_key!r} has no tokens; give it one or more.")
        rows.append(row)
    return rows


def _from_history(history: Any, part: TensorDictBase, wrapper: Any) -> Row:
    how = {
        "tokenizer": wrapper.tokenizer, "chat_template_name": wrapper.chat_template_name,
        "chat_template": wrapper.chat_template, "add_generation_prompt": wrapper.generate,
    }  # fmt: skip
    text = history.apply_chat_template(**how)
    known = _known_tokens(part, wrapper)
    if known is not None:
        return Row(known, text, history)
    if wrapper.generate:
        return Row(_encoded(text, wrapper), text, history)
    found = history.apply_chat_template(
        tokenize=True, return_dict=True, return_assistant_tokens_mask=True, **how, **wrapper.tokenizer_kwargs
    )
    return Row(found["input_ids"], text, history, found["assistant_masks"].bool())


def _known_tokens(part: TensorDictBase, wrapper: Any) -> Tensor | None:
    """The prompt's tokens where they were kept and are wanted."""
    if not (wrapper.prefer_tokens and wrapper.generate):
        return None
    key = wrapper.tokens_key
    found = part.get((key, "prompt") if isinstance(key, str) else (*key, "prompt"), None)
    return None if found is None else _from_tokens(found, part, wrapper).tokens


def _from_text(text: Any, part: TensorDictBase, wrapper: Any) -> Row:
    known = _known_tokens(part, wrapper)
    value = text if isinstance(text, str) else text.data
    return Row(_encoded(value, wrapper) if known is None else known, value)


def _encoded(text: str, wrapper: Any) -> Tensor:
    options = {"add_special_tokens": False, **wrapper.tokenizer_kwargs, "return_tensors": "pt", "padding": False}
    found: Tensor = wrapper.tokenizer(text, **options)["input_ids"]
    return found.squeeze(0)


def _from_tokens(tokens: Tensor, part: TensorDictBase, wrapper: Any) -> Row:
    tokens = tokens.to(torch.int64)
    places = _places(tokens, part, wrapper)
    if places is None:
        return Row(tokens)
    return Row(tokens[places], places=None if wrapper.generate else places)


def _places(tokens: Tensor, part: TensorDictBase, wrapper: Any) -> Tensor | None:
    """Where there is no padding, by an attention mask of the tokens' shape."""
    key = wrapper.masks_key
    for name in (wrapper.attention_mask_key, *wrapper._below(key, "all_attention_mask")):
        mask = part.get(name, None)
        if mask is not None and mask.shape == tokens.shape:
            return mask.bool()  # type: ignore[no-any-return]
    return None
