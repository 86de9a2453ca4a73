"""Whether a source has anything to migrate, found quickly: keeping its layout takes fifty times longer."""

from __future__ import annotations

import ast
import re
import warnings

from flambeau.core.cli.migrate.table import MODULES, OPERATORS, moved

ROOTS = frozenset(name.split(".")[0] for name in MODULES)
_OPERATOR = re.compile(rf"(torch\.ops\.|^)({'|'.join(OPERATORS)})(\.|::)\w")
_MENTIONED = re.compile("|".join(sorted({*ROOTS, *OPERATORS})).encode())


def mentioned(content: bytes) -> bool:
    """Whether a file has the name of an upstream library or operator namespace in it at all."""
    return _MENTIONED.search(content) is not None


def relevant(source: bytes) -> bool:
    """Whether `rewrite` could change or report something; True for a source that Python itself cannot parse."""
    if not mentioned(source):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about escapes in the user's strings
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError):
            return True
    return any(map(_concerned, ast.walk(tree)))


def _concerned(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] in ROOTS for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        return node.level == 0 and any(moved(f"{module}.{alias.name}") for alias in node.names)
    if isinstance(node, ast.Attribute):
        return node.attr in OPERATORS
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return name in ("import_module", "__import__")
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return bool(moved(node.value) or _OPERATOR.search(node.value))
    return False
