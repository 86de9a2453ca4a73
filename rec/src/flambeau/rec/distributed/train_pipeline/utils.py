"""Batches on their way to a device."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any

import torch

from flambeau.rec.distributed.train_pipeline._streams import current_stream, keep_for, waited
from flambeau.rec.distributed.train_pipeline.pipeline_context import PrefetchTrainPipelineContext, TrainPipelineContext
from flambeau.rec.distributed.train_pipeline.postproc import PipelinedPostproc
from flambeau.rec.distributed.types import ShardedModule

__all__ = ["DataLoadingThread", "FutureDeque", "get_h2d_func", "prefetch_embeddings", "use_context_for_postprocs"]


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


def prefetch_embeddings(
    context: PrefetchTrainPipelineContext,
    pipelined_modules: list[ShardedModule[Any, Any, Any, Any]],
    device: torch.device,
    stream_context: Callable[[Any], contextlib.AbstractContextManager[Any]],
    data_dist_stream: Any,
    forward_stream: Any,
) -> None:
    """Wait for the features of a batch, and fetch the rows of tables that it will need.

    Args:
        context: of the batch; it keeps features and rows.
        pipelined_modules: whose features were sent; their forwards are those of a pipeline.
        device: of the tables.
        stream_context: within its result, kernels are put on the stream that it is given.
        data_dist_stream: on which features were sent; None on the CPU.
        forward_stream: on which the model is computed; None on the CPU.
    """
    for module in pipelined_modules:
        name: str = module.forward.name  # type: ignore[attr-defined]
        with stream_context(data_dist_stream):
            features = context.input_dist_tensors_requests.pop(name).wait()
        module_context = context.module_contexts.pop(name)
        stream = current_stream(device)
        waited(stream, data_dist_stream)
        keep_for([features, module_context], stream)
        keep_for([features, module_context], forward_stream)
        module.prefetch(features, forward_stream=forward_stream, ctx=module_context)
        context.module_input_post_prefetch[name] = features
        context.module_contexts_post_prefetch[name] = module_context


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
