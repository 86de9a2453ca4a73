"""What a codec library provides, and what the public functions of `image` build on.

There are two codecs: our own library (`_native`) and Pillow (`_pillow`), which give the same pixels in the same layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Literal, Protocol

from torch import Tensor

from flambeau.core.errors import FlambeauError

Format = Literal["jpeg", "png", "gif", "webp", "avif", "heic"]
Region = tuple[int, int, int, int]
"""A part of a picture: top, left, height, width."""


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


class Codec(Protocol):
    """A library that decodes and encodes image files in memory, several at once on as many threads as torch uses."""

    def measure(self, data: Tensor, format: Format, mode: ImageReadMode) -> tuple[int, int, int]:
        """(channels, height, width) of what `decode` gives of a file, of its first frame where there are more.

        Raises:
            ImageError: the file is damaged.
        """
        ...

    def decode(
        self,
        files: Sequence[Tensor],
        format: Format,
        mode: ImageReadMode,
        max_pixels: int,
        min_size: int | None,
        regions: Sequence[Region | None],
    ) -> list[Tensor]:
        """Decode files.

        Args:
            files: the bytes of each, [bytes], uint8, contiguous, on the CPU. Their first ones have been recognised.
            format: the format of all.
            mode: the channels of the results.
            max_pixels: bound on height x width, summed over frames; checked before memory is allocated.
            min_size: see `reduction`; for JPEG alone.
            regions: of each picture, what is wanted, None for all; see `Part`.

        Returns:
            For each file [C, H, W], or [N, C, H, W] for an animation; in memory a pixel's channels lie side by side.

        Raises:
            ImageError: a file is damaged or exceeds `max_pixels`.
            ValueError: a region is empty, or reaches beyond its picture.
        """
        ...

    def encode_jpeg(self, images: Sequence[Tensor], quality: int) -> list[Tensor]:
        """Encode uint8 [1 or 3, H, W], on the CPU; `quality` in 1..100."""
        ...

    def encode_png(self, images: Sequence[Tensor], compression_level: int) -> list[Tensor]:
        """Encode uint8 [1 to 4, H, W], on the CPU; `compression_level` in 0..9."""
        ...


def reduction(height: int, width: int, min_size: int | None) -> int:
    """By how much a JPEG is decoded smaller: the largest of 8, 4, 2 and 1 that leaves the shorter side `min_size`."""
    if min_size is None:
        return 1
    shorter = min(height, width)
    return next((by for by in (8, 4, 2) if shorter >= by and -(-shorter // by) >= min_size), 1)


class Part:
    """What is decoded of a picture of a known size.

    Args:
        height: of the whole picture, as stored.
        width: likewise.
        region: what is wanted, None for all.
        min_size: see `reduction`, by which the region is measured.

    Attributes:
        by: the power of two that both sides are divided by.
        place: what is wanted of the divided picture: all pixels that have something of the region.

    Raises:
        ValueError: the region is empty, or reaches beyond the picture.
    """

    __slots__ = ("by", "place")

    def __init__(self, height: int, width: int, region: Region | None, min_size: int | None) -> None:
        top, left, high, wide = region or (0, 0, height, width)
        if top < 0 or left < 0 or high < 1 or wide < 1 or top + high > height or left + wide > width:
            raise ValueError(
                f"region is {region}, (top, left, height, width), which is not inside of the image of {height} x "
                f"{width}; cut it at the edges first."
            )
        by = self.by = reduction(high, wide, min_size)
        self.place: Region = (
            (top, left, high, wide)
            if by == 1
            else (top // by, left // by, -(-(top + high) // by) - top // by, -(-(left + wide) // by) - left // by)
        )

    def of(self, pixels: Tensor) -> Tensor:
        """The part of a picture [..., H, W] that has been divided; a copy, if it is not all of it."""
        top, left, height, width = self.place
        if (height, width) == pixels.shape[-2:]:
            return pixels
        cut = pixels[..., top : top + height, left : left + width]
        return cut.movedim(-3, -1).contiguous().movedim(-1, -3)


def check_size(height: int, width: int, max_pixels: int, frames: int = 1) -> None:
    """Refuse a picture that is larger than the bound."""
    if (pixels := width * height * frames) > max_pixels:
        raise ImageError(
            f"The image has {frames} frame(s) of {height} x {width}, {pixels:,} pixels in all; the "
            f"limit is {max_pixels:,}. For a source you trust, raise flambeau.vision.io.image.MAX_PIXELS."
        )


def damaged(format: Format, why: str) -> ImageError:
    """The error for a file that cannot be decoded."""
    return ImageError(f"The {format.upper()} image is damaged or incomplete: {why}.")


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
