"""SSDlite: SSD with depthwise convolutions, on a MobileNet.

References:
    Sandler et al. 2018, MobileNetV2, arXiv:1801.04381, section 6.2; Howard et al. 2019, MobileNetV3, arXiv:1905.02244,
    section 6.3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._stages import stage_indices
from flambeau.vision.models._utils import handle_legacy_interface
from flambeau.vision.models.detection._building import build_detector
from flambeau.vision.models.detection.anchor_utils import DefaultBoxGenerator
from flambeau.vision.models.detection.backbone_utils import _validate_trainable_layers, freeze_before
from flambeau.vision.models.detection.ssd import SSD, SSDScoringHead
from flambeau.vision.models.mobilenetv3 import mobilenet_v3_large
from flambeau.vision.ops.misc import Conv2dNormActivation
from flambeau.vision.weights.mobilenetv3 import MobileNet_V3_Large_Weights
from flambeau.vision.weights.ssdlite import SSDLite320_MobileNet_V3_Large_Weights

__all__ = ["SSDLite320_MobileNet_V3_Large_Weights", "ssdlite320_mobilenet_v3_large"]

Norm = Callable[..., nn.Module]


def _prediction_block(in_channels: int, out_channels: int, kernel_size: int, norm_layer: Norm) -> nn.Sequential:
    """A depthwise convolution, and a 1x1 convolution to the answers."""
    return nn.Sequential(
        Conv2dNormActivation(
            in_channels,
            in_channels,
            kernel_size=kernel_size,
            groups=in_channels,
            norm_layer=norm_layer,
            activation_layer=nn.ReLU6,
        ),
        nn.Conv2d(in_channels, out_channels, 1),
    )


def _extra_block(in_channels: int, out_channels: int, norm_layer: Norm) -> nn.Sequential:
    """A further map, at half the resolution."""
    inner = out_channels // 2
    block = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.ReLU6)
    return nn.Sequential(
        block(in_channels, inner, kernel_size=1),
        block(inner, inner, kernel_size=3, stride=2, groups=inner),
        block(inner, out_channels, kernel_size=1),
    )


def _normal_init(module: nn.Module) -> None:
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.normal_(layer.weight, mean=0.0, std=0.03)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class SSDLiteClassificationHead(SSDScoringHead):
    """Logits of classes, background first.

    Args:
        in_channels: of each map.
        num_anchors: at each position of each map.
        num_classes: background included.
        norm_layer: of the depthwise convolutions.
    """

    def __init__(self, in_channels: list[int], num_anchors: list[int], num_classes: int, norm_layer: Norm) -> None:
        layers = nn.ModuleList(
            _prediction_block(channels, num_classes * anchors, 3, norm_layer)
            for channels, anchors in zip(in_channels, num_anchors, strict=True)
        )
        _normal_init(layers)
        super().__init__(layers, num_classes)


class SSDLiteRegressionHead(SSDScoringHead):
    """Codes of boxes.

    Args:
        in_channels: of each map.
        num_anchors: at each position of each map.
        norm_layer: of the depthwise convolutions.
    """

    def __init__(self, in_channels: list[int], num_anchors: list[int], norm_layer: Norm) -> None:
        layers = nn.ModuleList(
            _prediction_block(channels, 4 * anchors, 3, norm_layer)
            for channels, anchors in zip(in_channels, num_anchors, strict=True)
        )
        _normal_init(layers)
        super().__init__(layers, 4)


class SSDLiteHead(nn.Module):
    """Both heads.

    Args:
        in_channels: of each map.
        num_anchors: at each position of each map.
        num_classes: background included.
        norm_layer: of the depthwise convolutions.
    """

    def __init__(self, in_channels: list[int], num_anchors: list[int], num_classes: int, norm_layer: Norm) -> None:
        super().__init__()
        self.classification_head = SSDLiteClassificationHead(in_channels, num_anchors, num_classes, norm_layer)
        self.regression_head = SSDLiteRegressionHead(in_channels, num_anchors, norm_layer)

    def forward(self, x: list[Tensor]) -> dict[str, Tensor]:
        """Maps -> `bbox_regression` and `cls_logits`."""
        return {"bbox_regression": self.regression_head(x), "cls_logits": self.classification_head(x)}


class SSDLiteFeatureExtractorMobileNet(nn.Module):
    """A MobileNet, and further convolutions, as six maps.

    Args:
        backbone: the layers of the MobileNet.
        c4_pos: the block that halves the resolution for the last time; the first map is what it expands to.
        norm_layer: of the further convolutions.
        width_mult: factor of their channels.
        min_depth: least number of their channels.

    Attributes:
        out_channels: of each map.
    """

    def __init__(
        self, backbone: nn.Sequential, c4_pos: int, norm_layer: Norm, width_mult: float = 1.0, min_depth: int = 16
    ) -> None:
        super().__init__()
        split: Any = backbone[c4_pos]
        if getattr(split, "use_res_connect", False):
            raise ValueError(f"Layer {c4_pos} of the backbone has a shortcut, expected one that halves the resolution.")
        layers = list(backbone)
        last: Any = layers[-1]
        self.features = nn.Sequential(
            nn.Sequential(*layers[:c4_pos], split.block[0]),
            nn.Sequential(split.block[1:], *layers[c4_pos + 1 :]),
        )
        widths = [max(min_depth, int(width * width_mult)) for width in (512, 256, 256, 128)]
        self.out_channels = [split.block[0].out_channels, last.out_channels, *widths]
        self.extra = nn.ModuleList(
            _extra_block(before, after, norm_layer)
            for before, after in zip(self.out_channels[1:-1], widths, strict=True)
        )
        _normal_init(self.extra)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Maps "0" to "5", finest first."""
        maps = []
        for part in (*self.features, *self.extra):
            x = part(x)
            maps.append(x)
        return {str(index): features for index, features in enumerate(maps)}


