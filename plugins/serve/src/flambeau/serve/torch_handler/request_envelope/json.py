"""Requests of the form `{"instances": [..]}`, and answers `{"predictions": [..]}`: KServe's v1."""

from __future__ import annotations

import json
from typing import Any

from flambeau.serve.torch_handler.request_envelope.base import BaseEnvelope
from flambeau.serve.utils.util import PredictionException

__all__ = ["JSONEnvelope"]


class JSONEnvelope(BaseEnvelope):
    """Several inputs in the list `instances` (or `inputs`) of a JSON body."""

    answers = "predictions"

    def __init__(self, handle_fn: Any) -> None:
        super().__init__(handle_fn)
        self._lengths: list[int] = []

    def parse_input(self, data: list[dict[str, Any]]) -> list[Any]:
        """All instances, each as `{"body": instance}` unless it is an object itself.

        Raises:
            PredictionException: a body that is no such JSON; 400.
        """
        lists = [self._instances(row) for row in data]
        self._lengths = [len(one) for one in lists]
        return [one if isinstance(one, dict) else {"body": one} for each in lists for one in each]

    def format_output(self, data: list[Any]) -> list[Any]:
        """Each request's own answers."""
        rest = iter(data)
        return [{self.answers: [next(rest) for _ in range(length)]} for length in self._lengths]

    def _instances(self, row: dict[str, Any]) -> list[Any]:
        body = row.get("data", row.get("body"))
        try:
            said = json.loads(body) if isinstance(body, (bytes, bytearray, str)) else body
        except ValueError as error:
            raise PredictionException("The body is not JSON.", 400) from error
        found = said.get("instances", said.get("inputs")) if isinstance(said, dict) else said
        if not isinstance(found, list):
            raise PredictionException('The body has no list "instances".', 400)
        return found
