"""The picture of rankings: a panel for each user, with a bar for each item, as long as its score is high."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from flambeau.core.errors import PredictError

__all__ = ["draw_rankings"]

MOST_USERS = 12
_COLUMNS, _GAP = 2, 24  # panels beside each other; pixels between them
_ROW, _BAR, _FONT = 26, 16, 14  # heights and sizes in pixels
_NAME, _LONGEST, _NUMBER = 150, 200, 50  # widths in pixels
_LETTER = 8  # about the width of a letter
_PAPER, _INK, _TRACK, _BAR_INK = "#ffffff", "#1c2028", "#e8ebf0", "#2e62a0"
_FONTS = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "arial.ttf")


@dataclass(frozen=True)
class _Shape:
    """A bar, or a text where `text` is not empty; in pixels from the upper left corner."""

    left: float
    top: float
    width: float
    color: str
    text: str = ""


def draw_rankings(title: str, rows: Sequence[tuple[str, str, float]], path: Path) -> None:
    """Draw the items of the first 12 users.

    Args:
        title: drawn above them.
        rows: user, item, and score in [0, 1], user after user, in the order in which they are drawn.
        path: of the picture; its suffix names the format. `.svg` needs nothing, and shows names in every script.

    Raises:
        PredictError: Pillow is not installed, or the suffix names no format that it has.
    """
    shapes, width, height = _layout(title, rows)
    if path.suffix.lower() == ".svg":
        path.write_text(_as_svg(shapes, width, height), encoding="utf-8")
        return
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise PredictError(
            "--out needs Pillow to draw this format, and nothing for .svg. Run: pip install pillow"
        ) from error
    picture = Image.new("RGB", (width, height), _PAPER)
    pen, font = ImageDraw.Draw(picture), _font()
    for shape in shapes:
        if shape.text:
            pen.text((shape.left, shape.top), _drawable(shape.text, font), shape.color, font=font)
        elif round(shape.width) > 0:
            pen.rectangle(
                [shape.left, shape.top, shape.left + round(shape.width) - 1, shape.top + _BAR - 1], shape.color
            )
    try:
        picture.save(path)
    except ValueError as error:
        raise PredictError(f"--out: {path.name!r} names no image format; use .svg, .png, .jpg or .webp.") from error


def _layout(title: str, rows: Sequence[tuple[str, str, float]]) -> tuple[list[_Shape], int, int]:
    """What to draw, and the size of the picture."""
    panels: dict[str, list[tuple[str, float]]] = {}
    for user, item, score in rows:
        if user in panels or len(panels) < MOST_USERS:
            panels.setdefault(user, []).append((item, score))
    panel_width = _NAME + _LONGEST + _NUMBER
    columns = min(_COLUMNS, max(len(panels), 1))
    width = columns * (panel_width + _GAP) + _GAP
    more = len({user for user, _, _ in rows}) - len(panels)
    shapes = [_Shape(_GAP, _GAP / 2, 0, _INK, _short(title, width - 2 * _GAP))]
    top = 2.0 * _GAP
    for first in range(0, len(panels), columns):
        beside = list(panels.items())[first : first + columns]
        for at, (user, items) in enumerate(beside):
            shapes += _panel(user, items, _GAP + at * (panel_width + _GAP), top)
        top += (1 + max(len(items) for _, items in beside)) * _ROW + _GAP
    if more > 0:
        shapes.append(_Shape(_GAP, top - _GAP / 2, 0, _INK, f"and {more} more users"))
        top += _ROW
    return shapes, width, int(top)


def _panel(user: str, items: Sequence[tuple[str, float]], left: float, top: float) -> list[_Shape]:
    shapes = [_Shape(left, top, 0, _BAR_INK, _short(user, _NAME + _LONGEST))]
    for at, (item, score) in enumerate(items, 1):
        line = top + at * _ROW
        bar = left + _NAME
        shapes += [
            _Shape(left, line, 0, _INK, _short(item, _NAME - 8)),
            _Shape(bar, line, _LONGEST, _TRACK),
            _Shape(bar, line, _LONGEST * min(max(score, 0.0), 1.0), _BAR_INK),
            _Shape(bar + _LONGEST + 8, line, 0, _INK, f"{score:.2f}"),
        ]
    return shapes


def _short(text: str, width: float) -> str:
    """As much of a text as about fits."""
    plain = " ".join(text.split())
    most = int(width / _LETTER)
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def _as_svg(shapes: Sequence[_Shape], width: int, height: int) -> str:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="{_FONT}">',
        f'<rect width="{width}" height="{height}" fill="{_PAPER}"/>',
    ]
    for shape in shapes:
        place = f'x="{shape.left:g}" y="{shape.top + (13 if shape.text else 0):g}" fill="{shape.color}"'
        lines.append(
            f"<text {place}>{escape(_printable(shape.text))}</text>"
            if shape.text
            else f'<rect {place} width="{shape.width:.1f}" height="{_BAR}"/>'
        )
    return "\n".join([*lines, "</svg>", ""])


def _printable(text: str) -> str:
    """A text without the characters that XML cannot hold."""
    return "".join(one for one in text if one >= " " and one not in "\ufffe\uffff")


def _drawable(text: str, font: Any) -> str:
    """A text in letters that the font has: accents are left out, and ? stands for what is left."""
    absent = bytes(font.getmask("\uffff"))

    def shown(letter: str) -> str:
        if letter.isspace() or bytes(font.getmask(letter)) != absent:
            return letter
        base = unicodedata.normalize("NFKD", letter)[0]
        return base if bytes(font.getmask(base)) != absent else "?"

    return "".join(map(shown, text))


def _font() -> Any:
    """A font of the system with many letters, else Pillow's own, which has ASCII alone."""
    from PIL import ImageFont

    for name in _FONTS:
        try:
            return ImageFont.truetype(name, _FONT)
        except OSError:
            continue  # not on this system
    return ImageFont.load_default(size=_FONT)
