"""Classifiers as backbones of detectors: which of their layers learn, and the pyramid on top."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import get_model_builder, get_model_weights
from flambeau.vision.models._stages import stage_indices
from flambeau.vision.models._utils import IntermediateLayerGetter, handle_legacy_interface
from flambeau.vision.models.mobilenetv2 import MobileNetV2
from flambeau.vision.models.mobilenetv3 import MobileNetV3
from flambeau.vision.models.resnet import ResNet
from flambeau.vision.ops.feature_pyramid_network import ExtraFPNBlock, FeaturePyramidNetwork, LastLevelMaxPool
from flambeau.vision.ops.misc import FrozenBatchNorm2d

__all__ = ["BackboneWithFPN", "mobilenet_backbone", "resnet_fpn_backbone"]


class BackboneWithFPN(nn.Module):
    """A feature pyramid on some layers of a backbone.

    Args:
        backbone: its direct children run in order.
        return_layers: child -> name of its map.
        in_channels_list: channels of these maps, in their order.
        out_channels: of every map of the pyramid.
        extra_blocks: makes further levels; None adds a pooled one.
        norm_layer: of the pyramid's convolutions.

    Attributes:
        out_channels: of every map.

    Shape:
        (N, 3, H, W) -> maps (N, out_channels, H_i, W_i), finest first.
    """

    def __init__(
        self,
        backbone: nn.Module,
        return_layers: dict[str, str],
        in_channels_list: list[int],
        out_channels: int,
        extra_blocks: ExtraFPNBlock | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self.body = IntermediateLayerGetter(backbone, return_layers)
        self.fpn = FeaturePyramidNetwork(
            in_channels_list, out_channels, extra_blocks or LastLevelMaxPool(), norm_layer=norm_layer
        )
        self.out_channels = out_channels

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """The pyramid of a batch of pictures."""
        maps: dict[str, Tensor] = self.fpn(self.body(x))
        return maps


def _first_weights(keywords: dict[str, Any]) -> WeightsEnum:
    """What `pretrained=True` meant."""
    return get_model_weights(keywords["backbone_name"])["IMAGENET1K_V1"]


@handle_legacy_interface(weights=("pretrained", _first_weights))
def resnet_fpn_backbone(
    *,
    backbone_name: str,
    weights: WeightsEnum | None,
    norm_layer: Callable[..., nn.Module] = FrozenBatchNorm2d,
    trainable_layers: int = 3,
    returned_layers: list[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None,
) -> BackboneWithFPN:
    """A ResNet with a feature pyramid.

    Args:
        backbone_name: name of the builder, such as "resnet50".
        weights: of the ResNet, their name, or None.
        norm_layer: of the ResNet; frozen normalization suits the small batches of detection.
        trainable_layers: how many of its five parts learn, from the last on.
        returned_layers: stages that go into the pyramid, 1 to 4; None is all.
        extra_blocks: see `BackboneWithFPN`.

    Raises:
        ValueError: a number is out of its range.

    Example:
        >>> backbone = resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=5)
        >>> [(name, tuple(map.shape[1:])) for name, map in backbone(torch.rand(1, 3, 64, 64)).items()]
        [('0', (256, 16, 16)), ('1', (256, 8, 8)), ('2', (256, 4, 4)), ('3', (256, 2, 2)), ('pool', (256, 1, 1))]
    """
    backbone: Any = get_model_builder(backbone_name)(weights=weights, norm_layer=norm_layer)
    return _resnet_fpn_extractor(backbone, trainable_layers, returned_layers, extra_blocks)


def _resnet_fpn_extractor(
    backbone: ResNet,
    trainable_layers: int,
    returned_layers: list[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None,
    norm_layer: Callable[..., nn.Module] | None = None,
) -> BackboneWithFPN:
    """A given ResNet with a feature pyramid; see `resnet_fpn_backbone`."""
    _check_layers("trainable_layers", [trainable_layers], 0, 5)
    stages = [1, 2, 3, 4] if returned_layers is None else returned_layers
    _check_layers("returned_layers", stages, 1, 4)
    learning = ["layer4", "layer3", "layer2", "layer1", "conv1"][:trainable_layers]
    if trainable_layers == 5:
        learning.append("bn1")
    for name, parameter in backbone.named_parameters():
        if not any(name.startswith(layer) for layer in learning):
            parameter.requires_grad_(False)
    widths = [backbone.inplanes // 8 * 2 ** (stage - 1) for stage in stages]
    layers = {f"layer{stage}": str(index) for index, stage in enumerate(stages)}
    return BackboneWithFPN(backbone, layers, widths, 256, extra_blocks=extra_blocks, norm_layer=norm_layer)


def _validate_trainable_layers(
    is_trained: bool, trainable_backbone_layers: int | None, max_value: int, default_value: int
) -> int:
    """How many parts of a backbone learn: the number asked for, or the default; all of an untrained one.

    Raises:
        ValueError: it is not between 0 and `max_value`.
    """
    if not is_trained:
        if trainable_backbone_layers is not None:
            warnings.warn(
                f"trainable_backbone_layers={trainable_backbone_layers} has no effect without pretrained weights: "
                f"all {max_value} parts of the backbone are trained.",
                stacklevel=3,
            )
        return max_value
    layers = default_value if trainable_backbone_layers is None else trainable_backbone_layers
    _check_layers("trainable_backbone_layers", [layers], 0, max_value)
    return layers


@handle_legacy_interface(weights=("pretrained", _first_weights))
def mobilenet_backbone(
    *,
    backbone_name: str,
    weights: WeightsEnum | None,
    fpn: bool,
    norm_layer: Callable[..., nn.Module] = FrozenBatchNorm2d,
    trainable_layers: int = 2,
    returned_layers: list[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None,
) -> nn.Module:
    """A MobileNet v2 or v3, with a feature pyramid or one convolution on top.

    Args:
        backbone_name: name of the builder, such as "mobilenet_v3_large".
        weights: of the MobileNet, their name, or None.
        fpn: True for a pyramid; False for a single map of 256 channels.
        norm_layer: of the MobileNet.
        trainable_layers: how many of its six parts learn, from the last on.
        returned_layers: parts that go into the pyramid, counted from 0; None is the last two.
        extra_blocks: see `BackboneWithFPN`.

    Raises:
        ValueError: a number is out of its range.
    """
    backbone: Any = get_model_builder(backbone_name)(weights=weights, norm_layer=norm_layer)
    return _mobilenet_extractor(backbone, fpn, trainable_layers, returned_layers, extra_blocks)


def _mobilenet_extractor(
    backbone: MobileNetV2 | MobileNetV3,
    fpn: bool,
    trainable_layers: int,
    returned_layers: list[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None,
    norm_layer: Callable[..., nn.Module] | None = None,
) -> nn.Module:
    """A given MobileNet as a backbone; see `mobilenet_backbone`."""
    features: Any = backbone.features
    stages = stage_indices(features)
    freeze_before(features, stages, trainable_layers)
    if not fpn:
        single = nn.Sequential(features, nn.Conv2d(features[-1].out_channels, 256, 1))
        single.out_channels = 256  # type: ignore[assignment]
        return single
    last = len(stages) - 1
    parts = [last - 1, last] if returned_layers is None else returned_layers
    _check_layers("returned_layers", parts, 0, last)
    layers = {str(stages[part]): str(index) for index, part in enumerate(parts)}
    widths = [features[stages[part]].out_channels for part in parts]
    return BackboneWithFPN(features, layers, widths, 256, extra_blocks=extra_blocks, norm_layer=norm_layer)


def freeze_before(features: nn.Sequential, stages: list[int], trainable_layers: int) -> None:
    """Keep the layers before the last `trainable_layers` stages, which begin at `stages`, from learning.

    Raises:
        ValueError: there are not so many stages.
    """
    _check_layers("trainable_layers", [trainable_layers], 0, len(stages))
    first = len(features) if trainable_layers == 0 else stages[len(stages) - trainable_layers]
    for index in range(first):
        features[index].requires_grad_(False)


def _check_layers(name: str, values: list[int], least: int, most: int) -> None:
    if any(not least <= value <= most for value in values):
        raise ValueError(f"{name} is {values if len(values) > 1 else values[0]}, expected {least} to {most}.")
