"""The front's side of the process that workers are forked from."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.serve.errors import StartError
from flambeau.serve.wire.frames import FrameReader, frame_bytes

__all__ = ["Ended", "ParentProcess"]


class Ended:
    """How a process ended.

    Attributes:
        status: the exit code, or minus the signal's number; None where nobody could tell.
        cause: what the system said, where it could not be started.
    """

    __slots__ = ("cause", "status")

    def __init__(self, status: int | None, cause: str = "") -> None:
        self.status = status
        self.cause = cause

    def __str__(self) -> str:
        if self.cause:
            return self.cause
        if self.status is None:
            return "ended"
        if self.status < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-self.status).name}"
            return f"killed by signal {-self.status}"
        return f"exit code {self.status}"


class ParentProcess:
    """Starts the parent, asks it for workers, hears how they end. It is started anew when it should end itself.

    Args:
        preload: modules that the parent imports beside torch.
        on_lost: called when the parent has ended although nobody asked it to; its workers ended with it.
    """

    def __init__(self, preload: Sequence[str] = (), on_lost: Callable[[], None] = lambda: None) -> None:
        self._preload = list(preload)
        self._on_lost = on_lost
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._reader = FrameReader()
        self._next_key = 0
        self._waiting: dict[int, asyncio.Future[Ended]] = {}
        self._pids: dict[int, int] = {}
        self._outgoing: deque[tuple[bytes, list[int]]] = deque()
        self.import_seconds: float | None = None

    @property
    def pid(self) -> int | None:
        """Of the parent; None while there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it; returns at once, while it imports torch.

        Raises:
            StartError: the process could not be started.
        """
        ours, theirs = socket.socketpair()
        words = [sys.executable, "-m", "flambeau.serve.worker.parent", str(theirs.fileno()), *self._preload]
        try:
            self._process = subprocess.Popen(
                words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            ours.close()
            raise StartError(f"the workers' parent cannot be started: {error}") from error
        finally:
            theirs.close()
        ours.setblocking(False)
        self._socket, self._reader = ours, FrameReader()
        asyncio.get_running_loop().add_reader(ours.fileno(), self._heard)

    def spawn(self, connection: socket.socket, output: int, order: dict[str, Any]) -> tuple[int, asyncio.Future[Ended]]:
        """Have a worker forked.

        Args:
            connection: the worker's end of its socket; closed here.
            output: descriptor that its standard output and error go to; closed here.
            order: `threads`, `memory`, `env`, `hidden` (see the parent).

        Returns:
            Its key, and a future of how it ended.
        """
        if self._socket is None:
            self.start()
        self._next_key += 1
        key = self._next_key
        ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._waiting[key] = ended
        data = b"".join(frame_bytes({"kind": "spawn", "key": key, **order}))
        self._send(data, [connection.detach(), output])
        return key, ended

    def signal(self, key: int, number: int, *, group: bool = False) -> None:
        """Send a signal to a worker, and SIGKILL to all that it started if `group`; nothing if it has ended."""
        if key in self._waiting and self._socket is not None:
            message = {"kind": "signal", "key": key, "signal": int(number), "group": group}
            self._send(b"".join(frame_bytes(message)), [])

    def pid_of(self, key: int) -> int | None:
        """The process id of a worker that lives."""
        return self._pids.get(key)

    async def stop(self) -> None:
        """End it, and all workers that still live."""
        process, self._process = self._process, None
        self._close()
        if process is not None:
            for _ in range(200):
                if process.poll() is not None:
                    break
                await asyncio.sleep(0.01)
            else:
                process.kill()
                process.wait()
        self._all_ended(Ended(None))

    def _send(self, data: bytes, descriptors: list[int]) -> None:
        self._outgoing.append((data, descriptors))
        self._flush()

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while self._outgoing and self._socket is not None:
            data, descriptors = self._outgoing[0]
            try:
                sent = socket.send_fds(self._socket, [data], descriptors) if descriptors else self._socket.send(data)
            except BlockingIOError:
                loop.add_writer(self._socket.fileno(), self._flush)
                return
            except OSError:  # it has ended; what it says last tells
                return
            for descriptor in descriptors:
                os.close(descriptor)
            if sent < len(data):
                self._outgoing[0] = (data[sent:], [])
            else:
                self._outgoing.popleft()
        if self._socket is not None:
            loop.remove_writer(self._socket.fileno())

    def _heard(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        for frame in self._reader.feed(data):
            message = frame.message
            if message["kind"] == "up":
                self.import_seconds = message["seconds"]
            elif message["kind"] == "spawned":
                self._pids[message["key"]] = message["pid"]
            elif message["kind"] == "ended":
                self._pids.pop(message["key"], None)
                ended = self._waiting.pop(message["key"], None)
                if ended is not None and not ended.done():
                    ended.set_result(Ended(message["status"], message.get("cause", "")))

    def _lost(self) -> None:
        process, self._process = self._process, None
        self._close()
        if process is not None:
            process.wait()
        self._all_ended(Ended(None, "the workers' parent process ended"))
        self._on_lost()

    def _all_ended(self, how: Ended) -> None:
        waiting, self._waiting = self._waiting, {}
        self._pids.clear()
        for ended in waiting.values():
            if not ended.done():
                ended.set_result(how)

    def _close(self) -> None:
        if self._socket is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._socket.fileno())
            loop.remove_writer(self._socket.fileno())
            self._socket.close()
            self._socket = None
        for _, descriptors in self._outgoing:
            for descriptor in descriptors:
                os.close(descriptor)
        self._outgoing.clear()
