"""Masks of boxes, pasted into pictures."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from flambeau.vision.ops._masks import mask_codes, paste_masks, paste_one

__all__ = [
    "encode_masks_in_image",
    "expand_boxes",
    "expand_masks",
    "expand_masks_tracing_scale",
    "paste_mask_in_image",
    "paste_masks_in_image",
]


def expand_boxes(boxes: Tensor, scale: float) -> Tensor:
    """Boxes (N, 4) made larger by a factor, around their centres."""
    center = (boxes[:, :2] + boxes[:, 2:]) * 0.5
    half = (boxes[:, 2:] - boxes[:, :2]) * 0.5 * scale
    return torch.cat([center - half, center + half], 1)


def expand_masks_tracing_scale(M: int, padding: int) -> float:
    """How much larger masks of side `M` become by `padding` on every side."""
    return (M + 2 * padding) / M


def expand_masks(mask: Tensor, padding: int) -> tuple[Tensor, float]:
    """Masks (N, 1, M, M) with zeros around them, and how much larger that makes them."""
    return F.pad(mask, (padding,) * 4), expand_masks_tracing_scale(mask.shape[-1], padding)


def paste_mask_in_image(mask: Tensor, box: Tensor, im_h: int, im_w: int) -> Tensor:
    """A mask (M, M), enlarged to its box (4,), integers and ends included, in a picture (im_h, im_w) of zeros."""
    image = mask.new_zeros(im_h, im_w)
    paste_one(mask, box.tolist(), image)
    return image


def paste_masks_in_image(masks: Tensor, boxes: Tensor, img_shape: tuple[int, int], padding: int = 1) -> Tensor:
    """Paste every mask into a picture of its own.

    Args:
        masks: (N, 1, M, M), probabilities.
        boxes: (N, 4), xyxy in pixels; ends are cut to integers.
        img_shape: (height, width) of the pictures.
        padding: zeros around the masks, so that interpolation fades at the border; boxes grow with them.

    Returns:
        (N, 1, height, width), 0 outside the boxes.
    """
    masks, scale = expand_masks(masks, padding)
    pixels = expand_boxes(boxes, scale).to(torch.int64)
    if torch.compiler.is_compiling():
        return _paste_all(masks, pixels, img_shape)
    if masks.dtype == torch.float32 and not masks.requires_grad:
        return paste_masks(masks, pixels, img_shape)
    images = masks.new_zeros(masks.shape[0], 1, *img_shape)
    for index, box in enumerate(pixels.tolist()):
        paste_one(masks[index, 0], box, images[index, 0])
    return images


def encode_masks_in_image(
    masks: Tensor, boxes: Tensor, img_shape: tuple[int, int], padding: int = 1, threshold: float = 0.5
) -> list[dict[str, Any]]:
    """The pixels of pasted masks that are above a threshold, without making pictures of them.

    Args:
        masks: (N, 1, M, M), probabilities.
        boxes: as for `paste_masks_in_image`.
        img_shape: (height, width) of the pictures.
        padding: as for `paste_masks_in_image`.
        threshold: a pixel belongs to the mask if its probability is above this.

    Returns:
        For each mask {"size": [height, width], "counts": bytes}, COCO's compressed run lengths, which pycocotools
        reads.
    """
    masks, scale = expand_masks(masks.detach().float(), padding)
    codes = mask_codes(masks, expand_boxes(boxes, scale).to(torch.int64), img_shape, threshold)
    return [{"size": list(img_shape), "counts": code} for code in codes]


def _paste_all(masks: Tensor, boxes: Tensor, img_shape: tuple[int, int]) -> Tensor:
    """The same without sizes that depend on values: bilinear interpolation as two matrix products."""
    side, (height, width) = masks.shape[-1], img_shape
    rows = _interpolation(boxes[:, 1], boxes[:, 3], height, side, masks)
    columns = _interpolation(boxes[:, 0], boxes[:, 2], width, side, masks)
    return (rows @ masks[:, 0] @ columns.mT)[:, None]


def _interpolation(first: Tensor, last: Tensor, length: int, side: int, like: Tensor) -> Tensor:
    """Weights (N, length, side) of a mask's rows in each row of the picture, 0 outside the box."""
    position = torch.arange(length, device=like.device) - first[:, None]
    extent = (last - first + 1).clamp(min=1)[:, None]
    source = ((position + 0.5) * (side / extent) - 0.5).clamp(min=0, max=side - 1)
    weight = (1 - (source[..., None] - torch.arange(side, device=like.device)).abs()).clamp(min=0)
    inside = (position >= 0) & (position < extent)
    return (weight * inside[..., None]).to(like.dtype)
