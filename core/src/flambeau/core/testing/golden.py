"""Golden values: what reference implementations computed, stored beside the tests that compare with it.

A package keeps everything below its `tests/parity`:

- `golden/<topic>.json`: results that a reference implementation computed;
- `upstream/<topic>.json`: facts about the libraries that the package replaces, such as names, signatures and addresses;
- `<name>.py` or a folder `<name>`: programs that build the inputs and run the cases.

A large file may be packed as `<topic>.json.gz`. `flambeau.core.testing.fill` makes weights and inputs from names alone
and compares results with stored digests. For tests only: nothing is looked for outside of the package's `tests`.
"""

from __future__ import annotations

import functools
import gzip
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def parity_folder(start: str | Path) -> Path:
    """The `tests/parity` of the package that a test belongs to.

    Args:
        start: the test's `__file__`, or a folder below `tests`.

    Raises:
        FileNotFoundError: `start` lies in no folder `tests`, or that one holds no `parity`.
    """
    path = Path(start).resolve()
    for parent in (path, *path.parents):
        if parent.name == "tests":
            if (parent / "parity").is_dir():
                return parent / "parity"
            raise FileNotFoundError(f"{parent} has no folder parity, where golden values belong.")
    raise FileNotFoundError(f"{path} lies in no folder tests; golden values belong into its folder parity.")


def golden_values(topic: str, start: str | Path) -> Any:
    """The results stored in `golden/<topic>.json`, or packed in `golden/<topic>.json.gz`.

    Args:
        topic: name of the file without suffix.
        start: the test's `__file__`.

    Raises:
        FileNotFoundError: there is no such file; the message lists those there are.
    """
    return _read(parity_folder(start) / "golden", topic)


def upstream_facts(topic: str, start: str | Path) -> Any:
    """The facts stored in `upstream/<topic>.json`, or packed in `upstream/<topic>.json.gz`; as `golden_values`."""
    return _read(parity_folder(start) / "upstream", topic)


def parity_module(name: str, start: str | Path) -> ModuleType:
    """A program of `tests/parity`: the module `<name>.py` or the package `<name>`, loaded once.

    Raises:
        FileNotFoundError: there is no such program.
    """
    return _load(parity_folder(start), name)


def _read(folder: Path, topic: str) -> Any:
    plain, packed = folder / f"{topic}.json", folder / f"{topic}.json.gz"
    if plain.is_file():
        return json.loads(plain.read_bytes())
    if packed.is_file():
        return json.loads(gzip.decompress(packed.read_bytes()))
    known = ", ".join(sorted({file.name.partition(".")[0] for file in folder.glob("*.json*")})) or "none"
    raise FileNotFoundError(f"{folder} has no values about {topic!r}; it has {known}.")


@functools.cache
def _load(folder: Path, name: str) -> ModuleType:
    found = next((path for path in (folder / f"{name}.py", folder / name / "__init__.py") if path.is_file()), None)
    if found is None:
        raise FileNotFoundError(f"{folder} has no program {name!r}.")
    # A name of its own for each package's program, under which the modules of a folder find one another.
    unique = f"_parity_{folder.parent.parent.name}_{name}"
    spec = importlib.util.spec_from_file_location(unique, found)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module
    spec.loader.exec_module(module)
    return module
