"""Transforms as plain JSON, and back."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.core.errors import UnknownNameError, close_names
from flambeau.vision.transforms.v2._transform import Transform

_HOME = "flambeau.vision.transforms.v2"


def to_spec(transform: Transform) -> dict[str, Any]:
    """Describe a transform, and those inside, by plain JSON.

    The values are those that the transform has now, under the names of its constructor's arguments. A generator is left
    out: it is a state, no argument.

    Args:
        transform: one of ours; or of a class in a module of yours, with its arguments as attributes of the same names.

    Returns:
        {"transform": class name, or "module:Name" if it is none of ours, "args": {argument: value}}. Arguments that
        have their default are left out.

    Raises:
        ValueError: something has no name by which it is found again, such as a lambda; or an argument is no attribute.

    Example:
        >>> from flambeau.vision.transforms import v2
        >>> to_spec(v2.Compose([v2.RandomHorizontalFlip(0.3)]))
        {'transform': 'Compose', 'args': {'transforms': [{'transform': 'RandomHorizontalFlip', 'args': {'p': 0.3}}]}}
    """
    kind = type(transform)
    args: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if name == "generator":
            continue
        if name not in vars(transform):
            raise ValueError(
                f"to_spec: {kind.__name__} has no attribute {name!r} with the value of its argument; store it under "
                "that name."
            )
        value = getattr(transform, name)
        if value is not parameter.default and not _equal(value, parameter.default):
            args[name] = _encoded(value)
    return {"transform": _name_of(kind), "args": args}


def from_spec(spec: Mapping[str, Any], *, trust: bool = False) -> Any:
    """Build the transform that `to_spec` described.

    Args:
        spec: what `to_spec` returned, perhaps by way of a JSON file.
        trust: import modules outside of flambeau that the description names. Importing runs their code, and what
            they define is called: do so only with descriptions from people you would run a program of.

    Raises:
        UnknownNameError: there is no such transform (a ValueError).
        ValueError: it names a module outside, without `trust`; or is no description.
    """
    if "transform" not in spec:
        raise ValueError(f"from_spec: no 'transform' among {sorted(spec)}; expected what to_spec returns.")
    kind = _named(spec["transform"], trust)
    if not (isinstance(kind, type) and issubclass(kind, (Transform, nn.Module))):
        raise ValueError(f"from_spec: {spec['transform']} is no transform.")
    args = {name: _decoded(value, trust) for name, value in spec.get("args", {}).items()}
    stars = [name for name, p in inspect.signature(kind).parameters.items() if p.kind is p.VAR_POSITIONAL]
    if not stars or stars[0] not in args:
        return kind(**args)
    several = args.pop(stars[0])
    return kind(*args.values(), *several)


def _equal(value: Any, default: Any) -> bool:
    if isinstance(value, Tensor) or default is inspect.Parameter.empty:
        return False
    if isinstance(value, (list, tuple)) and isinstance(default, (list, tuple)):
        return list(value) == list(default)
    return bool(value == default)


def _encoded(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Transform):
        return to_spec(value)
    if isinstance(value, nn.ModuleList | list | tuple):
        return [_encoded(item) for item in value]
    if isinstance(value, Mapping):
        return {"items": [[_encoded(key), _encoded(item)] for key, item in value.items()]}
    if isinstance(value, enum.Enum):
        return {"name": f"{_name_of(type(value))}.{value.name}"}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, Tensor):
        return {"tensor": value.tolist(), "dtype": str(value.dtype).removeprefix("torch.")}
    if callable(value) and hasattr(value, "__qualname__"):
        return {"name": _name_of(value)}
    raise ValueError(f"to_spec: {type(value).__name__} has no form in JSON: {value!r}.")


def _decoded(value: Any, trust: bool) -> Any:
    if isinstance(value, list):
        return [_decoded(item, trust) for item in value]
    if not isinstance(value, dict):
        return value
    if "transform" in value:
        return from_spec(value, trust=trust)
    if "items" in value:
        return {_decoded(key, trust): _decoded(item, trust) for key, item in value["items"]}
    if "tensor" in value:
        return torch.tensor(value["tensor"], dtype=getattr(torch, value["dtype"]))
    if "dtype" in value:
        return getattr(torch, value["dtype"])
    if "name" in value:
        return _named(value["name"], trust)
    raise ValueError(f"from_spec: {value!r} is nothing that to_spec writes.")


def _name_of(thing: type | Callable[..., Any]) -> str:
    """The class name of our transforms, "module:name" of anything else."""
    public = import_module(_HOME)
    name = thing.__qualname__
    if name in public.__all__ and getattr(public, name) is thing:
        return name
    path = f"{thing.__module__}:{name}"
    if "<" in name or thing.__module__ == "__main__":
        raise ValueError(f"to_spec: {path} cannot be found by name; define it at the top of a module.")
    return path


def _named(name: str, trust: bool) -> Any:
    module, colon, path = name.rpartition(":")
    if not colon:
        module = _HOME
        head = path.partition(".")[0]
        public = import_module(_HOME).__all__
        if head not in public:
            near = ", ".join(close_names(head, public))
            raise UnknownNameError(f"from_spec: no transform {head!r}. Close names: {near or 'none'}.")
    elif not (trust or module.startswith("flambeau.vision.") or name == "torch:Tensor"):
        raise ValueError(f"from_spec: {name} is outside of flambeau; pass trust=True if you trust the description.")
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
        if isinstance(found, ModuleType):  # a way out to what that module imports
            raise ValueError(f"from_spec: {name} leads through a module; expected a class, a function or a member.")
    return found
