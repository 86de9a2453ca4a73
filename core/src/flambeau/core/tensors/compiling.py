"""Typed tensors and `torch.compile`: types stay outside the graph that the compiler's backend sees."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

import torch

from flambeau.core.tensors.parcels import typed_inside, typed_outside

Function = TypeVar("Function", bound=Callable[..., Any])


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
    graph = torch.compile(typed_inside(function), **options)
    call = typed_outside(graph)
    return call if isinstance(function, torch.nn.Module) else functools.wraps(function)(call)
