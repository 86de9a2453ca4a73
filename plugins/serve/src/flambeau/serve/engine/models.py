"""The models of a server, by name and version."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from flambeau.serve.engine.observer import Observer
from flambeau.serve.engine.parent import ParentProcess
from flambeau.serve.engine.pool import Pool
from flambeau.serve.engine.settings import VersionSettings
from flambeau.serve.errors import BadRequest, Conflict, NotFound, StartError, VersionRefused

__all__ = ["Model", "Models", "Version"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
# Healthy no more once a default version has lacked workers for so long.
UNHEALTHY_AFTER_S = 300.0


class Version:
    """One version of a model.

    Args:
        pool: its requests and workers.
        url: what it was registered from, as the client named it.
        source: what it is made of: `weights`, or the archive's hash.
        at_start: whether it was there when the server started.
    """

    def __init__(self, pool: Pool, url: str, source: dict[str, Any], *, at_start: bool) -> None:
        self.pool = pool
        self.url = url
        self.source = source
        self.at_start = at_start

    @property
    def name(self) -> str:
        """Of the version."""
        return self.pool.version

    @property
    def is_ready(self) -> bool:
        """Whether a request would be answered now."""
        return self.pool.live > 0


class Model:
    """The versions of one name; requests that name none go to the default."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.versions: dict[str, Version] = {}
        self.default = ""


class Models:
    """All models of a server. Changes of one name wait for each other.

    Args:
        observer: told what happens.
        preload: modules that workers' parent imports.
        threads: that all workers of this machine share; by default its cores.
    """

    def __init__(self, observer: Observer, *, preload: tuple[str, ...] = (), threads: int | None = None) -> None:
        self.observer = observer
        self.parent = ParentProcess(preload)
        self._models: dict[str, Model] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._numbers = itertools.count(9000)
        self._threads = threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()

    def __iter__(self) -> Iterator[Model]:
        return iter(sorted(self._models.values(), key=lambda model: model.name))

    def pools(self) -> list[Pool]:
        """Of all versions."""
        return [version.pool for model in self for version in model.versions.values()]

    def model(self, name: str) -> Model:
        """By name.

        Raises:
            NotFound: there is none.
        """
        if name not in self._models:
            raise NotFound(f"Model not found: {name}")
        return self._models[name]

    def version(self, name: str, version: str | None = None) -> Version:
        """A version, the default one where none is named.

        Raises:
            NotFound: there is no such model, or version.
        """
        model = self.model(name)
        chosen = model.default if version is None else version
        if chosen not in model.versions:
            raise NotFound(
                f"Model version: {chosen} does not exist for model: {name}", name="ModelVersionNotFoundException"
            )
        return model.versions[chosen]

    async def register(
        self,
        name: str,
        version: str,
        spec: dict[str, Any],
        settings: VersionSettings,
        *,
        url: str,
        source: dict[str, Any],
        workers: int,
        wait: bool = True,
        at_start: bool = False,
        order: dict[str, Any] | None = None,
    ) -> Version:
        """Add a version; the first one becomes the default.

        Args:
            name: of the model.
            version: of the model.
            spec: what workers load; see `worker.running.opened`.
            settings: how it is run.
            url: see `Version`.
            source: see `Version`.
            at_start: see `Version`.
            workers: how many to start.
            wait: whether to return only when they have loaded.
            order: how workers are started, beyond their threads; see `ParentProcess.spawn`.

        Raises:
            BadRequest: the name, or the version, is none.
            Conflict: it is registered already.
            StartError: a worker could not load it; nothing of it is left.
        """
        for what, text in (("name", name), ("version", version)):
            if not NAME.fullmatch(text):
                raise BadRequest(
                    f"The {what} of a model is {text[:80]!r}; it starts with a letter or digit, and has letters, "
                    "digits, dots, hyphens and underscores, at most 128."
                )
        if version in getattr(self._models.get(name), "versions", {}):
            raise Conflict(f"Model version {version} is already registered for model {name}")
        threads = max(1, int(self._threads or 1) // max(1, workers))
        pool = Pool(
            name, version, spec, {"threads": threads, **(order or {})}, settings, self.parent, self.observer,
            lambda: next(self._numbers),
        )  # fmt: skip
        found = Version(pool, url, source, at_start=at_start)
        model = self._models.setdefault(name, Model(name))
        model.versions[version] = found
        model.default = model.default or version
        pool.scale(workers)
        if wait and workers and (cause := await pool.until_ready()) is not None:
            await self._remove(model, found)
            raise StartError(cause)
        return found

    async def scale(self, name: str, version: str | None, least: int, most: int, *, wait: bool) -> Version:
        """Have `least` workers of a version, or nearest to it what is there up to `most`.

        Raises:
            NotFound: there is no such version.
            StartError: a worker could not load the model.
        """
        found = self.version(name, version)
        pool = found.pool
        async with self._lock(name):
            pool.settings = replace(pool.settings, min_workers=least, max_workers=most)
            count = min(max(len(pool.workers), least), max(most, least))
            tasks = pool.scale(count)
            if wait:
                await asyncio.gather(*tasks)
                if count and (cause := await pool.until_ready()) is not None:
                    raise StartError(cause)
        return found

    def set_default(self, name: str, version: str) -> None:
        """Which version answers requests that name none.

        Raises:
            NotFound: there is no such version.
        """
        self.version(name, version)
        self._models[name].default = version

    async def unregister(self, name: str, version: str | None = None, *, timeout_s: float = 120.0) -> None:
        """Answer what was accepted, then take a version away; the default one by default.

        Raises:
            NotFound: there is no such version.
            VersionRefused: it is the default, and others exist.
        """
        found = self.version(name, version)
        model = self.model(name)
        if found.name == model.default and len(model.versions) > 1:
            raise VersionRefused(f"Cannot remove default version for model {name}")
        async with self._lock(name):
            await self._remove(model, found, timeout_s)

    async def close(self, timeout_s: float = 30.0) -> None:
        """Answer what was accepted, end all workers and their parent."""
        await asyncio.gather(*(pool.close(timeout_s) for pool in self.pools()))
        await self.parent.stop()

    def is_healthy(self) -> bool:
        """Whether no default version has lacked workers for five minutes."""
        for model in self:
            since = model.versions[model.default].pool.lacking_since if model.default in model.versions else None
            if since is not None and time.monotonic() - since > UNHEALTHY_AFTER_S:
                return False
        return True

    def is_ready(self) -> bool:
        """Whether every default version would answer a request now."""
        return all(model.versions[model.default].is_ready for model in self if model.default in model.versions)

    async def _remove(self, model: Model, version: Version, timeout_s: float = 120.0) -> None:
        model.versions.pop(version.name, None)
        if model.default == version.name:
            model.default = next(iter(model.versions), "")
        if not model.versions:
            self._models.pop(model.name, None)
        await version.pool.close(timeout_s)
        self.observer.forget(model.name, version.name)

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())
