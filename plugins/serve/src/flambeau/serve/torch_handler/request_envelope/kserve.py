"""KServe's protocol, version 1."""

from __future__ import annotations

from typing import Any

from flambeau.serve.torch_handler.request_envelope.json import JSONEnvelope

__all__ = ["KServeEnvelope"]


class KServeEnvelope(JSONEnvelope):
    """Requests `{"instances": [..]}`; answers `{"predictions": [..]}`, or `{"explanations": [..]}`."""

    def format_output(self, data: list[Any]) -> list[Any]:
        """Each request's own answers, under the word that fits its path."""
        explains = self.context is not None and self.context.get_request_header(0, "explain") == "True"
        self.answers = "explanations" if explains else "predictions"
        return super().format_output(data)
