"""Vision Transformer: a picture is a sentence, its patches are the words.

Reading order: configuration of a convolutional stem, the perceptron, the block, the encoder, the network, the
builders, and positions for pictures of another size.

References:
    Dosovitskiy et al. 2020, An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale,
    arXiv:2010.11929.
    Xiao et al. 2021, Early Convolutions Help Transformers See Better, arXiv:2106.14881, for the convolutional stem.
    Singh et al. 2022, Revisiting Weakly Supervised Pre-Training of Visual Perception Models (SWAG), arXiv:2201.08371.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import _ovewrite_named_param, build_classifier, handle_legacy_interface
from flambeau.vision.ops.misc import MLP, Conv2dNormActivation
from flambeau.vision.weights.vision_transformer import (
    ViT_B_16_Weights,
    ViT_B_32_Weights,
    ViT_H_14_Weights,
    ViT_L_16_Weights,
    ViT_L_32_Weights,
)

__all__ = [
    "ViT_B_16_Weights",
    "ViT_B_32_Weights",
    "ViT_H_14_Weights",
    "ViT_L_16_Weights",
    "ViT_L_32_Weights",
    "VisionTransformer",
    "vit_b_16",
    "vit_b_32",
    "vit_h_14",
    "vit_l_16",
    "vit_l_32",
]

_LAYER_NORM = partial(nn.LayerNorm, eps=1e-6)


class ConvStemConfig(NamedTuple):
    """One convolution of a stem that replaces the projection of patches."""

    out_channels: int
    kernel_size: int
    stride: int
    norm_layer: Callable[..., nn.Module] = nn.BatchNorm2d
    activation_layer: Callable[..., nn.Module] = nn.ReLU


class MLPBlock(MLP):
    """Two linear layers with GELU between them.

    Args:
        in_dim: size of input and output.
        mlp_dim: size of the hidden layer.
        dropout: probability after each linear layer.
    """

    _version = 2

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__(in_dim, [mlp_dim, in_dim], activation_layer=nn.GELU, inplace=None, dropout=dropout)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.normal_(module.bias, std=1e-6)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        # Older files have the linear layers by name, newer ones by position.
        for old, new in (("linear_1", "0"), ("linear_2", "3")):
            for kind in ("weight", "bias"):
                if f"{prefix}{old}.{kind}" in state_dict:
                    state_dict[f"{prefix}{new}.{kind}"] = state_dict.pop(f"{prefix}{old}.{kind}")
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class EncoderBlock(nn.Module):
    """Self-attention, then a perceptron for each token, both after normalization and with a shortcut (equations 2, 3).

    Args:
        num_heads: of the attention.
        hidden_dim: size of a token, a multiple of `num_heads`.
        mlp_dim: size of the perceptron's hidden layer.
        dropout: probability after the attention and in the perceptron.
        attention_dropout: probability for each weight of the attention.
        norm_layer: makes a normalization of tokens.
    """

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Callable[..., nn.Module] = _LAYER_NORM,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = nn.MultiheadAttention(hidden_dim, num_heads, dropout=attention_dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, tokens, hidden_dim) to the same shape."""
        x = self.ln_1(input)
        attended, _ = self.self_attention(x, x, x, need_weights=False)
        attended = self.dropout(attended) + input
        result: Tensor = attended + self.mlp(self.ln_2(attended))
        return result


class Encoder(nn.Module):
    """Add positions to tokens, run the blocks, normalize.

    Args:
        seq_length: number of tokens, the class token included.
        num_layers: number of blocks.
        num_heads: of each block.
        hidden_dim: size of a token.
        mlp_dim: size of the hidden layer in each block.
        dropout: probability for the tokens and inside the blocks.
        attention_dropout: probability for each weight of an attention.
        norm_layer: makes a normalization of tokens.
    """

    def __init__(
        self,
        seq_length: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Callable[..., nn.Module] = _LAYER_NORM,
    ) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        layers = OrderedDict[str, nn.Module]()
        for index in range(num_layers):
            layers[f"encoder_layer_{index}"] = EncoderBlock(
                num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer
            )
        self.layers = nn.Sequential(layers)
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor, pos_embedding: Tensor | None = None) -> Tensor:
        """Map (N, tokens, hidden_dim) to the same shape; `pos_embedding` replaces the learned positions."""
        x = input + (self.pos_embedding if pos_embedding is None else pos_embedding)
        encoded: Tensor = self.ln(self.layers(self.dropout(x)))
        return encoded


