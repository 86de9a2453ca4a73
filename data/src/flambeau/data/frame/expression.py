"""Expressions about a frame that is not there yet: `me["a"] + me["b"]` is evaluated when `where` or `select` meets one.

An expression records attribute access, calls, indexing and operators, and replays them on what `me` then stands for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")
_OPERATORS = (
    *_BINARY,
    *(f"r{name}" for name in _BINARY),
    *("eq", "ne", "lt", "le", "gt", "ge", "getitem", "neg", "pos", "invert", "abs"),
)


class Expression(ABC):
    """Something to be evaluated later."""

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> GetAttr:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)  # what Python looks for is not part of an expression
        return GetAttr(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Call:
        """A call of what this gives, to be made later."""
        return Call(self, args, kwargs)

    def __bool__(self) -> bool:
        raise TypeError(f"{self} has no truth yet; combine conditions with &, | and ~.")

    def __iter__(self) -> Any:
        raise TypeError(f"{self} cannot be iterated: it stands for a frame that is not there yet.")

    @abstractmethod
    def eval_expression(self, env: Mapping[str, Any]) -> Any:
        """The value, with variables looked up in `env`."""


def _operator(name: str) -> Callable[..., Call]:
    def apply(self: Expression, *operands: Any) -> Call:
        return Call(GetAttr(self, name), operands, {})

    apply.__name__ = name
    return apply


for _name in _OPERATORS:
    setattr(Expression, f"__{_name}__", _operator(f"__{_name}__"))


class Var(Expression):
    """A name, looked up when the expression is evaluated."""

    def __init__(self, name: str, qualname: str = "") -> None:
        self._name = name
        self._qualname = qualname or name

    def eval_expression(self, env: Mapping[str, Any]) -> Any:
        """What the name stands for."""
        return env[self._name]

    def __str__(self) -> str:
        return self._qualname

    def __repr__(self) -> str:
        return f"Var({self._name!r})"


class GetAttr(Expression):
    """An attribute of what an expression gives."""

    def __init__(self, obj: Any, name: str) -> None:
        self._obj = obj
        self._name = name

    def eval_expression(self, env: Mapping[str, Any]) -> Any:
        """The attribute."""
        return getattr(eval_expression(self._obj, env), self._name)

    def __str__(self) -> str:
        return f"{self._obj}.{self._name}"

    __repr__ = __str__


class Call(Expression):
    """A call of what an expression gives, or of a function."""

    def __init__(self, func: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> None:
        self._func = func
        self._args = tuple(args)
        self._kwargs = dict(kwargs or {})

    def eval_expression(self, env: Mapping[str, Any]) -> Any:
        """What the call returns."""
        args = [eval_expression(one, env) for one in self._args]
        kwargs = {name: eval_expression(one, env) for name, one in self._kwargs.items()}
        return eval_expression(self._func, env)(*args, **kwargs)

    def __str__(self) -> str:
        arguments = [repr(one) if isinstance(one, str) else str(one) for one in self._args]
        arguments += [f"{name}={one!r}" for name, one in self._kwargs.items()]
        return f"{getattr(self._func, '__qualname__', None) or self._func}({', '.join(arguments)})"

    __repr__ = __str__


def expression(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Upstream: marks a method as usable in expressions. All are; the function comes back as it is."""
    return fn


def eval_expression(obj: Any, env: Mapping[str, Any]) -> Any:
    """The value of an expression; anything else is its own value."""
    return obj.eval_expression(env) if isinstance(obj, Expression) else obj


me = Var("me")
"""The frame at hand, in `where(me["a"] > 1)` and `select(c=me["a"] + me["b"])`."""
