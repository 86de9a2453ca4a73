"""Faster R-CNN: proposals from a network that shares its features with the heads that classify them.

Reading order: heads, the detector, how its parts are put together, the builders.

References:
    Ren et al. 2015, Faster R-CNN, arXiv:1506.01497; Lin et al. 2016, Feature Pyramid Networks, arXiv:1612.03144;
    Li et al. 2021, Benchmarking Detection Transfer Learning with Vision Transformers, arXiv:2111.11429 (the "v2").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import handle_legacy_interface
from flambeau.vision.models.detection._building import build_detector, normalization
from flambeau.vision.models.detection.anchor_utils import AnchorGenerator
from flambeau.vision.models.detection.backbone_utils import (
    _mobilenet_extractor,
    _resnet_fpn_extractor,
    _validate_trainable_layers,
)
from flambeau.vision.models.detection.generalized_rcnn import GeneralizedRCNN
from flambeau.vision.models.detection.roi_heads import RoIHeads
from flambeau.vision.models.detection.rpn import RegionProposalNetwork, RPNHead
from flambeau.vision.models.detection.transform import GeneralizedRCNNTransform
from flambeau.vision.models.mobilenetv3 import mobilenet_v3_large
from flambeau.vision.models.resnet import resnet50
from flambeau.vision.ops.misc import Conv2dNormActivation
from flambeau.vision.ops.poolers import MultiScaleRoIAlign
from flambeau.vision.weights.faster_rcnn import (
    FasterRCNN_MobileNet_V3_Large_320_FPN_Weights,
    FasterRCNN_MobileNet_V3_Large_FPN_Weights,
    FasterRCNN_ResNet50_FPN_V2_Weights,
    FasterRCNN_ResNet50_FPN_Weights,
)
from flambeau.vision.weights.mobilenetv3 import MobileNet_V3_Large_Weights
from flambeau.vision.weights.resnet import ResNet50_Weights

__all__ = [
    "FasterRCNN",
    "FasterRCNN_MobileNet_V3_Large_320_FPN_Weights",
    "FasterRCNN_MobileNet_V3_Large_FPN_Weights",
    "FasterRCNN_ResNet50_FPN_V2_Weights",
    "FasterRCNN_ResNet50_FPN_Weights",
    "fasterrcnn_mobilenet_v3_large_320_fpn",
    "fasterrcnn_mobilenet_v3_large_fpn",
    "fasterrcnn_resnet50_fpn",
    "fasterrcnn_resnet50_fpn_v2",
]


class TwoMLPHead(nn.Module):
    """Two linear layers with ReLU on pooled features: (N, C, H, W) -> (N, representation_size).

    Args:
        in_channels: C * H * W.
        representation_size: of both layers.
    """

    def __init__(self, in_channels: int, representation_size: int) -> None:
        super().__init__()
        self.fc6 = nn.Linear(in_channels, representation_size)
        self.fc7 = nn.Linear(representation_size, representation_size)

    def forward(self, x: Tensor) -> Tensor:
        """A vector for every proposal."""
        return F.relu(self.fc7(F.relu(self.fc6(x.flatten(start_dim=1)))))


class FastRCNNConvFCHead(nn.Sequential):
    """3x3 convolutions, then linear layers, on pooled features: (N, C, H, W) -> (N, fc_layers[-1]).

    Args:
        input_size: (C, H, W).
        conv_layers: channels of the convolutions.
        fc_layers: sizes of the linear layers.
        norm_layer: of the convolutions.
    """

    def __init__(
        self,
        input_size: tuple[int, int, int],
        conv_layers: list[int],
        fc_layers: list[int],
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        channels, height, width = input_size
        layers: list[nn.Module] = []
        for out_channels in conv_layers:
            layers.append(Conv2dNormActivation(channels, out_channels, norm_layer=norm_layer))
            channels = out_channels
        layers.append(nn.Flatten())
        features = channels * height * width
        for out_features in fc_layers:
            layers += [nn.Linear(features, out_features), nn.ReLU(inplace=True)]
            features = out_features
        super().__init__(*layers)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)


class FastRCNNPredictor(nn.Module):
    """Logits of classes, and codes of a box for each: (N, in_channels) -> (N, classes), (N, 4 * classes).

    Args:
        in_channels: size of the vectors.
        num_classes: background included.
    """

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.cls_score = nn.Linear(in_channels, num_classes)
        self.bbox_pred = nn.Linear(in_channels, num_classes * 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Answers for every proposal; maps of one pixel are accepted too.

        Raises:
            ValueError: a map has more than one pixel.
        """
        if x.dim() == 4 and tuple(x.shape[2:]) != (1, 1):
            raise ValueError(f"FastRCNNPredictor: x has shape {tuple(x.shape)}, expected (N, C) or (N, C, 1, 1).")
        x = x.flatten(start_dim=1)
        return self.cls_score(x), self.bbox_pred(x)


