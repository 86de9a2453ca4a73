"""Networks taken apart into parameters: theirs, several sets of them, and those of targets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import TensorDictParams

# Modules that draw numbers when they are called; `add_random_module` adds others.
RANDOM_MODULES: list[type[nn.Module]] = [
    nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout, nn.RReLU,
    nn.FractionalMaxPool2d, nn.FractionalMaxPool3d,
]  # fmt: skip


def add_random_module(module: type[nn.Module]) -> None:
    """Tell losses that a class of modules draws random numbers, so that each of several networks draws its own.

    Args:
        module: a class.

    Raises:
        TypeError: not a class.
    """
    if not isinstance(module, type):
        raise TypeError(f"module is {module!r}, expected a class of modules.")
    if module not in RANDOM_MODULES:
        RANDOM_MODULES.append(module)


def parameters_of(module: Any, expand_dim: int | None, shared: Iterable[Tensor] | None) -> tuple[Any, list[Any]]:
    """The parameters of a network, or those of several that are alike, stacked along a new first dimension.

    Args:
        module: a module; a list of `expand_dim` of them is stacked as it is.
        expand_dim: how many. Parameters are drawn anew, uniformly in the range of the network's; buffers are copied.
        shared: parameters that are trained elsewhere: the network, or all of several, uses those without gradients.

    Returns:
        The parameters, and of each that is shared the key and the original.

    Raises:
        RuntimeError: the list has another length, or there are parameters without a shape.
    """
    if isinstance(module, (list, tuple, nn.ModuleList)):
        if expand_dim != len(module):
            raise RuntimeError(
                f"expand_dim is {expand_dim} with a list of {len(module)} modules; pass as many modules as networks "
                "are wanted, or one."
            )
        for each in module:
            _check_shapes(each)
        return TensorDict.from_modules(*module, as_module=True), []
    params = TensorDict.from_module(module, as_module=True)
    known = {id(parameter) for parameter in shared or ()}
    links = [(key, leaf) for key, leaf in params.items(True, True) if id(leaf) in known]
    if not expand_dim and not links:
        return params, []
    if expand_dim:
        _check_shapes(module)
    size = [expand_dim] if expand_dim else []
    made = TensorDict({}, size)
    for key, leaf in params.items(True, True):
        shown = constant_view(leaf, size) if id(leaf) in known else _several(leaf, expand_dim) if expand_dim else leaf
        made.set(key, shown)
    return TensorDictParams(made, no_convert="skip", lock=True), links


def constant_view(parameter: Tensor, batch_size: Sequence[int]) -> Any:
    """A buffer that reads a parameter's memory, once for each of a number of networks."""
    return nn.Buffer(parameter.detach().expand(*batch_size, *parameter.shape))


def _several(leaf: Tensor, count: int) -> Any:
    if not isinstance(leaf, nn.Parameter):
        return nn.Buffer(leaf.detach().expand(count, *leaf.shape).clone())
    drawn = torch.empty(count, *leaf.shape, dtype=leaf.dtype, device=leaf.device)
    if leaf.numel():
        drawn.uniform_(leaf.min().item(), leaf.max().item())
    return nn.Parameter(drawn, requires_grad=leaf.requires_grad)


def targets_of(params: Any) -> Any:
    """Copies of parameters, which no optimizer sees."""
    if any(is_lazy(leaf) for leaf in params.values(True, True)):
        raise RuntimeError(
            "Targets of parameters that have no shape yet cannot be made; call the network on some data first."
        )
    return TensorDictParams(params.data.clone(), no_convert=True, lock=True)


def _check_shapes(module: nn.Module) -> None:
    lazy = [name for name, leaf in [*module.named_parameters(), *module.named_buffers()] if is_lazy(leaf)]
    if lazy:
        raise RuntimeError(f"{lazy[0]!r} has no shape yet; call the network on some data, then make several.")
