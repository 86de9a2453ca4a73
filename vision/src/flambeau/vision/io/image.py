"""Image files to tensors and back: JPEG, PNG, GIF and WebP; AVIF and HEIC where a library reads them.

Tensors are [C, H, W], uint8 (uint16 for PNG with 16 bits per channel); an animation is [N, C, H, W]. In memory the
channels of a pixel lie side by side, as files have them (`channels_last`). The format is recognised by a file's first
bytes, never by its name.

JPEG, PNG and still WebP are read and written by the package's own library, all else, and everything where that library
was not built, by Pillow, with the same results; `flambeau doctor` says which one serves.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from typing import NamedTuple, overload

import torch
from torch import Tensor

from flambeau.core.errors import UnknownNameError, close_names
from flambeau.vision.io._codec import (
    HEAD_BYTES,
    Format,
    ImageError,
    ImageFileNotFoundError,
    ImageReadMode,
    MissingImageLibraryError,
    Region,
    recognise,
)
from flambeau.vision.io._devices import notice_cpu_decoding
from flambeau.vision.io._exif import as_stored, find_exif, is_turned, orientation, upright
from flambeau.vision.io._native import codec

__all__ = [
    "ImageError",
    "ImageFileNotFoundError",
    "ImageReadMode",
    "MissingImageLibraryError",
    "decode_avif",
    "decode_gif",
    "decode_heic",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "decode_webp",
    "encode_jpeg",
    "encode_png",
    "read_file",
    "read_image",
    "write_file",
    "write_jpeg",
    "write_png",
]

MAX_PIXELS = 178_956_970
"""Largest height x width, summed over the frames of an animation, that is decoded; the bound is Pillow's own.

