"""Telling whether a batch's padding is skipped, and why not where it is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["FastPathReport", "fast_path_report"]


@dataclass(frozen=True)
class FastPathReport:
    """Which way a batch goes through a model; `print` shows it in one line.

    Attributes:
        taken: whether padding is skipped.
        reason: the condition that decided.
        tokens: places in the batch.
        real: those that hold a token and no padding.
    """

    taken: bool
    reason: str
    tokens: int
    real: int

    def __str__(self) -> str:
        share = f"{self.real} of {self.tokens} places hold tokens"
        return f"fast path {'taken' if self.taken else 'not taken'}: {self.reason} ({share})."


def fast_path_report(model: nn.Module, tokens: Tensor) -> FastPathReport:
    """Say whether a model skips the padding of a batch, and the condition that decided.

    Unlike `nn.TransformerEncoder`, whose fast path needs evaluation mode, no gradients, even head counts, post-norm
    layers and no autocast, the encoders here need none of that: padding is skipped wherever there is some.

    Args:
        model: a RoBERTa, XLM-R or BERT model, or one that contains such an encoder.
        tokens: (N, T), integers; a batch as the model would get it.

    Raises:
        TypeError: the model has no encoder that skips padding.

    Example:
        >>> from flambeau.text.models import RobertaEncoderConf, RobertaModel
        >>> small = RobertaEncoderConf(100, 32, 64, num_attention_heads=4, num_encoder_layers=2)
        >>> print(fast_path_report(RobertaModel(small), torch.tensor([[0, 5, 2], [0, 2, 1]])))
        fast path taken: padding is skipped; sequences attend length by length (5 of 6 places hold tokens).
    """
    for part in model.modules():
        padding_plan = getattr(part, "padding_plan", None)
        if callable(padding_plan):
            with torch.no_grad():
                found = padding_plan(tokens)
            padding_idx: Any = part.padding_idx
            real = len(found.places.rows) if found.places is not None else int(tokens.ne(padding_idx).sum())
            return FastPathReport(found.places is not None, found.reason, tokens.numel(), real)
    raise TypeError(f"{type(model).__name__} has no encoder that skips padding; expected a RoBERTa or BERT model.")