def _default_anchorgen() -> AnchorGenerator:
    """One size and three ratios for each of the five levels."""
    return AnchorGenerator(((32,), (64,), (128,), (256,), (512,)), ((0.5, 1.0, 2.0),) * 5)


class FasterRCNN(GeneralizedRCNN):
    """Faster R-CNN on any backbone; see the base class for inputs and outputs.

    Args:
        backbone: maps pictures to a map or a dict of maps of `backbone.out_channels` channels each.
        num_classes: background included; None where `box_predictor` is given.
        min_size: of the shorter side of pictures; see `GeneralizedRCNNTransform`.
        max_size: of the longer side.
        image_mean: of the pictures the backbone was trained with; None is ImageNet's.
        image_std: likewise.
        rpn_anchor_generator: None is one for pyramids of five levels.
        rpn_head: None is an `RPNHead`.
        rpn_pre_nms_top_n_train: see `RegionProposalNetwork`, in training.
        rpn_pre_nms_top_n_test: the same in evaluation.
        rpn_post_nms_top_n_train: see there, in training.
        rpn_post_nms_top_n_test: the same in evaluation.
        rpn_nms_thresh: see there.
        rpn_fg_iou_thresh: see there.
        rpn_bg_iou_thresh: see there.
        rpn_batch_size_per_image: see there.
        rpn_positive_fraction: see there.
        rpn_score_thresh: see there.
        box_roi_pool: None pools 7x7 from the maps "0" to "3".
        box_head: None is a `TwoMLPHead` of 1024.
        box_predictor: None is a `FastRCNNPredictor`.
        box_score_thresh: see `RoIHeads`.
        box_nms_thresh: see there.
        box_detections_per_img: see there.
        box_fg_iou_thresh: see there.
        box_bg_iou_thresh: see there.
        box_batch_size_per_image: see there.
        box_positive_fraction: see there.
        bbox_reg_weights: see there.
        **kwargs: for `GeneralizedRCNNTransform`.

    Raises:
        ValueError: the backbone has no `out_channels`, or there is none or more than one of `num_classes` and
            `box_predictor`.
        TypeError: an anchor generator or a pooling is of another class.
    """

    def __init__(
        self,
        backbone: nn.Module,
        num_classes: int | None = None,
        min_size: int | tuple[int, ...] = 800,
        max_size: int = 1333,
        image_mean: list[float] | None = None,
        image_std: list[float] | None = None,
        rpn_anchor_generator: AnchorGenerator | None = None,
        rpn_head: nn.Module | None = None,
        rpn_pre_nms_top_n_train: int = 2000,
        rpn_pre_nms_top_n_test: int = 1000,
        rpn_post_nms_top_n_train: int = 2000,
        rpn_post_nms_top_n_test: int = 1000,
        rpn_nms_thresh: float = 0.7,
        rpn_fg_iou_thresh: float = 0.7,
        rpn_bg_iou_thresh: float = 0.3,
        rpn_batch_size_per_image: int = 256,
        rpn_positive_fraction: float = 0.5,
        rpn_score_thresh: float = 0.0,
        box_roi_pool: nn.Module | None = None,
        box_head: nn.Module | None = None,
        box_predictor: nn.Module | None = None,
        box_score_thresh: float = 0.05,
        box_nms_thresh: float = 0.5,
        box_detections_per_img: int = 100,
        box_fg_iou_thresh: float = 0.5,
        box_bg_iou_thresh: float = 0.5,
        box_batch_size_per_image: int = 512,
        box_positive_fraction: float = 0.25,
        bbox_reg_weights: tuple[float, float, float, float] | None = None,
        **kwargs: Any,
    ) -> None:
        out_channels = channels_of(backbone)
        check_kind("rpn_anchor_generator", rpn_anchor_generator, AnchorGenerator)
        check_kind("box_roi_pool", box_roi_pool, MultiScaleRoIAlign)
        check_one_of(num_classes=num_classes, box_predictor=box_predictor)
        anchors = rpn_anchor_generator or _default_anchorgen()
        rpn = RegionProposalNetwork(
            anchors,
            rpn_head or RPNHead(out_channels, anchors.num_anchors_per_location()[0]),
            rpn_fg_iou_thresh,
            rpn_bg_iou_thresh,
            rpn_batch_size_per_image,
            rpn_positive_fraction,
            {"training": rpn_pre_nms_top_n_train, "testing": rpn_pre_nms_top_n_test},
            {"training": rpn_post_nms_top_n_train, "testing": rpn_post_nms_top_n_test},
            rpn_nms_thresh,
            score_thresh=rpn_score_thresh,
        )
        box_roi_pool = box_roi_pool or pyramid_pooling(7)
        if box_head is None:
            height, width = box_roi_pool.output_size  # type: ignore[misc]
            box_head = TwoMLPHead(out_channels * height * width, 1024)
        if box_predictor is None:
            assert num_classes is not None
            box_predictor = FastRCNNPredictor(1024, num_classes)
        roi_heads = RoIHeads(
            box_roi_pool,
            box_head,
            box_predictor,
            box_fg_iou_thresh,
            box_bg_iou_thresh,
            box_batch_size_per_image,
            box_positive_fraction,
            bbox_reg_weights,
            box_score_thresh,
            box_nms_thresh,
            box_detections_per_img,
        )
        transform = GeneralizedRCNNTransform(
            min_size,
            max_size,
            image_mean or [0.485, 0.456, 0.406],
            image_std or [0.229, 0.224, 0.225],
            **kwargs,
        )
        super().__init__(backbone, rpn, roi_heads, transform)


