"""How likely tokens are by a model of transformers, with sequences padded or one behind the other."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["block_causal_mask", "generated_log_probs", "log_probs_of", "sequence_logits"]


def sequence_logits(model: Any, sequences: Sequence[Tensor], padding_value: int, padded: bool) -> list[Tensor]:
    """The logits by which each token is drawn: (tokens, vocabulary) for each sequence, 0 for its first token.

    Args:
        model: a causal model.
        sequences: (tokens,) each.
        padding_value: the token of padding.
        padded: run the sequences side by side with padding on the left; otherwise one behind the other.
    """
    outputs = _run_padded(model, sequences, padding_value) if padded else _run_packed(model, sequences)
    return [torch.cat([torch.zeros_like(row[:1]), row[:-1]]) for row in outputs]


def log_probs_of(logits: Sequence[Tensor], sequences: Sequence[Tensor]) -> list[Tensor]:
    """The log-probabilities of tokens, (tokens,) each: 0 for the first, which nothing predicts."""
    made = []
    for scores, tokens in zip(logits, sequences, strict=True):
        chosen = -F.cross_entropy(scores[1:].float(), tokens[1:].to(scores.device), reduction="none")
        made.append(F.pad(chosen, (1, 0)))
    return made


def generated_log_probs(logits: Sequence[Tensor], tokens: Tensor) -> Tensor:
    """The log-probabilities of what was generated, (*batch, steps).

    Args:
        logits: of each step, (batch, vocabulary), before temperature and other options change them.
        tokens: what was drawn, (batch, steps).
    """
    steps = [step.float().log_softmax(-1).gather(-1, tokens[:, at : at + 1]) for at, step in enumerate(logits)]
    return torch.cat(steps, -1)


def block_causal_mask(lengths: Tensor) -> Tensor:
    """Who sees whom where sequences stand one behind the other: those before it in its own sequence, and itself.

    Args:
        lengths: of the sequences, (sequences,), int64.

    Returns:
        (tokens, tokens), bool: row by row what a token sees; tokens = lengths.sum().

    Example:
        >>> block_causal_mask(torch.tensor([2, 1])).int()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 0, 1]], dtype=torch.int32)
    """
    number = torch.repeat_interleave(lengths)
    place = torch.arange(len(number), device=number.device)
    return (number[:, None] == number[None]) & (place[:, None] >= place[None])


def _device(model: Any) -> torch.device:
    return next(iter(model.parameters())).device  # type: ignore[no-any-return]


def _accepts(model: Any, name: str) -> bool:
    return name in inspect.signature(model.forward).parameters


def _run_padded(model: Any, sequences: Sequence[Tensor], padding_value: int) -> list[Tensor]:
    length = max(len(row) for row in sequences)
    ids = torch.stack([F.pad(row, (length - len(row), 0), value=padding_value) for row in sequences])
    seen = torch.stack([F.pad(torch.ones_like(row), (length - len(row), 0)) for row in sequences])
    device = _device(model)
    how: dict[str, Tensor] = {"attention_mask": seen.to(device)}
    if _accepts(model, "position_ids"):
        how["position_ids"] = (seen.cumsum(-1) - 1).clamp_min(0).to(device)
    logits = model(input_ids=ids.to(device), **how).logits
    return [row[length - len(tokens) :] for row, tokens in zip(logits, sequences, strict=True)]


def _run_packed(model: Any, sequences: Sequence[Tensor]) -> list[Tensor]:
    device = _device(model)
    lengths = torch.tensor([len(row) for row in sequences])
    seen = block_causal_mask(lengths).to(device)
    dtype = next(iter(model.parameters())).dtype
    bias = torch.zeros(seen.shape, dtype=dtype, device=device).masked_fill(~seen, torch.finfo(dtype).min)
    places = torch.cat([torch.arange(len(row)) for row in sequences])
    how = {"position_ids": places[None].to(device)} if _accepts(model, "position_ids") else {}
    ids = torch.cat(list(sequences))[None].to(device)
    logits = model(input_ids=ids, attention_mask=bias[None, None], use_cache=False, **how).logits
    return list(logits[0].split(lengths.tolist()))
