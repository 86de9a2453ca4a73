"""Calls of operators on small batches, which take longer than the work, made shorter.

An operator with a gradient formula goes through Python at the dispatcher's autograd key, also where nothing needs a
gradient; one that only calls others goes to the dispatcher and back before its first line. On a batch of eight rows
that is two thirds of the time. So `torch.ops.flambeau_rec.<name>` looks at its arguments first: plain tensors that need
no gradient pass by the autograd key, and functions of other operators are called at once. All else (gradients,
subclasses, fake tensors, modes, symbolic sizes, keyword arguments, arguments that the schema does not have) goes the
usual way; so do calls of overloads such as `torch.ops.flambeau_rec.<name>.default`, and compiled graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._C import (
    _AutoDispatchBelowAutograd,
    _dispatch_has_kernel_for_dispatch_key,
    _len_torch_dispatch_stack,
    _len_torch_function_stack,
    is_grad_enabled,
)

__all__ = ["shorten"]

Function = Callable[..., Any]

_TENSOR = frozenset({Tensor, torch.nn.Parameter})
_NONE = frozenset({type(None)})
_NUMBERS: dict[str, frozenset[type]] = {
    "int": frozenset({int}),
    "SymInt": frozenset({int}),
    "float": frozenset({float, int}),
    "bool": frozenset({bool}),
}


def shorten(overload: torch._ops.OpOverload, function: Function | None = None) -> None:
    """Let calls of an operator by its name take the short way where they can.

    Args:
        overload: the operator, of which there is no other overload.
        function: for an operator that only calls others, what it does.
    """
    packet, given = overload.overloadpacket, overload._schema.arguments
    kinds = [_kind(str(argument.type)) for argument in given if not argument.kwarg_only]
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(given):
        return
    # Packets are found in dictionaries by this attribute, so it never changes again.
    if function is None:
        packet._op = _past_autograd(packet._op, known, packet._qualified_op_name)
    else:
        defaults = [argument.default_value for argument in given]
        required = sum(not argument.has_default_value() for argument in given)
        packet._op = _at_once(packet._op, known, defaults, required, function)


# Types of an argument, and where it is a list those of its elements.
Kind = tuple[frozenset[type], frozenset[type] | None]


def _kind(text: str) -> Kind | None:
    """What a type of a schema allows; None for what is not known here."""
    optional = text.startswith("Optional[")
    inner = text.removeprefix("Optional[").removesuffix("]") if optional else text
    none = _NONE if optional else frozenset()
    if inner == "Tensor":
        return _TENSOR | none, None
    if inner in _NUMBERS:
        return _NUMBERS[inner] | none, None
    element = inner.removeprefix("List[").removesuffix("]")
    if inner == f"List[{element}]" and (element == "Tensor" or element in _NUMBERS):
        return frozenset({list}) | none, _TENSOR if element == "Tensor" else _NUMBERS[element]
    return None


def _past_autograd(usual: Function, kinds: list[Kind], name: str) -> Function:
    types = [allowed for allowed, _ in kinds]
    lists = [at for at, (_, elements) in enumerate(kinds) if elements is _TENSOR]
    # Whether there is a gradient formula is known once the operator is registered, which is not yet.
    has_formula: bool | None = None

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal has_formula
        if has_formula is None:
            has_formula = _dispatch_has_kernel_for_dispatch_key(name, "Autograd")
        if not has_formula or kwargs or _len_torch_dispatch_stack() or _len_torch_function_stack():
            return usual(*args, **kwargs)
        learns = is_grad_enabled()
        for value, allowed in zip(args, types, strict=False):
            if type(value) not in allowed or (learns and type(value) in _TENSOR and value.requires_grad):
                return usual(*args)
        for at in lists:
            if at < len(args) and args[at] is not None:
                for value in args[at]:
                    if type(value) not in _TENSOR or (learns and value.requires_grad):
                        return usual(*args)
        with _AutoDispatchBelowAutograd():
            return usual(*args)

    return call


def _at_once(usual: Function, kinds: list[Kind], defaults: list[Any], required: int, function: Function) -> Function:
    def call(*args: Any, **kwargs: Any) -> Any:
        count = len(args)
        if kwargs or not required <= count <= len(kinds) or _len_torch_dispatch_stack() or _len_torch_function_stack():
            return usual(*args, **kwargs)
        for value, (allowed, elements) in zip(args, kinds, strict=False):
            if type(value) not in allowed:
                return usual(*args)
            if elements is not None and value is not None:
                for one in value:
                    if type(one) not in elements:
                        return usual(*args)
        return function(*args, *defaults[count:])

    return call
