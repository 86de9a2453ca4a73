"""What a worker does: load a model, answer batches, until its socket closes.

The front says (frames)::

    {"kind": "load", "spec": {..}}                       first; see `Spec`
    {"kind": "run", "batch": n, "requests": [..]}        see `messages`
    {"kind": "cancel", "requests": [id]}                 their clients are gone, or their time is over
    {"kind": "stop"}

and is told::

    {"kind": "ready", "info": {..}, "seconds": n}  or  {"kind": "failed", "error": str, "name": str}
    {"kind": "part", "request": id, "media_type": str}   with one part: a piece of a streamed answer
    {"kind": "done", "batch": n, "answers": [..], "seconds": n, "rss": n, "metrics": [..]}
    {"kind": "raised", "batch": n, "error": str, "status": n, "name": str}
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from pathlib import Path
from typing import Any

from flambeau.serve.wire.frames import Frame, receive_frame, send_frame
from flambeau.serve.wire.messages import pack_answers, unpack_batch
from flambeau.serve.worker.running import OutOfResources, Running, Streams, opened

__all__ = ["work"]


def work(connection: socket.socket, order: dict[str, Any]) -> int:
    """Answer the front until it stops this worker; returns the exit status.

    Args:
        connection: the socket to the front.
        order: `threads`: how many torch may use; `memory`: the most bytes of address space to take, or None.
    """
    import torch

    torch.set_num_threads(max(1, int(order.get("threads") or 1)))
    if order.get("memory"):
        resource.setrlimit(resource.RLIMIT_AS, (int(order["memory"]), int(order["memory"])))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    return _Worker(connection).run()


class _Worker:
    """One model. Frames are read by the thread that computes, so that a request costs no change of threads; another one
    only waits for the front to go.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._waiting: deque[Frame] = deque()
        self._cancelled: set[str] = set()
        self._running: Running | None = None

    def run(self) -> int:
        threading.Thread(target=_end_with, args=(self._connection,), name="front", daemon=True).start()
        while True:
            frame = self._waiting.popleft() if self._waiting else receive_frame(self._connection)
            if frame is None or frame.message["kind"] == "stop":
                return 0
            if frame.message["kind"] == "cancel":
                continue  # of a batch that has ended
            if frame.message["kind"] == "load":
                if not self._load(frame.message["spec"]):
                    return 1
            elif frame.message["kind"] == "run":
                self._run(frame)

    def _is_cancelled(self, request: str) -> bool:
        """Look at what the front has said meanwhile."""
        while select.select([self._connection], [], [], 0)[0]:
            frame = receive_frame(self._connection)
            if frame is None:
                os._exit(0)
            if frame.message["kind"] == "cancel":
                self._cancelled.update(frame.message["requests"])
            else:
                self._waiting.append(frame)
        return request in self._cancelled

    def _send(self, message: dict[str, Any], parts: list[bytes] | None = None) -> None:
        with self._lock:
            send_frame(self._connection, message, parts or [])

    def _load(self, spec: dict[str, Any]) -> bool:
        start = time.monotonic()
        try:
            self._running = opened(spec)
        except BaseException as error:  # a stranger's code may raise anything, SystemExit too
            traceback.print_exc()
            self._send({"kind": "failed", "error": _sentence(error), "name": type(error).__name__})
            return False
        gc.collect()
        gc.freeze()
        self._send({"kind": "ready", "info": self._running.info, "seconds": time.monotonic() - start})
        return True

    def _run(self, frame: Frame) -> None:
        number, start = frame.message["batch"], time.monotonic()
        items = unpack_batch(frame)
        streams = Streams(self._part, self._is_cancelled)
        self._cancelled.clear()
        assert self._running is not None  # the front loads before it asks
        try:
            answers = self._running.answer(items, streams)
            if len(answers) != len(items):
                raise ValueError("number of batch response mismatched")
        except SystemExit:
            raise
        except BaseException as error:
            traceback.print_exc()
            status, name, text = _failure(error)
            self._send({"kind": "raised", "batch": number, "error": text, "status": status, "name": name})
            return
        message, parts = pack_answers(
            number, answers, seconds=time.monotonic() - start, rss=_rss(), metrics=self._running.metrics()
        )
        self._send(message, parts)

    def _part(self, request: str, data: bytes, media_type: str) -> None:
        self._send({"kind": "part", "request": request, "media_type": media_type}, [data])


def _end_with(connection: socket.socket) -> None:
    """Wait until the front has closed its end, and end this process at once then, whatever it computes."""
    watch = select.poll()
    watch.register(connection, getattr(select, "POLLRDHUP", 0))  # POLLHUP is always told
    watch.poll()
    with contextlib.suppress(OSError):
        os.killpg(0, signal.SIGKILL)  # this process leads its group
    os._exit(0)


def _failure(error: BaseException) -> tuple[int, str, str]:
    """Status, type and text of a batch that raised."""
    if isinstance(error, (MemoryError, OutOfResources)) or "CUDA" in str(error):
        return 507, "InternalServerException", "Out of resources"
    return 503, "InternalServerException", "Prediction failed"


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _rss() -> int:
    """Bytes of memory that are resident now."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
