"""Deformable convolution: each tap of the kernel reads where an offset says (arXiv:1703.06211, 1811.11168).

It is a product of matrices: the weights, and columns of samples. Sampling is ours, `native/deform_conv2d.cpp` on the
CPU and `_deform_conv2d_triton.py` on CUDA and XPU; the product is torch's. Channels are neighbours while sampling, and
as many positions are sampled at a time as fit into a cache.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from flambeau.core.native import register_op
from flambeau.vision.ops import _roi_pooling
from flambeau.vision.ops._library import LIBRARY

__all__ = ["DeformConv2d", "deform_conv2d"]


def deform_conv2d(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, int] = (1, 1),
    padding: int | tuple[int, int] = (0, 0),
    dilation: int | tuple[int, int] = (1, 1),
    mask: Tensor | None = None,
) -> Tensor:
    """Convolve with a kernel whose taps are moved by offsets, and weighted by a mask (then it is version 2).

    Samples are interpolated between four pixels; outside the picture is 0. C_in / weight.shape[1] is the number of
    groups. Channels may also fall into G offset groups, which are moved alike.

    Args:
        input: (N, C_in, H, W), float32, float64, or float16 and bfloat16, which are computed in float32.
        offset: (N, 2 * G * kh * kw, H_out, W_out), in pixels: for each offset group and tap the way down, then that
            to the right.
        weight: (C_out, C_in / groups, kh, kw).
        bias: (C_out,).
        stride: distance of neighbouring positions, vertical and horizontal, or one number for both.
        padding: pixels of 0 on each side.
        dilation: distance of neighbouring taps.
        mask: (N, G * kh * kw, H_out, W_out), a factor for each sample.

    Returns:
        (N, C_out, H_out, W_out), dtype and layout (channels last or not) of `input`. All tensors have gradients, none
        has a second derivative.

    Raises:
        RuntimeError: shapes that do not fit together, wrong dtypes, or tensors on different devices.

    Example:
        >>> picture, weight = torch.rand(1, 3, 8, 8), torch.rand(5, 3, 3, 3)
        >>> still = torch.zeros(1, 2 * 3 * 3, 6, 6)
        >>> torch.allclose(deform_conv2d(picture, still, weight), torch.conv2d(picture, weight), atol=1e-5)
        True

    References:
        Dai et al. 2017, arXiv:1703.06211; the mask: Zhu et al. 2018, arXiv:1811.11168.
    """
    strides, pads, dilations = (
        _roi_pooling.pair("deform_conv2d", name, value)
        for name, value in (("stride", stride), ("padding", padding), ("dilation", dilation))
    )
    for name, value, axes in (("input", input, 4), ("weight", weight, 4), ("offset", offset, 4)):
        if value.dim() != axes:
            raise RuntimeError(f"deform_conv2d: {name} has shape {tuple(value.shape)}, expected {axes} dimensions.")
    taps = weight.shape[-2] * weight.shape[-1]
    offset_groups = offset.shape[1] // (2 * taps)
    if offset_groups == 0:
        raise RuntimeError(
            f"deform_conv2d: offset has {offset.shape[1]} channels, expected a multiple of 2 * kh * kw = {2 * taps}."
        )
    groups = input.shape[1] // weight.shape[1]
    use_mask = mask is not None
    if mask is None:
        mask = input.new_zeros((input.shape[0], 1))
    if bias is None:
        bias = input.new_zeros(weight.shape[0])
    return torch.ops.flambeau_vision.deform_conv2d(  # type: ignore[no-any-return]
        input, weight, offset, mask, bias, *strides, *pads, *dilations, groups, offset_groups, use_mask
    )


class DeformConv2d(nn.Module):
    """`deform_conv2d` with weights of its own.

    Args:
        in_channels: C_in.
        out_channels: C_out; a multiple of `groups`, as C_in.
        kernel_size: height and width of the kernel, or one number for both.
        stride: see `deform_conv2d`.
        padding: see `deform_conv2d`.
        dilation: see `deform_conv2d`.
        groups: see `deform_conv2d`.
        bias: whether to add one.

    Raises:
        ValueError: `in_channels` or `out_channels` is no multiple of `groups`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"DeformConv2d: {name} is {channels}, expected a multiple of groups, {groups}.")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _roi_pooling.pair("DeformConv2d", "kernel_size", kernel_size)
        self.stride = _roi_pooling.pair("DeformConv2d", "stride", stride)
        self.padding = _roi_pooling.pair("DeformConv2d", "padding", padding)
        self.dilation = _roi_pooling.pair("DeformConv2d", "dilation", dilation)
        self.groups = groups
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *self.kernel_size))
        if bias:
            self.bias = nn.Parameter(torch.empty(out_channels))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights and bias as those of `torch.nn.Conv2d`: uniform, variance 1 / (3 fan_in)."""
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight[0].numel())
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        """Convolve `input` with taps moved by `offset`, weighted by `mask`."""
        return deform_conv2d(input, offset, self.weight, self.bias, self.stride, self.padding, self.dilation, mask=mask)

    def extra_repr(self) -> str:
        """The arguments that are not the default."""
        words = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        words += [f"padding={self.padding}"] if self.padding != (0, 0) else []
        words += [f"dilation={self.dilation}"] if self.dilation != (1, 1) else []
        words += [f"groups={self.groups}"] if self.groups != 1 else []
        words += ["bias=False"] if self.bias is None else []  # type: ignore[redundant-expr]
        return ", ".join(words)


# --- arguments ------------------------------------------------------------------------------------


class Convolution(NamedTuple):
    """Tensors and numbers of a call, in the order of the schema."""

    input: Tensor
    weight: Tensor
    offset: Tensor
    mask: Tensor
    bias: Tensor
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    dilation_h: int
    dilation_w: int
    groups: int
    offset_groups: int
    use_mask: bool

    @property
    def out_size(self) -> tuple[int, int]:
        """Height and width of the result."""
        (height, width), (kh, kw) = self.input.shape[2:], self.weight.shape[2:]
        return (
            (height + 2 * self.pad_h - self.dilation_h * (kh - 1) - 1) // self.stride_h + 1,
            (width + 2 * self.pad_w - self.dilation_w * (kw - 1) - 1) // self.stride_w + 1,
        )

    @property
    def out_shape(self) -> tuple[int, int, int, int]:
        """Shape of the result."""
        return (self.input.shape[0], self.weight.shape[0], *self.out_size)

    @property
    def positive(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """What must be positive, by name."""
        yield "stride", (self.stride_h, self.stride_w)
        yield "dilation", (self.dilation_h, self.dilation_w)


def _check(op: str, c: Convolution) -> None:
    if c.input.dtype not in _roi_pooling.COMPUTE_DTYPE:
        raise RuntimeError(
            f"{op}: input has dtype {c.input.dtype}, expected float32, float64, float16 or bfloat16; convert it."
        )
    for name, value in c.positive:
        if min(value) < 1:
            raise RuntimeError(f"{op}: {name} is {value}, expected at least (1, 1).")
    if min(c.pad_h, c.pad_w) < 0:
        raise RuntimeError(f"{op}: padding is {(c.pad_h, c.pad_w)}, expected at least (0, 0).")
    for name, number in (("groups", c.groups), ("offset groups", c.offset_groups)):
        if number < 1 or c.input.shape[1] % number:
            raise RuntimeError(f"{op}: input has {c.input.shape[1]} channels, expected a multiple of {number} {name}.")
    high, wide = c.out_size
    if min(high, wide) < 1:
        raise RuntimeError(
            f"{op}: the result would be {high} x {wide}; enlarge input, {tuple(c.input.shape)}, or its padding."
        )
    images, taps = c.input.shape[0], c.weight.shape[2] * c.weight.shape[3]
    wanted = {
        "weight": (c.weight.shape[0] // c.groups * c.groups, c.input.shape[1] // c.groups, *c.weight.shape[2:]),
        "offset": (images, 2 * c.offset_groups * taps, high, wide),
        "bias": (c.weight.shape[0],),
    }
    if c.use_mask:
        wanted["mask"] = (images, c.offset_groups * taps, high, wide)
    for name, shape in wanted.items():
        value = getattr(c, name)
        if value.dim() != len(shape) or any(a != b for a, b in zip(value.shape, shape, strict=True)):
            raise RuntimeError(f"{op}: {name} has shape {tuple(value.shape)}, expected {shape}.")
        if value.dtype != c.input.dtype:
            raise RuntimeError(
                f"{op}: {name} has dtype {value.dtype}, expected that of input, {c.input.dtype}; convert one of them."
            )
        if value.device != c.input.device:
            raise RuntimeError(f"{op}: {name} is on {value.device}, input on {c.input.device}; move one of them.")


# --- sampling -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Picture:
    """What is sampled: channels last, without gaps, in the dtype of computation."""

    input: Tensor  # (N, H, W, C)
    offset: Tensor  # (N, 2 * G * taps, H_out, W_out)
    mask: Tensor | None
    convolution: Convolution

    @classmethod
    def of(cls, c: Convolution) -> Picture:
        """Prepare a call's tensors."""
        compute = _roi_pooling.COMPUTE_DTYPE[c.input.dtype]
        mask = c.mask.to(compute).contiguous() if c.use_mask else None
        return cls(
            c.input.to(compute).permute(0, 2, 3, 1).contiguous(), c.offset.to(compute).contiguous(), mask, c
        )  # fmt: skip

    @property
    def taps(self) -> int:
        """Number of the kernel's taps."""
        return self.convolution.weight.shape[2] * self.convolution.weight.shape[3]

    @property
    def positions(self) -> int:
        """Positions of the output, over all images."""
        return self.input.shape[0] * math.prod(self.convolution.out_size)


