"""Functionals of images that are files still: what cuts waits with decoding, all else begins with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import Tensor

from flambeau.core.tensors import register_kernel
from flambeau.vision.transforms._interpolation import InterpolationMode
from flambeau.vision.transforms.v2.functional._crop import center_crop, crop, middle, pair, resized_crop
from flambeau.vision.transforms.v2.functional._meta import get_dimensions, get_num_channels, get_size
from flambeau.vision.transforms.v2.functional._resize import resize, resized_size
from flambeau.vision.tv_tensors import EncodedImage, Image


@register_kernel(get_dimensions, EncodedImage, wrap=False)
def _get_dimensions_encoded(image: EncodedImage) -> list[int]:
    return [image.channels, *image.canvas_size]


@register_kernel(get_size, EncodedImage, wrap=False)
def _get_size_encoded(image: EncodedImage) -> list[int]:
    return list(image.canvas_size)


@register_kernel(get_num_channels, EncodedImage, wrap=False)
def _get_num_channels_encoded(image: EncodedImage) -> int:
    return image.channels


@register_kernel(crop, EncodedImage, wrap=False)
def _crop_encoded(image: EncodedImage, top: int, left: int, height: int, width: int) -> Tensor:
    full_height, full_width = image.canvas_size
    if 0 <= top <= full_height - height and 0 <= left <= full_width - width and height > 0 and width > 0:
        return image.crop(top, left, height, width)
    return crop(image.decode(), top, left, height, width)


@register_kernel(center_crop, EncodedImage, wrap=False)
def _center_crop_encoded(image: EncodedImage, output_size: Sequence[int] | int) -> Tensor:
    height, width = pair(output_size)
    return _crop_encoded(image, *middle(*image.canvas_size, height, width), height, width)


@register_kernel(resize, EncodedImage, wrap=False)
def _resize_encoded(
    image: EncodedImage,
    size: Sequence[int] | int | None,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Tensor:
    if not image.draft:
        return resize(image.decode(), size, interpolation, max_size, antialias)
    wanted = resized_size(image.canvas_size, size, max_size)
    return resize(Image(image.levels(least=wanted)), list(wanted), interpolation, None, antialias)


@register_kernel(resized_crop, EncodedImage, wrap=False)
def _resized_crop_encoded(
    image: EncodedImage,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Sequence[int],
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Tensor:
    return resize(_crop_encoded(image, top, left, height, width), size, interpolation, None, antialias)


def decode_first(functionals: Iterable[Callable[..., Any]]) -> None:
    """Let the functionals of images decode one that is a file still, unless they have a kernel for it above."""
    for functional in functionals:
        kernels = getattr(functional, "__kernels__", None)
        if kernels is not None and Image in kernels.registered and EncodedImage not in kernels.registered:
            register_kernel(functional, EncodedImage, wrap=False)(_decoding(functional))


def _decoding(functional: Callable[..., Any]) -> Callable[..., Any]:
    def decoded(image: EncodedImage, *args: Any, **kwargs: Any) -> Any:
        return functional(image.decode(), *args, **kwargs)

    return decoded
