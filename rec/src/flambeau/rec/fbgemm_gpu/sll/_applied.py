"""Classes that are there to be applied, as upstream's functions of autograd are; ours have gradients of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["applied"]


def applied(name: str, function: Callable[..., Any], module: str) -> Any:
    """A class whose `apply` is the function."""
    about = {"apply": staticmethod(function), "__doc__": f"`apply` is `{function.__name__}`.", "__module__": module}
    return type(name, (), about)
