"""Serving in one process: requests of many threads are put together to batches, predicted, and answered one by one."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.inference.requests import PredictionRequest, SparseFeatures, combine, split

__all__ = ["BatchingPredictor", "PredictionRequest", "PredictorClosed", "QueueFull", "SparseFeatures", "Statistics"]

Answer = dict[str, Tensor]


class QueueFull(OptionError):
    """More requests wait than may; the caller should try again later, or elsewhere."""


class PredictorClosed(OptionError):
    """The predictor takes no requests any more."""


@dataclass(frozen=True)
class Statistics:
    """What a predictor did so far.

    Args:
        requests: answered ones.
        examples: of those.
        batches: that they made.
        failures: requests that were answered with an error.
        waiting: requests that wait now.
    """

    requests: int
    examples: int
    batches: int
    failures: int
    waiting: int


@dataclass
class _Waiting:
    request: PredictionRequest
    answer: Future[Answer]
    since: float


class BatchingPredictor:
    """Answers requests by a model that predicts batches.

    A batch begins with the request that has waited longest, and takes more until it has `max_batch_size` examples or
    that
    request has waited for `max_delay_s`. While one batch is being predicted the next one gathers.

    Args:
        model: takes a batch as `requests.combine` makes it, and gives predictions (examples, ...) by name, or one
            tensor,
            which is then called "default": a `PredictModule`, or what `export.load` returns.
        metadata: by name of a feature what the model takes: "dense", "sparse", "weighted_sparse", "embedding", or
            objects that have it as `type`, such as `BatchingMetadata`.
        max_batch_size: examples in a batch; a request with more makes a batch of its own.
        max_delay_s: seconds that a request waits for others at most.
        max_waiting: requests in the queue; more are refused.
        workers: threads that predict batches. One is right for models that use many threads themselves.

    Raises:
        OptionError: numbers out of range.

    Example:
        >>> with BatchingPredictor(lambda batch: batch["x"].sum(1), {"x": "dense"}) as predictor:
        ...     predictor.predict(PredictionRequest(1, dense={"x": torch.ones(1, 3)}))
        {'default': tensor([3.])}
    """

    def __init__(
        self,
        model: Callable[[dict[str, Tensor]], Any],
        metadata: Mapping[str, Any],
        *,
        max_batch_size: int = 512,
        max_delay_s: float = 0.002,
        max_waiting: int = 4096,
        workers: int = 1,
    ) -> None:
        for name, value in (("max_batch_size", max_batch_size), ("max_waiting", max_waiting), ("workers", workers)):
            if value < 1:
                raise OptionError(f"{name} is {value}, expected at least 1.")
        if max_delay_s < 0:
            raise OptionError(f"max_delay_s is {max_delay_s}, expected 0 or more seconds.")
        self._model = model
        self._kinds = {name: str(getattr(kind, "type", kind)) for name, kind in metadata.items()}
        self._max_batch_size, self._max_delay_s, self._max_waiting = max_batch_size, max_delay_s, max_waiting
        self._queue: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._open = True
        self._counts = dict.fromkeys(("requests", "examples", "batches", "failures"), 0)
        self._threads = [
            threading.Thread(target=self._work, name=f"flambeau-predictor-{at}", daemon=True) for at in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> BatchingPredictor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def submit(self, request: PredictionRequest) -> Future[Answer]:
        """Ask without waiting.

        Args:
            request: checked here, so that a bad one spoils nobody else's batch.

        Returns:
            What the answer will be; cancelling it before its batch begins takes the request back.

        Raises:
            OptionError: features that the model does not take.
            QueueFull: too many requests wait.
            PredictorClosed: after `close`.
        """
        request.check(self._kinds)
        waiting = _Waiting(request, Future(), time.monotonic())
        with self._changed:
            if not self._open:
                raise PredictorClosed("the predictor is closed; make another one.")
            if len(self._queue) >= self._max_waiting:
                raise QueueFull(
                    f"{len(self._queue)} requests wait, max_waiting is {self._max_waiting}; try again later."
                )
            self._queue.append(waiting)
            self._changed.notify()
        return waiting.answer

    def predict(self, request: PredictionRequest, timeout_s: float | None = None) -> Answer:
        """Ask, and wait for the answer.

        Args:
            request: features of some examples.
            timeout_s: seconds to wait at most.

        Returns:
            (batch_size, ...) by name of the prediction.

        Raises:
            TimeoutError: there was no answer in time; the request is taken back if its batch has not begun.
            Exception: whatever the model raised for its batch, and what `submit` raises.
        """
        answer = self.submit(request)
        try:
            return answer.result(timeout_s)
        except TimeoutError:
            answer.cancel()
            raise

    @property
    def statistics(self) -> Statistics:
        """What was done so far."""
        with self._changed:
            return Statistics(**self._counts, waiting=len(self._queue))

    def close(self) -> None:
        """Answer what waits, and take no more. May be called twice."""
        with self._changed:
            self._open = False
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            running = [one for one in batch if one.answer.set_running_or_notify_cancel()]
            if running:
                self._answer(running)

    def _next_batch(self) -> list[_Waiting] | None:
        """Requests that together are worth a prediction; None when there will be no more."""
        with self._changed:
            while True:
                if not self._queue:
                    if not self._open:
                        return None
                    self._changed.wait()
                    continue
                rest = self._queue[0].since + self._max_delay_s - time.monotonic()
                examples = sum(one.request.batch_size for one in self._queue)
                if rest <= 0 or examples >= self._max_batch_size or not self._open:
                    return self._take()
                self._changed.wait(rest)

    def _take(self) -> list[_Waiting]:
        batch, examples = [self._queue.popleft()], 0
        examples = batch[0].request.batch_size
        while self._queue and examples + self._queue[0].request.batch_size <= self._max_batch_size:
            examples += self._queue[0].request.batch_size
            batch.append(self._queue.popleft())
        return batch

    def _answer(self, batch: list[_Waiting]) -> None:
        try:
            answers = self._predict([one.request for one in batch])
        except Exception as error:  # it is the callers' to hear, and the thread must live on
            if len(batch) > 1:
                # One of them may be to blame, and the others are not.
                for one in batch:
                    self._answer([one])
                return
            self._count(failures=1)
            batch[0].answer.set_exception(error)
            return
        self._count(requests=len(batch), examples=sum(one.request.batch_size for one in batch), batches=1)
        for one, answer in zip(batch, answers, strict=True):
            one.answer.set_result(answer)

    def _predict(self, requests: list[PredictionRequest]) -> list[Answer]:
        with torch.inference_mode():
            predictions = self._model(combine(requests))
        named = {"default": predictions} if isinstance(predictions, Tensor) else dict(predictions)
        return split(named, [request.batch_size for request in requests])

    def _count(self, **more: int) -> None:
        with self._changed:
            for name, number in more.items():
                self._counts[name] += number
