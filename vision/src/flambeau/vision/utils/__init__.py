"""Pictures of what a model sees and says: grids, boxes, masks, key points, optical flow."""

from __future__ import annotations

from flambeau.vision.utils._boxes import draw_bounding_boxes
from flambeau.vision.utils._flow import flow_to_image
from flambeau.vision.utils._grid import make_grid, save_image
from flambeau.vision.utils._keypoints import draw_keypoints
from flambeau.vision.utils._masks import draw_segmentation_masks

__all__ = [
    "draw_bounding_boxes",
    "draw_keypoints",
    "draw_segmentation_masks",
    "flow_to_image",
    "make_grid",
    "save_image",
]
