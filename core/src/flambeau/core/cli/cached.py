"""The files of weights records: where they are, whether they are there, fetching and removing them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flambeau.core.environment import overridden
from flambeau.core.hub import cache, embedded, huggingface
from flambeau.core.weights.enums import Weights
from flambeau.core.weights.sources import expected_sha256, fetch_weights


def weights_of(record: Mapping[str, Any]) -> Weights:
    """The facts that a manifest's record states, as fetching takes them; without preprocessing."""
    return Weights(
        record["url"],
        dict,
        dict(record.get("meta", {})),
        sha256=record.get("sha256"),
        size=record.get("size"),
        mirrors=tuple(record.get("mirrors", ())),
    )


def cached_path(record: Mapping[str, Any]) -> Path | None:
    """The record's file, if it is here. Nothing is read or hashed, so that long listings are quick."""
    url = record["url"]
    if embedded.is_embedded(url):
        return embedded.find(url)
    if huggingface.is_hugging_face(url):
        return huggingface.find(url)
    path = cache.final_path(url, cache.Expected.of(expected_sha256(weights_of(record)), None), None, None)
    return path if path.is_file() else None


def fetch(record: Mapping[str, Any], *, offline: bool = False) -> Path:
    """Fetch and verify the record's file.

    Raises:
        DownloadError: it could not be fetched or verified; `OfflineError` says where to put it by hand.
    """
    with overridden("FLAMBEAU_OFFLINE", "1") if offline else contextlib.nullcontext():
        return fetch_weights(weights_of(record))


def verify(record: Mapping[str, Any], path: Path) -> None:
    """Read the whole file and compare it with the record.

    Raises:
        HashMismatchError: with what is expected and what is there.
    """
    cache.verify(path, sha256=expected_sha256(weights_of(record)), size=record.get("size"))


def forget(record: Mapping[str, Any]) -> int:
    """Remove the record's file from the cache, with its sidecar; returns the bytes freed.

    Files inside an installed package or in another library's cache stay.
    """
    path = cached_path(record)
    if path is None or path.parent != cache.cache_dir("files"):
        return 0
    files = [file for file in (path, cache.sidecar(path)) if file.exists()]
    freed = sum(cache.disk_size(file) for file in files)
    for file in files:
        file.unlink()
    return freed