class Sampler(Protocol):
    """One implementation of sampling, for positions [begin, end)."""

    def columns(self, picture: Picture, begin: int, end: int) -> Tensor:
        """Samples, (groups, positions, taps * channels of a group)."""

    def spread(
        self, picture: Picture, begin: int, end: int, grad: Tensor,
        grad_input: Tensor, grad_offset: Tensor, grad_mask: Tensor | None,
    ) -> None:  # fmt: skip
        """Add the gradient of the columns to that of the input, and write those of offsets and mask."""


# --- the convolution, for every sampler -----------------------------------------------------------

# Numbers in the columns that are made at a time: 4 MB of float32, which stay in a processor's cache.
_CHUNK = 2**20


def _chunks(picture: Picture) -> Iterator[tuple[int, int]]:
    step = _CHUNK if picture.input.device.type == "cpu" else 64 * _CHUNK
    step = max(64, step // max(1, picture.taps * picture.input.shape[3]))
    for begin in range(0, picture.positions, step):
        yield begin, min(begin + step, picture.positions)


def _matrices(c: Convolution, dtype: torch.dtype) -> Tensor:
    """Weights, (groups, taps * channels of a group, outputs of a group)."""
    weight = torch.unflatten(c.weight.to(dtype), 0, (c.groups, -1))
    return weight.permute(0, 3, 4, 2, 1).reshape(c.groups, -1, weight.shape[1])


def convolve(sampler: Sampler, *arguments: Any) -> Tensor:
    """`deform_conv2d` with a sampler."""
    c = Convolution(*arguments)
    _check("deform_conv2d", c)
    picture = Picture.of(c)
    matrices = _matrices(c, picture.input.dtype)
    result = picture.input.new_empty(picture.positions, c.groups, matrices.shape[2])
    for begin, end in _chunks(picture):
        columns = sampler.columns(picture, begin, end)
        if c.groups == 1:
            torch.mm(columns[0], matrices[0], out=result[begin:end, 0])
        else:
            result[begin:end] = torch.bmm(columns, matrices).transpose(0, 1)
    result = result.flatten(1) + c.bias.to(result.dtype)
    return _roi_pooling.as_layout_of(_as_maps(result, c), c.input)


def _as_maps(rows: Tensor, c: Convolution) -> Tensor:
    """Rows for each position as (N, C_out, H_out, W_out), in channels-last layout."""
    images, channels, high, wide = c.out_shape
    return rows.view(images, high, wide, channels).permute(0, 3, 1, 2)


def differentiate(sampler: Sampler, grad: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients for input, weight, offset, mask and bias, with a sampler."""
    c = Convolution(*arguments)
    _check("_deform_conv2d_backward", c)
    _roi_pooling.check_grad("_deform_conv2d_backward", grad, c.out_shape)
    picture = Picture.of(c)
    matrices = _matrices(c, picture.input.dtype)
    flow = (
        grad.to(picture.input.dtype)
        .permute(0, 2, 3, 1)
        .reshape(picture.positions, c.groups, matrices.shape[2])
        .transpose(0, 1)
    )
    grad_matrices = torch.zeros_like(matrices)
    grad_input = torch.zeros_like(picture.input)
    grad_offset = torch.empty_like(picture.offset)
    grad_mask = None if picture.mask is None else torch.empty_like(picture.mask)
    for begin, end in _chunks(picture):
        columns = sampler.columns(picture, begin, end)
        some = flow[:, begin:end]
        grad_matrices.baddbmm_(columns.transpose(1, 2), some)
        torch.bmm(some, matrices.transpose(1, 2), out=columns)  # the samples are done with: their memory serves again
        sampler.spread(picture, begin, end, columns, grad_input, grad_offset, grad_mask)
    return (
        _roi_pooling.as_layout_of(grad_input.permute(0, 3, 1, 2), c.input),
        _as_weight(grad_matrices, c),
        grad_offset.to(c.offset.dtype),
        torch.zeros_like(c.mask) if grad_mask is None else grad_mask.to(c.mask.dtype),
        flow.sum(1).flatten().to(c.bias.dtype),
    )


def _as_weight(matrices: Tensor, c: Convolution) -> Tensor:
    """Matrices as `_matrices` makes them, in the shape of the weights."""
    outputs, inputs, kh, kw = c.weight.shape
    apart = matrices.view(c.groups, kh, kw, inputs, outputs // c.groups)
    return apart.permute(0, 4, 3, 1, 2).reshape(c.weight.shape).to(c.weight.dtype)


# --- reference ------------------------------------------------------------------------------------


class Reference:
    """Sampling in plain tensor operations."""

    def columns(self, picture: Picture, begin: int, end: int) -> Tensor:
        """See `Sampler`."""
        total = reduce(torch.add, (weight * value for weight, value, *_ in self._corners(picture, begin, end)))
        if picture.mask is not None:
            total = total * self._at(picture.mask, begin, end, picture)
        return self._by_group(total, picture)

    def spread(
        self, picture: Picture, begin: int, end: int, grad: Tensor,
        grad_input: Tensor, grad_offset: Tensor, grad_mask: Tensor | None,
    ) -> None:  # fmt: skip
        """See `Sampler`."""
        c = picture.convolution
        flow = grad.view(c.groups, end - begin, picture.taps, -1).permute(1, 2, 0, 3).flatten(2)
        flow = torch.unflatten(flow, 2, (c.offset_groups, -1))
        mask = flow.new_ones(()) if picture.mask is None else self._at(picture.mask, begin, end, picture)
        pixels = grad_input.view(-1, c.offset_groups, grad_input.shape[3] // c.offset_groups)
        group = torch.arange(c.offset_groups, device=grad.device)
        down = right = through = flow.new_zeros(())
        for weight, value, (by_row, by_column), pixel, there in self._corners(picture, begin, end):
            pixels.index_put_((pixel, group), torch.where(there[..., None], flow * mask * weight, 0), accumulate=True)
            product = (flow * value).sum(3, keepdim=True)
            down, right, through = down + by_row * product, right + by_column * product, through + weight * product
        self._put(grad_offset, torch.stack([down * mask, right * mask], 3), begin, end, picture)
        if grad_mask is not None:
            self._put(grad_mask, through, begin, end, picture)

    @staticmethod
    def _at(field: Tensor, begin: int, end: int, picture: Picture) -> Tensor:
        """(N, G * taps [* 2], H_out, W_out) as (positions, taps, G, [2 or] 1) of the positions wanted."""
        c = picture.convolution
        apart = torch.unflatten(field, 1, (c.offset_groups, picture.taps, -1)).permute(0, 4, 5, 2, 1, 3)
        return apart.flatten(0, 2)[begin:end]

    @staticmethod
    def _put(field: Tensor, values: Tensor, begin: int, end: int, picture: Picture) -> None:
        """Write what `_at` reads."""
        c = picture.convolution
        positions = math.prod(c.out_size)
        place = torch.arange(begin, end, device=field.device)
        apart = field.view(field.shape[0], c.offset_groups, picture.taps, -1, positions).permute(0, 4, 2, 1, 3)
        apart[place // positions, place % positions] = values.flatten(3)

    @staticmethod
    def _by_group(samples: Tensor, picture: Picture) -> Tensor:
        """(positions, taps, G, C / G) as columns."""
        c = picture.convolution
        apart = torch.unflatten(samples.flatten(2), 2, (c.groups, -1))
        return apart.permute(2, 0, 1, 3).flatten(2).contiguous()

    def _corners(
        self, picture: Picture, begin: int, end: int
    ) -> Iterator[tuple[Tensor, Tensor, tuple[Tensor, Tensor], Tensor, Tensor]]:
        """For each of four pixels: weight, value, slopes of the weight, index, and whether it is on the picture.

        All of (positions, taps, G, 1) but the value, which has the group's channels last, and the index and the flag,
        which have no last dimension.
        """
        c, dtype, device = picture.convolution, picture.input.dtype, picture.input.device
        height, width = c.input.shape[2:]
        kw, (high, wide) = c.weight.shape[3], c.out_size
        place = torch.arange(begin, end, device=device)
        tap = torch.arange(picture.taps, device=device)
        row = (place // wide % high * c.stride_h - c.pad_h)[:, None] + tap // kw * c.dilation_h
        column = (place % wide * c.stride_w - c.pad_w)[:, None] + tap % kw * c.dilation_w
        way = self._at(picture.offset, begin, end, picture)
        y = row[..., None].to(dtype) + way[..., 0]
        x = column[..., None].to(dtype) + way[..., 1]
        inside = (y > -1) & (y < height) & (x > -1) & (x < width)
        y, x = torch.where(inside, y, 0), torch.where(inside, x, 0)
        top, left = y.floor(), x.floor()
        down, right = y - top, x - left
        pixels = picture.input.view(-1, c.offset_groups, picture.input.shape[3] // c.offset_groups)
        image = (place // (high * wide))[:, None, None]
        group = torch.arange(c.offset_groups, device=device)
        for below in (0, 1):
            for beside in (0, 1):
                at_y, at_x = top.to(torch.int64) + below, left.to(torch.int64) + beside
                there = inside & (at_y >= 0) & (at_y < height) & (at_x >= 0) & (at_x < width)
                pixel = torch.where(there, (image * height + at_y) * width + at_x, 0)
                value = torch.where(there[..., None], pixels[pixel, group], 0)
                by_y, by_x = (down if below else 1 - down), (right if beside else 1 - right)
                slopes = (by_x if below else -by_x)[..., None], (by_y if beside else -by_y)[..., None]
                yield (by_y * by_x)[..., None], value, slopes, pixel, there


# --- native kernel through ctypes -----------------------------------------------------------------


class Geometry(ctypes.Structure):
    """`fb_deform` of native/deform_conv2d.cpp."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            *("images", "height", "width", "channels", "rows", "columns", "kernel_h", "kernel_w"),
            *("stride_h", "stride_w", "pad_h", "pad_w", "dilation_h", "dilation_w", "groups", "offset_groups"),
            *("begin", "end", "nthreads"),
        )
    ]


