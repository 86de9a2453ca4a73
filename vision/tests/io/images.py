"""Image files made on the spot, for the tests of reading them."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import torch
from PIL import Image


def picture(height: int = 24, width: int = 36, mode: str = "RGB") -> Image.Image:
    """A smooth picture without symmetry, so that a lossy format stays close and a turned one is noticed."""
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    channels = [255 * x, 255 * y, 255 * (1 - x) * (1 - y), 100 + 155 * x * y]
    array = np.stack(channels, -1).astype(np.uint8)
    if mode == "L":
        return Image.fromarray(array[..., 0])
    if mode == "LA":
        return Image.fromarray(np.ascontiguousarray(array[..., 2:]))
    return Image.fromarray(array).convert(mode)


def encoded(image: Image.Image, format: str, **options: object) -> torch.Tensor:
    """The bytes of a file, as [bytes], uint8."""
    buffer = io.BytesIO()
    image.save(buffer, format=format, **options)
    return as_tensor(buffer.getvalue())


def as_tensor(content: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)


def pixels(image: Image.Image) -> torch.Tensor:
    """[C, H, W] of a PIL image."""
    array = np.array(image)
    return torch.from_numpy(array[None] if array.ndim == 2 else array.transpose(2, 0, 1).copy())


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(array: np.ndarray, colour_type: int, *, bits: int = 16, size: tuple[int, int] | None = None) -> torch.Tensor:
    """A PNG of [H, W, C] with 16 bits per channel, which Pillow cannot write; or one that lies about its size."""
    height, width = size or array.shape[:2]
    rows = b"".join(b"\0" + row.astype(f">u{bits // 8}").tobytes() for row in array)
    header = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return as_tensor(b"\x89PNG\r\n\x1a\n" + body)


def exif_with_orientation(value: int, *, byte_order: str = "<") -> bytes:
    """An EXIF block with the orientation alone."""
    mark = b"II*\0" if byte_order == "<" else b"MM\0*"
    entry = struct.pack(byte_order + "HHIHxx", 0x0112, 3, 1, value)
    return mark + struct.pack(byte_order + "IH", 8, 1) + entry + b"\0\0\0\0"
