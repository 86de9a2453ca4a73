"""Find the installed plugins and read their manifests, importing nothing of theirs.

Two entry-point groups name plugins: `flambeau.manifest` (value `importable.package:file.json`) and, for plugins that
are code alone or add code to a manifest, `flambeau` (value: a module with hook implementations).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from flambeau.core.environment import config_path, read_config
from flambeau.core.errors import ConfigError, ManifestError, PluginError
from flambeau.core.manifest.reading import SCHEMA_VERSION, check_head, check_tables, parse_manifest
from flambeau.core.packages import package_folders
from flambeau.core.plugins.checked import Checked, state_of
from flambeau.core.plugins.distributions import Declaration, Installation
from flambeau.core.plugins.plugin import NAME_PATTERN, Plugin
from flambeau.core.plugins.requirements import satisfies
from flambeau.core.version import API_VERSION


@dataclass(frozen=True)
class Snapshot:
    """All plugins at one moment, and the manifests of those that take part."""

    plugins: dict[str, Plugin] = field(default_factory=dict)
    manifests: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def faulty(self) -> list[Plugin]:
        """The plugins that users should know about: neither in order nor switched off on purpose."""
        return [plugin for plugin in self.plugins.values() if plugin.state not in ("ok", "disabled")]

    def marked_broken(self, name: str, error: BaseException) -> Snapshot:
        """The same with one plugin broken, which takes its manifest out."""
        if name not in self.plugins:  # uninstalled, and looked for anew, while it was loaded
            return self
        plugin = replace(self.plugins[name], state="broken", error=error)
        manifests = {key: value for key, value in self.manifests.items() if key != name}
        return Snapshot({**self.plugins, name: plugin}, manifests)


def scan() -> Snapshot:
    """Look at every installed distribution, and decide which plugins take part.

    Raises:
        ConfigError: the user's configuration file is damaged.
    """
    installed, checked = Installation(), Checked()
    rivals: dict[str, list[Declaration]] = {}
    for declaration in installed.declarations():
        rivals.setdefault(declaration.name, []).append(declaration)
    disabled = _disabled()
    plugins: dict[str, Plugin] = {}
    manifests: dict[str, dict[str, Any]] = {}
    for name, declared in sorted(rivals.items()):
        # By name and not by sys.path, so that every machine with these distributions decides alike.
        chosen, *others = sorted(declared, key=lambda one: (one.distribution != f"flambeau-{name}", one.distribution))
        plugin, manifest = _examine(chosen, disabled.get(name) or disabled.get("*"), installed, checked)
        plugins[name] = plugin
        if manifest is not None:
            manifests[name] = manifest
        for other in others:
            plugins[f"{name}@{other.distribution}"] = _shadowed(other, installed, checked, by=chosen)
    checked.save()
    return Snapshot(plugins, manifests)


def _disabled() -> dict[str, str]:
    """Plugin names (or `*`) that the user switched off, and where."""
    variable = "FLAMBEAU_DISABLE_PLUGINS"
    names = dict.fromkeys(filter(None, map(str.strip, os.environ.get(variable, "").split(","))), f"by {variable}")
    section = read_config().get("plugins", {})
    chosen = section.get("disabled", []) if isinstance(section, dict) else None
    if not isinstance(chosen, list) or not all(isinstance(name, str) for name in chosen):
        raise ConfigError(f'{config_path()}: expected {{"plugins": {{"disabled": ["name", ..]}}}}; found {section!r}.')
    return dict.fromkeys(chosen, f"in {config_path()}; `flambeau plugins enable` takes it back") | names


def _examine(
    declared: Declaration, disabled: str | None, installed: Installation, checked: Checked
) -> tuple[Plugin, dict[str, Any] | None]:
    """Decide the state of one plugin; its manifest comes along where it takes part."""
    plugin = _plain(declared)
    try:
        if not NAME_PATTERN.fullmatch(declared.name):
            raise PluginError(f"its name is not of the form {NAME_PATTERN.pattern}; {_ask_author(declared)}")
        if declared.manifest is None:
            return _switched(plugin, disabled), None
        path = _locate(declared)
        plugin = replace(plugin, manifest_path=path)
        if disabled:
            return _switched(plugin, disabled), None
        state = state_of(path)
        manifest = parse_manifest(path)
        check_head(manifest, path)
        plugin = replace(
            plugin,
            api=manifest.get("api"),
            home_page=manifest.get("home_page"),
            hooks=manifest.get("hooks") or plugin.hooks,
        )
        if manifest["plugin"] != declared.name:
            raise PluginError(
                f"{path}: $.plugin is {manifest['plugin']!r}, but the entry point says {declared.name!r}; "
                f"{_ask_author(declared)}"
            )
        if obstacle := _incompatibility(manifest, plugin, installed):
            return replace(plugin, state="incompatible", error=PluginError(obstacle)), None
        if not checked.knows(path, state):
            check_tables(manifest, path)
            checked.remember(path, state)
    except (Exception, SystemExit) as error:  # whatever one plugin does wrong, the others go on
        if disabled:
            return _switched(plugin, disabled), None
        return replace(plugin, state="broken", error=error), None
    return plugin, manifest


def _ask_author(declared: Declaration) -> str:
    return f"the author of {declared.distribution} must correct it, upgrading may help."


def _switched(plugin: Plugin, disabled: str | None) -> Plugin:
    if not disabled:
        return plugin
    return replace(plugin, state="disabled", error=PluginError(f"switched off {disabled}."))


def _shadowed(loser: Declaration, installed: Installation, checked: Checked, *, by: Declaration) -> Plugin:
    error = PluginError(
        f"{by.distribution} and {loser.distribution} both declare the plugin {loser.name!r}, and "
        f"{by.distribution} is taken; uninstall the one you do not need."
    )
    plugin, _ = _examine(loser, None, installed, checked)
    return replace(plugin, state="shadowed", error=error)


def _plain(declared: Declaration) -> Plugin:
    """A plugin as its entry points alone describe it."""
    return Plugin(
        declared.name,
        declared.distribution,
        declared.version,
        declared.package,
        editable=declared.editable,
        hooks=declared.hooks,
    )


def _incompatibility(manifest: dict[str, Any], plugin: Plugin, installed: Installation) -> str:
    """Why core or an installed distribution is the wrong one for this plugin; empty where all fit."""
    if manifest["schema"] > SCHEMA_VERSION:
        return (
            f"its manifest has schema {manifest['schema']} and this flambeau-core reads up to {SCHEMA_VERSION}; "
            f"upgrade flambeau-core."
        )
    major, minor = map(int, manifest["api"].split("."))
    have = ".".join(map(str, API_VERSION))
    if (major, minor) > API_VERSION:
        return (
            f"it is written for plugin interface {major}.{minor} and this flambeau-core has {have}; "
            f"upgrade flambeau-core."
        )
    if major < API_VERSION[0]:
        return (
            f"it is written for plugin interface {major}.{minor} and this flambeau-core has {have}; "
            f"upgrade {plugin.distribution}."
        )
    requirements: dict[str, str] = manifest.get("requires", {})
    return next(filter(None, (_unmet(name, wanted, installed) for name, wanted in requirements.items())), "")


def _unmet(distribution: str, wanted: str, installed: Installation) -> str:
    have = installed.version_of(distribution)
    if have is None:
        return f"it requires {distribution}{wanted}, which is not installed."
    try:
        fits = satisfies(have, wanted)
    except ValueError as error:
        fault = f"$.requires.{distribution} is {wanted!r}, expected a version specifier such as '>=2.8'"
        raise ManifestError(f"{fault} ({error}).") from error
    return "" if fits else f"it requires {distribution}{wanted}, and {have} is installed."


def _locate(declared: Declaration) -> Path:
    """The manifest file inside the package."""
    package, _, name = map(str.strip, (declared.manifest or "").partition(":"))
    file = PurePosixPath(name)
    importable = all(part.isidentifier() for part in package.split("."))
    if not importable or not file.name or file.is_absolute() or ".." in file.parts or "\\" in name:
        raise PluginError(
            f"its entry point is {declared.manifest!r}, expected 'importable.package:file.json'; "
            f"{_ask_author(declared)}"
        )
    folders = package_folders(package)
    for folder in folders:
        if (path := Path(folder, file)).is_file():
            return path
    places = ", ".join(folders) or "sys.path"
    missing = f"its manifest {file} is not in {places}" if folders else f"its package {package!r} cannot be found"
    raise PluginError(f"{missing}; reinstall {declared.distribution}.")
