"""Blurring, sharpening and noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, constant_pad_nd
from torch.nn.functional import conv2d

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors
from flambeau.vision.ops import _blur as kernels
from flambeau.vision.ops._color import recolored, serves
from flambeau.vision.transforms.v2.functional._dtype import max_value
from flambeau.vision.transforms.v2.functional._pad import extended
from flambeau.vision.transforms.v2.functional._value_range import narrowed, widened

if TYPE_CHECKING:
    from PIL import Image


@functional(fallback=False)
def gaussian_blur(
    inpt: Tensor, kernel_size: Sequence[int] | int, sigma: Sequence[float] | float | None = None
) -> Tensor:
    """Blur with a Gaussian; beyond the edges the picture is continued by its mirror image.

    Args:
        inpt: [..., C, H, W] of any dtype and number of channels, a video, or a PIL image.
        kernel_size: (width, height) of the kernel, odd; or one number for both.
        sigma: standard deviations (x, y) in pixels, > 0; or one number for both. None is 0.15 * size + 0.35.

    Returns:
        Same shape and dtype, integers rounded.

    Raises:
        ValueError: a size is not odd and positive, a deviation is not positive, or there is another number of either.
    """
    return gaussian_blur_image(inpt, kernel_size, sigma)


@register_kernel(gaussian_blur, tv_tensors.Image)
def gaussian_blur_image(
    image: Tensor, kernel_size: Sequence[int] | int, sigma: Sequence[float] | float | None = None
) -> Tensor:
    """`gaussian_blur` of a tensor."""
    (width, height), (sigma_x, sigma_y) = _sizes(kernel_size), _deviations(kernel_size, sigma)
    if image.numel() == 0:
        return image
    if serves(image) and width // 2 < image.shape[-1] and height // 2 < image.shape[-2]:
        like = image.new_empty((), dtype=torch.float32)
        flat = image.reshape(-1, *image.shape[-3:])
        row, column = _gaussian(width, sigma_x, like), _gaussian(height, sigma_y, like)
        return kernels.blur(flat, row, column).reshape(image.shape)
    values = _computable(image)
    values = extended(values, (width // 2, height // 2, width // 2, height // 2), "reflect")
    planes = values.reshape(-1, 1, *values.shape[-2:])
    # The kernel is a product: a row, then a column, cost less than both at once.
    planes = conv2d(planes, _gaussian(width, sigma_x, values).view(1, 1, 1, -1))
    planes = conv2d(planes, _gaussian(height, sigma_y, values).view(1, 1, -1, 1))
    planes = planes.reshape(image.shape)
    return planes.to(image.dtype) if image.is_floating_point() else narrowed(planes.round(), image.dtype)


@register_kernel(gaussian_blur, tv_tensors.Video)
def gaussian_blur_video(
    video: Tensor, kernel_size: Sequence[int] | int, sigma: Sequence[float] | float | None = None
) -> Tensor:
    """`gaussian_blur` of a video, each frame on its own."""
    return gaussian_blur_image(video, kernel_size, sigma)


@register_kernel(gaussian_blur, "PIL.Image:Image")
def _gaussian_blur_image_pil(
    image: Image.Image, kernel_size: Sequence[int] | int, sigma: Sequence[float] | float | None = None
) -> Image.Image:
    from flambeau.vision.transforms.v2.functional._pil import same_mode

    return same_mode(image, lambda tensor: gaussian_blur_image(tensor, kernel_size, sigma))


def _gaussian(size: int, sigma: float, like: Tensor) -> Tensor:
    reach = (size - 1) / 2
    x = torch.linspace(-reach, reach, size, dtype=like.dtype, device=like.device)
    return (-0.5 * (x / sigma) ** 2).softmax(0)


def _sizes(kernel_size: Sequence[int] | int) -> tuple[int, int]:
    sizes = [kernel_size] if isinstance(kernel_size, int) else list(kernel_size)
    if len(sizes) not in (1, 2) or any(size <= 0 or size % 2 == 0 for size in sizes):
        raise ValueError(f"gaussian_blur: kernel_size is {kernel_size!r}, expected one or two odd positive numbers.")
    return sizes[0], sizes[-1]


def _deviations(kernel_size: Sequence[int] | int, sigma: Sequence[float] | float | None) -> tuple[float, float]:
    if sigma is None:
        width, height = _sizes(kernel_size)
        return width * 0.15 + 0.35, height * 0.15 + 0.35
    sigmas = [sigma] if isinstance(sigma, (int, float)) else list(sigma)
    if len(sigmas) not in (1, 2) or any(value <= 0 for value in sigmas):
        raise ValueError(f"gaussian_blur: sigma is {sigma!r}, expected one or two positive numbers.")
    return float(sigmas[0]), float(sigmas[-1])


def _computable(image: Tensor) -> Tensor:
    """An image in a dtype that convolutions of any device know."""
    values = widened(image)
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


@functional(fallback=False)
def adjust_sharpness(inpt: Tensor, sharpness_factor: float) -> Tensor:
    """Make a picture sharper or softer: blend with its smoothed version.

    Args:
        inpt: [..., C, H, W] of any dtype and number of channels, a video, or a PIL image.
        sharpness_factor: 0 is the image smoothed by (1 1 1; 1 5 1; 1 1 1) / 13, 1 changes nothing, 2 sharpens.

    Returns:
        Same shape and dtype, values between 0 and full intensity. The outermost pixels stay as they are, and so do
        images with a side of 2 or less. Differentiable.

    Raises:
        ValueError: the factor is negative.
    """
    return adjust_sharpness_image(inpt, sharpness_factor)


@register_kernel(adjust_sharpness, tv_tensors.Image)
def adjust_sharpness_image(image: Tensor, sharpness_factor: float) -> Tensor:
    """`adjust_sharpness` of a tensor."""
    _check_factor(sharpness_factor)
    height, width = image.shape[-2:]
    if image.numel() == 0 or height <= 2 or width <= 2:
        return image
    return recolored("sharpness", image, sharpness_factor) if serves(image) else sharpened(image, sharpness_factor)


def sharpened(image: Tensor, factor: float) -> Tensor:
    """The formula."""
    height, width = image.shape[-2:]
    values = _computable(image)
    kernel = values.new_full((1, 1, 3, 3), 1 / 13)
    kernel[..., 1, 1] = 5 / 13
    smooth = conv2d(values.reshape(-1, 1, height, width), kernel).reshape(*values.shape[:-2], height - 2, width - 2)
    if not image.is_floating_point():
        smooth = smooth.round()
    difference = (smooth - values[..., 1:-1, 1:-1]) * (1.0 - factor)
    return narrowed(values + constant_pad_nd(difference, [1, 1, 1, 1]), image.dtype)


@register_kernel(adjust_sharpness, tv_tensors.Video)
def adjust_sharpness_video(video: Tensor, sharpness_factor: float) -> Tensor:
    """`adjust_sharpness` of a video, each frame on its own."""
    return adjust_sharpness_image(video, sharpness_factor)


@register_kernel(adjust_sharpness, "PIL.Image:Image")
def _adjust_sharpness_image_pil(image: Image.Image, sharpness_factor: float) -> Image.Image:
    from PIL import ImageEnhance

    from flambeau.vision.transforms.v2.functional import _pil_tones

    return _pil_tones.sharpness(image, sharpness_factor) or ImageEnhance.Sharpness(image).enhance(sharpness_factor)


def _check_factor(sharpness_factor: float) -> None:
    if sharpness_factor < 0:
        raise ValueError(
            f"adjust_sharpness: sharpness_factor is {sharpness_factor}, expected a number that is not negative."
        )


@functional(fallback=False)
def gaussian_noise(inpt: Tensor, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> Tensor:
    """Add normally distributed noise, drawn from torch's default generator.

    Args:
        inpt: [..., C, H, W], floating point from 0 to 1, or uint8; or a video.
        mean: of the noise, as part of full intensity.
        sigma: its standard deviation, as part of full intensity; >= 0.
        clip: keep floating point within [0, 1]. uint8 always stays within its range.

    Returns:
        Same shape and dtype. Noise of uint8 is truncated to whole levels.

    Raises:
        ValueError: sigma is negative, or the image is of other integers or a PIL image.
    """
    return gaussian_noise_image(inpt, mean, sigma, clip)


@register_kernel(gaussian_noise, tv_tensors.Image)
def gaussian_noise_image(image: Tensor, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> Tensor:
    """`gaussian_noise` of a tensor."""
    if sigma < 0:
        raise ValueError(f"gaussian_noise: sigma is {sigma}, expected a number that is not negative.")
    if not (image.is_floating_point() or image.dtype == torch.uint8):
        raise ValueError(
            f"gaussian_noise: the image is of {image.dtype}, expected uint8 or floating point; convert it with "
            "to_dtype(..., torch.float32, scale=True)."
        )
    values = widened(image)
    noise = torch.randn_like(values) * sigma + mean
    if image.is_floating_point():
        return (image + noise).clamp(0, 1) if clip else image + noise
    return narrowed(values + (noise * max_value(image.dtype)).trunc(), image.dtype)


@register_kernel(gaussian_noise, tv_tensors.Video)
def gaussian_noise_video(video: Tensor, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> Tensor:
    """`gaussian_noise` of a video."""
    return gaussian_noise_image(video, mean, sigma, clip)


@register_kernel(gaussian_noise, "PIL.Image:Image")
def _gaussian_noise_image_pil(
    image: Image.Image, mean: float = 0.0, sigma: float = 0.1, clip: bool = True
) -> Image.Image:
    raise ValueError("gaussian_noise: PIL images cannot take it; make a tensor of the image first, with to_image.")
