"""Batches on their way to a device."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any

import torch

from flambeau.rec.distributed.train_pipeline.pipeline_context import TrainPipelineContext
from flambeau.rec.distributed.train_pipeline.postproc import PipelinedPostproc

__all__ = ["DataLoadingThread", "FutureDeque", "get_h2d_func", "use_context_for_postprocs"]


def get_h2d_func(batch: Any, device: torch.device) -> Any:
    """The batch on a device, without waiting."""
    return batch.to(device, non_blocking=True)


class FutureDeque(deque[Any]):
    """A queue that waits for entries which are futures when they are taken."""

    def pop(self) -> Any:  # type: ignore[override]
        """Take the last entry."""
        return _waited(super().pop())

    def popleft(self) -> Any:
        """Take the first entry."""
        return _waited(super().popleft())

    def __getitem__(self, at: Any) -> Any:
        entry = _waited(super().__getitem__(at))
        self[at] = entry
        return entry


def _waited(entry: Any) -> Any:
    return entry.result() if isinstance(entry, Future) else entry


@contextlib.contextmanager
def use_context_for_postprocs(
    pipelined_postprocs: list[PipelinedPostproc], next_batch_context: TrainPipelineContext
) -> Iterator[None]:
    """Within it, modules between a batch and tables work on the next batch."""
    before = [one.get_context() for one in pipelined_postprocs]
    for one in pipelined_postprocs:
        one.set_context(next_batch_context)
    try:
        yield
    finally:
        for one, context in zip(pipelined_postprocs, before, strict=True):
            one.set_context(context)


class DataLoadingThread(Thread):
    """Takes batches from an iterator and copies them to a device, one ahead.

    Args:
        device: where to.
        dataloader_iter: batches.
        to_device_non_blocking: whether copies are not waited for.
        memcpy_stream_priority: of the stream on which they are copied.
        memcpy_stream: that stream; one of its own on an accelerator by default.
    """

    def __init__(
        self,
        device: torch.device,
        dataloader_iter: Iterator[Any],
        to_device_non_blocking: bool,
        memcpy_stream_priority: int = 0,
        memcpy_stream: torch.Stream | None = None,
    ) -> None:
        super().__init__(name="DataLoadingThread", daemon=True)
        self._device, self._iterator, self._non_blocking = device, dataloader_iter, to_device_non_blocking
        self._stream = memcpy_stream
        if memcpy_stream is None and device.type == "cuda":
            self._stream = torch.cuda.Stream(device, priority=memcpy_stream_priority)
        self._ready: Queue[Any] = Queue(maxsize=1)
        self._stopped = Event()

    def run(self) -> None:
        """Take and copy until there are no batches, or until `stop`."""
        try:
            for batch in self._iterator:
                context = torch.cuda.stream(self._stream) if self._device.type == "cuda" else contextlib.nullcontext()  # type: ignore[arg-type]
                with context:
                    self._put(("batch", batch.to(self._device, non_blocking=self._non_blocking)))
                if self._stopped.is_set():
                    return
            self._put(("end", None))
        except Exception as error:  # raised again where the batch is asked for
            self._put(("error", error))

    def _put(self, entry: tuple[str, Any]) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(Full):  # whoever takes batches is not there yet, or never comes again
                self._ready.put(entry, timeout=0.1)
                return

    def stop(self) -> None:
        """Take no further batch."""
        self._stopped.set()

    def get_next_batch(self, none_throws: bool = False) -> Any:
        """The next batch; None at the end.

        Args:
            none_throws: whether the end is a StopIteration instead.
        """
        while True:
            try:
                kind, content = self._ready.get(timeout=0.1)
                break
            except Empty:
                if self._stopped.is_set():
                    kind, content = "end", None
                    break
        if kind == "error":
            raise content
        if kind == "end":
            self._put(("end", None))  # asked for again, it is still the end
            if none_throws:
                raise StopIteration
            return None
        return content
