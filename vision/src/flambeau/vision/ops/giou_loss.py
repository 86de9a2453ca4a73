"""Loss from the generalized intersection over union."""

from __future__ import annotations

from torch import Tensor

from flambeau.vision.ops._box_losses import pairs, reduced

__all__ = ["generalized_box_iou_loss"]


def generalized_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """One minus the generalized IoU of each box and its counterpart; it has a gradient for boxes that are apart too.

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
        Rezatofighi et al. 2019, arXiv:1902.09630.
    """
    boxes = pairs("generalized_box_iou_loss", boxes1, boxes2, eps)
    enclosing = boxes.enclosing[..., 0] * boxes.enclosing[..., 1]
    loss = 1 - boxes.iou + (enclosing - boxes.union) / (enclosing + eps)
    return reduced("generalized_box_iou_loss", loss, reduction)
