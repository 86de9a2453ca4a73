"""An archive's model: its handler is given what TorchServe's workers give, and its answers are taken as there."""

from __future__ import annotations

from typing import Any

import orjson

from flambeau.serve.context import Context, RequestProcessor
from flambeau.serve.handlers.aliases import install
from flambeau.serve.handlers.entry import entry_of
from flambeau.serve.metrics.metrics_store import MetricsStore
from flambeau.serve.protocol.otf_message_handler import body_of, sending
from flambeau.serve.service import Service
from flambeau.serve.utils.util import PredictionException
from flambeau.serve.wire.messages import Answer, Item, Part
from flambeau.serve.worker.running import Streams

__all__ = ["ArchiveRunning"]

_STATUS_AS_RAISED = range(400, 600)


class ArchiveRunning:
    """A handler with its model.

    Args:
        spec: `name`, `folder`, `manifest`, `handler`, `config`, `batch_size`; `device` as "cpu" or "cuda:N"; `envelope`
            or None; `decode_input`: whether JSON and text are decoded for the handler; `limit_pixels`.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        from flambeau.serve.version import __version__

        install()
        device = str(spec.get("device") or "cpu")
        gpu = int(device.partition(":")[2] or 0) if device.startswith("cuda") else None
        self._decodes = bool(spec.get("decode_input", True))
        self._metrics = MetricsStore({}, spec["name"])
        self._context = Context(
            spec["name"], spec["folder"], spec["manifest"], spec.get("batch_size", 1), gpu, __version__,
            bool(spec.get("limit_pixels", True)), self._metrics, spec.get("config", {}),
        )  # fmt: skip
        self._entry = entry_of(spec["handler"], self._context, spec.get("envelope"))
        self._service = Service(self._entry.call, self._context)
        self._info = {"handler": spec["handler"], "device": device, "batched": True}

    @property
    def info(self) -> dict[str, Any]:
        """What is served."""
        return self._info

    def answer(self, items: list[Item], streams: Streams) -> list[Answer]:
        """The handler's answers to a batch.

        Raises:
            ValueError: it returned no list, or one of another length.
            Exception: whatever the handler raises, but for `PredictionException` of a single request.
        """
        if items[0].call == "describe":
            return [self._described()]
        self._context.request_ids = {place: item.id for place, item in enumerate(items)}
        self._metrics.request_ids = self._context.request_ids
        self._context.request_processor = [RequestProcessor(item.headers) for item in items]
        try:
            data = [self._fields(item) for item in items]
            with sending(streams.send):
                found = self._service.predict(data)
        except PredictionException as error:
            if len(items) > 1:
                raise  # the front runs the batch again in halves, until the one that it concerns is alone
            return [Answer(error.message.encode(), status=_status(error.error_code), error="InternalServerException")]
        return [self._answer(place, value) for place, value in enumerate(found)]

    def metrics(self) -> list[dict[str, Any]]:
        """What the handler measured since the last call."""
        return self._metrics.taken()

    def _fields(self, item: Item) -> dict[str, Any]:
        return {part.name: self._decoded(part) for part in item.parts}

    def _decoded(self, part: Part) -> Any:
        """As TorchServe decodes: JSON to what it means, text to str, the rest stays bytes."""
        if not self._decodes:
            return bytearray(part.data)
        if part.media_type == "application/json":
            try:
                return orjson.loads(part.data)
            except orjson.JSONDecodeError as error:
                raise PredictionException(f"The body is not JSON: {error}", 400) from error
        if part.media_type.startswith("text/") or (not part.media_type and part.name != "body"):
            return part.data.decode("utf-8", "replace")
        return bytearray(part.data)

    def _answer(self, place: int, value: Any) -> Answer:
        status, reason = self._context.get_response_status(place)
        headers = dict(self._context.get_response_headers(place))
        asked = headers.pop("content-type", None)
        try:
            body, usual = body_of(value)
        except (TypeError, ValueError, OverflowError):
            return Answer(b"Unsupported model output data type.", status=503, error="InternalServerException")
        return Answer(body, asked or usual, status, reason, {key: str(value) for key, value in headers.items()})

    def _described(self) -> Answer:
        said = self._entry.describe() if self._entry.describe is not None else None
        return Answer(orjson.dumps(said, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY))


def _status(code: Any) -> int:
    return int(code) if isinstance(code, int) and code in _STATUS_AS_RAISED else 503
