"""Operators on boxes and regions. Each is `torch.ops.flambeau_vision.<name>` too, with native and Triton kernels."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.vision.ops import boxes
    from flambeau.vision.ops.boxes import *

__getattr__, __dir__, __all__ = lazy_exports(__name__, {"boxes": ("batched_nms",), "nms": ("nms",)})
