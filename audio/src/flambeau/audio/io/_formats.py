"""Sample and pixel formats: their tensors, and how raw bytes become them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from flambeau.audio.io._errors import MediaValueError


@dataclass(frozen=True)
class SampleFormat:
    """A packed sample format: its tensors' dtype, and ffmpeg's name of the codec that leaves it as it is."""

    name: str
    dtype: torch.dtype
    codec: str


_PACKED = {
    item.name: item
    for item in (
        SampleFormat("u8", torch.uint8, "pcm_u8"),
        SampleFormat("s16", torch.int16, "pcm_s16le"),
        SampleFormat("s32", torch.int32, "pcm_s32le"),
        SampleFormat("s64", torch.int64, "pcm_s64le"),
        SampleFormat("flt", torch.float32, "pcm_f32le"),
        SampleFormat("dbl", torch.float64, "pcm_f64le"),
    )
}
PACKED_FORMATS = tuple(_PACKED.values())
SAMPLE_FORMATS = sorted([*_PACKED, *(f"{name}p" for name in _PACKED)])


def sample_format(name: str) -> SampleFormat:
    """The packed form of a sample format; `fltp` and `flt` give the same tensors.

    Raises:
        MediaValueError: there is no such format.
    """
    found = _PACKED.get(name.removesuffix("p"))
    if found is None:
        raise MediaValueError(f"Sample format {name!r} is unknown; expected one of {', '.join(SAMPLE_FORMATS)}.")
    return found


@dataclass(frozen=True)
class PixelFormat:
    """A pixel format: bytes of one frame by its height and width, and the tensor that they are."""

    size: Callable[[int, int], int]
    view: Callable[[Tensor, int, int], Tensor]


def _packed(channels: int) -> PixelFormat:
    return PixelFormat(
        lambda height, width: height * width * channels,
        lambda raw, height, width: raw.reshape(-1, height, width, channels).permute(0, 3, 1, 2),
    )


def _planar(raw: Tensor, height: int, width: int) -> Tensor:
    return raw.reshape(-1, 3, height, width)


def _half(length: int) -> int:
    return (length + 1) // 2


def _size420(height: int, width: int) -> int:
    return height * width + 2 * _half(height) * _half(width)


def _double(chroma: Tensor, height: int, width: int) -> Tensor:
    """(n, h, w) of chroma to full size: each value for the pixels that shared it."""
    return chroma.repeat_interleave(2, -2).repeat_interleave(2, -1)[..., :height, :width]


def _yuv420p(raw: Tensor, height: int, width: int) -> Tensor:
    raw = raw.reshape(-1, _size420(height, width))
    luma = raw[:, : height * width].reshape(-1, height, width)
    chroma = raw[:, height * width :].reshape(-1, 2, _half(height), _half(width))
    return torch.stack([luma, *(_double(plane, height, width) for plane in chroma.unbind(1))], 1)


def _nv12(raw: Tensor, height: int, width: int) -> Tensor:
    raw = raw.reshape(-1, _size420(height, width))
    luma = raw[:, : height * width].reshape(-1, height, width)
    chroma = raw[:, height * width :].reshape(-1, _half(height), _half(width), 2)
    return torch.stack([luma, *(_double(plane, height, width) for plane in chroma.unbind(-1))], 1)


def _rgb48(raw: Tensor, height: int, width: int) -> Tensor:
    pixels = raw.view(torch.int16).reshape(-1, height, width, 3).permute(0, 3, 1, 2)
    # Upstream: 16 unsigned bits in int16, centred: 0 becomes -32768 and 65535 becomes 32767.
    return torch.bitwise_xor(pixels, -32768)


def _yuv420p10(raw: Tensor, height: int, width: int) -> Tensor:
    return _yuv420p(raw.view(torch.int16), height, width)


PIXEL_FORMATS: dict[str, PixelFormat] = {
    "rgb24": _packed(3),
    "bgr24": _packed(3),
    "rgba": _packed(4),
    "bgra": _packed(4),
    "argb": _packed(4),
    "abgr": _packed(4),
    "gray": _packed(1),
    "yuv444p": PixelFormat(lambda height, width: 3 * height * width, _planar),
    "yuv420p": PixelFormat(_size420, _yuv420p),
    "nv12": PixelFormat(_size420, _nv12),
    "rgb48le": PixelFormat(lambda height, width: 6 * height * width, _rgb48),
    "yuv420p10le": PixelFormat(lambda height, width: 2 * _size420(height, width), _yuv420p10),
}
_SAME = {"gray8": "gray", "yuvj420p": "yuv420p", "yuvj444p": "yuv444p"}


def pixel_format(name: str) -> PixelFormat:
    """How frames of a pixel format become tensors.

    Raises:
        MediaValueError: frames of this format have no tensor form.
    """
    found = PIXEL_FORMATS.get(_SAME.get(name, name))
    if found is None:
        raise MediaValueError(
            f"Frames of pixel format {name!r} have no tensor form; expected one of {', '.join(sorted(PIXEL_FORMATS))}. "
            "Convert with the filter `format=pix_fmts=rgb24`."
        )
    return found
