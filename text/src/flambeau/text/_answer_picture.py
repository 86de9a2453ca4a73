"""The picture of an answer about a text: the text, and a bar for each class, as long as it is probable."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from flambeau.core.errors import PredictError

if TYPE_CHECKING:
    from PIL import ImageFont

__all__ = ["draw_classes"]

_MARGIN, _ROW, _BAR, _FONT = 24, 34, 22, 16  # heights and sizes in pixels
_NAMES, _LONGEST, _NUMBERS = 200, 420, 72  # widths in pixels
_INK, _PAPER, _BAR_INK, _TRACK = (28, 32, 40), (255, 255, 255), (46, 98, 160), (232, 235, 240)
_SYSTEM_FONTS = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "Arial Unicode.ttf", "arial.ttf")


def draw_classes(title: str, classes: Sequence[tuple[str, float]], path: Path) -> None:
    """Draw probabilities as bars.

    Args:
        title: what they are of; drawn above them.
        classes: names and probabilities in [0, 1], in the order in which they are drawn.
        path: of the picture; its suffix names the format. `.svg` shows texts in every script, by the fonts of whoever
            looks at it; the others are drawn by Pillow with a font of this system.

    Raises:
        PredictError: Pillow is not installed, or the suffix names no format that it has.
    """
    if path.suffix.lower() == ".svg":
        path.write_text(_as_svg(title, classes), encoding="utf-8")
        return
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise PredictError(
            "--out needs Pillow to draw this format, and nothing for .svg. Run: pip install pillow"
        ) from error
    font = _font()
    width, height = _size(len(classes))
    picture = Image.new("RGB", (width, height), _PAPER)
    pen = ImageDraw.Draw(picture)
    pen.text(
        (_MARGIN, _MARGIN // 2 + 4), _shortened(_drawable(title, font), font, width - 2 * _MARGIN), _INK, font=font
    )
    for row, (name, probability) in enumerate(classes):
        top = 2 * _MARGIN + row * _ROW
        left = _MARGIN + _NAMES
        pen.text((_MARGIN, top), _shortened(_drawable(name, font), font, _NAMES - 12), _INK, font=font)
        pen.rectangle([left, top, left + _LONGEST, top + _BAR], _TRACK)
        if (length := round(_LONGEST * min(max(probability, 0.0), 1.0))) > 0:
            pen.rectangle([left, top, left + length, top + _BAR], _BAR_INK)
        pen.text((left + _LONGEST + 12, top), _percent(probability), _INK, font=font)
    try:
        picture.save(path)
    except ValueError as error:
        raise PredictError(f"--out: {path.name!r} names no image format; use .svg, .png, .jpg or .webp.") from error


def _size(rows: int) -> tuple[int, int]:
    return 2 * _MARGIN + _NAMES + _LONGEST + _NUMBERS, 3 * _MARGIN + rows * _ROW


def _percent(probability: float) -> str:
    return f"{100 * probability:.1f} %"


def _as_svg(title: str, classes: Sequence[tuple[str, float]]) -> str:
    width, height = _size(len(classes))
    left = _MARGIN + _NAMES
    ink, track, bar = (f"#{bytes(color).hex()}" for color in (_INK, _TRACK, _BAR_INK))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="{_FONT}" fill="{ink}">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_MARGIN}" y="{_MARGIN + 8}">{escape(title)}</text>',
    ]
    for row, (name, probability) in enumerate(classes):
        top = 2 * _MARGIN + row * _ROW
        length = _LONGEST * min(max(probability, 0.0), 1.0)
        lines += [
            f'<text x="{_MARGIN}" y="{top + 17}">{escape(name)}</text>',
            f'<rect x="{left}" y="{top}" width="{_LONGEST}" height="{_BAR}" fill="{track}"/>',
            f'<rect x="{left}" y="{top}" width="{length:.1f}" height="{_BAR}" fill="{bar}"/>',
            f'<text x="{left + _LONGEST + 12}" y="{top + 17}">{_percent(probability)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def _drawable(text: str, font: Any) -> str:
    """A text in letters that the font has; those that it lacks would all be the same empty box.

    Accents are left out rather than the text.
    """
    for candidate in (text, "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))):
        if all(map(_has(font), set(candidate))):
            return candidate
    return "(this text needs another font: an .svg shows it)"


def _has(font: Any) -> Callable[[str], bool]:
    """Whether a font has a character: what it draws is not what it draws for none."""
    absent = bytes(font.getmask("\uffff"))
    return lambda character: character.isspace() or bytes(font.getmask(character)) != absent


def _shortened(text: str, font: Any, width: float) -> str:
    """As much of a text as fits."""
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(f"{text}…") > width:
        text = text[:-1]
    return f"{text}…"


def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """A font of the system with many letters, else Pillow's own, which has ASCII alone."""
    from PIL import ImageFont

    for name in _SYSTEM_FONTS:
        try:
            return ImageFont.truetype(name, _FONT)
        except OSError:
            continue  # not on this system
    return ImageFont.load_default(size=_FONT)
