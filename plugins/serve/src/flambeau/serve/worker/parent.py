"""`python -m flambeau.serve.worker.parent FD`: imports torch once, then forks workers whenever the front asks.

A worker that is forked from here starts in milliseconds and shares the libraries' memory. This process itself computes
nothing and touches no device, so that its children may. It ends with the front, and its children end with it.

The front asks (frames over the socket FD)::

    {"kind": "spawn", "key": n, "title", "env": {..}, "threads": n} with two descriptors: its socket, its output
    {"kind": "signal", "key": n, "signal": n, "group": bool}
    {"kind": "stop"}

and is told::

    {"kind": "up", "seconds": to import}          once
    {"kind": "spawned", "key", "pid"}
    {"kind": "ended", "key", "pid", "status"}     the exit code, or minus the signal
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import os
import select
import signal
import socket
import sys
import time
from importlib import import_module
from typing import Any, NoReturn

from flambeau.serve.wire.frames import FrameReader, send_frame

_PR_SET_PDEATHSIG = 1
_MOST_FDS = 8
# What every worker imports, whatever it loads.
_OURS = (
    "flambeau.core.weights.pretrained", "flambeau.serve.worker.process", "flambeau.serve.services.running",
    "flambeau.serve.handlers.running",
)  # fmt: skip
# What no worker needs to know.
SECRET_WORDS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY")


def main(words: list[str]) -> int:
    """Serve the front until it goes."""
    control = socket.socket(fileno=int(words[0]))
    os.set_inheritable(control.fileno(), False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to everybody; the front decides
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    start = time.monotonic()
    preload(words[1:])
    gc.collect()
    gc.freeze()  # pages of objects that never go stay shared with the children
    send_frame(control, {"kind": "up", "seconds": time.monotonic() - start})
    return Parent(control).run()


def preload(modules: list[str]) -> None:
    """Import what every worker needs, without touching a device; what fails here fails in the worker that needs it."""
    for name in ("torch", "numpy", *_OURS, *modules):
        with contextlib.suppress(Exception):
            import_module(name)
    with contextlib.suppress(Exception):  # what plugins register is read once, for all workers
        from flambeau.core.registry import MODELS, WEIGHTS

        WEIGHTS.entries()
        MODELS.entries()


class Parent:
    """The loop: what the front asks, and children that end."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._reader = FrameReader()
        self._keys: dict[int, int] = {}  # pid -> key
        self._received: list[int] = []
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)

    def run(self) -> int:
        """Until the front closes its end."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._wake_read:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake_read, 4096)
                    self._reap()
                elif not self._listen():
                    return 0

    def _reap(self) -> None:
        while self._keys:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            key = self._keys.pop(pid, None)
            if key is not None:
                code = os.waitstatus_to_exitcode(status)
                _end_group(pid)
                self._tell({"kind": "ended", "key": key, "pid": pid, "status": code})

    def _listen(self) -> bool:
        space = socket.CMSG_SPACE(_MOST_FDS * array.array("i").itemsize)
        data, ancillary, _, _ = self._control.recvmsg(65536, space)
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
                self._received.extend(fds)
        if not data:
            return False
        for frame in self._reader.feed(data):
            message = frame.message
            if message["kind"] == "stop":
                return False
            if message["kind"] == "spawn":
                self._spawn(message)
            elif message["kind"] == "signal":
                self._signal(message)
        return True

    def _spawn(self, message: dict[str, Any]) -> None:
        connection, output = self._received[:2]
        del self._received[:2]
        try:
            pid = os.fork()
        except OSError as error:  # no memory, too many processes
            os.close(connection)
            os.close(output)
            self._tell({"kind": "ended", "key": message["key"], "pid": 0, "status": 71, "cause": str(error)})
            return
        if pid == 0:
            self._become_worker(message, connection, output)
        os.close(connection)
        os.close(output)
        self._keys[pid] = message["key"]
        self._tell({"kind": "spawned", "key": message["key"], "pid": pid})

    def _become_worker(self, message: dict[str, Any], connection: int, output: int) -> NoReturn:
        status = 70
        try:
            signal.set_wakeup_fd(-1)
            for name in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(name, signal.SIG_DFL)
            os.close(self._wake_read)
            os.close(self._wake_write)
            self._control.close()
            for other in self._received:
                os.close(other)
            die_with(os.getppid())
            os.setsid()  # so that whatever it starts can be ended with it
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
            without_secrets(message.get("hidden", ()))
            os.environ.update(message.get("env", {}))
            from flambeau.serve.worker.process import work

            status = work(socket.socket(fileno=connection), message)
        except BaseException as error:  # whatever it is, this copy of the parent must not go on
            _report(error)
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def _signal(self, message: dict[str, Any]) -> None:
        # The pid is still the child's: nobody but this process reaps it.
        for pid, key in self._keys.items():
            if key == message["key"]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, message["signal"])
                if message.get("group"):
                    _end_group(pid)

    def _tell(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the front is gone; the next poll says so
            send_frame(self._control, message)


def die_with(parent: int) -> None:
    """Have this process killed when its parent ends, where the system can."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before
            os._exit(0)


def without_secrets(more: tuple[str, ...] | list[str]) -> None:
    """Take variables that look like secrets, and those named, out of the environment."""
    for name in list(os.environ):
        if name in more or any(word in name.upper() for word in SECRET_WORDS):
            del os.environ[name]


def _end_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _report(error: BaseException) -> None:
    import traceback

    if not isinstance(error, SystemExit):
        traceback.print_exception(error)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
