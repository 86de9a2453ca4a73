"""Bodies of requests, read within limits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException

from flambeau.serve.errors import BadRequest, ClientGone, RequestError, TooLarge
from flambeau.serve.wire.messages import Part

if TYPE_CHECKING:
    from starlette.requests import Request

    from flambeau.serve.http.limits import Limits

__all__ = ["media_type_of", "read_body", "read_parts"]


def media_type_of(header: str | None) -> str:
    """A media type without its parameters, in lower case."""
    return (header or "").partition(";")[0].strip().lower()


async def read_body(request: Request, limits: Limits) -> bytes:
    """The whole body.

    Raises:
        TooLarge: it is longer than requests may be.
        RequestError: it did not come in time; 408.
        ClientGone: the connection was closed.
    """
    announced = request.headers.get("content-length")
    if announced is not None and announced.isdigit() and int(announced) > limits.most_request:
        raise _too_large(limits)
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone("The client has closed the connection.")
                piece = message.get("body", b"")
                size += len(piece)
                if size > limits.most_request:
                    raise _too_large(limits)
                pieces.append(piece)
                if not message.get("more_body"):
                    break
    except TimeoutError as error:
        raise RequestError(
            f"The body did not come within {limits.body_seconds:g} s.", status=408, name="RequestTimeoutException"
        ) from error
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def read_parts(request: Request, limits: Limits) -> list[Part]:
    """The body as one part named "body", or the fields of a form.

    Raises:
        BadRequest: a form that cannot be read.
        TooLarge, RequestError, ClientGone: as `read_body`.
    """
    header = request.headers.get("content-type")
    media_type = media_type_of(header)
    body = await read_body(request, limits)
    if media_type in ("multipart/form-data", "application/x-www-form-urlencoded"):
        return await _form(request, body, limits)
    return [Part("body", body, media_type)] if body or media_type else []


async def _form(request: Request, body: bytes, limits: Limits) -> list[Part]:
    from starlette.requests import Request as Again

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    try:
        form = await Again(request.scope, receive).form(
            max_files=limits.most_fields, max_fields=limits.most_fields, max_part_size=limits.most_request
        )
    except (MultiPartException, HTTPException, ValueError, KeyError) as error:
        raise BadRequest(f"The form cannot be read: {getattr(error, 'message', None) or error}") from error
    parts = []
    async with asyncio.timeout(limits.body_seconds):
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                data = await value.read()
                parts.append(Part(name, data, media_type_of(value.content_type), value.filename or None))
            else:
                parts.append(Part(name, value.encode()))
    await form.close()
    return parts


def _too_large(limits: Limits) -> TooLarge:
    return TooLarge(f"The request is larger than {limits.most_request} bytes (max_request_size).")
