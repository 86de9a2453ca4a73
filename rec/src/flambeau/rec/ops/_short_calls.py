"""Calls of operators on small batches, which take longer than the work, made shorter.

An operator with a gradient formula goes through Python at the dispatcher's autograd key, also where nothing needs a
gradient; one that only calls others, or whose kernel is called from Python, goes to the dispatcher and back before its
first line. On a batch of eight rows that is two thirds of the time. So this package calls its operators as
`OPS.<name>`, which looks at the arguments first: plain tensors that need no gradient pass by the autograd key,
functions of other operators are called at once, and so are kernels in Python where all tensors are on the CPU. All
else (gradients, subclasses, fake tensors, modes, transforms, symbolic sizes, keyword arguments, arguments that the
schema does not have) goes to `torch.ops.flambeau_rec.<name>`, as do programs while they are compiled, so that graphs
have the operator.
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
from torch._C._functorch import peek_interpreter_stack
from torch.compiler import is_dynamo_compiling

__all__ = ["OPS", "shorten", "shorten_on_cpu"]

Function = Callable[..., Any]

_TENSOR = frozenset({Tensor, torch.nn.Parameter})
_NONE = frozenset({type(None)})
_NUMBERS: dict[str, frozenset[type]] = {
    "int": frozenset({int}),
    "SymInt": frozenset({int}),
    "float": frozenset({float, int}),
    "bool": frozenset({bool}),
}


class _Operators:
    """Functions that do what the operators of their names do."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.ops.flambeau_rec, name)


OPS = _Operators()
"""This library's operators by their names, to be called with positional arguments."""


def shorten(overload: torch._ops.OpOverload, function: Function | None = None) -> None:
    """Let calls of `OPS.<name>` take the short way where they can.

    Args:
        overload: the operator, of which there is no other overload.
        function: for an operator that only calls others, what it does.
    """
    packet, given = overload.overloadpacket, overload._schema.arguments
    kinds = [_kind(str(argument.type)) for argument in given if not argument.kwarg_only]
    known = [kind for kind in kinds if kind is not None]
    call: Function = packet
    if len(known) == len(given):
        if function is None:
            # What the overload calls itself, without the frame around it.
            direct = getattr(overload, "_op", overload)
            call = _past_autograd(packet, direct, known, packet._qualified_op_name)
        else:
            defaults = [argument.default_value for argument in given]
            required = sum(not argument.has_default_value() for argument in given)
            call = _at_once(packet, known, defaults, required, function)
    setattr(OPS, packet.__name__, call)


def shorten_on_cpu(overload: torch._ops.OpOverload, kernel: Function) -> None:
    """Let calls of `OPS.<name>` with tensors on the CPU go straight to the kernel in Python that serves there.

    Args:
        overload: the operator, of which there is no other overload.
        kernel: what is registered for the CPU; it gives tensors of its own, which are no views.
    """
    packet, given = overload.overloadpacket, overload._schema.arguments
    kinds = [_kind(str(argument.type)) for argument in given]
    known = [kind for kind in kinds if kind is not None]
    if len(known) == len(given):
        required = sum(not argument.has_default_value() for argument in given)
        setattr(OPS, packet.__name__, _on_cpu(packet, known, required, kernel))


def _is_watched() -> bool:
    """Whether something wants to see the operator itself."""
    return bool(_len_torch_dispatch_stack() or _len_torch_function_stack() or peek_interpreter_stack() is not None)


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


def _past_autograd(packet: Function, direct: Function, kinds: list[Kind], name: str) -> Function:
    types = [allowed for allowed, _ in kinds]
    lists = [at for at, (_, elements) in enumerate(kinds) if elements is _TENSOR]
    # Whether there is a gradient formula is known once the operator is registered, which is not yet.
    has_formula: bool | None = None

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal has_formula
        if is_dynamo_compiling():
            return packet(*args, **kwargs)
        if has_formula is None:
            has_formula = _dispatch_has_kernel_for_dispatch_key(name, "Autograd")
        if not has_formula or kwargs or _is_watched():
            return packet(*args, **kwargs)
        learns = is_grad_enabled()
        for value, allowed in zip(args, types, strict=False):
            if type(value) not in allowed or (learns and type(value) in _TENSOR and value.requires_grad):
                return packet(*args)
        for at in lists:
            if at < len(args) and args[at] is not None:
                for value in args[at]:
                    if type(value) not in _TENSOR or (learns and value.requires_grad):
                        return packet(*args)
        with _AutoDispatchBelowAutograd():
            return direct(*args)

    return call


def _at_once(packet: Function, kinds: list[Kind], defaults: list[Any], required: int, function: Function) -> Function:
    def call(*args: Any, **kwargs: Any) -> Any:
        count = len(args)
        if is_dynamo_compiling() or kwargs or not required <= count <= len(kinds) or _is_watched():
            return packet(*args, **kwargs)
        for value, (allowed, elements) in zip(args, kinds, strict=False):
            if type(value) not in allowed:
                return packet(*args)
            if elements is not None and value is not None:
                for one in value:
                    if type(one) not in elements:
                        return packet(*args)
        return function(*args, *defaults[count:])

    return call


def _on_cpu(packet: Function, kinds: list[Kind], required: int, kernel: Function) -> Function:
    types = [allowed for allowed, _ in kinds]
    lists = [(at, elements) for at, (_, elements) in enumerate(kinds) if elements is not None]

    def call(*args: Any, **kwargs: Any) -> Any:
        count = len(args)
        if is_dynamo_compiling() or kwargs or not required <= count <= len(types) or _is_watched():
            return packet(*args, **kwargs)
        learns = is_grad_enabled()
        for value, allowed in zip(args, types, strict=False):
            if type(value) not in allowed:
                return packet(*args)
            if type(value) in _TENSOR and (not value.is_cpu or (learns and value.requires_grad)):
                return packet(*args)
        for at, elements in lists:
            if at < count and args[at] is not None:
                for value in args[at]:
                    if type(value) not in elements:
                        return packet(*args)
                    if elements is _TENSOR and (not value.is_cpu or (learns and value.requires_grad)):
                        return packet(*args)
        return kernel(*args)

    return call
