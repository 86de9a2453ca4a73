"""Derive a manifest's tables from the code, which is the one source of truth.

The head of the file (plugin, api, requires, commands, predictors, ...) is written by hand and kept. The tables follow
from what the package's modules register when they are imported.
"""

from __future__ import annotations

import difflib
import importlib
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from flambeau.core.errors import ManifestError
from flambeau.core.files import write_atomic
from flambeau.core.manifest.reading import MANIFEST_NAME, SCHEMA_VERSION, parse_manifest
from flambeau.core.manifest.schema import validate_manifest
from flambeau.core.naming import address, home_module
from flambeau.core.version import API_VERSION

if TYPE_CHECKING:
    from flambeau.core.native.library import KernelLibrary

# Hand-written keys first, in this order; then other hand-written keys; then the tables.
HEAD = (
    "schema",
    "plugin",
    "api",
    "requires",
    "home_page",
    "hooks",
    "conformance",
    "commands",
    "predictors",
    "services",
)
TABLES = ("models", "weights", "datasets", "tensor_types", "kernels")


def update(package: str, *, check: bool = False) -> tuple[str, bool]:
    """Bring a package's manifest up to date with its code.

    Args:
        package: the importable package that holds the manifest; all its modules are imported.
        check: write nothing.

    Returns:
        What was found, for people (a diff where the file is stale), and whether the file is now up to date.

    Raises:
        ManifestError: a module cannot be imported, or the code registers something that no manifest can hold.
    """
    path = manifest_path(package)
    old = path.read_text(encoding="utf-8") if path.is_file() else ""
    new = render(build(package))
    if new == old:
        return f"{path}: up to date", True
    if check:
        diff = difflib.unified_diff(old.splitlines(), new.splitlines(), str(path), "from the code", lineterm="")
        advice = f"{path} is stale; run: python -m flambeau.core.manifest build {package}"
        return "\n".join([*diff, advice]), False
    write_atomic(path, new)
    return f"{path}: written", True


def manifest_path(package: str) -> Path:
    """Where a package's manifest is, or is to be: beside its sources.

    Raises:
        ManifestError: the package cannot be imported, or has no `__init__.py` to lie beside.
    """
    module = _import(package)
    if not getattr(module, "__path__", None) or not module.__file__:
        raise ManifestError(f"{package} is no package with an __init__.py; a manifest lies beside one.")
    return Path(module.__file__).with_name(MANIFEST_NAME)


def build(package: str) -> dict[str, Any]:
    """A package's manifest: the head as it is in the file, the tables as the code registers them.

    Raises:
        ManifestError: see `update`; also where the result does not fit the schema, with the JSON path of each fault.
    """
    path = manifest_path(package)
    old = parse_manifest(path) if path.is_file() else _first_head(package)
    modules = _import_all(package, skip=old.get("conformance"))
    tables = {**_registered(package, str(old.get("plugin"))), "kernels": _kernels(package)}
    _check_enums(package, modules, tables["weights"])
    head = {key: old[key] for key in (*HEAD, *old) if key in old and key not in TABLES}
    manifest: dict[str, Any] = _plain({**head, **{table: tables[table] for table in TABLES}}, "$")
    if faults := validate_manifest(manifest):
        raise ManifestError(f"{path}: {len(faults)} faults, nothing is written.\n" + "\n".join(faults))
    return manifest


def render(manifest: dict[str, Any]) -> str:
    """A manifest as text: one line for each key and for each record of a table, so that diffs are readable."""
    lines = []
    for key, value in manifest.items():
        if isinstance(value, list) and value:
            records = ",\n".join(f"    {json.dumps(record, ensure_ascii=False)}" for record in value)
            lines.append(f"  {json.dumps(key)}: [\n{records}\n  ]")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _first_head(package: str) -> dict[str, Any]:
    from flambeau.core.plugins.distributions import Installation

    names = [declared.name for declared in Installation().declarations() if declared.package == package]
    return {
        "schema": SCHEMA_VERSION,
        "plugin": names[0] if names else package.rpartition(".")[2],
        "api": ".".join(map(str, API_VERSION)),
    }


