"""Operators on boxes and regions. Each is `torch.ops.flambeau_vision.<name>` too, with native and Triton kernels."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.vision.ops import boxes
    from flambeau.vision.ops.boxes import *
    from flambeau.vision.ops.drop_block import *
    from flambeau.vision.ops.misc import *
    from flambeau.vision.ops.stochastic_depth import *

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "boxes": ("batched_nms",),
        "drop_block": ("DropBlock2d", "DropBlock3d", "drop_block2d", "drop_block3d"),
        "misc": (
            "MLP",
            "Conv2dNormActivation",
            "Conv3dNormActivation",
            "FrozenBatchNorm2d",
            "Permute",
            "SqueezeExcitation",
        ),
        "nms": ("nms",),
        "stochastic_depth": ("StochasticDepth", "stochastic_depth"),
    },
)