def pyramid_pooling(size: int) -> MultiScaleRoIAlign:
    """Pooling to size x size from the four levels of a pyramid that are not pooled themselves."""
    return MultiScaleRoIAlign(["0", "1", "2", "3"], size, sampling_ratio=2)


def channels_of(backbone: nn.Module) -> int:
    """Channels of a backbone's maps.

    Raises:
        ValueError: it does not say.
    """
    if not hasattr(backbone, "out_channels"):
        raise ValueError(
            f"The backbone, a {type(backbone).__name__}, has no attribute out_channels: set it to the number of "
            "channels of its maps, which has to be the same for all."
        )
    return backbone.out_channels  # type: ignore[return-value]


def check_kind(name: str, value: object, kind: type) -> None:
    """Refuse an argument of another class; None is accepted.

    Raises:
        TypeError: `value` is no `kind`.
    """
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} is a {type(value).__name__}, expected a {kind.__name__} or None.")


def check_one_of(**options: object) -> None:
    """Refuse to be given none, or more than one, of these arguments.

    Raises:
        ValueError: so it is.
    """
    given = [name for name, value in options.items() if value is not None]
    if len(given) != 1:
        raise ValueError(f"Of {' and '.join(options)} exactly one is needed, got {' and '.join(given) or 'none'}.")


# --- builders -----------------------------------------------------------------------------------------------------


def pyramid_on_resnet50(
    weights_backbone: WeightsEnum | None,
    is_trained: bool,
    trainable_layers: int | None,
    progress: bool,
    **extractor: Any,
) -> nn.Module:
    """ResNet-50 with a pyramid; its normalization is frozen where anything is pretrained."""
    layers = _validate_trainable_layers(is_trained, trainable_layers, 5, 3)
    backbone = resnet50(weights=weights_backbone, progress=progress, norm_layer=normalization(is_trained))
    return _resnet_fpn_extractor(backbone, layers, **extractor)


def pyramid_on_resnet50_v2(
    weights_backbone: WeightsEnum | None, is_trained: bool, trainable_layers: int | None, progress: bool
) -> nn.Module:
    """ResNet-50 with a pyramid, normalized by batch statistics throughout."""
    layers = _validate_trainable_layers(is_trained, trainable_layers, 5, 3)
    backbone = resnet50(weights=weights_backbone, progress=progress)
    return _resnet_fpn_extractor(backbone, layers, norm_layer=nn.BatchNorm2d)


