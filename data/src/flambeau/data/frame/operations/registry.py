"""The table of operations: each makes a Polars expression from the result's type and operands."""

from __future__ import annotations

from collections.abc import Callable

from flambeau.data.frame._engine import pl

Operation = Callable[..., pl.Expr]
OPERATIONS: dict[str, Operation] = {}


def operation(function: Operation) -> Operation:
    """Offer an operation under its function's name, without the underscore that keeps it from hiding a builtin."""
    OPERATIONS[function.__name__.rstrip("_")] = function
    return function
