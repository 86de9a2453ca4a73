"""Applications from components and the words of a command line."""

from __future__ import annotations

import argparse
import inspect
import typing
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any

from flambeau.launch.errors import ComponentArgumentError
from flambeau.launch.specs.apps import AppDef
from flambeau.launch.specs.file_linter import TorchXArgumentHelpFormatter, get_fn_docstring
from flambeau.launch.specs.handles import make_app_handle
from flambeau.launch.specs.mounts import parse_mounts
from flambeau.launch.util.types import decode, decode_optional, is_bool

__all__ = ["component_parser", "make_app_handle", "materialize_appdef", "parse_args", "parse_mounts"]


def component_parser(
    cmpnt_fn: Callable[..., AppDef], cmpnt_defaults: Mapping[str, Any] | None = None
) -> argparse.ArgumentParser:
    """The parser of a component's arguments, made of its signature and docstring.

    Args:
        cmpnt_fn: the component.
        cmpnt_defaults: further defaults by argument, as texts, which stand over those of the signature.
    """
    about, texts = get_fn_docstring(cmpnt_fn)
    name = getattr(cmpnt_fn, "__name__", "component")
    parser = argparse.ArgumentParser(
        prog=f"flambeau launch run <run args...> {name}",
        description=about.replace("%", "%%") if "%(" in about else about,
        formatter_class=TorchXArgumentHelpFormatter,
        # `-h` belongs to components, which call their named resource so.
        add_help=False,
    )
    parser.add_argument("--help", action="help", help="show this help message and exit")
    for parameter in _parameters(cmpnt_fn):
        _add(parser, parameter, texts[parameter.name].replace("%", "%%"), cmpnt_defaults or {})
    return parser


def _add(parser: argparse.ArgumentParser, parameter: inspect.Parameter, text: str, defaults: Mapping[str, Any]) -> None:
    name = parameter.name
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        parser.add_argument(name, nargs=argparse.REMAINDER, type=str, help=text, metavar=name)
        return
    options: dict[str, Any] = {"help": text, "dest": name, "type": _argument_type(parameter.annotation)}
    if name in defaults:
        options["default"] = defaults[name]
    elif parameter.default is inspect.Parameter.empty:
        options["required"] = True
    else:
        default = parameter.default
        options["default"] = str(default) if isinstance(default, bool) else default
    flags = [f"-{name}", f"--{name}"] if len(name) == 1 else [f"--{name}"]
    parser.add_argument(*flags, **options)


def _argument_type(annotation: Any) -> Callable[[str], Any]:
    """What argparse makes of a word: numbers where it can say at once that they are none, else text."""
    kind = decode_optional(annotation)
    if kind in (int, float):
        convert: Callable[[str], Any] = kind
        return convert
    if is_bool(kind):
        return _truth
    return str


def _truth(word: str) -> str:
    return word


_truth.__name__ = "bool"


def _parameters(cmpnt_fn: Callable[..., AppDef]) -> list[inspect.Parameter]:
    """With annotations that are types, also where the module postpones them; `**kwargs` is nothing one could pass."""
    try:
        hints = typing.get_type_hints(cmpnt_fn)
    except (NameError, TypeError):
        hints = {}
    parameters = inspect.signature(cmpnt_fn).parameters.values()
    return [
        parameter.replace(annotation=hints.get(parameter.name, parameter.annotation))
        for parameter in parameters
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]


def parse_args(
    cmpnt_fn: Callable[..., AppDef],
    cmpnt_args: list[str],
    cmpnt_defaults: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
) -> Namespace:
    """Read a component's arguments.

    Args:
        cmpnt_fn: the component.
        cmpnt_args: words of a command line; what follows the first that belongs to no option goes to `*args`.
        cmpnt_defaults: defaults as texts, which stand over those of the signature.
        config: values as texts, which stand over everything.

    Raises:
        SystemExit: they cannot be read; argparse has said why, and printed the component's usage.
    """
    parsed = component_parser(cmpnt_fn, cmpnt_defaults).parse_args(cmpnt_args)
    for name, value in (config or {}).items():
        setattr(parsed, name, value)
    return parsed


def materialize_appdef(
    cmpnt_fn: Callable[..., AppDef],
    cmpnt_args: list[str],
    cmpnt_defaults: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
) -> AppDef:
    """Call a component with the words of a command line.

    Args:
        cmpnt_fn: the component.
        cmpnt_args: lists are written `a,b`, dictionaries `key=value,key=value`, truth values `True` and `False`.
        cmpnt_defaults: defaults as texts, which stand over those of the signature.
        config: values as texts, which stand over everything.

    Raises:
        SystemExit: the words cannot be read.
        ComponentArgumentError: (a ValueError) an element of a list or dictionary cannot be.
        TypeError: the component gives something else than an `AppDef`.

    Example:
        >>> from flambeau.launch.components.utils import echo
        >>> materialize_appdef(echo, ["--msg", "good morning"]).roles[0].args
        ['good morning']
    """
    parsed = parse_args(cmpnt_fn, cmpnt_args, cmpnt_defaults, config)
    positional: list[Any] = []
    rest: list[str] = []
    keywords: dict[str, Any] = {}
    for parameter in _parameters(cmpnt_fn):
        given = getattr(parsed, parameter.name)
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            # One "--" says that what follows belongs to the program, also where it looks like ours.
            rest = given[1:] if given[:1] == ["--"] else given
            continue
        try:
            value = decode(given, parameter.annotation)
        except ValueError as error:
            raise ComponentArgumentError(f"argument --{parameter.name}: {error}") from None
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            keywords[parameter.name] = value
        else:
            positional.append(value)
    app = cmpnt_fn(*positional, *rest, **keywords)
    if not isinstance(app, AppDef):
        raise TypeError(f"{getattr(cmpnt_fn, '__name__', cmpnt_fn)} gave a {type(app).__name__}; expected an AppDef.")
    return app
