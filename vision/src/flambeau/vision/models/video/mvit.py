"""Multiscale Vision Transformers: attention whose queries, keys and values are pooled, so that tokens become fewer.

Reading order: configuration of a block, pooling, relative positions, attention, the block, positions, the network, the
architectures, the builders. Tokens are (N, 1 + T * H * W, C), the class token first.

References:
    Fan et al. 2021, Multiscale Vision Transformers, arXiv:2104.11227.
    Li et al. 2021, MViTv2: Improved Multiscale Vision Transformers for Classification and Detection, arXiv:2112.01526.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import _ovewrite_named_param, build_classifier, handle_legacy_interface
from flambeau.vision.ops.misc import MLP
from flambeau.vision.ops.stochastic_depth import StochasticDepth
from flambeau.vision.weights.mvit import MViT_V1_B_Weights, MViT_V2_S_Weights

__all__ = ["MViT", "MViT_V1_B_Weights", "MViT_V2_S_Weights", "mvit_v1_b", "mvit_v2_s"]

Layer = Callable[..., nn.Module]
Sizes = tuple[int, int, int]


@dataclass
class MSBlockConfig:
    """One block: heads, channels, and kernels and strides of pooling in (time, height, width); empty for none."""

    num_heads: int
    input_channels: int
    output_channels: int
    kernel_q: list[int]
    kernel_kv: list[int]
    stride_q: list[int]
    stride_kv: list[int]


@fx.wrap
def _as_maps(tokens: Tensor, thw: Sizes) -> Tensor:
    """Maps (N, C, T, H, W) of tokens (..., T * H * W, C)."""
    return tokens.transpose(-1, -2).reshape(math.prod(tokens.shape[:-2]), tokens.shape[-1], *thw)


@fx.wrap
def _as_tokens(maps: Tensor, shape: Sequence[int]) -> Tensor:
    """Tokens (..., T * H * W, C) of maps, with the outer dimensions of the tokens' former shape."""
    return maps.reshape(*shape[:-2], shape[-1], math.prod(maps.shape[2:])).transpose(-1, -2)


class Pool(nn.Module):
    """Pool all tokens but the class token as a map of time and space, then normalize.

    Args:
        pool: maps (N, C, T, H, W) to smaller sizes.
        norm: of the tokens, or None.
    """

    def __init__(self, pool: nn.Module, norm: nn.Module | None) -> None:
        super().__init__()
        self.pool = pool
        self.norm_act = None if norm is None else nn.Sequential(norm)

    def forward(self, x: Tensor, thw: Sizes) -> tuple[Tensor, Sizes]:
        """Map (..., 1 + T * H * W, C) to fewer tokens; returns their sizes too."""
        class_token, tokens = x[..., :1, :], x[..., 1:, :]
        pooled = self.pool(_as_maps(tokens, thw))
        time, height, width = pooled.shape[2:]
        tokens = _as_tokens(pooled, x.shape)
        out = torch.cat([class_token, tokens], dim=-2)
        return (out if self.norm_act is None else self.norm_act(out)), (time, height, width)


def _for_differences(table: Tensor, queries: int, keys: int) -> Tensor:
    """Rows (queries, keys, D) of a table with one row per difference of positions, for maps that differ in scale."""
    differences = 2 * max(queries, keys) - 1
    if table.shape[0] != differences:
        table = F.interpolate(table.t().unsqueeze(0), size=differences, mode="linear").squeeze(0).t()
    along_q = torch.arange(queries, device=table.device)[:, None] * max(keys / queries, 1.0)
    along_k = (keys - 1 - torch.arange(keys, device=table.device)[None, :]) * max(queries / keys, 1.0)
    return table[(along_q + along_k).long()]


@fx.wrap
def _relative_biases(
    q: Tensor, table_t: Tensor, table_h: Tensor, table_w: Tensor, q_thw: Sizes, k_thw: Sizes
) -> Tensor:
    """Biases (N, heads, queries, keys) that depend on the query and its distance to the key in each direction."""
    maps = q[:, :, 1:].reshape(*q.shape[:2], *q_thw, q.shape[-1])
    t, h, w = (_for_differences(*sizes) for sizes in zip((table_t, table_h, table_w), q_thw, k_thw, strict=True))
    bias = (
        torch.einsum("bythwc,tkc->bythwk", maps, t)[..., :, None, None]
        + torch.einsum("bythwc,hkc->bythwk", maps, h)[..., None, :, None]
        + torch.einsum("bythwc,wkc->bythwk", maps, w)[..., None, None, :]
    )
    return F.pad(bias.reshape(*q.shape[:2], math.prod(q_thw), math.prod(k_thw)), [1, 0, 1, 0])


