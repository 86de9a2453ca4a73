"""Which library writes JSON: the standard one, or orjson where it is installed."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Any

_NAMES = ("json", "orjson")
_chosen: str | None = None


def get_json_backend() -> ModuleType:
    """The module that `json_dumps` uses: the chosen one, else orjson if it is installed, else json."""
    default = "orjson" if importlib.util.find_spec("orjson") else "json"
    return importlib.import_module(_chosen or default)


def set_json_backend(backend: str) -> None:
    """Choose the module that `json_dumps` uses.

    Args:
        backend: `"json"` or `"orjson"`.

    Raises:
        ValueError: another name.
        ImportError: orjson is not installed.
    """
    global _chosen
    if backend not in _NAMES:
        raise ValueError(f"backend is {backend!r}; choose one of {', '.join(map(repr, _NAMES))}.")
    if importlib.util.find_spec(backend) is None:
        raise ImportError(f"{backend} is not installed; `pip install {backend}`, or choose 'json'.", name=backend)
    _chosen = backend


def json_dumps(data: Any, **kwargs: Any) -> str | bytes:
    """Write a value as JSON.

    Args:
        data: what the chosen library can write.
        kwargs: options of `json.dumps`. orjson knows `default` and `option` alone and is given only these.

    Returns:
        A string from json, bytes (UTF-8, without spaces) from orjson.
    """
    module = get_json_backend()
    if module.__name__ == "orjson":
        kwargs = {name: value for name, value in kwargs.items() if name in ("default", "option")}
    written: str | bytes = module.dumps(data, **kwargs)
    return written
