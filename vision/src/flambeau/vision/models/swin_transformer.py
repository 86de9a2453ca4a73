"""Swin Transformer, first and second version: attention in windows that shift from block to block.

Reading order: merging of patches, attention, blocks, the network, the builders. Maps are (N, H, W, C) inside.

References:
    Liu et al. 2021, Swin Transformer: Hierarchical Vision Transformer using Shifted Windows, arXiv:2103.14030.
    Liu et al. 2021, Swin Transformer V2: Scaling Up Capacity and Resolution, arXiv:2111.09883.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models import _windows
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import build_classifier, handle_legacy_interface
from flambeau.vision.ops.misc import MLP, Permute
from flambeau.vision.ops.stochastic_depth import StochasticDepth
from flambeau.vision.weights.swin_transformer import (
    Swin_B_Weights,
    Swin_S_Weights,
    Swin_T_Weights,
    Swin_V2_B_Weights,
    Swin_V2_S_Weights,
    Swin_V2_T_Weights,
)

__all__ = [
    "SwinTransformer",
    "Swin_B_Weights",
    "Swin_S_Weights",
    "Swin_T_Weights",
    "Swin_V2_B_Weights",
    "Swin_V2_S_Weights",
    "Swin_V2_T_Weights",
    "swin_b",
    "swin_s",
    "swin_t",
    "swin_v2_b",
    "swin_v2_s",
    "swin_v2_t",
]

Layer = Callable[..., nn.Module]


def _quarters(x: Tensor) -> Tensor:
    """Each 2x2 pixels of (..., H, W, C) side by side: (..., H / 2, W / 2, 4 * C), odd sizes padded with zeros."""
    x = F.pad(x, [0, 0, 0, x.shape[-2] % 2, 0, x.shape[-3] % 2])
    corners = [x[..., row::2, column::2, :] for column in (0, 1) for row in (0, 1)]  # down first, then right
    return torch.cat(corners, -1)


class PatchMerging(nn.Module):
    """Halve height and width: 2x2 pixels become one, normalized, then reduced to twice the channels.

    Args:
        dim: channels of the input.
        norm_layer: makes a normalization of the last dimension.
    """

    def __init__(self, dim: int, norm_layer: Layer = nn.LayerNorm) -> None:
        super().__init__()
        self.dim = dim
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(4 * dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., H, W, dim) to (..., H / 2, W / 2, 2 * dim), odd sizes rounded up."""
        reduced: Tensor = self.reduction(self.norm(_quarters(x)))
        return reduced


