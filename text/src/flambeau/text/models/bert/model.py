"""BERT's encoder under the state names of published checkpoints, with padding skipped.

Devlin et al. 2018, arXiv:1810.04805. A state that `transformers` saved loads strictly, with or without the prefix
`bert.`, with the oldest names, and with the heads of pretraining, which are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.text.models._packed import Places, Plan, attend, is_traced, plan
from flambeau.text.models.bert._published import adapt
from flambeau.text.models.bert.pooling import Pooling, pool

__all__ = ["BertConf", "BertModel"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
}


@dataclass
class BertConf:
    """The sizes of an encoder; the defaults are BERT base, uncased.

    Args:
        vocab_size: how many tokens there are.
        embedding_dim: width.
        ffn_dimension: inner width of the feed-forward networks.
        padding_idx: the token of padding.
        max_seq_len: most tokens of a text.
        num_attention_heads: of each layer.
        num_encoder_layers: how many layers.
        num_segments: how many types of segments there are.
        dropout: everywhere.
        layer_norm_eps: of the normalizations.
        activation: "gelu", "gelu_new" or "relu".
        pooler: have the layer that pretraining put on the first token.
    """

    vocab_size: int = 30522
    embedding_dim: int = 768
    ffn_dimension: int = 3072
    padding_idx: int = 0
    max_seq_len: int = 512
    num_attention_heads: int = 12
    num_encoder_layers: int = 12
    num_segments: int = 2
    dropout: float = 0.1
    layer_norm_eps: float = 1e-12
    activation: str = "gelu"
    pooler: bool = True


class BertEmbeddings(nn.Module):
    """Tokens, places and segments, added and normalized."""

    def __init__(self, conf: BertConf) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(conf.vocab_size, conf.embedding_dim, conf.padding_idx)
        self.position_embeddings = nn.Embedding(conf.max_seq_len, conf.embedding_dim)
        self.token_type_embeddings = nn.Embedding(conf.num_segments, conf.embedding_dim)
        self.LayerNorm = nn.LayerNorm(conf.embedding_dim, conf.layer_norm_eps)
        self.dropout = nn.Dropout(conf.dropout)

    def forward(self, tokens: Tensor, segments: Tensor | None) -> Tensor:
        """Map tokens and segments (N, T) to (N, T, C)."""
        places = self.position_embeddings.weight[: tokens.shape[1]]
        types = self.token_type_embeddings.weight[0] if segments is None else self.token_type_embeddings(segments)
        return self.dropout(self.LayerNorm(self.word_embeddings(tokens) + types + places))  # type: ignore[no-any-return]


class _Projections(nn.Module):
    """Queries, keys and values."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)


class _Residual(nn.Module):
    """A projection that is added to what was there, and a normalization after."""

    def __init__(self, inputs: int, conf: BertConf) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, conf.embedding_dim)
        self.LayerNorm = nn.LayerNorm(conf.embedding_dim, conf.layer_norm_eps)
        self.dropout = nn.Dropout(conf.dropout)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        return self.LayerNorm(before + self.dropout(self.dense(x)))  # type: ignore[no-any-return]


class BertAttention(nn.Module):
    """Multi-head attention of texts to themselves."""

    def __init__(self, conf: BertConf) -> None:
        super().__init__()
        if conf.embedding_dim % conf.num_attention_heads:
            raise ValueError(
                f"embedding_dim is {conf.embedding_dim}, expected a multiple of the {conf.num_attention_heads} heads."
            )
        self.num_heads, self.dropout = conf.num_attention_heads, conf.dropout
        self.self = _Projections(conf.embedding_dim)
        self.output = _Residual(conf.embedding_dim, conf)

    def forward(self, x: Tensor, mask: Tensor | None, places: Places | None) -> Tensor:
        """Map (N, T, C), or packed (M, C), to the same shape."""
        q, k, v = self.self.query(x), self.self.key(x), self.self.value(x)
        dropout = self.dropout if self.training else 0.0
        return self.output(attend(q, k, v, self.num_heads, mask, places, dropout), x)  # type: ignore[no-any-return]


class _Dense(nn.Module):
    """The first half of a feed-forward network."""

    def __init__(self, conf: BertConf) -> None:
        super().__init__()
        self.dense = nn.Linear(conf.embedding_dim, conf.ffn_dimension)


class BertLayer(nn.Module):
    """Attention and a feed-forward network, each with a residual and a normalization after it."""

    def __init__(self, conf: BertConf) -> None:
        super().__init__()
        if conf.activation not in ACTIVATIONS:
            raise ValueError(f"activation is {conf.activation!r}, expected {', '.join(ACTIVATIONS)}.")
        self.attention = BertAttention(conf)
        self.intermediate = _Dense(conf)
        self.output = _Residual(conf.ffn_dimension, conf)
        self.activation = conf.activation

    def forward(self, x: Tensor, mask: Tensor | None, places: Places | None) -> Tensor:
        """Map (N, T, C), or packed (M, C), to the same shape."""
        x = self.attention(x, mask, places)
        return self.output(ACTIVATIONS[self.activation](self.intermediate.dense(x)), x)  # type: ignore[no-any-return]


