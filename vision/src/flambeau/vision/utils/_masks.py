"""Masks of objects or classes, laid over an image."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from flambeau.vision.utils._canvas import check_image
from flambeau.vision.utils._colors import Colors, parse_colors


@torch.no_grad()
def draw_segmentation_masks(image: Tensor, masks: Tensor, alpha: float = 0.8, colors: Colors = None) -> Tensor:
    """Colour the pixels of masks on a copy of an image.

    Args:
        image: [3, H, W], uint8, or floating point in [0, 1].
        masks: [N, H, W] or [H, W], bool.
        alpha: 0 (masks invisible) to 1 (opaque).
        colors: one for all masks, or a list with one for each, as name, "#rrggbb" or (red, green, blue) in 0..255. By
            default many different ones.

    Returns:
        [3, H, W], dtype and device of `image`. Pixels of no mask keep their value; those of several masks are mixed
        with black.

    Raises:
        TypeError: `image` is no tensor.
        ValueError: dtypes, shapes, `alpha` or number of colours do not fit.
    """
    check_image(image, (3,))
    if masks.ndim == 2:
        masks = masks[None]
    if masks.ndim != 3:
        raise ValueError(f"masks has the shape {list(masks.shape)}, expected [H, W] or [N, H, W].")
    if masks.dtype != torch.bool:
        raise ValueError(f"masks is {masks.dtype}, expected bool; compare scores with a threshold first.")
    if masks.shape[-2:] != image.shape[-2:]:
        raise ValueError(
            f"masks has the size {list(masks.shape[-2:])} and the image {list(image.shape[-2:])}; resize one to the "
            "other."
        )
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha}; expected a number between 0 and 1.")
    if len(masks) == 0:
        warnings.warn("masks doesn't contain any mask; the image is given back as it is.", stacklevel=3)
        return image
    masks = masks.to(image.device)
    overlay = image.clone()
    top = 255 if image.dtype == torch.uint8 else 1
    for mask, color in zip(masks, parse_colors(colors, len(masks)), strict=True):
        overlay[:, mask] = (torch.tensor(color, device=image.device) * (top / 255)).to(image.dtype)[:, None]
    overlay[:, masks.sum(0) > 1] = 0
    mixed = (image * (1 - alpha) + overlay * alpha).to(image.dtype)
    return torch.where(masks.any(0), mixed, image)
