"""The one thing of an EXIF block that changes how an image looks: its orientation.

References:
    CIPA DC-008 (EXIF 2.32), section 4.6.4, tag 0x0112; the block is a TIFF file, TIFF 6.0, section 2.
"""

from __future__ import annotations

import struct

import torch
from torch import Tensor

_ORIENTATION_TAG = 0x0112
_SHORT = 3


def take_from_jpeg(data: bytes) -> tuple[bytes, bytes]:
    """A JPEG file without its EXIF segment, and the EXIF block; unchanged, and empty, where there is none.

    A decoder that does not see the block cannot stumble over it.

    References:
        ITU-T T.81, B.1.1.4: marker segments up to the first scan.
    """
    position = 2
    while data[position : position + 1] == b"\xff" and position + 10 <= len(data):
        marker, length = struct.unpack_from(">BH", data, position + 1)
        if marker == 0xDA:  # start of scan: what follows is picture
            break
        end = position + 2 + length
        if marker == 0xE1 and data[position + 4 : position + 10] == b"Exif\0\0":
            return data[:position] + data[end:], data[position + 10 : end]
        position = end
    return data, b""


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


def upright(pixels: Tensor, value: int) -> Tensor:
    """Turn and mirror [..., H, W] so that an image stored with this orientation is seen as it was taken."""
    if value in (5, 6, 7, 8):
        pixels = pixels.transpose(-2, -1)
    mirrored = {2: [-1], 3: [-2, -1], 4: [-2], 6: [-1], 7: [-2, -1], 8: [-2]}.get(value, [])
    if not mirrored:
        return pixels.contiguous()
    if pixels.dtype == torch.uint16:  # torch flips no uint16; the bits are the same
        return pixels.view(torch.int16).flip(mirrored).view(torch.uint16)
    return pixels.flip(mirrored)
