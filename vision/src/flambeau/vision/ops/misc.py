"""Building blocks that many models share: convolution with normalization, squeeze-and-excitation, perceptron."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

__all__ = [
    "MLP",
    "Conv2dNormActivation",
    "Conv3dNormActivation",
    "ConvNormActivation",
    "FrozenBatchNorm2d",
    "Permute",
    "SqueezeExcitation",
]


class FrozenBatchNorm2d(nn.Module):
    """Batch normalization whose statistics and affine parameters are constants: `(x - mean) / sqrt(var + eps) * w + b`.

    All four are buffers, so no optimizer sees them and train mode changes nothing. State dicts of
    `torch.nn.BatchNorm2d` load; their `num_batches_tracked` is dropped.

    Args:
        num_features: number of channels.
        eps: added to the variance.

    Shape:
        (N, num_features, H, W), floating point -> the same, memory format kept.
    """

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", torch.ones(num_features))
        self.register_buffer("bias", torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        state_dict.pop(f"{prefix}num_batches_tracked", None)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each channel by its constants."""
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale.reshape(1, -1, 1, 1) + shift.reshape(1, -1, 1, 1)

    def extra_repr(self) -> str:
        """Channels and `eps`, as the built-in normalizations print them."""
        return f"{self.weight.shape[0]}, eps={self.eps}"


class ConvNormActivation(nn.Sequential):
    """Convolution, normalization, activation, in that order; see `Conv2dNormActivation` for the arguments.

    Args:
        conv_layer: the convolution to use, such as `torch.nn.Conv2d`; `kernel_size` and the like have its dimensions.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int] = 3,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str | None = None,
        groups: int = 1,
        norm_layer: Callable[..., nn.Module] | None = nn.BatchNorm2d,
        activation_layer: Callable[..., nn.Module] | None = nn.ReLU,
        dilation: int | Sequence[int] = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
        conv_layer: Callable[..., nn.Module] = nn.Conv2d,
    ) -> None:
        layers = [
            conv_layer(
                in_channels,
                out_channels,
                kernel_size,
                stride,
                _same_padding(kernel_size, dilation) if padding is None else padding,
                dilation=dilation,
                groups=groups,
                bias=norm_layer is None if bias is None else bias,
            )
        ]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer(**_inplace(inplace)))
        super().__init__(*layers)
        self.out_channels = out_channels
        if type(self) is ConvNormActivation:
            warnings.warn(
                "ConvNormActivation is the base of Conv2dNormActivation and Conv3dNormActivation; use one of those.",
                stacklevel=2,
            )


class Conv2dNormActivation(ConvNormActivation):
    """2D convolution, normalization, activation, in that order.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: of the convolution.
        stride: of the convolution.
        padding: of the convolution; None keeps height and width at stride 1, `(kernel_size - 1) // 2 * dilation`.
        groups: of the convolution.
        norm_layer: makes a normalization from a number of channels; None leaves it out.
        activation_layer: makes an activation; None leaves it out.
        dilation: of the convolution.
        inplace: passed to `activation_layer`, unless it is None.
        bias: whether the convolution has a bias; None: where there is no normalization.

    Shape:
        (N, in_channels, H, W) -> (N, out_channels, H', W').
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int] = 3,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] | str | None = None,
        groups: int = 1,
        norm_layer: Callable[..., nn.Module] | None = nn.BatchNorm2d,
        activation_layer: Callable[..., nn.Module] | None = nn.ReLU,
        dilation: int | tuple[int, int] = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            groups,
            norm_layer,
            activation_layer,
            dilation,
            inplace,
            bias,
            nn.Conv2d,
        )