class Native:
    """Sampling by the native kernel."""

    _functions: dict[tuple[str, torch.dtype], Callable[..., Any]] = {}

    def columns(self, picture: Picture, begin: int, end: int) -> Tensor:
        """See `Sampler`."""
        c = picture.convolution
        in_group = picture.input.shape[3] // c.groups
        columns = picture.input.new_empty(c.groups, end - begin, picture.taps * in_group)
        self._call("deform_columns", picture, begin, end, columns)
        return columns

    def spread(
        self, picture: Picture, begin: int, end: int, grad: Tensor,
        grad_input: Tensor, grad_offset: Tensor, grad_mask: Tensor | None,
    ) -> None:  # fmt: skip
        """See `Sampler`."""
        self._call("deform_columns_backward", picture, begin, end, grad, grad_input, grad_offset, grad_mask)

    def _call(self, kernel: str, picture: Picture, begin: int, end: int, *tensors: Tensor | None) -> None:
        c, dtype = picture.convolution, picture.input.dtype
        tensors = (picture.input, picture.offset, picture.mask, *tensors)
        if (kernel, dtype) not in self._functions:
            symbol = f"fb_{kernel}_{'f64' if dtype == torch.float64 else 'f32'}"
            arguments = [ctypes.c_void_p] * (1 + len(tensors))
            self._functions[kernel, dtype] = LIBRARY.function(symbol, arguments, ctypes.c_int64)
        geometry = Geometry(
            *picture.input.shape, *c.out_size, *c.weight.shape[2:], *c[5:13], begin, end, torch.get_num_threads()
        )
        pointers = [None if tensor is None else tensor.data_ptr() for tensor in tensors]
        if self._functions[kernel, dtype](ctypes.addressof(geometry), *pointers) != 0:
            raise RuntimeError(f"deform_conv2d: no memory left for {picture.input.shape[3]} channels.")


