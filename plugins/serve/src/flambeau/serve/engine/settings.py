"""How one version of a model is run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["VersionSettings"]


@dataclass(frozen=True)
class VersionSettings:
    """How one version of a model is run; times are in seconds unless their names say otherwise.

    Attributes:
        min_workers, max_workers: how many workers it has.
        batch_size: the most requests in one call of the model.
        max_batch_delay_ms: how long the first request of a batch waits for others.
        response_timeout: a batch that takes longer ends its worker.
        startup_timeout: a load that takes longer ends its worker.
        max_retry_timeout: workers that cannot start are given up after this time.
        client_timeout_ms: how long a request may take altogether; 0 for as long as it takes.
        queue_size: the most requests that wait.
        max_requests, max_rss: a worker that has answered so many requests, or takes so many bytes, is replaced by a
            fresh one; 0 for never.
    """

    min_workers: int = 1
    max_workers: int = 1
    batch_size: int = 1
    max_batch_delay_ms: float = 100.0
    response_timeout: float = 120.0
    startup_timeout: float = 120.0
    max_retry_timeout: float = 300.0
    client_timeout_ms: float = 0.0
    queue_size: int = 100
    max_requests: int = 0
    max_rss: int = 0
    device_ids: tuple[int, ...] = field(default=())

    def record(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return asdict(self)
