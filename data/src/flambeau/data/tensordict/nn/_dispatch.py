"""`dispatch`: let a function of tensordicts be called with tensors too."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.data.tensordict._layout.keys import _unravel_key_to_tuple
from flambeau.data.tensordict._tensorcollection import is_tensor_collection
from flambeau.data.tensordict.functional import make_tensordict


class dispatch:
    """Let a method `f(self, tensordict, ...)` take tensors in place of the tensordict, and then give tensors.

    Tensors are given by position, in the order of the source keys, or by name, nested keys joined by the separator:
    `module(obs)`, `module(obs=obs)`, `loss(next_reward=reward)`. The result is the value of the one destination key, or
    a tuple of all in order.

    Args:
        separator: between the parts of a nested key.
        source: the attribute that lists the keys that are read, or the keys.
        dest: the attribute that lists the keys that are written, or the keys.
        auto_batch_size: give the tensordict the batch size that all tensors share, rather than none.

    Raises:
        RuntimeError: two keys have the same joined name, or one is given by position and by name.

    Example:
        >>> class Twice(torch.nn.Module):
        ...     in_keys, out_keys = ["x"], ["y"]
        ...     @dispatch
        ...     def forward(self, tensordict):
        ...         return tensordict.set("y", tensordict["x"] * 2)
        >>> Twice()(x=torch.ones(1))
        tensor([2.])
    """

    DEFAULT_SEPARATOR = "_"
    DEFAULT_SOURCE = "in_keys"
    DEFAULT_DEST = "out_keys"

    def __new__(cls, separator: Any = DEFAULT_SEPARATOR, *args: Any, **kwargs: Any) -> Any:
        """`@dispatch` without arguments decorates at once."""
        self = super().__new__(cls)
        if not callable(separator):
            return self
        self.__init__()  # type: ignore[misc]  # the class was called with the function
        return self(separator)

    def __init__(
        self,
        separator: str = DEFAULT_SEPARATOR,
        source: str | Sequence[Any] = DEFAULT_SOURCE,
        dest: str | Sequence[Any] = DEFAULT_DEST,
        auto_batch_size: bool = True,
    ) -> None:
        self.separator, self.source, self.dest, self.auto_batch_size = separator, source, dest, auto_batch_size

    def get_source(self, func: Callable[..., Any], self_func: Any) -> list[Any]:
        """The keys that are read, of a method and its object."""
        return self._keys(self.source, func, self_func)

    @staticmethod
    def _keys(where: str | Sequence[Any], func: Callable[..., Any], owner: Any) -> list[Any]:
        if not isinstance(where, str):
            return list(where)
        if not hasattr(owner, where):
            raise AttributeError(
                f"{func.__qualname__} was called without a tensordict, and {type(owner).__name__} has no {where!r} "
                "that says which tensors it takes."
            )
        return list(getattr(owner, where))

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a method."""

        @functools.wraps(func)
        def dispatched(owner: Any, *args: Any, **kwargs: Any) -> Any:
            if args and is_tensor_collection(args[0]):
                return func(owner, *args, **kwargs)
            if not args and is_tensor_collection(kwargs.get("tensordict")):
                return func(owner, kwargs.pop("tensordict"), **kwargs)
            tensordict, rest = self._gather(func, owner, args, kwargs)
            out = func(owner, tensordict, *rest, **kwargs)
            values = tuple(out.get(key) for key in self._keys(self.dest, func, owner))
            return values if len(values) != 1 else values[0]

        return dispatched

    def _gather(
        self, func: Callable[..., Any], owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, tuple[Any, ...]]:
        """A tensordict of what was given, and the arguments left over; takes the names it knows out of `kwargs`."""
        keys = self.get_source(func, owner)
        values: dict[Any, Any] = dict(zip(keys, args, strict=False))
        names = [key if isinstance(key, str) else self.separator.join(_unravel_key_to_tuple(key)) for key in keys]
        if len(set(names)) != len(names):
            raise RuntimeError(
                f"the keys {keys} have no distinct names when joined by {self.separator!r}: {names}; call with a "
                "tensordict, or choose another separator."
            )
        for key, name in zip(keys, names, strict=True):
            if name in kwargs:
                if key in values:
                    raise RuntimeError(f"{name!r} is given by position and by name; Duplicated argument.")
                values[key] = kwargs.pop(name)
        values = {key: value for key, value in values.items() if value is not None}
        if self.auto_batch_size:
            return make_tensordict(values, auto_batch_size=True), args[len(keys) :]
        return make_tensordict(values, batch_size=[]), args[len(keys) :]
