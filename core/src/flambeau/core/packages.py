"""Where the files of importable packages lie, found without importing anything.

`importlib.util.find_spec` would import the parents of a package: slow, and theirs to fail.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def package_folders(package: str) -> list[str]:
    """The folders of a package, or the one that holds a module; empty where there is none of this name.

    An editable installation may spread one package over several folders.
    """
    folders: Sequence[str] | None = None
    name = ""
    for part in package.split("."):
        name = f"{name}.{part}" if name else part
        loaded = getattr(sys.modules.get(name), "__path__", None)
        folders = list(loaded) if loaded is not None else _search(name, folders)
    return list(folders or ())


def _search(name: str, parents: Sequence[str] | None) -> list[str]:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        try:
            spec = find(name, parents) if find else None
        except KeyError:
            # Python's finder wants to track the parent of a namespace inside a namespace, which is not imported.
            last = name.rpartition(".")[2]
            return [str(folder) for parent in parents or () if (folder := Path(parent, last)).is_dir()]
        if spec and spec.submodule_search_locations is not None:
            return list(spec.submodule_search_locations)
        if spec:
            return [str(Path(spec.origin).parent)] if spec.has_location and spec.origin else []
    return []
