"""The frame of two-stage detectors: transform, backbone, proposals, heads; and the check of targets."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["GeneralizedRCNN"]

Target = dict[str, Tensor]


class GeneralizedRCNN(nn.Module):
    """Detector in two stages: proposals of boxes, then heads that look at each.

    Args:
        backbone: maps a batch of pictures to a dict of feature maps.
        rpn: maps the batch, the maps and targets to proposals and losses.
        roi_heads: maps the maps, proposals, sizes and targets to detections and losses.
        transform: makes the batch of pictures and targets, and brings detections back to the pictures' sizes.

    Shape:
        In evaluation mode pictures [(C, H_i, W_i), ...], or a batch (N, C, H, W), in [0, 1] -> for each picture a dict
        `boxes` (K, 4) xyxy in pixels, `labels` (K,) int64, `scores` (K,), and what the heads add. In training mode,
        with targets, a dict of losses.
    """

    def __init__(self, backbone: nn.Module, rpn: nn.Module, roi_heads: nn.Module, transform: nn.Module) -> None:
        super().__init__()
        self.transform: Any = transform
        self.backbone = backbone
        self.rpn = rpn
        self.roi_heads = roi_heads

    def eager_outputs(self, losses: dict[str, Tensor], detections: list[Target]) -> dict[str, Tensor] | list[Target]:
        """What the mode asks for: losses in training, else detections."""
        return losses if self.training else detections

    def forward(self, images: list[Tensor] | Tensor, targets: list[Target] | None = None) -> Any:
        """Detect, or compute losses.

        Args:
            images: pictures (C, H, W), floating point in [0, 1], of any sizes; or a batch (N, C, H, W).
            targets: for each picture a dict `boxes` (K, 4) xyxy in pixels, `labels` (K,) int64 from 1 on, and what
                the heads need; only in training.

        Raises:
            ValueError: targets are missing in training, have wrong shapes, or a box has no width or height.
        """
        original_sizes = [(image.shape[-2], image.shape[-1]) for image in images]
        if self.training:
            check_targets(images, targets)
        elif not original_sizes:
            return []
        batch, targets = self.transform(images, targets)
        features = named_maps(self.backbone(batch.tensors))
        proposals, proposal_losses = self.rpn(batch, features, targets)
        detections, losses = self.roi_heads(features, proposals, batch.image_sizes, targets)
        detections = self.transform.postprocess(detections, batch.image_sizes, original_sizes)
        return self.eager_outputs({**losses, **proposal_losses}, detections)


def named_maps(features: Tensor | dict[str, Tensor]) -> dict[str, Tensor]:
    """What a backbone gives, one map or several, as a dict."""
    return {"0": features} if isinstance(features, Tensor) else features


def check_targets(images: list[Tensor] | Tensor, targets: list[Target] | None) -> None:
    """Refuse targets that cannot be learned from.

    Raises:
        ValueError: they are missing, as many as pictures they are not, boxes are not (K, 4), or a box has no width or
            height; the message says which.
    """
    if len(images) == 0:
        raise ValueError("There are no pictures, expected at least one in training mode.")
    if targets is None:
        raise ValueError("targets is None, expected one dict of boxes and labels for each picture in training mode.")
    if len(targets) != len(images):
        raise ValueError(f"There are {len(targets)} targets for {len(images)} pictures, expected one for each.")
    for index, target in enumerate(targets):
        boxes = target["boxes"]
        if not isinstance(boxes, Tensor):
            raise ValueError(f"targets[{index}]['boxes'] is a {type(boxes).__name__}, expected a tensor (K, 4).")
        if boxes.dim() != 2 or boxes.shape[1] != 4:
            raise ValueError(f"targets[{index}]['boxes'] has shape {tuple(boxes.shape)}, expected (K, 4).")
        flat = (boxes[:, 2:] <= boxes[:, :2]).any(1)
        if flat.any():
            row = int(torch.where(flat)[0][0])
            raise ValueError(
                f"targets[{index}]['boxes'][{row}] is {boxes[row].tolist()}, expected x1 < x2 and y1 < y2: boxes need "
                "a width and a height. Drop such boxes, or use transforms.v2.SanitizeBoundingBoxes."
            )
