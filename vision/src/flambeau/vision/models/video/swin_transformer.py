"""Swin Transformer for video: attention in windows of space and time that shift from block to block.

Reading order: patches, attention, the network, the builders. Maps are (N, T, H, W, C) inside.

References:
    Liu et al. 2021, Video Swin Transformer, arXiv:2106.13230.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, fx, nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models import _windows
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import build_classifier, handle_legacy_interface
from flambeau.vision.models.swin_transformer import (
    Layer,
    PatchMerging,
    SwinTransformerBlock,
    initialise_linear_layers,
    swin_stages,
)
from flambeau.vision.weights.video_swin_transformer import Swin3D_B_Weights, Swin3D_S_Weights, Swin3D_T_Weights

__all__ = [
    "Swin3D_B_Weights",
    "Swin3D_S_Weights",
    "Swin3D_T_Weights",
    "SwinTransformer3d",
    "swin3d_b",
    "swin3d_s",
    "swin3d_t",
]


class PatchEmbed3d(nn.Module):
    """Project patches of space and time to tokens.

    Args:
        patch_size: time, height and width of a patch.
        in_channels: channels of the video.
        embed_dim: size of a token.
        norm_layer: makes a normalization of tokens; None leaves it out.
    """

    def __init__(
        self, patch_size: list[int], in_channels: int = 3, embed_dim: int = 96, norm_layer: Layer | None = None
    ) -> None:
        super().__init__()
        self.tuple_patch_size = (patch_size[0], patch_size[1], patch_size[2])
        self.proj = nn.Conv3d(in_channels, embed_dim, kernel_size=self.tuple_patch_size, stride=self.tuple_patch_size)
        self.norm: nn.Module = nn.Identity() if norm_layer is None else norm_layer(embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, T, H, W), padded with zeros to whole patches, to (N, T', H', W', embed_dim)."""
        x = _padded(x, self.tuple_patch_size)
        tokens: Tensor = self.norm(self.proj(x).permute(0, 2, 3, 4, 1))
        return tokens


@fx.wrap
def _padded(x: Tensor, patch: Sequence[int]) -> Tensor:
    """Videos (N, C, T, H, W) with zeros at the ends, so that they are whole patches."""
    padding = [(-size) % side for size, side in zip(x.shape[2:], patch, strict=True)]
    return F.pad(x, [amount for last in reversed(padding) for amount in (0, last)])


@fx.wrap
def _shrunken(x: Tensor, window: Sequence[int]) -> list[int]:
    """The sizes of a window that is no larger than a map (N, T, H, W, C)."""
    return [min(side, size) for side, size in zip(window, x.shape[1:-1], strict=True)]


@fx.wrap
def _bias_of_first(table: Tensor, index: Tensor, window: Sequence[int]) -> Tensor:
    """The bias (1, heads, P, P) for the pairs of a window's positions."""
    # Upstream: a shrunken window takes the first positions of the whole one, which are its own in time alone.
    positions = math.prod(window)
    bias = table[index[:positions, :positions].flatten()].view(positions, positions, -1)
    return bias.permute(2, 0, 1).unsqueeze(0)


