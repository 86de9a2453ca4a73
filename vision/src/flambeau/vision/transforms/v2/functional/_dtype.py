"""Element types and the values they stand for."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors
from flambeau.vision.ops._color import serves
from flambeau.vision.ops._resize import scale_levels

# Bits that hold a value's magnitude: the largest value of the dtype is 2**bits - 1.
_VALUE_BITS = {
    torch.uint8: 8,
    torch.int8: 7,
    torch.uint16: 16,
    torch.int16: 15,
    torch.int32: 31,
    torch.int64: 63,
}


def max_value(dtype: torch.dtype) -> int:
    """The value that stands for full intensity: the largest one of an integer dtype, 1 for floating point and bool."""
    return 2 ** _VALUE_BITS[dtype] - 1 if dtype in _VALUE_BITS else 1


@functional(fallback=False)
def to_dtype(inpt: Tensor, dtype: torch.dtype = torch.float32, scale: bool = False) -> Tensor:
    """Change an image's dtype.

    Args:
        inpt: a tensor of any shape, or any of our tensor types. Of masks, boxes and key points values are never scaled.
        dtype: the new element type.
        scale: also map full intensity to full intensity: 255 for uint8 to 1.0 for floating point, 65535 for uint16,
            and so on. Without it, values are cast as they are.

    Returns:
        Same shape. The tensor itself where it has the dtype already.
        Floating point to integers truncates value * (max + 0.999), so that each integer stands for an interval of the
        same length; integers to integers shift bits.

    Raises:
        RuntimeError: `scale` from float32 to int32 or int64, or from float64 to int64, which cannot hold the
            largest value exactly.
    """
    return to_dtype_image(inpt, dtype, scale)


@register_kernel(to_dtype, tv_tensors.Image)
def to_dtype_image(image: Tensor, dtype: torch.dtype = torch.float32, scale: bool = False) -> Tensor:
    """`to_dtype` of a tensor."""
    if image.dtype == dtype:
        return image
    if not scale:
        return image.to(dtype)
    if image.is_floating_point():
        return image.to(dtype) if dtype.is_floating_point else _quantized(image, dtype)
    if dtype.is_floating_point:
        if image.dtype == torch.uint8 and dtype == torch.float32 and serves(image):
            return scale_levels(image)
        # Upstream: a division, whose last bit differs from a multiplication by the reciprocal.
        return image.to(dtype).div_(max_value(image.dtype))
    return _shifted(image, dtype)


@register_kernel(to_dtype, tv_tensors.Video)
def to_dtype_video(video: Tensor, dtype: torch.dtype = torch.float32, scale: bool = False) -> Tensor:
    """`to_dtype` of a video."""
    return to_dtype_image(video, dtype, scale)


@register_kernel(to_dtype, tv_tensors.BoundingBoxes)
@register_kernel(to_dtype, tv_tensors.KeyPoints)
@register_kernel(to_dtype, tv_tensors.Mask)
def _to_dtype_unscaled(inpt: Tensor, dtype: torch.dtype = torch.float32, scale: bool = False) -> Tensor:
    return inpt.to(dtype)  # places and classes have no intensity to scale


def _quantized(image: Tensor, dtype: torch.dtype) -> Tensor:
    if (image.dtype == torch.float32 and dtype in (torch.int32, torch.int64)) or (
        image.dtype == torch.float64 and dtype == torch.int64
    ):
        raise RuntimeError(
            f"The conversion from {image.dtype} to {dtype} cannot be exact; convert to torch.float64 first, or to a "
            "smaller integer dtype."
        )
    # Near the largest value, neighbouring numbers of the product must lie closer than what is taken from the factor,
    # or full intensity is rounded up and wraps around to 0: in 16 bits of floating point always, in 32 for uint16.
    exact = image.float() if image.dtype in (torch.float16, torch.bfloat16) else image
    less = 2**-7 if dtype == torch.uint16 else 1e-3
    return exact.mul(max_value(dtype) + 1.0 - less).to(dtype)


def _shifted(image: Tensor, dtype: torch.dtype) -> Tensor:
    shift = _VALUE_BITS.get(dtype, 0) - _VALUE_BITS.get(image.dtype, 0)
    work = image.to(torch.int64) if torch.uint16 in (image.dtype, dtype) else image  # torch shifts no uint16
    if shift >= 0:
        return work.to(torch.int64 if dtype == torch.uint16 else dtype).bitwise_left_shift(shift).to(dtype)
    return work.bitwise_right_shift(-shift).to(dtype)


def convert_image_dtype(image: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Change an image's dtype and scale its values; `to_dtype` with `scale=True`, under the name of v1."""
    if isinstance(image, tv_tensors.EncodedImage):
        image = image.decode()
    return to_dtype_image(image, dtype=dtype, scale=True)
