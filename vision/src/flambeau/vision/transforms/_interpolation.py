"""How a value between pixels is found. No torch here, so that weights can name an interpolation."""

from __future__ import annotations

from enum import Enum

from flambeau.core.errors import UnknownNameError


class InterpolationMode(Enum):
    """Interpolation of images. Tensors take the first four and LANCZOS with antialiasing; PIL images take all."""

    __module__ = "flambeau.vision.transforms.functional"

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


_PILLOW_NUMBERS = {
    InterpolationMode.NEAREST: 0,
    InterpolationMode.NEAREST_EXACT: 0,  # Pillow's nearest already samples at pixel centres
    InterpolationMode.LANCZOS: 1,
    InterpolationMode.BILINEAR: 2,
    InterpolationMode.BICUBIC: 3,
    InterpolationMode.BOX: 4,
    InterpolationMode.HAMMING: 5,
}


def interpolation_mode(value: InterpolationMode | str | int) -> InterpolationMode:
    """The mode that a member, its value ("bilinear") or Pillow's number stands for.

    Raises:
        UnknownNameError: it stands for none (a ValueError).
    """
    if isinstance(value, InterpolationMode):
        return value
    if isinstance(value, int):
        by_number = {number: mode for mode, number in reversed(_PILLOW_NUMBERS.items())}
        if value in by_number:
            return by_number[value]
    else:
        for mode in InterpolationMode:
            if mode.value == value:
                return mode
    names = [mode.value for mode in InterpolationMode]
    raise UnknownNameError(
        f"Unknown interpolation {value!r}, expected an InterpolationMode, one of {names}, or 0 to 5."
    )


def pillow_number(mode: InterpolationMode) -> int:
    """Pillow's number of a mode."""
    return _PILLOW_NUMBERS[mode]
