"""Position-sensitive region align: the means of `roi_align`, each bin from channels of its own (arXiv:1605.06409).

The native kernel is `native/ps_roi_align.cpp`, the one for CUDA and XPU `_ps_roi_align_triton.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from flambeau.core.native import register_op
from flambeau.vision.ops import _roi_pooling
from flambeau.vision.ops._library import LIBRARY
from flambeau.vision.ops._roi_samples import Line, corners, line

__all__ = ["PSRoIAlign", "ps_roi_align"]


@fx.wrap  # what it does depends on how regions are given
def ps_roi_align(
    input: Tensor,
    boxes: Tensor | list[Tensor],
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
) -> Tensor:
    """Pool regions as `roi_align` with `aligned`, each bin from a channel of its own.

    With h x w bins, bin (i, j) of channel c reads channel (c * h + i) * w + j of `input`.

    Args:
        input: (N, C * h * w, H, W), float32, float64, or float16 and bfloat16, which are computed in float32.
        boxes: (K, 5), rows of image, x1, y1, x2, y2, in the dtype of `input`; or for each image a tensor (L, 4).
        output_size: height and width of the result, or one number for both.
        spatial_scale: pixels of `input` per unit of `boxes`; 1/16 for maps of a stride of 16.
        sampling_ratio: samples per bin and direction; where not positive, the size of the bin in pixels, rounded up.

    Returns:
        (K, C, *output_size), dtype and layout (channels last or not) of `input`. It has a gradient for `input`, none
        for `boxes`, and no second derivative.

    Raises:
        ValueError: `boxes` or `output_size` has a wrong shape.
        RuntimeError: wrong dtypes, tensors on different devices, channels that
            are no multiple of the number of bins, or a box names an image that is not there.

    Example:
        >>> maps = torch.arange(4.0).reshape(1, 4, 1, 1).expand(1, 4, 6, 6)
        >>> ps_roi_align(maps, torch.tensor([[0.0, 1.0, 1.0, 5.0, 5.0]]), 2)
        tensor([[[[0., 1.],
                  [2., 3.]]]])

    References:
        Dai et al. 2016, arXiv:1605.06409, equation 1; samples as in He et al. 2017, arXiv:1703.06870.
    """
    rois = _roi_pooling.rois_of("ps_roi_align", boxes)
    high, wide = _roi_pooling.pair("ps_roi_align", "output_size", output_size)
    results = torch.ops.flambeau_vision.ps_roi_align(input, rois, spatial_scale, high, wide, sampling_ratio)
    return results[0]  # type: ignore[no-any-return]


class PSRoIAlign(nn.Module):
    """`ps_roi_align` with these arguments.

    Args:
        output_size: see `ps_roi_align`.
        spatial_scale: see `ps_roi_align`.
        sampling_ratio: see `ps_roi_align`.
    """

    def __init__(self, output_size: int | Sequence[int], spatial_scale: float, sampling_ratio: int) -> None:
        super().__init__()
        self.output_size = output_size
        self.spatial_scale = spatial_scale
        self.sampling_ratio = sampling_ratio

    def forward(self, input: Tensor, rois: Tensor | list[Tensor]) -> Tensor:
        """Pool regions of (N, C, H, W) maps."""
        return ps_roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio)

    def extra_repr(self) -> str:
        """The arguments."""
        return (
            f"output_size={self.output_size}, spatial_scale={self.spatial_scale}, sampling_ratio={self.sampling_ratio}"
        )


_OP, _BACKWARD = "ps_roi_align", "_ps_roi_align_backward"


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
    input: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int, sampling_ratio: int
) -> tuple[Tensor, Tensor]:  # fmt: skip
    _roi_pooling.check(_OP, "input", input, rois, (high, wide))
    sizes = (rois.shape[0], _outputs(_OP, input.shape[1], (high, wide)), high, wide)
    return _roi_pooling.empty_maps(input, sizes), _roi_pooling.empty_maps(input, sizes, dtype=torch.int32)


def _fake_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, high: int, wide: int,
    sampling_ratio: int, images: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    _check_backward(grad, rois, channel_mapping, high, wide, channels)
    return _roi_pooling.empty_maps(grad, (images, channels, height, width))


def _check_backward(grad: Tensor, rois: Tensor, channel_mapping: Tensor, high: int, wide: int, channels: int) -> None:
    _roi_pooling.check(_BACKWARD, "grad", grad, rois, (high, wide))
    _roi_pooling.check_grad(_BACKWARD, grad, (rois.shape[0], _outputs(_BACKWARD, channels, (high, wide)), high, wide))
    _roi_pooling.check_second(_BACKWARD, grad, channel_mapping)


# --- reference ------------------------------------------------------------------------------------


def _lines(
    rois: Tensor, scale: float, bins: tuple[int, int], sampling_ratio: int, size: tuple[int, int]
) -> tuple[Line, Line]:  # fmt: skip
    """Rows and columns of the samples."""
    return (
        line(
            rois[:, 2], rois[:, 4], scale=scale, aligned=True, bins=bins[0], sampling_ratio=sampling_ratio, size=size[0]
        ),
        line(
            rois[:, 1], rois[:, 3], scale=scale, aligned=True, bins=bins[1], sampling_ratio=sampling_ratio, size=size[1]
        ),
    )


def _reference(
    input: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int, sampling_ratio: int
) -> tuple[Tensor, Tensor]:  # fmt: skip
    pooled, mapping = _fake(input, rois, spatial_scale, high, wide, sampling_ratio)
    _roi_pooling.check_images(_OP, rois, input.shape[0])
    channels = _channels(pooled.shape[1], (high, wide), input.device)
    mapping.copy_(channels)
    size = (input.shape[2], input.shape[3])
    if not size[0] * size[1]:
        return pooled.zero_(), mapping
    maps, wanted = input.permute(0, 2, 3, 1), rois.to(_roi_pooling.COMPUTE_DTYPE[input.dtype])
    channel = channels.permute(1, 2, 0)[:, None, :, None]
    # One region at a time: they differ in their number of samples.
    for some, into in zip(_roi_pooling.split(wanted, 1), _roi_pooling.split(pooled, 1), strict=True):
        rows, columns = _lines(some, spatial_scale, (high, wide), sampling_ratio, size)
        image = some[:, 0].to(torch.int64).view(-1, 1, 1, 1, 1, 1)
        total = wanted.new_zeros(())
        for row, column, weight in corners(rows, columns):
            value = maps[image, row[..., None], column[..., None], channel].to(wanted.dtype)
            total = total + torch.where(weight[..., None] != 0, value * weight[..., None], 0).sum((2, 4))
        into.copy_(total.permute(0, 3, 1, 2))
    return pooled, mapping


def _reference_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, high: int, wide: int,
    sampling_ratio: int, images: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    _check_backward(grad, rois, channel_mapping, high, wide, channels)
    _roi_pooling.check_images(_BACKWARD, rois, images)
    wanted = rois.to(_roi_pooling.COMPUTE_DTYPE[grad.dtype])
    maps = torch.zeros(images, height, width, channels, dtype=wanted.dtype, device=grad.device)
    channel = _channels(grad.shape[1], (high, wide), grad.device).permute(1, 2, 0)[:, None, :, None]
    for some, share in (
        zip(_roi_pooling.split(wanted, 1), _roi_pooling.split(grad, 1), strict=True) if maps.numel() else ()
    ):
        rows, columns = _lines(some, spatial_scale, (high, wide), sampling_ratio, (height, width))
        image = some[:, 0].to(torch.int64).view(-1, 1, 1, 1, 1, 1)
        flow = share.permute(0, 2, 3, 1).to(maps.dtype)[:, :, None, :, None]
        for row, column, weight in corners(rows, columns):
            place = (image, row[..., None], column[..., None], channel)
            maps.index_put_(place, flow * weight[..., None], accumulate=True)
    return _roi_pooling.as_layout_of(maps.permute(0, 3, 1, 2), grad)


# --- native kernel through ctypes -----------------------------------------------------------------


def _native(
    input: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int, sampling_ratio: int
) -> tuple[Tensor, Tensor]:  # fmt: skip
    pooled, channel_mapping = _fake(input, rois, spatial_scale, high, wide, sampling_ratio)
    last = _roi_pooling.is_channels_last(input)
    tensors = (_roi_pooling.as_layout_of(input, input), pooled, channel_mapping)
    _roi_pooling.call_native(
        _OP, "ps_roi_align", rois, tensors, sizes=input.shape, bins=(high, wide), scale=spatial_scale,
        channels_last=last, pooled_last=last, sampling_ratio=sampling_ratio,
    )  # fmt: skip
    return pooled, channel_mapping


def _native_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, high: int, wide: int,
    sampling_ratio: int, images: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    _check_backward(grad, rois, channel_mapping, high, wide, channels)
    maps = _roi_pooling.empty_maps(grad, (images, channels, height, width))
    last = _roi_pooling.is_channels_last(grad)
    tensors = (_roi_pooling.as_layout_of(grad, grad), maps)
    _roi_pooling.call_native(
        _BACKWARD, "ps_roi_align_backward", rois, tensors, sizes=maps.shape, bins=(high, wide), scale=spatial_scale,
        channels_last=last, pooled_last=last, sampling_ratio=sampling_ratio,
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
        maps = torch.ops.flambeau_vision._ps_roi_align_backward(grad, *ctx.saved_tensors, *ctx.arguments, *ctx.sizes)
    return (maps, *(None,) * 5)


# --- registration ---------------------------------------------------------------------------------

register_op(
    "_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    "SymInt pooled_height, SymInt pooled_width, int sampling_ratio, SymInt batch_size, SymInt channels, SymInt height, "
    "SymInt width) -> Tensor",
    library=LIBRARY,
    symbol=_native_backward,
    fake=_fake_backward,
    python=_reference_backward,
    triton="flambeau.vision.ops._ps_roi_align_triton:ps_roi_align_backward",
    backward=_roi_pooling.no_second_derivative(_OP),
)
register_op(
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio) -> (Tensor, Tensor)",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=_reference,
    triton="flambeau.vision.ops._ps_roi_align_triton:ps_roi_align",
    backward=_gradient,
    setup_context=_keep,
    autocast=torch.float32,
)
