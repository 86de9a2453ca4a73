"""The codec on the package's own library: JPEG, PNG and still WebP, straight from a file's bytes into a tensor.

The library, `native/codecs`, is built where libjpeg-turbo and libdeflate are found (libwebp as well, if it is there).
Where it is not, or `FLAMBEAU_IMAGE_CODECS` is `pillow`, or `FLAMBEAU_NATIVE` is `off`, Pillow does the same.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import KernelLibrary
from flambeau.vision.io._codec import (
    Codec,
    Format,
    ImageError,
    ImageReadMode,
    Part,
    Region,
    check_size,
    damaged,
)

LIBRARY = KernelLibrary("flambeau.vision", "_codecs", namespace="flambeau_vision_codecs")

# `Format` and `Status` of codecs.h.
_NUMBERS: dict[Format, int] = {"jpeg": 0, "png": 1, "webp": 2}
_DONE, _DAMAGED, _UNSUPPORTED = range(3)

_MESSAGE = ctypes.c_char * 256


class _Picture(ctypes.Structure):
    """`Picture` of codecs.h, field by field."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("format", ctypes.c_int32),
        ("mode", ctypes.c_int32),
        ("height", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("channels", ctypes.c_int64),
        ("sample_bytes", ctypes.c_int64),
        ("top", ctypes.c_int64),
        ("left", ctypes.c_int64),
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
        ("pixels", ctypes.c_void_p),
        ("denominator", ctypes.c_int32),
        ("status", ctypes.c_int32),
        ("message", _MESSAGE),
    )


