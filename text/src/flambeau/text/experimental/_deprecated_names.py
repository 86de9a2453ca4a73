"""Names that moved: where they are now, with a warning to look there."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any


def moved(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module all of whose public names are in `flambeau.text.prototype`.

    Args:
        module: the former module's `__name__`.
    """
    home = f"flambeau.text.prototype.{module.rpartition('.')[2]}"

    def get(name: str) -> Any:
        # Names with underscores are what Python's own machinery asks every module for.
        target = None if name.startswith("_") else import_module(home)
        if target is None or name not in target.__all__:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is {home}.{name} now; import it from there.", UserWarning, stacklevel=2)
        return getattr(target, name)

    return get
