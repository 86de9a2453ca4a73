"""RoBERTa as one model: the encoder, and a head on its features."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor, nn

from flambeau.text.models.roberta.modules import TransformerEncoder

__all__ = ["RobertaClassificationHead", "RobertaEncoder", "RobertaEncoderConf", "RobertaModel"]


@dataclass
class RobertaEncoderConf:
    """The sizes of an encoder; the defaults are RoBERTa base.

    Args:
        vocab_size: how many tokens there are.
        embedding_dim: width.
        ffn_dimension: inner width of the feed-forward networks.
        padding_idx: the token of padding.
        max_seq_len: rows of the positions' table; `max_seq_len - padding_idx - 1` tokens fit.
        num_attention_heads: of each layer.
        num_encoder_layers: how many layers.
        dropout: everywhere.
        scaling: accepted, without effect.
        normalize_before: normalize before attention and feed-forward network.
    """

    vocab_size: int = 50265
    embedding_dim: int = 768
    ffn_dimension: int = 3072
    padding_idx: int = 1
    max_seq_len: int = 514
    num_attention_heads: int = 12
    num_encoder_layers: int = 12
    dropout: float = 0.1
    scaling: float | None = None
    normalize_before: bool = False


class RobertaEncoder(nn.Module):
    """The encoder: tokens in, features out; arguments as `RobertaEncoderConf`.

    Args:
        freeze: its parameters get no gradient.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_dim: int,
        ffn_dimension: int,
        padding_idx: int,
        max_seq_len: int,
        num_attention_heads: int,
        num_encoder_layers: int,
        dropout: float = 0.1,
        scaling: float | None = None,
        normalize_before: bool = False,
        freeze: bool = False,
    ) -> None:
        super().__init__()
        self.transformer = TransformerEncoder(
            vocab_size=vocab_size,
            embedding_dim=embedding_dim,
            padding_idx=padding_idx,
            max_seq_len=max_seq_len,
            ffn_dimension=ffn_dimension,
            num_encoder_layers=num_encoder_layers,
            num_attention_heads=num_attention_heads,
            dropout=dropout,
            normalize_before=normalize_before,
            scaling=scaling,
        )
        if freeze:
            self.requires_grad_(False)

    @classmethod
    def from_config(cls, config: RobertaEncoderConf) -> RobertaEncoder:
        """An encoder of these sizes."""
        return cls(**asdict(config))

    def forward(self, tokens: Tensor, masked_tokens: Tensor | None = None) -> Tensor:
        """Encode.

        Args:
            tokens: (N, T), integers.
            masked_tokens: (N, T), bool or 0 and 1: give the features at these positions alone.

        Returns:
            (N, T, C), or (M, C) for M masked positions. At padding the values mean nothing.

        Raises:
            ValueError: a sequence has more tokens than there are positions.
        """
        (features,) = self.transformer.encode(tokens)
        return features if masked_tokens is None else features[masked_tokens.bool()]


class RobertaClassificationHead(nn.Module):
    """Classify a text by the features of its first token.

    Args:
        num_classes: how many classes.
        input_dim: width of the features.
        inner_dim: width between the two layers; that of the features if not given.
        dropout: before each layer.
        activation: the class of what is between them.
    """

    def __init__(
        self,
        num_classes: int,
        input_dim: int,
        inner_dim: int | None = None,
        dropout: float = 0.1,
        activation: type[nn.Module] = nn.ReLU,
    ) -> None:
        super().__init__()
        inner_dim = inner_dim or input_dim
        self.dense = nn.Linear(input_dim, inner_dim)
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(inner_dim, num_classes)
        self.activation_fn = activation()

    def forward(self, features: Tensor) -> Tensor:
        """Map (N, T, C) to logits (N, num_classes)."""
        x = self.activation_fn(self.dense(self.dropout(features[:, 0, :])))
        return self.out_proj(self.dropout(x))  # type: ignore[no-any-return]


class RobertaModel(nn.Module):
    """An encoder with a head, if there is one.

    Args:
        encoder_conf: its sizes.
        head: takes the features (N, T, C), or (M, C) where masked tokens are given.
        freeze_encoder: the encoder's parameters get no gradient.

    Raises:
        AssertionError: `encoder_conf` is something else; upstream's type of error.

    Example:
        >>> small = RobertaEncoderConf(100, 32, 64, num_attention_heads=4, num_encoder_layers=2)
        >>> RobertaModel(small, RobertaClassificationHead(3, 32))(torch.tensor([[0, 5, 2], [0, 2, 1]])).shape
        torch.Size([2, 3])
    """

    def __init__(
        self, encoder_conf: RobertaEncoderConf, head: nn.Module | None = None, freeze_encoder: bool = False
    ) -> None:
        super().__init__()
        if not isinstance(encoder_conf, RobertaEncoderConf):
            raise AssertionError(f"encoder_conf is a {type(encoder_conf).__name__}, expected a RobertaEncoderConf.")
        self.encoder = RobertaEncoder(**asdict(encoder_conf), freeze=freeze_encoder)
        self.head = head

    def forward(self, tokens: Tensor, masked_tokens: Tensor | None = None) -> Any:
        """Encode, and apply the head; arguments as `RobertaEncoder.forward`."""
        features = self.encoder(tokens, masked_tokens)
        return features if self.head is None else self.head(features)
