"""Migrating files: which ones a path means, one file's result, and writing it back whole or not at all."""

from __future__ import annotations

import difflib
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import libcst

from flambeau.core.cli.migrate import notebooks
from flambeau.core.cli.migrate.relevant import mentioned, relevant
from flambeau.core.cli.migrate.requirements import lists_requirements, rewrite_requirements
from flambeau.core.cli.migrate.rewrite import Change, Note, Rewritten, rewrite
from flambeau.core.errors import CommandError
from flambeau.core.files import write_atomic

SUFFIXES = (".ipynb", ".py", ".pyi")
_NOT_SOURCES = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages"})


@dataclass
class Migrated:
    """One file: its content before and after, what was done and not done, or why it could not be read.

    `cells` holds, for a notebook, the joined source that lines of changes and notes count in.
    """

    path: Path
    before: bytes = b""
    after: bytes = b""
    changes: list[Change] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    error: str | None = None
    cells: str | None = None

    @property
    def changed(self) -> bool:
        """Whether the file would be, or was, written."""
        return self.before != self.after

    def place(self, line: int) -> str:
        """Where a line is, for people: `file.py:3`, in notebooks `file.ipynb cell 2:3`."""
        if self.cells is None:
            return f"{self.path}:{line}"
        cell, inner = notebooks.cell_of(self.cells, line)
        return f"{self.path} cell {cell}:{inner}"

    def diff(self) -> str:
        """A unified diff of what changes."""
        old, new = (text.decode("utf-8", "replace").splitlines(keepends=True) for text in (self.before, self.after))
        lines = difflib.unified_diff(old, new, f"a/{self.path}", f"b/{self.path}")
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

    def write(self) -> None:
        """Replace the file by the migrated one, keeping its permissions."""
        mode = stat.S_IMODE(self.path.stat().st_mode)
        target = self.path.resolve()  # a link stays a link
        write_atomic(target, self.after)
        target.chmod(mode)


def sources(paths: list[Path]) -> Iterator[Path]:
    """The Python files, notebooks and lists of requirements that the paths mean, folders searched, each once.

    Hidden folders, caches, build results and virtual environments are left out unless named themselves.

    Raises:
        CommandError: a path that does not exist.
    """
    seen = set()
    for path in paths:
        if not path.exists():
            raise CommandError(f"{path} does not exist; expected a Python file, a notebook or a folder.")
        for file in _walk(path) if path.is_dir() else [path]:
            if file.resolve() not in seen:
                seen.add(file.resolve())
                yield file


def migrate(path: Path) -> Migrated | None:
    """Migrate one file in memory; None when it has nothing to do with the upstream libraries."""
    content = path.read_bytes()
    if lists_requirements(path):
        return _requirements(path, content)
    notebook = path.suffix == ".ipynb"
    if not (mentioned(content) if notebook else relevant(content)):
        return None
    try:
        return _notebook(path, content) if notebook else _module(path, content)
    except libcst.ParserSyntaxError as error:
        return Migrated(
            path, content, content, error=f"line {error.raw_line}: not Python that can be parsed: {error.message}"
        )
    except (ValueError, RecursionError) as error:  # not UTF-8 or JSON; expressions nested beyond the parser's depth
        return Migrated(path, content, content, error=str(error))


def _requirements(path: Path, content: bytes) -> Migrated | None:
    try:
        result = rewrite_requirements(path.name, content)
    except ValueError as error:  # not UTF-8, or not TOML
        return Migrated(path, content, content, error=str(error))
    if not (result.changes or result.notes):
        return None
    return Migrated(path, content, result.code, result.changes, result.notes, result.names)


def _module(path: Path, content: bytes) -> Migrated:
    result = rewrite(content)
    return Migrated(path, content, result.code, result.changes, result.notes, result.names)


def _notebook(path: Path, content: bytes) -> Migrated:
    notebook = notebooks.read(content)
    joined = notebook.source
    result = rewrite(joined.encode()) if joined else Rewritten(b"")
    after = notebooks.write(notebook, result.code.decode()) if result.changes else content
    migrated = Migrated(path, content, after, result.changes, result.notes, result.names, cells=joined)
    if notebook.skipped:
        cells = ", ".join(f"cell {index + 1} ({why})" for index, why in notebook.skipped)
        migrated.error = f"left alone: {cells}"
    return migrated


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in _NOT_SOURCES:
            continue
        if path.is_dir():
            if not path.is_symlink() and not (path / "pyvenv.cfg").exists():
                yield from _walk(path)
        elif path.suffix in SUFFIXES or lists_requirements(path):
            yield path
