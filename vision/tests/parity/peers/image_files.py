"""A corpus of image files, made on the spot: every format and mode, then the same files cut off and damaged."""

from __future__ import annotations

import io
import random
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

SIZE = (13, 22)  # height and width: no multiples of a block


def picture(mode: str, *, height: int = SIZE[0], width: int = SIZE[1]) -> Image.Image:
    """A smooth picture with some grain and without symmetry."""
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    channels = np.stack([255 * x, 255 * y, 255 * (1 - x) * (1 - y), 100 + 155 * x * y], -1)
    grain = np.random.default_rng(0).normal(size=channels.shape) * 9
    array = (channels + grain).clip(0, 255).astype(np.uint8)
    if mode == "L":
        return Image.fromarray(array[..., 0])
    if mode == "LA":
        return Image.fromarray(np.ascontiguousarray(array[..., 2:]))
    if mode == "CMYK":
        return Image.fromarray(array, "CMYK")
    return Image.fromarray(array).convert(mode)


def saved(image: Image.Image, format: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


_PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))


def png(array: Any, colour_type: int, bits: int, *, interlaced: bool = False, extra: bytes = b"") -> bytes:
    """A PNG of [H, W, C] as Pillow writes none: any depth, interlaced on request, with further chunks."""
    height, width = array.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, int(interlaced))
    parts = [array[top::down, left::right] for top, left, down, right in _PASSES] if interlaced else [array]
    rows = b"".join(b"\0" + _packed(row, bits) for part in parts if part.size for row in part)
    body = chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _packed(row: Any, bits: int) -> bytes:
    if bits >= 8:
        return bytes(row.astype(f">u{bits // 8}").tobytes())
    samples = (row.reshape(-1, 1) >> np.arange(bits - 1, -1, -1)) & 1
    return np.packbits(samples.astype(np.uint8).reshape(-1)).tobytes()


def exif(orientation: int) -> bytes:
    entry = struct.pack("<HHIHxx", 0x0112, 3, 1, orientation)
    return b"II*\0" + struct.pack("<IH", 8, 1) + entry + b"\0\0\0\0"


def ycck(content: bytes) -> bytes:
    """A CMYK JPEG that says of itself that three of its channels are Y, Cb and Cr."""
    at = content.index(b"Adobe") + 11
    return content[:at] + b"\2" + content[at + 1 :]


def jpegs() -> Iterator[tuple[str, bytes]]:
    for quality in (20, 75, 98):
        for subsampling in ("4:4:4", "4:2:2", "4:2:0"):
            yield f"q{quality}-{subsampling}", saved(picture("RGB"), "JPEG", quality=quality, subsampling=subsampling)
    yield "gray", saved(picture("L"), "JPEG")
    yield "cmyk", saved(picture("CMYK"), "JPEG")
    yield "ycck", ycck(saved(picture("CMYK"), "JPEG"))
    yield "rgb-kept", saved(picture("RGB"), "JPEG", keep_rgb=True)
    yield "progressive", saved(picture("RGB"), "JPEG", progressive=True)
    yield "progressive-gray", saved(picture("L"), "JPEG", progressive=True)
    yield "progressive-cmyk", saved(picture("CMYK"), "JPEG", progressive=True)
    yield "restarts", saved(picture("RGB"), "JPEG", restart_marker_blocks=1)
    yield "optimized", saved(picture("RGB"), "JPEG", optimize=True)
    yield "comment", saved(picture("RGB"), "JPEG", comment=b"x" * 3000)
    yield "one-pixel", saved(picture("RGB", height=1, width=1), "JPEG")
    yield "one-row", saved(picture("RGB", height=1, width=19), "JPEG")
    yield "large", saved(picture("RGB", height=130, width=97), "JPEG")
    for orientation in range(10):
        yield f"turned-{orientation}", saved(picture("RGB"), "JPEG", exif=b"Exif\0\0" + exif(orientation))
    yield "bad-exif", saved(picture("RGB"), "JPEG", exif=b"Exif\0\0" + exif(6)[:15])


