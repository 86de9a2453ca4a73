"""Where models come from: names of registered weights, and archives in the store."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flambeau.core.errors import FlambeauError
from flambeau.core.hub.cache import cache_dir
from flambeau.core.naming import names_of
from flambeau.core.registry import WEIGHTS
from flambeau.serve.archives.reading import open_archive, settings_of
from flambeau.serve.engine.models import NAME
from flambeau.serve.engine.settings import VersionSettings
from flambeau.serve.errors import ArchiveError, BadRequest, NotFound, StartError

__all__ = ["Source", "Sources"]


@dataclass(frozen=True)
class Source:
    """A model that can be registered.

    Attributes:
        name, version: under which it is registered.
        url: as it was asked for.
        spec: what workers load.
        settings: how it is run, where the request says nothing else.
        workers: how many to start, where the request says nothing else.
        facts: what is told of where it comes from.
        order: how its workers are started, beyond what all are.
    """

    name: str
    version: str
    url: str
    spec: dict[str, Any]
    settings: VersionSettings
    workers: int
    facts: dict[str, Any]
    order: dict[str, Any] = field(default_factory=dict)

    def settings_with(self, given: dict[str, Any], workers: int) -> VersionSettings:
        """The settings, with what a registration asks for; numbers that are none count as not given."""
        found: dict[str, Any] = {"min_workers": workers, "max_workers": max(workers, self.settings.max_workers)}
        for key, name, least in (
            ("batch_size", "batch_size", 1),
            ("max_batch_delay", "max_batch_delay_ms", 0),
            ("response_timeout", "response_timeout", 1),
            ("startup_timeout", "startup_timeout", 1),
        ):
            text = str(given.get(key, "")).strip()
            if re.fullmatch(r"\d{1,9}", text):
                found[name] = max(least, int(text))
        return replace(self.settings, **found)


class Sources:
    """Finds models by what users and clients name.

    Args:
        settings: how models are run by default.
        workers: how many each gets by default.
        device, dtype: of registered weights.
        store: folder of archives; None for none.
        by_name: whether clients of the management API may name registered weights.
        decode_input: whether JSON and text are decoded for handlers.
    """

    def __init__(
        self,
        settings: VersionSettings,
        *,
        workers: int = 1,
        device: str = "cpu",
        dtype: str | None = None,
        store: Path | None = None,
        by_name: bool = True,
        decode_input: bool = True,
    ) -> None:
        self._settings = settings
        self._workers = workers
        self._device = device
        self._dtype = dtype
        self._store = store
        self._by_name = by_name
        self._decode_input = decode_input
        self._cache = cache_dir() / "serve"

    async def resolve(self, given: dict[str, Any]) -> Source:
        """What a registration asks for: `url`, and `model_name` for another name.

        Raises:
            BadRequest: no url.
            NotFound: there is no such thing, or it may not be loaded.
        """
        url = given.get("url")
        if url is None:
            raise BadRequest("Parameter url is required.")
        url = str(url)
        if not url.strip():
            raise NotFound("empty url")
        if url.startswith("weights:") and self._by_name:
            try:
                return self.weights(url.removeprefix("weights:"), alias=given.get("model_name"), url=url)
            except StartError as error:
                raise NotFound(f"Model not found at: {url}") from error
        return await asyncio.to_thread(self.archive, url, given)

    def archive(self, url: str, given: dict[str, Any]) -> Source:
        """An archive of the store.

        Args:
            url: the name of a file or folder that lies directly in the store.
            given: `model_name` and `handler`, where they are to be others than the archive's.

        Raises:
            NotFound: there is no such archive, or the name leads elsewhere.
            BadRequest: it cannot be used.
        """
        if ".." in url:
            raise NotFound(f"Relative path is not allowed in url: {url}")
        if "://" in url:
            raise NotFound(f"Given URL {url} does not match any allowed URL(s)")
        path = None if self._store is None else self._store / url
        if path is None or "/" in url or "\\" in url or "\0" in url or not path.exists() or path.is_symlink():
            raise NotFound(f"Model not found at: {url}")
        try:
            found = open_archive(path, self._cache)
            settings, workers = settings_of(found, self._settings)
        except ArchiveError as error:
            raise BadRequest(str(error), name="InvalidModelException") from error
        name = str(given.get("model_name") or found.name or path.name.partition(".")[0])
        handler = str(given.get("handler") or found.handler)
        spec = {
            "kind": "archive", "name": name, "folder": str(found.folder), "manifest": found.manifest,
            "handler": handler, "config": found.config, "batch_size": settings.batch_size, "device": self._device,
            "envelope": found.manifest["model"].get("envelope") or None, "decode_input": self._decode_input,
        }  # fmt: skip
        return Source(
            name=name,
            version=found.version,
            url=url,
            spec=spec,
            settings=settings,
            workers=self._workers if workers is None else workers,
            facts={"archive": url, "sha256": found.digest},
        )

    def weights(self, name: str, *, alias: str | None = None, url: str | None = None) -> Source:
        """Registered weights by any of their names; imports no plugin.

        Args:
            name: as `flambeau predict --weights` takes it; a model's name means its default weights.
            alias: the name to serve it under, instead of the model's.
            url: as it was asked for.

        Raises:
            StartError: there are no such weights, or the name is ambiguous; the message has close names.
        """
        try:
            found = [entry for entry in WEIGHTS.entries() if name in names_of(entry)]
            if not found and ":" not in name:
                found = [entry for entry in WEIGHTS.entries() if f"{name}:DEFAULT" in names_of(entry)]
            entry = found[0] if len(found) == 1 else WEIGHTS.entry(name)
        except FlambeauError as error:
            raise StartError(str(error)) from error
        model = alias or entry.id.rpartition(":")[0].rpartition("/")[2]
        if not NAME.fullmatch(model):
            raise StartError(f"{model!r} cannot be a model's name in an address; give another: alias={name}.")
        return Source(
            name=model,
            version="1.0",
            url=url or f"weights:{entry.id}",
            spec={"kind": "weights", "weights": entry.id, "device": self._device, "dtype": self._dtype},
            settings=self._settings,
            workers=self._workers,
            facts={"weights": entry.id, "sha256": entry.info.get("sha256")},
        )
