"""The parts of wav2vec 2.0: convolutional extractor, positional convolution, transformer (arXiv:2006.11477).

Names of modules and parameters are upstream's, so that its checkpoints load.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from flambeau.audio.models._attention import key_mask, padding_mask, split_heads
from flambeau.audio.models.wav2vec2.extractor import ConvLayerBlock, FeatureExtractor, LayerNorm, _get_feature_extractor
from flambeau.audio.models.wav2vec2.pretraining import (
    GradMultiply,
    LogitGenerator,
    MaskGenerator,
    _compute_logits,
    _compute_mask_indices,
)
from flambeau.audio.models.wav2vec2.wavlm_attention import WavLMSelfAttention

__all__ = [
    "ConvLayerBlock",
    "ConvolutionalPositionalEmbedding",
    "Encoder",
    "EncoderLayer",
    "FeatureExtractor",
    "FeatureProjection",
    "FeedForward",
    "GradMultiply",
    "LayerNorm",
    "LogitGenerator",
    "MaskGenerator",
    "SelfAttention",
    "Transformer",
    "_compute_logits",
    "_compute_mask_indices",
    "_get_encoder",
    "_get_feature_extractor",
    "_get_wavlm_encoder",
]


class FeatureProjection(nn.Module):
    """Layer norm, linear projection and dropout between extractor and transformer.

    Args:
        in_features: channels of the extractor.
        out_features: channels of the transformer.
        dropout: probability after the projection.
    """

    def __init__(self, in_features: int, out_features: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(in_features)
        self.projection = nn.Linear(in_features, out_features)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, frames, in_features) -> (batch, frames, out_features)."""
        return self.dropout(self.projection(self.layer_norm(x)))  # type: ignore[no-any-return]