def pngs() -> Iterator[tuple[str, bytes]]:
    for mode in ("1", "L", "LA", "RGB", "RGBA", "P", "I;16"):
        image = picture("L").convert("I").convert("I;16") if mode == "I;16" else picture(mode)
        yield mode.lower().replace(";", "-"), saved(image, "PNG")
    palette = picture("RGB").quantize(200)
    yield "palette", saved(palette, "PNG")
    yield "palette-one-hidden", saved(palette, "PNG", transparency=3)
    yield "palette-alphas", saved(palette, "PNG", transparency=bytes(range(200)))
    for colours, bits in ((2, 1), (4, 2), (16, 4)):
        yield f"palette-{bits}-bits", saved(picture("RGB").quantize(colours), "PNG", bits=bits)
        yield f"palette-{bits}-bits-hidden", saved(picture("RGB").quantize(colours), "PNG", bits=bits, transparency=1)
    yield "gray-one-hidden", saved(picture("L"), "PNG", transparency=7)
    yield "rgb-one-hidden", saved(picture("RGB"), "PNG", transparency=(1, 2, 3))
    yield "gamma", png(np.asarray(picture("RGB")), 2, 8, extra=chunk(b"gAMA", struct.pack(">I", 100000)))
    draw = np.random.default_rng(1)
    for colour_type, channels in ((0, 1), (2, 3), (4, 2), (6, 4)):
        deep = draw.integers(0, 65536, (*SIZE, channels))
        yield f"16-bits-{channels}", png(deep, colour_type, 16)
        yield f"16-bits-{channels}-interlaced", png(deep, colour_type, 16, interlaced=True)
        yield f"8-bits-{channels}-interlaced", png(deep % 256, colour_type, 8, interlaced=True)
    for bits in (1, 2, 4):
        shallow = draw.integers(0, 2**bits, (*SIZE, 1))
        yield f"gray-{bits}-bits", png(shallow, 0, bits)
        yield f"gray-{bits}-bits-interlaced", png(shallow, 0, bits, interlaced=True)
        entries = chunk(b"PLTE", bytes(draw.integers(0, 256, 3 * 2**bits, dtype=np.uint8)))
        yield f"palette-{bits}-bits-interlaced", png(shallow, 3, bits, interlaced=True, extra=entries)
        alphas = chunk(b"tRNS", bytes(range(2**bits)))
        yield f"palette-{bits}-bits-alphas", png(shallow, 3, bits, extra=entries + alphas)
    yield "one-pixel", saved(picture("RGB", height=1, width=1), "PNG")
    for orientation in (1, 3, 6, 8):
        yield f"turned-{orientation}", saved(picture("RGB"), "PNG", exif=b"Exif\0\0" + exif(orientation))
    yield "without-palette", png(draw.integers(0, 4, (*SIZE, 1)), 3, 8)
    yield "short-palette", png(draw.integers(0, 9, (*SIZE, 1)), 3, 8, extra=chunk(b"PLTE", bytes(9)))


def gifs() -> Iterator[tuple[str, bytes]]:
    frames = [picture("RGB", height=13, width=22).rotate(turn).quantize(60) for turn in (0, 90, 180)]
    yield "still", saved(frames[0], "GIF")
    yield "gray", saved(picture("L"), "GIF")
    yield "interlaced", saved(frames[0], "GIF", interlace=1)
    yield "not-interlaced", saved(frames[0], "GIF", interlace=0)
    yield "hidden", saved(frames[0], "GIF", transparency=5)
    for disposal in (0, 1, 2, 3):
        options = {"save_all": True, "append_images": frames[1:], "disposal": disposal, "duration": 40, "loop": 0}
        yield f"animated-{disposal}", saved(frames[0], "GIF", **options)
        yield f"animated-{disposal}-hidden", saved(frames[0], "GIF", transparency=5, **options)


def webps() -> Iterator[tuple[str, bytes]]:
    for mode in ("RGB", "RGBA", "L"):
        yield f"{mode.lower()}-lossy", saved(picture(mode), "WEBP", quality=60)
        yield f"{mode.lower()}-lossless", saved(picture(mode), "WEBP", lossless=True)
    frames = [picture("RGB").rotate(turn) for turn in (0, 90)]
    yield "animated", saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], duration=40)
    yield "turned", saved(picture("RGB"), "WEBP", exif=exif(6))


def no_images() -> Iterator[tuple[str, bytes]]:
    yield "nothing", b""
    yield "one-byte", b"\xff"
    yield "words", b"This is no picture." * 9
    yield "bmp", saved(picture("RGB"), "BMP")
    yield "tiff", saved(picture("RGB"), "TIFF")
    yield "jpeg-mark", b"\xff\xd8\xff"
    yield "png-mark", b"\x89PNG\r\n\x1a\n"
    yield "gif-mark", b"GIF89a"
    yield "webp-mark", b"RIFF\x10\0\0\0WEBPVP8 "
    yield "no-pixels", png(np.zeros((0, 4, 1), np.uint8), 0, 8)


CORPUS: dict[str, dict[str, bytes]] = {
    "jpeg": dict(jpegs()),
    "png": dict(pngs()),
    "gif": dict(gifs()),
    "webp": dict(webps()),
    "others": dict(no_images()),
}
_TO_DAMAGE = {
    "jpeg": ("q75-4:2:0", "gray", "cmyk", "progressive", "restarts", "large"),
    "png": ("rgb", "palette-alphas", "16-bits-4", "8-bits-3-interlaced", "palette-2-bits"),
    "gif": ("still", "animated-2"),
    "webp": ("rgb-lossy", "rgba-lossless"),
}


def cut_off() -> Iterator[tuple[str, bytes]]:
    """Files of which the end is missing."""
    for format, names in _TO_DAMAGE.items():
        for name in names:
            content = CORPUS[format][name]
            for sixteenths in range(1, 16):
                yield f"{format}-{name}-{sixteenths}", content[: len(content) * sixteenths // 16]
            yield f"{format}-{name}-less-one", content[:-1]
            yield f"{format}-{name}-more", content + b"more"


def damaged(count: int) -> Iterator[tuple[str, bytes]]:
    """Files of which some bytes are others."""
    for format, names in _TO_DAMAGE.items():
        for name in names:
            for seed in range(count):
                content = bytearray(CORPUS[format][name])
                draw = random.Random(f"{name} {seed}")
                for _ in range(draw.choice([1, 1, 2, 5])):
                    content[draw.randrange(len(content))] = draw.randrange(256)
                yield f"{format}-{name}-{seed}", bytes(content)
