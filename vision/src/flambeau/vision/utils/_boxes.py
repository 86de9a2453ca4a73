"""Bounding boxes with labels, drawn on an image."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flambeau.vision.utils._canvas import Canvas, check_image
from flambeau.vision.utils._colors import RGB, Colors, parse_colors
from flambeau.vision.utils._font import label_font

if TYPE_CHECKING:
    from PIL import ImageDraw, ImageFont

_FILL_ALPHA = 100
_DEFAULT_FONT_SIZE = 10  # of a font that the caller names
_SMALLEST_FONT_SIZE = 12
_FONT_SIZES_IN_IMAGE = 32
_DASH = 5
_FARTHEST = 1_000_000  # what Pillow draws far outside still costs time


@torch.no_grad()
def draw_bounding_boxes(
    image: Tensor,
    boxes: Tensor,
    labels: list[str] | None = None,
    colors: Colors = None,
    fill: bool | None = False,
    width: int = 1,
    font: str | None = None,
    font_size: int | None = None,
    label_colors: Colors = None,
    label_background_colors: Colors = None,
    fill_labels: bool = False,
) -> Tensor:
    """Draw boxes, each with its label, on a copy of an image.

    Args:
        image: [1 or 3, H, W], uint8, or floating point in [0, 1].
        boxes: [N, 4] as (x1, y1, x2, y2) with x1 <= x2 and y1 <= y2, or [N, 8] as four corners (x, y) of a rotated
            box in order round it; in pixels, fractions are cut off. A rotated box's first edge is dashed.
        labels: a text for each box; None in the list leaves one without.
        colors: of the boxes: one for all, or a list with one for each, as name, "#rrggbb" or (red, green, blue) in
            0..255. By default many different ones.
        fill: cover each box's inside with its colour, translucent.
        width: of the lines, in pixels.
        font: a TrueType font: file or name. By default a part of DejaVu Sans that comes with the package: Latin with
            all accents, Greek and Cyrillic.
        font_size: in pixels; by default 10 for a font of yours, and for the package's what suits the image: a 32nd of
            its shorter side, at least 12.
        label_colors: of the texts; by default each box's colour, or black with `fill_labels`.
        label_background_colors: behind the texts where `fill_labels` is on; by default each box's colour.
        fill_labels: put a background behind the texts.

    Returns:
        [3, H, W], dtype and device of `image`.

    Raises:
        TypeError: `image` or `boxes` is no tensor.
        ValueError: dtype, shape, order of coordinates, number of labels or colours do not fit.
        OSError: there is no such font.
    """
    check_image(image, (1, 3))
    _check_boxes(boxes)
    count = len(boxes)
    if count == 0:
        warnings.warn("boxes doesn't contain any box; the image is given back as it is.", stacklevel=3)
        return image
    if labels is not None and len(labels) != count:
        raise ValueError(f"There are {count} boxes and {len(labels)} labels; expected as many, None for no label.")
    box_colors = parse_colors(colors, count)
    text_colors = parse_colors(label_colors or "black", count) if label_colors or fill_labels else box_colors
    backgrounds = parse_colors(label_background_colors, count) if label_background_colors else box_colors
    typeface = _font(font, font_size, min(image.shape[-2:]))

    canvas = Canvas(image)
    with canvas.draw("RGBA" if fill else "RGB") as pen:
        for index, box in enumerate(boxes.to(torch.int64).tolist()):
            _outline(pen, box, box_colors[index], width, fill=bool(fill))
            if labels is not None and labels[index] is not None:
                at = (box[0] + width + 1, box[1] + width + 1)
                if fill_labels:
                    left, top, right, bottom = pen.textbbox(at, labels[index], font=typeface)
                    pen.rectangle((left - 1, top - 1, right + 1, bottom + 1), fill=backgrounds[index])
                pen.text(at, labels[index], fill=text_colors[index], font=typeface)
    return canvas.result()


def _check_boxes(boxes: Tensor) -> None:
    if not isinstance(boxes, Tensor):
        raise TypeError(f"boxes is a {type(boxes).__name__}; expected a tensor [N, 4] or [N, 8].")
    if boxes.ndim != 2 or boxes.shape[1] not in (4, 8):
        if boxes.numel() == 0:  # an empty list of boxes rarely has its second dimension
            return
        raise ValueError(f"boxes has the shape {list(boxes.shape)}; expected [N, 4], or [N, 8] for rotated boxes.")
    if not bool(torch.isfinite(boxes).all()):
        raise ValueError("boxes holds infinities or not-a-number; expected pixel coordinates.")
    if bool((boxes.abs() > _FARTHEST).any()):
        raise ValueError(f"boxes holds coordinates beyond {_FARTHEST:,}; expected pixel coordinates of the image.")
    if boxes.shape[1] == 4 and bool((boxes[:, :2] > boxes[:, 2:]).any()):
        raise ValueError(
            "One of the boxes ends before it starts; expected corners (xmin, ymin, xmax, ymax). "
            "flambeau.vision.ops.box_convert makes them of other formats."
        )


def _outline(pen: ImageDraw.ImageDraw, box: list[int], color: RGB, width: int, *, fill: bool) -> None:
    inside = (*color, _FILL_ALPHA) if fill else None
    if len(box) == 4:
        pen.rectangle(box, width=width, outline=color, fill=inside)
        return
    if inside:
        pen.polygon(box, fill=inside)
    corners = list(zip(box[::2], box[1::2], strict=True))
    pen.line([*corners[1:], corners[0]], fill=color, width=width)
    for dash in _dashes(corners[0], corners[1]):
        pen.line(dash, fill=color, width=width)


def _dashes(start: tuple[int, int], end: tuple[int, int]) -> Iterator[tuple[float, float, float, float]]:
    """Upstream: the edge from the first corner to the second is dashed, which shows how far a box is turned."""
    length = math.dist(start, end)
    across, down = (end[0] - start[0]) / max(length, 1), (end[1] - start[1]) / max(length, 1)
    at = 0.0
    while at < length:
        stop = min(at + _DASH, length)
        yield (start[0] + at * across, start[1] + at * down, start[0] + stop * across, start[1] + stop * down)
        at += 2 * _DASH


def _font(font: str | None, size: int | None, shorter_side: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    if font is None:
        return label_font(size or max(_SMALLEST_FONT_SIZE, round(shorter_side / _FONT_SIZES_IN_IMAGE)))
    from PIL import ImageFont

    return ImageFont.truetype(font, size or _DEFAULT_FONT_SIZE)