def parts_of_v2(backbone: nn.Module) -> dict[str, Any]:
    """Proposals by two convolutions, boxes by four with normalization and one linear layer."""
    anchors = _default_anchorgen()
    channels = channels_of(backbone)
    return {
        "rpn_anchor_generator": anchors,
        "rpn_head": RPNHead(channels, anchors.num_anchors_per_location()[0], conv_depth=2),
        "box_head": FastRCNNConvFCHead((channels, 7, 7), [256] * 4, [1024], norm_layer=nn.BatchNorm2d),
    }


def _fasterrcnn(
    weights_backbone: WeightsEnum | None,
    *,
    is_trained: bool,
    trainable_layers: int | None,
    num_classes: int,
    progress: bool,
    **kwargs: Any,
) -> FasterRCNN:
    backbone = pyramid_on_resnet50(weights_backbone, is_trained, trainable_layers, progress)
    return FasterRCNN(backbone, num_classes=num_classes, **kwargs)


def _fasterrcnn_v2(
    weights_backbone: WeightsEnum | None,
    *,
    is_trained: bool,
    trainable_layers: int | None,
    num_classes: int,
    progress: bool,
    **kwargs: Any,
) -> FasterRCNN:
    backbone = pyramid_on_resnet50_v2(weights_backbone, is_trained, trainable_layers, progress)
    return FasterRCNN(backbone, num_classes=num_classes, **parts_of_v2(backbone), **kwargs)


def _fasterrcnn_mobilenet(
    weights_backbone: WeightsEnum | None,
    *,
    is_trained: bool,
    trainable_layers: int | None,
    num_classes: int,
    progress: bool,
    **kwargs: Any,
) -> FasterRCNN:
    layers = _validate_trainable_layers(is_trained, trainable_layers, 6, 3)
    mobilenet = mobilenet_v3_large(weights=weights_backbone, progress=progress, norm_layer=normalization(is_trained))
    backbone = _mobilenet_extractor(mobilenet, True, layers)
    # All sizes on each of the three levels: two of them have the same stride.
    anchors = AnchorGenerator(((32, 64, 128, 256, 512),) * 3, ((0.5, 1.0, 2.0),) * 3)
    return FasterRCNN(backbone, num_classes, rpn_anchor_generator=anchors, **kwargs)


@register_model(
    task="object-detection",
    tags=("coco",),
    head=("roi_heads.box_predictor.cls_score", "roi_heads.box_predictor.bbox_pred"),
    stem="backbone.body.conv1",
)
@handle_legacy_interface(
    weights=("pretrained", FasterRCNN_ResNet50_FPN_Weights.COCO_V1),
    weights_backbone=("pretrained_backbone", ResNet50_Weights.IMAGENET1K_V1),
)
def fasterrcnn_resnet50_fpn(
    *,
    weights: FasterRCNN_ResNet50_FPN_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    weights_backbone: ResNet50_Weights | None = ResNet50_Weights.IMAGENET1K_V1,
    trainable_backbone_layers: int | None = None,
    **kwargs: Any,
) -> FasterRCNN:
    """Faster R-CNN with a ResNet-50 and a feature pyramid (Lin et al. 2016, arXiv:1612.03144).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: background included; 91 where neither this nor weights say otherwise.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        trainable_backbone_layers: how many of the backbone's five parts learn, from the last on; 3 by default, all
            without pretrained weights.
        **kwargs: for `FasterRCNN`; `device` and `dtype` place the weights without a copy in between.
    """
    members = FasterRCNN_ResNet50_FPN_Weights.verify(weights), ResNet50_Weights.verify(weights_backbone)
    return build_detector(
        _fasterrcnn,
        *members,
        progress=progress,
        num_classes=num_classes,
        trainable_layers=trainable_backbone_layers,
        old_epsilon=members[0] is FasterRCNN_ResNet50_FPN_Weights.COCO_V1,
        **kwargs,
    )


@register_model(
    task="object-detection",
    tags=("coco",),
    head=("roi_heads.box_predictor.cls_score", "roi_heads.box_predictor.bbox_pred"),
    stem="backbone.body.conv1",
)
@handle_legacy_interface(
    weights=("pretrained", FasterRCNN_ResNet50_FPN_V2_Weights.COCO_V1),
    weights_backbone=("pretrained_backbone", ResNet50_Weights.IMAGENET1K_V1),
)
def fasterrcnn_resnet50_fpn_v2(
    *,
    weights: FasterRCNN_ResNet50_FPN_V2_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    weights_backbone: ResNet50_Weights | None = None,
    trainable_backbone_layers: int | None = None,
    **kwargs: Any,
) -> FasterRCNN:
    """Faster R-CNN with the improvements of Li et al. 2021 (arXiv:2111.11429).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: background included; 91 where neither this nor weights say otherwise.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        trainable_backbone_layers: how many of the backbone's five parts learn, from the last on; 3 by default, all
            without pretrained weights.
        **kwargs: for `FasterRCNN`; `device` and `dtype` place the weights without a copy in between.
    """
    members = FasterRCNN_ResNet50_FPN_V2_Weights.verify(weights), ResNet50_Weights.verify(weights_backbone)
    return build_detector(
        _fasterrcnn_v2,
        *members,
        progress=progress,
        num_classes=num_classes,
        trainable_layers=trainable_backbone_layers,
        **kwargs,
    )