def _reference(*arguments: Any) -> Tensor:
    return convolve(Reference(), *arguments)


def _reference_backward(*arguments: Any) -> tuple[Tensor, ...]:
    return differentiate(Reference(), *arguments)


def _native(*arguments: Any) -> Tensor:
    return convolve(Native(), *arguments)


def _native_backward(*arguments: Any) -> tuple[Tensor, ...]:
    return differentiate(Native(), *arguments)


# --- shape-only twins -----------------------------------------------------------------------------


def _fake(*arguments: Any) -> Tensor:
    c = Convolution(*arguments)
    _check("deform_conv2d", c)
    return _roi_pooling.empty_maps(c.input, c.out_shape)


def _fake_backward(grad: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
    c = Convolution(*arguments)
    _check("_deform_conv2d_backward", c)
    plain = (c.weight, c.offset, c.mask, c.bias)
    return (_roi_pooling.empty_maps(c.input, c.input.shape), *(value.new_empty(value.shape) for value in plain))


# --- gradient -------------------------------------------------------------------------------------


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.numbers = inputs[5:]


def _gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    grads = torch.ops.flambeau_vision._deform_conv2d_backward(grad, *ctx.saved_tensors, *ctx.numbers)
    wanted = (one if needed else None for one, needed in zip(grads, ctx.needs_input_grad, strict=False))
    return (*wanted, *(None,) * len(ctx.numbers))


# --- registration ---------------------------------------------------------------------------------

_ARGUMENTS = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
    "bool use_mask"
)

register_op(
    f"_deform_conv2d_backward(Tensor grad, {_ARGUMENTS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    library=LIBRARY,
    symbol=_native_backward,
    fake=_fake_backward,
    python=_reference_backward,
    triton="flambeau.vision.ops._deform_conv2d_triton:deform_conv2d_backward",
    backward=_roi_pooling.no_second_derivative("deform_conv2d"),
)
register_op(
    f"deform_conv2d({_ARGUMENTS}) -> Tensor",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=_reference,
    triton="flambeau.vision.ops._deform_conv2d_triton:deform_conv2d",
    backward=_gradient,
    setup_context=_keep,
    autocast=torch.float32,
)
