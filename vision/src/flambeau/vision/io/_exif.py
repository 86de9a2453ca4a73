"""The one thing of an EXIF block that changes how an image looks: its orientation.

References:
    CIPA DC-008 (EXIF 2.32), section 4.6.4, tag 0x0112; the block is a TIFF file, TIFF 6.0, section 2.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import torch
from torch import Tensor

from flambeau.vision.io._codec import Region

_ORIENTATION_TAG = 0x0112
_SHORT = 3
_PREFIX = b"Exif\0\0"


def segment_in_jpeg(data: memoryview) -> slice | None:
    """Where the EXIF segment of a JPEG file is, its marker included.

    References:
        ITU-T T.81, B.1.1.4: marker segments up to the first scan.
    """
    position = 2
    while position + 10 <= len(data) and data[position] == 0xFF:
        marker, length = struct.unpack_from(">BH", data, position + 1)
        if marker == 0xDA:  # start of scan: what follows is picture
            return None
        end = position + 2 + length
        if marker == 0xE1 and bytes(data[position + 4 : position + 10]) == _PREFIX:
            return slice(position, end)
        position = end
    return None


def _in_jpeg(data: memoryview) -> bytes:
    found = segment_in_jpeg(data)
    return bytes(data[found.start + 4 : found.stop]) if found else b""


def _in_png(data: memoryview) -> bytes:
    """References: W3C PNG, third edition, sections 5.3 and 11.3.4.5."""
    position = 8
    while position + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        if kind == b"eXIf":
            return bytes(data[position + 8 : position + 8 + length])
        position += 12 + length
    return b""


def _in_webp(data: memoryview) -> bytes:
    """References: RFC 9649, sections 2.3 and 2.7.1.5."""
    position = 12
    while position + 8 <= len(data):
        kind, length = struct.unpack_from("<4sI", data, position)
        if kind == b"EXIF":
            return bytes(data[position + 8 : position + 8 + length])
        position += 8 + length + length % 2
    return b""


_FINDERS: dict[str, Callable[[memoryview], bytes]] = {"jpeg": _in_jpeg, "png": _in_png, "webp": _in_webp}


def find_exif(data: Tensor, format: str) -> bytes:
    """The EXIF block of a JPEG, PNG or WebP file, beginning with its byte order; empty where there is none."""
    return _FINDERS[format](data.numpy().data).removeprefix(_PREFIX)


def orientation(exif: bytes) -> int:
    """The orientation, 1 to 8, of an EXIF block; 1 (as stored) where it says nothing or is damaged.

    A damaged block must not cost the user the picture, so nothing is raised.
    """
    byte_order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    if byte_order is None or len(exif) < 8:
        return 1
    (directory,) = struct.unpack_from(byte_order + "I", exif, 4)
    if directory + 2 > len(exif):
        return 1
    (entries,) = struct.unpack_from(byte_order + "H", exif, directory)
    for index in range(entries):
        position = directory + 2 + 12 * index
        if position + 12 > len(exif):
            return 1
        tag, kind, count, value = struct.unpack_from(byte_order + "HHIH", exif, position)
        if tag == _ORIENTATION_TAG:
            return value if kind == _SHORT and count == 1 and 1 <= value <= 8 else 1
    return 1


# By orientation, the sides of the stored image to be mirrored, once those of the second half have been exchanged.
_MIRRORED = {2: [-1], 3: [-2, -1], 4: [-2], 6: [-1], 7: [-2, -1], 8: [-2]}


def is_turned(value: int) -> bool:
    """Whether height and width of the stored image are width and height of the upright one."""
    return value >= 5


def as_stored(region: Region, value: int, size: tuple[int, int]) -> Region:
    """A region of the upright image, in the one of (height, width) that is stored with this orientation."""
    top, left, high, wide = region
    height, width = size
    whole_height, whole_width = (width, height) if is_turned(value) else (height, width)
    if -1 in _MIRRORED.get(value, []):
        left = whole_width - left - wide
    if -2 in _MIRRORED.get(value, []):
        top = whole_height - top - high
    return (left, top, wide, high) if is_turned(value) else (top, left, high, wide)


def upright(pixels: Tensor, value: int) -> Tensor:
    """Turn and mirror [..., H, W] so that an image stored with this orientation is seen as it was taken."""
    if value == 1:
        return pixels
    if is_turned(value):
        pixels = pixels.transpose(-2, -1)
    mirrored = _MIRRORED.get(value, [])
    if not mirrored:
        return pixels.contiguous()
    if pixels.dtype == torch.uint16:  # torch flips no uint16; the bits are the same
        return pixels.view(torch.int16).flip(mirrored).view(torch.uint16)
    return pixels.flip(mirrored)