class PatchMergingV2(nn.Module):
    """As `PatchMerging`, but reduced before it is normalized."""

    def __init__(self, dim: int, norm_layer: Layer = nn.LayerNorm) -> None:
        super().__init__()
        self.dim = dim
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(2 * dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., H, W, dim) to (..., H / 2, W / 2, 2 * dim), odd sizes rounded up."""
        normalized: Tensor = self.norm(self.reduction(_quarters(x)))
        return normalized


class ShiftedWindowAttention(nn.Module):
    """Attention in windows of a map, with a learned bias for each difference of positions (section 3.2).

    Args:
        dim: channels, a multiple of `num_heads`.
        window_size: height and width of a window.
        shift_size: how much further down and right windows lie; no effect along a side that one window covers.
        num_heads: of the attention.
        qkv_bias: whether queries, keys and values have a bias.
        proj_bias: whether the last projection has one.
        attention_dropout: probability for each weight.
        dropout: probability for each element of the output.

    Shape:
        (N, H, W, dim) -> the same, for any H and W.
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
        if len(window_size) != 2 or len(shift_size) != 2:
            raise ValueError(
                f"window_size is {window_size} and shift_size {shift_size}, expected height and width for both."
            )
        self.window_size = window_size
        self.shift_size = shift_size
        self.num_heads = num_heads
        self.attention_dropout = attention_dropout
        self.dropout = dropout
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim, bias=proj_bias)
        self.define_relative_position_bias_table()
        self.define_relative_position_index()

    def define_relative_position_bias_table(self) -> None:
        """Make the parameter: a row for each difference of positions, a column for each head."""
        differences = math.prod(2 * side - 1 for side in self.window_size)
        self.relative_position_bias_table = nn.Parameter(torch.zeros(differences, self.num_heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def define_relative_position_index(self) -> None:
        """Make the buffer: for each pair of positions, its row in the table."""
        self.register_buffer("relative_position_index", _windows.relative_position_index(self.window_size).flatten())

    def get_relative_position_bias(self) -> Tensor:
        """The bias (1, num_heads, P, P)."""
        return self._by_pairs(self.relative_position_bias_table)

    def _by_pairs(self, table: Tensor) -> Tensor:
        positions = math.prod(self.window_size)
        return table[self.relative_position_index].view(positions, positions, -1).permute(2, 0, 1).unsqueeze(0)

    def _attend(self, windows: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = _windows.split_heads(self.qkv(windows), self.num_heads)
        dropout = self.attention_dropout if self.training else 0.0
        return _windows.attention(q, k, v, self.get_relative_position_bias(), mask, dropout=dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Mix the pixels of each window of (N, H, W, dim)."""
        shift = _windows.effective_shift(x, self.window_size, self.shift_size)
        windows, mask = _windows.cut(x, self.window_size, shift)
        windows = self._attend(windows, mask)
        mixed: Tensor = self.proj(_windows.join(windows, x.shape[1:-1], self.window_size, shift))
        return F.dropout(mixed, p=self.dropout, training=self.training)


class ShiftedWindowAttentionV2(ShiftedWindowAttention):
    """Attention by angles, with a bias that a small network computes from log-spaced differences (section 3.2, V2).

    Arguments as for `ShiftedWindowAttention`.
    """

    relative_coords_table: Tensor

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
        super().__init__(dim, window_size, shift_size, num_heads, qkv_bias, proj_bias, attention_dropout, dropout)
        self.logit_scale = nn.Parameter(torch.full((num_heads, 1, 1), math.log(10.0)))
        self.cpb_mlp = nn.Sequential(
            nn.Linear(2, 512, bias=True), nn.ReLU(inplace=True), nn.Linear(512, num_heads, bias=False)
        )

    def define_relative_position_bias_table(self) -> None:
        """Make the buffer with the differences of positions, which the network turns into biases."""
        along = [torch.arange(-(side - 1), side, dtype=torch.float32) / max(1, side - 1) for side in self.window_size]
        differences = 8 * torch.stack(torch.meshgrid(along, indexing="ij"), dim=-1)
        table = torch.sign(differences) * torch.log2(differences.abs() + 1.0) / 3.0  # log2(8) = 3
        self.register_buffer("relative_coords_table", table.unsqueeze(0))

    def get_relative_position_bias(self) -> Tensor:
        """The bias (1, num_heads, P, P), from 0 to 16."""
        table = self.cpb_mlp(self.relative_coords_table).view(-1, self.num_heads)
        return 16 * torch.sigmoid(self._by_pairs(table))

    def _attend(self, windows: Tensor, mask: Tensor | None) -> Tensor:
        bias: Tensor | None = None
        if self.qkv.bias is not None:  # keys have none: it would change nothing but their angles
            queries, keys, values = self.qkv.bias.chunk(3)
            bias = torch.cat([queries, torch.zeros_like(keys), values])
        q, k, v = _windows.split_heads(F.linear(windows, self.qkv.weight, bias), self.num_heads)
        q = F.normalize(q, dim=-1) * self.logit_scale.clamp(max=math.log(100.0)).exp()
        dropout = self.attention_dropout if self.training else 0.0
        relative = self.get_relative_position_bias()
        return _windows.attention(q, F.normalize(k, dim=-1), v, relative, mask, dropout=dropout, scale=1.0)


class SwinTransformerBlock(nn.Module):
    """Attention in windows, then a perceptron for each pixel, both after normalization and with a shortcut.

    Args:
        dim: channels.
        num_heads: of the attention.
        window_size: sizes of a window.
        shift_size: how much further down and right windows lie.
        mlp_ratio: width of the perceptron's hidden layer, in `dim`.
        dropout: probability after attention and in the perceptron.
        attention_dropout: probability for each weight of the attention.
        stochastic_depth_prob: probability to drop a branch for a sample in train mode.
        norm_layer: makes a normalization of the last dimension.
        attn_layer: makes the attention.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        window_size: list[int],
        shift_size: list[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        norm_layer: Layer = nn.LayerNorm,
        attn_layer: Layer = ShiftedWindowAttention,
    ) -> None:
        super().__init__()
        self.norm1 = norm_layer(dim)
        self.attn = attn_layer(
            dim, window_size, shift_size, num_heads, attention_dropout=attention_dropout, dropout=dropout
        )
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.norm2 = norm_layer(dim)
        self.mlp = MLP(dim, [int(dim * mlp_ratio), dim], activation_layer=nn.GELU, inplace=None, dropout=dropout)
        for module in self.mlp.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.normal_(module.bias, std=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, *sizes, dim) to the same shape."""
        x = x + self.stochastic_depth(self.attn(self.norm1(x)))
        result: Tensor = x + self.stochastic_depth(self.mlp(self.norm2(x)))
        return result


class SwinTransformerBlockV2(SwinTransformerBlock):
    """As `SwinTransformerBlock`, but what the branches give is normalized, not what they get."""

    def __init__(
        self,
        dim: int,
        num_heads: int,
        window_size: list[int],
        shift_size: list[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        norm_layer: Layer = nn.LayerNorm,
        attn_layer: Layer = ShiftedWindowAttentionV2,
    ) -> None:
        super().__init__(
            dim,
            num_heads,
            window_size,
            shift_size,
            mlp_ratio,
            dropout,
            attention_dropout,
            stochastic_depth_prob,
            norm_layer,
            attn_layer,
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, *sizes, dim) to the same shape."""
        x = x + self.stochastic_depth(self.norm1(self.attn(x)))
        result: Tensor = x + self.stochastic_depth(self.norm2(self.mlp(x)))
        return result


def swin_stages(
    block: Layer,
    downsample_layer: Layer,
    norm_layer: Layer,
    embed_dim: int,
    depths: Sequence[int],
    num_heads: Sequence[int],
    window_size: Sequence[int],
    stochastic_depth_prob: float,
    **options: Any,
) -> tuple[list[nn.Module], int]:
    """The stages of a Swin transformer with downsampling between them, and the channels after the last one.

    Every other block shifts its windows by half their size; the probability of stochastic depth grows linearly from 0
    at the first block.
    """
    layers: list[nn.Module] = []
    total, built, dim = sum(depths), 0, embed_dim
    for stage, (depth, heads) in enumerate(zip(depths, num_heads, strict=True)):
        blocks = []
        for index in range(depth):
            blocks.append(
                block(
                    dim,
                    heads,
                    window_size=list(window_size),
                    shift_size=[side // 2 if index % 2 else 0 for side in window_size],
                    stochastic_depth_prob=stochastic_depth_prob * built / max(1, total - 1),
                    norm_layer=norm_layer,
                    **options,
                )
            )
            built += 1
        layers.append(nn.Sequential(*blocks))
        if stage < len(depths) - 1:
            layers.append(downsample_layer(dim, norm_layer))
            dim *= 2
    return layers, dim


class SwinTransformer(nn.Module):
    """Patches, stages of blocks with halving between them, pooling and one linear layer.

    Args:
        patch_size: height and width of a patch.
        embed_dim: channels of the first stage; each further one has twice as many.
        depths: number of blocks per stage.
        num_heads: heads of the attention per stage.
        window_size: height and width of a window.
        mlp_ratio: width of the perceptrons' hidden layer, in channels.
        dropout: probability after attention and in the perceptrons.
        attention_dropout: probability for each weight of an attention.
        stochastic_depth_prob: probability to drop a branch of the last block; it grows linearly from 0 at the first.
        num_classes: size of the output.
        norm_layer: makes a normalization of the last dimension; layer normalization with eps 1e-5 by default.
        block: makes a block; `SwinTransformerBlock` by default.
        downsample_layer: makes what stands between stages.

    Shape:
        (N, 3, H, W), floating point -> (N, num_classes), logits; any H and W from the size of a patch on.
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
        num_classes: int = 1000,
        norm_layer: Layer | None = None,
        block: Layer | None = None,
        downsample_layer: Layer = PatchMerging,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        norm_layer = norm_layer or partial(nn.LayerNorm, eps=1e-5)
        height, width = patch_size
        patches = nn.Sequential(
            nn.Conv2d(3, embed_dim, kernel_size=(height, width), stride=(height, width)),
            Permute([0, 2, 3, 1]),
            norm_layer(embed_dim),
        )
        stages, channels = swin_stages(
            block or SwinTransformerBlock,
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
        self.features = nn.Sequential(patches, *stages)
        self.norm = norm_layer(channels)
        self.permute = Permute([0, 3, 1, 2])
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten(1)
        self.head = nn.Linear(channels, num_classes)
        initialise_linear_layers(self)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, 3, H, W) to logits (N, num_classes)."""
        x = self.permute(self.norm(self.features(x)))
        logits: Tensor = self.head(self.flatten(self.avgpool(x)))
        return logits


def initialise_linear_layers(module: nn.Module) -> None:
    """Draw the weights of all linear layers from a truncated normal distribution; biases are zero."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.trunc_normal_(layer.weight, std=0.02)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def _swin_transformer(
    embed_dim: int,
    depths: list[int],
    num_heads: list[int],
    window: int,
    stochastic_depth_prob: float,
    weights: WeightsEnum | None,
    progress: bool,
    **kwargs: Any,
) -> SwinTransformer:
    kwargs.setdefault("stochastic_depth_prob", stochastic_depth_prob)
    return build_classifier(
        SwinTransformer,
        weights,
        patch_size=[4, 4],
        embed_dim=embed_dim,
        depths=depths,
        num_heads=num_heads,
        window_size=[window, window],
        progress=progress,
        **kwargs,
    )


_second = partial(_swin_transformer, block=SwinTransformerBlockV2, downsample_layer=PatchMergingV2)


@register_model(task="image-classification", tags=("imagenet",), head="head", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", Swin_T_Weights.IMAGENET1K_V1))
def swin_t(*, weights: Swin_T_Weights | None = None, progress: bool = True, **kwargs: Any) -> SwinTransformer:
    """Swin transformer, tiny (Liu et al. 2021, arXiv:2103.14030, section 3.3).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `SwinTransformer`; `device` and `dtype` place the weights without a copy in between.
    """
    return _swin_transformer(
        96, [2, 2, 6, 2], [3, 6, 12, 24], 7, 0.2, Swin_T_Weights.verify(weights), progress, **kwargs
    )


@register_model(task="image-classification", tags=("imagenet",), head="head", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", Swin_S_Weights.IMAGENET1K_V1))
def swin_s(*, weights: Swin_S_Weights | None = None, progress: bool = True, **kwargs: Any) -> SwinTransformer:
    """Swin transformer, small (Liu et al. 2021, arXiv:2103.14030, section 3.3).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `SwinTransformer`; `device` and `dtype` place the weights without a copy in between.
    """
    return _swin_transformer(
        96, [2, 2, 18, 2], [3, 6, 12, 24], 7, 0.3, Swin_S_Weights.verify(weights), progress, **kwargs
    )


@register_model(task="image-classification", tags=("imagenet",), head="head", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", Swin_B_Weights.IMAGENET1K_V1))
def swin_b(*, weights: Swin_B_Weights | None = None, progress: bool = True, **kwargs: Any) -> SwinTransformer:
    """Swin transformer, base (Liu et al. 2021, arXiv:2103.14030, section 3.3).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `SwinTransformer`; `device` and `dtype` place the weights without a copy in between.
    """
    return _swin_transformer(
        128, [2, 2, 18, 2], [4, 8, 16, 32], 7, 0.5, Swin_B_Weights.verify(weights), progress, **kwargs
    )


@register_model(task="image-classification", tags=("imagenet",), head="head", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", Swin_V2_T_Weights.IMAGENET1K_V1))
def swin_v2_t(*, weights: Swin_V2_T_Weights | None = None, progress: bool = True, **kwargs: Any) -> SwinTransformer:
    """Swin transformer V2, tiny (Liu et al. 2021, arXiv:2111.09883, section 4).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `SwinTransformer`; `device` and `dtype` place the weights without a copy in between.
    """
    return _second(96, [2, 2, 6, 2], [3, 6, 12, 24], 8, 0.2, Swin_V2_T_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="head", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", Swin_V2_S_Weights.IMAGENET1K_V1))
def swin_v2_s(*, weights: Swin_V2_S_Weights | None = None, progress: bool = True, **kwargs: Any) -> SwinTransformer:
    """Swin transformer V2, small (Liu et al. 2021, arXiv:2111.09883, section 4).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `SwinTransformer`; `device` and `dtype` place the weights without a copy in between.
    """
    return _second(96, [2, 2, 18, 2], [3, 6, 12, 24], 8, 0.3, Swin_V2_S_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="head", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", Swin_V2_B_Weights.IMAGENET1K_V1))
def swin_v2_b(*, weights: Swin_V2_B_Weights | None = None, progress: bool = True, **kwargs: Any) -> SwinTransformer:
    """Swin transformer V2, base (Liu et al. 2021, arXiv:2111.09883, section 4).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `SwinTransformer`; `device` and `dtype` place the weights without a copy in between.
    """
    return _second(128, [2, 2, 18, 2], [4, 8, 16, 32], 8, 0.5, Swin_V2_B_Weights.verify(weights), progress, **kwargs)
