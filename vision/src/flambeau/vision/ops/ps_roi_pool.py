"""Position-sensitive region pooling: each bin is the mean of its pixels, from channels of its own (arXiv:1605.06409).

The native kernel is `native/ps_roi_pool.cpp`, the one for CUDA and XPU `_ps_roi_pool_triton.py`.
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

__all__ = ["PSRoIPool", "ps_roi_pool"]


@fx.wrap  # what it does depends on how regions are given
def ps_roi_pool(
    input: Tensor, boxes: Tensor | list[Tensor], output_size: int | Sequence[int], spatial_scale: float = 1.0
) -> Tensor:
    """Pool regions to the means of their bins, each bin from a channel of its own.

    With h x w bins, bin (i, j) of channel c reads channel (c * h + i) * w + j of `input`. Corners are rounded to whole
    pixels, of which the last is not of the region. Upstream: nor are the last row and the last column of the map of any
    region. Bins without a pixel are 0.

    Args:
        input: (N, C * h * w, H, W), float32, float64, or float16 and bfloat16, which are computed in float32.
        boxes: (K, 5), rows of image, x1, y1, x2, y2, in the dtype of `input`; or for each image a tensor (L, 4).
        output_size: height and width of the result, or one number for both.
        spatial_scale: pixels of `input` per unit of `boxes`; 1/16 for maps of a stride of 16.

    Returns:
        (K, C, *output_size), dtype and layout (channels last or not) of `input`. It has a gradient for `input`, none
        for `boxes`, and no second derivative.

    Raises:
        ValueError: `boxes` or `output_size` has a wrong shape.
        RuntimeError: wrong dtypes, tensors on different devices, channels that
            are no multiple of the number of bins, or a box names an image that is not there.

    Example:
        >>> maps = torch.arange(4.0).reshape(1, 4, 1, 1).expand(1, 4, 6, 6)
        >>> ps_roi_pool(maps, torch.tensor([[0.0, 1.0, 1.0, 5.0, 5.0]]), 2)
        tensor([[[[0., 1.],
                  [2., 3.]]]])

    References:
        Dai et al. 2016, arXiv:1605.06409, equation 1.
    """
    rois = _roi_pooling.rois_of("ps_roi_pool", boxes)
    high, wide = _roi_pooling.pair("ps_roi_pool", "output_size", output_size)
    results = torch.ops.flambeau_vision.ps_roi_pool(input, rois, spatial_scale, high, wide)
    return results[0]  # type: ignore[no-any-return]


class PSRoIPool(nn.Module):
    """`ps_roi_pool` with these arguments.

    Args:
        output_size: see `ps_roi_pool`.
        spatial_scale: see `ps_roi_pool`.
    """

    def __init__(self, output_size: int | Sequence[int], spatial_scale: float) -> None:
        super().__init__()
        self.output_size = output_size
        self.spatial_scale = spatial_scale

    def forward(self, input: Tensor, rois: Tensor | list[Tensor]) -> Tensor:
        """Pool regions of (N, C, H, W) maps."""
        return ps_roi_pool(input, rois, self.output_size, self.spatial_scale)

    def extra_repr(self) -> str:
        """The arguments."""
        return f"output_size={self.output_size}, spatial_scale={self.spatial_scale}"


_OP, _BACKWARD = "ps_roi_pool", "_ps_roi_pool_backward"


def _outputs(op: str, channels: int, bins: tuple[int, int]) -> int:
    """Channels of the result. The same sentence as `divides` in native/pooling.h."""
    if channels % (bins[0] * bins[1]):
        raise RuntimeError(f"{op}: input has {channels} channels, expected a multiple of {bins[0]} x {bins[1]} bins.")
    return channels // (bins[0] * bins[1])


def _channels(outputs: int, bins: tuple[int, int], device: torch.device) -> Tensor:
    """The channel that each bin reads, (outputs, *bins)."""
    return torch.arange(outputs * bins[0] * bins[1], device=device).view(outputs, *bins)


# --- shape-only twins -----------------------------------------------------------------------------


def _fake(
    input: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int
) -> tuple[Tensor, Tensor]:  # fmt: skip
    _roi_pooling.check(_OP, "input", input, rois, (high, wide))
    sizes = (rois.shape[0], _outputs(_OP, input.shape[1], (high, wide)), high, wide)
    return _roi_pooling.empty_maps(input, sizes), _roi_pooling.empty_maps(input, sizes, dtype=torch.int32)


def _fake_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, high: int, wide: int,
    images: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    _check_backward(grad, rois, channel_mapping, high, wide, channels)
    return _roi_pooling.empty_maps(grad, (images, channels, height, width))


def _check_backward(grad: Tensor, rois: Tensor, channel_mapping: Tensor, high: int, wide: int, channels: int) -> None:
    _roi_pooling.check(_BACKWARD, "grad", grad, rois, (high, wide))
    _roi_pooling.check_grad(_BACKWARD, grad, (rois.shape[0], _outputs(_BACKWARD, channels, (high, wide)), high, wide))
    _roi_pooling.check_second(_BACKWARD, grad, channel_mapping)


# --- reference ------------------------------------------------------------------------------------

# Numbers that a step of the reference works on.
_CHUNK = 2**22


def _inside(rois: Tensor, scale: float, bins: tuple[int, int], size: tuple[int, int]) -> Tensor:
    """Pixels of each bin, (K, bins, bins, height, width). Upstream: never the last row or column of the map."""
    left, top, right, bottom = to_pixel(rois[:, 1:] * scale).unbind(1)
    rows = inside(top, bottom - top, bins[0], size[0] - 1, size[0], rois.dtype)
    columns = inside(left, right - left, bins[1], size[1] - 1, size[1], rois.dtype)
    return rows[:, :, None, :, None] & columns[:, None, :, None, :]


def _reference(
    input: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int
) -> tuple[Tensor, Tensor]:  # fmt: skip
    pooled, mapping = _fake(input, rois, spatial_scale, high, wide)
    _roi_pooling.check_images(_OP, rois, input.shape[0])
    mapping.copy_(_channels(pooled.shape[1], (high, wide), input.device))
    wanted = rois.to(_roi_pooling.COMPUTE_DTYPE[input.dtype])
    if not pooled.numel():
        return pooled, mapping
    maps = torch.unflatten(input, 1, (-1, high, wide))
    take = max(1, _CHUNK // max(1, input[0:1].numel()))
    for some, into in zip(_roi_pooling.split(wanted, take), _roi_pooling.split(pooled, take), strict=True):
        mask = _inside(some, spatial_scale, (high, wide), (input.shape[2], input.shape[3]))
        total = torch.where(mask[:, None], maps[some[:, 0].to(torch.int64)].to(wanted.dtype), 0).sum((4, 5))
        into.copy_(total / mask.sum((3, 4)).clamp(min=1)[:, None])
    return pooled, mapping


def _reference_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, high: int, wide: int,
    images: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    _check_backward(grad, rois, channel_mapping, high, wide, channels)
    _roi_pooling.check_images(_BACKWARD, rois, images)
    wanted = rois.to(_roi_pooling.COMPUTE_DTYPE[grad.dtype])
    maps = torch.zeros(images, channels, height, width, dtype=wanted.dtype, device=grad.device)
    take = max(1, _CHUNK // max(1, channels * height * width))
    for some, share in zip(_roi_pooling.split(wanted, take), _roi_pooling.split(grad, take), strict=True):
        mask = _inside(some, spatial_scale, (high, wide), (height, width))
        flow = share.to(maps.dtype) / mask.sum((3, 4)).clamp(min=1)[:, None]
        maps.index_add_(0, some[:, 0].to(torch.int64), (flow[..., None, None] * mask[:, None]).flatten(1, 3))
    return _roi_pooling.as_layout_of(maps, grad)


# --- native kernel through ctypes -----------------------------------------------------------------


def _native(
    input: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int
) -> tuple[Tensor, Tensor]:  # fmt: skip
    pooled, channel_mapping = _fake(input, rois, spatial_scale, high, wide)
    last = _roi_pooling.is_channels_last(input)
    tensors = (_roi_pooling.as_layout_of(input, input), pooled, channel_mapping)
    _roi_pooling.call_native(
        _OP, "ps_roi_pool", rois, tensors, sizes=input.shape, bins=(high, wide), scale=spatial_scale,
        channels_last=last, pooled_last=last,
    )  # fmt: skip
    return pooled, channel_mapping


def _native_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, high: int, wide: int,
    images: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    _check_backward(grad, rois, channel_mapping, high, wide, channels)
    maps = _roi_pooling.empty_maps(grad, (images, channels, height, width))
    last = _roi_pooling.is_channels_last(grad)
    tensors = (_roi_pooling.as_layout_of(grad, grad), maps)
    _roi_pooling.call_native(
        _BACKWARD, "ps_roi_pool_backward", rois, tensors, sizes=maps.shape, bins=(high, wide), scale=spatial_scale,
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
        maps = torch.ops.flambeau_vision._ps_roi_pool_backward(grad, *ctx.saved_tensors, *ctx.arguments, *ctx.sizes)
    return (maps, *(None,) * 4)


# --- registration ---------------------------------------------------------------------------------

register_op(
    "_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    "SymInt pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, "
    "SymInt width) -> Tensor",
    library=LIBRARY,
    symbol=_native_backward,
    fake=_fake_backward,
    python=_reference_backward,
    triton="flambeau.vision.ops._ps_roi_pool_triton:ps_roi_pool_backward",
    backward=_roi_pooling.no_second_derivative(_OP),
)
register_op(
    "ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
    "-> (Tensor, Tensor)",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=_reference,
    triton="flambeau.vision.ops._ps_roi_pool_triton:ps_roi_pool",
    backward=_gradient,
    setup_context=_keep,
    autocast=torch.float32,
)
