"""A tiny classifier of languages: small enough to ship with its weights inside the package.

A RoBERTa over the bytes of a text (Liu et al. 2019, arXiv:1907.11692; bytes as tokens after Xue et al. 2022, ByT5,
arXiv:2105.13626): two layers, 96 wide, and the classification head on the first position.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.core.weights import build_with_weights
from flambeau.text.models._api import register_model
from flambeau.text.models.roberta.model import RobertaClassificationHead, RobertaEncoderConf, RobertaModel
from flambeau.text.weights.language_identifier import Language_Identifier_Weights

__all__ = ["ByteWindows", "LanguageIdentifier", "Language_Identifier_Weights", "language_identifier"]

BEGIN, PADDING, END = 0, 1, 2
_FIRST_BYTE = 3
_LONGEST = 64


class ByteWindows(nn.Module):
    """Cut a text into windows of bytes, as many as it has, spread over it evenly where they are too many.

    The text is put into Unicode's composed form and runs of white space into one space. A window begins with a begin
    and ends with an end token.

    Args:
        length: tokens of a window.
        most: windows of a text.

    Shape:
        str -> (windows, tokens), int64: 0 begin, 1 padding, 2 end, byte + 3. An empty text is one window without bytes.
        A sequence of strings -> their windows one after the other.
    """

    def __init__(self, *, length: int = _LONGEST, most: int = 8) -> None:
        super().__init__()
        self.length, self.most = length, most

    def forward(self, text: str | Sequence[str]) -> Tensor:
        """Cut one text or several."""
        texts = [text] if isinstance(text, str) else list(text)
        windows = [window for each in texts for window in self._windows(each)]
        longest = max(map(len, windows))
        ids = torch.full((len(windows), longest), PADDING, dtype=torch.int64)
        for row, window in zip(ids, windows, strict=True):
            row[: len(window)] = torch.tensor(window)
        return ids

    def _windows(self, text: str) -> list[list[int]]:
        # Lone surrogates, which no encoding has, become question marks.
        plain = " ".join(unicodedata.normalize("NFC", text).split()).encode("utf-8", "replace")
        room = self.length - 2
        starts = list(range(0, max(1, len(plain)), room))
        if len(starts) > self.most:
            last = len(plain) - room
            starts = [round(last * number / (self.most - 1)) for number in range(self.most)]
        return [[BEGIN, *(byte + _FIRST_BYTE for byte in plain[at : at + room]), END] for at in starts]


class LanguageIdentifier(RobertaModel):
    """RoBERTa over bytes with a head that names languages.

    Args:
        num_classes: languages.
        num_layers, width, inner_width, num_heads: of the encoder.
        dropout: everywhere.

    Shape:
        (N, tokens) as `ByteWindows` makes them, up to 64 -> (N, num_classes), logits.
    """

    def __init__(
        self,
        num_classes: int = 22,
        *,
        num_layers: int = 2,
        width: int = 96,
        inner_width: int = 256,
        num_heads: int = 4,
        dropout: float = 0.0,
    ) -> None:
        conf = RobertaEncoderConf(
            vocab_size=256 + _FIRST_BYTE,
            embedding_dim=width,
            ffn_dimension=inner_width,
            padding_idx=PADDING,
            max_seq_len=_LONGEST + PADDING + 1,
            num_attention_heads=num_heads,
            num_encoder_layers=num_layers,
            dropout=dropout,
        )
        super().__init__(conf, RobertaClassificationHead(num_classes, width, width, dropout))


@register_model(task="text-classification", tags=("embedded", "multilingual"), head="head.out_proj")
def language_identifier(
    *, weights: Language_Identifier_Weights | None = None, progress: bool = True, **kwargs: Any
) -> LanguageIdentifier:
    """Classifier of the language that a text is in.

    Args:
        weights: pretrained weights, which are part of the package, their name, or None for random initialization.
        progress: accepted as every builder does; there is nothing to download.
        **kwargs: passed to `LanguageIdentifier`; `device` and `dtype` place the weights without a copy in between.
    """
    weights = Language_Identifier_Weights.verify(weights)
    if weights is not None:
        kwargs.setdefault("num_classes", len(weights.meta["categories"]))
    return build_with_weights(LanguageIdentifier, weights, progress=progress, **kwargs)
