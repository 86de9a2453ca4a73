"""Registering, scaling, describing and removing models: TorchServe's management API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson
from starlette.responses import Response
from starlette.routing import Route

from flambeau.serve.errors import BadRequest, MethodRefused, RequestError, StartError
from flambeau.serve.http.answers import json_response
from flambeau.serve.http.bodies import media_type_of, read_body
from flambeau.serve.http.describing import described

if TYPE_CHECKING:
    from starlette.requests import Request

    from flambeau.serve.engine.models import Models
    from flambeau.serve.http.limits import Limits
    from flambeau.serve.sources import Sources

__all__ = ["Management"]

_MOST_LISTED = 100


class Management:
    """The paths that change what is served.

    Args:
        models: what is served.
        sources: where models come from.
        limits: of requests.
        may_change: whether models may be registered and removed (`--enable-model-api`).
    """

    def __init__(self, models: Models, sources: Sources, limits: Limits, *, may_change: bool) -> None:
        self._models = models
        self._sources = sources
        self._limits = limits
        self._may_change = may_change

    def routes(self) -> list[Route]:
        """All paths of the API."""
        return [
            Route("/models", self._list, methods=["GET"]),
            Route("/models", self._register, methods=["POST"]),
            Route("/models/{model}", self._describe, methods=["GET"]),
            Route("/models/{model}", self._scale, methods=["PUT"]),
            Route("/models/{model}", self._unregister, methods=["DELETE"]),
            Route("/models/{model}/all", self._describe_all, methods=["GET"]),
            Route("/models/{model}/{version}", self._describe, methods=["GET"]),
            Route("/models/{model}/{version}", self._scale, methods=["PUT"]),
            Route("/models/{model}/{version}", self._unregister, methods=["DELETE"]),
            Route("/models/{model}/{version}/set-default", self._set_default, methods=["PUT"]),
            Route("/v1/models/{model}", self._kserve, methods=["GET"]),
        ]

    async def _list(self, request: Request) -> Response:
        limit = _integer(request.query_params.get("limit"), _MOST_LISTED)
        start = max(0, _integer(request.query_params.get("next_page_token"), 0))
        if not 0 <= limit <= _MOST_LISTED:
            limit = _MOST_LISTED
        models = list(self._models)
        page: dict[str, Any] = {}
        if start + limit < len(models):
            page["nextPageToken"] = str(start + limit)
        page["models"] = [
            {"modelName": model.name, "modelUrl": model.versions[model.default].url}
            for model in models[start : start + limit]
        ]
        return json_response(page)

    async def _register(self, request: Request) -> Response:
        self._changes()
        given = await self._parameters(request)
        source = await self._sources.resolve(given)
        workers = _integer(given.get("initial_workers"), source.workers)
        if workers < 0:
            raise BadRequest("initial_workers is negative; expected 0 or more.")
        wait = _boolean(given.get("synchronous"), True)
        try:
            version = await self._models.register(
                source.name, source.version, source.spec, source.settings_with(given, workers), url=source.url,
                source=source.facts, workers=workers, wait=wait and workers > 0, order=source.order,
            )  # fmt: skip
        except StartError as error:
            raise RequestError(
                f"Failed to start workers for model {source.name} version: {source.version}. {error}"
            ) from error
        if workers == 0:
            text = (
                f'Model "{source.name}" Version: {version.name} registered with 0 initial workers. '
                "Use scale workers API to add workers for the model."
            )
            return json_response({"status": text})
        if not wait:
            return json_response({"status": "Processing worker updates..."}, 202)
        text = f'Model "{source.name}" Version: {version.name} registered with {workers} initial workers'
        return json_response({"status": text})

    async def _scale(self, request: Request) -> Response:
        given = dict(request.query_params)
        name = request.path_params["model"]
        chosen = request.path_params.get("version") or given.get("model_version")
        least = _integer(given.get("min_worker"), 1)
        most = _integer(given.get("max_worker"), least)
        if least < 0 or most < 0:
            raise BadRequest("min_worker and max_worker are 0 or more.")
        if most < least:
            raise BadRequest("max_worker cannot be less than min_worker.")
        wait = _boolean(given.get("synchronous"), False)
        try:
            version = await self._models.scale(name, chosen, least, most, wait=wait)
        except StartError as error:
            version = self._models.version(name, chosen)
            raise RequestError(f"Failed to start workers for model {name} version: {version.name}. {error}") from error
        if not wait:
            return json_response({"status": "Processing worker updates..."}, 202)
        shown = f", version: {version.name}" if chosen else ""
        return json_response({"status": f"Workers scaled to {len(version.pool.workers)} for model: {name}{shown}"})

    async def _describe(self, request: Request) -> Response:
        version = self._models.version(request.path_params["model"], request.path_params.get("version"))
        customized = _boolean(request.query_params.get("customized"), False)
        return json_response([await described(version, customized=customized)])

    async def _describe_all(self, request: Request) -> Response:
        model = self._models.model(request.path_params["model"])
        customized = _boolean(request.query_params.get("customized"), False)
        return json_response([await described(version, customized=customized) for version in model.versions.values()])

    async def _unregister(self, request: Request) -> Response:
        self._changes()
        name = request.path_params["model"]
        await self._models.unregister(name, request.path_params.get("version"))
        return json_response({"status": f'Model "{name}" unregistered'})

    async def _set_default(self, request: Request) -> Response:
        name, version = request.path_params["model"], request.path_params["version"]
        self._models.set_default(name, version)
        return json_response({"status": f'Default version successfully updated for model "{name}" to "{version}"'})

    async def _kserve(self, request: Request) -> Response:
        name = request.path_params["model"]
        return json_response({"name": name, "ready": self._models.version(name).is_ready})

    def _changes(self) -> None:
        if not self._may_change:
            raise MethodRefused("Requested method is not allowed, please refer to API document.")

    async def _parameters(self, request: Request) -> dict[str, Any]:
        """Of the query, and of a JSON body; the body goes first, as in TorchServe."""
        given: dict[str, Any] = dict(request.query_params)
        if media_type_of(request.headers.get("content-type")) == "application/json":
            body = await read_body(request, self._limits)
            try:
                said = orjson.loads(body) if body else {}
            except orjson.JSONDecodeError as error:
                raise BadRequest(f"The body is not JSON: {error}") from error
            if not isinstance(said, dict):
                raise BadRequest("The body is no JSON object.")
            given |= said
        return given


def _integer(value: Any, default: int) -> int:
    """A number; what is none counts as not given, as in TorchServe."""
    text = str(value).strip() if value is not None else ""
    return int(text) if re.fullmatch(r"[+-]?\d{1,9}", text) else default


def _boolean(value: Any, default: bool) -> bool:
    return default if value is None else str(value).strip().lower() == "true"
