"""Typed tensors through functions that see no types: `torch.func` transforms, compilers, export.

To pytree a type may be a leaf (see `TypedTensor`), as custom transforms expect that ask `isinstance` of leaves. What
flattens its arguments and works on bare tensors, as vmap and export do, would lose the type of a leaf: so tensors
travel in parcels, which are nodes with one bare tensor and constants, and are unpacked on the other side.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor

from flambeau.core.tensors import trees
from flambeau.core.tensors.info import info_of, is_typed
from flambeau.core.tensors.records import class_at


class Parcel:
    """A typed tensor taken apart: the bare tensor is an input of a graph, the rest are constants to it."""

    def __init__(self, tensor: Any, cls: Any, context: tuple[Any, ...]) -> None:
        self.tensor = tensor
        self.cls = cls
        self.context = context


def pack(tree: Any) -> Any:
    """A tree with a parcel in the place of each typed tensor."""
    leaves, structure = pytree.tree_flatten(tree, is_leaf=is_typed)
    return pytree.tree_unflatten([_packed(leaf) if is_typed(leaf) else leaf for leaf in leaves], structure)


def unpack(tree: Any) -> Any:
    """Undo `pack`; the tensors may be other ones by now, or something else that a transform put in their places."""
    leaves, structure = pytree.tree_flatten(tree, is_leaf=_is_parcel)
    unpacked = [trees.build(leaf.cls, leaf.tensor, leaf.context) if _is_parcel(leaf) else leaf for leaf in leaves]
    return pytree.tree_unflatten(unpacked, structure)


def through(transform: Callable[..., Any]) -> Callable[..., Any]:
    """A transform of functions that keeps types: of arguments in the function, and of what it returns outside.

    Args:
        transform: takes a function and gives one of trees with bare tensors: `torch.func.vmap`, `torch.func.grad`,
            `torch.func.jacrev`, `torch.compile` ... Options that follow the arguments' structure, such as `in_dims`,
            take a typed tensor for a tree of one leaf.

    Returns:
        A transform with the same options; the functions it gives take and return typed tensors.

    Example:
        >>> from flambeau.core import TypedTensor, tensor_type
        >>> @tensor_type(name="doc-wave-of-many", fields={"rate": int})
        ... class Wave(TypedTensor, tree="leaf"):
        ...     pass
        ...
        >>> waves = Wave(torch.zeros(3, 100), rate=16000)
        >>> through(torch.func.vmap)(lambda wave: wave.clone())(waves).rate
        16000
    """

    @functools.wraps(transform)
    def apply(function: Callable[..., Any], *args: Any, **options: Any) -> Callable[..., Any]:
        return typed_outside(transform(typed_inside(function), *args, **options))

    return apply


def typed_inside(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is called with parcels and returns some, and is itself run on typed tensors."""

    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = unpack((args, kwargs))
        return pack(function(*args, **kwargs))

    return call if isinstance(function, torch.nn.Module) else functools.wraps(function)(call)


def typed_outside(function: Callable[..., Any]) -> Callable[..., Any]:
    """The reverse: a function that is called with typed tensors and returns some, and is itself run on parcels."""

    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = pack((args, kwargs))
        return unpack(function(*args, **kwargs))

    return call if isinstance(function, torch.nn.Module) else functools.wraps(function)(call)


def export(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, **options: Any
) -> torch.export.ExportedProgram:
    """Export a module that is called with typed tensors; `exported` makes the program callable with such.

    Args:
        module: what to export.
        args: example arguments, trees with typed tensors.
        kwargs: example arguments by name.
        **options: for `torch.export.export`; in `dynamic_shapes` a typed tensor is a list of one tensor.

    Returns:
        The program, which `torch.export.save` and `load` take. Metadata are constants of its arguments' structure.
    """
    args, kwargs = pack((args, kwargs))
    return torch.export.export(_TypedInside(module), args, kwargs, **options)


def exported(program: torch.export.ExportedProgram) -> Callable[..., Any]:
    """A function that runs a program which `export` made, on typed tensors with the metadata of the examples."""
    return typed_outside(program.module())


class _TypedInside(torch.nn.Module):
    """A module that is called with parcels and returns some, around one that is run on typed tensors."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = unpack((args, kwargs))
        return pack(self.module(*args, **kwargs))


def _packed(value: Any) -> Parcel:
    return Parcel(trees.bare(value), type(value), tuple(info_of(type(value)).metadata(value).values()))


def _is_parcel(value: object) -> bool:
    return isinstance(value, Parcel)


def _flatten(parcel: Parcel) -> tuple[list[Any], tuple[Any, ...]]:
    return [parcel.tensor], (parcel.cls, parcel.context)


def _flatten_with_keys(parcel: Parcel) -> tuple[list[tuple[pytree.KeyEntry, Tensor]], tuple[Any, ...]]:
    (leaf,), context = _flatten(parcel)
    return [(pytree.GetAttrKey("tensor"), leaf)], context


def _to_json(context: tuple[Any, ...]) -> Any:
    cls, values = context
    return [trees.class_path(cls), trees.to_json(cls, values)]


def _from_json(data: Any) -> tuple[Any, ...]:
    path, values = data
    cls = class_at(path)
    return cls, trees.from_json(cls, values)


pytree.register_pytree_node(
    Parcel,
    _flatten,
    lambda leaves, context: Parcel(*leaves, *context),
    serialized_type_name="flambeau.core.tensors:Parcel",
    to_dumpable_context=_to_json,
    from_dumpable_context=_from_json,
    flatten_with_keys_fn=_flatten_with_keys,
)
torch.serialization.add_safe_globals([Parcel])  # the example arguments of saved programs
