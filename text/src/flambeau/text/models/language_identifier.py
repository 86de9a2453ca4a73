"""A tiny classifier of languages: small enough to ship with its weights inside the package.

It looks at what a text is spelled with: n-grams of its characters, hashed into tables of small vectors, whose means
decide through one hidden layer (Joulin et al. 2017, arXiv:1607.01759; a table for each order and a hidden layer after
Botha et al. 2017, arXiv:1708.00214).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.core.weights import build_with_weights
from flambeau.text.models._api import register_model
from flambeau.text.weights.language_identifier import Language_Identifier_Weights

__all__ = ["CharacterWindows", "LanguageIdentifier", "Language_Identifier_Weights", "language_identifier"]

PADDING = 0
_BLOCKS = 512 + 256  # of 128 code points in the first plane, of 4,096 in the others
_FACTOR = 16_777_619  # the prime of the FNV hash
_POSITIVE = 2**31 - 1  # keeps products of hashes and the factor within 64 bits


class CharacterWindows(nn.Module):
    """Cut a text into windows of characters, as many as it has, spread over it evenly where they are too many.

    The text is put into Unicode's composed form and lower case, runs of white space become one space, and a space
    stands at either end, so that the first and the last word look like those between.

    Args:
        length: characters of a window.
        most: windows of a text.

    Shape:
        str -> (windows, characters), int64: 0 padding, code point + 1. A sequence of strings -> their windows one after
        the other.
    """

    def __init__(self, *, length: int = 256, most: int = 8) -> None:
        super().__init__()
        self.length, self.most = length, most

    def forward(self, text: str | Sequence[str]) -> Tensor:
        """Cut one text or several."""
        texts = [text] if isinstance(text, str) else list(text)
        windows = [torch.tensor(window) for each in texts for window in self._windows(each)]
        return nn.utils.rnn.pad_sequence(windows, batch_first=True, padding_value=PADDING)

    def _windows(self, text: str) -> list[list[int]]:
        plain = [
            ord(character) + 1 for character in f" {' '.join(unicodedata.normalize('NFC', text).lower().split())} "
        ]
        starts = list(range(0, len(plain), self.length))
        if len(starts) > self.most:
            last = len(plain) - self.length
            starts = [round(last * number / max(1, self.most - 1)) for number in range(self.most)]
        return [plain[at : at + self.length] for at in starts]


class LanguageIdentifier(nn.Module):
    """Means of vectors of hashed n-grams and of the blocks that characters lie in, a hidden layer, and a head.

    N-grams share vectors where their hashes meet; a block of Unicode, and so the script, has one of its own.

    Args:
        num_classes: languages, and what stands for none of them.
        buckets: rows of the table of single characters, of pairs, and so on.
        width: of an n-gram's vector.
        hidden: width of the hidden layer.
        dropout: of the hidden layer.

    Shape:
        (N, characters), int64, as `CharacterWindows` makes them, of any length -> (N, num_classes), logits.
    """

    def __init__(
        self,
        num_classes: int = 84,
        *,
        buckets: Sequence[int] = (3_000, 6_000, 10_000, 8_500),
        width: int = 16,
        hidden: int = 96,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, width) for size in buckets)
        self.blocks = nn.Embedding(_BLOCKS, width)
        self.hidden = nn.Linear((len(buckets) + 1) * width, hidden)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden, num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Score each language."""
        return self.head(self.dropout(F.relu(self.hidden(self.means(tokens)))))  # type: ignore[no-any-return]

    def means(self, tokens: Tensor) -> Tensor:
        """Mean vectors of the blocks, of the single characters, of the pairs, and so on: (N, (1 + orders) * width)."""
        length = tokens.shape[1]
        following = F.pad(tokens, (0, len(self.tables) - 1), value=PADDING)
        hashes = torch.zeros_like(tokens)
        found = [_mean(self.blocks(self.block_numbers((tokens - 1).clamp(min=0))), tokens != PADDING)]
        for order, table in enumerate(self.tables):
            last = following[:, order : order + length]
            hashes = ((hashes ^ last) * _FACTOR) & _POSITIVE
            size: Any = table.num_embeddings
            rows = (hashes ^ (hashes >> 15)) % size
            found.append(_mean(table(rows), last != PADDING))
        return torch.cat(found, 1)

    @staticmethod
    def block_numbers(points: Tensor) -> Tensor:
        """Rows of the table of blocks for code points, int64."""
        return torch.where(points < 0x10000, points >> 7, 512 + ((points - 0x10000) >> 12)).clamp(max=_BLOCKS - 1)


def _mean(vectors: Tensor, real: Tensor) -> Tensor:
    """Means over the characters that are none of the padding; 0 where there are no others."""
    return torch.where(real.unsqueeze(2), vectors, 0.0).sum(1) / real.sum(1, keepdim=True).clamp(min=1)


@register_model(task="text-classification", tags=("embedded", "multilingual"), head="head")
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
