"""Fixtures that several test files share: a home of the test's own, and plugins installed for the test alone.

`site` (also `plugin_site`) is a folder of fake installed distributions: `site.plugin("alpha", models=[...],
modules={"zoo.py": "..."})` writes a package, its manifest and its dist-info, and `flambeau.core` sees it as installed,
here and in programs that the test starts. In this process nothing else is installed, as far as discovery goes, and
every trace is gone after the test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from flambeau.core.plugins import Plugin, discover, distributions, hooks, manager
from flambeau.core.registry import by_kind

# How long one example takes says more about what else the machine does.
settings.register_profile("core", deadline=None)
settings.load_profile("core")


class Site:
    """A folder on `sys.path` in which a test installs distributions, as pip would lay them out."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home

    def distribution(
        self,
        name: str,
        *,
        version: str = "1.0",
        entry_points: Mapping[str, Mapping[str, str]] | None = None,
        files: Mapping[str, str] | None = None,
        editable: bool = False,
    ) -> Path:
        """Install a distribution; returns its dist-info.

        Args:
            name: of the distribution.
            version: of the distribution.
            entry_points: group -> name -> value.
            files: path below the folder -> text.
            editable: whether it is said to be installed in place.
        """
        for file, text in (files or {}).items():
            target = self.folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(textwrap.dedent(text), encoding="utf-8")
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        groups = (entry_points or {}).items()
        text = "".join(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for group, names in groups)
        info.joinpath("entry_points.txt").write_text(text)
        if editable:
            info.joinpath("direct_url.json").write_text('{"url": "file:///here", "dir_info": {"editable": true}}')
        return info

    def plugin(
        self,
        name: str,
        *,
        distribution: str | None = None,
        package: str | None = None,
        version: str = "1.0",
        manifest: object = None,
        modules: Mapping[str, str] | None = None,
        hooks: str | None = None,
        editable: bool = False,
        **keys: Any,
    ) -> Path:
        """Install a plugin with a manifest; returns the manifest's path.

        Args:
            name: of the plugin.
            distribution: name of the distribution; `flambeau-NAME` by default.
            package: importable package; `NAME_plugin` by default.
            version: of the distribution.
            manifest: the file's text, or what JSON holds; by default a valid head with `keys` added.
            modules: file within the package -> text; by default an `__init__.py` that fails when it is imported.
            hooks: value of the entry point in group `flambeau`, if any.
            editable: whether it is said to be installed in place.
            **keys: keys of the manifest, for example `models=[{"name": .., "target": ..}]`.
        """
        package = package or f"{name}_plugin"
        if manifest is None:
            manifest = {"schema": 1, "plugin": name, "api": "1.0", **keys}
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        folder = package.replace(".", "/")
        files = {"__init__.py": "raise AssertionError('the plugin was imported')", **(modules or {})}
        entry_points = {"flambeau.manifest": {name: f"{package}:flambeau_plugin.json"}}
        if hooks:
            entry_points["flambeau"] = {name: hooks}
        self.distribution(
            distribution or f"flambeau-{name}",
            version=version,
            entry_points=entry_points,
            files={f"{folder}/{file}": content for file, content in files.items()},
            editable=editable,
        )
        path = self.folder / folder / "flambeau_plugin.json"
        path.write_text(text, encoding="utf-8")
        return path

    def add(self, name: str, manifest: Mapping[str, Any] | str | None = None, **options: Any) -> Path:
        """Install an importable plugin and let this process see it; returns its package's folder.

        Args:
            name: of the plugin.
            manifest: what its manifest holds beyond the head, or the file's whole text.
            **options: as for `plugin`.
        """
        options["modules"] = {"__init__.py": "", **(options.get("modules") or {})}
        if isinstance(manifest, str):
            path = self.plugin(name, manifest=manifest, **options)
        else:
            path = self.plugin(name, **options, **(manifest or {}))
        self.discover()
        return path.parent

    def discover(self) -> dict[str, Plugin]:
        """The plugins, read anew."""
        return discover(refresh=True)

    def configure(self, config: Mapping[str, Any]) -> None:
        """Write the user's configuration file."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.home.joinpath("config.json").write_text(json.dumps(config))

    def run(self, *arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `python ARGUMENTS` in a process of its own; the plugins are installed there beside the real ones."""
        done = subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert not check or done.returncode == 0, done.stderr
        return done


@pytest.fixture
def flambeau_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home for cache and configuration; nothing of the developer's own environment shines through."""
    for name in [name for name in os.environ if name.startswith("FLAMBEAU_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    return tmp_path / "home"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flambeau_home: Path) -> Iterator[Site]:
    """Plugins for this test, in this process and in programs it starts."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    # What is really installed stays importable, and is not seen as installed.
    monkeypatch.setattr(distributions, "search_path", lambda: [p for p in sys.path if p.startswith(str(tmp_path))])
    with _plugins_put_back(), _modules_put_back(tmp_path):
        discover(refresh=True)
        yield Site(folder, flambeau_home)


@pytest.fixture
def plugin_site(site: Site) -> Site:
    """The same as `site`."""
    return site


@pytest.fixture
def program(flambeau_home: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `flambeau` as a program of its own: `program("weights", "list")`."""

    def run(*words: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
        start = ["-m", "flambeau.core"] if code is None else ["-c", code]
        return subprocess.run(
            [sys.executable, *start, *words], capture_output=True, text=True, check=False, timeout=120
        )

    return run


@contextmanager
def _plugins_put_back() -> Iterator[None]:
    """Start without plugins and registrations, and restore the process's own afterwards."""
    kept = [(vars(holder), dict(vars(holder))) for holder in (manager, hooks, *by_kind().values())]
    manager._warned, hooks._manager, hooks._loaded = set(), None, set()
    for registry in by_kind().values():
        registry._registered, registry._removed, registry._objects, registry._view = {}, set(), {}, None
    try:
        yield
    finally:
        for holder, state in kept:
            holder.update(state)


@contextmanager
def _modules_put_back(folder: Path) -> Iterator[None]:
    """Forget the modules that are imported meanwhile from below a folder."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        path = getattr(sys.modules[name], "__path__", ())  # torch has modules whose path is no list
        places = [getattr(sys.modules[name], "__file__", None), *(path if isinstance(path, Iterable) else ())]
        if any(isinstance(place, str) and Path(place).is_relative_to(folder) for place in places):
            del sys.modules[name]