class MultiscaleAttention(nn.Module):
    """Attention among pooled tokens (section 3.1 of the first paper; 4.1 of the second one for the rest).

    Args:
        input_size: time, height and width of the tokens that come in.
        embed_dim: size of a token that comes in.
        output_dim: size of a token that goes out, a multiple of `num_heads`.
        num_heads: of the attention.
        kernel_q: of pooling queries; empty for none.
        kernel_kv: of pooling keys and values.
        stride_q: of pooling queries.
        stride_kv: of pooling keys and values.
        residual_pool: add the pooled queries to the result.
        residual_with_cls_embed: add that of the class token too.
        rel_pos_embed: add biases that depend on the query and its distance to the key along each direction.
        dropout: probability for each element of the output.
        norm_layer: makes a normalization of tokens.
    """

    def __init__(
        self,
        input_size: list[int],
        embed_dim: int,
        output_dim: int,
        num_heads: int,
        kernel_q: list[int],
        kernel_kv: list[int],
        stride_q: list[int],
        stride_kv: list[int],
        residual_pool: bool,
        residual_with_cls_embed: bool,
        rel_pos_embed: bool,
        dropout: float = 0.0,
        norm_layer: Layer = nn.LayerNorm,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = output_dim // num_heads
        self.residual_pool = residual_pool
        self.residual_with_cls_embed = residual_with_cls_embed
        self.qkv = nn.Linear(embed_dim, 3 * output_dim)
        project: list[nn.Module] = [nn.Linear(output_dim, output_dim)]
        if dropout > 0.0:
            project.append(nn.Dropout(dropout, inplace=True))
        self.project = nn.Sequential(*project)
        self.pool_q = self._pooling(kernel_q, stride_q, norm_layer)
        self.pool_k = self._pooling(kernel_kv, stride_kv, norm_layer)
        self.pool_v = self._pooling(kernel_kv, stride_kv, norm_layer)
        self.rel_pos_h: nn.Parameter | None = None
        self.rel_pos_w: nn.Parameter | None = None
        self.rel_pos_t: nn.Parameter | None = None
        if rel_pos_embed:
            side = max(input_size[1:])
            larger = max(side // stride[1] if stride else side for stride in (stride_q, stride_kv))
            self.rel_pos_h = self._positions(2 * larger - 1)
            self.rel_pos_w = self._positions(2 * larger - 1)
            self.rel_pos_t = self._positions(2 * input_size[0] - 1)

    def _pooling(self, kernel: list[int], stride: list[int], norm_layer: Layer) -> Pool | None:
        if math.prod(kernel) <= 1 and math.prod(stride) <= 1:
            return None
        convolution = nn.Conv3d(
            self.head_dim,
            self.head_dim,
            (kernel[0], kernel[1], kernel[2]),
            stride=(stride[0], stride[1], stride[2]),
            padding=(kernel[0] // 2, kernel[1] // 2, kernel[2] // 2),
            groups=self.head_dim,
            bias=False,
        )
        return Pool(convolution, norm_layer(self.head_dim))

    def _positions(self, differences: int) -> nn.Parameter:
        table = nn.Parameter(torch.zeros(differences, self.head_dim))
        nn.init.trunc_normal_(table, std=0.02)
        return table

    def _relative(self, q: Tensor, q_thw: Sizes, k_thw: Sizes) -> Tensor | None:
        """Biases (N, heads, queries, keys), zero for the class token; None without relative positions."""
        if self.rel_pos_t is None or self.rel_pos_h is None or self.rel_pos_w is None:
            return None
        return _relative_biases(q, self.rel_pos_t, self.rel_pos_h, self.rel_pos_w, q_thw, k_thw)

    def forward(self, x: Tensor, thw: Sizes) -> tuple[Tensor, Sizes]:
        """Map (N, 1 + T * H * W, embed_dim) to as many tokens as there are pooled queries; returns their sizes too."""
        batch, length, _ = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        k_thw, q_thw = thw, thw
        if self.pool_k is not None:
            k, k_thw = self.pool_k(k, thw)
        if self.pool_v is not None:
            v, _ = self.pool_v(v, thw)
        if self.pool_q is not None:
            q, q_thw = self.pool_q(q, thw)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=self._relative(q, q_thw, k_thw))
        if self.residual_pool:
            if self.residual_with_cls_embed:
                out = out + q
            else:
                out = torch.cat([out[:, :, :1], out[:, :, 1:] + q[:, :, 1:]], dim=2)
        return self.project(out.transpose(1, 2).flatten(2)), q_thw


class MultiscaleBlock(nn.Module):
    """Attention with pooling, then a perceptron, both after normalization and with a shortcut that is pooled as well.

    Args:
        input_size: time, height and width of the tokens that come in.
        cnf: the block's configuration.
        residual_pool: as in `MultiscaleAttention`.
        residual_with_cls_embed: as in `MultiscaleAttention`.
        rel_pos_embed: as in `MultiscaleAttention`.
        proj_after_attn: widen tokens in the attention, not in the perceptron.
        dropout: probability after attention and in the perceptron.
        stochastic_depth_prob: probability to drop a branch for a sample in train mode.
        norm_layer: makes a normalization of tokens.
    """

    def __init__(
        self,
        input_size: list[int],
        cnf: MSBlockConfig,
        residual_pool: bool,
        residual_with_cls_embed: bool,
        rel_pos_embed: bool,
        proj_after_attn: bool,
        dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        norm_layer: Layer = nn.LayerNorm,
    ) -> None:
        super().__init__()
        self.proj_after_attn = proj_after_attn
        self.pool_skip: Pool | None = None
        if math.prod(cnf.stride_q) > 1:
            kernel = [step + 1 if step > 1 else step for step in cnf.stride_q]
            pooling = nn.MaxPool3d(
                (kernel[0], kernel[1], kernel[2]),
                stride=(cnf.stride_q[0], cnf.stride_q[1], cnf.stride_q[2]),
                padding=(kernel[0] // 2, kernel[1] // 2, kernel[2] // 2),
            )
            self.pool_skip = Pool(pooling, None)
        attended = cnf.output_channels if proj_after_attn else cnf.input_channels
        self.norm1 = norm_layer(cnf.input_channels)
        self.norm2 = norm_layer(attended)
        self.attn = MultiscaleAttention(
            input_size,
            cnf.input_channels,
            attended,
            cnf.num_heads,
            kernel_q=cnf.kernel_q,
            kernel_kv=cnf.kernel_kv,
            stride_q=cnf.stride_q,
            stride_kv=cnf.stride_kv,
            residual_pool=residual_pool,
            residual_with_cls_embed=residual_with_cls_embed,
            rel_pos_embed=rel_pos_embed,
            dropout=dropout,
            norm_layer=norm_layer,
        )
        self.mlp = MLP(
            attended, [4 * attended, cnf.output_channels], activation_layer=nn.GELU, inplace=None, dropout=dropout
        )
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.project: nn.Module | None = None
        if cnf.input_channels != cnf.output_channels:
            self.project = nn.Linear(cnf.input_channels, cnf.output_channels)

    def forward(self, x: Tensor, thw: Sizes) -> tuple[Tensor, Sizes]:
        """Map (N, 1 + T * H * W, input_channels) to the block's channels; returns the new sizes too."""
        normalized = self.norm1(x)
        attended, new_thw = self.attn(normalized, thw)
        if self.project is not None and self.proj_after_attn:
            x = self.project(normalized)
        if self.pool_skip is not None:
            x, _ = self.pool_skip(x, thw)
        x = x + self.stochastic_depth(attended)
        normalized = self.norm2(x)
        if self.project is not None and not self.proj_after_attn:
            x = self.project(normalized)
        return x + self.stochastic_depth(self.mlp(normalized)), new_thw


class PositionalEncoding(nn.Module):
    """Put the class token in front, and add positions in space and in time unless attention has relative ones.

    Args:
        embed_size: size of a token.
        spatial_size: height and width of the tokens.
        temporal_size: number of tokens in time.
        rel_pos_embed: leave positions to the attention.
    """

    def __init__(self, embed_size: int, spatial_size: tuple[int, int], temporal_size: int, rel_pos_embed: bool) -> None:
        super().__init__()
        self.spatial_size = spatial_size
        self.temporal_size = temporal_size
        self.class_token = nn.Parameter(torch.zeros(embed_size))
        self.spatial_pos: nn.Parameter | None = None
        self.temporal_pos: nn.Parameter | None = None
        self.class_pos: nn.Parameter | None = None
        if not rel_pos_embed:
            self.spatial_pos = nn.Parameter(torch.zeros(math.prod(spatial_size), embed_size))
            self.temporal_pos = nn.Parameter(torch.zeros(temporal_size, embed_size))
            self.class_pos = nn.Parameter(torch.zeros(embed_size))
        for parameter in self.parameters():
            nn.init.trunc_normal_(parameter, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, T * H * W, embed_size) to (N, 1 + T * H * W, embed_size)."""
        x = torch.cat([self.class_token.expand(x.shape[0], 1, -1), x], dim=1)
        if self.spatial_pos is None or self.temporal_pos is None or self.class_pos is None:
            return x
        positions = (self.temporal_pos[:, None] + self.spatial_pos).flatten(0, 1)
        return x + torch.cat([self.class_pos.unsqueeze(0), positions])


@fx.wrap
def _check_size(x: Tensor, expected: Sizes) -> None:
    """One node to torch.fx, which cannot follow decisions about sizes."""
    if tuple(x.shape[2:]) != expected:
        raise ValueError(
            f"Videos have time, height and width {tuple(x.shape[2:])}, expected {expected}: cut and resize them, or "
            "build the model with another temporal_size and spatial_size."
        )


class MViT(nn.Module):
    """Overlapping patches become tokens, blocks make them fewer and wider, a linear layer reads the class token.

    Args:
        spatial_size: height and width of the videos.
        temporal_size: number of frames.
        block_setting: one configuration per block.
        residual_pool: add pooled queries to what attention gives.
        residual_with_cls_embed: add that of the class token too.
        rel_pos_embed: positions are relative, in each attention, and not added to the tokens.
        proj_after_attn: widen tokens in the attention, not in the perceptron.
        dropout: probability before the last layer.
        attention_dropout: probability after attention and in the perceptrons.
        stochastic_depth_prob: probability to drop a branch of the last block; it grows linearly from 0 at the first.
        num_classes: size of the output.
        block: makes a block; `MultiscaleBlock` by default.
        norm_layer: makes a normalization of tokens; layer normalization with eps 1e-6 by default.
        patch_embed_kernel: time, height and width of a patch.
        patch_embed_stride: from one patch to the next.
        patch_embed_padding: around the video.

    Shape:
        (N, 3, temporal_size, *spatial_size), floating point -> (N, num_classes), logits.

    Raises:
        ValueError: `block_setting` is empty; from `forward`, videos have another size.
    """

    def __init__(
        self,
        spatial_size: tuple[int, int],
        temporal_size: int,
        block_setting: Sequence[MSBlockConfig],
        residual_pool: bool,
        residual_with_cls_embed: bool,
        rel_pos_embed: bool,
        proj_after_attn: bool,
        dropout: float = 0.5,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        num_classes: int = 400,
        block: Layer | None = None,
        norm_layer: Layer | None = None,
        patch_embed_kernel: tuple[int, int, int] = (3, 7, 7),
        patch_embed_stride: tuple[int, int, int] = (2, 4, 4),
        patch_embed_padding: tuple[int, int, int] = (1, 3, 3),
    ) -> None:
        super().__init__()
        if not block_setting:
            raise ValueError("block_setting is empty, expected one MSBlockConfig per block.")
        block = block or MultiscaleBlock
        norm_layer = norm_layer or partial(nn.LayerNorm, eps=1e-6)
        self.video_size = (temporal_size, *spatial_size)
        self.conv_proj = nn.Conv3d(
            3,
            block_setting[0].input_channels,
            kernel_size=patch_embed_kernel,
            stride=patch_embed_stride,
            padding=patch_embed_padding,
        )
        sizes = [size // step for size, step in zip(self.video_size, patch_embed_stride, strict=True)]
        self.pos_encoding = PositionalEncoding(
            block_setting[0].input_channels, (sizes[1], sizes[2]), sizes[0], rel_pos_embed
        )
        self.blocks = nn.ModuleList()
        for index, cnf in enumerate(block_setting):
            self.blocks.append(
                block(
                    input_size=sizes,
                    cnf=cnf,
                    residual_pool=residual_pool,
                    residual_with_cls_embed=residual_with_cls_embed,
                    rel_pos_embed=rel_pos_embed,
                    proj_after_attn=proj_after_attn,
                    dropout=attention_dropout,
                    stochastic_depth_prob=stochastic_depth_prob * index / max(1, len(block_setting) - 1),
                    norm_layer=norm_layer,
                )
            )
            if cnf.stride_q:
                sizes = [size // step for size, step in zip(sizes, cnf.stride_q, strict=True)]
        self.norm = norm_layer(block_setting[-1].output_channels)
        self.head = nn.Sequential(
            nn.Dropout(dropout, inplace=True), nn.Linear(block_setting[-1].output_channels, num_classes)
        )
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map videos (N, 3, T, H, W) to logits (N, num_classes)."""
        _check_size(x, self.video_size)
        x = self.pos_encoding(self.conv_proj(x).flatten(2).transpose(1, 2))
        thw = (self.pos_encoding.temporal_size, *self.pos_encoding.spatial_size)
        for block in self.blocks:
            x, thw = block(x, thw)
        logits: Tensor = self.head(self.norm(x)[:, 0])
        return logits


_HALVE, _KEEP, _KERNEL = [1, 2, 2], [1, 1, 1], [3, 3, 3]
_HEADS = [1, 2, 2, *[4] * 11, 8, 8]
_STRIDES_KV = [[1, 8, 8], [1, 4, 4], [1, 4, 4], *[[1, 2, 2]] * 11, _KEEP, _KEEP]
_HALVING = (1, 3, 14)  # the blocks that make tokens fewer


def _first_version() -> list[MSBlockConfig]:
    """Blocks of MViT-B (table 2 of the first paper): queries are pooled where tokens become fewer, and only there."""
    widths = [96, 192, 192, *[384] * 11, 768, 768, 768]
    return [
        MSBlockConfig(
            num_heads=_HEADS[index],
            input_channels=widths[index],
            output_channels=widths[index + 1],
            kernel_q=_KERNEL if index in _HALVING else [],
            kernel_kv=_KERNEL,
            stride_q=_HALVE if index in _HALVING else [],
            stride_kv=_STRIDES_KV[index],
        )
        for index in range(16)
    ]


def _second_version() -> list[MSBlockConfig]:
    """Blocks of MViTv2-S (table 1 of the second paper): queries are pooled everywhere."""
    widths = [96, 96, 192, 192, *[384] * 11, 768, 768]
    return [
        MSBlockConfig(
            num_heads=_HEADS[index],
            input_channels=widths[index],
            output_channels=widths[index + 1],
            kernel_q=_KERNEL,
            kernel_kv=_KERNEL,
            stride_q=_HALVE if index in _HALVING else _KEEP,
            stride_kv=_STRIDES_KV[index],
        )
        for index in range(16)
    ]


def _mvit(
    block_setting: list[MSBlockConfig], second: bool, weights: WeightsEnum | None, progress: bool, **kwargs: Any
) -> MViT:
    if weights is not None:
        _ovewrite_named_param(kwargs, "spatial_size", weights.meta["min_size"])
        _ovewrite_named_param(kwargs, "temporal_size", weights.meta["min_temporal_size"])
    defaults = {
        "spatial_size": (224, 224),
        "temporal_size": 16,
        "residual_pool": second,
        "residual_with_cls_embed": False,
        "rel_pos_embed": second,
        "proj_after_attn": second,
        "stochastic_depth_prob": 0.2,
    }
    return build_classifier(MViT, weights, block_setting=block_setting, progress=progress, **{**defaults, **kwargs})


@register_model(task="video-classification", tags=("kinetics",), head="head.1", stem="conv_proj")
@handle_legacy_interface(weights=("pretrained", MViT_V1_B_Weights.KINETICS400_V1))
def mvit_v1_b(*, weights: MViT_V1_B_Weights | None = None, progress: bool = True, **kwargs: Any) -> MViT:
    """MViT-B, for 16 frames (Fan et al. 2021, arXiv:2104.11227, table 2).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `MViT`; `device` and `dtype` place the weights without a copy in between.
    """
    return _mvit(_first_version(), False, MViT_V1_B_Weights.verify(weights), progress, **kwargs)


@register_model(task="video-classification", tags=("kinetics",), head="head.1", stem="conv_proj")
@handle_legacy_interface(weights=("pretrained", MViT_V2_S_Weights.KINETICS400_V1))
def mvit_v2_s(*, weights: MViT_V2_S_Weights | None = None, progress: bool = True, **kwargs: Any) -> MViT:
    """MViTv2-S, for 16 frames (Li et al. 2021, arXiv:2112.01526, table 1).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `MViT`; `device` and `dtype` place the weights without a copy in between.
    """
    return _mvit(_second_version(), True, MViT_V2_S_Weights.verify(weights), progress, **kwargs)
