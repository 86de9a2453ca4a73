"""Predictions, by every path that clients know: TorchServe's, its older ones, KServe's and SageMaker's."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import unquote

from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from flambeau.serve.engine.work import Piece, Work
from flambeau.serve.errors import BadRequest, RequestError
from flambeau.serve.http.answers import HEADERS, answer_response, error_response, json_response
from flambeau.serve.http.bodies import read_parts
from flambeau.serve.wire.messages import Answer, Item, Part

if TYPE_CHECKING:
    from starlette.requests import Request

    from flambeau.serve.engine.models import Models, Version
    from flambeau.serve.engine.pool import Pool
    from flambeau.serve.http.limits import Limits

__all__ = ["Inference", "new_request_id"]

_ANY = ["GET", "POST", "PUT"]
_TIMEOUT = "x-request-timeout-ms"


def new_request_id() -> str:
    """A random UUID (RFC 9562, version 4), as text."""
    value = bytearray(os.urandom(16))
    value[6], value[8] = value[6] & 0x0F | 0x40, value[8] & 0x3F | 0x80
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Inference:
    """The paths that ask models.

    Args:
        models: what is served.
        limits: of requests.
    """

    def __init__(self, models: Models, limits: Limits) -> None:
        self._models = models
        self._limits = limits

    def routes(self) -> list[Route]:
        """Most used first."""
        predict, explain = self._predict, self._explain
        return [
            Route("/predictions/{model}", predict, methods=_ANY),
            Route("/predictions/{model}/{version}", predict, methods=_ANY),
            Route("/predictions/{model}/{version}/{rest:path}", predict, methods=_ANY),
            Route("/explanations/{model}", explain, methods=_ANY),
            Route("/explanations/{model}/{version}", explain, methods=_ANY),
            Route("/explanations/{model}/{version}/{rest:path}", explain, methods=_ANY),
            Route("/v1/models/{model}:predict", predict, methods=_ANY),
            Route("/v1/models/{model}:explain", explain, methods=_ANY),
            Route("/models/{model}/invoke", self._with_fields, methods=_ANY),
            Route("/invocations", self._invocations, methods=_ANY),
            Route("/ping", self._ping, methods=["GET"]),
            Route("/{model}/predict", self._with_fields, methods=_ANY),
            Route("/{model}/{version}/predict", self._with_fields, methods=_ANY),
        ]

    async def _predict(self, request: Request) -> Response:
        return await self._answer(request, request.path_params["model"], "predict")

    async def _explain(self, request: Request) -> Response:
        return await self._answer(request, request.path_params["model"], "explain")

    async def _with_fields(self, request: Request) -> Response:
        return await self._answer(request, request.path_params["model"], "predict", fields=True)

    async def _invocations(self, request: Request) -> Response:
        name = request.query_params.get("model_name")
        if name is None:
            at_start = [model.name for model in self._models if any(v.at_start for v in model.versions.values())]
            if len(at_start) != 1:
                raise BadRequest("Parameter model_name is required: not exactly one model was loaded at start.")
            name = at_start[0]
        return await self._answer(request, name, "predict", fields=True)

    async def _ping(self, request: Request) -> Response:
        if self._models.is_healthy():
            return json_response({"status": "Healthy"})
        return json_response({"status": "Unhealthy"}, 500)

    async def _answer(self, request: Request, name: str, call: str, *, fields: bool = False) -> Response:
        request_id = new_request_id()
        version: Version | None = None
        try:
            chosen = request.path_params.get("version")
            version = self._models.version(name, chosen)
            parts = await read_parts(request, self._limits)
            parameters = dict(request.query_params)
            if fields:
                parts += [Part(key, value.encode()) for key, value in parameters.items() if key != "model_name"]
            headers = {key: value for key, value in request.headers.items() if key not in ("authorization", "cookie")}
            headers["url_path"] = unquote(request.path_params.get("rest", ""))
            headers["explain"] = str(call == "explain")
            work = Work(Item(request_id, parts, headers, parameters, call), self._deadline(request, version))
            version.pool.submit(work)
            return await respond(request, version.pool, work, self._limits)
        except RequestError as error:
            if version is not None:
                self._models.observer.failed(name, version.name, error.status)
            return error_response(error, {"x-request-id": request_id})

    def _deadline(self, request: Request, version: Version) -> float | None:
        limit = version.pool.settings.client_timeout_ms
        asked = request.headers.get(_TIMEOUT)
        if asked is not None:
            try:
                wanted = float(asked)
            except ValueError:
                wanted = -1.0
            if not 0 < wanted < 1e9:
                raise BadRequest(f"The header {_TIMEOUT} is {asked[:40]!r}; expected milliseconds above 0.")
            limit = min(limit or wanted, wanted)
        return time.monotonic() + limit / 1000 if limit else None


async def respond(request: Request, pool: Pool, work: Work, limits: Limits) -> Response:
    """Wait for an answer; a client that goes takes its request with it.

    Raises:
        RequestError: the request failed before a part of its answer was sent.
    """
    listener = asyncio.get_running_loop().create_task(_until_gone(request))
    listener.add_done_callback(lambda task: None if task.cancelled() else pool.abandon(work))
    try:
        first = await work.next()
    except BaseException:
        listener.cancel()
        raise
    if isinstance(first, Answer):
        listener.cancel()
        return answer_response(first, work.item.id, limits.most_response)
    headers = {**HEADERS, "x-request-id": work.item.id}
    return StreamingResponse(_pieces(work, first, listener), 200, headers, first.media_type)


async def _pieces(work: Work, first: Piece, listener: asyncio.Task[None]) -> AsyncIterator[bytes]:
    """Parts of an answer as they come. A failure in the middle cuts the stream short, so that the client sees it."""
    try:
        yield first.data
        while True:
            event = await work.next()
            if isinstance(event, Answer):
                if event.error is not None:
                    raise RequestError(event.body.decode("utf-8", "replace"), status=event.status, name=event.error)
                if event.body:
                    yield event.body
                return
            yield event.data
    finally:
        listener.cancel()


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
