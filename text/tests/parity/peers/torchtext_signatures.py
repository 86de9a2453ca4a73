"""Cells of signatures: how torchtext's functions and methods call their parameters, their order and their defaults.

Ours may have more parameters, after upstream's or by keyword alone; those are left out of the comparison.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

from flambeau.core.testing.differential import Cell, Library

# Written by `upstream/record_torchtext.py`: name below the package -> the names of upstream's parameters.
PARAMETERS = Path(__file__).resolve().parents[1] / "upstream" / "parameters.json"

MODULES = (
    "data.datasets_utils", "data.functional", "data.metrics", "data.utils", "functional",
    "models.roberta.bundler", "models.roberta.model", "models.roberta.modules", "models.t5.bundler", "models.t5.model",
    "models.t5.modules", "models.t5.t5_transform", "nn.modules.multiheadattention", "prototype.generate",
    "prototype.transforms", "prototype.vectors", "prototype.vocab_factory", "transforms", "utils", "vocab.vectors",
    "vocab.vocab", "vocab.vocab_factory",
)  # fmt: skip
DATASETS = "datasets"


def found(library: Library, path: str) -> Any:
    """What a dotted name below the package stands for."""
    value: Any = library
    for name in path.split("."):
        value = getattr(value, name)
    return value


def public_callables(library: Library) -> dict[str, list[str]]:
    """Every function, class and method of the modules above, and the names of its parameters."""
    listed = {}
    for module_name in MODULES:
        module = found(library, module_name)
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) != module.__name__ or name.startswith("_") or not callable(value):
                continue
            listed[f"{module_name}.{name}"] = value
            if inspect.isclass(value):
                methods = {n: m for n, m in vars(value).items() if inspect.isfunction(m) and not n.startswith("_")}
                listed |= {f"{module_name}.{name}.{method}": function for method, function in methods.items()}
    for name in found(library, DATASETS).DATASETS:
        listed[f"{DATASETS}.{name}"] = getattr(found(library, DATASETS), name)
    named = {}
    for path, value in sorted(listed.items()):
        try:
            named[path] = [name for name in inspect.signature(value).parameters if name != "__unused"]
        except (TypeError, ValueError):
            continue  # a class of C++ tells none
    return named


class _Signature:
    def __init__(self, path: str, names: list[str]) -> None:
        self.path, self.names = path, names

    def __call__(self, library: Library, given: dict[str, Any]) -> Any:
        parameters = inspect.signature(found(library, self.path)).parameters
        shown = {name: parameters[name] for name in parameters if name in self.names}
        return [[name, _default(parameter), _kind(parameter)] for name, parameter in shown.items()]


def _default(parameter: inspect.Parameter) -> Any:
    """A default as it is compared: functions and classes by name, paths not at all."""
    value = parameter.default
    if value is inspect.Parameter.empty:
        return "none"
    if isinstance(value, str) and "/" in value:
        return "a path"
    return getattr(value, "__name__", None) or repr(value)


def _kind(parameter: inspect.Parameter) -> str:
    """Whether it can be given by place."""
    by_place = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    return "by place" if by_place else parameter.kind.name.lower()


def cells() -> list[Cell]:
    """A cell for each of upstream's callables."""
    listed: dict[str, list[str]] = json.loads(PARAMETERS.read_text(encoding="utf-8"))
    return [Cell(f"signatures/{path}", "signatures", _Signature(path, names)) for path, names in listed.items()]
