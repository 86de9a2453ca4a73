"""Test examples drawn beside the training examples that speak for them and against them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from flambeau.influence.errors import InfluenceError

__all__ = ["Row", "draw_rows"]

_CELL, _GAP, _TEXT, _HEAD = 96, 10, 30, 26
_HEADINGS = ("test example", "spoke for it", "spoke against it")


class Row(NamedTuple):
    """One line of the picture: a test example, and training examples with captions.

    Attributes:
        test: what is drawn of the test example: a picture (channels, height, width), or None.
        caption: below it; lines are separated by a line feed.
        proponents: the same of those that speak for it, most influential first.
        opponents: and against it.
    """

    test: Any
    caption: str
    proponents: Sequence[tuple[Any, str]]
    opponents: Sequence[tuple[Any, str]]


def draw_rows(rows: Sequence[Row], path: str | Path, headings: Sequence[str] = _HEADINGS) -> None:
    """Draw test examples, and beside each its most influential training examples.

    Args:
        rows: the lines.
        path: of the picture, by whose ending its format goes.
        headings: of test examples, proponents and opponents.

    Raises:
        InfluenceError: Pillow is not installed, or there is no line.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise InfluenceError(
            "Pictures need Pillow. Run: pip install 'flambeau-influence[pictures]', or leave --out away."
        ) from error
    if not rows:
        raise InfluenceError("There is no test example to draw.")
    left, right = (max(len(row[side]) for row in rows) for side in (2, 3))
    step = _CELL + _GAP
    first, second = step + 2 * _GAP, step * (1 + left) + 4 * _GAP
    size = (second + (step * right + _GAP if right else -3 * _GAP), _HEAD + len(rows) * (step + _TEXT) + _GAP)
    canvas = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(canvas)
    for x, text in zip((_GAP, first, second), headings, strict=True):
        draw.text((x, 8), text, fill="black")
    for x in (first - _GAP, second - _GAP):
        draw.line([(x, 0), (x, size[1])], fill=(200, 200, 200))
    for number, row in enumerate(rows):
        y = _HEAD + number * (step + _TEXT)
        cells = [(_GAP, row.test, row.caption, (60, 60, 60))]
        cells += [(first + step * i, *one, (20, 120, 40)) for i, one in enumerate(row.proponents)]
        cells += [(second + step * i, *one, (170, 40, 30)) for i, one in enumerate(row.opponents)]
        for x, value, caption, colour in cells:
            picture = _picture(value, Image)
            if picture is not None:
                canvas.paste(picture, (x, y))
                draw.rectangle([x - 1, y - 1, x + _CELL, y + _CELL], outline=colour)
            draw.multiline_text((x, y + _CELL + 3), caption, fill=colour, spacing=1)
    canvas.save(path)


def _picture(value: Any, image_module: Any) -> Any:
    """A tensor or a Pillow image, as large as a cell; None for what is no picture."""
    if isinstance(value, Tensor) and value.dim() in (2, 3):
        pixels = value.detach().cpu().float()
        pixels = pixels.unsqueeze(0) if pixels.dim() == 2 else pixels
        if pixels.shape[0] not in (1, 3):
            return None
        low, high = pixels.min(), pixels.max()
        scaled = ((pixels - low) / torch.clamp(high - low, min=1e-12) * 255).to(torch.uint8)
        array = scaled.expand(3, -1, -1).permute(1, 2, 0).contiguous().numpy()
        value = image_module.fromarray(array)
    if not isinstance(value, image_module.Image):
        return None
    scale = _CELL / max(value.size)
    # Pixels of small pictures stay visible; large ones are averaged.
    how = image_module.Resampling.NEAREST if scale > 1 else image_module.Resampling.LANCZOS
    width, height = (max(1, round(side * scale)) for side in value.size)
    cell = image_module.new("RGB", (_CELL, _CELL), (235, 235, 235))
    cell.paste(value.convert("RGB").resize((width, height), how), ((_CELL - width) // 2, (_CELL - height) // 2))
    return cell
