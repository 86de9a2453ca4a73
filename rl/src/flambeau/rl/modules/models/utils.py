"""Layers and helpers that networks share: shapes without parameters, depths, devices, resetting."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

__all__ = ["SquashDims", "Squeeze2dLayer", "SqueezeLayer", "create_on_device"]


class SqueezeLayer(nn.Module):
    """Remove dimensions of size 1.

    Args:
        dims: which, counted from the end, all negative.

    Raises:
        RuntimeError: one is not negative, or, from `forward`, has another size.
    """

    def __init__(self, dims: Sequence[int] = (-1,)) -> None:
        super().__init__()
        if any(dim >= 0 for dim in dims):
            raise RuntimeError(f"SqueezeLayer: dims is {tuple(dims)}, expected negative numbers alone.")
        self.dims = dims

    def forward(self, input: Tensor) -> Tensor:
        """Take the dimensions out."""
        for dim in sorted(self.dims):  # the farthest first, so that those behind keep their number
            if input.shape[dim] != 1:
                raise RuntimeError(
                    f"SqueezeLayer: the shape is {tuple(input.shape)}, expected 1 in the dimensions {tuple(self.dims)}."
                )
        return input.squeeze(tuple(self.dims))


class Squeeze2dLayer(SqueezeLayer):
    """Remove the last two dimensions, of size 1, as pooling of images leaves them."""

    def __init__(self) -> None:
        super().__init__((-1, -2))


class SquashDims(nn.Module):
    """Make one dimension of the last ones.

    Args:
        ndims_in: how many.

    Example:
        >>> SquashDims()(torch.zeros(5, 2, 3, 4)).shape
        torch.Size([5, 24])
    """

    def __init__(self, ndims_in: int = 3) -> None:
        super().__init__()
        self.ndims_in = ndims_in

    def forward(self, value: Tensor) -> Tensor:
        """(*batch, d1, ..., dn) -> (*batch, d1 * ... * dn)."""
        return value.flatten(-self.ndims_in, -1)


class Apply(nn.Module):
    """A function as a layer.

    Args:
        func: takes what `forward` is given.
    """

    def __init__(self, func: Callable[..., Any]) -> None:
        super().__init__()
        self.func = func

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.func(*args, **kwargs)

    def extra_repr(self) -> str:
        """The function's name."""
        return getattr(self.func, "__name__", repr(self.func))


_ExecutableLayer = Apply


def create_on_device(module_class: Callable[..., Any], device: Any, *args: Any, **kwargs: Any) -> nn.Module:
    """A module on a device: made there if its constructor takes `device`, else moved there.

    Args:
        module_class: makes the module.
        device: where; None leaves it where it is made.
        *args: of the constructor.
        **kwargs: of the constructor.
    """
    if _takes_device(module_class):
        made: nn.Module = module_class(*args, device=device, **kwargs)
        return made
    result: nn.Module = module_class(*args, **kwargs)
    if device is not None and hasattr(result, "to"):
        result = result.to(device)
    return result


def _takes_device(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some callables of C have no signature
        return False
    return "device" in parameters


def find_depth(depth: int | None, *list_or_ints: Any) -> int:
    """The number of layers: as given, or as the first of some lists has.

    Raises:
        ValueError: no depth is given, and there is no list.
    """
    if depth is not None:
        return depth
    for each in list_or_ints:
        if isinstance(each, (list, tuple)):
            return len(each)
    kinds = ", ".join(type(each).__name__ for each in list_or_ints)
    raise ValueError(
        f"depth is None, and none of kernel_sizes, strides and num_cells is a list that tells it (they are {kinds}); "
        "give depth, or one of them as a list."
    )


def per_layer(value: Any, count: int, name: str) -> list[Any]:
    """One value for each layer, of a list of them or of one for all.

    Raises:
        RuntimeError: a list of another length.
    """
    if isinstance(value, Iterable) and not isinstance(value, (str, dict)):
        found = list(value)
        if len(found) != count:
            raise RuntimeError(
                f"{name} has {len(found)} elements for a depth of {count}; give one for each layer, or one for all."
            )
        return found
    return [value] * count


def options_per_layer(
    options: dict[str, Any] | list[dict[str, Any]] | None, count: int, name: str
) -> list[dict[str, Any]]:
    """Keyword arguments for each layer.

    Raises:
        ValueError: a list that is too short.
    """
    if options is None or isinstance(options, dict):
        return [dict(options or {}) for _ in range(count)]
    if len(options) < count:
        raise ValueError(f"{name} has {len(options)} elements, expected one for each of {count} layers.")
    return [dict(each) for each in options[:count]]


def _find_depth(depth: int | None, *list_or_ints: Any) -> int:
    return find_depth(depth, *list_or_ints)


def _reset_parameters_recursive(module: nn.Module, warn_if_no_op: bool = True) -> bool:
    """Draw new values for all parameters below a module that know how; whether there were any."""
    found = False
    for layer in module.children():
        if hasattr(layer, "reset_parameters") and not _is_uninitialized(layer):
            layer.reset_parameters()  # type: ignore[operator]
            found = True
        found |= _reset_parameters_recursive(layer, warn_if_no_op=False)
    if warn_if_no_op and not found:
        warnings.warn("no module below has reset_parameters; nothing was reset.", UserWarning, stacklevel=2)
    return found


def _is_uninitialized(module: nn.Module) -> bool:
    return any(isinstance(each, UninitializedParameter) for each in module.parameters(recurse=False))


def size_of(features: Any) -> tuple[int, tuple[int, ...] | None]:
    """How many outputs there are, and the shape they are to have, if not just one dimension."""
    if isinstance(features, int):
        return features, None
    shape = tuple(features)
    return torch.Size(shape).numel(), shape
