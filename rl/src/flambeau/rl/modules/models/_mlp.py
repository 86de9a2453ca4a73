"""Multi-layer perceptrons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rl.modules.models.exploration import NoisyLazyLinear, NoisyLinear
from flambeau.rl.modules.models.utils import create_on_device, options_per_layer, size_of

LAZY: dict[Any, Any] = {nn.Linear: nn.LazyLinear, NoisyLinear: NoisyLazyLinear}
"""Layers, and those that take their number of inputs from the first call."""


class SharedBias(nn.Module):
    """One number that is added to all outputs.

    Args:
        device, dtype: of the number.
    """

    def __init__(self, device: Any = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.empty(1, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set it to 0."""
        nn.init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Add it."""
        return input + self.bias


class MLP(nn.Sequential):
    """Linear layers with activations between them; several inputs are joined along their last dimension.

    Of each layer but the last: linear, dropout, norm, activation.

    Args:
        in_features: of the inputs together; None waits for the first call.
        out_features: a number, or a shape, to which the last dimension is then split.
        depth: number of layers before the last; as many as `num_cells` lists, or none.
        num_cells: their sizes, or one for all; 32 unless given.
        activation_class: makes the activations.
        activation_kwargs: of the activations, or a list of them, one each.
        norm_class: makes norms, if there are to be any.
        norm_kwargs: as `activation_kwargs`.
        dropout: probability, if there is to be dropout.
        bias_last_layer: whether the last layer has a bias.
        single_bias_last_layer: let all outputs share one bias, 0 at first.
        layer_class: makes the linear layers.
        layer_kwargs: as `activation_kwargs`, with one more for the last layer.
        activate_last_layer: let dropout, norm and activation follow the last layer too.
        device: of the parameters.

    Raises:
        ValueError: `out_features` is absent, a list of arguments too short, or a `NoisyLinear` should share a bias.
        RuntimeError: `depth` is not the length of `num_cells`.

    Example:
        >>> net = MLP(in_features=3, out_features=(2, 4), num_cells=[16, 16])
        >>> net(torch.zeros(5, 3)).shape, net(torch.zeros(5, 2), torch.zeros(5, 1)).shape
        (torch.Size([5, 2, 4]), torch.Size([5, 2, 4]))
    """

    def __init__(
        self,
        in_features: int | None = None,
        out_features: int | torch.Size | Sequence[int] | None = None,
        depth: int | None = None,
        num_cells: Sequence[int] | int | None = None,
        activation_class: type[nn.Module] | Callable[..., Any] = nn.Tanh,
        activation_kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        norm_class: type[nn.Module] | Callable[..., Any] | None = None,
        norm_kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        dropout: float | None = None,
        bias_last_layer: bool = True,
        single_bias_last_layer: bool = False,
        layer_class: type[nn.Module] | Callable[..., Any] = nn.Linear,
        layer_kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        activate_last_layer: bool = False,
        device: Any = None,
    ) -> None:
        if out_features is None:
            raise ValueError("MLP: out_features is None, expected the number of outputs, or their shape.")
        if single_bias_last_layer and layer_class is NoisyLinear:
            raise ValueError("MLP: single_bias_last_layer=True has no meaning for NoisyLinear, whose bias has noise.")
        self.in_features, self.out_features = in_features, out_features
        self._out_features_num, shape = size_of(out_features)
        self._reshape_out = shape is not None
        self.num_cells, self.depth = _cells(num_cells, depth)
        self.activation_class, self.activation_kwargs = activation_class, activation_kwargs
        self.norm_class, self.norm_kwargs = norm_class, norm_kwargs
        self.layer_class, self.layer_kwargs = layer_class, layer_kwargs
        self.dropout, self.activate_last_layer = dropout, activate_last_layer
        self.bias_last_layer, self.single_bias_last_layer = bias_last_layer, single_bias_last_layer
        super().__init__(*self._layers(device))

    def _layers(self, device: Any) -> list[nn.Module]:
        activated = self.depth + int(self.activate_last_layer)
        activations = options_per_layer(self.activation_kwargs, activated, "activation_kwargs")
        norms = options_per_layer(self.norm_kwargs, activated, "norm_kwargs")
        options = options_per_layer(self.layer_kwargs, self.depth + 1, "layer_kwargs")
        sizes = [self.in_features, *self.num_cells, self._out_features_num]
        layers: list[nn.Module] = []
        for at, kwargs in enumerate(options):
            last = at == self.depth
            if last:
                kwargs = {"bias": self.bias_last_layer and not self.single_bias_last_layer, **kwargs}
            layers.append(self._linear(sizes[at], sizes[at + 1], device, kwargs))
            if last and self.single_bias_last_layer:
                layers.append(SharedBias(device))
            if at < activated:
                if self.dropout is not None:
                    layers.append(create_on_device(nn.Dropout, device, p=self.dropout))
                if self.norm_class is not None:
                    layers.append(create_on_device(self.norm_class, device, **norms[at]))
                layers.append(create_on_device(self.activation_class, device, **activations[at]))
        return layers

    def _linear(self, inputs: int | None, outputs: Any, device: Any, kwargs: dict[str, Any]) -> nn.Module:
        if inputs is not None:
            return create_on_device(self.layer_class, device, inputs, outputs, **kwargs)
        if self.layer_class not in LAZY:
            raise ValueError(f"MLP: in_features is None, but {self.layer_class} has no lazy form; give in_features.")
        return create_on_device(LAZY[self.layer_class], device, outputs, **kwargs)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Map (..., F1), (..., F2), ... with F1 + F2 + ... = in_features to (..., *out_features)."""
        joined = torch.cat(inputs, -1) if len(inputs) != 1 else inputs[0]
        out: Tensor = super().forward(joined)  # type: ignore[no-untyped-call]  # torch's
        return out.view(*out.shape[:-1], *self.out_features) if self._reshape_out else out  # type: ignore[misc]


def _cells(num_cells: Sequence[int] | int | None, depth: int | None) -> tuple[list[int], int]:
    if num_cells is None or isinstance(num_cells, int):
        cells = [32 if num_cells is None else num_cells] * (depth or 0)
    else:
        cells = list(num_cells)
    if depth is not None and len(cells) != depth:
        raise RuntimeError(f"MLP: num_cells has {len(cells)} sizes, depth is {depth}; they must agree.")
    return cells, len(cells)
