"""Answers and errors as HTTP responses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response

from flambeau.serve.errors import RequestError, Unavailable
from flambeau.serve.wire.messages import Answer

__all__ = ["HEADERS", "answer_response", "error_body", "error_response", "json_response"]

# Answers are made for one request; TorchServe says so in these words.
HEADERS = {
    "Pragma": "no-cache",
    "Cache-Control": "no-cache; no-store, must-revalidate, private",
    "Expires": "Thu, 01 Jan 1970 00:00:00 UTC",
}


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response that no cache keeps."""
    return Response(orjson.dumps(value), status, {**HEADERS, **(headers or {})}, "application/json")


def error_body(status: int, name: str, message: str) -> bytes:
    """The JSON of an error, in TorchServe's form."""
    return orjson.dumps({"code": status, "type": name, "message": message})


def error_response(error: RequestError, headers: Mapping[str, str] | None = None, *, v2: bool = False) -> Response:
    """An error as its client gets it: TorchServe's form, or the Open Inference Protocol's `{"error": text}`."""
    more = {**HEADERS, **(headers or {})}
    if isinstance(error, Unavailable):
        more["Retry-After"] = str(math.ceil(error.retry_after_s))
    text = str(error)
    body = orjson.dumps({"error": text}) if v2 else error_body(error.status, error.name, text)
    return Response(body, error.status, more, "application/json")


def answer_response(answer: Answer, request_id: str, most_bytes: int) -> Response:
    """What a worker answered, or the error that it gave for this request alone."""
    headers = {**HEADERS, **answer.headers, "x-request-id": request_id}
    if answer.error is not None:
        body = error_body(answer.status, answer.error, answer.body.decode("utf-8", "replace"))
        return Response(body, answer.status, headers, "application/json")
    if len(answer.body) > most_bytes:
        body = error_body(413, "RequestEntityTooLargeException", f"The answer is larger than {most_bytes} bytes.")
        return Response(body, 413, headers, "application/json")
    response = Response(answer.body, answer.status, headers)
    response.headers["content-type"] = answer.media_type
    return response