class ShiftedWindowAttention3d(nn.Module):
    """Attention in windows of a video, with a learned bias for each difference of positions.

    Args:
        dim: channels, a multiple of `num_heads`.
        window_size: time, height and width of a window; it shrinks to smaller videos.
        shift_size: how much further to the end windows lie; no effect along a side that one window covers.
        num_heads: of the attention.
        qkv_bias: whether queries, keys and values have a bias.
        proj_bias: whether the last projection has one.
        attention_dropout: probability for each weight.
        dropout: probability for each element of the output.

    Shape:
        (N, T, H, W, dim) -> the same.
    """

    relative_position_index: Tensor

    def __init__(
        self,
        dim: int,
        window_size: list[int],
        shift_size: list[int],
        num_heads: int,
        qkv_bias: bool = True,
        proj_bias: bool = True,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if len(window_size) != 3 or len(shift_size) != 3:
            raise ValueError(
                f"window_size is {window_size} and shift_size {shift_size}, expected time, height and width for both."
            )
        self.window_size = window_size
        self.shift_size = shift_size
        self.num_heads = num_heads
        self.attention_dropout = attention_dropout
        self.dropout = dropout
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim, bias=proj_bias)
        differences = math.prod(2 * side - 1 for side in window_size)
        self.relative_position_bias_table = nn.Parameter(self.qkv.weight.new_zeros(differences, num_heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)
        self.register_buffer("relative_position_index", _windows.relative_position_index(window_size))

    def get_relative_position_bias(self, window_size: list[int]) -> Tensor:
        """The bias (1, num_heads, P, P) in a window of this size."""
        return _bias_of_first(self.relative_position_bias_table, self.relative_position_index, window_size)

    def forward(self, x: Tensor) -> Tensor:
        """Mix the positions of each window of (N, T, H, W, dim)."""
        window = _shrunken(x, self.window_size)
        shift = _windows.effective_shift(x, self.window_size, self.shift_size)
        windows, mask = _windows.cut(x, window, shift)
        q, k, v = _windows.split_heads(self.qkv(windows), self.num_heads)
        dropout = self.attention_dropout if self.training else 0.0
        windows = _windows.attention(q, k, v, self.get_relative_position_bias(window), mask, dropout=dropout)
        mixed: Tensor = self.proj(_windows.join(windows, x.shape[1:-1], window, shift))
        return F.dropout(mixed, p=self.dropout, training=self.training)


class SwinTransformer3d(nn.Module):
    """Patches, stages of blocks with halving of height and width between them, pooling and one linear layer.

    Args:
        patch_size: time, height and width of a patch.
        embed_dim: channels of the first stage; each further one has twice as many.
        depths: number of blocks per stage.
        num_heads: heads of the attention per stage.
        window_size: time, height and width of a window.
        mlp_ratio: width of the perceptrons' hidden layer, in channels.
        dropout: probability for tokens, after attention and in the perceptrons.
        attention_dropout: probability for each weight of an attention.
        stochastic_depth_prob: probability to drop a branch of the last block; it grows linearly from 0 at the first.
        num_classes: size of the output.
        norm_layer: makes a normalization of the last dimension; layer normalization with eps 1e-5 by default.
        block: makes a block; `SwinTransformerBlock` with attention in space and time by default.
        downsample_layer: makes what stands between stages.
        patch_embed: makes the projection of patches.

    Shape:
        (N, 3, T, H, W), floating point -> (N, num_classes), logits; any T, H and W from 1 on.
    """

    def __init__(
        self,
        patch_size: list[int],
        embed_dim: int,
        depths: list[int],
        num_heads: list[int],
        window_size: list[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.1,
        num_classes: int = 400,
        norm_layer: Layer | None = None,
        block: Layer | None = None,
        downsample_layer: Layer = PatchMerging,
        patch_embed: Layer | None = None,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        norm_layer = norm_layer or partial(nn.LayerNorm, eps=1e-5)
        self.patch_embed = (patch_embed or PatchEmbed3d)(
            patch_size=patch_size, embed_dim=embed_dim, norm_layer=norm_layer
        )
        self.pos_drop = nn.Dropout(p=dropout)
        stages, channels = swin_stages(
            block or partial(SwinTransformerBlock, attn_layer=ShiftedWindowAttention3d),
            downsample_layer,
            norm_layer,
            embed_dim,
            depths,
            num_heads,
            window_size,
            stochastic_depth_prob,
            mlp_ratio=mlp_ratio,
            dropout=dropout,
            attention_dropout=attention_dropout,
        )
        self.features = nn.Sequential(*stages)
        self.num_features = channels
        self.norm = norm_layer(channels)
        self.avgpool = nn.AdaptiveAvgPool3d(1)
        self.head = nn.Linear(channels, num_classes)
        initialise_linear_layers(self)

    def forward(self, x: Tensor) -> Tensor:
        """Map videos (N, 3, T, H, W) to logits (N, num_classes)."""
        x = self.norm(self.features(self.pos_drop(self.patch_embed(x))))
        x = self.avgpool(x.permute(0, 4, 1, 2, 3))
        logits: Tensor = self.head(x.flatten(1))
        return logits


def _swin_transformer3d(
    embed_dim: int,
    depths: list[int],
    num_heads: list[int],
    weights: WeightsEnum | None,
    progress: bool,
    **kwargs: Any,
) -> SwinTransformer3d:
    return build_classifier(
        SwinTransformer3d,
        weights,
        patch_size=[2, 4, 4],
        embed_dim=embed_dim,
        depths=depths,
        num_heads=num_heads,
        window_size=[8, 7, 7],
        progress=progress,
        **kwargs,
    )


@register_model(task="video-classification", tags=("kinetics",), head="head", stem="patch_embed.proj")
@handle_legacy_interface(weights=("pretrained", Swin3D_T_Weights.KINETICS400_V1))
def swin3d_t(*, weights: Swin3D_T_Weights | None = None, progress: bool = True, **kwargs: Any) -> SwinTransformer3d:
    """Video Swin transformer, tiny (Liu et al. 2021, arXiv:2106.13230, section 3.2).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `SwinTransformer3d`; `device` and `dtype` place the weights without a copy in between.
    """
    return _swin_transformer3d(96, [2, 2, 6, 2], [3, 6, 12, 24], Swin3D_T_Weights.verify(weights), progress, **kwargs)


@register_model(task="video-classification", tags=("kinetics",), head="head", stem="patch_embed.proj")
@handle_legacy_interface(weights=("pretrained", Swin3D_S_Weights.KINETICS400_V1))
def swin3d_s(*, weights: Swin3D_S_Weights | None = None, progress: bool = True, **kwargs: Any) -> SwinTransformer3d:
    """Video Swin transformer, small (Liu et al. 2021, arXiv:2106.13230, section 3.2).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `SwinTransformer3d`; `device` and `dtype` place the weights without a copy in between.
    """
    return _swin_transformer3d(96, [2, 2, 18, 2], [3, 6, 12, 24], Swin3D_S_Weights.verify(weights), progress, **kwargs)


@register_model(task="video-classification", tags=("kinetics",), head="head", stem="patch_embed.proj")
@handle_legacy_interface(weights=("pretrained", Swin3D_B_Weights.KINETICS400_V1))
def swin3d_b(*, weights: Swin3D_B_Weights | None = None, progress: bool = True, **kwargs: Any) -> SwinTransformer3d:
    """Video Swin transformer, base (Liu et al. 2021, arXiv:2106.13230, section 3.2).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `SwinTransformer3d`; `device` and `dtype` place the weights without a copy in between.
    """
    return _swin_transformer3d(128, [2, 2, 18, 2], [4, 8, 16, 32], Swin3D_B_Weights.verify(weights), progress, **kwargs)
