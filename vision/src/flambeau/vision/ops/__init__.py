"""Operators on boxes and regions. Each is `torch.ops.flambeau_vision.<name>` too, with native and Triton kernels."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.vision.ops import boxes
    from flambeau.vision.ops.boxes import *
    from flambeau.vision.ops.ciou_loss import *
    from flambeau.vision.ops.deform_conv2d import *
    from flambeau.vision.ops.diou_loss import *
    from flambeau.vision.ops.drop_block import *
    from flambeau.vision.ops.feature_pyramid_network import FeaturePyramidNetwork as FeaturePyramidNetwork
    from flambeau.vision.ops.focal_loss import *
    from flambeau.vision.ops.giou_loss import *
    from flambeau.vision.ops.misc import *
    from flambeau.vision.ops.poolers import MultiScaleRoIAlign as MultiScaleRoIAlign
    from flambeau.vision.ops.ps_roi_align import *
    from flambeau.vision.ops.ps_roi_pool import *
    from flambeau.vision.ops.roi_align import *
    from flambeau.vision.ops.roi_pool import *
    from flambeau.vision.ops.stochastic_depth import *

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "boxes": (
            "batched_nms",
            "box_area",
            "box_convert",
            "box_iou",
            "clip_boxes_to_image",
            "complete_box_iou",
            "distance_box_iou",
            "generalized_box_iou",
            "masks_to_boxes",
            "remove_small_boxes",
        ),
        "ciou_loss": ("complete_box_iou_loss",),
        "deform_conv2d": ("DeformConv2d", "deform_conv2d"),
        "diou_loss": ("distance_box_iou_loss",),
        "drop_block": ("DropBlock2d", "DropBlock3d", "drop_block2d", "drop_block3d"),
        "feature_pyramid_network": ("FeaturePyramidNetwork",),
        "focal_loss": ("sigmoid_focal_loss",),
        "giou_loss": ("generalized_box_iou_loss",),
        "misc": (
            "MLP",
            "Conv2dNormActivation",
            "Conv3dNormActivation",
            "FrozenBatchNorm2d",
            "Permute",
            "SqueezeExcitation",
        ),
        "nms": ("nms",),
        "poolers": ("MultiScaleRoIAlign",),
        "ps_roi_align": ("PSRoIAlign", "ps_roi_align"),
        "ps_roi_pool": ("PSRoIPool", "ps_roi_pool"),
        "roi_align": ("RoIAlign", "roi_align"),
        "roi_pool": ("RoIPool", "roi_pool"),
        "stochastic_depth": ("StochasticDepth", "stochastic_depth"),
    },
)
