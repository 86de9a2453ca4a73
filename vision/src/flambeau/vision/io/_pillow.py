"""The codec on Pillow."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import GifImagePlugin, Image, ImageFile, JpegImagePlugin, PngImagePlugin, WebPImagePlugin
from torch import Tensor

from flambeau.vision.io._codec import (
    Format,
    ImageError,
    ImageReadMode,
    MissingImageLibraryError,
    Part,
    Region,
    check_size,
    damaged,
)
from flambeau.vision.io._exif import segment_in_jpeg

Job = TypeVar("Job")

# The plugins themselves, not `Image.open`: only these formats are ever tried on bytes from outside, and the bound on
# pixels is the caller's and not Pillow's global one.
_OPENERS: dict[Format, type[ImageFile.ImageFile]] = {
    "jpeg": JpegImagePlugin.JpegImageFile,
    "png": PngImagePlugin.PngImageFile,
    "gif": GifImagePlugin.GifImageFile,
    "webp": WebPImagePlugin.WebPImageFile,
}

_ANIMATED: tuple[Format, ...] = ("gif", "webp", "avif")

# What Pillow's parsers, and those it is extended with, raise for damaged input. Warning: where the process turns
# warnings into errors.
_DAMAGE = (
    SyntaxError, OSError, ValueError, EOFError, LookupError, TypeError, AttributeError, AssertionError, OverflowError,
    MemoryError, RuntimeError, struct.error, zlib.error, Image.DecompressionBombError, Warning,
)  # fmt: skip

# By what gray values of 2 and 4 bits are multiplied to become 8 bits.
_FEW_BITS = {"L;2": 85, "L;4": 17}

_PILLOW_MODES = {
    ImageReadMode.GRAY: "L",
    ImageReadMode.GRAY_ALPHA: "LA",
    ImageReadMode.RGB: "RGB",
    ImageReadMode.RGB_ALPHA: "RGBA",
}


class PillowCodec:
    """Decodes and encodes with Pillow; see `Codec`."""

    def measure(self, data: Tensor, format: Format, mode: ImageReadMode) -> tuple[int, int, int]:
        """See `Codec.measure`."""
        image = _opened(_content(data, format), format)
        return _channels(image, format, mode), image.height, image.width

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
        jobs = list(zip(files, regions, strict=True))
        return _each(lambda job: _decode(job[0], format, mode, max_pixels, min_size, job[1]), jobs)

    def encode_jpeg(self, images: Sequence[Tensor], quality: int) -> list[Tensor]:
        """See `Codec.encode_jpeg`."""
        return _each(lambda image: _save(image, format="JPEG", quality=quality), images)

    def encode_png(self, images: Sequence[Tensor], compression_level: int) -> list[Tensor]:
        """See `Codec.encode_png`."""
        return _each(lambda image: _save(image, format="PNG", compress_level=compression_level), images)


def exif_of(data: Tensor, format: Format) -> bytes:
    """The EXIF block of a file, beginning with its byte order; empty where there is none."""
    try:
        image = _opener(format)(io.BytesIO(data.numpy().tobytes()))
    except _DAMAGE as error:
        raise _damaged(format, error) from error
    return bytes(image.info.get("exif") or b"").removeprefix(b"Exif\0\0")


def _each(function: Callable[[Job], Tensor], items: Sequence[Job]) -> list[Tensor]:
    """Apply `function` in as many threads as torch may use; Pillow lets go of the interpreter while it works."""
    if len(items) == 1:
        return [function(items[0])]
    with ThreadPoolExecutor(max_workers=max(1, min(len(items), torch.get_num_threads()))) as pool:
        return list(pool.map(function, items))


def _content(data: Tensor, format: Format) -> bytes:
    content: bytes = data.numpy().tobytes()
    # Pillow reads the resolution from the EXIF block, and a damaged one makes it warn.
    if format == "jpeg" and (segment := segment_in_jpeg(memoryview(content))):
        content = content[: segment.start] + content[segment.stop :]
    return content


def _opened(content: bytes, format: Format) -> ImageFile.ImageFile:
    try:
        return _opener(format)(io.BytesIO(content))
    except MissingImageLibraryError:
        raise
    except _DAMAGE as error:
        raise _damaged(format, error) from error


def _channels(image: ImageFile.ImageFile, format: Format, mode: ImageReadMode) -> int:
    if mode is not ImageReadMode.UNCHANGED:
        return int(mode.value)
    if _is_wide(image):
        return {"LA;16B": 2, "I;16B": 1, "RGBA;16B": 4}.get(str(image.tile[0].args), 3)
    if format == "jpeg":
        return len(image.getbands())
    return Image.getmodebands("RGB" if format == "gif" else _unchanged_mode(image, format))


def _decode(
    data: Tensor,
    format: Format,
    mode: ImageReadMode,
    max_pixels: int,
    min_size: int | None,
    region: Region | None,
) -> Tensor:
    content = _content(data, format)
    image = _opened(content, format)
    check_size(image.height, image.width, max_pixels)
    part = Part(image.height, image.width, region, min_size if format == "jpeg" else None)
    try:
        if isinstance(image, JpegImagePlugin.JpegImageFile):
            _prepare_jpeg(image, mode, part.by)
        frames = (
            [_wide_pixels(image, content, mode)] if _is_wide(image) else list(_frames(image, format, mode, max_pixels))
        )
    except ImageError:
        raise
    except _DAMAGE as error:
        raise _damaged(format, error) from error
    if len({frame.shape for frame in frames}) > 1:  # a frame that is larger enlarges the picture
        raise damaged(format, "its frames differ in size")
    pixels = np.stack(frames) if len(frames) > 1 else frames[0]
    # [..., H, W, C] in memory; where it is still Pillow's own memory, which may not be written to, it is copied.
    fit = pixels.flags.writeable and pixels.flags.c_contiguous
    tensor = torch.from_numpy(pixels if fit else pixels.copy())
    return part.of(tensor.movedim(-1, -3))


def _damaged(format: Format, error: BaseException) -> ImageError:
    return damaged(format, str(error) or type(error).__name__)


def _prepare_jpeg(image: JpegImagePlugin.JpegImageFile, mode: ImageReadMode, by: int) -> None:
    """Have libjpeg itself give gray, which is the file's own luma, and a smaller picture."""
    gray = mode in (ImageReadMode.GRAY, ImageReadMode.GRAY_ALPHA)
    if gray or by > 1:
        image.draft("L" if gray else None, (max(image.width // by, 1), max(image.height // by, 1)))


def _opener(format: Format) -> type[ImageFile.ImageFile]:
    """What opens a format.

    Raises:
        MissingImageLibraryError: a library that only some formats need is not there.
    """
    if format in _OPENERS:
        return _OPENERS[format]
    try:
        if format == "heic":
            from pillow_heif.as_plugin import HeifImageFile

            return HeifImageFile
        from PIL import AvifImagePlugin, features
    except ImportError as error:
        remedy = 'pip install "flambeau-vision[heif]"' if format == "heic" else "pip install -U pillow"
        raise MissingImageLibraryError(
            f"Nothing here reads {format.upper()} images ({error}). Run: {remedy}"
        ) from error
    if not features.check("avif"):
        raise MissingImageLibraryError("This build of Pillow reads no AVIF images. Run: pip install --upgrade pillow")
    return AvifImagePlugin.AvifImageFile


def _frames(
    image: ImageFile.ImageFile, format: Format, mode: ImageReadMode, max_pixels: int
) -> Iterator[NDArray[np.uint8]]:
    """Each frame as [H, W, C], uint8; only the formats of `_ANIMATED` have more than one."""
    count = 0
    while True:
        yield _pixels(image, format, mode)
        count += 1
        if format not in _ANIMATED:
            return
        try:
            image.seek(count)
        except EOFError:  # the sign that the frame before was the last
            return
        check_size(image.height, image.width, max_pixels, count + 1)


def _pixels(file: ImageFile.ImageFile, format: Format, mode: ImageReadMode) -> NDArray[np.uint8]:
    image: Image.Image = file
    if mode is ImageReadMode.UNCHANGED and format == "jpeg" and image.mode == "CMYK":
        # Pillow undoes that Adobe stores ink inverted.
        ink: NDArray[np.uint8] = np.subtract(255, np.asarray(image), dtype=np.uint8)
        return ink
    target = _PILLOW_MODES.get(mode) or ("RGB" if format == "gif" else _unchanged_mode(image, format))
    if target == "P":
        return np.asarray(image)[..., None]
    if "transparency" in image.info:
        layout = str(file.tile[0].args) if file.tile else ""
        if image.mode == "P" or (image.mode, target) == ("RGB", "LA"):
            # The way around a warning of Pillow's, and around its comparing gray values instead of colours.
            image = image.convert("RGBA")
        elif layout in _FEW_BITS:  # Pillow spreads the pixels alone
            image.info["transparency"] *= _FEW_BITS[layout]
    image.load()
    pixels = np.asarray(image if image.mode == target else image.convert(target))
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _unchanged_mode(image: Image.Image, format: Format) -> str:
    """The channels as they are in the file, with few bits spread over the whole range."""
    if image.mode == "P":
        if format == "png":
            return "P"  # the numbers of entries, which is what masks are
        return "RGBA" if "transparency" in image.info else "RGB"
    return {"1": "L", "L": "L", "LA": "LA", "RGBA": "RGBA"}.get(image.mode, "RGB")


# --- 16 bits per channel ------------------------------------------------------------------------------------------
# Pillow has no mode for colour of 16 bits and keeps the high bytes alone. Its decoder can be told to read the low
# bytes instead, so two passes give all; a gray-alpha file has the same row layout as 8-bit RGBA and needs one.


def _is_wide(image: ImageFile.ImageFile) -> bool:
    return isinstance(image, PngImagePlugin.PngImageFile) and len(image.tile) == 1 and ";16B" in str(image.tile[0].args)


def _wide_pixels(image: ImageFile.ImageFile, data: bytes, mode: ImageReadMode) -> NDArray[np.uint16]:
    """A 16-bit PNG as [H, W, C], uint16."""
    pixels: NDArray[np.uint16]
    layout = str(image.tile[0].args)
    if layout == "LA;16B":
        pairs = _reread(data, "RGBA").astype(np.uint16)
        pixels = np.left_shift(pairs[..., 0::2], np.uint16(8)) | pairs[..., 1::2]
    elif layout == "I;16B":
        pixels = np.asarray(image).astype(np.uint16)[..., None]
    else:
        high = np.asarray(image).astype(np.uint16)
        pixels = np.left_shift(high, np.uint16(8)) | _reread(data, layout.replace("16B", "16L"))
    return _convert_wide(pixels, image.info.get("transparency"), mode)


def _reread(data: bytes, raw_mode: str) -> NDArray[np.uint8]:
    image = PngImagePlugin.PngImageFile(io.BytesIO(data))
    image.tile = [image.tile[0]._replace(args=raw_mode)]
    return np.asarray(image)


def _convert_wide(pixels: NDArray[np.uint16], transparent: object, mode: ImageReadMode) -> NDArray[np.uint16]:
    """Give uint16 [H, W, C] the channels of `mode`; `transparent` is the one value or colour of a tRNS chunk."""
    if mode is ImageReadMode.UNCHANGED:
        return pixels
    channels = pixels.shape[-1]
    colour, alpha = (pixels[..., :-1], pixels[..., -1:]) if channels in (2, 4) else (pixels, None)
    if alpha is None and mode in (ImageReadMode.GRAY_ALPHA, ImageReadMode.RGB_ALPHA):
        hidden = np.zeros(pixels.shape[:2], bool) if transparent is None else (pixels == transparent).all(-1)
        alpha = np.where(hidden, 0, 65535).astype(np.uint16)[..., None]
    if mode in (ImageReadMode.GRAY, ImageReadMode.GRAY_ALPHA):
        colour = colour if colour.shape[-1] == 1 else _luma(colour)
    else:
        colour = colour if colour.shape[-1] == 3 else np.repeat(colour, 3, -1)
    if mode in (ImageReadMode.GRAY, ImageReadMode.RGB) or alpha is None:
        return colour
    return np.concatenate([colour, alpha], -1)


def _luma(colour: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """ITU-R BT.601 luma in the 16-bit fixed point that Pillow uses for 8-bit images."""
    red, green, blue = (colour[..., channel : channel + 1].astype(np.uint64) for channel in range(3))
    return ((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16).astype(np.uint16)


def _save(image: Tensor, **options: object) -> Tensor:
    pixels = image.permute(1, 2, 0).contiguous().numpy()
    buffer = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(buffer, **options)  # type: ignore[arg-type]
    return torch.frombuffer(buffer.getbuffer(), dtype=torch.uint8)
