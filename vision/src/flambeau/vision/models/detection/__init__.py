"""Detectors: models that find objects, their boxes, masks and keypoints.

In evaluation mode they map pictures to one dict of detections each, in training mode pictures and targets to a dict
of losses.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.vision.models.detection.faster_rcnn import *
    from flambeau.vision.models.detection.fcos import *
    from flambeau.vision.models.detection.keypoint_rcnn import *
    from flambeau.vision.models.detection.mask_rcnn import *
    from flambeau.vision.models.detection.retinanet import *
    from flambeau.vision.models.detection.ssd import *
    from flambeau.vision.models.detection.ssdlite import *

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "faster_rcnn": (
            "FasterRCNN",
            "fasterrcnn_mobilenet_v3_large_320_fpn",
            "fasterrcnn_mobilenet_v3_large_fpn",
            "fasterrcnn_resnet50_fpn",
            "fasterrcnn_resnet50_fpn_v2",
        ),
        "fcos": ("FCOS", "fcos_resnet50_fpn"),
        "keypoint_rcnn": ("KeypointRCNN", "keypointrcnn_resnet50_fpn"),
        "mask_rcnn": ("MaskRCNN", "maskrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn_v2"),
        "retinanet": ("RetinaNet", "retinanet_resnet50_fpn", "retinanet_resnet50_fpn_v2"),
        "ssd": ("ssd300_vgg16",),
        "ssdlite": ("ssdlite320_mobilenet_v3_large",),
        # Weights come from the catalogue itself, so that reading an enum imports no torch.
        "flambeau.vision.weights.faster_rcnn": (
            "FasterRCNN_MobileNet_V3_Large_320_FPN_Weights",
            "FasterRCNN_MobileNet_V3_Large_FPN_Weights",
            "FasterRCNN_ResNet50_FPN_V2_Weights",
            "FasterRCNN_ResNet50_FPN_Weights",
        ),
        "flambeau.vision.weights.keypoint_rcnn": ("KeypointRCNN_ResNet50_FPN_Weights",),
        "flambeau.vision.weights.mask_rcnn": ("MaskRCNN_ResNet50_FPN_V2_Weights", "MaskRCNN_ResNet50_FPN_Weights"),
        "flambeau.vision.weights.fcos": ("FCOS_ResNet50_FPN_Weights",),
        "flambeau.vision.weights.retinanet": ("RetinaNet_ResNet50_FPN_V2_Weights", "RetinaNet_ResNet50_FPN_Weights"),
        "flambeau.vision.weights.ssd": ("SSD300_VGG16_Weights",),
        "flambeau.vision.weights.ssdlite": ("SSDLite320_MobileNet_V3_Large_Weights",),
    },
    submodules=(
        "_utils",
        "anchor_utils",
        "backbone_utils",
        "generalized_rcnn",
        "image_list",
        "roi_heads",
        "rpn",
        "transform",
    ),
)
