"""Region align: each bin of a region is the mean of samples, interpolated between pixels (arXiv:1703.06870).

The native kernel is `native/roi_align.cpp`, the one for CUDA and XPU `_roi_align_triton.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from flambeau.core.native import register_op
from flambeau.vision.ops import _roi_pooling
from flambeau.vision.ops._library import LIBRARY
from flambeau.vision.ops._roi_samples import corners, line

__all__ = ["RoIAlign", "roi_align"]


@fx.wrap  # what it does depends on how regions are given
def roi_align(
    input: Tensor,
    boxes: Tensor | list[Tensor],
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """Pool regions of feature maps to one size, without rounding their corners.

    A region is cut into `output_size` bins, a bin is the mean of a grid of samples. A sample up to one pixel outside
    the map takes the value of the border, further outside it is 0. No samples at all also give 0.

    Args:
        input: (N, C, H, W), float32, float64, or float16, bfloat16 and quantized integers, which are computed in
            float32.
        boxes: (K, 5), rows of image, x1, y1, x2, y2, in the dtype of `input`; or for each image a tensor (L, 4).
        output_size: height and width of the result, or one number for both.
        spatial_scale: pixels of `input` per unit of `boxes`; 1/16 for maps of a stride of 16.
        sampling_ratio: samples per bin and direction; where not positive, the size of the bin in pixels, rounded up.
        aligned: pixels have their centre at half numbers, as they should. Upstream: False, which shifts everything by
            half a pixel and makes each region at least one pixel high and wide.

    Returns:
        (K, C, *output_size), dtype and layout (channels last or not) of `input`. It has a gradient for `input`, none
        for `boxes`, and no second derivative.

    Raises:
        TypeError: `boxes` is neither a tensor nor a list of tensors.
        ValueError: `boxes` or `output_size` has a wrong shape, or one of `input` and `boxes` is quantized.
        RuntimeError: wrong dtypes, tensors on different devices, or a box names an image that is not there.

    Example:
        >>> ramp = torch.arange(16.0).reshape(1, 1, 4, 4)
        >>> roi_align(ramp, torch.tensor([[0.0, 0.0, 0.0, 4.0, 4.0]]), 2, aligned=True)
        tensor([[[[ 2.5000,  4.5000],
                  [10.5000, 12.5000]]]])

    References:
        He et al. 2017, arXiv:1703.06870, section 3.
    """
    rois = _roi_pooling.rois_of("roi_align", boxes)
    high, wide = _roi_pooling.pair("roi_align", "output_size", output_size)
    return torch.ops.flambeau_vision.roi_align(input, rois, spatial_scale, high, wide, sampling_ratio, aligned)  # type: ignore[no-any-return]


class RoIAlign(nn.Module):
    """`roi_align` with these arguments.

    Args:
        output_size: see `roi_align`.
        spatial_scale: see `roi_align`.
        sampling_ratio: see `roi_align`.
        aligned: see `roi_align`.
    """

    def __init__(
        self, output_size: int | Sequence[int], spatial_scale: float, sampling_ratio: int, aligned: bool = False
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.spatial_scale = spatial_scale
        self.sampling_ratio = sampling_ratio
        self.aligned = aligned

    def forward(self, input: Tensor, rois: Tensor | list[Tensor]) -> Tensor:
        """Pool regions of (N, C, H, W) maps."""
        return roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned)

    def extra_repr(self) -> str:
        """The arguments."""
        return (
            f"output_size={self.output_size}, spatial_scale={self.spatial_scale}, "
            f"sampling_ratio={self.sampling_ratio}, aligned={self.aligned}"
        )


_OP, _BACKWARD = "roi_align", "_roi_align_backward"


# --- shape-only twins -----------------------------------------------------------------------------


def _fake(
    input: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int, sampling_ratio: int, aligned: bool
) -> Tensor:
    _roi_pooling.check(_OP, "input", input, rois, (high, wide))
    return _roi_pooling.empty_maps(input, (rois.shape[0], input.shape[1], high, wide))


def _fake_backward(
    grad: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int,
    images: int, channels: int, height: int, width: int, sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    _roi_pooling.check(_BACKWARD, "grad", grad, rois, (high, wide))
    return _roi_pooling.empty_maps(grad, (images, channels, height, width))


# --- reference ------------------------------------------------------------------------------------

# Numbers that a step of the reference works on.
_CHUNK = 2**22


def _lines(
    rois: Tensor, scale: float, bins: tuple[int, int], sampling_ratio: int, aligned: bool, size: tuple[int, int]
) -> Any:
    """Rows and columns of the samples."""
    common = {"scale": scale, "aligned": aligned, "sampling_ratio": sampling_ratio}
    return (
        line(rois[:, 2], rois[:, 4], bins=bins[0], size=size[0], **common),  # type: ignore[arg-type]
        line(rois[:, 1], rois[:, 3], bins=bins[1], size=size[1], **common),  # type: ignore[arg-type]
    )


def _chunks(rois: Tensor, channels: int, bins: tuple[int, int], scale: float, sampling_ratio: int) -> int:
    """How many regions to take at a time."""
    if sampling_ratio > 0 or not len(rois):
        samples = max(sampling_ratio, 1) ** 2
    else:
        sides = (rois[:, 3:5] - rois[:, 1:3]).abs().amax(0) * scale
        samples = int((sides[0] / bins[1] + 1).nan_to_num(1, 1, 1) * (sides[1] / bins[0] + 1).nan_to_num(1, 1, 1))
    return max(1, _CHUNK // max(1, channels * bins[0] * bins[1] * samples))


def _reference(
    input: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int, sampling_ratio: int, aligned: bool
) -> Tensor:
    _roi_pooling.check(_OP, "input", input, rois, (high, wide))
    _roi_pooling.check_images(_OP, rois, input.shape[0])
    compute = _roi_pooling.COMPUTE_DTYPE[input.dtype]
    pooled = _roi_pooling.empty_maps(input, (len(rois), input.shape[1], high, wide))
    height, width = input.shape[2:]
    if not height * width:
        return pooled.zero_()
    maps, wanted = input.permute(0, 2, 3, 1), rois.to(compute)
    take = _chunks(wanted, input.shape[1], (high, wide), spatial_scale, sampling_ratio)
    for some, into in zip(_roi_pooling.split(wanted, take), _roi_pooling.split(pooled, take), strict=True):
        rows, columns = _lines(some, spatial_scale, (high, wide), sampling_ratio, aligned, (height, width))
        image = some[:, 0].to(torch.int64)[:, None, None, None, None]
        value = sum(
            torch.where(weight[..., None] != 0, maps[image, row, column].to(compute) * weight[..., None], 0)
            for row, column, weight in corners(rows, columns)
        )
        into.copy_(value.sum((2, 4)).permute(0, 3, 1, 2))  # type: ignore[union-attr]
    return pooled


def _reference_backward(
    grad: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int,
    images: int, channels: int, height: int, width: int, sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    _roi_pooling.check(_BACKWARD, "grad", grad, rois, (high, wide))
    _roi_pooling.check_grad(_BACKWARD, grad, (len(rois), channels, high, wide))
    _roi_pooling.check_images(_BACKWARD, rois, images)
    compute = _roi_pooling.COMPUTE_DTYPE[grad.dtype]
    maps = torch.zeros(images, height, width, channels, dtype=compute, device=grad.device)
    wanted = rois.to(compute)
    take = _chunks(wanted, channels, (high, wide), spatial_scale, sampling_ratio)
    if not maps.numel():
        return _roi_pooling.as_layout_of(maps.permute(0, 3, 1, 2), grad)
    for some, share in zip(_roi_pooling.split(wanted, take), _roi_pooling.split(grad, take), strict=True):
        rows, columns = _lines(some, spatial_scale, (high, wide), sampling_ratio, aligned, (height, width))
        image = some[:, 0].to(torch.int64)[:, None, None, None, None]
        flow = share.permute(0, 2, 3, 1).to(compute)[:, :, None, :, None]
        for row, column, weight in corners(rows, columns):
            maps.index_put_((image, row, column), flow * weight[..., None], accumulate=True)
    return _roi_pooling.as_layout_of(maps.permute(0, 3, 1, 2), grad)


# --- native kernel through ctypes -----------------------------------------------------------------


def _native(
    input: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int, sampling_ratio: int, aligned: bool
) -> Tensor:
    _roi_pooling.check(_OP, "input", input, rois, (high, wide))
    pooled = _roi_pooling.empty_maps(input, (len(rois), input.shape[1], high, wide))
    last = _roi_pooling.is_channels_last(input)
    _roi_pooling.call_native(
        _OP, "roi_align", rois, (_roi_pooling.as_layout_of(input, input), pooled), sizes=input.shape, bins=(high, wide),
        scale=spatial_scale, channels_last=last, pooled_last=last, sampling_ratio=sampling_ratio,
        aligned=aligned,
    )  # fmt: skip
    return pooled


def _native_backward(
    grad: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int,
    images: int, channels: int, height: int, width: int, sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    _roi_pooling.check(_BACKWARD, "grad", grad, rois, (high, wide))
    _roi_pooling.check_grad(_BACKWARD, grad, (len(rois), channels, high, wide))
    maps = _roi_pooling.empty_maps(grad, (images, channels, height, width))
    last = _roi_pooling.is_channels_last(grad)
    _roi_pooling.call_native(
        _BACKWARD, "roi_align_backward", rois, (_roi_pooling.as_layout_of(grad, grad), maps), sizes=maps.shape,
        bins=(high, wide), scale=spatial_scale, channels_last=last, pooled_last=last,
        sampling_ratio=sampling_ratio, aligned=aligned,
    )  # fmt: skip
    return maps


# --- gradient -------------------------------------------------------------------------------------


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, rois, *ctx.arguments = inputs
    ctx.save_for_backward(rois)
    ctx.sizes = input.shape


def _gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    if not ctx.needs_input_grad[0]:
        return (None,) * 7
    if 0 in ctx.sizes:
        return (grad.new_zeros(ctx.sizes), *(None,) * 6)
    (rois,) = ctx.saved_tensors
    scale, high, wide, sampling_ratio, aligned = ctx.arguments
    maps = torch.ops.flambeau_vision._roi_align_backward(
        grad, rois, scale, high, wide, *ctx.sizes, sampling_ratio, aligned
    )
    return (maps, *(None,) * 6)


# --- quantized maps -------------------------------------------------------------------------------


def _quantized(
    input: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int, sampling_ratio: int, aligned: bool
) -> Tensor:
    """Computed in float32, and quantized as the maps are."""
    if not (input.is_quantized and rois.is_quantized):
        raise ValueError("roi_align: one of input and boxes is quantized, expected both or none; dequantize() it.")
    pooled = torch.ops.flambeau_vision.roi_align(
        input.dequantize(), rois.dequantize(), spatial_scale, high, wide, sampling_ratio, aligned
    )
    return torch.quantize_per_tensor(pooled, input.q_scale(), input.q_zero_point(), input.dtype)


# --- registration ---------------------------------------------------------------------------------

register_op(
    "_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "SymInt batch_size, SymInt channels, SymInt height, SymInt width, int sampling_ratio, bool aligned) -> Tensor",
    library=LIBRARY,
    symbol=_native_backward,
    fake=_fake_backward,
    python=_reference_backward,
    triton="flambeau.vision.ops._roi_align_triton:roi_align_backward",
    backward=_roi_pooling.no_second_derivative(_OP),
)
register_op(
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=_reference,
    triton="flambeau.vision.ops._roi_align_triton:roi_align",
    backward=_gradient,
    setup_context=_keep,
    autocast=torch.float32,
    kernels={"QuantizedCPU": _quantized},
)
