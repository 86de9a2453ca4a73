"""Which tokens the assistant said, where a chat template does not mark them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["assistant_tokens_mask"]


def _spans(text: str, contents: Sequence[str]) -> list[tuple[int, int]]:
    """Where the assistant's messages stand in a rendered conversation, found from left to right."""
    spans, at = [], 0
    for content in contents:
        start = text.find(content, at)
        if content and start >= 0:
            at = start + len(content)
            spans.append((start, at))
    return spans


def assistant_tokens_mask(tokenizer: Any, text: str, messages: Sequence[dict[str, Any]], input_ids: Tensor) -> Tensor:
    """Mark the tokens of an assistant's messages by looking for them in the text.

    Args:
        tokenizer: a fast one, which says where tokens stand in a text.
        text: the conversation as the template wrote it.
        messages: its messages, with "role" and "content".
        input_ids: (1, tokens), the text's; padded or cut as the tokenizer does it.

    Returns:
        (1, tokens), int64: 1 where a token overlaps what the assistant said.
    """
    told = [str(message["content"]) for message in messages if message["role"] == "assistant"]
    found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    spans = _spans(text, told)
    marks = [int(any(start < high and low < end for low, high in spans)) for start, end in found["offset_mapping"]]
    mask = torch.zeros_like(input_ids)
    length = input_ids.shape[-1]
    marks = marks[:length]
    if getattr(tokenizer, "padding_side", "right") == "left":
        mask[0, length - len(marks) :] = torch.tensor(marks, dtype=mask.dtype)
    else:
        mask[0, : len(marks)] = torch.tensor(marks, dtype=mask.dtype)
    return mask
