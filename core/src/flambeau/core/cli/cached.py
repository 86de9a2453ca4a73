"""The files of weights records: where they are, whether they are there, fetching and removing them.

Listings ask about every record, so that nothing is imported, read or hashed here before it has to be.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flambeau.core.environment import home, overridden
from flambeau.core.errors import DownloadError

if TYPE_CHECKING:
    from flambeau.core.weights.facts import Weights


def weights_of(record: Mapping[str, Any]) -> Weights:
    """The facts that a record states, as fetching takes them; without preprocessing.

    Raises:
        DownloadError: it has no address, as one that a hook registered may.
    """
    from flambeau.core.weights.facts import Weights

    if "url" not in record:
        raise DownloadError("its record states no address, so that there is no file to look for.")
    return Weights(
        record["url"],
        dict,
        dict(record.get("meta", {})),
        sha256=record.get("sha256"),
        size=record.get("size"),
        mirrors=tuple(record.get("mirrors", ())),
    )


def anything_fetched() -> bool:
    """Whether there is a folder of fetched files at all."""
    return os.path.isdir(home() / "files")  # noqa: PTH112  # a folder that may not be looked into holds nothing


def cached_path(record: Mapping[str, Any], *, fetched: bool | None = None) -> Path | None:
    """The record's file, if it is here.

    Args:
        record: a weights record of a manifest.
        fetched: what `anything_fetched` says, where many records are asked about.
    """
    url = record.get("url")
    if url is None:
        return None
    if url.startswith("package:"):
        from flambeau.core.hub import embedded

        return embedded.find(url)
    if url.startswith("hf://"):
        from flambeau.core.hub import huggingface

        return huggingface.find(url)
    if not (anything_fetched() if fetched is None else fetched):
        return None
    from flambeau.core.hub import cache
    from flambeau.core.weights.files import expected_sha256

    path = cache.final_path(url, cache.Expected.of(expected_sha256(weights_of(record)), None), None, None)
    return path if os.path.isfile(path) else None  # noqa: PTH113


def fetch(record: Mapping[str, Any], *, offline: bool = False) -> Path:
    """Fetch and verify the record's file.

    Raises:
        DownloadError: it could not be fetched or verified; `OfflineError` says where to put it by hand.
    """
    from flambeau.core.weights.files import fetch_weights

    with overridden("FLAMBEAU_OFFLINE", "1") if offline else contextlib.nullcontext():
        return fetch_weights(weights_of(record))


def verify(record: Mapping[str, Any], path: Path) -> None:
    """Read the whole file and compare it with the record.

    Raises:
        HashMismatchError: with what is expected and what is there.
    """
    from flambeau.core.hub import cache
    from flambeau.core.weights.files import expected_sha256

    cache.verify(path, sha256=expected_sha256(weights_of(record)), size=record.get("size"))


def forget(record: Mapping[str, Any]) -> int:
    """Remove the record's file from the cache, with its sidecar; returns the bytes freed.

    Files inside an installed package or in another library's cache stay.
    """
    from flambeau.core.hub import cache

    path = cached_path(record)
    if path is None or path.parent != cache.cache_dir("files"):
        return 0
    files = [file for file in (path, cache.sidecar(path)) if file.exists()]
    freed = sum(cache.disk_size(file) for file in files)
    for file in files:
        file.unlink()
    return freed