A few kilobytes can announce an image that fills the memory. Assign a larger number for sources you trust.
"""


def read_file(path: str | Path) -> Tensor:
    """Read a whole file.

    Returns:
        [bytes], uint8. An empty file gives an empty tensor.

    Raises:
        ImageFileNotFoundError: there is no such file (a RuntimeError and a FileNotFoundError).
        ImageError: the file cannot be read.
    """
    try:
        with Path(path).open("rb", buffering=0) as file:
            return contents_of(file)
    except FileNotFoundError as error:
        raise ImageFileNotFoundError(f"There is no file {os.fspath(path)!r}; check the path.") from error
    except OSError as error:
        raise ImageError(f"{os.fspath(path)!r} cannot be read: {error.strerror or error}.") from error


def write_file(filename: str | Path, data: Tensor) -> None:
    """Write bytes to a file, replacing it.

    Args:
        filename: where to; its folder must exist.
        data: [bytes], uint8.

    Raises:
        ImageError: `data` is no such tensor, or the file cannot be written.
    """
    content = _checked_bytes(data)
    try:
        Path(filename).write_bytes(content.numpy().data)
    except OSError as error:
        raise ImageError(f"{os.fspath(filename)!r} cannot be written: {error.strerror or error}.") from error


def decode_image(
    input: Tensor | str | Path,
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    apply_exif_orientation: bool = False,
    *,
    min_size: int | None = None,
    region: Region | None = None,
) -> Tensor:
    """Decode a JPEG, PNG, GIF, WebP, AVIF or HEIC image, whichever the content is.

    Args:
        input: a path, or the bytes of a file as [bytes], uint8.
        mode: the channels of the result, as `ImageReadMode` or its name in any case. UNCHANGED keeps the file's:
            1 to 4 for PNG (gray of fewer than 8 bits is spread over the whole range; of a palette, the number of each
            pixel's entry), 1, 3 or 4 for JPEG (4: ink as stored, in Adobe's files 255 for none),
            3 or 4 for WebP, AVIF and HEIC, 3 for GIF. Gray is ITU-R BT.601 luma; alpha is dropped, or added opaque.
        apply_exif_orientation: turn the image the way the camera was held. Off, it comes as stored.
        min_size: see `decode_jpeg`; other formats are decoded whole.
        region: (top, left, height, width) of what is wanted of the image, whose pixels are those of the whole one. Of
            most JPEG files the rest is not decoded, which saves time, and damage in it may go unnoticed; a file that
            was cut off is noticed. Upright, if the image is to be.

    Returns:
        [C, H, W], or [N, C, H, W] for a GIF, WebP or AVIF with more than one frame. uint8; uint16 for PNG with 16 bits
        per channel.

    Raises:
        ImageError: the format is none of these, or the file is damaged, incomplete or larger than `MAX_PIXELS`
            (a RuntimeError).
        ImageFileNotFoundError: there is no such file.
        MissingImageLibraryError: AVIF or HEIC, and nothing that reads it is installed (an ImportError).
        UnknownNameError: there is no such mode (a ValueError and KeyError).
        ValueError: `region` is empty or reaches beyond the image, or `min_size` is less than 1.
    """
    data = input if isinstance(input, Tensor) else read_file(input)
    return _decode([data], None, mode, apply_exif_orientation, min_size, [region])[0]


def read_image(
    path: str | Path, mode: ImageReadMode | str = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False
) -> Tensor:
    """`decode_image` of a path, under the name it had first. New code calls `decode_image`."""
    return decode_image(read_file(path), mode, apply_exif_orientation)


def decode_png(
    input: Tensor, mode: ImageReadMode | str = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False
) -> Tensor:
    """Decode a PNG image; as `decode_image`, and anything but a PNG is an error."""
    return _decode([input], "png", mode, apply_exif_orientation)[0]


def decode_webp(input: Tensor, mode: ImageReadMode | str = ImageReadMode.UNCHANGED) -> Tensor:
    """Decode a WebP image; as `decode_image`, and anything but a WebP is an error."""
    return _decode([input], "webp", mode, False)[0]


def decode_avif(input: Tensor, mode: ImageReadMode | str = ImageReadMode.UNCHANGED) -> Tensor:
    """Decode an AVIF image with Pillow; as `decode_image`, 8 bits of each channel, and anything else is an error.

    Raises:
        MissingImageLibraryError: this Pillow is older than 11.3 or was built without AVIF (an ImportError).
        ImageError: the image is no AVIF, damaged, incomplete or too large.
    """
    return _decode([input], "avif", mode, False)[0]


def decode_heic(input: Tensor, mode: ImageReadMode | str = ImageReadMode.UNCHANGED) -> Tensor:
    """Decode the main image of a HEIC file with pillow-heif, the right way up; anything but HEIC is an error.

    Raises:
        MissingImageLibraryError: pillow-heif is not installed (an ImportError).
        ImageError: the image is no HEIC, damaged, incomplete or too large.
    """
    return _decode([input], "heic", mode, False)[0]


def decode_gif(input: Tensor) -> Tensor:
    """Decode a GIF image to RGB: [3, H, W], or [N, 3, H, W] for an animation; anything but a GIF is an error."""
    return _decode([input], "gif", ImageReadMode.RGB, False)[0]


@overload
def decode_jpeg(
    input: Tensor,
    mode: ImageReadMode | str = ...,
    device: str | torch.device = ...,
    apply_exif_orientation: bool = ...,
    *,
    min_size: int | None = ...,
    region: Region | None = ...,
) -> Tensor: ...
@overload
def decode_jpeg(
    input: list[Tensor],
    mode: ImageReadMode | str = ...,
    device: str | torch.device = ...,
    apply_exif_orientation: bool = ...,
    *,
    min_size: int | None = ...,
    region: Sequence[Region | None] | None = ...,
) -> list[Tensor]: ...
def decode_jpeg(
    input: Tensor | list[Tensor],
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    device: str | torch.device = "cpu",
    apply_exif_orientation: bool = False,
    *,
    min_size: int | None = None,
    region: Region | Sequence[Region | None] | None = None,
) -> Tensor | list[Tensor]:
    """Decode one JPEG image, or a list of them in parallel.

    Args:
        input: [bytes], uint8, on the CPU; or a list of such.
        mode: see `decode_image`.
        device: where the result shall be. Decoding itself happens on the CPU; a warning says so once.
        apply_exif_orientation: see `decode_image`.
        min_size: for loaders that resize anyway: decode at 1/2, 1/4 or 1/8 of the size if the shorter side has at least
            so many pixels then, which takes less time. None decodes at full size.
        region: see `decode_image`; for a list of images a list of as many regions, None for a whole image. With
            `min_size`, in pixels of the full size, and it is the region's shorter side that counts: the result is what
            of the smaller picture has something of the region.

    Returns:
        [C, H, W], uint8; or a list of such, in the order of the input.

    Raises:
        ImageError: an image is no JPEG, damaged, incomplete or too large.
        ValueError: `min_size` is less than 1, a region is empty or reaches beyond its image, or there is another number
            of regions than of images.
    """
    if (target := torch.device(device)).type != "cpu":
        notice_cpu_decoding(target, "Images")
    files, regions = ([input], [region]) if isinstance(input, Tensor) else (input, region)
    images = _decode(files, "jpeg", mode, apply_exif_orientation, min_size, regions)  # type: ignore[arg-type]
    if target.type != "cpu":
        images = [image.to(target) for image in images]
    return images[0] if isinstance(input, Tensor) else images


@overload
def encode_jpeg(input: Tensor, quality: int = ...) -> Tensor: ...
@overload
def encode_jpeg(input: list[Tensor], quality: int = ...) -> list[Tensor]: ...
def encode_jpeg(input: Tensor | list[Tensor], quality: int = 75) -> Tensor | list[Tensor]:
    """Encode one image as JPEG, or a list of them in parallel.

    Args:
        input: [1 or 3, H, W], uint8, gray or RGB; or a list of such. Images elsewhere than on the CPU are copied.
        quality: 1 (smallest) to 100 (best).

    Returns:
        [bytes], uint8, on the CPU; or a list of such.

    Raises:
        ValueError: `quality` is out of range.
        ImageError: an image has another shape or dtype.
    """
    if not 1 <= quality <= 100:
        raise ValueError(f"Image quality is {quality}, expected a positive number between 1 and 100.")
    images = [_checked(image, (1, 3)) for image in ([input] if isinstance(input, Tensor) else input)]
    files = codec().encode_jpeg(images, quality) if images else []
    return files[0] if isinstance(input, Tensor) else files


def encode_png(input: Tensor, compression_level: int = 6) -> Tensor:
    """Encode one image as PNG.

    Args:
        input: [C, H, W], uint8; C is 1 (gray), 2 (gray, alpha), 3 (RGB) or 4 (RGB, alpha).
        compression_level: 0 (none, fastest) to 9 (smallest).

    Returns:
        [bytes], uint8, on the CPU.

    Raises:
        ImageError: `compression_level` is out of range, or the image has another shape or dtype.
    """
    if not 0 <= compression_level <= 9:
        raise ImageError(f"Compression level is {compression_level}, expected a number between 0 and 9.")
    return codec().encode_png([_checked(input, (1, 2, 3, 4))], compression_level)[0]


def write_jpeg(input: Tensor, filename: str | Path, quality: int = 75) -> None:
    """Encode an image as JPEG into a file; see `encode_jpeg`."""
    write_file(filename, encode_jpeg(input, quality))


def write_png(input: Tensor, filename: str | Path, compression_level: int = 6) -> None:
    """Encode an image as PNG into a file; see `encode_png`."""
    write_file(filename, encode_png(input, compression_level))


def contents_of(file: FileIO) -> Tensor:
    """Read straight into a tensor; what has no size, such as a pipe, or shrinks meanwhile, is read as it comes."""
    data = torch.empty(os.fstat(file.fileno()).st_size, dtype=torch.uint8)
    count = file.readinto(data.numpy().data) if data.numel() else 0
    if rest := file.read() if count == data.numel() else b"":
        return torch.cat([data, torch.frombuffer(bytearray(rest), dtype=torch.uint8)])
    return data[:count]


def _decode(
    files: Sequence[Tensor],
    expected: Format | None,
    mode: ImageReadMode | str,
    apply_exif_orientation: bool,
    min_size: int | None = None,
    regions: Sequence[Region | None] | None = None,
) -> list[Tensor]:
    """Decode files of one format; one file where any format will do."""
    if min_size is not None and min_size < 1:
        raise ValueError(f"min_size is {min_size}, expected at least 1.")
    if regions is not None and len(regions) != len(files):
        raise ValueError(f"There are {len(regions)} regions for {len(files)} images; give one for each.")
    if not files:
        return []
    files = [_checked_bytes(data) for data in files]
    (format,) = {_format_of(data, expected) for data in files}
    read, wanted = _read_mode(mode), list(regions or [None] * len(files))
    if not apply_exif_orientation:
        return codec().decode(files, format, read, MAX_PIXELS, min_size, wanted)
    turned = [orientation(_exif_of(data, format)) for data in files]
    for index, (data, value) in enumerate(zip(files, turned, strict=True)):
        if (region := wanted[index]) is not None and value != 1:
            _, height, width = codec().measure(data, format, read)
            wanted[index] = as_stored(region, value, (height, width))
    images = codec().decode(files, format, read, MAX_PIXELS, min_size, wanted)
    return [upright(image, value) for image, value in zip(images, turned, strict=True)]


class ImageHead(NamedTuple):
    """What the head of an image file says.

    Attributes:
        format: of the file.
        mode: in which it is to be read.
        channels: of the image in that mode.
        height: of the image as stored.
        width: likewise.
        orientation: of the camera, 1 to 8; 1 where it is not to be applied.
    """

    format: Format
    mode: ImageReadMode
    channels: int
    height: int
    width: int
    orientation: int

    @property
    def upright_size(self) -> tuple[int, int]:
        """(height, width) of the upright image."""
        return (self.width, self.height) if is_turned(self.orientation) else (self.height, self.width)


def measure_image(data: Tensor, mode: ImageReadMode | str, apply_exif_orientation: bool) -> ImageHead:
    """Read the head of an image file.

    Raises:
        ImageError: the format is unknown, or the head is damaged.
    """
    data, read = _checked_bytes(data), _read_mode(mode)
    format = _format_of(data, None)
    channels, height, width = codec().measure(data, format, read)
    value = orientation(_exif_of(data, format)) if apply_exif_orientation else 1
    return ImageHead(format, read, channels, height, width, value)


def decode_measured(data: Tensor, head: ImageHead, region: Region, min_size: int | None) -> Tensor:
    """Decode what `measure_image` was asked about before.

    Args:
        data: the file.
        head: what it said.
        region: of the upright image.
        min_size: see `decode_jpeg`.
    """
    stored = as_stored(region, head.orientation, (head.height, head.width)) if head.orientation != 1 else region
    wanted = None if stored[2:] == (head.height, head.width) else stored
    pixels = codec().decode([_checked_bytes(data)], head.format, head.mode, MAX_PIXELS, min_size, [wanted])[0]
    return upright(pixels, head.orientation)


def _format_of(data: Tensor, expected: Format | None) -> Format:
    if data.numel() == 0:
        raise ImageError("Expected a non empty 1-dimensional tensor of a file's bytes, got an empty one.")
    head = ctypes.string_at(data.data_ptr(), min(HEAD_BYTES, data.numel()))
    format = recognise(head)
    if format is None or (expected is not None and format != expected):
        wanted = expected.upper() if expected else "JPEG, PNG, GIF, WebP, AVIF or HEIC"
        raise ImageError(
            f"Unsupported image file: the content begins with {head[:12]!r}, which is "
            f"{f'the mark of {format.upper()}' if format else 'no known mark'}; expected {wanted}."
        )
    return format


def _exif_of(data: Tensor, format: Format) -> bytes:
    if format in ("jpeg", "png", "webp"):
        return find_exif(data, format)
    from flambeau.vision.io._pillow import exif_of

    return exif_of(data, format)


def _read_mode(mode: ImageReadMode | str) -> ImageReadMode:
    if isinstance(mode, ImageReadMode):
        return mode
    try:
        return ImageReadMode[mode.upper()]
    except KeyError:
        names = list(ImageReadMode.__members__)
        close = close_names(mode, names)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownNameError(f"Unknown image mode {mode!r}, expected one of {names}.{hint}") from None


def _checked_bytes(data: object) -> Tensor:
    if not isinstance(data, Tensor) or data.dtype != torch.uint8 or data.ndim != 1:
        raise ImageError(f"Expected a 1-dimensional uint8 tensor of a file's bytes, got {_describe(data)}.")
    return data if data.is_cpu and data.is_contiguous() else data.cpu().contiguous()


def _checked(image: object, channels: tuple[int, ...]) -> Tensor:
    if not isinstance(image, Tensor) or image.dtype != torch.uint8:
        raise ImageError(f"The image is {_describe(image)}, expected a tensor of uint8.")
    if image.ndim != 3 or image.shape[0] not in channels or 0 in image.shape:
        raise ImageError(
            f"The image is {_describe(image)}, expected [C, H, W] with {' or '.join(map(str, channels))} channels and "
            "at least one pixel."
        )
    return image.detach().cpu()


def _describe(value: object) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return f"a {type(value).__name__}"
