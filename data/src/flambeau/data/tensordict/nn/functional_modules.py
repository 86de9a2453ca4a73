"""Modules whose parameters are an argument: the older way, beside `to_module` and `torch.func`.

`make_functional(module)` takes the parameters out of a module and gives them as a TensorDict; the module is then called
as `module(x, params=params)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from flambeau.data.tensordict._td import TensorDict

__all__ = [
    "extract_weights_and_buffers",
    "get_functional",
    "is_functional",
    "make_functional",
    "repopulate_module",
    "set_tensor",
    "set_tensor_dict",
]

_MARK = "_flambeau_functional"


def extract_weights_and_buffers(model: nn.Module) -> Any:
    """Take all parameters and buffers out of a module, which keeps its structure with None in their places.

    Returns:
        A TensorDict of them, nested as the module's children are.
    """
    found: dict[str, Any] = {}
    for store in (model._parameters, model._buffers):
        for name, value in store.items():
            if value is not None:
                found[name] = value
                store[name] = None
    for name, child in model.named_children():
        below = extract_weights_and_buffers(child)
        if not below.is_empty():
            found[name] = below
    return TensorDict(found)


def repopulate_module(model: nn.Module, tensordict: Any) -> nn.Module:
    """Put the tensors of a TensorDict into the places of a module; the opposite of `extract_weights_and_buffers`.

    Returns:
        The module, which keeps its parameters from now on.
    """
    for key, value in tensordict.items():
        if isinstance(value, Tensor):
            set_tensor(model, key, value)
        else:
            repopulate_module(model.get_submodule(key), value)
    if is_functional(model):
        kind: Any = type(model)
        model.__class__ = kind._plain
    return model


def set_tensor(module: nn.Module, name: str, tensor: Tensor) -> None:
    """Make a tensor the parameter or buffer of this name."""
    set_tensor_dict(module.__dict__, module, name, tensor)


def set_tensor_dict(module_dict: dict[str, Any], module: nn.Module, name: str, tensor: Tensor) -> None:
    """As `set_tensor`, with the module's `__dict__` at hand."""
    parameters, buffers = module_dict["_parameters"], module_dict["_buffers"]
    if name in parameters and not isinstance(tensor, nn.Parameter) and tensor is not None:
        # A plain tensor in a parameter's place counts as the attribute, as in `to_module`.
        parameters[name] = tensor
    elif name in buffers:
        buffers[name] = tensor
    elif name in parameters or isinstance(tensor, nn.Parameter):
        parameters[name] = tensor
    else:
        setattr(module, name, tensor)


def is_functional(module: nn.Module) -> bool:
    """Whether a module takes its parameters as an argument."""
    return bool(getattr(type(module), _MARK, False))


def get_functional(module: nn.Module, funs_to_decorate: Iterable[str] | None = None) -> nn.Module:
    """A copy of a module that takes its parameters as the keyword `params`; the module itself stays as it is.

    Args:
        module: any module.
        funs_to_decorate: the methods that take them; `forward` if not given.
    """
    import copy

    functional = copy.deepcopy(module)
    make_functional(functional, funs_to_decorate, return_params=False)
    return functional


def make_functional(
    module: nn.Module,
    funs_to_decorate: Iterable[str] | None = None,
    keep_params: bool = False,
    return_params: bool = True,
) -> Any:
    """Let a module take its parameters as the keyword `params` of its methods.

    Args:
        module: any module, which is changed.
        funs_to_decorate: the methods that take them; `forward` if not given.
        keep_params: leave the module its parameters too, which count where none are given.
        return_params: give the parameters.

    Returns:
        A TensorDict of the parameters and buffers, or None.

    Example:
        >>> layer = nn.Linear(2, 3)
        >>> params = make_functional(layer)
        >>> layer(torch.ones(2), params=params * 0).count_nonzero()
        tensor(0)
    """
    params = TensorDict.from_module(module, lock=False)
    if not keep_params:
        extract_weights_and_buffers(module)
    if not is_functional(module):
        plain = type(module)
        methods = {name: _taking_params(name, plain) for name in funs_to_decorate or ("forward",)}
        module.__class__ = type(plain.__name__, (plain,), {_MARK: True, "_plain": plain, **methods})
    return params if return_params else None


def _taking_params(name: str, plain: type) -> Any:
    method = getattr(plain, name)

    def call(self: nn.Module, *args: Any, params: Any = None, **kwargs: Any) -> Any:
        if params is None:
            return method(self, *args, **kwargs)
        with params.to_module(self):
            return method(self, *args, **kwargs)

    call.__name__ = name
    call.__doc__ = method.__doc__
    return call
