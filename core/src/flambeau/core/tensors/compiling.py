"""Typed tensors and `torch.compile`: types stay outside the graph that the compiler's backend sees."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

import torch
import torch.utils._pytree as pytree

from flambeau.core.tensors.info import info_of, is_typed
from flambeau.core.tensors.wrapping import make, plain

Function = TypeVar("Function", bound=Callable[..., Any])


class _Parcel:
    """A typed tensor taken apart: the plain tensor is an input of the graph, the rest are constants to it."""

    def __init__(self, tensor: torch.Tensor, cls: Any, metadata: dict[str, Any]) -> None:
        self.tensor = tensor
        self.cls = cls
        self.metadata = metadata


@overload
def compiled(function: Function, /, **options: Any) -> Function: ...
@overload
def compiled(**options: Any) -> Callable[[Function], Function]: ...
def compiled(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compile a function or module that is called with typed tensors.

    The result is a thin function that is not compiled itself: it takes the types off its arguments, runs the compiled
    graph on plain tensors, and puts types on the results. Inside, functionals find the types they would find without
    compilation; metadata are constants of the graph, and a new value makes a new one.

    Args:
        function: a function or module; its arguments and results may be trees with typed tensors.
        **options: for `torch.compile`: `fullgraph`, `dynamic`, `backend`, `mode` ...
    """
    if function is None:
        return functools.partial(_compile, options=options)
    return _compile(function, options=options)


def _compile(function: Callable[..., Any], *, options: dict[str, Any]) -> Callable[..., Any]:
    def inside(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = _unpack((args, kwargs))
        return _pack(function(*args, **kwargs))

    graph = torch.compile(inside, **options)

    def call(*args: Any, **kwargs: Any) -> Any:
        return _unpack(graph(*_pack((args, kwargs))))

    if isinstance(function, torch.nn.Module):
        return call
    return functools.wraps(function)(call)


def _pack(tree: Any) -> Any:
    leaves, structure = pytree.tree_flatten(tree, is_leaf=is_typed)
    packed = [
        _Parcel(plain(leaf), type(leaf), info_of(type(leaf)).metadata(leaf)) if is_typed(leaf) else leaf
        for leaf in leaves
    ]
    return pytree.tree_unflatten(packed, structure)


def _unpack(tree: Any) -> Any:
    leaves, structure = pytree.tree_flatten(tree)
    unpacked = [make(leaf.tensor, leaf.cls, leaf.metadata) if isinstance(leaf, _Parcel) else leaf for leaf in leaves]
    return pytree.tree_unflatten(unpacked, structure)
