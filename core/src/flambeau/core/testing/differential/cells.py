"""What is run on both libraries: one call with its inputs, by hand or as a line of program text."""

from __future__ import annotations

import ast
import importlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class Library:
    """One of the two libraries as a cell sees it: its names as attributes, and a folder for one run.

    Attributes:
        ours: whether this is our side; for arguments that only one of both takes.

    Example:
        >>> library = Library("math")
        >>> library.floor(1.5)
        1
    """

    def __init__(self, namespace: Any, *, ours: bool = True) -> None:
        self._namespace = importlib.import_module(namespace) if isinstance(namespace, str) else namespace
        self.ours = ours
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self._namespace, name)
        except AttributeError:
            if name.startswith("__") or not hasattr(self._namespace, "__path__"):
                raise
        try:
            return importlib.import_module(f"{self._namespace.__name__}.{name}")
        except ModuleNotFoundError:
            raise AttributeError(f"{self._namespace.__name__} has neither a name nor a module {name!r}.") from None

    @property
    def folder(self) -> Path:
        """A temporary folder of this run alone, made when first asked for."""
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="differential-", ignore_cleanup_errors=True)
        return Path(self._temporary.name)

    @property
    def used_folder(self) -> Path | None:
        """The folder, if the run asked for it."""
        return None if self._temporary is None else self.folder

    def close(self) -> None:
        """Remove the folder."""
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None


def _nothing(library: Library) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Cell:
    """One call to make on both libraries.

    Args:
        id: unique in its suite; words separated by "/", most general first, as patterns of differences refer to them.
        area: what the counts are grouped by.
        call: makes the call, given the library and the inputs; its result is compared, or the class of its error.
        given: builds the inputs by name; they are compared after the call, which tells what it changed in place.
        read: how the other library reads what the call wrote below `library.folder`: library (whose names it uses) and
            folder -> object. Both libraries read both folders, and must see the same.
        effects: False where what the call leaves of its inputs is nobody's business.
        printed: False where what the call prints is.
    """

    id: str
    area: str
    call: Callable[[Library, dict[str, Any]], Any]
    given: Callable[[Library], dict[str, Any]] = _nothing
    read: Callable[[Library, Path], Any] | None = None
    effects: bool = True
    printed: bool = True

    def __str__(self) -> str:
        return self.id


class _Names(dict[str, Any]):
    """The names a program sees: inputs, what the suite lends, then the library's own."""

    def __init__(self, library: Library, *layers: Mapping[str, Any]) -> None:
        super().__init__()
        self._library = library
        for layer in layers:
            self.update(layer)

    def __missing__(self, name: str) -> Any:
        if name == "library":
            return self._library
        if name == "folder":
            return self._library.folder
        try:
            return getattr(self._library, name)
        except AttributeError:
            raise KeyError(name) from None  # Python then looks among its builtins


@dataclass(frozen=True)
class program:  # lower case: it is used like a function
    """A program of one or more statements as a function; the value of its last expression is the result.

    Args:
        text: statements separated by ";" or newlines.
        names: what it sees besides its inputs, the library's names, `library`, `folder` and Python's builtins.

    Example:
        >>> program("x = floor(1.5); x + n")(Library("math"), {"n": 1})
        2
    """

    text: str
    names: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, library: Library, given: Mapping[str, Any]) -> Any:
        """Run it."""
        statements, last = _compiled(self.text)
        # One dictionary for globals and locals would be a plain dict to Python's inner functions, which skips
        # `__missing__`; so whatever library names the text mentions are looked up first.
        names = _Names(library, self.names, given)
        scope: dict[str, Any] = dict(names)
        for name in _mentioned(self.text):
            if name not in scope:
                try:
                    scope[name] = names[name]
                except KeyError:
                    continue
        exec(statements, scope)
        return None if last is None else eval(last, scope)


_COMPILED: dict[str, tuple[Any, Any]] = {}


def _compiled(text: str) -> tuple[Any, Any]:
    if text not in _COMPILED:
        tree = ast.parse(text)
        last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None  # type: ignore[attr-defined]
        _COMPILED[text] = (
            compile(tree, f"<{text}>", "exec"),
            last and compile(ast.fix_missing_locations(last), f"<{text}>", "eval"),
        )
    return _COMPILED[text]


def _mentioned(text: str) -> Iterator[str]:
    """Names that a program reads and does not set itself first, in the order of the tree."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
    stored = {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
    return (name for name in dict.fromkeys(node.id for node in nodes) if name not in stored)


Builder = str | Callable[[Library], Any]


def cross(
    place: str,
    kinds: Mapping[str, Mapping[str, Builder]],
    programs: Iterable[str],
    *,
    names: Mapping[str, Any] | None = None,
    read: Callable[[Library, Path], Any] | None = None,
) -> list[Cell]:
    """The cells of a table: every kind of input with every program, called "place/kind/program".

    Args:
        place: one or more words separated by "/", of which the first is the area.
        kinds: name of the kind -> name of an input -> how to build it, as program text or as a function of the library.
            An input that a program does not mention is not built for it.
        programs: see `program`.
        names: further names that programs see.
        read: see `Cell`.
    """
    lent = dict(names or {})
    return [
        Cell(f"{place}/{kind}/{text}", place.partition("/")[0], program(text, lent), _Given(inputs, text, lent), read)
        for text in programs
        for kind, inputs in kinds.items()
    ]


def read_table(path: Path) -> dict[str, list[str]]:
    """Programs by heading, from a text file: a heading begins a line, each line below it that is indented is a program.

    Empty lines and those that begin with "#" are left out.

    Raises:
        ValueError: a program stands before the first heading, or twice below one.
    """
    table: dict[str, list[str]] = {}
    programs: list[str] | None = None
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if not line[0].isspace():
            programs = table.setdefault(text, [])
        elif programs is None or text in programs:
            raise ValueError(
                f"{path} has the program {text!r} {'before any heading' if programs is None else 'twice'}."
            )
        else:
            programs.append(text)
    return table


@dataclass(frozen=True)
class _Given:
    inputs: Mapping[str, Builder]
    text: str
    names: Mapping[str, Any]

    def __call__(self, library: Library) -> dict[str, Any]:
        words = set(re.findall(r"\w+", self.text))
        chosen = {name: build for name, build in self.inputs.items() if name in words}
        return {
            name: program(build, self.names)(library, {}) if isinstance(build, str) else build(library)
            for name, build in chosen.items()
        }
