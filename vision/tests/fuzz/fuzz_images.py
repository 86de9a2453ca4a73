"""Read mutated image files, in a process that may crash without hurting anyone.

    python fuzz_images.py FIRST COUNT

Reading must give a picture or an `ImageError`, with our codecs and with Pillow.
"""

from __future__ import annotations

import os
import random
import sys

import mutations  # first: makes `images` importable
import numpy as np
import torch
from images import as_tensor, chunk, encoded, exif_with_orientation, picture, png
from PIL import Image

from flambeau.vision.io import ImageError, ImageReadMode, decode_image, decode_jpeg, image

MEMORY = 2**30
MOST_PIXELS = 4_000_000  # a picture of these takes a hundredth of the memory: to run out of it is a fault


def seeds() -> dict[str, bytes]:
    small, gray = picture(19, 23), picture(19, 23, "L")
    frames = [Image.new("P", (9, 7), index) for index in range(3)]
    exif = b"Exif\0\0" + exif_with_orientation(6)
    wide = np.arange(8 * 9 * 4, dtype=np.uint16).reshape(8, 9, 4) * 199
    files = {
        "jpeg": encoded(small, "JPEG", exif=exif),
        "jpeg 4:4:4": encoded(small, "JPEG", subsampling="4:4:4", quality=95),
        "jpeg 4:2:2": encoded(small, "JPEG", subsampling="4:2:2", restart_marker_blocks=2),
        "large jpeg": encoded(picture(70, 130), "JPEG", quality=90),
        "progressive jpeg": encoded(small, "JPEG", progressive=True),
        "gray jpeg": encoded(gray, "JPEG"),
        "cmyk jpeg": encoded(picture(19, 23, "CMYK"), "JPEG"),
        "png": encoded(small, "PNG", exif=exif),
        "rgba png": encoded(picture(19, 23, "RGBA"), "PNG"),
        "palette png": encoded(small.quantize(8), "PNG", transparency=bytes([0, 9])),
        "bit png": encoded(picture(19, 23, "1"), "PNG"),
        "hidden png": encoded(gray, "PNG", transparency=9),
        "wide png": png(wide, 6),
        "interlaced png": interlaced(),
        "gif": encoded(frames[0], "GIF", save_all=True, append_images=frames[1:], transparency=1),
        "webp": encoded(small, "WEBP", exif=exif),
        "lossless webp": encoded(picture(19, 23, "RGBA"), "WEBP", lossless=True),
        "alpha webp": encoded(picture(19, 23, "RGBA"), "WEBP"),
        "animated webp": encoded(frames[0].convert("RGB"), "WEBP", save_all=True, append_images=frames[1:]),
    }
    return {name: data.numpy().tobytes() for name, data in files.items()}


def interlaced() -> torch.Tensor:
    import struct
    import zlib

    header = struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 1)
    passes = [(2, 2), (2, 2), (4, 2), (4, 4), (8, 4), (8, 8), (16, 8)]
    rows = b"".join(bytes([row % 5]) + bytes(range(3 * columns)) for columns, count in passes for row in range(count))
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return as_tensor(b"\x89PNG\r\n\x1a\n" + body)


def make(draw: random.Random) -> tuple[bytes, str, ImageReadMode, int | None]:
    name = draw.choice(sorted(FILES))
    damage = mutations.mutate_png if "png" in name and draw.random() < 0.7 else mutations.mutate
    codec = "pillow" if draw.random() < 0.25 else "auto"
    return damage(FILES[name], draw), codec, draw.choice(list(ImageReadMode)), draw.choice([None, None, 1, 5, 12])


def read(content: bytes, codec: str, mode: ImageReadMode, min_size: int | None) -> bool:
    os.environ["FLAMBEAU_IMAGE_CODECS"] = codec
    data = as_tensor(content)
    try:
        decoded = decode_image(data, mode, apply_exif_orientation=True, min_size=min_size)
    except ImageError as error:
        if "memory" in str(error):
            raise
        return False
    assert decoded.ndim in (3, 4)
    assert decoded.numel() <= 4 * MOST_PIXELS
    if content[:3] == b"\xff\xd8\xff":
        assert all(one.shape[0] == 1 for one in decode_jpeg([data] * 3, "GRAY"))
    return True


FILES = seeds()

if __name__ == "__main__":
    torch.set_num_threads(2)
    image.MAX_PIXELS = MOST_PIXELS
    for seed in FILES.values():
        assert read(seed, "auto", ImageReadMode.UNCHANGED, None), "a seed cannot be read"
        assert read(seed, "pillow", ImageReadMode.UNCHANGED, None), "a seed cannot be read"
    mutations.limit_memory(MEMORY)
    sys.exit(mutations.read_all(make, read))
