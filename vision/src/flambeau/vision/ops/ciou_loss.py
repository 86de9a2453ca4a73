"""Loss from the complete intersection over union."""

from __future__ import annotations

from torch import Tensor

from flambeau.vision.ops._box_losses import aspect_penalty, center_penalty, pairs, reduced

__all__ = ["complete_box_iou_loss"]


def complete_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """One minus the complete IoU of each box and its counterpart: overlap, distance of centres and aspect ratio.

    Args:
        boxes1: (..., 4), xyxy, usually the predictions.
        boxes2: (..., 4), xyxy, same shape.
        reduction: "none", "mean" (0 for no boxes) or "sum".
        eps: added to denominators.

    Returns:
        (...) or a scalar; float32 or float64.

    Raises:
        ValueError: boxes have not four values, or the reduction is unknown.

    References:
        Zheng et al. 2019, arXiv:1911.08287, equation 10; alpha has no gradient.
    """
    boxes = pairs("complete_box_iou_loss", boxes1, boxes2, eps)
    loss = 1 - boxes.iou + center_penalty(boxes, eps) + aspect_penalty(boxes, eps)
    return reduced("complete_box_iou_loss", loss, reduction)