class Conv3dNormActivation(ConvNormActivation):
    """3D convolution, normalization, activation, in that order.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: of the convolution, (time, height, width) or one number for all.
        stride: of the convolution.
        padding: of the convolution; None keeps the sizes at stride 1, `(kernel_size - 1) // 2 * dilation`.
        groups: of the convolution.
        norm_layer: makes a normalization from a number of channels; None leaves it out.
        activation_layer: makes an activation; None leaves it out.
        dilation: of the convolution.
        inplace: passed to `activation_layer`, unless it is None.
        bias: whether the convolution has a bias; None: where there is no normalization.

    Shape:
        (N, in_channels, T, H, W) -> (N, out_channels, T', H', W').
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int, int] = 3,
        stride: int | tuple[int, int, int] = 1,
        padding: int | tuple[int, int, int] | str | None = None,
        groups: int = 1,
        norm_layer: Callable[..., nn.Module] | None = nn.BatchNorm3d,
        activation_layer: Callable[..., nn.Module] | None = nn.ReLU,
        dilation: int | tuple[int, int, int] = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            groups,
            norm_layer,
            activation_layer,
            dilation,
            inplace,
            bias,
            nn.Conv3d,
        )


class SqueezeExcitation(nn.Module):
    """Scale each channel by a gate that is computed from the means of all channels (Hu et al. 2017, arXiv:1709.01507).

    Args:
        input_channels: channels of the input.
        squeeze_channels: width of the hidden layer.
        activation: makes the activation of the hidden layer.
        scale_activation: makes the function that turns its output into gates.

    Shape:
        (N, input_channels, H, W) -> the same, memory format kept.
    """

    def __init__(
        self,
        input_channels: int,
        squeeze_channels: int,
        activation: Callable[..., nn.Module] = nn.ReLU,
        scale_activation: Callable[..., nn.Module] = nn.Sigmoid,
    ) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        """Gate the channels of (N, C, H, W)."""
        gates: Tensor = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(input)))))
        return gates * input


class MLP(nn.Sequential):
    """Perceptron: linear layer, normalization, activation and dropout, repeated; the last layer without the middle two.

    Args:
        in_channels: size of the input's last dimension.
        hidden_channels: sizes after each linear layer; the last one is the output's. At least one.
        norm_layer: makes a normalization from a size; None leaves it out.
        activation_layer: makes an activation; None leaves it out.
        inplace: passed to activation and dropout, unless it is None.
        bias: whether linear layers have a bias.
        dropout: probability to drop an element, in [0, 1].

    Shape:
        (..., in_channels) -> (..., hidden_channels[-1]).

    Raises:
        ValueError: `hidden_channels` is empty.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: Sequence[int],
        norm_layer: Callable[..., nn.Module] | None = None,
        activation_layer: Callable[..., nn.Module] | None = nn.ReLU,
        inplace: bool | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        if not hidden_channels:
            raise ValueError(f"hidden_channels is {hidden_channels!r}, expected at least the size of the output.")
        layers: list[nn.Module] = []
        sizes = [in_channels, *hidden_channels]
        for layer, (size_in, size_out) in enumerate(pairwise(sizes), start=1):
            layers.append(nn.Linear(size_in, size_out, bias=bias))
            if layer < len(hidden_channels):
                if norm_layer is not None:
                    layers.append(norm_layer(size_out))
                if activation_layer is not None:
                    layers.append(activation_layer(**_inplace(inplace)))
            layers.append(nn.Dropout(dropout, **_inplace(inplace)))
        super().__init__(*layers)


class Permute(nn.Module):
    """Reorder the dimensions of a tensor; a view, nothing is copied.

    Args:
        dims: the dimensions of the input, in the order wanted.
    """

    def __init__(self, dims: Sequence[int]) -> None:
        super().__init__()
        self.dims = list(dims)

    def forward(self, x: Tensor) -> Tensor:
        """A view of `x` with its dimensions reordered."""
        return torch.permute(x, self.dims)

    def extra_repr(self) -> str:
        """The order of the dimensions."""
        return f"{self.dims}"


def _inplace(inplace: bool | None) -> dict[str, bool]:
    return {} if inplace is None else {"inplace": inplace}


def _same_padding(kernel_size: int | Sequence[int], dilation: int | Sequence[int]) -> int | tuple[int, ...]:
    """What keeps the size of the input, for odd kernels at stride 1; one number per dimension where sizes are given."""
    if isinstance(kernel_size, int) and isinstance(dilation, int):
        return (kernel_size - 1) // 2 * dilation
    dimensions = len(dilation) if isinstance(kernel_size, int) else len(kernel_size)  # type: ignore[arg-type]
    kernels = (kernel_size,) * dimensions if isinstance(kernel_size, int) else kernel_size
    dilations = (dilation,) * dimensions if isinstance(dilation, int) else dilation
    return tuple((kernel - 1) // 2 * step for kernel, step in zip(kernels, dilations, strict=True))
