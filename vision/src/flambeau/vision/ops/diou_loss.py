"""Loss from the distance intersection over union."""

from __future__ import annotations

from torch import Tensor

from flambeau.vision.ops._box_losses import center_penalty, pairs, reduced

__all__ = ["distance_box_iou_loss"]


def distance_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """One minus the distance IoU of each box and its counterpart: it pulls centres together directly.

    Args:
        boxes1: (..., 4), xyxy, usually the predictions.
        boxes2: (..., 4), xyxy, same shape.
        reduction: "none", "mean" (0 for no boxes) or "sum".
        eps: added to denominators.

    Returns:
        (...) or a scalar, in [0, 2] per box; float32 or float64.

    Raises:
        ValueError: boxes have not four values, or the reduction is unknown.

    References:
        Zheng et al. 2019, arXiv:1911.08287, equation 7.
    """
    boxes = pairs("distance_box_iou_loss", boxes1, boxes2, eps)
    return reduced("distance_box_iou_loss", 1 - boxes.iou + center_penalty(boxes, eps), reduction)
