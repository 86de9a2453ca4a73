"""Record torchx's public names from its source: `python record.py path/to/torchx > api.json`.

A name is public where a module defines it without an underscore; packages also show what they import from torchx. Of
classes the methods and fields are recorded. Left out are upstream's tests and examples.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

LEFT_OUT = ("test", "examples", "integration_tests")
INCIDENTAL = {"log", "logger", "T"}


def public(path: Path, package: bool) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names[node.name] = {}
        elif isinstance(node, ast.ClassDef):
            names[node.name] = {"members": members(node)}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update({target.id: {} for target in targets if isinstance(target, ast.Name)})
        elif isinstance(node, ast.ImportFrom) and package and ((node.module or "").startswith("torchx") or node.level):
            names.update({alias.asname or alias.name: {} for alias in node.names})
    return {name: about for name, about in names.items() if not name.startswith("_") and name not in INCIDENTAL}


def members(node: ast.ClassDef) -> list[str]:
    found = []
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.append(inner.name)
        elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
            found.append(inner.target.id)
        elif isinstance(inner, ast.Assign):
            found += [target.id for target in inner.targets if isinstance(target, ast.Name)]
    return [name for name in found if not name.startswith("_")]


def main(root: Path) -> None:
    modules = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        if any(part in LEFT_OUT or part.startswith("test_") for part in parts):
            continue
        package = parts[-1] == "__init__"
        if names := public(path, package):
            modules[".".join(parts[:-1] if package else parts)] = names
    json.dump({"modules": modules}, sys.stdout, indent=1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
