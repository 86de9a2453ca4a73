"""What a handler knows of its model and of the requests in its hands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flambeau.serve.metrics.metrics_store import MetricsStore

__all__ = ["Context", "RequestProcessor"]


class RequestProcessor:
    """A request's headers, and what the handler wants its response to have.

    Args:
        request_header: names and values.
    """

    def __init__(self, request_header: dict[str, str]) -> None:
        self._request_header = {key.lower(): value for key, value in request_header.items()}
        self._response_header: dict[str, str] = {}
        self._status, self._reason = 200, ""

    def get_request_property(self, key: str) -> str | None:
        """A header of the request; None where it has none of that name, in whatever case."""
        return self._request_header.get(key.lower())

    def get_request_properties(self) -> dict[str, str]:
        """All headers of the request."""
        return self._request_header

    def report_status(self, code: int, reason_phrase: str | None = None) -> None:
        """Set the response's status."""
        self._status, self._reason = code, reason_phrase or ""

    def get_response_status_code(self) -> int:
        """The response's status."""
        return self._status

    def get_response_status_phrase(self) -> str:
        """The phrase beside it."""
        return self._reason

    def add_response_property(self, key: str, value: str) -> None:
        """Set a header of the response."""
        self._response_header[key] = value

    def get_response_header(self) -> dict[str, str]:
        """All headers of the response that were set."""
        return self._response_header

    def get_response_headers(self) -> dict[str, str]:
        """All headers of the response that were set."""
        return self._response_header


class Context:
    """Handed to handlers.

    Attributes:
        model_name: of the model.
        manifest: of its archive.
        model_yaml_config: of the archive's configuration file.
        system_properties: `model_dir`, `gpu_id`, `batch_size`, `server_name`, `server_version`,
            `limit_max_image_pixels`.
        metrics: counts and times that the handler measures.
        request_ids: number in the batch -> id of the request.
        stopping_criteria: for handlers that batch continuously.
    """

    def __init__(
        self,
        model_name: str,
        model_dir: str,
        manifest: dict[str, Any],
        batch_size: int | None,
        gpu: int | None,
        mms_version: str,
        limit_max_image_pixels: bool = True,
        metrics: MetricsStore | None = None,
        model_yaml_config: dict[str, Any] | None = None,
    ) -> None:
        self.model_name = model_name
        self.manifest = manifest
        self.model_yaml_config = model_yaml_config or {}
        self._system_properties = {
            "model_dir": model_dir,
            "gpu_id": gpu,
            "batch_size": batch_size,
            "server_name": "MMS",  # what handlers written for TorchServe compare with
            "server_version": mms_version,
            "limit_max_image_pixels": limit_max_image_pixels,
        }
        self.request_ids: dict[int, str] | None = None
        self.request_processor: list[RequestProcessor] = [RequestProcessor({})]
        self._metrics = metrics
        self.stopping_criteria: Any = None

    @property
    def system_properties(self) -> dict[str, Any]:
        """Of the server and the model's folder."""
        return self._system_properties

    @property
    def metrics(self) -> Any:
        """Counts and times that the handler measures."""
        return self._metrics

    @metrics.setter
    def metrics(self, metrics: MetricsStore | None) -> None:
        self._metrics = metrics

    def get_request_id(self, idx: int = 0) -> str | None:
        """The id of a request of the batch."""
        return (self.request_ids or {}).get(idx)

    def get_request_header(self, idx: int, key: str) -> str | None:
        """A header of a request."""
        return self._processor(idx).get_request_property(key)

    def get_all_request_header(self, idx: int) -> dict[str, str]:
        """All headers of a request."""
        return self._processor(idx).get_request_properties()

    def set_response_content_type(self, idx: int, value: str) -> None:
        """Set the media type of a response."""
        self.set_response_header(idx, "content-type", value)

    def get_response_content_type(self, idx: int) -> str | None:
        """The media type that was set for a response."""
        return self.get_response_headers(idx).get("content-type")

    def set_response_header(self, idx: int, key: str, value: str) -> None:
        """Set a header of a response."""
        self._processor(idx).add_response_property(key, value)

    def get_response_headers(self, idx: int) -> dict[str, str]:
        """All headers of a response that were set."""
        return self._processor(idx).get_response_headers()

    def set_response_status(self, code: int = 200, phrase: str = "", idx: int = 0) -> None:
        """Set the status of a response."""
        self._processor(idx).report_status(code, phrase)

    def set_all_response_status(self, code: int = 200, phrase: str = "") -> None:
        """Set the status of every response of the batch."""
        for processor in self.request_processor:
            processor.report_status(code, phrase)

    def get_response_status(self, idx: int) -> tuple[int, str]:
        """Status and phrase of a response."""
        processor = self._processor(idx)
        return processor.get_response_status_code(), processor.get_response_status_phrase()

    def get_sequence_id(self, idx: int) -> str | None:
        """The sequence that a request belongs to."""
        return self.get_request_header(idx, self._sequence_header())

    def _sequence_header(self) -> str:
        return str(self._system_properties.get("header_key_sequence_id", "ts_request_sequence_id"))

    def _processor(self, idx: int) -> RequestProcessor:
        processors: Sequence[RequestProcessor] = self.request_processor
        return processors[idx]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]
