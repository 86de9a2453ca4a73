"""Another number of classes or input channels for a model whose weights were trained for one.

The head starts again, since its outputs mean something else. The stem keeps what it learned: with one channel its
kernels are summed, so that a grey picture gives what a colour picture with three equal channels gave; with another
number they are repeated in order and scaled by old / new, so that activations keep their size.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)

_CONVOLUTION = ("kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")
Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d


def replace_outputs(model: nn.Module, layers: Sequence[str], classes: int, before: int | None = None) -> None:
    """Give layers outputs for another number of classes, and new values.

    Args:
        model: changed in place.
        layers: dotted names of linear layers or convolutions. One with several outputs per class (box coordinates,
            anchors) keeps that number per class. One in a part that is None, such as an auxiliary head that was not
            asked for, is left out.
        classes: the new number, > 0.
        before: the number so far; None takes the first layer's outputs.

    Raises:
        ValueError: a layer is of another kind, or its outputs are no multiple of `before`.
    """
    layers = [name for name in layers if not _is_left_out(model, name)]
    for name in layers:
        layer = model.get_submodule(name)
        if not isinstance(layer, (nn.Linear, Convolution)):
            kind = f"{type(layer).__module__}.{type(layer).__qualname__}"
            raise ValueError(f"head {name!r} is a {kind}, expected a torch.nn.Linear or a convolution of torch.nn.")
        outputs = layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels
        before = before or outputs
        if outputs % before:
            raise ValueError(
                f"head {name!r} has {outputs} outputs, expected a multiple of the {before} classes so far."
            )
        _replace(model, name, _like(layer, outputs=outputs // before * classes))
        for ancestor in _ancestors(model, name):
            if getattr(ancestor, "num_classes", None) == before:
                ancestor.num_classes = classes  # type: ignore[assignment]
    names = ", ".join(layers)
    logger.info("%s: %s start from new values, for %d classes, not %s.", type(model).__name__, names, classes, before)


def replace_inputs(model: nn.Module, layers: Sequence[str], channels: int, *, learned: bool) -> None:
    """Let convolutions read another number of channels.

    Args:
        model: changed in place.
        layers: dotted names of convolutions without groups.
        channels: the new number, > 0.
        learned: derive the kernels from those so far; False gives new values.

    Raises:
        ValueError: a layer is of another kind.
    """
    for name in layers:
        layer = model.get_submodule(name)
        if not isinstance(layer, Convolution) or layer.groups != 1:
            raise ValueError(f"stem {name!r} is {layer}, expected a convolution without groups.")
        before = layer.in_channels
        if before == channels:
            continue
        wider = _like(layer, inputs=channels)
        if learned:
            with torch.no_grad():
                wider.weight.copy_(adapted_kernels(layer.weight, channels))
                if layer.bias is not None:
                    wider.bias.copy_(layer.bias)
        _replace(model, name, wider)
        how = ("summed" if channels == 1 else "repeated and scaled") if learned else "given new values"
        told = (type(model).__name__, name, how, channels, before)
        logger.info("%s: the kernels of %s were %s, for %d input channels, not %d.", *told)


def adapted_kernels(weight: Tensor, channels: int) -> Tensor:
    """Kernels for another number of input channels.

    Args:
        weight: (out, in, *kernel), floating.
        channels: inputs of the result, > 0.

    Returns:
        (out, channels, *kernel): the sum over inputs for one channel, else the inputs repeated in order, times
        in / channels.

    Example:
        >>> adapted_kernels(torch.tensor([[[1.0], [2.0], [3.0]]]), 1)
        tensor([[[6.]]])
        >>> adapted_kernels(torch.tensor([[[1.0], [2.0], [3.0]]]), 6)[0, :, 0]
        tensor([0.5000, 1.0000, 1.5000, 0.5000, 1.0000, 1.5000])
    """
    before = weight.shape[1]
    if channels == 1:
        return weight.sum(1, keepdim=True)
    return weight[:, torch.arange(channels, device=weight.device) % before] * (before / channels)


def _like(layer: Any, *, inputs: int | None = None, outputs: int | None = None) -> Any:
    """A layer with new values, alike but for its numbers of inputs or outputs."""
    placed = {"device": layer.weight.device, "dtype": layer.weight.dtype, "bias": layer.bias is not None}
    if isinstance(layer, nn.Linear):
        fresh: nn.Module = nn.Linear(inputs or layer.in_features, outputs or layer.out_features, **placed)
    else:
        shape = {key: getattr(layer, key) for key in _CONVOLUTION}
        fresh = type(layer)(inputs or layer.in_channels, outputs or layer.out_channels, **shape, **placed)
    fresh.train(layer.training)
    fresh.requires_grad_(layer.weight.requires_grad)
    return fresh


def _replace(model: nn.Module, name: str, layer: nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, layer)


def _is_left_out(model: nn.Module, name: str) -> bool:
    """Whether a part on the way to a layer is None."""
    part: Any = model
    for step in name.split("."):
        part = getattr(part, step, part)
        if part is None:
            return True
    return False


def _ancestors(model: nn.Module, name: str) -> list[nn.Module]:
    parts = name.split(".")[:-1]
    return [model.get_submodule(".".join(parts[:depth])) for depth in range(len(parts) + 1)]
