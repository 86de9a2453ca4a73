"""Answers that are sent in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson

__all__ = ["send_intermediate_predict_response"]

_sender: Callable[[str, bytes, str], None] | None = None


def send_intermediate_predict_response(
    ret: list[Any], req_id_map: dict[int, str], message: str, code: int, context: Any = None
) -> None:
    """Send each client of a batch a part of its answer; what the handler returns is the last one.

    Args:
        ret: one part for each request, in order.
        req_id_map: number in the batch -> id of the request: `context.request_ids`.
        message: kept for handlers written for TorchServe; not sent.
        code: status; other than 200 it is not sent either, since the first part has fixed it.
        context: for the media types that the handler has set.

    Raises:
        RuntimeError: outside of a batch.
    """
    if _sender is None:
        raise RuntimeError("parts of answers can be sent while a batch is handled, and at no other time.")
    for place, part in enumerate(ret):
        media_type = context.get_response_content_type(place) if context is not None else None
        body, usual = body_of(part)
        _sender(req_id_map[place], body, media_type or usual)


@contextmanager
def sending(sender: Callable[[str, bytes, str], None]) -> Iterator[None]:
    """Let handlers send parts of answers meanwhile."""
    global _sender
    before, _sender = _sender, sender
    try:
        yield
    finally:
        _sender = before


def body_of(value: Any) -> tuple[bytes, str]:
    """What a handler returned as bytes and their media type: bytes as they are, text, tensors by torch.save, else JSON.

    Raises:
        TypeError: no JSON can be made of it.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value), "application/octet-stream"
    if isinstance(value, str):
        return value.encode(), "text/plain; charset=utf-8"
    import torch

    if isinstance(value, torch.Tensor):
        import io

        buffer = io.BytesIO()
        torch.save(value, buffer)
        return buffer.getvalue(), "application/octet-stream"
    option = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | orjson.OPT_INDENT_2
    return orjson.dumps(value, option=option), "application/json"
