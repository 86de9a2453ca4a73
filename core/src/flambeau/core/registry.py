"""Registries: every model, weights file, dataset and tensor type of the installed plugins, by name.

The canonical id of an entry is `plugin/name`; the short name works where one plugin alone has it. The four registries
of the suite know what the manifests declare; code that is imported, and hooks, add to them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from flambeau.core import missing
from flambeau.core.attribution import attribute, hooks_run, note
from flambeau.core.entry import Entry
from flambeau.core.errors import AmbiguousNameError, DuplicateNameError, RegistryError, UnknownNameError
from flambeau.core.manifest.reading import check_info
from flambeau.core.naming import address, aliases_of, import_target, same_target, split_name
from flambeau.core.plugins import late, manager
from flambeau.core.plugins.discovery import Snapshot
from flambeau.core.plugins.plugin import Plugin

__all__ = [
    "DATASETS",
    "MODELS",
    "TENSOR_TYPES",
    "WEIGHTS",
    "AmbiguousNameError",
    "DuplicateNameError",
    "Entry",
    "Registry",
    "RegistryError",
    "UnknownNameError",
]


@dataclass(frozen=True, slots=True)
class _Registration:
    """An entry that code made, as against one that a manifest declares."""

    entry: Entry
    replaces: bool = False  # it was asked to take the place of a manifest's entry
    hook: str | None = None  # the plugin whose `flambeau_register` made it: gone when that plugin is


@dataclass(frozen=True, slots=True)
class _View:
    """What a registry holds at one moment, in the forms that look-ups need."""

    snapshot: Snapshot
    entries: dict[str, Entry]  # by id, sorted
    aliases: dict[str, str]  # other id -> id
    short: dict[str, list[str]]  # short name or alias -> ids


class Registry:
    """Entries by canonical id.

    Args:
        kind: what it holds, in the plural: "models".
        from_manifests: fill it from the table of this name in the manifests of the installed plugins.
    """

    def __init__(self, kind: str, *, from_manifests: bool = False) -> None:
        self.kind = kind
        self._from_manifests = from_manifests
        self._registered: dict[str, _Registration] = {}
        self._removed: set[str] = set()  # ids of manifests' entries that were unregistered
        self._objects: dict[str, Any] = {}  # address -> object, resolved once
        self._view: _View | None = None
        self._declared: tuple[Snapshot, dict[str, Entry]] | None = None
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"Registry({self.kind!r}, {len(self)} entries)"

    def register(
        self,
        name: str,
        target: Any,
        *,
        plugin: str | None = None,
        info: dict[str, Any] | None = None,
        replace: bool = False,
    ) -> Entry:
        """Add an entry.

        Registering a name again with the same target changes nothing: what the manifest says about it stays. A module's
        reload brings its new objects in.

        Args:
            name: name within the plugin, or a canonical id.
            target: the object, or its address `module:attribute`.
            plugin: the plugin it belongs to; by default the one whose package holds the target, else the target's
                top-level package, `local` for what is written in a script or a notebook.
            info: what is to be known about it without importing it.
            replace: take the place of an entry with another target.

        Returns:
            The entry that the name stands for now.

        Raises:
            DuplicateNameError: the name stands for another target; the message says who registered it.
            RegistryError: the name has characters that names cannot have.
            ManifestError: a plugin's hook registers facts that listings could not use.
        """
        plugin, name = split_name(name, plugin)
        owner = attribute(target, plugin)
        key = f"{owner.plugin}/{name}"
        if info and hooks_run():  # a stranger's code, whose entries will be listed beside those of others
            check_info(self.kind, info, key)
        with self._lock:
            known, previous = self._known(key), self._registered.get(key)
            if known is not None and not replace and not same_target(known.target, target):
                raise DuplicateNameError(missing.duplicate(known, target))
            if (place := address(target)) is not None and not isinstance(target, str):
                self._objects[place] = target
            if previous is None or replace or _reloaded(previous.entry.target, target):
                if info is None and previous is not None and not replace:
                    info = previous.entry.info
                entry = Entry(self.kind, owner.plugin, name, target, dict(info or {}), owner.origin)
                note(owner, partial(self._restore, key, previous))
                replaces = replace or (previous is not None and previous.replaces)
                self._registered[key] = _Registration(entry, replaces, owner.hook)
            self._removed.discard(key)
            self._view = None
            return self._known(key) or self._registered[key].entry

    def unregister(self, name: str) -> None:
        """Remove an entry, by canonical id or unique short name.

        Raises:
            UnknownNameError, AmbiguousNameError: as `entry`.
        """
        found = self.entry(name).id  # may load hooks, which must not wait for this registry
        with self._lock:
            self._registered.pop(found, None)
            self._removed.add(found)
            self._view = None

    def entry(self, name: str) -> Entry:
        """Look a name up; a canonical id, or a short name that is unique or settled by the user's configuration.

        A name that no manifest and no imported code has makes the plugins' hooks load before it is given up.

        Raises:
            UnknownNameError: there is no such entry; the message has the closest names, and the reason where a plugin
                that declares the name cannot take part, or is not installed.
            AmbiguousNameError: several plugins have the short name; the message lists the ids.
        """
        found = self._find(name)
        if found is None and self._from_manifests:
            late.load_hooks([name.partition("/")[0]] if "/" in name else None)
            found = self._find(name)
        if found is None:
            entries = self._current().entries.values()
            raise UnknownNameError(missing.unknown(self.kind, name, entries, installed=self._from_manifests))
        return found

    def resolve(self, name: str) -> Any:
        """The object that a name stands for; imports its module when first asked.

        Raises:
            UnknownNameError, AmbiguousNameError: as `entry`.
            RegistryError: the module has no such object.
            ImportError: the module cannot be imported. Whatever else its import raises comes through, too.
        """
        entry = self.entry(name)
        if not isinstance(entry.target, str):
            return entry.target
        if entry.target not in self._objects:
            try:
                found = import_target(entry.target)
            except RegistryError as error:
                raise RegistryError(f"{entry.id} of {entry.origin}: {error} Its manifest is out of date.") from error
            except ImportError as error:
                error.add_note(f"While importing {entry.id} of {entry.origin}.")
                raise
            # Its import may have registered the very object, before a decorator above wrapped it.
            self._objects.setdefault(entry.target, found)
        return self._objects[entry.target]

    def info(self, name: str) -> dict[str, Any]:
        """What is known about an entry, without importing it.

        Raises:
            UnknownNameError, AmbiguousNameError: as `entry`.
        """
        return self.entry(name).info

    def names(self) -> list[str]:
        """All canonical ids, sorted."""
        return list(self._current().entries)

    def entries(self, plugin: str | None = None) -> list[Entry]:
        """All entries, or those of one plugin, sorted by id."""
        found = self._current().entries.values()
        return [entry for entry in found if plugin is None or entry.plugin == plugin]

    def registrations(self) -> list[Entry]:
        """What imported code registered, sorted by id, as the code says it and whatever state its plugin is in."""
        with self._lock:
            return [self._registered[name].entry for name in sorted(self._registered)]

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        try:
            self.entry(name)
        except AmbiguousNameError:
            return True
        except UnknownNameError:
            return False
        return True

    def __len__(self) -> int:
        return len(self._current().entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def _find(self, name: str) -> Entry | None:
        if not isinstance(name, str):
            raise TypeError(f"a name in the registry of {self.kind} is a string, not {name!r} ({type(name).__name__}).")
        view = self._current()
        if "/" in name:
            return view.entries.get(view.aliases.get(name, name))
        ids = view.short.get(name, ())
        if len(ids) > 1:
            candidates = [view.entries[found] for found in ids]
            chosen = missing.preferred(name, candidates) if self._from_manifests else None
            if chosen is None:
                raise AmbiguousNameError(missing.ambiguous(self.kind, name, candidates))
            return chosen
        return view.entries[ids[0]] if ids else None

    def _known(self, found: str) -> Entry | None:
        """The entry that holds an id now, without the filters of what is shown."""
        registration = self._registered.get(found)
        declared = None if found in self._removed else self._manifest_entries().get(found)
        if registration is not None and (declared is None or registration.replaces):
            return registration.entry
        return declared

    def _current(self) -> _View:
        if self._from_manifests:
            manager.reported_snapshot()
        view = self._view
        if view is None or (self._from_manifests and view.snapshot is not manager.current_snapshot()):
            with self._lock:
                view = self._view = self._build()
        return view

    def _build(self) -> _View:
        declared = self._manifest_entries()
        snapshot = self._declared[0] if self._declared else Snapshot()
        found = {key: entry for key, entry in declared.items() if key not in self._removed}
        for key, registration in self._registered.items():
            owner = snapshot.plugins.get(registration.entry.plugin)
            if owner is not None and owner.state in ("disabled", "incompatible"):
                continue
            if key not in found or registration.replaces:
                found[key] = registration.entry
        entries = {key: found[key] for key in sorted(found)}
        aliases: dict[str, str] = {}
        short: dict[str, list[str]] = {}
        for key, entry in entries.items():
            for name in dict.fromkeys((entry.name, *aliases_of(entry.name, entry.info))):
                other = f"{entry.plugin}/{name}"
                if name == entry.name or (other not in entries and aliases.setdefault(other, key) == key):
                    short.setdefault(name, []).append(key)
        return _View(snapshot, entries, aliases, short)

    def _manifest_entries(self) -> dict[str, Entry]:
        if not self._from_manifests:
            return {}
        snapshot = manager.current_snapshot()
        if self._declared is None or self._declared[0] is not snapshot:
            entries = {
                entry.id: entry
                for name, manifest in snapshot.manifests.items()
                for entry in _from_manifest(self.kind, snapshot.plugins[name], manifest)
            }
            self._declared = snapshot, entries
        return self._declared[1]

    def _restore(self, key: str, previous: _Registration | None) -> None:
        with self._lock:
            if previous is None:
                self._registered.pop(key, None)
            else:
                self._registered[key] = previous
            self._view = None

    def _forget(self, plugin: str | None) -> None:
        with self._lock:
            for key, registration in list(self._registered.items()):
                if registration.hook is not None and plugin in (None, registration.hook):
                    del self._registered[key]
            self._view = None


def _from_manifest(kind: str, plugin: Plugin, manifest: dict[str, Any]) -> Iterator[Entry]:
    for record in manifest.get(kind, ()):
        if kind == "weights":
            name, target = f"{record['model']}:{record['name']}", f"{record['enum']}.{record['name']}"
        else:
            name, target = record["name"], record["target"]
        yield Entry(kind, plugin.name, name, target, record, plugin.origin)


def _reloaded(before: object, now: object) -> bool:
    """Whether a registered object comes again as another one, as after the reload of its module."""
    return not isinstance(before, str) and not isinstance(now, str) and before is not now


def by_kind() -> dict[str, Registry]:
    """The four registries of the suite, by kind."""
    return {registry.kind: registry for registry in (MODELS, WEIGHTS, DATASETS, TENSOR_TYPES)}


def forget_dynamic(plugin: str | None = None) -> None:
    """Drop what the hooks of one plugin, or of all, registered at run time."""
    for registry in by_kind().values():
        registry._forget(plugin)


MODELS = Registry("models", from_manifests=True)
WEIGHTS = Registry("weights", from_manifests=True)
DATASETS = Registry("datasets", from_manifests=True)
TENSOR_TYPES = Registry("tensor_types", from_manifests=True)
