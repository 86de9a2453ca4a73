"""Networks as functions: held constant, called with parameters of others, or with several sets at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ContextDecorator
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.data.tensordict import TensorDictBase


class hold_out_net(ContextDecorator):  # upstream's name
    """Hold a network constant for a while: none of its parameters requires gradients inside.

    Args:
        network: any module.

    Example:
        >>> net = nn.Linear(1, 1)
        >>> with hold_out_net(net):
        ...     net(torch.ones(1)).requires_grad
        False
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self._held: list[list[nn.Parameter]] = []

    def __enter__(self) -> None:
        held = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        for parameter in held:
            parameter.requires_grad_(False)
        self._held.append(held)

    def __exit__(self, *error: object) -> None:
        for parameter in self._held.pop():
            parameter.requires_grad_(True)


class hold_out_params(ContextDecorator):  # upstream's name
    """Parameters without their gradients, as the context's value.

    Args:
        params: tensors.
    """

    def __init__(self, params: Iterable[Tensor]) -> None:
        self.params = tuple(parameter.detach() for parameter in params)

    def __enter__(self) -> tuple[Tensor, ...]:
        return self.params

    def __exit__(self, *error: object) -> None:
        pass


def _vmap_func(
    module: Any, *args: Any, func: str | None = None, pseudo_vmap: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """A module as a function of its inputs and, last, of parameters, mapped over several sets of them.

    Args:
        module: which is called.
        *args: of `torch.vmap`, such as `(None, 0)`: one input, many sets.
        func: a method to call instead.
        pseudo_vmap: call it set by set, for what `torch.vmap` cannot take.
        **kwargs: of `torch.vmap`.
    """

    def call(*inputs: Any) -> Any:
        with inputs[-1].to_module(module):
            return (module if func is None else getattr(module, func))(*inputs[:-1])

    return (_pseudo_vmap if pseudo_vmap else torch.vmap)(call, *args, **kwargs)


def _pseudo_vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str | None = None, *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """What `torch.vmap` computes, one slice after the other."""

    def mapped(*args: Any) -> Any:
        dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
        sliced = [arg.unbind(dim) for arg, dim in zip(args, dims, strict=True) if dim is not None]
        if not sliced:
            raise ValueError("in_dims is None for all arguments, expected a dimension of one of them at least.")
        results = []
        for at in range(len(sliced[0])):
            slices = iter(sliced)
            inputs = (_apart(arg) if dim is None else next(slices)[at] for arg, dim in zip(args, dims, strict=True))
            results.append(func(*inputs))
        if not isinstance(results[0], tuple):
            return torch.stack(results, out_dims[0] if isinstance(out_dims, tuple) else out_dims)
        outs = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(results[0])
        return tuple(torch.stack(list(each), dim) for each, dim in zip(zip(*results, strict=True), outs, strict=True))

    return mapped


def _apart(arg: Any) -> Any:
    """Tensordicts for one call alone, which may write to them."""
    return arg.copy() if isinstance(arg, TensorDictBase) else arg


def _get_default_device(net: nn.Module) -> torch.device:
    """Where a network's parameters are; the default device where it has none."""
    for parameter in net.parameters():
        return parameter.device
    return torch.get_default_device()