@register_model(
    task="object-detection",
    tags=("coco", "mobile"),
    head=("roi_heads.box_predictor.cls_score", "roi_heads.box_predictor.bbox_pred"),
    stem="backbone.body.0.0",
)
@handle_legacy_interface(
    weights=("pretrained", FasterRCNN_MobileNet_V3_Large_FPN_Weights.COCO_V1),
    weights_backbone=("pretrained_backbone", MobileNet_V3_Large_Weights.IMAGENET1K_V1),
)
def fasterrcnn_mobilenet_v3_large_fpn(
    *,
    weights: FasterRCNN_MobileNet_V3_Large_FPN_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    weights_backbone: MobileNet_V3_Large_Weights | None = MobileNet_V3_Large_Weights.IMAGENET1K_V1,
    trainable_backbone_layers: int | None = None,
    **kwargs: Any,
) -> FasterRCNN:
    """Faster R-CNN with a MobileNet v3 Large and a feature pyramid, for high-resolution pictures.

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: background included; 91 where neither this nor weights say otherwise.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        trainable_backbone_layers: how many of the backbone's six parts learn, from the last on; 3 by default, all
            without pretrained weights.
        **kwargs: for `FasterRCNN`; `device` and `dtype` place the weights without a copy in between.
    """
    members = (
        FasterRCNN_MobileNet_V3_Large_FPN_Weights.verify(weights),
        MobileNet_V3_Large_Weights.verify(weights_backbone),
    )
    kwargs = {"rpn_score_thresh": 0.05} | kwargs
    return build_detector(
        _fasterrcnn_mobilenet,
        *members,
        progress=progress,
        num_classes=num_classes,
        trainable_layers=trainable_backbone_layers,
        **kwargs,
    )


@register_model(
    task="object-detection",
    tags=("coco", "mobile"),
    head=("roi_heads.box_predictor.cls_score", "roi_heads.box_predictor.bbox_pred"),
    stem="backbone.body.0.0",
)
@handle_legacy_interface(
    weights=("pretrained", FasterRCNN_MobileNet_V3_Large_320_FPN_Weights.COCO_V1),
    weights_backbone=("pretrained_backbone", MobileNet_V3_Large_Weights.IMAGENET1K_V1),
)
def fasterrcnn_mobilenet_v3_large_320_fpn(
    *,
    weights: FasterRCNN_MobileNet_V3_Large_320_FPN_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    weights_backbone: MobileNet_V3_Large_Weights | None = MobileNet_V3_Large_Weights.IMAGENET1K_V1,
    trainable_backbone_layers: int | None = None,
    **kwargs: Any,
) -> FasterRCNN:
    """Faster R-CNN with a MobileNet v3 Large and a feature pyramid, for speed at low resolution.

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: background included; 91 where neither this nor weights say otherwise.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        trainable_backbone_layers: how many of the backbone's six parts learn, from the last on; 3 by default, all
            without pretrained weights.
        **kwargs: for `FasterRCNN`; `device` and `dtype` place the weights without a copy in between.
    """
    members = (
        FasterRCNN_MobileNet_V3_Large_320_FPN_Weights.verify(weights),
        MobileNet_V3_Large_Weights.verify(weights_backbone),
    )
    kwargs = {
        "min_size": 320,
        "max_size": 640,
        "rpn_pre_nms_top_n_test": 150,
        "rpn_post_nms_top_n_test": 150,
        "rpn_score_thresh": 0.05,
    } | kwargs
    return build_detector(
        _fasterrcnn_mobilenet,
        *members,
        progress=progress,
        num_classes=num_classes,
        trainable_layers=trainable_backbone_layers,
        **kwargs,
    )
