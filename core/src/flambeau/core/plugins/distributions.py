"""The installed distributions whose entry points name plugins.

`importlib.metadata` would do, and its import alone takes longer than everything else that a listing does. So plain
folders on `sys.path` are read here, by the same rules; it is asked where distributions may lie anywhere else.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.machinery import PathFinder

MANIFEST_GROUP = "flambeau.manifest"
HOOKS_GROUP = "flambeau"


@dataclass(frozen=True)
class Declaration:
    """What one distribution's entry points say about one plugin."""

    name: str
    distribution: str
    version: str
    editable: bool
    manifest: str | None  # package:file.json
    hooks: str | None

    @property
    def package(self) -> str:
        """The package that the entry points name."""
        return (self.manifest or self.hooks or "").partition(":")[0].strip()


@dataclass(frozen=True)
class _Installed:
    """One distribution: its normalized name, and a reader of its metadata files (empty for an absent one)."""

    name: str
    read: Callable[[str], str]

    @property
    def header(self) -> str:
        """Name, version and more; empty for what an interrupted removal left behind."""
        return self.read("METADATA") or self.read("PKG-INFO")


class Installation:
    """The distributions that are installed at one moment: the folders are looked through once, for all questions."""

    @cached_property
    def _plugins(self) -> dict[str, _Installed]:
        return _by_name(search_path())

    @cached_property
    def _all(self) -> dict[str, _Installed]:
        return self._plugins if search_path() == sys.path else _by_name(sys.path)

    def declarations(self) -> list[Declaration]:
        """The plugins that distributions declare, sorted by distribution and name."""
        return [declared for name in sorted(self._plugins) for declared in _declared_by(self._plugins[name])]

    def version_of(self, distribution: str) -> str | None:
        """The version of a distribution; None where there is none of this name."""
        found = self._all.get(normalized(distribution))
        return _field(found.header, "Version") if found else None


def _by_name(path: list[str]) -> dict[str, _Installed]:
    found: dict[str, _Installed] = {}
    for installed in _distributions(path):
        # One may lie on sys.path twice (installed, and in place); the first is the one that Python imports.
        found.setdefault(installed.name, installed)
    return found


def normalized(name: str) -> str:
    """The name of a distribution as the packaging standard compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _declared_by(installed: _Installed) -> Iterator[Declaration]:
    text = installed.read("entry_points.txt")
    if f"[{HOOKS_GROUP}" not in text:
        return
    if not (header := installed.header):
        return
    manifests, hooks = dict(_entry_points(text, MANIFEST_GROUP)), dict(_entry_points(text, HOOKS_GROUP))
    for name in sorted(manifests.keys() | hooks.keys()):
        yield Declaration(
            name=name,
            distribution=installed.name,
            version=_field(header, "Version"),
            editable=_editable(installed.read("direct_url.json")),
            manifest=manifests.get(name),
            hooks=hooks.get(name),
        )


def _entry_points(text: str, group: str) -> Iterator[tuple[str, str]]:
    """Names and values of one group. The standard's parser would raise on one bad line, for all groups."""
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line.strip("[]").strip()
        elif section == group and line and line[0] not in "#;":
            name, _, value = line.partition("=")
            yield name.strip(), value.partition("[")[0].strip()


def _field(header: str, key: str) -> str:
    found = re.search(rf"^{key}:[ \t]*(\S+)", header, re.MULTILINE)
    return found[1] if found else "unknown"


def _editable(text: str) -> bool:
    try:
        origin = json.loads(text or "{}")
    except ValueError:
        return False
    folder = origin.get("dir_info") if isinstance(origin, dict) else None
    return isinstance(folder, dict) and folder.get("editable") is True


def search_path() -> list[str]:
    """Where plugins may be installed."""
    return sys.path


def _distributions(path: list[str]) -> Iterator[_Installed]:
    """Every distribution, those first on the path first."""
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    if finders != [PathFinder]:
        yield from _by_importlib_metadata(path)
        return
    for place in path:
        folder = place or os.curdir
        if os.path.isdir(folder):  # noqa: PTH112  # a Path for each entry would cost more than the question
            yield from _in_folder(folder)
        elif os.path.exists(folder):  # noqa: PTH110  # a zip file
            yield from _by_importlib_metadata([place])


def _in_folder(folder: str) -> Iterator[_Installed]:
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:  # not ours to read, as for the import system
        return
    for name in sorted(name for name in names if name.endswith((".dist-info", ".egg-info"))):
        stem = name.rpartition(".")[0]
        # pip renames what it fails to remove to a name with a tilde in front.
        if stem.strip(".") and not stem.startswith("~"):
            yield _Installed(normalized(stem.partition("-")[0]), _reader(folder, name))


def _reader(folder: str, name: str) -> Callable[[str], str]:
    def read(file: str) -> str:
        try:
            with open(os.path.join(folder, name, file), encoding="utf-8") as opened:  # noqa: PTH118, PTH123
                return opened.read()
        except (OSError, UnicodeDecodeError):
            # Absent, or somebody else's damaged installation: it names no plugin that could be called broken.
            return ""

    return read


def _by_importlib_metadata(path: list[str]) -> Iterator[_Installed]:
    from importlib import metadata

    for distribution in metadata.distributions(path=path):

        def read(file: str, distribution: metadata.Distribution = distribution) -> str:
            try:
                return distribution.read_text(file) or ""
            except (OSError, UnicodeDecodeError):
                return ""

        header = read("METADATA") or read("PKG-INFO")
        yield _Installed(normalized(_field(header, "Name")), read)
