"""Handlers that want bodies themselves."""

from __future__ import annotations

from typing import Any

from flambeau.serve.torch_handler.request_envelope.base import BaseEnvelope

__all__ = ["BodyEnvelope"]


class BodyEnvelope(BaseEnvelope):
    """Gives a handler the bodies, not dicts of fields."""

    def parse_input(self, data: list[dict[str, Any]]) -> list[Any]:
        """The bodies."""
        return [row.get("data", row.get("body")) for row in data]

    def format_output(self, data: list[Any]) -> list[Any]:
        """As they are."""
        return data
