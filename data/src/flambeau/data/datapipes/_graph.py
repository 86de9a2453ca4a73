"""Pipelines as graphs: which pipes a pipe reads from, found in its attributes and the collections they hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flambeau.data.datapipes._methods import Methods
from flambeau.data.datapipes._torch import FOREIGN

# Attributes that hold the state of a pass, never a source.
_RUNTIME = frozenset({"_live", "_saved", "_buffer", "_cache"})
_SCALARS = frozenset({int, float, str, bytes, bool, complex, type(None), range})


def is_pipe(value: object) -> bool:
    """Whether a value is a pipe, ours or torch's."""
    return isinstance(value, (Methods, *FOREIGN))


def sources(pipe: Any) -> list[Any]:
    """The pipes a pipe reads from, each once, in the order of its attributes."""
    looked = getattr(pipe, "_graph_attributes", None)
    values = pipe.__dict__ if looked is None else {name: pipe.__dict__.get(name) for name in looked}
    found: dict[int, Any] = {}
    for name, value in values.items():
        if name not in _RUNTIME:
            for source in _within(value, set()):
                found.setdefault(id(source), source)
    found.pop(id(pipe), None)
    return list(found.values())


def _within(value: Any, seen: set[int]) -> Iterator[Any]:
    if type(value) in _SCALARS:
        return
    if is_pipe(value):
        yield value
    elif isinstance(value, (list, tuple, set, frozenset, Mapping)):
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, Mapping):
            for key, item in value.items():
                yield from _within(key, seen)
                yield from _within(item, seen)
        else:
            for item in value:
                yield from _within(item, seen)


def upstream(root: Any) -> list[Any]:
    """`root` and every pipe behind it, each once, nearest first along each branch."""
    found: dict[int, Any] = {}
    _collect(root, found)
    return list(found.values())


def _collect(pipe: Any, found: dict[int, Any]) -> None:
    # No inner function that calls itself: it would be a cycle, which keeps open files until the garbage collector runs.
    if id(pipe) not in found:
        found[id(pipe)] = pipe
        for source in sources(pipe):
            _collect(source, found)


def traverse_dps(datapipe: Any) -> dict[int, tuple[Any, dict[int, Any]]]:
    """The graph behind a pipe: `{id: (pipe, graph of its sources)}`, a pipe on several paths once on each.

    Args:
        datapipe: the last pipe.

    Raises:
        RuntimeError: `datapipe` is no pipe.
    """
    if not is_pipe(datapipe):
        raise RuntimeError(f"expected an IterDataPipe or a MapDataPipe, got {type(datapipe).__name__}.")
    return _traverse(datapipe, frozenset())


def _traverse(pipe: Any, path: frozenset[int]) -> dict[int, tuple[Any, dict[int, Any]]]:
    if id(pipe) in path:
        return {}
    path |= {id(pipe)}
    behind: dict[int, tuple[Any, dict[int, Any]]] = {}
    for source in sources(pipe):
        behind |= _traverse(source, path)
    return {id(pipe): (pipe, behind)}
