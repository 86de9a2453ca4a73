"""What a codec library provides, and what the public functions of `image` build on.

There is one codec, on Pillow. Another one (native, for a GPU) is a class with these methods.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal, NamedTuple, Protocol

from torch import Tensor

from flambeau.core.errors import FlambeauError

Format = Literal["jpeg", "png", "gif", "webp", "avif", "heic"]


class ImageReadMode(Enum):
    """Which channels a decoded image shall have; colours are converted and alpha is added or dropped to fit."""

    __module__ = "flambeau.vision.io.image"

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4
    RGBA = RGB_ALPHA


class ImageError(FlambeauError, RuntimeError):
    """An image that cannot be decoded or encoded: damaged, of an unknown format, too large, of a wrong shape."""


class ImageFileNotFoundError(ImageError, FileNotFoundError):
    """There is no file of this name."""


class MissingImageLibraryError(ImageError, ImportError):
    """The library that decodes a format is not installed; the message says how to install it."""


class Decoded(NamedTuple):
    """What comes out of an image file.

    Attributes:
        pixels: uint8 or uint16, [C, H, W], or [N, C, H, W] for an animation.
        exif: the EXIF block, without any prefix of the container; empty where there is none.
    """

    pixels: Tensor
    exif: bytes


class Codec(Protocol):
    """A library that decodes and encodes image files held in memory."""

    def decode(self, data: bytes, format: Format, mode: ImageReadMode, max_pixels: int) -> Decoded:
        """Decode a whole file.

        Args:
            data: the file's bytes, whose first ones have been recognised as `format`.
            format: the file format.
            mode: the channels of the result.
            max_pixels: bound on height x width, summed over frames; checked before memory is allocated.

        Raises:
            ImageError: the file is damaged or exceeds `max_pixels`.
        """
        ...

    def encode_jpeg(self, image: Tensor, quality: int) -> bytes:
        """Encode uint8 [1 or 3, H, W]; `quality` in 1..100."""
        ...

    def encode_png(self, image: Tensor, compression_level: int) -> bytes:
        """Encode uint8 [1 to 4, H, W]; `compression_level` in 0..9."""
        ...


_MAGIC: tuple[tuple[bytes, Format], ...] = (
    (b"\xff\xd8\xff", "jpeg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
)


# Brands of the ISO base media file format that say which codec a still image or a sequence is in; "mif1" and "msf1"
# name the container alone.
_BRANDS: dict[bytes, Format] = {
    b"avif": "avif", b"avis": "avif", b"heic": "heic", b"heix": "heic", b"heim": "heic", b"heis": "heic",
    b"hevc": "heic", b"hevx": "heic",
}  # fmt: skip
HEAD_BYTES = 64


def recognise(head: bytes) -> Format | None:
    """The format that the first `HEAD_BYTES` of a file announce, None for any that is not read here.

    References:
        ISO/IEC 14496-12, section 4.3 (file type box); ISO/IEC 23008-12, section 10 (brands).
    """
    if head[4:8] == b"ftyp":
        listed = head[8:12] + head[16 : int.from_bytes(head[:4], "big")]
        brands = (listed[at : at + 4] for at in range(0, len(listed), 4))
        return next((_BRANDS[brand] for brand in brands if brand in _BRANDS), None)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    return next((format for magic, format in _MAGIC if head.startswith(magic)), None)
