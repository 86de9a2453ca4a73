"""A home of the test's own, plugins that are installed for the test alone, and the program as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from flambeau.core.plugins import hooks, manager


def look_again() -> None:
    """Forget all plugins and look for them anew, without a word about what is wrong with any."""
    hooks.forget()
    manager.refresh_snapshot()


class PluginSite:
    """A folder on `sys.path` in which a test installs distributions, as pip would lay them out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(
        self,
        name: str,
        manifest: Mapping[str, Any] | str | None = None,
        *,
        distribution: str | None = None,
        version: str = "1.0",
        modules: Mapping[str, str] | None = None,
    ) -> Path:
        """Install a plugin and return its package's folder.

        Args:
            name: of the plugin; its package is `<name>_plugin`.
            manifest: what its manifest holds beyond the head, or the file's whole text.
            distribution: by default `flambeau-<name>`.
            version: of the distribution.
            modules: file name -> source, written into the package.
        """
        package = self.folder / f"{name}_plugin"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text("")
        for file, source in (modules or {}).items():
            (package / file).write_text(source)
        head = {"schema": 1, "plugin": name, "api": "1.0"}
        text = manifest if isinstance(manifest, str) else json.dumps(head | dict(manifest or {}))
        (package / "flambeau_plugin.json").write_text(text)
        distribution = distribution or f"flambeau-{name}"
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        entry_point = f"{name} = {name}_plugin:flambeau_plugin.json"
        (info / "entry_points.txt").write_text(f"[flambeau.manifest]\n{entry_point}\n")
        look_again()
        return package


def installed() -> list[str]:
    """Names of the plugins in this environment."""
    groups = ("flambeau.manifest", "flambeau")
    return sorted({point.name for group in groups for point in metadata.entry_points(group=group)})


@pytest.fixture
def flambeau_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home for cache and configuration; nothing of the developer's own environment shines through."""
    for name in [name for name in os.environ if name.startswith("FLAMBEAU_")]:
        monkeypatch.delenv(name)
    # What the developer has installed stays out, whatever state it is in.
    monkeypatch.setenv("FLAMBEAU_DISABLE_PLUGINS", ",".join(installed()))
    monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    look_again()
    yield tmp_path / "home"
    monkeypatch.undo()
    look_again()


@pytest.fixture
def plugin_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flambeau_home: Path) -> Iterator[PluginSite]:
    """Plugins for this test, in this process and in programs it starts."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    yield PluginSite(folder)
    for name in [name for name in sys.modules if name.partition(".")[0].endswith("_plugin")]:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def program(flambeau_home: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `flambeau` as a program of its own: `program("weights", "list")`."""

    def run(*words: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
        start = ["-m", "flambeau.core"] if code is None else ["-c", code]
        return subprocess.run(
            [sys.executable, *start, *words], capture_output=True, text=True, check=False, timeout=120
        )

    return run
