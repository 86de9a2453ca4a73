"""The bodies of requests, as services take them."""

from __future__ import annotations

import mimetypes
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from flambeau.core.errors import PredictError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from flambeau.serve.wire.messages import Item, Part

__all__ = ["body_of", "parameters_of", "suffix_of"]

P = TypeVar("P", bound="BaseModel")

# Names under which forms send the input itself; TorchServe's clients use the first two.
_INPUTS = ("data", "body", "file", "input")

# What `mimetypes` leaves to the system's tables.
_SUFFIXES = {
    "image/webp": ".webp", "image/avif": ".avif", "audio/wav": ".wav", "audio/x-wav": ".wav", "audio/wave": ".wav",
    "audio/flac": ".flac", "audio/x-flac": ".flac", "audio/ogg": ".ogg", "audio/webm": ".webm", "audio/mpeg": ".mp3",
    "video/mp4": ".mp4", "video/webm": ".webm", "text/csv": ".csv", "application/vnd.apache.parquet": ".parquet",
    "application/json": ".json", "application/x-ndjson": ".jsonl",
}  # fmt: skip

# The first bytes of common formats, for clients that name no type (`curl -T`).
_BEGINNINGS = (
    (b"\xff\xd8\xff", ".jpg"), (b"\x89PNG\r\n", ".png"), (b"GIF8", ".gif"), (b"fLaC", ".flac"), (b"OggS", ".ogg"),
    (b"ID3", ".mp3"), (b"PAR1", ".parquet"),
)  # fmt: skip


def body_of(item: Item) -> Part:
    """The input of a request: its body, or the field of a form that is the input.

    Raises:
        PredictError: there is none, or several and none is named as an input.
    """
    if len(item.parts) == 1:
        return item.parts[0]
    for name in _INPUTS:
        for part in item.parts:
            if part.name == name:
                return part
    files = [part for part in item.parts if part.filename]
    if len(files) == 1:
        return files[0]
    if not item.parts:
        raise PredictError("the request has no body; send the input as the body, or as the field `data` of a form.")
    names = ", ".join(part.name for part in item.parts)
    raise PredictError(f"the form has the fields {names}; send the input in the field `data`.")


def parameters_of(item: Item, model: type[P]) -> P:
    """What the query, or a form's further fields, ask for.

    Raises:
        ValidationError: values of a wrong type, or out of their range.
    """
    given: dict[str, object] = {}
    for part in item.parts:
        if part.name in model.model_fields and part.filename is None:
            given[part.name] = part.data.decode("utf-8", "replace")
    return model.model_validate({**given, **item.parameters})


def suffix_of(part: Part) -> str:
    """The suffix of a file that holds a part: by its name, its type, or its first bytes; empty where none tells."""
    if part.filename and (suffix := PurePosixPath(part.filename.replace("\\", "/")).suffix.lower())[1:].isalnum():
        return suffix
    known = _SUFFIXES.get(part.media_type) or mimetypes.guess_extension(part.media_type or "", strict=False)
    if known and known != ".bin":
        return known
    if part.data[:4] == b"RIFF":
        return {b"WEBP": ".webp", b"AVI ": ".avi"}.get(part.data[8:12], ".wav")
    if part.data[4:8] == b"ftyp":
        return ".mp4"
    return next((suffix for beginning, suffix in _BEGINNINGS if part.data.startswith(beginning)), "")
