"""What detectors in one stage share: the way from pictures to detections, and the choice of the best."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.vision.models.detection._utils import min_size
from flambeau.vision.models.detection.generalized_rcnn import check_targets, named_maps
from flambeau.vision.models.detection.image_list import ImageList
from flambeau.vision.ops.boxes import batched_nms, clip_boxes_to_image

__all__ = ["SingleStageDetector", "best_of_level", "permuted", "suppressed"]

Target = dict[str, Tensor]
Size = tuple[int, int]


class SingleStageDetector(nn.Module):
    """Transform, backbone, head and anchors; subclasses say what to make of the head's outputs.

    Shape:
        In evaluation mode pictures [(C, H_i, W_i), ...], or a batch (N, C, H, W), in [0, 1] -> for each picture a dict
        `boxes` (K, 4) xyxy in pixels, `labels` (K,) int64, `scores` (K,), best first. In training mode, with targets,
        a dict of losses.
    """

    transform: Any
    backbone: nn.Module
    head: nn.Module
    anchor_generator: nn.Module

    def eager_outputs(self, losses: dict[str, Tensor], detections: list[Target]) -> Any:
        """What the mode asks for: losses in training, else detections."""
        return losses if self.training else detections

    def forward(self, images: list[Tensor] | Tensor, targets: list[Target] | None = None) -> Any:
        """Detect, or compute losses.

        Args:
            images: pictures (C, H, W), floating point in [0, 1], of any sizes; or a batch (N, C, H, W).
            targets: for each picture a dict `boxes` (K, 4) xyxy in pixels and `labels` (K,) int64; only in training.

        Raises:
            ValueError: targets are missing in training, have wrong shapes, or a box has no width or height.
        """
        original_sizes = [(image.shape[-2], image.shape[-1]) for image in images]
        if self.training:
            check_targets(images, targets)
        elif not original_sizes:
            return []
        batch, targets = self.transform(images, targets)
        maps = list(named_maps(self.backbone(batch.tensors)).values())
        outputs = self.head(maps)
        anchors = self.anchor_generator(batch, maps)
        if self.training:
            assert targets is not None
            return self.eager_outputs(self._losses(targets, outputs, anchors, maps), [])
        detections = self._detections(outputs, anchors, maps, batch)
        return self.eager_outputs({}, self.transform.postprocess(detections, batch.image_sizes, original_sizes))

    def _losses(
        self, targets: list[Target], outputs: dict[str, Tensor], anchors: list[Tensor], maps: list[Tensor]
    ) -> dict[str, Tensor]:
        raise NotImplementedError(f"{type(self).__name__} has to define _losses.")

    def _detections(
        self, outputs: dict[str, Tensor], anchors: list[Tensor], maps: list[Tensor], batch: ImageList
    ) -> list[Target]:
        raise NotImplementedError(f"{type(self).__name__} has to define _detections.")


def anchors_per_level(anchors: Tensor, maps: list[Tensor]) -> list[int]:
    """How the anchors of a picture divide into maps with the same number at every position."""
    positions = [features.shape[-2] * features.shape[-1] for features in maps]
    at_each = anchors.shape[0] // sum(positions)
    return [count * at_each for count in positions]


def permuted(output: Tensor, values: int) -> Tensor:
    """A convolution's outputs (N, A * values, H, W) in the order of the anchors, (N, H * W * A, values)."""
    N, _, H, W = output.shape
    return output.view(N, -1, values, H, W).permute(0, 3, 4, 1, 2).reshape(N, -1, values)


def best_of_level(scores: Tensor, count: int, threshold: float) -> tuple[Tensor, Tensor, Tensor]:
    """The best of scores (A, classes) that exceed a threshold, at most `count`, best first.

    Returns:
        Scores, indices of anchors and classes, (K,) each.
    """
    classes = scores.shape[-1]
    flat = scores.flatten()
    if torch.compiler.is_compiling():  # sizes that do not depend on values, as long as possible
        top, index = flat.topk(min_size(count, flat.shape[0]))
        above = torch.where(top > threshold)[0]
        top, index = top[above], index[above]
    else:  # few of millions exceed the threshold: several times faster
        above = torch.where(flat > threshold)[0]
        top, order = flat[above].topk(min(count, above.shape[0]))
        index = above[order]
    return top, index // classes, index % classes


def suppressed(
    boxes: Tensor, scores: Tensor, labels: Tensor, image_shape: Size, nms_thresh: float, count: int
) -> Target:
    """Detections of a picture: clipped to it, without those that a better one of their class covers."""
    boxes = clip_boxes_to_image(boxes, image_shape)
    keep = batched_nms(boxes, scores, labels, nms_thresh)[:count]
    return {"boxes": boxes[keep], "scores": scores[keep], "labels": labels[keep]}
