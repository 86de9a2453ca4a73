"""Descriptions of versions, in TorchServe's fields and ours."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import psutil

from flambeau.serve.engine.work import Work
from flambeau.serve.errors import RequestError
from flambeau.serve.wire.messages import Answer, Item

if TYPE_CHECKING:
    from flambeau.serve.engine.models import Version
    from flambeau.serve.engine.worker import Worker

__all__ = ["described"]

_CUSTOMIZED_S = 10.0


async def described(version: Version, *, customized: bool = False) -> dict[str, Any]:
    """A version and its workers.

    Args:
        version: which.
        customized: whether to ask the model's own `describe_handle`.
    """
    pool, settings = version.pool, version.pool.settings
    record: dict[str, Any] = {
        "modelName": pool.name,
        "modelVersion": pool.version,
        "modelUrl": version.url,
        "runtime": "python",
        "minWorkers": settings.min_workers,
        "maxWorkers": settings.max_workers,
        "batchSize": settings.batch_size,
        "maxBatchDelay": _whole(settings.max_batch_delay_ms),
        "responseTimeout": _whole(settings.response_timeout),
        "startupTimeout": _whole(settings.startup_timeout),
        "maxRetryTimeoutInSec": _whole(settings.max_retry_timeout),
        "clientTimeoutInMills": _whole(settings.client_timeout_ms),
        "parallelType": "",
        "parallelLevel": 0,
        "deviceType": "gpu" if settings.device_ids else "cpu",
        **({"deviceIds": list(settings.device_ids)} if settings.device_ids else {}),
        "continuousBatching": False,
        "useJobTicket": False,
        "useVenv": False,
        "stateful": False,
        "sequenceMaxIdleMSec": 0,
        "sequenceTimeoutMSec": 0,
        "maxNumSequence": 0,
        "maxSequenceJobQueueSize": 0,
        "loadedAtStartup": version.at_start,
        "workers": [_worker(worker) for worker in pool.workers],
        "jobQueueStatus": {
            "remainingCapacity": max(0, settings.queue_size - pool.pending),
            "pendingRequests": pool.pending,
        },
        "source": version.source,
    }
    if customized:
        record["customizedMetadata"] = await _customized(version)
    return record


def _worker(worker: Worker) -> dict[str, Any]:
    ready = worker.state in ("ready", "busy") and worker.pid is not None  # one that just ended has none
    return {
        "id": str(worker.number),
        "startTime": worker.started_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "status": "READY" if ready else "UNLOADING",
        "memoryUsage": _memory(worker.pid),
        "pid": worker.pid or 0,
        "gpu": str(worker.info.get("device", "cpu")).startswith("cuda"),
        "gpuUsage": "N/A",
        "state": worker.state,
        "cause": worker.cause,
        "lastLines": worker.last_lines if worker.cause else [],
        "nextStart": None if worker.next_start is None else datetime.fromtimestamp(worker.next_start, UTC).isoformat(),
        "restarts": worker.restarts,
        "batches": worker.batches,
        "requests": worker.requests,
    }


def _memory(pid: int | None) -> int:
    if pid is not None:
        with contextlib.suppress(psutil.Error):
            return int(psutil.Process(pid).memory_info().rss)
    return 0


async def _customized(version: Version) -> Any:
    """What the model says of itself; an explanation where it says nothing."""
    work = Work(Item("describe", [], {}, {}, "describe"))
    try:
        version.pool.submit(work)
        async with asyncio.timeout(_CUSTOMIZED_S):
            answer = await work.next()
    except (RequestError, TimeoutError) as error:
        return f"not available: {str(error) or 'no answer in time'}"
    if not isinstance(answer, Answer) or answer.error is not None:
        return "not available"
    try:
        return orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return answer.body.decode("utf-8", "replace")


def _whole(value: float) -> float | int:
    return int(value) if value == int(value) else value
