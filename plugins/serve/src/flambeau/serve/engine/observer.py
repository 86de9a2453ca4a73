"""What happens, counted and logged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from flambeau.serve.engine.pool import Pool
    from flambeau.serve.engine.work import Work
    from flambeau.serve.engine.worker import Batch, Worker

__all__ = ["Observer"]

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_MODEL = ("model_name", "model_version")

log = logging.getLogger("flambeau.serve")
worker_log = logging.getLogger("flambeau.serve.worker")


class Observer:
    """Counters, histograms and gauges of one server, under the names of the suite; and its log.

    Labels hold names of registered models only, never what a client sent.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"flambeau_serve_{name}", text, _MODEL, registry=self.registry, buckets=buckets)

        self._request = histogram("request_seconds", "From a request to its answer", _SECONDS)
        self._queue = histogram("queue_seconds", "How long a request waited for a worker", _SECONDS)
        self._model = histogram("model_seconds", "How long a worker took for a batch", _SECONDS)
        self._batch = histogram("batch_size", "Requests in a batch", _SIZES)
        self._errors = Counter(
            "flambeau_serve_errors", "Requests that failed", (*_MODEL, "status"), registry=self.registry
        )
        self._restarts = Counter("flambeau_serve_worker_ends", "Workers that ended", _MODEL, registry=self.registry)
        self._workers = Gauge("flambeau_serve_workers", "Workers that are ready", _MODEL, registry=self.registry)
        self._pending = Gauge("flambeau_serve_queue_length", "Requests that wait", _MODEL, registry=self.registry)
        self._memory = Gauge(
            "flambeau_serve_worker_memory_bytes", "Resident memory", (*_MODEL, "worker"), registry=self.registry
        )
        self._mean: dict[tuple[str, str], float] = {}

    def answered(self, pool: Pool, work: Work, now: float) -> None:
        """A request has its answer."""
        labels = (pool.name, pool.version)
        self._request.labels(*labels).observe(now - work.arrived)
        self._queue.labels(*labels).observe(max(0.0, work.started - work.arrived))

    def batch_done(self, pool: Pool, worker: Worker, batch: Batch, message: dict[str, Any]) -> None:
        """A worker has answered a batch."""
        labels = (pool.name, pool.version)
        seconds = float(message.get("seconds", 0.0))
        self._model.labels(*labels).observe(seconds)
        self._batch.labels(*labels).observe(len(batch.works))
        before = self._mean.get(labels, seconds)
        self._mean[labels] = 0.9 * before + 0.1 * seconds

    def failed(self, name: str, version: str, status: int) -> None:
        """A request to a registered model failed."""
        self._errors.labels(name, version, str(status)).inc()

    def expired(self, pool: Pool, work: Work) -> None:
        """A request's time was over."""
        log.info("request %s to %s %s: deadline exceeded", work.item.id, pool.name, pool.version)

    def worker_ended(self, pool: Pool, worker: Worker) -> None:
        """A worker's process has ended."""
        self._restarts.labels(pool.name, pool.version).inc()
        log.warning("worker %d of %s %s ended: %s", worker.number, pool.name, pool.version, worker.cause)

    def worker_given_up(self, pool: Pool, worker: Worker) -> None:
        """A worker that could not be started will not be tried again."""
        log.error("worker %d of %s %s is given up: %s", worker.number, pool.name, pool.version, worker.cause)

    def worker_said(self, pool: Pool, worker: Worker, line: str) -> None:
        """A worker printed a line."""
        worker_log.info("%s %s worker %d: %s", pool.name, pool.version, worker.number, line)

    def seconds_per_batch(self, pool: Pool) -> float:
        """How long a batch takes, on average over the last ones."""
        return self._mean.get((pool.name, pool.version), 0.1)

    def page(self, pools: list[Pool]) -> bytes:
        """All metrics in Prometheus' text format 0.0.4, with gauges as they are now."""
        self._workers.clear()
        self._pending.clear()
        self._memory.clear()
        for pool in pools:
            labels = (pool.name, pool.version)
            self._workers.labels(*labels).set(pool.live)
            self._pending.labels(*labels).set(pool.pending)
            for worker in pool.workers:
                if worker.rss:
                    self._memory.labels(*labels, str(worker.number)).set(worker.rss)
        return generate_latest(self.registry)

    def forget(self, name: str, version: str) -> None:
        """A version is gone: so are its series."""
        self._mean.pop((name, version), None)
        for family in (self._request, self._queue, self._model, self._batch, self._restarts):
            try:
                family.remove(name, version)
            except KeyError:  # nothing was counted
                continue
