"""Pipes that read ahead in a thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from flambeau.data.datapipes.utils.pinning import pin_memory_fn

T_co = TypeVar("T_co", covariant=True)


class _End:
    """What the thread leaves when it is done: the source's end, or its exception."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Filling:
    """A thread that reads a source into a buffer of limited size, and can be stopped between two samples."""

    def __init__(self, read: Callable[[], Iterator[Any]], ready: deque[Any], size: int) -> None:
        self.ready = ready
        self.free = threading.Semaphore(max(size - len(ready), 1))
        self.available = threading.Semaphore(len(ready))
        self.reading = threading.Lock()  # held while a sample is on its way from the source into the buffer
        self.pauses = 0
        self.stopped = False
        self._read = read
        self.thread = threading.Thread(target=self._run, daemon=True, name="flambeau-prefetch")
        self.thread.start()

    def _run(self) -> None:
        try:
            source = self._read()
            while True:
                self.free.acquire()
                with self.reading:
                    if self.stopped:
                        return
                    item = next(source)
                    self.ready.append(item)
                    del item
                self.available.release()
        except StopIteration:
            self._finish(None)
        except BaseException as error:  # raised again in the thread that reads
            self._finish(error)

    def _finish(self, error: BaseException | None) -> None:
        self.ready.append(_End(error))
        self.available.release()

    def take(self) -> Any:
        if self.pauses and not self.ready:
            raise RuntimeError("nothing is left in the buffer, and reading ahead is paused; call resume().")
        self.available.acquire()
        item = self.ready.popleft()
        self.free.release()
        return item

    def pause(self) -> None:
        if not self.pauses:
            self.reading.acquire()
        self.pauses += 1

    def resume(self) -> None:
        self.pauses -= 1
        if not self.pauses:
            self.reading.release()

    def stop(self) -> None:
        self.stopped = True
        while self.pauses:
            self.resume()
        self.free.release()
        if self.thread is not threading.current_thread():
            self.thread.join()


@functional_datapipe("prefetch")
class PrefetcherIterDataPipe(IterDataPipe[T_co]):
    """Reads its source ahead in a thread (functional name: `prefetch`).

    Args:
        source_datapipe: source; read by the thread alone while a pass lasts.
        buffer_size: samples that are read ahead at most, > 0.
    """

    state_fields = ("_ready",)
    transient = ("_filling",)

    def __init__(self, source_datapipe: IterDataPipe[T_co], buffer_size: int = 10) -> None:
        if buffer_size <= 0:
            raise ValueError(f"buffer_size has to be > 0, got {buffer_size}.")
        self.source_datapipe = source_datapipe
        self.buffer_size = buffer_size
        self._filling: _Filling | None = None

    def reset(self) -> None:
        """Go back to the beginning."""
        self.shutdown()
        self._ready: deque[Any] = deque()

    def get_state(self) -> dict[str, Any]:
        """The samples that were read ahead."""
        return {"_ready": deque(item for item in self._ready if not isinstance(item, _End))}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over samples that were read ahead."""
        self.shutdown()
        super().set_state(state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._filling = None

    def __iter__(self) -> Iterator[T_co]:
        self.shutdown()
        self._filling = filling = _Filling(self._read, self._ready, self.buffer_size)
        try:
            while True:
                item = filling.take()
                if isinstance(item, _End):
                    if item.error is not None:
                        raise item.error
                    return
                yield item
        finally:
            filling.stop()
            if self._filling is filling:
                self._filling = None

    def _read(self) -> Iterator[Any]:
        return iter(self.source_datapipe)

    def pause(self) -> None:
        """Stop reading ahead, after the sample at work; what is in the buffer can still be read."""
        if self._filling is not None:
            self._filling.pause()

    def resume(self) -> None:
        """Read ahead again."""
        if self._filling is not None and self._filling.pauses:
            self._filling.resume()

    def shutdown(self) -> None:
        """End the thread, after the sample at work."""
        filling = getattr(self, "_filling", None)
        if filling is not None:
            self._filling = None
            filling.stop()

    def hold(self) -> None:
        """Stop reading ahead while a state is taken."""
        self.pause()

    def release(self) -> None:
        """Read ahead again."""
        self.resume()

    def __len__(self) -> int:
        return len(self.source_datapipe)  # type: ignore[arg-type]


@functional_datapipe("pin_memory")
class PinMemoryIterDataPipe(PrefetcherIterDataPipe[T_co]):
    """Copies samples into page-locked memory, one ahead, in a thread (functional name: `pin_memory`).

    Args:
        source_datapipe: source.
        device: the accelerator they will go to; the current one when None.
        pin_memory_fn: `pin_memory_fn(sample, device)` gives the pinned sample.
    """

    def __init__(
        self,
        source_datapipe: IterDataPipe[T_co],
        device: Any = None,
        pin_memory_fn: Callable[..., Any] = pin_memory_fn,
    ) -> None:
        super().__init__(source_datapipe, 1)
        self.device = device
        self.pin_memory_fn = pin_memory_fn

    def _read(self) -> Iterator[Any]:
        for sample in self.source_datapipe:
            yield self.pin_memory_fn(sample, self.device)
