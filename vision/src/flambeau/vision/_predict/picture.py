"""Pictures in and out of predictors: reading, resizing, writing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from flambeau.core.errors import PredictError

if TYPE_CHECKING:
    from PIL import Image, ImageFont
    from torch import Tensor

__all__ = ["LARGEST", "SMALLEST", "font_of", "read_picture", "resized", "save_picture", "shortened", "to_pillow"]

SMALLEST, LARGEST = 360, 1600  # of the longer side of the picture of an answer, in pixels


def read_picture(source: str | bytes) -> Tensor:
    """A picture as uint8 [3, H, W], upright, with white where it is transparent.

    Args:
        source: a path, or the bytes of a file.

    Raises:
        PredictError: it is no picture, or a damaged one.
    """
    import torch

    from flambeau.vision.io import ImageError, decode_image
    from flambeau.vision.transforms.functional import convert_image_dtype

    if source == b"":
        raise PredictError("it is empty, expected a picture.")
    file = torch.frombuffer(bytearray(source), dtype=torch.uint8) if isinstance(source, bytes) else source
    try:
        picture = decode_image(file, mode="RGB_ALPHA", apply_exif_orientation=True)
    except ImageError as error:
        raise PredictError(str(error) if isinstance(source, bytes) else f"{source}: {error}") from error

    first = picture if picture.ndim == 3 else picture[0]
    colour, alpha = convert_image_dtype(first, torch.float).tensor_split((3,))
    return convert_image_dtype(colour * alpha + (1 - alpha), torch.uint8)


def to_pillow(picture: Tensor) -> Image.Image:
    """A picture [3, H, W], uint8, as Pillow's."""
    from PIL import Image

    return Image.fromarray(picture.permute(1, 2, 0).contiguous().cpu().numpy())


def save_picture(image: Image.Image, path: Path) -> None:
    """Write a picture in the format that the path's suffix names.

    Raises:
        PredictError: it names none.
    """
    try:
        image.save(path)
    except ValueError as error:
        raise PredictError(f"--out: {path.name!r} names no image format; use .png, .jpg or .webp.") from error


def resized(image: Image.Image) -> Image.Image:
    """Shrink what is large, and enlarge what is tiny by a whole factor, so that its pixels stay crisp."""
    from PIL import Image

    longer = max(image.size)
    if longer > LARGEST:
        scale = LARGEST / longer
        size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
        return image.resize(size, Image.Resampling.LANCZOS)
    factor = max(1, SMALLEST // longer)
    return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)


def font_of(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """The package's own font, in a size in pixels."""
    from flambeau.vision.utils._font import label_font

    return label_font(size)


def shortened(text: str, room: float, length: Callable[[str], float]) -> str:
    """The text, or as much of its beginning as fits, with an ellipsis."""
    if length(text) <= room:
        return text
    while text and length(text + "…") > room:
        text = text[:-1]
    return text.rstrip() + "…"
