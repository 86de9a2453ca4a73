"""Functions by their names, and what they are called with."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["call_with_supported_kwargs", "import_from_string"]


def import_from_string(spec: str) -> Any:
    """What a text like "package.module:name" or "path/to/file.py:name" names.

    Args:
        spec: the text.

    Raises:
        ValueError: it is not of this form.
        ImportError: there is no such module, or no such name in it.
    """
    place, colon, path = spec.rpartition(":")
    if not colon or not place or not path:
        raise ValueError(f"{spec!r} names nothing to import; write 'package.module:name' or 'path/to/file.py:name'.")
    found = _module(place, spec)
    for name in path.split("."):
        if not hasattr(found, name):
            raise ImportError(f"{spec!r} cannot be imported: {place} has no {path}.")
        found = getattr(found, name)
    return found


def _module(place: str, spec: str) -> Any:
    if place.endswith(".py"):
        file = Path(place)
        loader = importlib.util.spec_from_file_location(file.stem, file)
        if not file.is_file() or loader is None or loader.loader is None:
            raise ImportError(f"{spec!r} cannot be imported: there is no file {place}.")
        module = importlib.util.module_from_spec(loader)
        sys.modules[file.stem] = module
        loader.loader.exec_module(module)
        return module
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not place.startswith(error.name):
            raise
        raise ImportError(f"{spec!r} cannot be imported: there is no module {error.name}.") from error


def call_with_supported_kwargs(factory: Callable[..., Any], preferred_arg: Any, kwargs: Mapping[str, Any]) -> Any:
    """Call a function with a specification, or with what it names of it.

    A function without arguments is called without; one whose arguments are all among `kwargs`, or that takes any, with
    these; another with the specification.

    Args:
        factory: the function.
        preferred_arg: the specification.
        kwargs: its parts by name.
    """
    parameters = inspect.signature(factory).parameters.values()
    named = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
    several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    needed = [one for one in parameters if one.default is one.empty and one.kind not in several]
    if not parameters:
        return factory()
    if all(one.name in kwargs for one in needed) and (needed or takes_any or not _takes_one(parameters)):
        return factory(**{name: value for name, value in kwargs.items() if takes_any or name in named})
    return factory(preferred_arg)


def _takes_one(parameters: Any) -> bool:
    return any(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD, one.VAR_POSITIONAL) for one in parameters)
