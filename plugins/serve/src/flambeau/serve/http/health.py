"""Whether the server lives, whether it is ready, and what it has measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from flambeau.serve.http.answers import json_response

if TYPE_CHECKING:
    from starlette.requests import Request

    from flambeau.serve.engine.models import Models

__all__ = ["Health"]


class Health:
    """The paths that probes ask.

    Args:
        models: what is served.
    """

    def __init__(self, models: Models) -> None:
        self._models = models

    def routes(self) -> list[Route]:
        """All paths."""
        return [
            Route("/metrics", self._metrics, methods=["GET"]),
            Route("/v2/health/live", self._live, methods=["GET"]),
            Route("/v2/health/ready", self._ready, methods=["GET"]),
        ]

    async def _metrics(self, request: Request) -> Response:
        page = self._models.observer.page(self._models.pools())
        return Response(page, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _live(self, request: Request) -> Response:
        return json_response({"live": True})

    async def _ready(self, request: Request) -> Response:
        ready = self._models.is_ready()
        return json_response({"ready": ready}, 200 if ready else 503)
