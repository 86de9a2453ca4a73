"""Declaring an operator once: schema, shape-only twin, gradient, and an implementation for every device."""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flambeau.core.errors import DuplicateNameError
from flambeau.core.native.library import KernelLibrary
from flambeau.core.native.tiers import logger

if TYPE_CHECKING:
    import torch
    from torch._ops import OpOverload

# Devices that run Triton kernels, and those that autocast.
_TRITON_KEYS = ("CUDA", "XPU")
_AUTOCAST_DEVICES = {"AutocastCPU": "cpu", "AutocastCUDA": "cuda", "AutocastXPU": "xpu"}

_lock = threading.RLock()


def register_op(
    schema: str,
    *,
    library: KernelLibrary,
    symbol: Callable[..., Any] | None = None,
    fake: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    setup_context: Callable[..., None] | None = None,
    python: Callable[..., Any] | None = None,
    triton: str | None = None,
    autocast: torch.dtype | None = None,
    kernels: Mapping[str, Callable[..., Any]] | None = None,
) -> OpOverload:
    """Define `torch.ops.<namespace>.<name>` and give it the best implementation that works here.

    On the CPU that is the library's own kernel, registered by itself; else `symbol`; else `python`. A tier that fails
    gives way to the next with a debug message (logger "flambeau.native"): the operator exists in any case.
    Registering the same schema again changes nothing.

    Args:
        schema: without namespace, for example "nms(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor".
        library: whose namespace the operator joins, and which may hold its native kernel under the same name.
        symbol: the operator in Python over `library.function(...)`, for the ctypes tier.
        fake: the operator on tensors without data: checks, shapes, dtypes. Sizes that depend on values come from
            `torch.library.get_ctx().new_dynamic_size()`.
        backward: gradient formula `backward(ctx, *grads)`; None where no output can carry a gradient. Decorate it with
            `torch.autograd.function.once_differentiable` when the second derivative is not defined.
        setup_context: `setup_context(ctx, inputs, output)` saves what `backward` needs.
        python: the operator in plain torch, for every device: reference and fallback.
        triton: "package.module:function", imported at the first call on CUDA or XPU; where that import fails
            (Triton is not installed), `python` serves.
        autocast: dtype to compute in under autocast; floating results come back in the dtype of the first floating
            argument. float64 arguments stay as they are.
        kernels: further implementations by dispatch key, for example {"QuantizedCPU": function}.

    Returns:
        The operator, callable from Python.

    Raises:
        DuplicateNameError: the name is taken by another schema.
        ValueError: the schema has no name.
    """
    import torch

    name = _name(schema)
    qualified = f"{library.namespace}::{name}"
    with _lock:
        if name in library.operators:
            return _registered(library, name, schema)
        fragment = library.fragment()
        fragment.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        base, _, overload_name = name.partition(".")
        packet = getattr(getattr(torch.ops, library.namespace), base)
        overload: OpOverload = getattr(packet, overload_name or "default")

        torch.library.register_fake(qualified, fake, lib=fragment)
        reference = python or _unavailable(qualified, library)
        fragment.impl(name, reference, "CompositeExplicitAutograd")
        provider = _register_cpu(name, library, symbol)
        if triton is not None:
            for key in _TRITON_KEYS:
                fragment.impl(name, _at_first_call(triton, reference, qualified), key)
        for key, kernel in (kernels or {}).items():
            fragment.impl(name, kernel, key)
        if autocast is not None:
            for key, device in _AUTOCAST_DEVICES.items():
                fragment.impl(name, _autocast(overload, key, device, autocast), key)
        if backward is not None:
            torch.library.register_autograd(qualified, backward, setup_context=setup_context, lib=fragment)
        library.operators[name] = {"schema": schema, "provider": provider, "triton": triton, "overload": overload}
    return overload


def _name(schema: str) -> str:
    found = re.match(r"\s*([A-Za-z_]\w*(?:\.\w+)?)\s*\(", schema)
    if not found:
        raise ValueError(
            f"{schema!r} is no operator schema; expected 'name(Tensor x, ...) -> Tensor' without namespace."
        )
    return found[1]


def _registered(library: KernelLibrary, name: str, schema: str) -> OpOverload:
    known = library.operators[name]
    if known["schema"] != schema:
        raise DuplicateNameError(
            f"{library.namespace}::{name} is registered as {known['schema']!r}, not {schema!r}; choose another name."
        )
    overload: OpOverload = known["overload"]
    return overload


def _register_cpu(name: str, library: KernelLibrary, symbol: Callable[..., Any] | None) -> str:
    """The CPU implementation of the best tier; says which."""
    objection = library.register(name)
    if not objection:
        return "dispatcher"
    if library.provider != "python" and symbol is not None:
        library.fragment().impl(name, symbol, "CPU")
        logger.debug("%s::%s through ctypes: %s", library.namespace, name, objection)
        return "ctypes"
    logger.debug("%s::%s in Python: %s", library.namespace, name, objection)
    return "python"


def _unavailable(qualified: str, library: KernelLibrary) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"{qualified} has a native CPU kernel and no reference: it runs neither on other devices nor without its "
            f"library ({library.reason or 'which is loaded'}). Move the tensors to the CPU, or install a build for "
            "this machine."
        )

    return refuse


def _at_first_call(target: str, reference: Callable[..., Any], qualified: str) -> Callable[..., Any]:
    """A function that imports its implementation when it is first called."""
    resolved: list[Callable[..., Any]] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        if not resolved:
            resolved.append(_resolve(target, reference, qualified))
        return resolved[0](*args, **kwargs)

    return call


def _resolve(target: str, reference: Callable[..., Any], qualified: str) -> Callable[..., Any]:
    module, _, attribute = target.partition(":")
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        logger.info("%s: no Triton kernel (%s); the torch reference serves.", qualified, error)
        return reference
    return function


def _autocast(overload: OpOverload, key: str, device: str, dtype: torch.dtype) -> Callable[..., Any]:
    import torch

    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

    def eligible(value: Any) -> bool:
        return (
            isinstance(value, torch.Tensor)
            and value.is_floating_point()
            and value.dtype != torch.float64
            and value.device.type == device
        )

    def cast(value: Any) -> Any:
        return value.to(dtype) if eligible(value) else value

    def call(*args: Any, **kwargs: Any) -> Any:
        given = next((value.dtype for value in (*args, *kwargs.values()) if eligible(value)), None)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            result = overload(*map(cast, args), **{name: cast(value) for name, value in kwargs.items()})
        if given is None:
            return result
        if isinstance(result, tuple | list):
            return type(result)(value.to(given) if eligible(value) else value for value in result)
        return result.to(given) if eligible(result) else result

    return call
