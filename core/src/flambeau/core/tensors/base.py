"""`TypedTensor`, the class that tensor types derive from."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import torch
from torch import Tensor
from torch._C import DisableTorchFunctionSubclass

from flambeau.core.errors import TensorTypeError
from flambeau.core.tensors import describe, propagation, trees
from flambeau.core.tensors.info import Declared, TensorTypeInfo, Tree, declare
from flambeau.core.tensors.wrapping import Carriers, carried, make, plain


class TypedTensor(Declared):
    """A tensor that knows what it holds: a class, and metadata as attributes.

    Derive a class and declare it with `tensor_type`. Operations give plain tensors, except those that leave the
    meaning alone (clone, to, detach, requires_grad_, pin_memory, contiguous, deep copies, and whatever the type's
    `propagate` table names); operations in place keep the object. `set_return_type("typed")` keeps the type in all
    operations whose first argument is typed.

    A class says when it is derived what it is to `torch.utils._pytree`, and those derived from it follow:
    `class Wave(TypedTensor, tree="leaf")` is left whole, for code that flattens samples and asks `isinstance` of the
    leaves; a `"node"`, the default, is taken apart into a plain tensor and metadata. With nodes `torch.func.vmap`,
    `torch.export` and whatever else flattens its arguments keep the type by themselves; leaves go `through` them.

    Args:
        data: anything `torch.as_tensor` takes; a tensor's memory is shared.
        dtype: of the result; None keeps that of `data`.
        device: of the result; None keeps that of `data`.
        requires_grad: None keeps that of `data`.
        **metadata: the type's fields, by name.

    Raises:
        TensorTypeError: metadata is missing or unknown.
        MetadataError: a value is refused; with `set_checks(True)`, also a shape or dtype that does not fit.

    Example:
        >>> from flambeau.core import tensor_type
        >>> @tensor_type(name="doc-wave", fields={"rate": int})
        ... class Wave(TypedTensor):
        ...     pass
        ...
        >>> wave = Wave(torch.zeros(2, 100), rate=16000)
        >>> wave
        Wave (2, 100) float32 cpu rate=16000
        >>> wave.to(torch.float64).rate, type(wave * 2).__name__
        (16000, 'Tensor')
    """

    __tensor_type__: ClassVar[TensorTypeInfo] = TensorTypeInfo(policies=propagation.table({}, {}, "unwrap"))

    def __new__(
        cls,
        data: Any,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | int | None = None,
        requires_grad: bool | None = None,
        **metadata: Any,
    ) -> Self:
        """Make a typed tensor; the class says what the arguments mean."""
        complete = cls.__tensor_type__.complete(cls.__name__, metadata)
        tensor = plain(data) if isinstance(data, TypedTensor) else data
        tensor = torch.as_tensor(tensor, dtype=dtype, device=device)
        if requires_grad is False and tensor.requires_grad:
            tensor = tensor.detach()
        typed = make(tensor, cls, complete)
        if requires_grad and not tensor.requires_grad:
            # On the new tensor, not on the caller's: gradients arrive where they were asked for.
            typed.requires_grad_()
        return typed

    def __init_subclass__(cls, *, tree: Tree | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if tree not in (None, "node", "leaf"):
            raise TensorTypeError(f"{cls.__name__}: tree={tree!r}; use 'node' or 'leaf'.")
        if tree is not None:
            cls.__tensor_type__ = replace(cls.__tensor_type__, tree=tree)
        # Every class on its own, declared or not: pytree, collation and unpickling go by the exact class.
        _make_known(cls)

    __torch_function__ = classmethod(propagation.torch_function)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) in memo:
            return cast("Self", memo[id(self)])
        if not self.is_leaf:
            raise RuntimeError(
                f"{type(self).__name__}: only tensors created by the user can be deep-copied, not results of "
                "operations that record gradients; call detach() or clone() first."
            )
        # The detached view has no history that copy would refuse, and copies shared memory once per memo.
        twin = make(copy.deepcopy(plain(self.detach()), memo), type(self), {})
        memo[id(self)] = twin
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        twin.requires_grad_(self.requires_grad)
        if self.grad is not None:
            twin.grad = copy.deepcopy(self.grad, memo)
        return twin

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]  # torch's stub misnames it
        return describe.summary(self)

    def _repr_html_(self) -> str | None:
        """HTML for notebooks, from the type's `plot`; None lets them show the text."""
        return describe.plot(self)


def _method(name: str) -> Callable[..., Any]:
    """A method that only asks, without the detour of `__torch_function__`, which costs five times the answer."""
    ask = getattr(Tensor, name)

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        with DisableTorchFunctionSubclass():
            return ask(carried(self) if Carriers.exist else self, *args, **kwargs)

    method.__name__, method.__doc__ = name, ask.__doc__
    return method


def _property(name: str, *, by: str | None = None) -> property:
    """A property that only asks, likewise; `by` names a method that gives the same answer."""
    attribute = getattr(Tensor, name)
    ask = getattr(Tensor, by) if by else attribute.__get__
    alias = torch.ops.aten.alias.default
    compiling = torch.compiler.is_dynamo_compiling

    def get_by_method(self: Tensor) -> Any:
        with DisableTorchFunctionSubclass():
            return ask(carried(self) if Carriers.exist else self)

    def get(self: Tensor) -> Any:
        with DisableTorchFunctionSubclass():
            if compiling():  # Dynamo would take the inherited getter for this very property, without end
                return getattr(alias(self), name)
            return ask(carried(self) if Carriers.exist else self)

    return property(get_by_method if by else get, doc=attribute.__doc__)


def _make_known(cls: type[TypedTensor]) -> None:
    declare(cls, cls.__tensor_type__)
    trees.register(cls)


_make_known(TypedTensor)

if not TYPE_CHECKING:  # to type checkers these stay what they are in torch.Tensor
    for _name in ("dim", "element_size", "is_contiguous", "is_floating_point", "numel", "size", "stride"):
        setattr(TypedTensor, _name, _method(_name))
    TypedTensor.shape = _property("shape", by="size")
    TypedTensor.ndim = _property("ndim", by="dim")
    for _name in ("device", "dtype", "is_cuda", "layout"):
        setattr(TypedTensor, _name, _property(_name))
    del _name
