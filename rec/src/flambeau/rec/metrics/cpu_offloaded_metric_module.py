"""Metrics on the CPU, by threads of their own, so that training does not wait for them."""

from __future__ import annotations

import copy
import logging
import queue
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from flambeau.rec.metrics._errors import RecMetricException
from flambeau.rec.metrics._states import distributed_available
from flambeau.rec.metrics.cpu_comms_metric_module import CPUCommsRecMetricModule
from flambeau.rec.metrics.deferrable_metrics import DeferrableMetrics, transfer_tensors_to_cpu
from flambeau.rec.metrics.metric_job_types import MetricComputeJob, MetricUpdateJob, SynchronizationMarker
from flambeau.rec.metrics.metric_module import RecMetricModule
from flambeau.rec.metrics.metric_state_snapshot import MetricStateSnapshot
from flambeau.rec.metrics.rec_metric import RecMetricList

__all__ = ["CPUOffloadedRecMetricModule"]

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.05
_JOIN_SECONDS = 60.0


class CPUOffloadedRecMetricModule(RecMetricModule):
    """Takes batches to the CPU, and updates and computes metrics there while training goes on.

    One thread updates the states. Another one computes: it gets a copy of the states as they were after the batches
    before the call, gathers those of all ranks by a process group of the CPU, and hands the values out as promises.
    What fails in a thread is raised by the next call.

    Args:
        model_out_device: where the model's outputs are.
        update_queue_size: batches that may wait; `update` waits for a place beyond that.
        compute_queue_size: computations that may wait.
        update_batch_size: batches that wait are joined to one update, this many at most.
        clone_model_out: copy the model's outputs, for memory that is used again.
        args: see `RecMetricModule`.
        kwargs: see `RecMetricModule`.
    """

    def __init__(
        self,
        model_out_device: torch.device,
        update_queue_size: int = 100,
        compute_queue_size: int = 100,
        update_batch_size: int = 10,
        clone_model_out: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._model_out_device = model_out_device
        self._clone_model_out = clone_model_out
        self._update_batch_size = update_batch_size
        self._failure: BaseException | None = None
        self._stopping = threading.Event()
        self._lock = threading.RLock()  # held while states change, or are read
        self.comms_module = CPUCommsRecMetricModule(
            self.batch_size,
            self.world_size,
            rec_tasks=self.rec_tasks,
            rec_metrics=_twin(self.rec_metrics, self.world_size),
            state_metrics=self.state_metrics,
        )
        self.update_queue: queue.Queue[MetricUpdateJob | SynchronizationMarker] = queue.Queue(update_queue_size)
        self.compute_queue: queue.Queue[MetricComputeJob] = queue.Queue(compute_queue_size)
        self._threads = [
            threading.Thread(target=self._work, args=(waiting, done), name=name, daemon=True)
            for name, waiting, done in (
                ("metric-update", self.update_queue, self._take_in),
                ("metric-compute", self.compute_queue, self._compute_job),
            )
        ]
        for thread in self._threads:
            thread.start()

    def update(self, model_out: dict[str, Tensor], **kwargs: Any) -> None:
        """Take a batch in, some time.

        Args:
            model_out: the model's outputs, by the keys that the tasks name.
            kwargs: passed on to the metrics.

        Raises:
            RecMetricException: an earlier batch failed, or the module is shut down.
        """
        self._check()
        if self._clone_model_out:
            model_out = {name: _cloned(one) for name, one in model_out.items()}
        copies, event = transfer_tensors_to_cpu(model_out)
        if event is not None:
            kwargs["_event"] = event
        self.update_queue.put(MetricUpdateJob(copies, kwargs))
        self.trained_batches += 1

    def async_compute(self) -> DeferrableMetrics:
        """The promise of all values, of the batches until now; every rank has to call it.

        Raises:
            RecMetricException: an earlier batch failed, or the module is shut down.
        """
        self._check()
        self.compute_count += 1
        if len(self.rec_metrics):
            self._adjust_compute_interval()
        future: Future[dict[str, Any]] = Future()
        self.update_queue.put(SynchronizationMarker(future))
        return DeferrableMetrics(future)

    def compute(self) -> DeferrableMetrics:
        """As `async_compute`."""
        return self.async_compute()

    def local_compute(self) -> DeferrableMetrics:
        """The values of this rank's examples by key, of the batches until now."""
        self.wait_until_queue_is_empty(self.update_queue)
        with self._lock:
            return super().local_compute()

    def wait_until_queue_is_empty(self, metric_job_queue: queue.Queue[Any]) -> None:
        """Wait until all that was in a queue is done.

        Raises:
            RecMetricException: something failed.
        """
        while metric_job_queue.unfinished_tasks:
            self._check()
            time.sleep(_LOOK_SECONDS / 10)
        self._check()

    def sync(self) -> None:
        """Replace the states by those of all ranks together, after all batches until now; for checkpoints."""
        self.wait_until_queue_is_empty(self.update_queue)
        self.wait_until_queue_is_empty(self.compute_queue)
        with self._lock:
            super().sync()

    def unsync(self) -> None:
        """Take back the states of this rank."""
        with self._lock:
            super().unsync()

    def reset(self) -> None:
        """Forget all examples, after all batches until now."""
        self.wait_until_queue_is_empty(self.update_queue)
        with self._lock:
            super().reset()

    def state_dict(  # type: ignore[override]
        self, *args: Any, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """The states after all batches until now, under the keys that `RecMetricModule` has."""
        self.wait_until_queue_is_empty(self.update_queue)
        with self._lock:
            found: dict[str, Any] = super().state_dict(
                *args,
                destination=destination,  # type: ignore[arg-type]
                prefix=prefix,
                keep_vars=keep_vars,
            )
        for key in [key for key in found if key.startswith(f"{prefix}comms_module.")]:
            del found[key]
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Take over states, after all batches until now."""
        self.wait_until_queue_is_empty(self.update_queue)
        own = {name: one for name, one in self._modules.items() if name == "comms_module"}
        with self._lock:
            # The copy is filled before each computation, and has no state to load.
            del self._modules["comms_module"]
            try:
                return super().load_state_dict(state_dict, strict=strict, assign=assign)
            finally:
                self._modules.update(own)

    def shutdown(self) -> None:
        """Do all that waits, and stop the threads.

        Raises:
            RecMetricException: something failed.
        """
        for waiting in (self.update_queue, self.compute_queue):
            while waiting.unfinished_tasks and self._failure is None:
                time.sleep(_LOOK_SECONDS / 10)
        self._stopping.set()
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)
        if self._failure is not None:
            raise RecMetricException(f"Metrics failed in their thread: {self._failure}") from self._failure

    def _check(self) -> None:
        if self._failure is not None:
            raise RecMetricException(f"Metrics failed in their thread: {self._failure}") from self._failure
        if self._stopping.is_set():
            raise RecMetricException("The metric module is shut down; build another one.")

    def _work(self, waiting: queue.Queue[Any], done: Any) -> None:
        while not self._stopping.is_set():
            try:
                job = waiting.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            jobs = [job]
            try:
                jobs = self._together(waiting, job)
                done(jobs)
            except Exception as error:
                logger.exception("Metrics failed in the thread %s.", threading.current_thread().name)
                self._failure = error
                for one in jobs:
                    future = getattr(one, "future", None)
                    if future is not None and not future.done():
                        future.set_exception(error)
                self._refuse(waiting)
                return
            finally:
                for _ in jobs:
                    waiting.task_done()

    def _together(self, waiting: queue.Queue[Any], job: Any) -> list[Any]:
        """A job, and those that wait behind it and can be done along with it."""
        jobs = [job]
        while isinstance(jobs[-1], MetricUpdateJob) and len(jobs) < self._update_batch_size:
            try:
                jobs.append(waiting.get_nowait())
            except queue.Empty:
                break
        return jobs

    def _refuse(self, waiting: queue.Queue[Any]) -> None:
        """Nobody will do what waits; let those who wait for it know."""
        while True:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            if (future := getattr(job, "future", None)) is not None and not future.done():
                future.set_exception(RecMetricException(f"Metrics failed in their thread: {self._failure}"))
            waiting.task_done()

    def _take_in(self, jobs: list[MetricUpdateJob | SynchronizationMarker]) -> None:
        with self._lock:
            for job in _merged([job for job in jobs if isinstance(job, MetricUpdateJob)]):
                with torch.no_grad():
                    self._update_rec_metrics(job.model_out, **job.kwargs)
                for _ in range(job.merged_count if self.throughput_metric is not None else 0):
                    self.throughput_metric.update()  # type: ignore[union-attr]
            if isinstance(marker := jobs[-1], SynchronizationMarker):
                snapshot = MetricStateSnapshot.from_metrics(self.rec_metrics, self.throughput_metric)
                self.compute_queue.put(MetricComputeJob(marker.future, snapshot))

    def _compute_job(self, jobs: list[MetricComputeJob]) -> None:
        (job,) = jobs
        self.comms_module.load_local_metric_state_snapshot(job.metric_state_snapshot)
        job.future.set_result(self.comms_module.compute().resolve())


def _twin(metrics: RecMetricList, world_size: int) -> RecMetricList:
    """Metrics like these, which talk to other ranks by a group of the CPU that nobody else uses."""
    groups = {id(one.process_group): one.process_group for metric in metrics for one in metric._computations}
    twin = copy.deepcopy(metrics, {key: group for key, group in groups.items() if group is not None})
    if world_size > 1 and distributed_available():
        members = {key: dist.new_group(_ranks(group), backend="gloo") for key, group in groups.items()}
        for metric in twin:
            for computation in metric._computations:
                computation.process_group = members[id(computation.process_group)]
    return twin


def _ranks(group: dist.ProcessGroup | None) -> list[int] | None:
    return None if group is None else dist.get_process_group_ranks(group)


def _merged(jobs: list[MetricUpdateJob]) -> list[MetricUpdateJob]:
    """Neighbouring jobs as one, where their outputs can be joined example by example."""
    merged: list[MetricUpdateJob] = []
    for job in jobs:
        event = job.kwargs.pop("_event", None)
        if event is not None:
            event.synchronize()
        if merged and _alike(merged[-1], job):
            before = merged.pop()
            outputs = {name: torch.cat([value, job.model_out[name]]) for name, value in before.model_out.items()}
            job = MetricUpdateJob(outputs, job.kwargs, before.merged_count + 1)
        merged.append(job)
    return merged


def _cloned(value: Any) -> Any:
    """A copy of a tensor; what else outputs hold, such as names of sessions, does not change."""
    return value.clone() if isinstance(value, Tensor) else value


def _alike(first: MetricUpdateJob, second: MetricUpdateJob) -> bool:
    if first.kwargs or second.kwargs or first.model_out.keys() != second.model_out.keys():
        return False
    pairs: list[tuple[Any, Any]] = [(value, second.model_out[name]) for name, value in first.model_out.items()]
    return all(
        isinstance(a, Tensor) and isinstance(b, Tensor) and a.ndim and a.shape[1:] == b.shape[1:] and a.dtype == b.dtype
        for a, b in pairs
    )