def _import_all(package: str, *, skip: str | None) -> list[ModuleType]:
    """Import every module of a package; what runs as a program, or serves the tests alone, registers nothing.

    A module with Triton kernels, which `register_op` imports at the first call on an accelerator, may fail; so may a
    kernel library, which lies there with the suffix of an extension module and is none.
    """
    failures: dict[str, ManifestError] = {}
    modules = list(_imported(package, skip, failures))
    on_demand = {
        str(operator.get("triton")).partition(":")[0]
        for library in _libraries(package)
        for operator in library.operators.values()
    } | {f"{library.package}.{library.stem}" for library in _libraries(package)}
    for name, error in failures.items():
        if name not in on_demand and not _lacks_triton(error):
            raise error
    return modules


def _lacks_triton(error: ManifestError) -> bool:
    """Whether a module is one that kernels on accelerators share, on a machine without the compiler for them."""
    return isinstance(error.__cause__, ModuleNotFoundError) and error.__cause__.name == "triton"


def _imported(package: str, skip: str | None, failures: dict[str, ManifestError]) -> Iterator[ModuleType]:
    module = _import(package)
    yield module
    for found in sorted(pkgutil.iter_modules(module.__path__, f"{package}."), key=lambda one: one.name):
        if found.name.endswith(".__main__") or found.name == skip:
            continue
        if found.ispkg:
            yield from _imported(found.name, skip, failures)
            continue
        try:
            yield _import(found.name)
        except ManifestError as error:
            failures[found.name] = error


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # a plugin's own code: whatever it raises, the manifest cannot be built
        raise ManifestError(f"importing {name} failed: {type(error).__name__}: {error}") from error


def _registered(package: str, plugin: str) -> dict[str, list[dict[str, Any]]]:
    from flambeau.core.registry import by_kind

    tables: dict[str, list[dict[str, Any]]] = {}
    for kind, registry in by_kind().items():
        tables[kind] = []
        for entry in registry.registrations():
            module = home_module(entry.target)
            if module != package and not module.startswith(f"{package}."):
                continue
            if entry.plugin != plugin:
                raise ManifestError(
                    f"{module} registers {kind} {entry.id!r}, but the manifest's plugin is {plugin!r}; "
                    f"leave `plugin` out, or correct $.plugin."
                )
            record: dict[str, Any] = {"name": entry.name, **entry.info}
            if kind != "weights":
                record["target"] = _importable(entry.id, entry.target)
            tables[kind].append(record)
    return tables


def _importable(name: str, target: object) -> str:
    place = address(target)
    if place is None:
        raise ManifestError(f"{name} stands for {target!r}, which cannot be imported; register a function or a class.")
    return place


def _libraries(package: str) -> list[KernelLibrary]:
    from flambeau.core.native.library import LIBRARIES

    return [one for one in LIBRARIES if one.package == package or one.package.startswith(f"{package}.")]


def _kernels(package: str) -> list[dict[str, Any]]:
    libraries = _libraries(package)
    records = [{"namespace": one.namespace, "library": one.stem, "package": one.package} for one in libraries]
    return sorted(records, key=lambda record: (record["namespace"], record["library"]))


def _check_enums(package: str, modules: list[ModuleType], records: list[dict[str, Any]]) -> None:
    """An enum that no model names would be found by nobody: say so instead of leaving it out."""
    from flambeau.core.weights.enums import WeightsEnum

    registered = {record["enum"] for record in records}
    for module in modules:
        for value in vars(module).values():
            if not isinstance(value, type) or not issubclass(value, WeightsEnum) or not len(value):
                continue
            place = address(value) or repr(value)
            if place.startswith((f"{package}.", f"{package}:")) and place not in registered:
                raise ManifestError(
                    f"{place} belongs to no registered model; name it in a builder: "
                    f"`weights: {value.__name__} | None = None` below @register_model()."
                )


def _plain(value: Any, where: str) -> Any:
    """A value as JSON holds it, equal to what reading it back gives."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ManifestError(f"{where} is {value}, which JSON cannot hold.")
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {str(key): _plain(item, f"{where}.{key}") for key, item in value.items()}
    raise ManifestError(f"{where} is {value!r} ({type(value).__name__}), which JSON cannot hold; record a string.")
