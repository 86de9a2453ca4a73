"""MaxViT: convolution, attention inside windows and attention across a grid, in turns.

Reading order: the convolution, attention with relative positions, partitions, the layer, the block, the network, the
builder.

References:
    Tu et al. 2022, MaxViT: Multi-Axis Vision Transformer, arXiv:2204.01697.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn

from flambeau.vision.models import _windows
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import build_classifier, handle_legacy_interface
from flambeau.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation
from flambeau.vision.ops.stochastic_depth import StochasticDepth
from flambeau.vision.weights.maxvit import MaxVit_T_Weights

__all__ = ["MaxVit", "MaxVit_T_Weights", "maxvit_t"]

Layer = Callable[..., nn.Module]


class MBConv(nn.Module):
    """Inverted residual with a gate, normalized first; the shortcut is pooled where the convolution halves.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        expansion_ratio: channels inside, in `out_channels`.
        squeeze_ratio: width of the gate's hidden layer, in `out_channels`.
        stride: 1 or 2, of the 3x3 convolution.
        activation_layer: makes an activation.
        norm_layer: makes a normalization from a number of channels.
        p_stochastic_dropout: probability to drop the branch for a sample in train mode.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        expansion_ratio: float,
        squeeze_ratio: float,
        stride: int,
        activation_layer: Layer,
        norm_layer: Layer,
        p_stochastic_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.proj: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            shortcut: list[nn.Module] = [nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=True)]
            if stride == 2:
                shortcut.insert(0, nn.AvgPool2d(kernel_size=3, stride=stride, padding=1))
            self.proj = nn.Sequential(*shortcut)
        inner = int(out_channels * expansion_ratio)
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=activation_layer, inplace=None)
        self.stochastic_depth: nn.Module = nn.Identity()
        if p_stochastic_dropout:
            self.stochastic_depth = StochasticDepth(p_stochastic_dropout, mode="row")
        self.layers = nn.Sequential(
            OrderedDict[str, nn.Module](
                pre_norm=norm_layer(in_channels),
                conv_a=conv(in_channels, inner, kernel_size=1),
                conv_b=conv(inner, inner, kernel_size=3, stride=stride, groups=inner),
                squeeze_excitation=SqueezeExcitation(inner, int(out_channels * squeeze_ratio), activation=nn.SiLU),
                conv_c=nn.Conv2d(inner, out_channels, kernel_size=1, bias=True),
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, H / stride, W / stride)."""
        result: Tensor = self.proj(x) + self.stochastic_depth(self.layers(x))
        return result


class RelativePositionalMultiHeadAttention(nn.Module):
    """Attention among the positions of a square, with a learned bias for each difference of positions.

    Args:
        feat_dim: channels, a multiple of `head_dim`.
        head_dim: channels of one head.
        max_seq_len: number of positions, a square number.

    Raises:
        ValueError: `feat_dim` is no multiple of `head_dim`.
    """

    relative_position_index: Tensor

    def __init__(self, feat_dim: int, head_dim: int, max_seq_len: int) -> None:
        super().__init__()
        if feat_dim % head_dim != 0:
            raise ValueError(f"feat_dim is {feat_dim}, expected a multiple of head_dim, {head_dim}.")
        self.n_heads = feat_dim // head_dim
        self.head_dim = head_dim
        self.size = math.isqrt(max_seq_len)
        self.max_seq_len = max_seq_len
        self.to_qkv = nn.Linear(feat_dim, self.n_heads * head_dim * 3)
        # Upstream: divided by the root of all channels, not of those of a head.
        self.scale_factor = feat_dim**-0.5
        self.merge = nn.Linear(head_dim * self.n_heads, feat_dim)
        self.relative_position_bias_table = nn.Parameter(torch.empty((2 * self.size - 1) ** 2, self.n_heads))
        self.register_buffer("relative_position_index", _windows.relative_position_index([self.size, self.size]))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def get_relative_positional_bias(self) -> Tensor:
        """The bias (1, heads, max_seq_len, max_seq_len)."""
        return self.relative_position_bias_table[self.relative_position_index].permute(2, 0, 1).unsqueeze(0)

    def forward(self, x: Tensor) -> Tensor:
        """Mix the positions of each group of (N, groups, max_seq_len, feat_dim)."""
        q, k, v = _windows.split_heads(self.to_qkv(x.flatten(0, 1)), self.n_heads)
        bias = self.get_relative_positional_bias()
        mixed: Tensor = self.merge(_windows.attention(q, k, v, bias, None, dropout=0.0, scale=self.scale_factor))
        return mixed.view(x.shape)


class PartitionAttentionLayer(nn.Module):
    """Attention inside windows, or across a grid whose positions are spread over the map, then a perceptron.

    Args:
        in_channels: channels.
        head_dim: channels of one head.
        partition_size: side of a window, or of the grid.
        partition_type: "window" or "grid".
        grid_size: height and width of the map, multiples of `partition_size`.
        mlp_ratio: width of the perceptron's hidden layer, in channels.
        activation_layer: makes an activation.
        norm_layer: makes a normalization of the last dimension.
        attention_dropout: probability for each element that the attention gives.
        mlp_dropout: probability for each element that the perceptron gives.
        p_stochastic_dropout: probability to drop a branch for a sample in train mode.

    Raises:
        ValueError: `partition_type` is neither of both.
    """

    def __init__(
        self,
        in_channels: int,
        head_dim: int,
        partition_size: int,
        partition_type: str,
        grid_size: tuple[int, int],
        mlp_ratio: int,
        activation_layer: Layer,
        norm_layer: Layer,
        attention_dropout: float,
        mlp_dropout: float,
        p_stochastic_dropout: float,
    ) -> None:
        super().__init__()
        if partition_type not in ("window", "grid"):
            raise ValueError(f"partition_type is {partition_type!r}, expected 'window' or 'grid'.")
        self.partition_type = partition_type
        self.grid_size = grid_size
        side = partition_size
        # A grid of G x G positions is what windows of (H / G) x (W / G) have in common.
        across = (grid_size[0] // side, grid_size[1] // side)
        self.window = (side, side) if partition_type == "window" else across
        self.attn_layer = nn.Sequential(
            norm_layer(in_channels),
            RelativePositionalMultiHeadAttention(in_channels, head_dim, side**2),
            nn.Dropout(attention_dropout),
        )
        self.mlp_layer = nn.Sequential(
            nn.LayerNorm(in_channels),
            nn.Linear(in_channels, in_channels * mlp_ratio),
            activation_layer(),
            nn.Linear(in_channels * mlp_ratio, in_channels),
            nn.Dropout(mlp_dropout),
        )
        self.stochastic_dropout = StochasticDepth(p_stochastic_dropout, mode="row")

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, H, W) to the same shape, channels_last in memory."""
        groups = _windows.partition(x.permute(0, 2, 3, 1), self.window)
        groups = groups.unflatten(0, (x.shape[0], x.shape[2] * x.shape[3] // groups.shape[1]))
        if self.partition_type == "grid":
            groups = groups.transpose(1, 2)
        groups = groups + self.stochastic_dropout(self.attn_layer(groups))
        groups = groups + self.stochastic_dropout(self.mlp_layer(groups))
        if self.partition_type == "grid":
            groups = groups.transpose(1, 2)
        merged = _windows.merge(groups.flatten(0, 1), self.window, self.grid_size)
        return merged.permute(0, 3, 1, 2)


class MaxVitLayer(nn.Module):
    """Convolution, attention inside windows, attention across the grid (figure 2 of the paper).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        squeeze_ratio: as in `MBConv`.
        expansion_ratio: as in `MBConv`.
        stride: of the convolution.
        norm_layer: makes a normalization from a number of channels.
        activation_layer: makes an activation.
        head_dim: channels of one head.
        mlp_ratio: width of the perceptrons' hidden layer, in channels.
        mlp_dropout: probability for each element that a perceptron gives.
        attention_dropout: probability for each element that an attention gives.
        p_stochastic_dropout: probability to drop a branch for a sample in train mode.
        partition_size: side of a window, and of the grid.
        grid_size: height and width of the map after the convolution.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        squeeze_ratio: float,
        expansion_ratio: float,
        stride: int,
        norm_layer: Layer,
        activation_layer: Layer,
        head_dim: int,
        mlp_ratio: int,
        mlp_dropout: float,
        attention_dropout: float,
        p_stochastic_dropout: float,
        partition_size: int,
        grid_size: tuple[int, int],
    ) -> None:
        super().__init__()
        attention = partial(
            PartitionAttentionLayer,
            in_channels=out_channels,
            head_dim=head_dim,
            partition_size=partition_size,
            grid_size=grid_size,
            mlp_ratio=mlp_ratio,
            activation_layer=activation_layer,
            norm_layer=nn.LayerNorm,
            attention_dropout=attention_dropout,
            mlp_dropout=mlp_dropout,
            p_stochastic_dropout=p_stochastic_dropout,
        )
        self.layers = nn.Sequential(
            OrderedDict[str, nn.Module](
                MBconv=MBConv(
                    in_channels,
                    out_channels,
                    expansion_ratio,
                    squeeze_ratio,
                    stride,
                    activation_layer,
                    norm_layer,
                    p_stochastic_dropout,
                ),
                window_attention=attention(partition_type="window"),
                grid_attention=attention(partition_type="grid"),
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, *grid_size)."""
        result: Tensor = self.layers(x)
        return result


class MaxVitBlock(nn.Module):
    """Layers of one resolution; the first halves what it gets.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        input_grid_size: height and width of the input.
        n_layers: number of layers.
        p_stochastic: probability to drop a branch, per layer.
        layer_options: the other arguments of `MaxVitLayer`.

    Raises:
        ValueError: `p_stochastic` does not have a value for each layer.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        input_grid_size: tuple[int, int],
        n_layers: int,
        p_stochastic: list[float],
        **layer_options: Any,
    ) -> None:
        super().__init__()
        if len(p_stochastic) != n_layers:
            raise ValueError(f"p_stochastic has {len(p_stochastic)} values, expected one per layer, {n_layers}.")
        self.grid_size = _halved(input_grid_size)
        self.layers = nn.ModuleList(
            MaxVitLayer(
                in_channels=out_channels if index else in_channels,
                out_channels=out_channels,
                stride=1 if index else 2,
                grid_size=self.grid_size,
                p_stochastic_dropout=probability,
                **layer_options,
            )
            for index, probability in enumerate(p_stochastic)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, H / 2, W / 2)."""
        for layer in self.layers:
            x = layer(x)
        return x


def _halved(size: tuple[int, int]) -> tuple[int, int]:
    """Height and width after a convolution with stride 2 that pads by one."""
    return (size[0] + 1) // 2, (size[1] + 1) // 2


class MaxVit(nn.Module):
    """A convolutional stem, four blocks, and a classifier with one hidden layer.

    Args:
        input_size: height and width of the pictures.
        stem_channels: channels of the stem.
        partition_size: side of a window and of a grid; divides the sizes of the maps of all blocks.
        block_channels: channels per block.
        block_layers: number of layers per block.
        head_dim: channels of one head of an attention.
        stochastic_depth_prob: probability to drop a branch of the last layer; it grows linearly from 0 at the first.
        norm_layer: makes a normalization from channels; batch normalization with eps 1e-3, momentum 0.01 by default.
        activation_layer: makes an activation.
        squeeze_ratio: width of the gates' hidden layer, in channels.
        expansion_ratio: channels inside a convolution, in channels.
        mlp_ratio: width of the perceptrons' hidden layer, in channels.
        mlp_dropout: probability for each element that a perceptron gives.
        attention_dropout: probability for each element that an attention gives.
        num_classes: size of the output.

    Shape:
        (N, 3, *input_size), floating point -> (N, num_classes), logits.

    Raises:
        ValueError: `partition_size` does not divide the size of a block's maps; from `forward`, pictures have another
            size than `input_size`.
    """

    def __init__(
        self,
        input_size: tuple[int, int],
        stem_channels: int,
        partition_size: int,
        block_channels: list[int],
        block_layers: list[int],
        head_dim: int,
        stochastic_depth_prob: float,
        norm_layer: Layer | None = None,
        activation_layer: Layer = nn.GELU,
        squeeze_ratio: float = 0.25,
        expansion_ratio: float = 4,
        mlp_ratio: int = 4,
        mlp_dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        norm_layer = norm_layer or partial(nn.BatchNorm2d, eps=1e-3, momentum=0.01)
        self.input_size = (input_size[0], input_size[1])
        self.partition_size = partition_size
        grid = _halved(self.input_size)
        _check_grids(grid, len(block_channels), partition_size)
        conv = partial(Conv2dNormActivation, kernel_size=3, inplace=None)
        self.stem = nn.Sequential(
            conv(3, stem_channels, stride=2, norm_layer=norm_layer, activation_layer=activation_layer, bias=False),
            conv(stem_channels, stem_channels, norm_layer=None, activation_layer=None, bias=True),
        )
        total = sum(block_layers)
        # Plain floats, not tensors: a constructor runs on the meta device too.
        probabilities = [stochastic_depth_prob * layer / max(1, total - 1) for layer in range(total)]
        self.blocks = nn.ModuleList()
        channels = stem_channels
        for width, depth in zip(block_channels, block_layers, strict=True):
            block = MaxVitBlock(
                channels,
                width,
                grid,
                depth,
                probabilities[:depth],
                squeeze_ratio=squeeze_ratio,
                expansion_ratio=expansion_ratio,
                norm_layer=norm_layer,
                activation_layer=activation_layer,
                head_dim=head_dim,
                mlp_ratio=mlp_ratio,
                mlp_dropout=mlp_dropout,
                attention_dropout=attention_dropout,
                partition_size=partition_size,
            )
            self.blocks.append(block)
            probabilities = probabilities[depth:]
            channels, grid = width, block.grid_size
        self.classifier = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.LayerNorm(channels),
            nn.Linear(channels, channels),
            nn.Tanh(),
            nn.Linear(channels, num_classes, bias=False),
        )
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, 3, *input_size) to logits (N, num_classes)."""
        _check_size(x, self.input_size)
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.classifier(x)
        return logits


@fx.wrap
def _check_size(x: Tensor, expected: tuple[int, int]) -> None:
    """One node to torch.fx, which cannot follow decisions about sizes."""
    if tuple(x.shape[-2:]) != expected:
        raise ValueError(
            f"Pictures are {tuple(x.shape[-2:])} high and wide, expected {expected}: resize them, or build the model "
            "with another input_size."
        )


def _check_grids(grid: tuple[int, int], blocks: int, partition_size: int) -> None:
    for number in range(blocks):
        grid = _halved(grid)
        if grid[0] % partition_size or grid[1] % partition_size:
            raise ValueError(
                f"The maps of block {number} are {grid[0]} x {grid[1]}, expected multiples of partition_size, "
                f"{partition_size}: choose another input_size or partition_size."
            )


@register_model(task="image-classification", tags=("imagenet",), head="classifier.5", stem="stem.0.0")
@handle_legacy_interface(weights=("pretrained", MaxVit_T_Weights.IMAGENET1K_V1))
def maxvit_t(*, weights: MaxVit_T_Weights | None = None, progress: bool = True, **kwargs: Any) -> MaxVit:
    """MaxViT tiny (Tu et al. 2022, arXiv:2204.01697, table 1).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `MaxVit`; `device` and `dtype` place the weights without a copy in between.
    """
    kwargs.setdefault("input_size", (224, 224))
    kwargs.setdefault("stochastic_depth_prob", 0.2)
    return build_classifier(
        MaxVit,
        MaxVit_T_Weights.verify(weights),
        stem_channels=64,
        partition_size=7,
        block_channels=[64, 128, 256, 512],
        block_layers=[2, 2, 5, 2],
        head_dim=32,
        progress=progress,
        **kwargs,
    )
