"""Colours as callers write them."""

from __future__ import annotations

RGB = tuple[int, int, int]
Color = str | RGB
_FIRST: RGB = (255, 64, 0)  # stands out from dark, light and grey
Colors = list[Color] | Color | None


def parse_color(color: Color) -> RGB:
    """A colour's name, "#rrggbb" or tuple as RGB, each in 0..255.

    Raises:
        ValueError: Pillow knows no such name, or the tuple does not hold three numbers in 0..255.
        TypeError: it is neither a string nor a tuple.
    """
    if isinstance(color, str):
        from PIL import ImageColor

        return ImageColor.getrgb(color)[:3]
    if not isinstance(color, tuple):
        raise TypeError(f"The colour is {color!r}; expected a name, '#rrggbb' or a tuple (red, green, blue).")
    values: tuple[int, ...] = color  # callers are not all type-checked
    if len(values) != 3 or not all(0 <= value <= 255 for value in values):
        raise ValueError(f"The colour is {color!r}; expected (red, green, blue), each from 0 to 255, or a name.")
    return color


def parse_colors(colors: Colors, count: int) -> list[RGB]:
    """One colour for each of `count` objects; None gives a palette of many different ones."""
    if colors is None:
        return [_palette(index) for index in range(count)]
    if isinstance(colors, list):
        if len(colors) < count:
            raise ValueError(
                f"colors has {len(colors)} entries for {count} things to draw; give one for each, or one for all."
            )
        return [parse_color(color) for color in colors[:count]]
    if not isinstance(colors, str | tuple):
        raise ValueError(f"colors is a {type(colors).__name__}, expected a name or (R, G, B), or a list of those.")
    return [parse_color(colors)] * count


def _palette(index: int) -> RGB:
    # Upstream: multiples of three large numbers, modulo 255. The first of every 255 is black there, which nobody sees
    # on a dark image; and most images show one object.
    red, green, blue = (index * step % 255 for step in (2**25 - 1, 2**15 - 1, 2**21 - 1))
    return (red, green, blue) if index % 255 else _FIRST
