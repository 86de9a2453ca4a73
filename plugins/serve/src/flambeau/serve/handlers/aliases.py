"""`import ts` in handlers: TorchServe's modules are ours."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

__all__ = ["install"]

_OURS = "flambeau.serve"
# What handlers import; other modules of ours are not TorchServe's.
_NAMES = (
    "context", "handler_utils", "metrics", "protocol", "service", "torch_handler", "utils",
)  # fmt: skip


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Modules below `ts` that we have."""
        first, _, rest = fullname.partition(".")
        if first != "ts" or (rest and rest.split(".")[0] not in _NAMES):
            return None
        ours = f"{_OURS}.{rest}" if rest else _OURS
        try:
            found = importlib.util.find_spec(ours)
        except ModuleNotFoundError:
            return None
        if found is None:
            return None
        return importlib.machinery.ModuleSpec(
            fullname, self, is_package=found.submodule_search_locations is not None, loader_state=ours
        )

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Our module itself, so that classes are the same under both names."""
        ours = importlib.import_module(spec.loader_state)
        self._before = ours.__spec__
        return ours

    def exec_module(self, module: ModuleType) -> None:
        """It ran when it was imported; the import system has written the alias's facts over its own."""
        module.__spec__ = self._before
        if module.__spec__ is not None:
            module.__name__ = module.__spec__.name
            module.__package__ = module.__spec__.parent
            module.__loader__ = module.__spec__.loader


def install() -> None:
    """Let this process import `ts`, unless TorchServe itself is loaded."""
    if "ts" not in sys.modules and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