class _Encoding(ctypes.Structure):
    """`Encoding` of codecs.h, field by field."""

    _fields_ = (
        ("pixels", ctypes.c_void_p),
        ("height", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("channels", ctypes.c_int64),
        ("row_stride", ctypes.c_int64),
        ("column_stride", ctypes.c_int64),
        ("channel_stride", ctypes.c_int64),
        ("format", ctypes.c_int32),
        ("level", ctypes.c_int32),
        ("file", ctypes.c_void_p),
        ("capacity", ctypes.c_int64),
        ("bytes", ctypes.c_int64),
        ("status", ctypes.c_int32),
        ("message", _MESSAGE),
    )


class NativeCodec:
    """Decodes and encodes with the package's library; what that does not read is left to another codec.

    Args:
        other: the codec for all else.
    """

    def __init__(self, other: Codec) -> None:
        jobs, count = ctypes.c_void_p, ctypes.c_int64
        self._other = other
        self._describe: Callable[..., None] = LIBRARY.function("fb_codecs_describe", [jobs, count], None)
        self._decode: Callable[..., None] = LIBRARY.function("fb_codecs_decode", [jobs, count], None)
        self._encode: Callable[..., None] = LIBRARY.function("fb_codecs_encode", [jobs, count], None)
        size = [ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64]
        self._bound: Callable[..., int] = LIBRARY.function("fb_codecs_bound", size, ctypes.c_int64)

    def measure(self, data: Tensor, format: Format, mode: ImageReadMode) -> tuple[int, int, int]:
        """See `Codec.measure`."""
        number = _NUMBERS.get(format)
        picture = _Picture(data.data_ptr(), data.numel(), number or 0, mode.value)
        if number is not None:
            self._describe(ctypes.addressof(picture), 1)
        if number is None or picture.status == _UNSUPPORTED:
            return self._other.measure(data, format, mode)
        if picture.status != _DONE:
            raise damaged(format, picture.message.decode(errors="replace"))
        return picture.channels, picture.height, picture.width

    def decode(
        self,
        files: Sequence[Tensor],
        format: Format,
        mode: ImageReadMode,
        max_pixels: int,
        min_size: int | None,
        regions: Sequence[Region | None],
    ) -> list[Tensor]:
        """See `Codec.decode`."""
        number = _NUMBERS.get(format)
        if number is None:
            return self._other.decode(files, format, mode, max_pixels, min_size, regions)
        heads: list[Any] = [(data.data_ptr(), data.numel(), number, mode.value) for data in files]
        pictures = (_Picture * len(files))(*heads)
        self._describe(pictures, len(files))
        items = list(pictures)
        parts = [
            _part(picture, format, max_pixels, min_size, region) for picture, region in zip(items, regions, strict=True)
        ]
        pixels = [_room(picture, format, part) for picture, part in zip(items, parts, strict=True)]
        self._decode(pictures, len(files))
        for index, (picture, part) in enumerate(zip(items, parts, strict=True)):
            if part is None:
                left = [files[index]], format, mode, max_pixels, min_size, [regions[index]]
                pixels[index] = self._other.decode(*left)[0]
            elif picture.status != _DONE:
                raise damaged(format, picture.message.decode(errors="replace"))
            elif format != "jpeg":
                pixels[index] = part.of(pixels[index])
        return pixels

    def encode_jpeg(self, images: Sequence[Tensor], quality: int) -> list[Tensor]:
        """See `Codec.encode_jpeg`."""
        return self._encoded(images, "jpeg", quality)

    def encode_png(self, images: Sequence[Tensor], compression_level: int) -> list[Tensor]:
        """See `Codec.encode_png`."""
        return self._encoded(images, "png", compression_level)

    def _encoded(self, images: Sequence[Tensor], format: Format, level: int) -> list[Tensor]:
        number = _NUMBERS[format]
        capacities = [self._bound(number, image.size(1), image.size(2), image.size(0)) for image in images]
        files = [_empty((capacity,), (1,), torch.uint8) for capacity in capacities]
        encodings = (_Encoding * len(images))()
        for encoding, image, file, capacity in zip(encodings, images, files, capacities, strict=True):
            encoding.pixels, encoding.file, encoding.capacity = image.data_ptr(), file.data_ptr(), capacity
            encoding.channels, encoding.height, encoding.width = image.shape
            encoding.channel_stride, encoding.row_stride, encoding.column_stride = image.stride()
            encoding.format, encoding.level = number, level
        self._encode(encodings, len(images))
        for encoding in encodings:
            if encoding.status != _DONE:
                why = encoding.message.decode(errors="replace")
                raise ImageError(f"The image cannot be encoded as {format.upper()}: {why}.")
        return [_head(file, encoding.bytes) for file, encoding in zip(files, encodings, strict=True)]


def _head(file: Tensor, count: int) -> Tensor:
    """A copy of the first bytes. torch would wake other threads for it, which takes longer than to copy them."""
    head = torch.empty(count, dtype=torch.uint8)
    ctypes.memmove(head.data_ptr(), file.data_ptr(), count)
    return head


def _part(picture: Any, format: Format, max_pixels: int, min_size: int | None, region: Region | None) -> Part | None:
    """What is wanted of a described picture; None where another codec has to read it."""
    height, width = picture.height, picture.width
    check_size(height, width, max_pixels)
    if picture.status == _UNSUPPORTED:
        return None
    if picture.status != _DONE:
        raise damaged(format, picture.message.decode(errors="replace"))
    return Part(height, width, region, min_size if format == "jpeg" else None)


def _room(picture: Any, format: Format, part: Part | None) -> Tensor:
    """What a described picture is decoded into, [C, H, W] with the channels of a pixel side by side in memory."""
    if part is None:
        return torch.empty(0)
    top, left, height, width = part.place if format == "jpeg" else (0, 0, picture.height, picture.width)
    picture.top, picture.left, picture.rows, picture.columns = top, left, height, width
    picture.denominator, channels = part.by, picture.channels
    dtype = torch.uint8 if picture.sample_bytes == 1 else torch.uint16
    pixels = _empty((channels, height, width), (1, width * channels, channels), dtype)
    picture.pixels = pixels.data_ptr()
    return pixels


def _empty(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    try:
        return torch.empty_strided(shape, strides, dtype=dtype, device="cpu")
    except RuntimeError as error:
        raise ImageError(f"There is no memory for an image of {list(shape)}: {error}") from error


@functools.cache
def _pillow() -> Codec:
    from flambeau.vision.io._pillow import PillowCodec

    return PillowCodec()


@functools.cache
def _native() -> Codec:
    return NativeCodec(_pillow())


def objection() -> str:
    """Why the library does not serve; empty when it does."""
    if os.environ.get("FLAMBEAU_IMAGE_CODECS", "").strip().lower() == "pillow":
        return "FLAMBEAU_IMAGE_CODECS=pillow"
    return "" if LIBRARY.load() is not None else LIBRARY.reason


def codec() -> Codec:
    """The codec that serves now."""
    return _pillow() if objection() else _native()


def versions() -> str:
    """The formats that the library serves and what with."""
    text: bytes = LIBRARY.function("fb_codecs_versions", [], ctypes.c_char_p)()
    return text.decode()
