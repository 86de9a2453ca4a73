"""The applications that listen: models' answers on one port, management on its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from flambeau.serve.errors import MethodRefused, NotFound, RequestError
from flambeau.serve.http.answers import error_response
from flambeau.serve.http.health import Health
from flambeau.serve.http.infer_v2 import InferV2
from flambeau.serve.http.inference import Inference
from flambeau.serve.http.management import Management

if TYPE_CHECKING:
    from starlette.requests import Request

    from flambeau.serve.engine.models import Models
    from flambeau.serve.http.limits import Limits
    from flambeau.serve.sources import Sources

__all__ = ["inference_app", "management_app"]


def inference_app(models: Models, limits: Limits) -> Starlette:
    """Predictions, the Open Inference Protocol, health, metrics and the description of all paths."""
    routes: Sequence[BaseRoute] = [
        *Inference(models, limits).routes(), *InferV2(models, limits).routes(), *Health(models).routes(),
    ]  # fmt: skip
    return _app(routes)


def management_app(models: Models, sources: Sources, limits: Limits, *, may_change: bool) -> Starlette:
    """TorchServe's management API."""
    return _app(Management(models, sources, limits, may_change=may_change).routes())


def _app(routes: Sequence[BaseRoute | Route]) -> Starlette:
    handlers: dict[Any, Any] = {RequestError: _failed, HTTPException: _unknown, Exception: _broken}
    return Starlette(routes=list(routes), exception_handlers=handlers)


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_response(error, v2=request.url.path.startswith("/v2"))


async def _unknown(request: Request, error: Exception) -> Response:
    """Paths and methods that no route takes."""
    assert isinstance(error, HTTPException)
    v2 = request.url.path.startswith("/v2")
    if error.status_code == 405:
        known: RequestError = MethodRefused("Requested method is not allowed, please refer to API document.")
    else:
        text = "Requested resource is not found, please refer to API document."
        known = NotFound(text, name="ResourceNotFoundException")
    return error_response(known, error.headers, v2=v2)


async def _broken(request: Request, error: Exception) -> Response:
    """A fault of ours: the log has it (Starlette raises it again), the client learns no more than that."""
    return error_response(RequestError("Internal server error."), v2=request.url.path.startswith("/v2"))
