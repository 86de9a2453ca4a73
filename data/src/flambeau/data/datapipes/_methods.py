"""The one register of methods: `functional_datapipe("shuffle")` makes a class callable as `pipe.shuffle(...)`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from flambeau.core.errors import DuplicateNameError

_Class = TypeVar("_Class", bound=type)

# Results of these leave the world of frames, so that a traced pipeline ends with them.
UNTRACED = frozenset({"batch", "groupby", "_dataframes_as_tuples", "trace_as_dataframe"})


class Methods:
    """Mixin: looks up unknown attributes among registered functions, whose first argument is the pipe."""

    functions: ClassVar[dict[str, Callable[..., Any]]]

    def __getattr__(self, name: str) -> Any:
        function = type(self).functions.get(name)
        if function is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        bound = functools.partial(function, self)
        return functools.update_wrapper(bound, function, assigned=("__doc__", "__name__", "__wrapped__"), updated=())

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.functions]

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Make `pipe.<function_name>(...)` call `function(pipe, ...)`; an earlier function of that name is replaced."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: type, enable_df_api_tracing: bool = False
    ) -> None:
        """Make `pipe.<function_name>(...)` build `cls_to_register(pipe, ...)`.

        Args:
            function_name: name of the method.
            cls_to_register: the class of the pipe.
            enable_df_api_tracing: give the result the operators of a data frame (see `trace_as_dataframe`).

        Raises:
            DuplicateNameError: another class has this method.
        """
        taken = cls.functions.get(function_name)
        taken = getattr(taken, "__wrapped__", taken)
        if taken is not None and not _imported_again(taken, cls_to_register):
            raise DuplicateNameError(
                f"method {function_name!r} of {cls.__name__} is taken by {taken.__module__}.{taken.__qualname__}, "
                f"{cls_to_register.__qualname__} cannot have it too; choose another name."
            )
        cls.functions[function_name] = _builder(function_name, cls_to_register, enable_df_api_tracing)


def _imported_again(known: Any, new: type) -> bool:
    """Whether two classes are one, of a module that was reloaded, or imported under two names."""
    files = [getattr(sys.modules.get(one.__module__), "__file__", None) for one in (known, new)]
    return known.__qualname__ == new.__qualname__ and files[0] is not None and files[0] == files[1]


def _builder(name: str, target: type, traced: bool) -> Callable[..., Any]:
    @functools.wraps(target, assigned=("__doc__", "__module__"), updated=())
    def build(source: Any, *args: Any, **kwargs: Any) -> Any:
        made = target(source, *args, **kwargs)
        if name not in UNTRACED and (traced or getattr(source, "is_dataframe_pipe", False)):
            return made.trace_as_dataframe()
        return made

    build.__name__ = name
    return build


class functional_datapipe:
    """Class decorator: `@functional_datapipe("twice")` lets `pipe.twice(...)` build the class on `pipe`.

    Args:
        name: name of the method; on `IterDataPipe` or `MapDataPipe`, whichever the class derives from.
        enable_df_api_tracing: as for `register_datapipe_as_function`; iterable pipes only.

    Raises:
        DuplicateNameError: another class has this method.
        TypeError: the decorated class is no pipe.
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls: _Class) -> _Class:
        owner = next((base for base in cls.__mro__ if Methods in base.__bases__), None)
        if owner is None:
            raise TypeError(
                f"functional_datapipe decorates classes of pipes, got {cls!r}; derive it from IterDataPipe."
            )
        pipes: Any = owner
        pipes.register_datapipe_as_function(self.name, cls, self.enable_df_api_tracing)
        return cls
