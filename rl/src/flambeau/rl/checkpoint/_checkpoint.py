"""`Checkpoint`: what makes up an experiment, in one folder or file that is whole or not there."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import uuid
import warnings
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal
from urllib.parse import quote

from flambeau.core.folders import recover_folder, replaced_folder
from flambeau.rl.checkpoint._adapters import (
    CheckpointAdapter,
    DumpLoadCheckpointAdapter,
    JSONCheckpointAdapter,
    StateDictCheckpointAdapter,
    fitting,
    is_json,
)
from flambeau.rl.checkpoint._manifest import MANIFEST, check_record, compared, opened, text_of, versions_now
from flambeau.rl.checkpoint._results import CheckpointError, CheckpointLoadResult, CheckpointOptions

__all__ = [
    "Checkpoint",
    "CheckpointFormat",
    "CheckpointStrictness",
]

CheckpointFormat = Literal["directory", "archive"]
CheckpointStrictness = Literal["error", "warn", "ignore"]

_FORMAT = "torchrl.checkpoint"
_VERSION = 1
_FORMATS = ("directory", "archive")
_STRICT = ("error", "warn", "ignore")


@dataclass
class _Component:
    value: Any
    adapter: CheckpointAdapter | None
    options: CheckpointOptions


class Checkpoint:
    """Writes named components to one folder or file, and restores all of them or some.

    A component has `state_dict` and `load_state_dict`, or `dump` and `load`, or is a value that JSON takes. What is at
    the path is the checkpoint before or the new one, also when the process is killed while it writes. Restoring runs no
    code out of a checkpoint.

    Args:
        format: "directory", or "archive": one zip file.
        strict: what to do where components cannot be restored: "error", "warn" or "ignore".
        archive_compression: of archives: "stored" or "deflate".
        save_components: names of those that are written; default: all.
        components: components by name.

    Raises:
        ValueError: an option or a name is not possible.

    Example:
        >>> source, target = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Checkpoint(policy=source, step=3).save(f"{folder}/checkpoint")
        ...     result = Checkpoint(policy=target, step=0).load(path)
        >>> sorted(result.loaded), result.values["step"], bool((source.weight == target.weight).all())
        (['policy', 'step'], 3, True)
    """

    _migrations: ClassVar[dict[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {}

    def __init__(
        self,
        *,
        format: CheckpointFormat = "directory",
        strict: CheckpointStrictness = "error",
        archive_compression: Literal["stored", "deflate"] = "stored",
        save_components: Collection[str] | None = None,
        **components: Any,
    ) -> None:
        _one_of("format", format, _FORMATS)
        _one_of("strict", strict, _STRICT)
        _one_of("archive_compression", archive_compression, ("stored", "deflate"))
        self.format = format
        self.strict = strict
        self.archive_compression = archive_compression
        self.save_components = None if save_components is None else set(save_components)
        self._components: dict[str, _Component] = {}
        self._adapters: dict[type, CheckpointAdapter] = {}
        for name, component in components.items():
            self.register(name, component)

    # Components

    @property
    def components(self) -> Mapping[str, Any]:
        """Components by name; it cannot be changed."""
        return MappingProxyType({name: each.value for name, each in self._components.items()})

    def __contains__(self, name: str) -> bool:
        return name in self._components

    def register(
        self,
        name: str,
        component: Any,
        *,
        adapter: CheckpointAdapter | None = None,
        options: CheckpointOptions | None = None,
    ) -> Checkpoint:
        """Add a component, and return the checkpoint.

        Args:
            name: its name.
            component: what is written and restored.
            adapter: how; default: as the component's type is registered, or as its methods say.
            options: arguments of these methods.

        Raises:
            KeyError: the name is taken.
            ValueError: it is empty, or has a separator of paths.
        """
        given: Any = name
        if not isinstance(given, str) or not given:
            raise ValueError(f"A component's name is a text that is not empty; got {name!r}.")
        if "/" in name or "\\" in name:
            raise ValueError(f"A component's name has no separators of paths; got {name!r}.")
        if name in self._components:
            raise KeyError(f"there is a component {name!r} already; give another name.")
        self._components[name] = _Component(component, adapter, options or CheckpointOptions())
        return self

    def register_adapter(self, component_type: type, adapter: CheckpointAdapter) -> Checkpoint:
        """Say how components of a type are written, and return the checkpoint.

        Args:
            component_type: the type, and those below it.
            adapter: how.
        """
        self._adapters[component_type] = adapter
        return self

    def _adapter_of(self, component: _Component) -> CheckpointAdapter:
        if component.adapter is not None:
            return component.adapter
        for kind in type(component.value).__mro__:
            if kind in self._adapters:
                return self._adapters[kind]
        return fitting(component.value)

    def _chosen(self, names: Collection[str] | None) -> set[str]:
        chosen = set(self._components) if names is None else set(names)
        if unknown := sorted(chosen - set(self._components)):
            raise KeyError(f"no components {unknown} were registered; there are {sorted(self._components)}.")
        return chosen

    # Writing

    def save(
        self,
        path: str | Path,
        *,
        components: Collection[str] | None = None,
        component_options: Mapping[str, CheckpointOptions] | None = None,
        format: CheckpointFormat | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write components.

        Args:
            path: the folder or file; a checkpoint that is there is replaced.
            components: names of those that are written; default: as the checkpoint was made.
            component_options: options by name, over those registered.
            format: "directory" or "archive"; default: as the checkpoint was made.
            metadata: what JSON takes, kept with the checkpoint.

        Returns:
            The path.

        Raises:
            FileExistsError: a folder is there that is no checkpoint, and holds something.
            KeyError: a component is not registered.
            TypeError: one cannot be written, or JSON does not take the metadata.
        """
        form = self.format if format is None else format
        _one_of("format", form, _FORMATS)
        described = dict(metadata or {})
        if not is_json(described):
            raise TypeError("metadata of a checkpoint must be what JSON takes: numbers, texts, lists and dictionaries.")
        chosen = self._chosen(self.save_components if components is None else components)
        target = Path(path).expanduser().absolute()
        if target.is_dir() and any(target.iterdir()) and not self.is_checkpoint(target):
            raise FileExistsError(f"{target} is a folder with other things in it; save to another path, or empty it.")
        if form == "directory":
            if target.is_file():
                target.unlink()
            with replaced_folder(target) as folder:
                self._write(folder, chosen, component_options or {}, described, form)
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
            content = Path(folder) / "content"
            content.mkdir()
            self._write(content, chosen, component_options or {}, described, form)
            packed = Path(folder) / "packed"
            self._pack(content, packed)
            if target.is_dir():
                shutil.rmtree(target)
            packed.replace(target)
        return target

    def _write(
        self,
        folder: Path,
        chosen: set[str],
        options: Mapping[str, CheckpointOptions],
        metadata: dict[str, Any],
        form: str,
    ) -> None:
        records = {}
        for index, name in enumerate(sorted(chosen)):
            component = self._components[name]
            adapter = self._adapter_of(component)
            merged = component.options.merged(options.get(name))
            place = f"components/{index:04d}-{quote(name, safe='')}"
            inner = folder / place
            inner.mkdir(parents=True)
            adapter.save(component.value, inner, args=merged.save_args or (), kwargs=merged.save_kwargs or {})
            files = sorted((file for file in inner.rglob("*") if file.is_file()), key=Path.as_posix)
            records[name] = {
                "adapter": adapter.adapter_id,
                "adapter_version": adapter.format_version,
                "files": [file.relative_to(inner).as_posix() for file in files],
                "path": place,
                "sizes": [file.stat().st_size for file in files],
            }
        manifest = {
            "checkpoint_id": uuid.uuid4().hex,
            "components": records,
            "container": form,
            "created_at": datetime.now(UTC).isoformat(),
            "format": _FORMAT,
            "format_version": _VERSION,
            "metadata": metadata,
            "versions": versions_now(),
        }
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")

    def _pack(self, content: Path, target: Path) -> None:
        kind = zipfile.ZIP_STORED if self.archive_compression == "stored" else zipfile.ZIP_DEFLATED
        with target.open("wb") as file:
            with zipfile.ZipFile(file, "w", compression=kind, allowZip64=True) as archive:
                for each in sorted(path for path in content.rglob("*") if path.is_file()):
                    archive.write(each, each.relative_to(content).as_posix())
            file.flush()
            os.fsync(file.fileno())

    # Reading

    def load(
        self,
        path: str | Path,
        *,
        components: Collection[str] | None = None,
        component_options: Mapping[str, CheckpointOptions] | None = None,
        map_location: Any = None,
        tensor_load_kwargs: Mapping[str, Any] | None = None,
        strict: CheckpointStrictness | None = None,
    ) -> CheckpointLoadResult:
        """Restore components.

        Args:
            path: the folder or file.
            components: names of those that are restored; default: all that are registered.
            component_options: options by name, over those registered.
            map_location: device that tensors are brought to.
            tensor_load_kwargs: for `torch.load`, of states that were written in its format.
            strict: what to do where components cannot be restored; default: as the checkpoint was made.

        Returns:
            What was restored and what not.

        Raises:
            FileNotFoundError: there is no checkpoint.
            CheckpointError: it is damaged, or, with strict="error", not all could be restored.
        """
        strictness = self.strict if strict is None else strict
        _one_of("strict", strictness, _STRICT)
        chosen = self._chosen(components)
        manifest = self.manifest(path)
        records = manifest["components"]
        result = CheckpointLoadResult(manifest=manifest, comparison=compared(manifest.get("versions", {})))
        result.missing = chosen - set(records)
        result.unrequested = set(records) - chosen
        if result.missing and strictness == "error":
            raise CheckpointError(
                f"{path} has no components {sorted(result.missing)}; it has {sorted(records)}.", result
            )
        with opened(Path(path).expanduser(), records) as folder:
            for name in sorted(chosen & set(records)):
                try:
                    self._restore(
                        name, records[name], folder, component_options or {}, map_location, tensor_load_kwargs, result
                    )
                except Exception as error:  # whatever a component says to a state that is not its own
                    result.incompatible[name] = str(error)
                    if strictness == "error":
                        raise CheckpointError(f"component {name!r} cannot be restored: {error}", result) from error
        if strictness == "warn" and (result.missing or result.incompatible):
            warnings.warn(
                f"{path} was restored in part: missing {sorted(result.missing)}, did not fit {result.incompatible}.",
                stacklevel=2,
            )
        return result

    def _restore(
        self,
        name: str,
        record: dict[str, Any],
        folder: Path,
        options: Mapping[str, CheckpointOptions],
        map_location: Any,
        tensor_load_kwargs: Mapping[str, Any] | None,
        result: CheckpointLoadResult,
    ) -> None:
        component = self._components[name]
        adapter = self._reader(component, record)
        merged = component.options.merged(options.get(name))
        inner = folder / record["path"]
        for file, size in zip(record["files"], record.get("sizes", ()), strict=False):
            found = (inner / file).stat().st_size if (inner / file).is_file() else 0
            if found != size:
                raise ValueError(f"{inner / file} has {found} bytes, expected {size}: the checkpoint is damaged")
        value = adapter.load(
            component.value,
            inner,
            map_location=map_location,
            tensor_load_kwargs=tensor_load_kwargs or {},
            args=merged.load_args or (),
            kwargs=merged.load_kwargs or {},
        )
        if value is not None or isinstance(adapter, JSONCheckpointAdapter):
            result.values[name] = value
        result.loaded.add(name)

    def _reader(self, component: _Component, record: dict[str, Any]) -> CheckpointAdapter:
        """The adapter that wrote a component; one of ours, where the component's own is another."""
        own = self._adapter_of(component)
        if own.adapter_id != record["adapter"]:
            written = {each.adapter_id: each for each in _OURS}
            if record["adapter"] not in written:
                raise ValueError(
                    f"it was written by {record['adapter']!r}, not {own.adapter_id!r}; register it with that adapter="
                )
            own = written[record["adapter"]]()
        if record.get("adapter_version", 1) > own.format_version:
            raise ValueError(f"it was written by a newer version of {own.adapter_id!r}; update flambeau-rl")
        return own

    # Descriptions

    @classmethod
    def is_checkpoint(cls, path: str | Path) -> bool:
        """Whether there is a checkpoint at a path."""
        try:
            cls.manifest(path)
        except (OSError, CheckpointError):
            return False
        return True

    @classmethod
    def manifest(cls, path: str | Path) -> dict[str, Any]:
        """The description of itself that a checkpoint has; none of its components is read.

        Raises:
            FileNotFoundError: there is no checkpoint.
            CheckpointError: the description is damaged, or of a version that is not known.
        """
        place = Path(path).expanduser()
        recover_folder(place)
        if not place.exists():
            raise FileNotFoundError(f"there is no checkpoint {place}; check the path.")
        try:
            manifest = json.loads(text_of(place))
        except (ValueError, KeyError, zipfile.BadZipFile) as error:
            raise CheckpointError(f"{place} is no checkpoint, or damaged: {error}.") from error
        if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
            raise CheckpointError(f"{place} is no checkpoint: its {MANIFEST} says nothing of {_FORMAT}.")
        manifest = cls._migrated(manifest, place)
        if not isinstance(manifest.get("components"), dict):
            raise CheckpointError(f"{place} is damaged: its {MANIFEST} lists no components.")
        for name, record in manifest["components"].items():
            check_record(place, name, record)
        return manifest

    @classmethod
    def _migrated(cls, manifest: dict[str, Any], place: Path) -> dict[str, Any]:
        version = manifest.get("format_version")
        while version != _VERSION:
            if version not in cls._migrations:
                raise CheckpointError(
                    f"{place} has format {version!r}; this release reads {_VERSION}. Update flambeau-rl."
                )
            manifest = cls._migrations[version](dict(manifest))
            if manifest.get("format_version") != version + 1:
                raise CheckpointError(f"the migration from format {version} did not give format {version + 1}.")
            version += 1
        return manifest

    @classmethod
    def register_migration(cls, from_version: int, migration: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Say how a description of one format becomes one of the next.

        Args:
            from_version: the version it takes.
            migration: takes and returns a description, with the next "format_version".

        Raises:
            ValueError: there is one already.
        """
        if from_version in cls._migrations:
            raise ValueError(f"there is a migration from format {from_version} already.")
        cls._migrations[from_version] = migration


_OURS = (StateDictCheckpointAdapter, DumpLoadCheckpointAdapter, JSONCheckpointAdapter)


def _one_of(name: str, value: Any, possible: tuple[str, ...]) -> None:
    if value not in possible:
        raise ValueError(f"{name} must be one of {', '.join(possible)}; got {value!r}.")
