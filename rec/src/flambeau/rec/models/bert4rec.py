"""BERT4Rec (Sun et al. 2019, arXiv:1904.06690): the next items of a user, by self-attention over the past ones.

Letters: B users, L items of the longest history, D columns of every embedding, V items there are.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.modules.embedding_configs import EmbeddingConfig
from flambeau.rec.modules.embedding_modules import EmbeddingCollection
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["BERT4Rec", "HistoryArch"]


class Attention(nn.Module):
    """Several heads of scaled dot-product attention (Vaswani et al. 2017, arXiv:1706.03762).

    Args:
        nhead: heads.
        emb_dim: D, a multiple of the number of heads.
        dropout: of attention weights.
        device: of the parameters.

    Raises:
        OptionError: heads that do not divide D.
    """

    def __init__(self, nhead: int, emb_dim: int, dropout: float, device: torch.device | None) -> None:
        super().__init__()
        if emb_dim % nhead:
            raise OptionError(f"emb_dim is {emb_dim}, expected a multiple of nhead, {nhead}.")
        self.nhead = nhead
        self.linear_layers = nn.ModuleList(nn.Linear(emb_dim, emb_dim, device=device) for _ in range(3))
        self.output_linear = nn.Linear(emb_dim, emb_dim, device=device)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, L, D), and (B, 1, 1, L) of what may be looked at, to (B, L, D)."""
        batch, length, dim = x.shape
        heads = (batch, length, self.nhead, dim // self.nhead)
        query, key, value = (layer(x).view(heads).transpose(1, 2) for layer in self.linear_layers)
        scores = query @ key.transpose(-2, -1) / math.sqrt(dim // self.nhead)
        shares = self.dropout(scores.masked_fill(~mask, -1e9).softmax(-1))
        result: Tensor = self.output_linear((shares @ value).transpose(1, 2).reshape(batch, length, dim))
        return result


class FeedForward(nn.Module):
    """Two layers for each position.

    Args:
        emb_dim: D.
        hidden: columns between the two.
        dropout: between the two.
        device: of the parameters.
    """

    def __init__(self, emb_dim: int, hidden: int, dropout: float, device: torch.device | None) -> None:
        super().__init__()
        self.w_1 = nn.Linear(emb_dim, hidden, device=device)
        self.w_2 = nn.Linear(hidden, emb_dim, device=device)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D) to the same."""
        result: Tensor = self.w_2(self.dropout(torch.relu(self.w_1(x))))
        return result


class Sublayer(nn.Module):
    """The normalization in front of a layer, and dropout behind it.

    Args:
        emb_dim: D.
        dropout: behind the layer.
        device: of the parameters.
    """

    def __init__(self, emb_dim: int, dropout: float, device: torch.device | None) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(emb_dim, device=device)
        self.dropout = nn.Dropout(dropout)


class TransformerBlock(nn.Module):
    """Attention and feed-forward, each around a shortcut and behind a normalization.

    Args:
        emb_dim: D.
        nhead: heads.
        feed_forward_hidden: columns between the feed-forward layers.
        dropout: throughout.
        device: of the parameters.
    """

    def __init__(
        self, emb_dim: int, nhead: int, feed_forward_hidden: int, dropout: float, device: torch.device | None
    ) -> None:
        super().__init__()
        self.attention = Attention(nhead, emb_dim, dropout, device)
        self.feed_forward = FeedForward(emb_dim, feed_forward_hidden, dropout, device)
        self.input_sublayer = Sublayer(emb_dim, dropout, device)
        self.output_sublayer = Sublayer(emb_dim, dropout, device)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, L, D), and (B, 1, 1, L) of what may be looked at, to (B, L, D)."""
        inner, outer = self.input_sublayer, self.output_sublayer
        x = x + inner.dropout(self.attention(inner.norm(x), mask))
        x = x + outer.dropout(self.feed_forward(outer.norm(x)))
        result: Tensor = self.dropout(x)
        return result


class HistoryArch(nn.Module):
    """Embeddings of items and positions.

    Args:
        vocab_size: V.
        max_len: L.
        emb_dim: D.
        dropout: of the sum.
        device: of the parameters.
    """

    def __init__(
        self, vocab_size: int, max_len: int, emb_dim: int, dropout: float = 0.1, device: torch.device | None = None
    ) -> None:
        super().__init__()
        self.emb_dim, self.max_len = emb_dim, max_len
        self.positional = nn.Parameter(torch.randn(max_len, emb_dim, device=device))
        self.layernorm = nn.LayerNorm([max_len, emb_dim], device=device)
        self.dropout = nn.Dropout(dropout)
        table = EmbeddingConfig(
            name="item_embedding",
            embedding_dim=emb_dim,
            num_embeddings=vocab_size,
            feature_names=["item"],
            weight_init_max=1.0,
            weight_init_min=-1.0,
        )
        self.ec = EmbeddingCollection(tables=[table], device=device)

    def forward(self, id_list_features: KeyedJaggedTensor) -> Tensor:
        """Histories of the feature "item" to (B, L, D); longer ones are cut, shorter ones filled with 0."""
        items = self.ec(id_list_features)["item"].to_padded_dense(self.max_len)
        result: Tensor = self.dropout(self.layernorm(items + self.positional))
        return result


class BERT4Rec(nn.Module):
    """Scores of all items at each position of histories.

    Item 0 is no item: it is not looked at. Masked positions have an id of their own among the V.

    Args:
        vocab_size: V.
        max_len: L.
        emb_dim: D, a multiple of the number of heads.
        nhead: heads.
        num_layers: blocks.
        dropout: throughout.
        device: of the parameters.

    Raises:
        OptionError: heads that do not divide D.

    Example:
        >>> model = BERT4Rec(vocab_size=20, max_len=6, emb_dim=8, nhead=2, num_layers=2)
        >>> histories = KeyedJaggedTensor(["item"], torch.tensor([3, 1, 4]), lengths=torch.tensor([2, 1]))
        >>> model(histories).shape
        torch.Size([2, 6, 20])
    """

    def __init__(
        self,
        vocab_size: int,
        max_len: int,
        emb_dim: int,
        nhead: int,
        num_layers: int,
        dropout: float = 0.1,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        self.vocab_size, self.max_len, self.emb_dim = vocab_size, max_len, emb_dim
        self.history = HistoryArch(vocab_size, max_len, emb_dim, dropout, device)
        self.transformer_blocks = nn.ModuleList(
            TransformerBlock(emb_dim, nhead, emb_dim * 4, dropout, device) for _ in range(num_layers)
        )
        self.out = nn.Linear(emb_dim, vocab_size, device=device)

    def forward(self, input: KeyedJaggedTensor) -> Tensor:
        """Score.

        Args:
            input: the feature "item": a history for each user, ids 0 to V - 1.

        Returns:
            (B, L, V) of logits.
        """
        x = self.history(input)
        mask = (input["item"].to_padded_dense(self.max_len) > 0)[:, None, None]
        for block in self.transformer_blocks:
            x = block(x, mask)
        logits: Tensor = self.out(x)
        return logits
