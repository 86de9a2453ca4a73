"""Calls written before weights had enums: `resnet50(pretrained=True)`, `resnet50(True)`."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from flambeau.core.weights.annotations import annotated_weights

P = ParamSpec("P")
R = TypeVar("R")

# What `True` stands for: a member, its name in the builder's enum, None where there never was one, or a function of the
# keywords, which may return None for nothing.
Meaning = Any


def legacy_weights(**parameters: tuple[str, Meaning]) -> Callable[[Callable[P, R]], Callable[..., R]]:
    """Let a builder be called as before: with switches instead of weights, and by position.

    ::

        @register_model()
        @legacy_weights(weights=("pretrained", "IMAGENET1K_V1"))
        def resnet50(*, weights: ResNet50_Weights | None = None, progress: bool = True, **kwargs): ...

    Args:
        parameters: parameter of the builder -> (the switch it had before, what True meant). The meaning is a member,
            the name of a member of the parameter's enum, None where no weights ever answered to True, or a function
            that takes the call's keyword arguments, the switch among them, and returns a member, a name, or None for
            new parameters.

    Returns:
        A decorator. Each old usage in a call gives one UserWarning, at the caller's line, that names the new one.

    Raises:
        TypeError: the builder has no such parameter; in a call: a switch is given together with what replaced it.
        ValueError: in a call: a switch is on that never had weights.
    """

    def decorate(builder: Callable[P, R]) -> Callable[..., R]:
        known = inspect.signature(builder).parameters
        if strange := [name for name in parameters if name not in known]:
            raise TypeError(f"{builder.__name__}() has no parameters {strange}, expected some of {list(known)}.")
        by_position = [p.name for p in known.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)]
        keyword_only = [p.name for p in known.values() if p.kind is p.KEYWORD_ONLY]

        @functools.wraps(builder)
        def call(*args: Any, **kwargs: Any) -> R:
            args, surplus = args[: len(by_position)], args[len(by_position) :]
            if surplus:
                _name_positional(builder.__name__, surplus, keyword_only, kwargs)
            for name, (switch, meaning) in parameters.items():
                _translate(builder, name, switch, meaning, kwargs)
            return builder(*args, **kwargs)

        return call

    return decorate


def _name_positional(builder: str, values: tuple[Any, ...], names: list[str], kwargs: dict[str, Any]) -> None:
    """Move positional values to the keyword-only parameters they stood for."""
    if len(values) > len(names):
        raise TypeError(f"{builder}() takes at most {len(names)} of its keyword-only parameters by position: {names}.")
    given = names[: len(values)]
    if twice := [name for name in given if name in kwargs]:
        raise TypeError(f"{builder}() got {twice} by position and by keyword.")
    _warn(
        f"{builder}() got {', '.join(given)} by position, which is deprecated; write "
        f"{', '.join(f'{name}=...' for name in given)}."
    )
    kwargs.update(zip(given, values, strict=True))


def _translate(builder: Callable[..., Any], name: str, switch: str, meaning: Meaning, kwargs: dict[str, Any]) -> None:
    """Replace a switch, or a truth value in place of weights, by the weights it meant."""
    if switch in kwargs:
        if name in kwargs:
            raise TypeError(f"{builder.__name__}() got {switch!r} and {name!r}; {name!r} replaced it, keep that alone.")
        used, value = f"{switch}={kwargs[switch]!r}", kwargs.pop(switch)
    elif isinstance(kwargs.get(name), bool):
        used, value = f"{name}={kwargs[name]!r}", kwargs.pop(name)
    else:
        return
    if value and meaning is None:
        raise ValueError(
            f"{builder.__name__}({used}) does not say which weights; name those you want, such as {name}='DEFAULT', or "
            "leave it out for new parameters."
        )
    kwargs[name] = _member(builder, name, meaning, {**kwargs, switch: value}) if value else None
    _warn(f"{builder.__name__}({used}) is deprecated; the same is written {name}={kwargs[name]!r}.")


def _member(builder: Callable[..., Any], name: str, meaning: Meaning, kwargs: dict[str, Any]) -> Any:
    if callable(meaning):
        meaning = meaning(kwargs)
    if not isinstance(meaning, str):
        return meaning
    enum = annotated_weights(builder, name)
    if enum is None:
        raise TypeError(
            f"{builder.__name__}(): parameter {name!r} is annotated with no weights enum to find {meaning!r}."
        )
    return enum.verify(meaning)


def _warn(message: str) -> None:
    # The caller's line: past this function, the helper that called it, and the wrapper.
    warnings.warn(message, UserWarning, stacklevel=4)
