"""Components by name: those of this package, of installed distributions, and of files."""

from __future__ import annotations

import abc
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from flambeau.core.errors import close_names
from flambeau.launch.errors import ComponentFileNotFound, ComponentNotFoundException, ComponentValidationException
from flambeau.launch.specs.apps import AppDef
from flambeau.launch.specs.file_linter import get_fn_docstring, validate

__all__ = [
    "ComponentNotFoundException",
    "ComponentValidationException",
    "ComponentsFinder",
    "CustomComponentsFinder",
    "ModuleComponentsFinder",
    "get_builtin_source",
    "get_component",
    "get_components",
    "is_namespace_package",
    "is_package",
    "module_relname",
]

GROUPS = ("torchx.components", "flambeau.launch.components")
"""Groups of entry points that name modules of components; the entry point's name stands before the components'."""


@dataclass
class _Component:
    """A component.

    Attributes:
        name: as command lines have it.
        description: the beginning of its docstring.
        fn_name: its name in its module.
        fn: itself.
        validation_errors: what keeps it from running.
    """

    name: str
    description: str
    fn_name: str
    fn: Callable[..., AppDef]
    validation_errors: list[str]


class ComponentsFinder(abc.ABC):
    """A place where components are."""

    @abc.abstractmethod
    def find(self) -> list[_Component]:
        """Everything that is there."""


def is_namespace_package(module: ModuleType) -> bool:
    """Whether a module is a folder without `__init__.py`."""
    return is_package(module) and getattr(module, "__file__", None) is None


def is_package(module: ModuleType) -> bool:
    """Whether a module can have others inside."""
    return hasattr(module, "__path__")


def module_relname(module: ModuleType, relative_to: ModuleType) -> str:
    """A module's name below another.

    Raises:
        ValueError: it does not lie below.

    Example:
        >>> import json, json.decoder
        >>> module_relname(json.decoder, relative_to=json)
        'decoder'
    """
    name, above = module.__name__, relative_to.__name__
    if name == above:
        return ""
    if not name.startswith(f"{above}."):
        raise ValueError(f"module {name} does not lie below {above}.")
    return name.removeprefix(f"{above}.")


class ModuleComponentsFinder(ComponentsFinder):
    """The components of a module, and of everything below it.

    Args:
        module: the module, or its name.
        group: what stands before the components' names; empty for nothing.
    """

    def __init__(self, module: str | ModuleType, group: str) -> None:
        self.base_module = import_module(module) if isinstance(module, str) else module
        self.group = group

    def find(self) -> list[_Component]:
        """All public functions that say that they return an AppDef."""
        return [component for module in self._modules() for component in self._of(module)]

    def _modules(self) -> Iterator[ModuleType]:
        yield self.base_module
        if not is_package(self.base_module):
            return
        for info in pkgutil.walk_packages(self.base_module.__path__, f"{self.base_module.__name__}."):
            yield import_module(info.name)

    def _of(self, module: ModuleType) -> Iterator[_Component]:
        prefix = ".".join(part for part in (self.group, module_relname(module, self.base_module)) if part)
        for name, function in sorted(vars(module).items()):
            if name.startswith("_") or not inspect.isfunction(function) or function.__module__ != module.__name__:
                continue
            if not _returns_app(function):
                continue
            path = inspect.getabsfile(function)
            errors = [message.description for message in validate(path, name)]
            full = f"{prefix}.{name}" if prefix else name
            yield _Component(full, get_fn_docstring(function)[0], name, function, errors)


def _returns_app(function: Callable[..., Any]) -> bool:
    annotation = function.__annotations__.get("return")
    return annotation is AppDef or str(annotation).rpartition(".")[2] == "AppDef"


