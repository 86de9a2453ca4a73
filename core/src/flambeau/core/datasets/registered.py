"""Datasets by name: registering, listing, building, fetching."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from flambeau.core.datasets import acquire, presence
from flambeau.core.datasets.info import DatasetInfo
from flambeau.core.errors import RegistryError
from flambeau.core.registry import DATASETS

_Target = TypeVar("_Target", bound=Callable[..., Any])


def register_dataset(
    name: str | None = None, *, info: DatasetInfo | None = None, plugin: str | None = None, **facts: Any
) -> Callable[[_Target], _Target]:
    """Register the decorated class or function as a dataset.

    Args:
        name: name within the plugin; by default the one in `info`, else the target's own.
        info: the facts. They may be given as keywords in its stead: `register_dataset("toy", splits=("train",))`.
        plugin: the plugin it belongs to; found from the target's module when left out.
        **facts: fields of `DatasetInfo`.

    Returns:
        A decorator that returns its target. A class without a `schema` of its own gets the one of `info`.

    Raises:
        TypeError: both `info` and facts were given, or a fact `DatasetInfo` does not have.
        DuplicateNameError: another target has this name in the plugin; raised by the decorator.

    Example:
        >>> @register_dataset("squares", plugin="doc", schema=[{"key": "number", "kind": "int"}])
        ... class Squares:
        ...     def __len__(self):
        ...         return 3
        ...     def __getitem__(self, index):
        ...         return range(3)[index] ** 2
        >>> get_dataset("doc/squares")[2]
        4
    """
    if info is not None and facts:
        raise TypeError(f"register_dataset takes `info` or single facts, not both; got info and {sorted(facts)}.")

    def decorate(target: _Target) -> _Target:
        chosen = name or (info.name if info else target.__name__)
        known = info or DatasetInfo(name=chosen, **facts)
        DATASETS.register(chosen, target, plugin=plugin, info={**known.record(), "name": chosen})
        if inspect.isclass(target) and not hasattr(target, "schema"):
            target.schema = known.schema  # type: ignore[attr-defined]  # a class attribute of the user's class
        return target

    return decorate


def list_datasets(*, plugin: str | None = None, task: str | None = None) -> list[str]:
    """Canonical ids (`plugin/name`) of all datasets, sorted; imports no plugin.

    Args:
        plugin: only those of this plugin.
        task: only those for this task, such as "image-classification".
    """
    entries = DATASETS.entries(plugin=plugin)
    return sorted(entry.id for entry in entries if task is None or (entry.info or {}).get("task") == task)


def get_dataset(name: str, **config: Any) -> Any:
    """Build a dataset by name.

    Args:
        name: canonical id, or the short name where only one plugin has it.
        **config: passed on to the dataset, usually `root`, `split`, `transform`, `download`. A dataset that calls its
            splits otherwise says so by a class attribute: `split_argument = "subset"`.

    Raises:
        UnknownNameError, AmbiguousNameError: from the registry.
        TypeError: the dataset does not take this configuration; the message shows what it takes.
        DatasetMissingError: its files are not below `root`, and `download=True` was not given.

    Example:
        `get_dataset("vision/cifar10", root="data", train=False, download=True)`
    """
    target = DATASETS.resolve(name)
    signature = inspect.signature(target)
    own = getattr(target, "split_argument", None)
    if own is not None and "split" in config and own not in config and "split" not in signature.parameters:
        config[own] = config.pop("split")
    try:
        signature.bind(**config)
    except TypeError as error:
        raise TypeError(f"dataset {name!r}: {error}; it takes {signature}.") from error
    return target(**config)


def get_dataset_info(name: str) -> DatasetInfo:
    """The facts of a dataset, from its manifest; imports no plugin.

    Raises:
        UnknownNameError, AmbiguousNameError: from the registry.
        RegistryError: what its plugin's manifest says cannot be used.
    """
    entry = DATASETS.entry(name)
    try:
        return DatasetInfo.from_record(entry.info)
    except (TypeError, ValueError) as error:
        raise RegistryError(f"the record of dataset {entry.id} of {entry.origin} cannot be used: {error}") from error


def fetch_dataset(
    name: str | DatasetInfo,
    root: str | Path | None = None,
    *,
    extract: bool = True,
    splits: Iterable[str] | None = None,
) -> Path:
    """Bring a dataset's files into place: fetched, verified, unpacked.

    Files that are there and intact are kept, so that a second call does nothing and needs no network. A damaged file
    is replaced, with a `HubWarning`. Every address of a file is tried in order.

    Args:
        name: canonical id or short name, or the facts themselves.
        root: folder to work in; a folder of the dataset's own in the cache when None.
        extract: unpack archives. False leaves them packed, for readers that stream from them.
        splits: only the files these splits need; all when None.

    Returns:
        The root.

    Raises:
        GatedError: the owner gives files out only by hand or after registration. The message lists each missing file
            with size, digest and folder; once they are placed, the same call verifies and unpacks them.
        DownloadError: no address delivered a file; also as `HashMismatchError`, `OfflineError`, `DiskFullError`.
        UnsafeArchiveError: an archive that would leave its folder.
        ValueError: a split the dataset does not have.
    """
    info, folder = _located(name, root)
    acquire.fetch(info, folder, extract=extract, splits=splits)
    return folder


def prepare_dataset(
    name: str | DatasetInfo, root: str | Path | None = None, *, download: bool, splits: Iterable[str] | None = None
) -> Path:
    """What a dataset's constructor calls first: make sure that its files are there, or say how to get them.

    Args:
        name: canonical id or short name, or the facts themselves.
        root: folder to look in; a folder of the dataset's own in the cache when None.
        download: fetch what is missing. False never opens a socket; archives that are there are unpacked.
        splits: only the files these splits need; all when None.

    Returns:
        The root.

    Raises:
        DatasetMissingError: `download` is False and a file is missing or damaged.
        GatedError, DownloadError, UnsafeArchiveError, ValueError: as `fetch_dataset`.
    """
    info, folder = _located(name, root)
    if download:
        acquire.fetch(info, folder, extract=True, splits=splits)
    else:
        acquire.require(info, folder, splits=splits)
    return folder


def verify_dataset(
    name: str | DatasetInfo, root: str | Path | None = None, *, splits: Iterable[str] | None = None
) -> list[presence.FileStatus]:
    """The state of each of a dataset's files below `root`, hashed where it has changed since it was last verified."""
    info, folder = _located(name, root)
    return presence.statuses(info, folder, splits=splits)


_stand_ins: list[DatasetInfo] = []


@contextlib.contextmanager
def stand_in(facts: DatasetInfo) -> Iterator[None]:
    """While it lasts, let other facts stand for those of the dataset of this name wherever files are looked at.

    A test puts a miniature of the dataset below the root, whose sizes and digests are its own. Names, splits and what
    `get_dataset_info` says stay as they are.
    """
    _stand_ins.append(facts)
    try:
        yield
    finally:
        _stand_ins.remove(facts)


def _located(name: str | DatasetInfo, root: str | Path | None) -> tuple[DatasetInfo, Path]:
    info = name if isinstance(name, DatasetInfo) else get_dataset_info(name)
    info = next((facts for facts in reversed(_stand_ins) if facts.name == info.name), info)
    if root is not None:
        return info, Path(root).expanduser()
    from flambeau.core.hub.cache import cache_dir

    owner = [] if isinstance(name, DatasetInfo) else [DATASETS.entry(name).plugin]
    return info, cache_dir("datasets", *owner, info.name)
