"""Functions on bounding boxes."""

from __future__ import annotations

from flambeau.vision.ops.nms import batched_nms, nms

__all__ = ["batched_nms", "nms"]
