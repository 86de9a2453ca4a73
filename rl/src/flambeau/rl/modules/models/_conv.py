"""Convolutional networks of images and volumes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from flambeau.rl.modules.models.utils import (
    SquashDims,
    Squeeze2dLayer,
    SqueezeLayer,
    create_on_device,
    find_depth,
    options_per_layer,
    per_layer,
)


class _Convolutions(nn.Sequential):
    """Convolutions over some last dimensions, and what makes a vector of their result."""

    _dims: int
    _plain: type[nn.Module]
    _lazy: type[nn.Module]
    _squeeze: type[nn.Module]

    def __init__(
        self,
        in_features: int | None = None,
        depth: int | None = None,
        num_cells: Sequence[int] | int | None = None,
        kernel_sizes: Sequence[Any] | int = 3,
        strides: Sequence[Any] | int = 1,
        paddings: Sequence[Any] | int = 0,
        activation_class: type[nn.Module] | Callable[..., Any] = nn.ELU,
        activation_kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        norm_class: type[nn.Module] | Callable[..., Any] | None = None,
        norm_kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        bias_last_layer: bool = True,
        aggregator_class: type[nn.Module] | Callable[..., Any] | None = SquashDims,
        aggregator_kwargs: dict[str, Any] | None = None,
        squeeze_output: bool = False,
        device: Any = None,
    ) -> None:
        if num_cells is None:
            num_cells = self._default_cells(depth)
        self.in_features, self.bias_last_layer = in_features, bias_last_layer
        self.activation_class, self.activation_kwargs = activation_class, activation_kwargs
        self.norm_class, self.norm_kwargs = norm_class, norm_kwargs
        self.aggregator_class, self.squeeze_output = aggregator_class, squeeze_output
        self.aggregator_kwargs = aggregator_kwargs if aggregator_kwargs is not None else {"ndims_in": self._dims + 1}
        self.depth = find_depth(depth, num_cells, kernel_sizes, strides, paddings)
        if self.depth == 0:
            raise ValueError(f"{type(self).__name__}: depth is 0, expected at least one layer.")
        self.num_cells = per_layer(num_cells, self.depth, "num_cells")
        self.kernel_sizes = per_layer(kernel_sizes, self.depth, "kernel_sizes")
        self.strides = per_layer(strides, self.depth, "strides")
        self.paddings = per_layer(paddings, self.depth, "paddings")
        self.out_features = self.num_cells[-1]
        super().__init__(*self._layers(device))

    @staticmethod
    def _default_cells(depth: int | None) -> list[int]:
        return [32, 32, 32]

    def _layers(self, device: Any) -> list[nn.Module]:
        activations = options_per_layer(self.activation_kwargs, self.depth, "activation_kwargs")
        norms = options_per_layer(self.norm_kwargs, self.depth, "norm_kwargs")
        sizes = [self.in_features, *self.num_cells]
        layers: list[nn.Module] = []
        for at in range(self.depth):
            kwargs = {"kernel_size": self.kernel_sizes[at], "stride": self.strides[at], "padding": self.paddings[at]}
            kwargs["bias"] = self.bias_last_layer if at == self.depth - 1 else True
            if (inputs := sizes[at]) is None:
                layers.append(create_on_device(self._lazy, device, sizes[at + 1], **kwargs))
            else:
                layers.append(create_on_device(self._plain, device, inputs, sizes[at + 1], **kwargs))
            layers.append(create_on_device(self.activation_class, device, **activations[at]))
            if self.norm_class is not None:
                layers.append(create_on_device(self.norm_class, device, **norms[at]))
        if self.aggregator_class is not None:
            layers.append(create_on_device(self.aggregator_class, device, **self.aggregator_kwargs))
        if self.squeeze_output:
            layers.append(self._squeeze())
        return layers

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (*batch, C, ...) with any number of batch dimensions to (*batch, features).

        Raises:
            ValueError: there are fewer dimensions than those of one input.
        """
        dims = self._dims + 1
        if inputs.ndim < dims:
            raise ValueError(
                f"{type(self).__name__}: inputs have shape {tuple(inputs.shape)}, expected at least {dims} dimensions."
            )
        batch = inputs.shape[:-dims]
        # Convolutions and norms take one batch dimension.
        flat = inputs.flatten(0, -dims - 1) if len(batch) > 1 else inputs
        out: Tensor = super().forward(flat)  # type: ignore[no-untyped-call]  # torch's
        return out.unflatten(0, batch) if len(batch) > 1 else out


class ConvNet(_Convolutions):
    """Convolutions of images with activations between them, whose result is made a vector.

    Of each layer: convolution, activation, norm.

    Args:
        in_features: channels of the input; None waits for the first call.
        depth: number of layers; as many as a list among the following has.
        num_cells: channels of the layers; [32, 32, 32] unless given.
        kernel_sizes, strides, paddings: of the layers, one for all or a list.
        activation_class: makes the activations.
        activation_kwargs: of the activations, or a list of them, one each.
        norm_class: makes norms, if there are to be any.
        norm_kwargs: as `activation_kwargs`.
        bias_last_layer: whether the last layer has a bias.
        aggregator_class: makes what follows the last layer; None leaves the channels and their positions.
        aggregator_kwargs: of it.
        squeeze_output: take two last dimensions of size 1 out of the result.
        device: of the parameters.

    Raises:
        RuntimeError: lists have another length than the depth.
        ValueError: the depth is 0, or nothing tells it.

    Example:
        >>> ConvNet(in_features=3, num_cells=[8, 4])(torch.zeros(5, 2, 3, 10, 10)).shape
        torch.Size([5, 2, 144])
    """

    _dims, _plain, _lazy, _squeeze = 2, nn.Conv2d, nn.LazyConv2d, Squeeze2dLayer

    @classmethod
    def default_atari_dqn(cls, num_actions: int) -> nn.Sequential:
        """The network of Mnih et al. 2015 for stacked frames (*batch, C, 84, 84), with one output an action.

        Args:
            num_actions: number of outputs.
        """
        from flambeau.rl.modules.models._mlp import MLP

        images = cls(
            activation_class=nn.ReLU, num_cells=[32, 64, 64], kernel_sizes=[8, 4, 3], strides=[4, 2, 1]
        )  # fmt: skip
        return nn.Sequential(images, MLP(out_features=num_actions, activation_class=nn.ReLU, num_cells=[512]))


class Conv3dNet(_Convolutions):
    """The same for volumes (*batch, C, D, H, W), such as clips of video; see `ConvNet`.

    Args:
        in_features, depth, num_cells, kernel_sizes, strides, paddings, activation_class, activation_kwargs, norm_class,
            norm_kwargs, bias_last_layer, aggregator_class, aggregator_kwargs, device: see `ConvNet`.
        squeeze_output: take a last dimension of size 1 out of the result.
    """

    _dims, _plain, _lazy, _squeeze = 3, nn.Conv3d, nn.LazyConv3d, SqueezeLayer

    @staticmethod
    def _default_cells(depth: int | None) -> list[int]:
        return [32] * (3 if depth is None else depth)


Conv2dNet = ConvNet
