"""LR-ASPP: segmentation for small machines, on MobileNet v3.

References:
    Howard et al. 2019, Searching for MobileNetV3, arXiv:1905.02244, section 6.4.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._stages import stage_indices
from flambeau.vision.models._utils import IntermediateLayerGetter, handle_legacy_interface
from flambeau.vision.models.mobilenetv3 import mobilenet_v3_large
from flambeau.vision.models.segmentation._utils import build_segmentation, enlarged
from flambeau.vision.weights.lraspp import LRASPP_MobileNet_V3_Large_Weights
from flambeau.vision.weights.mobilenetv3 import MobileNet_V3_Large_Weights

__all__ = ["LRASPP", "LRASPP_MobileNet_V3_Large_Weights", "lraspp_mobilenet_v3_large"]


class LRASPPHead(nn.Module):
    """Deep features, gated by what the whole picture shows, and shallow ones for the edges (figure 10 of the paper).

    Args:
        low_channels: of the shallow features.
        high_channels: of the deep features.
        num_classes: of the output.
        inter_channels: of the gated features.
    """

    def __init__(self, low_channels: int, high_channels: int, num_classes: int, inter_channels: int) -> None:
        super().__init__()
        self.cbr = nn.Sequential(
            nn.Conv2d(high_channels, inter_channels, 1, bias=False),
            nn.BatchNorm2d(inter_channels),
            nn.ReLU(inplace=True),
        )
        self.scale = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(high_channels, inter_channels, 1, bias=False), nn.Sigmoid()
        )
        self.low_classifier = nn.Conv2d(low_channels, num_classes, 1)
        self.high_classifier = nn.Conv2d(inter_channels, num_classes, 1)

    def forward(self, input: dict[str, Tensor]) -> Tensor:
        """Logits (N, num_classes, h, w) at the size of the shallow features, of features "low" and "high"."""
        low, high = input["low"], input["high"]
        gated = self.cbr(high) * self.scale(high)
        gated = F.interpolate(gated, size=low.shape[-2:], mode="bilinear", align_corners=False)
        logits: Tensor = self.low_classifier(low) + self.high_classifier(gated)
        return logits


class LRASPP(nn.Module):
    """Lite reduced atrous spatial pyramid pooling.

    Args:
        backbone: maps pictures to features `{"low": ..., "high": ...}`.
        low_channels: of the features "low".
        high_channels: of the features "high".
        num_classes: of the output.
        inter_channels: between.

    Shape:
        (N, 3, H, W) -> {"out": (N, num_classes, H, W)}.
    """

    def __init__(
        self, backbone: nn.Module, low_channels: int, high_channels: int, num_classes: int, inter_channels: int = 128
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.classifier = LRASPPHead(low_channels, high_channels, num_classes, inter_channels)

    def forward(self, input: Tensor) -> dict[str, Tensor]:
        """Logits of every pixel."""
        return {"out": enlarged(self.classifier(self.backbone(input)), input.shape[-2:])}


def _lraspp(weights_backbone: WeightsEnum | None, *, num_classes: int, progress: bool) -> LRASPP:
    features: Any = mobilenet_v3_large(weights=weights_backbone, progress=progress, dilated=True).features
    stages = stage_indices(features)
    low, high = stages[-4], stages[-1]
    backbone = IntermediateLayerGetter(features, {str(low): "low", str(high): "high"})
    return LRASPP(backbone, features[low].out_channels, features[high].out_channels, num_classes)


@register_model(
    task="semantic-segmentation",
    tags=("coco", "voc", "mobile"),
    head=("classifier.low_classifier", "classifier.high_classifier"),
    stem="backbone.0.0",
)
@handle_legacy_interface(
    weights=("pretrained", LRASPP_MobileNet_V3_Large_Weights.COCO_WITH_VOC_LABELS_V1),
    weights_backbone=("pretrained_backbone", MobileNet_V3_Large_Weights.IMAGENET1K_V1),
)
def lraspp_mobilenet_v3_large(
    *,
    weights: LRASPP_MobileNet_V3_Large_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    weights_backbone: MobileNet_V3_Large_Weights | None = MobileNet_V3_Large_Weights.IMAGENET1K_V1,
    **kwargs: Any,
) -> LRASPP:
    """LR-ASPP with a dilated MobileNet v3 Large (Howard et al. 2019, arXiv:1905.02244, section 6.4).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: of the output, background included; 21 where neither this nor weights say otherwise.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        **kwargs: `device` and `dtype` place the weights without a copy in between.

    Raises:
        NotImplementedError: `aux_loss=True`; this model has no auxiliary head.
    """
    if kwargs.pop("aux_loss", False):
        raise NotImplementedError("lraspp_mobilenet_v3_large has no auxiliary head: leave aux_loss out.")
    members = LRASPP_MobileNet_V3_Large_Weights.verify(weights), MobileNet_V3_Large_Weights.verify(weights_backbone)
    return build_segmentation(_lraspp, *members, progress=progress, num_classes=num_classes, **kwargs)
