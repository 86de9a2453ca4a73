"""Where models come from: names of registered weights, and archives in the store."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flambeau.core.errors import FlambeauError
from flambeau.core.naming import names_of
from flambeau.core.registry import WEIGHTS
from flambeau.serve.engine.models import NAME
from flambeau.serve.engine.settings import VersionSettings
from flambeau.serve.errors import BadRequest, NotFound, StartError

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
    ) -> None:
        self._settings = settings
        self._workers = workers
        self._device = device
        self._dtype = dtype
        self._store = store
        self._by_name = by_name

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
        if ".." in url:
            raise NotFound(f"Relative path is not allowed in url: {url}")
        raise NotFound(f"Model not found at: {url}")

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