@fx.wrap
def _check_size(height: int, width: int, image_size: int, patch_size: int, dynamic: bool) -> None:
    """One node to torch.fx, which cannot follow decisions about sizes."""
    if dynamic:
        if height % patch_size or width % patch_size:
            raise ValueError(f"Pictures are {height} x {width}, expected multiples of the patch size, {patch_size}.")
    elif height != image_size or width != image_size:
        raise ValueError(
            f"Pictures are {height} x {width}, expected {image_size} x {image_size}: resize them, or "
            "build the model with dynamic_img_size=True."
        )


class VisionTransformer(nn.Module):
    """Patches become tokens, a class token joins them, an encoder mixes them, and a linear layer reads the class token.

    Args:
        image_size: height and width of the pictures.
        patch_size: height and width of a patch.
        num_layers: number of blocks.
        num_heads: of each block.
        hidden_dim: size of a token.
        mlp_dim: size of the hidden layer in each block.
        dropout: probability for tokens and inside the blocks.
        attention_dropout: probability for each weight of an attention.
        num_classes: size of the output.
        representation_size: size of a hidden layer before the last one; None has none.
        norm_layer: makes a normalization of tokens.
        conv_stem_configs: convolutions that replace the projection of patches; their strides multiply to `patch_size`.
        dynamic_img_size: take pictures of other sizes too; positions are interpolated for them.

    Shape:
        (N, 3, image_size, image_size), floating point -> (N, num_classes), logits. With `dynamic_img_size`: any height
        and width that are multiples of `patch_size`.

    Raises:
        ValueError: `image_size` is no multiple of `patch_size`; from `forward`, pictures have another size.
    """

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
        representation_size: int | None = None,
        norm_layer: Callable[..., nn.Module] = _LAYER_NORM,
        conv_stem_configs: list[ConvStemConfig] | None = None,
        *,
        dynamic_img_size: bool = False,
    ) -> None:
        super().__init__()
        if image_size % patch_size != 0:
            raise ValueError(f"image_size is {image_size}, expected a multiple of patch_size, {patch_size}.")
        self.image_size = image_size
        self.patch_size = patch_size
        self.hidden_dim = hidden_dim
        self.mlp_dim = mlp_dim
        self.attention_dropout = attention_dropout
        self.dropout = dropout
        self.num_classes = num_classes
        self.representation_size = representation_size
        self.norm_layer = norm_layer
        self.dynamic_img_size = dynamic_img_size
        self.conv_proj: nn.Module
        if conv_stem_configs is None:
            self.conv_proj = _patch_projection(patch_size, hidden_dim)
        else:
            self.conv_proj = _convolutional_stem(conv_stem_configs, hidden_dim)
        self.seq_length = (image_size // patch_size) ** 2 + 1
        self.class_token = nn.Parameter(torch.zeros(1, 1, hidden_dim))
        self.encoder = Encoder(
            self.seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer
        )
        self.heads = _heads(hidden_dim, representation_size, num_classes)

    def _process_input(self, x: Tensor) -> Tensor:
        """Tokens (N, H / patch_size * W / patch_size, hidden_dim) of pictures (N, 3, H, W)."""
        _check_size(x.shape[-2], x.shape[-1], self.image_size, self.patch_size, self.dynamic_img_size)
        tokens: Tensor = self.conv_proj(x)
        return tokens.flatten(2).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, 3, H, W) to logits (N, num_classes)."""
        height, width = x.shape[-2] // self.patch_size, x.shape[-1] // self.patch_size
        tokens = self._process_input(x)
        tokens = torch.cat([self.class_token.expand(x.shape[0], -1, -1), tokens], dim=1)
        positions = None
        if self.dynamic_img_size:
            positions = _resized(self.encoder.pos_embedding, height, width)
        encoded = self.encoder(tokens, positions)
        logits: Tensor = self.heads(encoded[:, 0])
        return logits


def _patch_projection(patch_size: int, hidden_dim: int) -> nn.Conv2d:
    projection = nn.Conv2d(3, hidden_dim, kernel_size=patch_size, stride=patch_size)
    nn.init.trunc_normal_(projection.weight, std=math.sqrt(1 / (3 * patch_size**2)))
    nn.init.zeros_(projection.bias)  # type: ignore[arg-type]
    return projection


def _convolutional_stem(configs: list[ConvStemConfig], hidden_dim: int) -> nn.Sequential:
    layers = OrderedDict[str, nn.Module]()
    channels = 3
    for index, config in enumerate(configs):
        layers[f"conv_bn_relu_{index}"] = Conv2dNormActivation(
            channels,
            config.out_channels,
            kernel_size=config.kernel_size,
            stride=config.stride,
            norm_layer=config.norm_layer,
            activation_layer=config.activation_layer,
        )
        channels = config.out_channels
    last = nn.Conv2d(channels, hidden_dim, kernel_size=1)
    nn.init.normal_(last.weight, std=math.sqrt(2.0 / hidden_dim))
    nn.init.zeros_(last.bias)  # type: ignore[arg-type]
    layers["conv_last"] = last
    return nn.Sequential(layers)


def _heads(hidden_dim: int, representation_size: int | None, num_classes: int) -> nn.Sequential:
    layers = OrderedDict[str, nn.Module]()
    width = hidden_dim
    if representation_size is not None:
        hidden = nn.Linear(hidden_dim, representation_size)
        nn.init.trunc_normal_(hidden.weight, std=math.sqrt(1 / hidden_dim))
        nn.init.zeros_(hidden.bias)
        layers["pre_logits"] = hidden
        layers["act"] = nn.Tanh()
        width = representation_size
    head = nn.Linear(width, num_classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    layers["head"] = head
    return nn.Sequential(layers)


@fx.wrap
def _resized(positions: Tensor, height: int, width: int, mode: str = "bicubic") -> Tensor:
    """Positions (1, 1 + height * width, D) from (1, 1 + side * side, D); that of the class token stays."""
    side = math.isqrt(positions.shape[1] - 1)
    if (height, width) == (side, side):
        return positions
    grid = positions[:, 1:].transpose(1, 2).reshape(1, -1, side, side)
    grid = F.interpolate(grid, size=(height, width), mode=mode, align_corners=True)
    return torch.cat([positions[:, :1], grid.flatten(2).transpose(1, 2)], dim=1)


def interpolate_embeddings(
    image_size: int,
    patch_size: int,
    model_state: OrderedDict[str, Tensor],
    interpolation_mode: str = "bicubic",
    reset_heads: bool = False,
) -> OrderedDict[str, Tensor]:
    """Fit the positions in a checkpoint to pictures of another size (section 3.2 of the paper).

    Args:
        image_size: height and width of the new pictures, a multiple of `patch_size`.
        patch_size: of the model.
        model_state: state dict of a `VisionTransformer`; it is changed, unless the size is the same already.
        interpolation_mode: of `torch.nn.functional.interpolate`, with corners aligned: "bicubic", "bilinear".
        reset_heads: leave out the parameters of the heads, for a model with other classes.

    Returns:
        The state dict. Without heads it is a new one, to be loaded with `strict=False`.

    Raises:
        ValueError: the positions are not those of one square grid and a class token.

    Example:
        >>> small = dict(image_size=32, patch_size=8, num_layers=1, num_heads=2, hidden_dim=8, mlp_dim=8)
        >>> state = VisionTransformer(**small).state_dict()
        >>> larger = VisionTransformer(**{**small, "image_size": 48})
        >>> larger.load_state_dict(interpolate_embeddings(48, 8, state))
        <All keys matched successfully>
    """
    positions = model_state["encoder.pos_embedding"]
    batch, length, _ = positions.shape
    if batch != 1 or math.isqrt(length - 1) ** 2 != length - 1:
        raise ValueError(
            f"encoder.pos_embedding has shape {tuple(positions.shape)}, expected (1, 1 + side * side, D): positions of "
            "a class token and of one square grid."
        )
    side = image_size // patch_size
    if side * side + 1 == length:
        return model_state
    model_state["encoder.pos_embedding"] = _resized(positions, side, side, interpolation_mode)
    if reset_heads:
        return OrderedDict((key, value) for key, value in model_state.items() if not key.startswith("heads"))
    return model_state


def _vision_transformer(
    patch_size: int,
    num_layers: int,
    num_heads: int,
    hidden_dim: int,
    mlp_dim: int,
    weights: WeightsEnum | None,
    progress: bool,
    **kwargs: Any,
) -> VisionTransformer:
    if weights is not None:
        _ovewrite_named_param(kwargs, "image_size", weights.meta["min_size"][0])
    kwargs.setdefault("image_size", 224)
    return build_classifier(
        VisionTransformer,
        weights,
        patch_size=patch_size,
        num_layers=num_layers,
        num_heads=num_heads,
        hidden_dim=hidden_dim,
        mlp_dim=mlp_dim,
        progress=progress,
        **kwargs,
    )


@register_model(task="image-classification", tags=("imagenet",), head="heads.head", stem="conv_proj")
@handle_legacy_interface(weights=("pretrained", ViT_B_16_Weights.IMAGENET1K_V1))
def vit_b_16(*, weights: ViT_B_16_Weights | None = None, progress: bool = True, **kwargs: Any) -> VisionTransformer:
    """ViT-Base/16 (Dosovitskiy et al. 2020, arXiv:2010.11929, table 1).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `VisionTransformer`; `device` and `dtype` place the weights without a copy in between.
    """
    return _vision_transformer(16, 12, 12, 768, 3072, ViT_B_16_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="heads.head", stem="conv_proj")
@handle_legacy_interface(weights=("pretrained", ViT_B_32_Weights.IMAGENET1K_V1))
def vit_b_32(*, weights: ViT_B_32_Weights | None = None, progress: bool = True, **kwargs: Any) -> VisionTransformer:
    """ViT-Base/32 (Dosovitskiy et al. 2020, arXiv:2010.11929, table 1).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `VisionTransformer`; `device` and `dtype` place the weights without a copy in between.
    """
    return _vision_transformer(32, 12, 12, 768, 3072, ViT_B_32_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="heads.head", stem="conv_proj")
@handle_legacy_interface(weights=("pretrained", ViT_L_16_Weights.IMAGENET1K_V1))
def vit_l_16(*, weights: ViT_L_16_Weights | None = None, progress: bool = True, **kwargs: Any) -> VisionTransformer:
    """ViT-Large/16 (Dosovitskiy et al. 2020, arXiv:2010.11929, table 1).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `VisionTransformer`; `device` and `dtype` place the weights without a copy in between.
    """
    return _vision_transformer(16, 24, 16, 1024, 4096, ViT_L_16_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="heads.head", stem="conv_proj")
@handle_legacy_interface(weights=("pretrained", ViT_L_32_Weights.IMAGENET1K_V1))
def vit_l_32(*, weights: ViT_L_32_Weights | None = None, progress: bool = True, **kwargs: Any) -> VisionTransformer:
    """ViT-Large/32 (Dosovitskiy et al. 2020, arXiv:2010.11929, table 1).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `VisionTransformer`; `device` and `dtype` place the weights without a copy in between.
    """
    return _vision_transformer(32, 24, 16, 1024, 4096, ViT_L_32_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="heads.head", stem="conv_proj")
@handle_legacy_interface(weights=("pretrained", None))
def vit_h_14(*, weights: ViT_H_14_Weights | None = None, progress: bool = True, **kwargs: Any) -> VisionTransformer:
    """ViT-Huge/14 (Dosovitskiy et al. 2020, arXiv:2010.11929, table 1).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `VisionTransformer`; `device` and `dtype` place the weights without a copy in between.
    """
    return _vision_transformer(14, 32, 16, 1280, 5120, ViT_H_14_Weights.verify(weights), progress, **kwargs)
