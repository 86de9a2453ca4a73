"""Region pooling: each bin of a region is the largest of its pixels (arXiv:1504.08083).

The native kernel is `native/roi_pool.cpp`, the one for CUDA and XPU `_roi_pool_triton.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from flambeau.core.native import register_op
from flambeau.vision.ops import _roi_pooling
from flambeau.vision.ops._library import LIBRARY
from flambeau.vision.ops._roi_bins import inside, to_pixel

__all__ = ["RoIPool", "roi_pool"]


@fx.wrap  # what it does depends on how regions are given
def roi_pool(
    input: Tensor, boxes: Tensor | list[Tensor], output_size: int | Sequence[int], spatial_scale: float = 1.0
) -> Tensor:
    """Pool regions of feature maps to one size, taking the largest pixel of each bin.

    Corners are rounded to whole pixels, and both are of the region. Bins that lie outside the map are 0; NaN counts as
    largest.

    Args:
        input: (N, C, H, W), float32, float64, or float16 and bfloat16, which are computed in float32.
        boxes: (K, 5), rows of image, x1, y1, x2, y2, in the dtype of `input`; or for each image a tensor (L, 4).
        output_size: height and width of the result, or one number for both.
        spatial_scale: pixels of `input` per unit of `boxes`; 1/16 for maps of a stride of 16.

    Returns:
        (K, C, *output_size), dtype and layout (channels last or not) of `input`. It has a gradient for `input`, none
        for `boxes`, and no second derivative.

    Raises:
        ValueError: `boxes` or `output_size` has a wrong shape.
        RuntimeError: wrong dtypes, tensors on different devices, or a box names an image that is not there.

    Example:
        >>> ramp = torch.arange(16.0).reshape(1, 1, 4, 4)
        >>> roi_pool(ramp, torch.tensor([[0.0, 0.0, 0.0, 3.0, 3.0]]), 2)
        tensor([[[[ 5.,  7.],
                  [13., 15.]]]])

    References:
        Girshick 2015, arXiv:1504.08083, section 2.1.
    """
    rois = _roi_pooling.rois_of("roi_pool", boxes)
    high, wide = _roi_pooling.pair("roi_pool", "output_size", output_size)
    return torch.ops.flambeau_vision.roi_pool(input, rois, spatial_scale, high, wide)[0]  # type: ignore[no-any-return]


class RoIPool(nn.Module):
    """`roi_pool` with these arguments.

    Args:
        output_size: see `roi_pool`.
        spatial_scale: see `roi_pool`.
    """

    def __init__(self, output_size: int | Sequence[int], spatial_scale: float) -> None:
        super().__init__()
        self.output_size = output_size
        self.spatial_scale = spatial_scale

    def forward(self, input: Tensor, rois: Tensor | list[Tensor]) -> Tensor:
        """Pool regions of (N, C, H, W) maps."""
        return roi_pool(input, rois, self.output_size, self.spatial_scale)

    def extra_repr(self) -> str:
        """The arguments."""
        return f"output_size={self.output_size}, spatial_scale={self.spatial_scale}"


_OP, _BACKWARD = "roi_pool", "_roi_pool_backward"

# --- shape-only twins -----------------------------------------------------------------------------


def _fake(
    input: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int
) -> tuple[Tensor, Tensor]:  # fmt: skip
    _roi_pooling.check(_OP, "input", input, rois, (high, wide))
    sizes = (rois.shape[0], input.shape[1], high, wide)
    return _roi_pooling.empty_maps(input, sizes), _roi_pooling.empty_maps(input, sizes, dtype=torch.int32)


def _fake_backward(
    grad: Tensor, rois: Tensor, argmax: Tensor, spatial_scale: float, high: int, wide: int,
    images: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    _check_backward(grad, rois, argmax, high, wide, channels)
    return _roi_pooling.empty_maps(grad, (images, channels, height, width))


def _check_backward(grad: Tensor, rois: Tensor, argmax: Tensor, high: int, wide: int, channels: int) -> None:
    _roi_pooling.check(_BACKWARD, "grad", grad, rois, (high, wide))
    _roi_pooling.check_grad(_BACKWARD, grad, (rois.shape[0], channels, high, wide))
    _roi_pooling.check_second(_BACKWARD, grad, argmax)


# --- reference ------------------------------------------------------------------------------------

# Numbers that a step of the reference works on.
_CHUNK = 2**22


def _masks(
    rois: Tensor, scale: float, bins: tuple[int, int], size: tuple[int, int]
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Pixels of each bin, (K, bins, size) for rows and for columns."""
    left, top, right, bottom = to_pixel(rois[:, 1:] * scale).unbind(1)
    return (
        inside(top, bottom - top + 1, bins[0], size[0], size[0], rois.dtype),
        inside(left, right - left + 1, bins[1], size[1], size[1], rois.dtype),
    )