class CustomComponentsFinder(ComponentsFinder):
    """A component in a file.

    Args:
        filepath: the file.
        function_name: the component.
    """

    def __init__(self, filepath: str, function_name: str) -> None:
        self._filepath = filepath
        self._function_name = function_name

    def find(self) -> list[_Component]:
        """The component; the file is run where nothing is wrong with it.

        Raises:
            ComponentFileNotFound: (a FileNotFoundError) there is no such file.
            ComponentNotFoundException: the file has no such function.
        """
        path = Path(self._filepath).expanduser()
        if not path.is_file():
            raise ComponentFileNotFound(
                f"there is no file {self._filepath!r}; a component is FILE.py:FUNCTION, or one that "
                "`flambeau launch builtins` lists."
            )
        name = f"{self._filepath}:{self._function_name}"
        errors = [message.description for message in validate(str(path), self._function_name)]
        if missing := [error for error in errors if error.startswith("there is no function")]:
            raise ComponentNotFoundException(f"{missing[0]}.")
        if errors:
            return [_Component(name, "", self._function_name, _cannot_run, errors)]
        function = getattr(_run_file(path), self._function_name)
        return [_Component(name, get_fn_docstring(function)[0], self._function_name, function, [])]


def _cannot_run(*args: object, **kwargs: object) -> AppDef:
    raise ComponentValidationException("this component breaks the rules for components; see its validation errors.")


def _run_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ComponentFileNotFound(f"{path} is not a Python file; components lie in files that end with .py.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_components: dict[str, _Component] | None = None


def get_components() -> dict[str, _Component]:
    """All components by name, which are those of this package and of installed distributions.

    A distribution declares a module of components as an entry point of the group `flambeau.launch.components` (or
    `torchx.components`), or by a hook; its name then stands before theirs, unless it begins with an underscore.
    """
    global _components
    if _components is None:
        _components = _find_all()
    return _components


def _find_all() -> dict[str, _Component]:
    found: dict[str, _Component] = {}
    for group, module in _modules().items():
        prefix = "" if group.startswith("_") else group
        for component in ModuleComponentsFinder(module, prefix).find():
            found[component.name] = component
    return found


def _modules() -> Mapping[str, str | ModuleType]:
    from importlib.metadata import entry_points

    from flambeau.launch.plugins import component_modules

    modules: dict[str, str | ModuleType] = {"_ours": "flambeau.launch.components"}
    modules |= component_modules()
    for group in GROUPS:
        modules |= {point.name: point.value for point in entry_points(group=group)}
    return modules


def _one(name: str) -> _Component | None:
    """A component of this package, found without importing the others."""
    module, _, function = name.rpartition(".")
    if _components is not None or not module or not module.replace(".", "").isidentifier():
        return None
    target = f"flambeau.launch.components.{module}"
    if importlib.util.find_spec("flambeau.launch.components") is None or not _exists(target):
        return None
    for component in ModuleComponentsFinder(target, module).find():
        if component.fn_name == function and component.name == name:
            return component
    return None


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def get_component(name: str) -> _Component:
    """A component by its name, or by its file and function.

    Args:
        name: such as `utils.echo`, or `path/to/file.py:function`.

    Raises:
        ComponentNotFoundException: there is none; the message names near ones.
        ComponentFileNotFound: (a FileNotFoundError) the file is not there.
        ComponentValidationException: it breaks the rules for components; the message says which.
    """
    file, separator, function = name.rpartition(":")
    if separator:
        component: _Component | None = CustomComponentsFinder(file, function).find()[0]
    else:
        component = _one(name) or get_components().get(name)
    if component is None:
        near = close_names(name, get_components())
        hint = f"did you mean {' or '.join(near)}?" if near else "`flambeau launch builtins` lists those there are."
        raise ComponentNotFoundException(f"no component {name!r}; {hint} One in a file is FILE.py:FUNCTION.")
    if component.validation_errors:
        wrong = "\n".join(f"  {error}" for error in component.validation_errors)
        raise ComponentValidationException(f"component {name} cannot be run:\n{wrong}")
    return component


def get_builtin_source(name: str) -> str:
    """The source of a component with the imports of its module, to copy and change.

    Raises:
        ComponentNotFoundException: there is none of this name.
    """
    function = get_component(name).fn
    source = Path(inspect.getabsfile(function)).read_text(encoding="utf-8")
    imports = [line for line in source.splitlines() if line.startswith(("import ", "from "))]
    return "\n".join(imports) + f"\n\n\n{inspect.getsource(function)}\n"
