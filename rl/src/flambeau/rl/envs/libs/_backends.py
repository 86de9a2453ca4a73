"""Libraries with environments, imported when one of these is made."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any


def backend(module: str, user: str, install: str) -> Any:
    """A library, or a module of it.

    Args:
        module: to import.
        user: the class that needs it.
        install: how it is installed.

    Raises:
        ImportError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if importlib.util.find_spec(module.partition(".")[0]) is not None:
            raise
        raise ImportError(f"{user} needs {module.partition('.')[0]}, which is not installed. Run: {install}") from error


class Available:
    """Names of a library's environments, looked up when they are asked for; none where it is not installed.

    Args:
        module: of the library.
        names: from the module to the names.
    """

    def __init__(self, module: str, names: Any) -> None:
        self.module = module
        self.names = names

    def __get__(self, instance: Any, owner: Any) -> Any:
        if importlib.util.find_spec(self.module) is None:
            return []
        return self.names()