def _reference(
    input: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int
) -> tuple[Tensor, Tensor]:  # fmt: skip
    pooled, argmax = _fake(input, rois, spatial_scale, high, wide)
    _roi_pooling.check_images(_OP, rois, input.shape[0])
    if not input[0:1, 0:1].numel():
        return pooled.zero_(), argmax.fill_(-1)
    wanted, size = rois.to(_roi_pooling.COMPUTE_DTYPE[input.dtype]), (input.shape[2], input.shape[3])
    take = max(1, _CHUNK // input[0].numel())
    parts = zip(*(_roi_pooling.split(each, take) for each in (wanted, pooled, argmax)), strict=True)
    for some, values, places in parts:
        rows, columns = _masks(some, spatial_scale, (high, wide), size)
        maps = input[some[:, 0].to(torch.int64)]
        for i in range(high):
            for j in range(wide):
                mask = (rows[:, i, :, None] & columns[:, j, None, :]).flatten(1)[:, None]
                largest, at = torch.where(mask, maps.flatten(2), -torch.inf).max(2)
                # Where all are -inf, the first of the bin and not the first of the map.
                at = torch.where(largest == -torch.inf, mask.int().argmax(2), at)
                there = mask.any(2)
                values[:, :, i, j] = torch.where(there, largest, 0)
                places[:, :, i, j] = torch.where(there, at, -1).to(torch.int32)
    return pooled, argmax


def _reference_backward(
    grad: Tensor, rois: Tensor, argmax: Tensor, spatial_scale: float, high: int, wide: int,
    images: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    _check_backward(grad, rois, argmax, high, wide, channels)
    _roi_pooling.check_images(_BACKWARD, rois, images)
    maps = torch.zeros(
        images, channels, height * width, dtype=_roi_pooling.COMPUTE_DTYPE[grad.dtype], device=grad.device
    )
    if maps.numel():
        image = rois[:, 0].to(torch.int64)[:, None, None]
        channel = torch.arange(channels, device=grad.device)[:, None]
        at = argmax.flatten(2).to(torch.int64)
        flow = torch.where(at >= 0, grad.flatten(2).to(maps.dtype), 0)
        maps.index_put_((image, channel, at.clamp(min=0)), flow, accumulate=True)
    return _roi_pooling.as_layout_of(maps.view(images, channels, height, width), grad)


# --- native kernel through ctypes -----------------------------------------------------------------


def _native(
    input: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int
) -> tuple[Tensor, Tensor]:  # fmt: skip
    pooled, argmax = _fake(input, rois, spatial_scale, high, wide)
    last = _roi_pooling.is_channels_last(input)
    tensors = (_roi_pooling.as_layout_of(input, input), pooled, argmax)
    _roi_pooling.call_native(
        _OP, "roi_pool", rois, tensors, sizes=input.shape, bins=(high, wide), scale=spatial_scale, channels_last=last,
        pooled_last=last,
    )  # fmt: skip
    return pooled, argmax


def _native_backward(
    grad: Tensor, rois: Tensor, argmax: Tensor, spatial_scale: float, high: int, wide: int,
    images: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    _check_backward(grad, rois, argmax, high, wide, channels)
    maps = _roi_pooling.empty_maps(grad, (images, channels, height, width))
    last = _roi_pooling.is_channels_last(grad)
    tensors = (_roi_pooling.as_layout_of(grad, grad), _roi_pooling.in_layout_of(argmax, grad), maps)
    _roi_pooling.call_native(
        _BACKWARD, "roi_pool_backward", rois, tensors, sizes=maps.shape, bins=(high, wide), scale=spatial_scale,
        channels_last=last, pooled_last=last,
    )  # fmt: skip
    return maps


# --- gradient -------------------------------------------------------------------------------------


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    input, rois, *ctx.arguments = inputs
    ctx.save_for_backward(rois, output[1])
    ctx.sizes = input.shape


def _gradient(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:
    maps = None
    if ctx.needs_input_grad[0] and 0 in ctx.sizes:
        maps = grad.new_zeros(ctx.sizes)
    elif ctx.needs_input_grad[0]:
        maps = torch.ops.flambeau_vision._roi_pool_backward(grad, *ctx.saved_tensors, *ctx.arguments, *ctx.sizes)
    return (maps, *(None,) * 4)


# --- registration ---------------------------------------------------------------------------------

register_op(
    "_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) -> Tensor",
    library=LIBRARY,
    symbol=_native_backward,
    fake=_fake_backward,
    python=_reference_backward,
    triton="flambeau.vision.ops._roi_pool_triton:roi_pool_backward",
    backward=_roi_pooling.no_second_derivative(_OP),
)
register_op(
    "roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
    "-> (Tensor, Tensor)",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=_reference,
    triton="flambeau.vision.ops._roi_pool_triton:roi_pool",
    backward=_gradient,
    setup_context=_keep,
    autocast=torch.float32,
)