class _Layers(nn.Module):
    """Layers under the name that checkpoints have for them."""

    def __init__(self, conf: BertConf) -> None:
        super().__init__()
        self.layer = nn.ModuleList(BertLayer(conf) for _ in range(conf.num_encoder_layers))


class _Pooler(nn.Module):
    """What pretraining put on the first token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, features: Tensor) -> Tensor:
        return torch.tanh(self.dense(features[:, 0]))


class BertModel(nn.Module):
    """BERT: tokens in, features of each, or one vector of each text, out.

    Args:
        conf: the sizes.
        pooling: None gives the features of all tokens; "cls" takes the first token's, "mean" and "max" are over the
            tokens that are no padding, "pooler" is the layer that pretraining put on the first token.
        normalize: scale vectors to length 1, so that their products are cosines.

    Raises:
        AssertionError: `conf` is something else.
        ValueError: vectors are asked for that the sizes or `pooling` do not give.

    Example:
        >>> small = BertConf(embedding_dim=32, ffn_dimension=64, num_attention_heads=4, num_encoder_layers=2)
        >>> BertModel(small, "mean", normalize=True)(torch.tensor([[101, 7592, 102], [101, 102, 0]])).shape
        torch.Size([2, 32])
    """

    def __init__(
        self, conf: BertConf, pooling: Pooling | Literal["pooler"] | None = None, normalize: bool = False
    ) -> None:
        super().__init__()
        if not isinstance(conf, BertConf):
            raise AssertionError(f"conf is a {type(conf).__name__}, expected a BertConf.")
        if pooling not in (None, "cls", "mean", "max", "pooler"):
            raise ValueError(f"pooling is {pooling!r}, expected 'cls', 'mean', 'max', 'pooler' or None.")
        if pooling == "pooler" and not conf.pooler:
            raise ValueError("pooling is 'pooler', but the sizes have none: BertConf(pooler=True).")
        if normalize and pooling is None:
            raise ValueError("normalize is for one vector of each text: choose a pooling, such as 'mean'.")
        self.conf, self.pooling, self.normalize = conf, pooling, normalize
        self.padding_idx = conf.padding_idx
        self.embeddings = BertEmbeddings(conf)
        self.encoder = _Layers(conf)
        self.pooler = _Pooler(conf.embedding_dim) if conf.pooler else None

    def forward(self, tokens: Tensor, segments: Tensor | None = None, attention_mask: Tensor | None = None) -> Tensor:
        """Encode.

        Args:
            tokens: (N, T), integers.
            segments: (N, T), integers below `num_segments`, the type of each token's segment; all 0 if not given.
            attention_mask: (N, T), 1 or True where there is a token and no padding; where tokens differ from
                `padding_idx` if not given.

        Returns:
            (N, T, C), or with a pooling (N, C). Features at padding are 0.

        Raises:
            ValueError: texts are longer than there are positions.
        """
        features, real = self.encode(tokens, segments, attention_mask)
        if self.pooling is None:
            return features
        if self.pooling == "pooler":
            assert self.pooler is not None
            vectors = self.pooler(features)
        else:
            vectors = pool(features, real, self.pooling)
        return F.normalize(vectors, dim=-1) if self.normalize else vectors

    def encode(
        self, tokens: Tensor, segments: Tensor | None = None, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Features (N, T, C), and where the real tokens are, (N, T); arguments as `forward`."""
        self._check(tokens)
        real = tokens.ne(self.padding_idx) if attention_mask is None else attention_mask.bool()
        x = self.embeddings(tokens, segments)
        planned = plan(real, None, x.dtype)
        x = planned.begin(x)
        for layer in self.encoder.layer:
            x = layer(x, planned.mask, planned.places)
        return planned.end(x), real

    def padding_plan(self, tokens: Tensor) -> Plan:
        """How a batch of tokens (N, T) would be worked on; for `fast_path_report`."""
        return plan(tokens.ne(self.padding_idx), None, self.embeddings.word_embeddings.weight.dtype)

    def _check(self, tokens: Tensor) -> None:
        if tokens.dim() != 2:
            raise ValueError(f"tokens has shape {tuple(tokens.shape)}, expected (N, T).")
        if not is_traced() and tokens.shape[1] > self.conf.max_seq_len:
            raise ValueError(
                f"texts have {tokens.shape[1]} tokens, at most {self.conf.max_seq_len} fit: truncate them."
            )

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        adapt(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
