"""Golden values: what reference implementations computed, kept outside the repository in a shared folder.

The folder is the one that the variable `FLAMBEAU_SHARED` names, else the first `shared` beside, or beside a parent of,
the folder a test file lies in. It holds `golden/fill.py`, which makes weights and inputs from names alone and compares
results with stored digests, and one JSON file per topic. For tests only: where the folder is absent they are skipped.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_MARK = Path("golden", "fill.py")


def shared_folder(start: str | Path) -> Path | None:
    """The shared folder, as seen from a file or folder; None where there is none.

    Args:
        start: usually the test's `__file__`.

    Raises:
        FileNotFoundError: `FLAMBEAU_SHARED` names a folder without golden values.
    """
    if chosen := os.environ.get("FLAMBEAU_SHARED"):
        if not Path(chosen, _MARK).is_file():
            raise FileNotFoundError(
                f"FLAMBEAU_SHARED is {chosen!r}, which holds no {_MARK.as_posix()}; correct it or unset it."
            )
        return Path(chosen)
    for parent in (Path(start).resolve(), *Path(start).resolve().parents):
        if (parent / "shared" / _MARK).is_file():
            return parent / "shared"
    return None


def require_shared(start: str | Path) -> Path:
    """As `shared_folder`; skips the test where there is none."""
    folder = shared_folder(start)
    if folder is None:
        import pytest

        pytest.skip(f"no golden values: set FLAMBEAU_SHARED to a folder that holds {_MARK.as_posix()}")
    return folder


def golden_values(name: str, start: str | Path) -> Any:
    """The content of `golden/<name>.json`; skips the test where the folder is absent.

    Raises:
        FileNotFoundError: the folder has no such file; the message lists those it has.
    """
    folder = require_shared(start) / "golden"
    path = folder / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.json")))
        raise FileNotFoundError(f"{folder} has no {name}.json; it has {known}.")
    return json.loads(path.read_text(encoding="utf-8"))


def golden_module(name: str, start: str | Path) -> ModuleType:
    """A program of the golden folder, such as "fill" or "vision_inputs"; skips the test where the folder is absent."""
    return _load(require_shared(start) / "golden", name)


@functools.cache
def _load(folder: Path, name: str) -> ModuleType:
    if name != "fill" and "fill" not in sys.modules:
        # The programs of the folder import one another by bare names.
        sys.modules["fill"] = _load(folder, "fill")
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    if spec is None or spec.loader is None or not (folder / f"{name}.py").is_file():
        raise FileNotFoundError(f"{folder} has no {name}.py.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
