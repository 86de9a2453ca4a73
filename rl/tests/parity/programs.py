"""The programs of `golden/rl_*.json`: `flambeau.core.testing.programs` with what this package adds.

A program that imports a name which the package does not have yet is expected to fail: where it gives what was recorded,
`check` fails. Which names those are is computed from the program and from the package, so a program counts from
the moment when the last of its names appears. The counts stand at the end of pytest's report.
"""

from __future__ import annotations

import ast
import importlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flambeau.core.testing import programs
from flambeau.core.testing.golden import golden_values, upstream_facts

ROOTS = {"tensordict": "flambeau.data.tensordict", "torchrl": "flambeau.rl"}
COUNTS: dict[str, Counter[str]] = {}


def cases(topic: str) -> Any:
    """The parameters of a test that runs the programs of `golden/<topic>.json`."""
    return pytest.mark.parametrize("case", golden_values(topic, __file__)["cases"], ids=lambda case: case["id"])


def check(topic: str, case: dict[str, Any]) -> None:
    """Run one program and compare; it fails as expected where the package lacks what it imports."""
    prelude, missing = needed(case["code"], golden_values(topic, __file__)["prelude"])
    got = programs.run_case(case["code"], prelude, ROOTS, [spec])
    rtol, atol = case.get("rtol", 1e-4), case.get("atol", 1e-5)
    fault = programs.differs(json.loads(json.dumps(got)), case["result"], rtol=rtol, atol=atol)
    COUNTS.setdefault(topic, Counter())["not built" if missing else "run"] += 1
    if not missing:
        assert fault is None, fault
        return
    assert fault is not None, f"{case['id']} counts as not built, for {missing}, but gives what was recorded."
    pytest.xfail(f"not built yet: {', '.join(missing)}")


def needed(code: str, prelude: str) -> tuple[str, list[str]]:
    """The part of a prelude that a program uses, and the names of upstream it needs that our package lacks."""
    program, statements = ast.parse(code), ast.parse(prelude).body
    wanted = set(_mentioned(program))
    kept: list[ast.stmt] = []
    for statement in reversed(statements):  # what a definition uses stands before it
        if isinstance(statement, ast.ImportFrom):
            statement.names = [each for each in statement.names if each.name == "*" or _bound(each) in wanted]
            if statement.names:
                kept.append(statement)
        elif wanted & set(_binds(statement)) or isinstance(statement, ast.Expr):
            kept.append(statement)
            wanted |= set(_mentioned(statement))
    kept.reverse()
    own = {name for each in kept if not isinstance(each, ast.ImportFrom) for name in _binds(each)}
    missing = []
    for statement in [*kept, *(node for node in ast.walk(program) if isinstance(node, ast.ImportFrom))]:
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").partition(".")[0] in ROOTS:
            missing += [f"{statement.module}.{name}" for name in _absent(statement, wanted - own)]
    present = [each for each in kept if not (isinstance(each, ast.ImportFrom) and _is_absent(_ours(each.module or "")))]
    return "\n".join(ast.unparse(statement) for statement in present), missing


def _absent(statement: ast.ImportFrom, wanted: set[str]) -> Iterator[str]:
    module = statement.module or ""
    names = [each.name for each in statement.names]
    if names == ["*"]:
        names = sorted(wanted & set(upstream_facts("api", __file__)["modules"].get(module, ())))
    for name in names:
        if _is_absent(_ours(module)) or (
            not hasattr(importlib.import_module(_ours(module)), name) and _is_absent(f"{_ours(module)}.{name}")
        ):
            yield name


def _is_absent(module: str) -> bool:
    """Whether there is no such module; one that is there but cannot be imported is an error."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            return True
        raise
    return False


def _ours(module: str) -> str:
    root, dot, rest = module.partition(".")
    return ROOTS.get(root, root) + dot + rest


def _mentioned(tree: ast.AST) -> Iterator[str]:
    return (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name


def _binds(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, ast.Import):
        yield from (_bound(each).partition(".")[0] for each in statement.names)
    else:
        yield from (
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )


def spec(value: Any, describe: Callable[[Any], Any]) -> Any:
    """Describes a tensor spec by its shape, dtype, device, domain and the values that it allows."""
    if isinstance(value, type) or not all(hasattr(value, name) for name in ("shape", "space", "is_in")):
        return None
    if hasattr(value, "batch_size"):  # composites are described as the tensordicts they are specs of
        return None
    about = {"spec": type(value).__name__, "shape": list(value.shape), "dtype": str(value.dtype)}
    about |= {"device": str(value.device), "domain": value.domain}
    for name in ("n", "low", "high"):
        if value.space is not None and hasattr(value.space, name):
            about[name] = describe(getattr(value.space, name))
    return about
