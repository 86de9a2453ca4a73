"""The queue of one version, and its workers: which request goes when, with which others, to whom."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from flambeau.serve.engine.work import Work
from flambeau.serve.engine.worker import Batch, Worker
from flambeau.serve.errors import DeadlineExceeded, HandlerFailed, RequestError, Unavailable, WorkerDied

if TYPE_CHECKING:
    from flambeau.serve.engine.observer import Observer
    from flambeau.serve.engine.parent import ParentProcess
    from flambeau.serve.engine.settings import VersionSettings
    from flambeau.serve.wire.messages import Answer

__all__ = ["Pool"]

# A request whose worker ended so often while it was alone there ends workers itself.
_MOST_DEATHS = 3


class Pool:
    """Requests to one version of a model, from the queue to their answers.

    A batch that fails is not given up: it goes back to the head of the queue and is run in halves, so that only the
    requests at fault fail. A request is answered once, whatever becomes of its workers.

    Args:
        name, version: of the model.
        spec: what a worker loads; see `worker.running.opened`.
        order: how a worker is started; see `ParentProcess.spawn`.
        settings: how it is run.
        parent: where workers are forked from.
        observer: told what happens.
        numbers: gives workers' numbers.
    """

    def __init__(
        self,
        name: str,
        version: str,
        spec: dict[str, Any],
        order: dict[str, Any],
        settings: VersionSettings,
        parent: ParentProcess,
        observer: Observer,
        numbers: Callable[[], int],
    ) -> None:
        self.name, self.version = name, version
        self.spec, self.order, self.settings = spec, order, settings
        self.workers: list[Worker] = []
        self.lacking_since: float | None = None  # since when fewer workers live than min_workers asks for
        self._parent = parent
        self._observer = observer
        self._numbers = numbers
        self._queue: deque[Work] = deque()
        self._idle: deque[Worker] = deque()
        self._changed = asyncio.Event()  # a worker became ready, or was given up
        self._timer: asyncio.TimerHandle | None = None
        self._batches = 0
        self._closed = False

    # --- requests ---------------------------------------------------------------------------------------------------

    def submit(self, work: Work) -> None:
        """Take on a request.

        Raises:
            Unavailable: there is no worker, or the queue is full.
        """
        # What came for one that ended waits for the one in its place, and so may this.
        if self._closed or not (self.live or any(worker.comes_back for worker in self.workers)):
            raise Unavailable(self._no_worker(), retry_after_s=1.0)
        if len(self._queue) >= self.settings.queue_size:
            raise Unavailable(
                f'The queue of model "{self.name}" is full: {len(self._queue)} requests wait. Try again later, or let '
                "it have more workers or a longer queue (job_queue_size).",
                retry_after_s=max(1.0, self._expected_wait()),
            )
        loop = asyncio.get_running_loop()
        if work.deadline is not None:
            work.timer = loop.call_later(max(0.0, work.deadline - time.monotonic()), self._expired, work)
        self._queue.append(work)
        self._pump()

    def abandon(self, work: Work) -> None:
        """The client has gone: what waits is not computed, what streams is told to stop."""
        if work.finished:
            return
        work.abandon()
        self._stop_computing(work)

    @property
    def pending(self) -> int:
        """How many requests wait."""
        return len(self._queue)

    @property
    def running(self) -> int:
        """How many requests are being answered."""
        return sum(len(worker.batch.works) for worker in self.workers if worker.batch is not None)

    # --- workers ----------------------------------------------------------------------------------------------------

    @property
    def live(self) -> int:
        """How many workers have loaded the model."""
        return sum(worker.state in ("ready", "busy") for worker in self.workers)

    def scale(self, count: int) -> list[asyncio.Task[None]]:
        """Have so many workers. New ones start loading; those that are too many end what they do.

        Returns:
            Tasks that end when the surplus workers are gone.
        """
        for _ in range(count - len(self.workers)):
            self.workers.append(Worker(self, self._parent, self._numbers()))
        surplus = self.workers[count:]
        del self.workers[count:]
        self._look_at_workers()
        loop = asyncio.get_running_loop()
        return [loop.create_task(worker.leave()) for worker in surplus]

    async def until_ready(self) -> str | None:
        """Wait until every worker has loaded; returns why one could not, at the first failure, else None."""
        while True:
            self._changed.clear()
            for worker in self.workers:
                if worker.cause is not None and worker.state not in ("ready", "busy") and not worker.comes_back:
                    return worker.cause
            if all(worker.state in ("ready", "busy") for worker in self.workers):
                return None
            await self._changed.wait()

    async def close(self, timeout_s: float = 120.0) -> None:
        """Answer what was accepted, then end the workers.

        Args:
            timeout_s: after this, what is left is answered with an error.
        """
        self._closed = True
        end = time.monotonic() + timeout_s
        while (self._queue or self.running) and time.monotonic() < end:
            if not (self.live or any(worker.comes_back for worker in self.workers)):
                break
            await asyncio.sleep(0.01)
        left = max(0.1, end - time.monotonic())
        await asyncio.gather(*(worker.leave(left) for worker in self.workers))
        for work in self._queue:
            work.fail(Unavailable(self._no_worker()))
        self._queue.clear()

    # --- called by workers ------------------------------------------------------------------------------------------

    def ready(self, worker: Worker) -> None:
        """The worker can take a batch."""
        worker.state = "ready"
        self._idle.append(worker)
        self._look_at_workers()
        self._pump()

    def forget(self, worker: Worker) -> None:
        """The worker can take none."""
        if worker in self._idle:
            self._idle.remove(worker)

    def restarted(self, worker: Worker) -> None:
        """The worker's process has ended; another will be started."""
        self._observer.worker_ended(self, worker)
        self._look_at_workers()

    def gave_up(self, worker: Worker) -> None:
        """The worker could not be started for so long that nobody tries any more."""
        self._observer.worker_given_up(self, worker)
        self._look_at_workers()

    def say(self, worker: Worker, line: str) -> None:
        """The worker printed a line."""
        self._observer.worker_said(self, worker, line)

    def answered(self, worker: Worker, batch: Batch, answers: list[Answer], message: dict[str, Any]) -> None:
        """The batch's answers are there."""
        now = time.monotonic()
        for work, answer in zip(batch.works, answers, strict=True):
            work.answer(answer)
            self._observer.answered(self, work, now)
        self._observer.batch_done(self, worker, batch, message)

    def raised(self, batch: Batch, message: dict[str, Any]) -> None:
        """The model's code raised for the whole batch."""

        def error() -> RequestError:
            return HandlerFailed(message["error"], status=message["status"], name=message["name"])

        if len(batch.works) == 1 or all(work.sent for work in batch.works):
            for work in batch.works:
                work.fail(error())
        else:
            self._again(batch.works, error)
        self._pump()

    def died(self, batch: Batch, status: int | None, why: str) -> None:
        """A worker ended while it had the batch."""

        def error() -> RequestError:
            if status == -9 and not why:
                return WorkerDied("Worker died. (killed by signal 9)", status=507)
            return WorkerDied("Worker died.")

        if len(batch.works) == 1:
            batch.works[0].deaths += 1
        self._again(batch.works, error)
        self._pump()

    def timed_out(self, batch: Batch) -> None:
        """The batch took longer than a response may; its worker is being ended."""
        for work in batch.works:
            work.fail(WorkerDied("Worker died."))

    # --- batches ----------------------------------------------------------------------------------------------------

    def _again(self, works: list[Work], error: Callable[[], RequestError]) -> None:
        """Put what failed back to the head of the queue, to be run in halves; what has had its chances fails."""
        most = max(1, len(works) // 2)
        left = []
        for work in works:
            if work.finished:
                continue
            if work.sent or work.deaths >= _MOST_DEATHS:
                work.fail(error())
                continue
            work.most_together = most
            left.append(work)
        self._queue.extendleft(reversed(left))

    def _pump(self) -> None:
        """Give batches to idle workers, as long as there are both."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._idle and self._queue:
            works, wait = self._next()
            if not works:
                if wait > 0:
                    self._timer = asyncio.get_running_loop().call_later(wait, self._pump)
                return
            self._batches += 1
            self._idle.popleft().execute(Batch(self._batches, works))

    def _next(self) -> tuple[list[Work], float]:
        """The next batch, taken off the queue; or none, and how long its first request may wait for others."""
        while self._queue and self._queue[0].finished:
            self._queue.popleft()
        if not self._queue:
            return [], 0.0
        head = self._queue[0]
        if head.item.call == "describe":
            return [self._queue.popleft()], 0.0
        most = min(self.settings.batch_size, head.most_together)
        chosen = list(self._chosen(head, most))
        full = len(chosen) >= most or head.most_together < self.settings.batch_size
        wait = head.arrived + self.settings.max_batch_delay_ms / 1000 - time.monotonic()
        if not full and wait > 0:
            return [], wait
        taken = set(map(id, chosen))
        self._queue = deque(work for work in self._queue if id(work) not in taken and not work.finished)
        return chosen, 0.0

    def _chosen(self, head: Work, most: int) -> Iterable[Work]:
        """The head of the queue and those that go with it, in order."""
        count = 0
        for work in self._queue:
            if count >= most:
                return
            if work.finished or work.item.call == "describe" or (work is not head and work.most_together < most):
                continue
            count += 1
            yield work

    def _expired(self, work: Work) -> None:
        work.timer = None
        if work.fail(DeadlineExceeded("The request's time was over before its answer was there.")):
            self._observer.expired(self, work)
            self._stop_computing(work)

    def _stop_computing(self, work: Work) -> None:
        for worker in self.workers:
            if worker.batch is not None and work in worker.batch.works:
                worker.cancel(work.item.id)
        if work in self._queue:
            self._queue.remove(work)

    def _expected_wait(self) -> float:
        return self._observer.seconds_per_batch(self) * len(self._queue) / max(1, self.live * self.settings.batch_size)

    def _no_worker(self) -> str:
        text = f'Model "{self.name}" has no worker to serve inference request. Use scale workers API to add workers.'
        causes = [worker.cause for worker in self.workers if worker.cause]
        return f"{text} A worker could not be started." if causes else text

    def _look_at_workers(self) -> None:
        self._changed.set()
        if self.live >= self.settings.min_workers:
            self.lacking_since = None
        elif self.lacking_since is None:
            self.lacking_since = time.monotonic()