def _ssdlite(
    weights_backbone: WeightsEnum | None,
    *,
    is_trained: bool,
    trainable_layers: int | None,
    num_classes: int,
    progress: bool,
    norm_layer: Norm,
    **kwargs: Any,
) -> SSD:
    layers = _validate_trainable_layers(is_trained, trainable_layers, 6, 6)
    mobilenet = mobilenet_v3_large(
        weights=weights_backbone,
        progress=progress,
        norm_layer=norm_layer,
        # The reduced tail has other shapes than the pretrained network.
        reduced_tail=weights_backbone is None,
    )
    if weights_backbone is None:
        _normal_init(mobilenet)
    features: Any = mobilenet.features
    stages = stage_indices(features)
    freeze_before(features, stages, layers)
    backbone = SSDLiteFeatureExtractorMobileNet(features, stages[-2], norm_layer)
    boxes = DefaultBoxGenerator([[2, 3] for _ in range(6)], min_ratio=0.2, max_ratio=0.95)
    head = SSDLiteHead(backbone.out_channels, boxes.num_anchors_per_location(), num_classes, norm_layer)
    options = {
        "score_thresh": 0.001,
        "nms_thresh": 0.55,
        "detections_per_img": 300,
        "topk_candidates": 300,
        # Pictures in [-1, 1].
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    return SSD(backbone, boxes, (320, 320), num_classes, head=head, **{**options, **kwargs})


@register_model(
    task="object-detection",
    tags=("coco", "mobile"),
    head=tuple(f"head.classification_head.module_list.{index}.1" for index in range(6)),
    stem="backbone.features.0.0.0",
)
@handle_legacy_interface(
    weights=("pretrained", SSDLite320_MobileNet_V3_Large_Weights.COCO_V1),
    weights_backbone=("pretrained_backbone", MobileNet_V3_Large_Weights.IMAGENET1K_V1),
)
def ssdlite320_mobilenet_v3_large(
    *,
    weights: SSDLite320_MobileNet_V3_Large_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    weights_backbone: MobileNet_V3_Large_Weights | None = MobileNet_V3_Large_Weights.IMAGENET1K_V1,
    trainable_backbone_layers: int | None = None,
    norm_layer: Callable[..., nn.Module] | None = None,
    **kwargs: Any,
) -> SSD:
    """SSDlite with a MobileNet v3 Large, for pictures of 320x320 (Howard et al. 2019, arXiv:1905.02244).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: background included; 91 where neither this nor weights say otherwise.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        trainable_backbone_layers: how many of the backbone's six parts learn, from the last on; 6 by default, all
            without pretrained weights.
        norm_layer: of the whole network; None is batch normalization with an epsilon of 0.001 and a momentum of 0.03.
        **kwargs: for `SSD`; `device` and `dtype` place the weights without a copy in between.
    """
    members = SSDLite320_MobileNet_V3_Large_Weights.verify(weights), MobileNet_V3_Large_Weights.verify(weights_backbone)
    return build_detector(
        _ssdlite,
        *members,
        progress=progress,
        num_classes=num_classes,
        trainable_layers=trainable_backbone_layers,
        norm_layer=norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.03),
        **kwargs,
    )
