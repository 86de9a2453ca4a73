"""Models that give every pixel a class. Each returns `{"out": logits}`, and `"aux"` where it has an auxiliary head."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.vision.models.segmentation.deeplabv3 import *
    from flambeau.vision.models.segmentation.fcn import *
    from flambeau.vision.models.segmentation.lraspp import *

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "deeplabv3": ("DeepLabV3", "deeplabv3_mobilenet_v3_large", "deeplabv3_resnet50", "deeplabv3_resnet101"),
        "fcn": ("FCN", "fcn_resnet50", "fcn_resnet101"),
        "lraspp": ("LRASPP", "lraspp_mobilenet_v3_large"),
        # Weights come from the catalogue itself, so that reading an enum imports no torch.
        "flambeau.vision.weights.deeplabv3": (
            "DeepLabV3_MobileNet_V3_Large_Weights",
            "DeepLabV3_ResNet50_Weights",
            "DeepLabV3_ResNet101_Weights",
        ),
        "flambeau.vision.weights.fcn": ("FCN_ResNet50_Weights", "FCN_ResNet101_Weights"),
        "flambeau.vision.weights.lraspp": ("LRASPP_MobileNet_V3_Large_Weights",),
    },
    submodules=("_utils",),
)
