"""After parity runs, print how much of upstream is there: builders, weights, operators, functionals, datasets."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flambeau.core.registry import DATASETS
from flambeau.core.testing.golden import upstream_facts


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print one line for each kind."""
    terminalreporter.section("vision beside the record of upstream")
    for kind, count in COUNTS.items():
        have, recorded = count()
        missing = sorted(recorded - have)
        note = f"; missing: {', '.join(missing)}" if missing else ""
        terminalreporter.write_line(f"{kind}: {len(recorded & have)} of {len(recorded)}{note}")


@functools.cache
def _facts(name: str) -> Any:
    return upstream_facts(name, __file__)


def _builders() -> tuple[set[str], set[str]]:
    from flambeau.vision.models import list_models

    return set(list_models()), set(_facts("models")["models"])


def _weights() -> tuple[set[str], set[str]]:
    from flambeau.vision import weights

    recorded = _facts("weights")["enums"]
    return set(_members(recorded, lambda enum: getattr(weights, enum, None))), {
        f"{enum}.{member}" for enum, members in recorded.items() for member in members["members"]
    }


def _members(enums: Iterable[str], find: Callable[[str], Any]) -> Iterator[str]:
    for name in enums:
        yield from (f"{name}.{member}" for member in getattr(find(name), "__members__", ()))


def _names(*modules: str) -> tuple[set[str], set[str]]:
    recorded = _facts("api")["modules"]
    have = {name for module in modules for name in recorded[module] if hasattr(importlib.import_module(module), name)}
    return have, {name for module in modules for name in recorded[module]}


def _datasets() -> tuple[set[str], set[str]]:
    from flambeau.vision import datasets

    recorded = set(_facts("datasets")["datasets"])
    registered = {entry.id.rpartition("/")[2] for entry in DATASETS.entries()}
    # DatasetFolder is what others are made of: without a loader there is nothing to get by name.
    by_name = {name for name in recorded if name.lower() in registered or name == "DatasetFolder"}
    return {name for name in by_name if hasattr(datasets, name)}, recorded


COUNTS: dict[str, Callable[[], tuple[set[str], set[str]]]] = {
    "builders": _builders,
    "weights": _weights,
    "operators and their layers": lambda: _names("flambeau.vision.ops"),
    "functionals": lambda: _names("flambeau.vision.transforms.v2.functional"),
    "transforms": lambda: _names("flambeau.vision.transforms.v2"),
    "datasets": _datasets,
}
