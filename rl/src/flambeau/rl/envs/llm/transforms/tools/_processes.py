"""Processes of their own for the code that models write: limited in time, memory and output, ended without trace."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from pathlib import Path
from typing import Any

__all__ = ["PersistentPythonProcess", "PythonExecutorService", "run_python"]

MEMORY_LIMIT = 2 << 30
"""Bytes of address space that a process may take."""
OUTPUT_LIMIT = 1 << 20
"""Bytes of each standard stream that are read back."""
STARTING_S = 120.0
"""Seconds that a process may take to begin."""
_PROGRAM = Path(__file__).with_name("_interpreter.py")
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT")


class PersistentPythonProcess:
    r"""A Python interpreter in a process of its own, which runs blocks of code one after the other, with one scope.

    The process has a session, a working folder and an environment of its own: no variable of this process but those
    that programs are found by, so that no credential is passed on. It may take 2 GiB of memory; 1 MiB of each of its
    streams is read back. After a block that takes too long it, with whatever processes it began, is killed and a new
    one begun, whose variables are gone. This keeps a model's mistakes from harming the run; against code that is meant
    to do harm run the whole in a container without network.

    Args:
        timeout: seconds that a block of code may take.

    Example:
        >>> process = PersistentPythonProcess()
        >>> process.execute("x = 2")["success"], process.execute("print(x + 1)")["stdout"]
        (True, '3\n')
        >>> process.cleanup()
    """

    def __init__(self, timeout: float = 10.0) -> None:
        self.timeout = timeout
        self._lock = threading.Lock()
        self._running: _Running | None = _Running()
        self._finalizer = weakref.finalize(self, _end, [self._running])

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """The process; None once it was cleaned up."""
        return None if self._running is None else self._running.process

    def execute(self, prompt: str) -> dict[str, Any]:
        """Run a block of code.

        Args:
            prompt: Python.

        Returns:
            "success", whether no exception was raised; "stdout" and "stderr"; "returncode", 0 or 1, or -1 if the block
            took too long or the process was cleaned up.
        """
        with self._lock:
            if self._running is None:
                return _failure("The process was cleaned up.")
            found = self._running.execute(prompt, self.timeout)
            if found is None:
                found = _failure(f"The code took longer than {self.timeout} s; the process was begun anew.")
            if not self._running.alive():
                if found["success"]:
                    found = _failure("The process ended; it was begun anew.")
                self._restart()
            return found

    def _restart(self) -> None:
        self._finalizer()
        self._running = _Running()
        self._finalizer = weakref.finalize(self, _end, [self._running])

    def cleanup(self) -> None:
        """End the process, and what it began. A second call does nothing."""
        with self._lock:
            self._finalizer()
            self._running = None


class PythonExecutorService:
    """Several Python processes that many environments share, in turn; as an actor of Ray, or in this process.

    Args:
        pool_size: of processes.
        timeout: seconds that a block of code may take.
    """

    def __init__(self, pool_size: int = 32, timeout: float = 10.0) -> None:
        if pool_size < 1:
            raise ValueError(f"pool_size is at least 1; got {pool_size}.")
        self.pool_size = pool_size
        self.timeout = timeout
        self.processes = [PersistentPythonProcess(timeout) for _ in range(pool_size)]
        self.next_idx = 0
        self._lock = threading.Lock()

    def execute(self, code: str) -> dict[str, Any]:
        """Run code in the next of the processes.

        Args:
            code: Python.

        Returns:
            As `PersistentPythonProcess.execute`.
        """
        with self._lock:
            process = self.processes[self.next_idx]
            self.next_idx = (self.next_idx + 1) % self.pool_size
        return process.execute(code)

    def cleanup(self) -> None:
        """End all processes."""
        for process in self.processes:
            process.cleanup()


def run_python(code: str, timeout: float) -> dict[str, Any]:
    """Run code in a process that ends with it.

    Args:
        code: Python.
        timeout: seconds that it may take.

    Returns:
        As `PersistentPythonProcess.execute`.
    """
    running = _Running()
    try:
        found = running.execute(code, timeout)
    finally:
        _end([running])
    return _failure(f"The code took longer than {timeout} s.") if found is None else found


class _Running:
    """One process with its pipes and its folder."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="flambeau-python-")
        asked, ask = os.pipe()
        answered, answer = os.pipe()
        try:
            # -I: neither variables of the environment nor the working folder say what is imported.
            self.process = subprocess.Popen(
                [sys.executable, "-I", str(_PROGRAM), str(asked), str(answer), str(MEMORY_LIMIT), str(OUTPUT_LIMIT)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(asked, answer),
                cwd=self.folder,
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
                | {"HOME": self.folder, "TMPDIR": self.folder},
                start_new_session=True,
            )
        except BaseException:
            os.close(ask)
            os.close(answered)
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        finally:
            os.close(asked)
            os.close(answer)
        self.ask, self.answers = ask, answered
        self._ready = False

    def alive(self) -> bool:
        return self.process.poll() is None

    def execute(self, code: str, timeout: float) -> dict[str, Any] | None:
        """What came of a block; None if it took too long, and the process is dead then."""
        body = code.encode("utf-8", "backslashreplace")
        try:
            if not self._ready:
                # Interpreters may take long to begin on a busy machine; no block is to blame for that.
                self._read(1, time.monotonic() + STARTING_S)
                self._ready = True
            deadline = time.monotonic() + timeout
            self._write(struct.pack("<I", len(body)) + body, deadline)
            failed, out, err = struct.unpack("<BII", self._read(9, deadline))
            # What comes from there may be anything.
            if max(out, err) > 2 * OUTPUT_LIMIT:
                raise EOFError
            stdout, stderr = self._read(out, deadline), self._read(err, deadline)
        except TimeoutError:
            _kill(self.process)
            return None
        except (EOFError, BrokenPipeError):
            _kill(self.process)
            return _failure(f"The process ended with return code {self.process.returncode}.", 1)
        return {
            "success": not failed,
            "stdout": stdout.decode("utf-8", "replace"),
            "stderr": stderr.decode("utf-8", "replace"),
            "returncode": int(bool(failed)),
        }

    def _write(self, body: bytes, deadline: float) -> None:
        view = memoryview(body)
        os.set_blocking(self.ask, False)
        while view:
            _wait([], [self.ask], deadline)
            view = view[os.write(self.ask, view) :]

    def _read(self, size: int, deadline: float) -> bytes:
        found = bytearray()
        while len(found) < size:
            _wait([self.answers], [], deadline)
            part = os.read(self.answers, size - len(found))
            if not part:
                raise EOFError
            found += part
        return bytes(found)


def _wait(readable: list[int], writable: list[int], deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0 or not any(select.select(readable, writable, [], left)[:2]):
        raise TimeoutError


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The process, and all of its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end(holder: list[_Running]) -> None:
    running = holder[0]
    _kill(running.process)
    for descriptor in (running.ask, running.answers):
        with contextlib.suppress(OSError):
            os.close(descriptor)
    shutil.rmtree(running.folder, ignore_errors=True)


def _failure(why: str, returncode: int = -1) -> dict[str, Any]:
    return {"success": False, "stdout": "", "stderr": why, "returncode": returncode}
