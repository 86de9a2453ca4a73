"""What a registry says when a name is not there, is there more than once, or is taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from flambeau.core.environment import config_path, read_config
from flambeau.core.errors import ConfigError, ManifestError, close_names
from flambeau.core.manifest.reading import parse_manifest
from flambeau.core.naming import address, aliases_of
from flambeau.core.plugins import manager
from flambeau.core.plugins.plugin import Plugin

if TYPE_CHECKING:
    from flambeau.core.entry import Entry

_COMMANDS = {"models": "flambeau models", "weights": "flambeau weights", "datasets": "flambeau datasets"}


def unknown(kind: str, name: str, entries: Iterable[Entry], *, installed: bool) -> str:
    """Why a name is not there: the plugin that would have it, and the names that are near.

    Args:
        kind: the registry's kind.
        name: what was asked for.
        entries: what the registry holds.
        installed: whether the registry holds what installed plugins offer, so that a plugin can be to blame.
    """
    plugin, _, short = name.rpartition("/")
    entries = list(entries)
    sentences = [f"no {_one(kind)} {name!r}."]
    plugins = manager.current_snapshot().plugins if installed else {}
    sentences += [_capitalized(one.reason) for one in _declaring(kind, plugin, short, plugins.values())]
    if installed and plugin and plugin not in plugins and not any(entry.plugin == plugin for entry in entries):
        sentences.append(_capitalized(manager.absent(plugin, plugins)))
    elif len(sentences) == 1 or not plugin:
        sentences += _near(plugin, short, entries)
    if installed and kind in _COMMANDS:
        sentences.append(f"`{_COMMANDS[kind]}` lists all.")
    return " ".join(sentences)


def ambiguous(kind: str, name: str, candidates: Sequence[Entry]) -> str:
    """Which entries a short name can mean, and how to choose."""
    listed = ", ".join(f"{entry.id} ({entry.origin})" for entry in candidates)
    first = candidates[0]
    return (
        f"{_one(kind)} {name!r} is offered by {len(candidates)} plugins: {listed}. Use one of these ids, or choose "
        f'once in {config_path()}: {{"registry": {{"prefer": {{"{name}": "{first.plugin}"}}}}}}.'
    )


def preferred(name: str, candidates: Sequence[Entry]) -> Entry | None:
    """The candidate of the plugin that the user's configuration prefers for a short name.

    A choice made for a model holds for its weights (`model:member`) too.

    Raises:
        ConfigError: the configuration file is damaged.
    """
    section = read_config().get("registry", {})
    choices = section.get("prefer", {}) if isinstance(section, dict) else None
    if not isinstance(choices, dict):
        raise ConfigError(f'{config_path()}: expected {{"registry": {{"prefer": {{"name": "plugin"}}}}}}.')
    plugin = choices.get(name, choices.get(name.partition(":")[0]))
    return next((entry for entry in candidates if entry.plugin == plugin), None)


def duplicate(known: Entry, target: object) -> str:
    """Who holds a name already."""
    advice = "Choose another name, or pass replace=True."
    if isinstance(known.target, str):
        advice += " If the plugin's manifest is out of date, run: python -m flambeau.core.manifest build PACKAGE"
    return (
        f"{_one(known.kind)} {known.id!r} is already registered by {known.origin} for {_place(known.target)}; "
        f"it cannot stand for {_place(target)} too. {advice}"
    )


def _declaring(kind: str, plugin: str, short: str, plugins: Iterable[Plugin]) -> list[Plugin]:
    """The plugins that would have the name if they took part."""
    absent = [one for one in plugins if one.state != "ok" and plugin in ("", one.name)]
    # A plugin that was named is to blame, whatever can be read of its manifest; the holder of its name may be well.
    return [one for one in absent if (plugin and one.state != "shadowed") or short in _declared_names(kind, one)]


def _declared_names(kind: str, plugin: Plugin) -> set[str]:
    """Names in the manifest of a plugin that does not take part, as far as it can be read."""
    if plugin.manifest_path is None:
        return set()
    try:
        records = parse_manifest(plugin.manifest_path).get(kind)
    except ManifestError:
        return set()
    names: set[str] = set()
    for record in records if isinstance(records, list) else ():
        if isinstance(record, dict) and isinstance(record.get("name"), str):
            prefix = f"{record.get('model')}:" if kind == "weights" else ""
            name = prefix + record["name"]
            names |= {name, *aliases_of(name, _only_lists(record))}
    return names


def _only_lists(record: dict[str, Any]) -> dict[str, Any]:
    aliases = record.get("aliases")
    return {"aliases": aliases if isinstance(aliases, list) else [], "default": record.get("default")}


def _near(plugin: str, short: str, entries: Sequence[Entry]) -> list[str]:
    """The closest names, of the plugin that was asked for where it has any."""
    for among in ([entry for entry in entries if entry.plugin == plugin], entries):
        names = close_names(short, sorted({entry.name for entry in among}))
        if ids := [entry.id for name in names for entry in among if entry.name == name]:
            return [f"Close names: {', '.join(ids[:3])}."]
    return []


def _one(kind: str) -> str:
    kind = kind.replace("_", " ")
    return kind if kind == "weights" else kind.removesuffix("s")


def _place(target: object) -> str:
    return address(target) or repr(target)


def _capitalized(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
