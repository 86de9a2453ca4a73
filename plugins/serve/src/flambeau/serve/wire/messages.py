"""Requests and answers as they travel between the front and its workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flambeau.serve.wire.frames import Frame

__all__ = ["Answer", "Item", "Part", "pack_answers", "pack_batch", "unpack_answers", "unpack_batch"]


@dataclass(frozen=True, slots=True)
class Part:
    """One field of a request.

    Attributes:
        name: the form's field; "body" for a body that is no form.
        data: its bytes.
        media_type: without parameters, in lower case; empty where the client named none.
        filename: of an uploaded file.
    """

    name: str
    data: bytes
    media_type: str = ""
    filename: str | None = None


@dataclass(slots=True)
class Item:
    """A request of a batch, as a worker sees it.

    Attributes:
        id: unique; the client gets it as `x-request-id`.
        parts: the body, or the fields of a form.
        headers: of HTTP, names in lower case, and what the server adds for handlers (`url_path`, `explain`).
        parameters: of the query.
        call: "predict", "explain" or "describe".
    """

    id: str
    parts: list[Part]
    headers: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    call: str = "predict"


@dataclass(slots=True)
class Answer:
    """What a worker answers to one request.

    Attributes:
        body: the bytes to send.
        media_type: of the body.
        status: of HTTP.
        reason: the phrase beside the status; empty for the usual one.
        headers: further ones.
        error: for a failure that has no body of the model's own: the `type` of the error's JSON; the body is its
            message.
    """

    body: bytes
    media_type: str = "application/json"
    status: int = 200
    reason: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    error: str | None = None


def pack_batch(number: int, items: list[Item]) -> tuple[dict[str, Any], list[bytes]]:
    """A batch as a message and parts."""
    blobs: list[bytes] = []
    requests = []
    for item in items:
        parts = []
        for part in item.parts:
            parts.append((part.name, part.media_type, part.filename))
            blobs.append(part.data)
        requests.append((item.id, item.call, item.headers, item.parameters, parts))
    return {"kind": "run", "batch": number, "requests": requests}, blobs


def unpack_batch(frame: Frame) -> list[Item]:
    """The inverse of `pack_batch`."""
    blobs = iter(frame.parts)
    return [
        Item(
            id,
            [Part(name, next(blobs), media_type, filename) for name, media_type, filename in parts],
            headers,
            parameters,
            call,
        )
        for id, call, headers, parameters, parts in frame.message["requests"]
    ]


def pack_answers(number: int, answers: list[Answer], **more: Any) -> tuple[dict[str, Any], list[bytes]]:
    """The answers to a batch as a message and parts."""
    heads = [(a.media_type, a.status, a.reason, a.headers, a.error) for a in answers]
    return {"kind": "done", "batch": number, "answers": heads, **more}, [a.body for a in answers]


def unpack_answers(frame: Frame) -> list[Answer]:
    """The inverse of `pack_answers`."""
    heads = frame.message["answers"]
    return [
        Answer(body, media_type, status, reason, headers, error)
        for (media_type, status, reason, headers, error), body in zip(heads, frame.parts, strict=True)
    ]
