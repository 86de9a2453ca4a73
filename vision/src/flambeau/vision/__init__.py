"""Computer vision for PyTorch: models with pretrained weights, transforms, operators, datasets, image and video input.

Importing this package imports neither torch nor Pillow; each submodule loads when it is first used.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports
from flambeau.core.late_operators import announce_operators

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.vision import datasets, io, models, ops, transforms, tv_tensors, utils, weights
    from flambeau.vision._backends import *

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_backends": (
            "disable_beta_transforms_warning",
            "get_image_backend",
            "get_video_backend",
            "set_image_backend",
            "set_video_backend",
        ),
    },
    submodules=("datasets", "io", "models", "ops", "transforms", "tv_tensors", "utils", "weights"),
)

# Code that calls operators by their names in torch's registry finds them without another import.
announce_operators(
    "flambeau_vision",
    {
        "batched_nms": "flambeau.vision.ops.nms",
        "box_iou_rotated": "flambeau.vision.ops.box_iou_rotated",
        "deform_conv2d": "flambeau.vision.ops.deform_conv2d",
        "nms": "flambeau.vision.ops.nms",
        "ps_roi_align": "flambeau.vision.ops.ps_roi_align",
        "ps_roi_pool": "flambeau.vision.ops.ps_roi_pool",
        "roi_align": "flambeau.vision.ops.roi_align",
        "roi_pool": "flambeau.vision.ops.roi_pool",
    },
)