class ConvolutionalPositionalEmbedding(nn.Module):
    """Relative positions from a wide grouped convolution with weight norm over its taps (section 2 of the paper).

    Args:
        embed_dim: channels.
        kernel_size: taps.
        groups: groups of channels.
    """

    def __init__(self, embed_dim: int, kernel_size: int, groups: int) -> None:
        super().__init__()
        self.embed_dim, self.kernel_size, self.groups = embed_dim, kernel_size, groups
        self.conv = self._convolution()
        self.num_remove = 1 - kernel_size % 2  # an even kernel gives one frame too many

    def forward(self, x: Tensor) -> Tensor:
        """(batch, frames, embed_dim) -> the same shape."""
        x = self.conv(x.transpose(1, 2))
        if self.num_remove:
            x = x[..., : -self.num_remove]
        return F.gelu(x).transpose(1, 2)

    def __getstate__(self) -> dict[str, Any]:
        # torch refuses to pickle a parametrized module; its parameters tell all that is not in this one's arguments.
        modules = {name: module for name, module in self._modules.items() if name != "conv"}
        return {**self.__dict__, "_modules": modules, "conv_parameters": dict(self.conv.named_parameters())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        parameters = state.pop("conv_parameters")
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        with torch.device("meta"):
            self.conv = self._convolution().train(self.training)
        for name, parameter in parameters.items():
            owner, _, own_name = name.rpartition(".")
            setattr(self.conv.get_submodule(owner), own_name, parameter)

    def _convolution(self) -> nn.Module:
        width, taps = self.embed_dim, self.kernel_size
        conv = nn.Conv1d(width, width, taps, padding=taps // 2, groups=self.groups)
        nn.init.normal_(conv.weight, std=(4.0 / (taps * width)) ** 0.5)
        nn.init.zeros_(conv.bias)  # type: ignore[arg-type]
        return weight_norm(conv, name="weight", dim=2)  # type: ignore[no-any-return]


class SelfAttention(nn.Module):
    """Multi-head self-attention with a projection of its own for each role.

    Args:
        embed_dim: channels, a multiple of `num_heads`.
        num_heads: heads.
        dropout: probability on attention weights, in training.

    Raises:
        ValueError: `embed_dim` is no multiple of `num_heads`.
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim is {embed_dim}, expected a multiple of num_heads, which is {num_heads}.")
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.head_dim = embed_dim // num_heads
        self.scaling = self.head_dim**-0.5
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(
        self,
        x: Tensor,
        attention_mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend.

        Args:
            x: (batch, frames, embed_dim).
            attention_mask: added to the scores, or bool with True where a key counts; broadcasts to
                (batch, heads, frames, frames).
            position_bias: not used; here so that layers of all kinds are called alike.
            key_padding_mask: (batch, frames) bool, True where a frame is padding; an alternative to `attention_mask`.

        Returns:
            (batch, frames, embed_dim), and None for the position bias.
        """
        if attention_mask is None:
            attention_mask = key_mask(key_padding_mask)
        query, key, value = (split_heads(p(x), self.num_heads) for p in (self.q_proj, self.k_proj, self.v_proj))
        dropout = self.dropout if self.training else 0.0
        x = F.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask, dropout_p=dropout)
        return self.out_proj(x.transpose(1, 2).flatten(2)), None


class FeedForward(nn.Module):
    """Two linear layers with GELU between, dropout behind each.

    Args:
        io_features: channels outside.
        intermediate_features: channels inside.
        intermediate_dropout: probability behind the first layer.
        output_dropout: probability behind the second.
    """

    def __init__(
        self, io_features: int, intermediate_features: int, intermediate_dropout: float, output_dropout: float
    ) -> None:
        super().__init__()
        self.intermediate_dense = nn.Linear(io_features, intermediate_features)
        self.intermediate_dropout = nn.Dropout(intermediate_dropout)
        self.output_dense = nn.Linear(intermediate_features, io_features)
        self.output_dropout = nn.Dropout(output_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, frames, io_features) -> the same shape."""
        x = self.intermediate_dropout(F.gelu(self.intermediate_dense(x)))
        return self.output_dropout(self.output_dense(x))  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    """One transformer layer, its layer norms before (`layer_norm_first`) or after each half."""

    def __init__(self, attention: nn.Module, dropout: float, layer_norm_first: bool, feed_forward: nn.Module) -> None:
        super().__init__()
        embed_dim: int = attention.embed_dim  # type: ignore[assignment]
        self.attention = attention
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(embed_dim)
        self.layer_norm_first = layer_norm_first
        self.feed_forward = feed_forward
        self.final_layer_norm = nn.LayerNorm(embed_dim)

    def forward(
        self,
        x: Tensor,
        attention_mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Arguments and results as those of the layer's attention."""
        residual = x
        if self.layer_norm_first:
            x = self.layer_norm(x)
        x, position_bias = self.attention(x, attention_mask, position_bias, key_padding_mask)
        x = residual + self.dropout(x)
        if self.layer_norm_first:
            return x + self.feed_forward(self.final_layer_norm(x)), position_bias
        x = self.layer_norm(x)
        return self.final_layer_norm(x + self.feed_forward(x)), position_bias


class Transformer(nn.Module):
    """Positional convolution and a stack of layers, some of which are left out in training (LayerDrop)."""

    def __init__(
        self, pos_conv_embed: nn.Module, dropout: float, layers: nn.Module, layer_norm_first: bool, layer_drop: float
    ) -> None:
        super().__init__()
        self.pos_conv_embed = pos_conv_embed
        self.layer_norm = nn.LayerNorm(pos_conv_embed.embed_dim)
        self.layer_norm_first = layer_norm_first
        self.layer_drop = layer_drop
        self.dropout = nn.Dropout(dropout)
        self.layers = layers

    def _preprocess(self, x: Tensor) -> Tensor:
        x = x + self.pos_conv_embed(x)
        if self.layer_norm_first:
            x = self.layer_norm(x)
        return self.dropout(x)  # type: ignore[no-any-return]

    def _layer(
        self, layer: nn.Module, x: Tensor, mask: Tensor | None, bias: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        if not self.training or self.layer_drop <= 0.0:
            return layer(x, mask, bias)  # type: ignore[no-any-return]
        drop = torch.rand((), device=x.device if torch.compiler.is_compiling() else None) <= self.layer_drop
        if torch.compiler.is_compiling():  # no branch by a value within one graph: the layer is computed and left out
            y, bias = layer(x, mask, bias)
            return torch.where(drop, x, y), bias
        return (x, bias) if drop else layer(x, mask, bias)

    def forward(self, x: Tensor, attention_mask: Tensor | None = None, position_bias: Tensor | None = None) -> Tensor:
        """(batch, frames, embed_dim) -> the same shape; the mask as in `SelfAttention`."""
        x = self._preprocess(x)
        for layer in self.layers:  # type: ignore[attr-defined]
            x, position_bias = self._layer(layer, x, attention_mask, position_bias)
        return x if self.layer_norm_first else self.layer_norm(x)

    def get_intermediate_outputs(
        self, x: Tensor, attention_mask: Tensor | None = None, num_layers: int | None = None
    ) -> list[Tensor]:
        """What each of the first `num_layers` layers gives, (batch, frames, embed_dim) each; None takes all layers.

        Raises:
            ValueError: `num_layers` is not between 1 and the number of layers.
        """
        count = len(self.layers)  # type: ignore[arg-type]
        if num_layers is not None and not 0 < num_layers <= count:
            raise ValueError(f"`num_layers` is {num_layers}, expected a number between [1, {count}].")
        outputs, bias = [], None
        x = self._preprocess(x)
        for layer in list(self.layers)[:num_layers]:  # type: ignore[call-overload]
            x, bias = layer(x, attention_mask, bias)
            outputs.append(x)
        return outputs


class Encoder(nn.Module):
    """Feature projection and transformer, with padding kept out of both."""

    def __init__(self, feature_projection: nn.Module, transformer: nn.Module) -> None:
        super().__init__()
        self.feature_projection = feature_projection
        self.transformer = transformer

    def _preprocess(self, features: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.feature_projection(features)
        if lengths is None:
            return x, None
        padding = padding_mask(lengths, x.shape[1])
        # Padding is zero before the positional convolution, which would else carry it into valid frames.
        return x.masked_fill(padding[..., None], 0.0), key_mask(padding)

    def forward(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(batch, frames, extractor's channels) -> (batch, frames, embed_dim).

        Args:
            features: what the extractor gives.
            lengths: (batch,) valid frames of each item; None where there is no padding.
        """
        x, mask = self._preprocess(features, lengths)
        return self.transformer(x, attention_mask=mask)  # type: ignore[no-any-return]

    def extract_features(
        self, features: Tensor, lengths: Tensor | None = None, num_layers: int | None = None
    ) -> list[Tensor]:
        """What each of the first `num_layers` layers gives; see `Transformer.get_intermediate_outputs`."""
        x, mask = self._preprocess(features, lengths)
        return self.transformer.get_intermediate_outputs(x, mask, num_layers)  # type: ignore[no-any-return, operator]


def _get_encoder(
    in_features: int,
    embed_dim: int,
    dropout_input: float,
    pos_conv_kernel: int,
    pos_conv_groups: int,
    num_layers: int,
    num_heads: int,
    attention_dropout: float,
    ff_interm_features: int,
    ff_interm_dropout: float,
    dropout: float,
    layer_norm_first: bool,
    layer_drop: float,
) -> Encoder:
    """The encoder of wav2vec 2.0 and HuBERT."""
    layers = [
        EncoderLayer(
            SelfAttention(embed_dim, num_heads, attention_dropout),
            dropout,
            layer_norm_first,
            FeedForward(embed_dim, ff_interm_features, ff_interm_dropout, dropout),
        )
        for _ in range(num_layers)
    ]
    pos_conv = ConvolutionalPositionalEmbedding(embed_dim, pos_conv_kernel, pos_conv_groups)
    # The norm of the stack sits at its other end than the layers' own.
    transformer = Transformer(pos_conv, dropout, nn.ModuleList(layers), not layer_norm_first, layer_drop)
    return Encoder(FeatureProjection(in_features, embed_dim, dropout_input), transformer)


def _get_wavlm_encoder(
    in_features: int,
    embed_dim: int,
    dropout_input: float,
    pos_conv_kernel: int,
    pos_conv_groups: int,
    num_layers: int,
    num_heads: int,
    num_buckets: int,
    max_distance: int,
    attention_dropout: float,
    ff_interm_features: int,
    ff_interm_dropout: float,
    dropout: float,
    layer_norm_first: bool,
    layer_drop: float,
) -> Encoder:
    """The encoder of WavLM: the first layer alone has an embedding of relative positions, which all layers use."""
    layers = [
        EncoderLayer(
            WavLMSelfAttention(embed_dim, num_heads, attention_dropout, True, index == 0, num_buckets, max_distance),
            dropout,
            layer_norm_first,
            FeedForward(embed_dim, ff_interm_features, ff_interm_dropout, dropout),
        )
        for index in range(num_layers)
    ]
    pos_conv = ConvolutionalPositionalEmbedding(embed_dim, pos_conv_kernel, pos_conv_groups)
    transformer = Transformer(pos_conv, dropout, nn.ModuleList(layers), not layer_norm_first, layer_drop)
    return Encoder(FeatureProjection(in_features, embed_dim, dropout_input), transformer)
