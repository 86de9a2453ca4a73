"""Which weights enums a builder takes, as its annotations say."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from flambeau.core.weights.enums import WeightsEnum


def annotated_weights(builder: Callable[..., Any], parameter: str = "weights") -> type[WeightsEnum] | None:
    """The enum in the annotation of a builder's parameter, the first of several, None where there is none."""
    return next(iter(annotated_enums(builder, parameter)), None)


def annotated_enums(builder: Callable[..., Any], parameter: str = "weights") -> tuple[type[WeightsEnum], ...]:
    """All enums in the annotation of a builder's parameter, in its order."""
    function: Any = inspect.unwrap(builder)
    if isinstance(function, type):
        function = function.__init__  # type: ignore[misc]  # read, not called
    annotation = getattr(function, "__annotations__", {}).get(parameter)
    if annotation is None:
        return ()
    # Only this one is evaluated: others may name types that are imported for type checkers alone.
    holder = SimpleNamespace(__annotations__={parameter: annotation})
    hint = typing.get_type_hints(holder, globalns=getattr(function, "__globals__", {}))[parameter]
    parts = typing.get_args(hint) or (hint,)
    return tuple(part for part in parts if isinstance(part, type) and issubclass(part, WeightsEnum))
