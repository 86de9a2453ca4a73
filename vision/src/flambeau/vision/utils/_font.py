"""The font of labels: a part of DejaVu Sans that comes with the package, so that labels look alike everywhere."""

from __future__ import annotations

import io
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import ImageFont

__all__ = ["label_font"]


def label_font(size: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """The bundled font: Latin with all its accents, Greek and Cyrillic.

    Args:
        size: in pixels, > 0.

    Returns:
        Pillow's own font where Pillow was built without FreeType, and cannot read any other.
    """
    from PIL import ImageFont, features

    if not features.check("freetype2"):
        return ImageFont.load_default()
    content = files("flambeau.vision.utils").joinpath("fonts", "DejaVuSans.ttf").read_bytes()
    return ImageFont.truetype(io.BytesIO(content), size)
