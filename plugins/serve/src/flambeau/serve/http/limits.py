"""What a request may ask for."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """Bounds of requests and answers.

    Attributes:
        most_request, most_response: bytes of a body.
        most_fields: fields of a form.
        body_seconds: how long a client may take to send one.
        decode_input: whether JSON and text are decoded for handlers, as TorchServe does.
    """

    most_request: int = 6_553_500
    most_response: int = 6_553_500
    most_fields: int = 64
    body_seconds: float = 60.0
    decode_input: bool = True
