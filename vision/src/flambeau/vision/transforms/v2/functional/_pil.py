"""PIL images: telling them apart without importing Pillow, and treating them like tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from torch import Tensor

if TYPE_CHECKING:
    from PIL import Image


def is_pil(value: object) -> TypeGuard[Image.Image]:
    """Whether `value` is a PIL image; where Pillow has not been imported, nothing is."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(value, module.Image)


def same_mode(image: Image.Image, kernel: Callable[[Tensor], Tensor]) -> Image.Image:
    """Run a kernel for tensors on a PIL image; the result has the image's mode."""
    from PIL import Image

    from flambeau.vision.transforms.v2.functional._convert import pil_to_tensor, to_pil_image

    if image.mode in ("1", "P"):
        # Bits and indices of colours: their numbers can be moved, and stay in the palette.
        out = to_pil_image(kernel(pil_to_tensor(image if image.mode == "P" else image.convert("L"))), mode="L")
        if image.mode == "1":
            return out.convert("1", dither=Image.Dither.NONE)
        out.putpalette(image.getpalette() or [])
        return out
    return to_pil_image(kernel(pil_to_tensor(image)), mode=image.mode)


def fill_color(image: Image.Image, fill: float | Sequence[float] | None) -> Any:
    """What Pillow takes as a fill colour, of a number for all bands or one for each; None stays None.

    Raises:
        ValueError: another number of values.
    """
    if fill is None:
        return None
    bands = len(image.getbands())
    values = [fill] * bands if isinstance(fill, (int, float)) else list(fill)
    if len(values) == 1:
        values *= bands
    if len(values) != bands:
        raise ValueError(f"fill {fill!r} has {len(values)} values, expected one, or one for each of {bands} bands.")
    if image.mode != "F":
        values = [int(value) for value in values]
    return values[0] if bands == 1 else tuple(values)
