"""A child process whose end is certain: its messages are drained, it is always ended and always reaped."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import IO, Any

from flambeau.audio.io._errors import MediaError
from flambeau.audio.io._program import LOG

_TAIL_BYTES = 64 * 1024
_PATIENCE_S = 2.0


class Messages:
    """The end of what a program wrote to its standard error, and how many lines that was."""

    def __init__(self) -> None:
        self.count = 0
        self._lines: deque[str] = deque()
        self._size = 0
        self._lock = threading.Lock()

    def add(self, line: str) -> None:
        """Keep a line; the oldest ones go when there are too many."""
        if LOG.level >= 16:
            sys.stderr.write(f"ffmpeg: {line}\n")
        with self._lock:
            self.count += 1
            self._lines.append(line[:4096])
            self._size += len(self._lines[-1])
            while self._size > _TAIL_BYTES:
                self._size -= len(self._lines.popleft())

    def lines(self) -> list[str]:
        """The lines kept, oldest first."""
        with self._lock:
            return list(self._lines)

    def tail(self, most: int = 12) -> str:
        """The last lines in one text."""
        return "\n".join(self.lines()[-most:])


class Child:
    """A running program.

    Args:
        command: program and arguments.
        pass_fds: descriptors that the child inherits; this process' copies are closed here, also when it fails.
        stdin: whether the child reads from us; its pipe is then `stdin`.
        stdout: whether we read what the child prints; its pipe is then `stdout`.

    Raises:
        MediaError: the program cannot be started.
    """

    def __init__(
        self, command: Sequence[str], *, pass_fds: Sequence[int] = (), stdin: bool = False, stdout: bool = False
    ) -> None:
        self.command = list(command)
        self.messages = Messages()
        # A group of its own: Ctrl-C in a terminal then reaches us alone, and we decide how the child ends.
        group: dict[str, Any] = {"process_group": 0}
        if sys.platform == "win32":
            group = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        try:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE if stdout else subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=tuple(pass_fds),
                bufsize=0,
                **group,
            )
        except OSError as error:
            raise MediaError(f"{self.command[0]} cannot be started: {error}. Check the file and its rights.") from error
        finally:
            for descriptor in pass_fds:
                os.close(descriptor)
        self.stdin: IO[bytes] | None = self.process.stdin
        self.stdout: IO[bytes] | None = self.process.stdout
        errors = self.process.stderr
        assert errors is not None
        # An unread pipe of messages would stop the program as soon as it is full.
        self._drain = threading.Thread(target=_drain, args=(errors, self.messages), name="ffmpeg-messages", daemon=True)
        self._drain.start()
        # Runs when this object is dropped and at the interpreter's exit: no program outlives its owner.
        self._end = weakref.finalize(self, _end, self.process, self._drain)

    @property
    def pid(self) -> int:
        """The child's process number."""
        return self.process.pid

    def wait(self, timeout_s: float | None = None) -> int | None:
        """The exit status, negative for a signal; None when it still runs after `timeout_s`."""
        try:
            status: int | None = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        self._drain.join(_PATIENCE_S)  # so that the last words are there
        return status

    def why(self) -> str:
        """What ended the program, in words that end a sentence."""
        status = self.process.poll()
        how = f"was ended by signal {-status}" if status is not None and status < 0 else f"ended with status {status}"
        said = self.messages.tail()
        return f"ffmpeg {how}{': ' + said if said else ', without a word'}"

    def close(self) -> None:
        """End the program if it runs, reap it, and close its pipes; harmless when repeated."""
        self._end()


def _drain(pipe: IO[bytes], messages: Messages) -> None:
    with pipe:
        rest = b""
        while block := pipe.read(65536):
            *lines, rest = (rest + block).replace(b"\r", b"\n").split(b"\n")
            for line in lines:
                if line.strip():
                    messages.add(line.decode(errors="replace").rstrip())
            rest = rest[-_TAIL_BYTES:]
        if rest.strip():
            messages.add(rest.decode(errors="replace").rstrip())


def _end(process: subprocess.Popen[bytes], drain: threading.Thread) -> None:
    if process.poll() is None:
        # Not politely: what a reader leaves has nothing to finish, and one that waits for a device does not listen.
        process.kill()
        process.wait()
    if drain is not threading.current_thread():
        drain.join(_PATIENCE_S)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
