"""Registration of kernels: those of boxes, points and masks here, and those for tensor types of one's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar, cast

from flambeau.core import tensors
from flambeau.vision import tv_tensors

Function = TypeVar("Function", bound=Callable[..., Any])

_BUILT_IN = (
    tv_tensors.BoundingBoxes,
    tv_tensors.Image,
    tv_tensors.KeyPoints,
    tv_tensors.Mask,
    tv_tensors.TVTensor,
    tv_tensors.Video,
)


def register_kernel(functional: Callable[..., Any] | str, tv_tensor_cls: type) -> Callable[[Function], Function]:
    """Register a functional's implementation for a tensor type of your own; use as a decorator.

    The kernel gets the typed tensor and the functional's further arguments, and its result is returned as it is.
    `flambeau.core.tensors.register_kernel` registers in the same place and can take types off and on by itself.

    Args:
        functional: a functional of `transforms.v2.functional`, or its name.
        tv_tensor_cls: a subclass of `tv_tensors.TVTensor` that is none of ours.

    Raises:
        ValueError: no functional has the name, or the function dispatches on no type; or the class is no subclass, or
            one of ours, whose kernels are not to be replaced.
        DuplicateNameError: the class has another kernel.
    """
    found = getattr(import_module(__package__), functional, None) if isinstance(functional, str) else functional
    if not hasattr(found, "__kernels__"):
        raise ValueError(
            f"register_kernel: {functional!r} is no functional of transforms.v2.functional that has kernels."
        )
    if not issubclass(tv_tensor_cls, tv_tensors.TVTensor):
        raise ValueError(f"register_kernel: {tv_tensor_cls!r} is no subclass of TVTensor; derive it from one of them.")
    if tv_tensor_cls in _BUILT_IN:
        raise ValueError(
            f"register_kernel: {tv_tensor_cls.__name__} is built in and keeps its kernels; derive a class from it."
        )
    return tensors.register_kernel(cast("Callable[..., Any]", found), tv_tensor_cls, wrap=False)


def register_partial(
    functional: Callable[..., Any], kind: type, *, canvas: bool = False
) -> Callable[[Function], Function]:
    """Register a kernel that takes some of the functional's arguments only, and metadata by name.

    Args:
        functional: its arguments that the kernel does not name are dropped (boxes need no interpolation).
        kind: the tensor type.
        canvas: the kernel returns (tensor, canvas size), and the second is to become metadata.
    """

    def register(kernel: Function) -> Function:
        tensors.register_kernel(functional, kind)(_adapted(functional, kernel, canvas))
        return kernel

    return register


def _adapted(functional: Callable[..., Any], kernel: Callable[..., Any], canvas: bool) -> Callable[..., Any]:
    first, *others = inspect.signature(kernel).parameters.values()
    arguments = tuple(inspect.signature(functional).parameters)[1:]
    unused = tuple(name for name in arguments if name not in {parameter.name for parameter in others})

    def adapted(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) > len(arguments):
            raise TypeError(f"{functional.__name__}() takes {1 + len(arguments)} arguments, got {1 + len(args)}.")
        if args:
            kwargs.update(zip(arguments, args, strict=False))
        for name in unused:
            kwargs.pop(name, None)
        result = kernel(tensor, **kwargs)
        return (result[0], {"canvas_size": result[1]}) if canvas else result

    # What core reads to learn which metadata the kernel wants.
    wanted = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in others]
    adapted.__signature__ = inspect.Signature([first, *wanted])  # type: ignore[attr-defined]
    adapted.__module__, adapted.__qualname__ = kernel.__module__, kernel.__qualname__
    return adapted
