"""Operators under `torch.ops` that are registered when they are first asked for, by a package that imports no torch.

A package says which of its modules registers which operator. `torch.ops.<namespace>.<name>` then imports that module,
also where the package was imported before torch was.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


def announce_operators(namespace: str, operators: Mapping[str, str]) -> None:
    """Let `torch.ops.<namespace>` find operators whose modules are not imported yet.

    Args:
        namespace: of the operators.
        operators: name of an operator -> module that registers it.
    """
    if "torch._ops" in sys.modules:
        _show(namespace, operators)
    else:
        sys.meta_path.insert(0, _AfterTorch(namespace, operators))


def _show(namespace: str, operators: Mapping[str, str]) -> None:
    import torch

    shown: Any = getattr(torch.ops, namespace)

    def register(name: str) -> Any:
        if name not in operators:
            raise AttributeError(name)  # the namespace itself looks further
        del shown.__dict__["__getattr__"]  # modules that register operators ask for them meanwhile
        try:
            import_module(operators[name])
        finally:
            shown.__dict__["__getattr__"] = register
        return type(shown).__getattr__(shown, name)

    # A namespace is a module, and a module's own `__getattr__` is asked before that of its class: the namespace stays
    # the object that torch made, and that others may hold already.
    shown.__dict__["__getattr__"] = register


class _AfterTorch:
    """Finds torch as the finders behind it do, and shows the operators as soon as it is imported."""

    def __init__(self, namespace: str, operators: Mapping[str, str]) -> None:
        self._announced = (namespace, operators)

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module as others find it, for torch; None for all else."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, spec, self._announced)  # type: ignore[assignment]
                return spec
        return None


class _Loader:
    """Loads a module as its own loader does, and steps back."""

    def __init__(self, loader: Any, spec: ModuleSpec, announced: tuple[str, Mapping[str, str]]) -> None:
        self._loader, self._spec, self._announced = loader, spec, announced

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the module's own loader."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """As the module's own loader, which takes its place again; then the operators are shown."""
        self._spec.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _show(*self._announced)
