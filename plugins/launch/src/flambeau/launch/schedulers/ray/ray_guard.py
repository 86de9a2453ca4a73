"""Runs a program for as long as its standard input is held open: `python ray_guard.py PROGRAM ARGUMENT...`.

Ray ends actors by force, and of what they started only their own children: torchrun would go, and its workers would
train on. So the program is a child of a process that is nobody's, and asks it to end when the actor is gone, which
closes its end of the pipe in any case. The actor has another child, which tells it the program's exit code.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading

__all__ = ["GRACE_S", "guarded", "main"]

GRACE_S = 10.0
NOT_FOUND = 127


def main(argv: list[str]) -> int:
    """Run a program; returns its exit code, or 128 and the number of the signal that ended it."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        os.close(0)
        answer = os.read(reading, 16)
        return int(answer or b"1")
    os.setsid()
    os.close(reading)
    os.write(writing, str(guarded(argv)).encode())
    return 0


def guarded(argv: list[str]) -> int:
    """Run a program, ask it to end when the standard input is closed, and force it after ten seconds."""
    try:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", flush=True)
        return NOT_FOUND
    threading.Thread(target=_end_with_input, args=(process,), daemon=True).start()
    code = process.wait()
    _signal(process, signal.SIGKILL)  # what it left behind
    return code if code >= 0 else 128 - code


def _end_with_input(process: subprocess.Popen[bytes]) -> None:
    while os.read(0, 1):
        pass
    _signal(process, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    _signal(process, signal.SIGKILL)


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
