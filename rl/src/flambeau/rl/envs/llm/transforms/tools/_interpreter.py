"""The program that runs in a process of its own, and there the code of a model. It imports nothing of this package.

It reads blocks of code from one pipe and writes what came of them to another; both are closed to the code itself, whose
standard input is empty and whose standard streams go to files that are read back up to a limit.
"""

from __future__ import annotations

import contextlib
import os
import resource
import struct
import sys
import tempfile
import traceback
from typing import Any


def main() -> None:
    """Run blocks of code until the pipe is closed. Arguments: two file descriptors, and limits."""
    requests, answers, memory, output = map(int, sys.argv[1:5])
    sys.argv = [""]
    _limit(memory, output)
    scope: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    with os.fdopen(requests, "rb") as asked, os.fdopen(answers, "wb") as given:
        for stream in (asked, given):
            os.set_inheritable(stream.fileno(), False)
        given.write(b"\n")
        given.flush()
        while head := asked.read(4):
            code = asked.read(struct.unpack("<I", head)[0]).decode()
            failed, out, err = _run(code, scope, output)
            body = struct.pack("<BII", failed, len(out), len(err)) + out + err
            given.write(body)
            given.flush()


def _limit(memory: int, output: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    # Larger than what is read back, so that the code is told by an error before its output is cut.
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 * output, 16 * output))


def _run(code: str, scope: dict[str, Any], output: int) -> tuple[bool, bytes, bytes]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        kept = [os.dup(number) for number in (1, 2)]
        try:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            failed = _executed(code, scope)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):  # closed by the code, or beyond the limit
                    stream.flush()
        finally:
            for number, old in zip((1, 2), kept, strict=True):
                os.dup2(old, number)
                os.close(old)
        return failed, _start(out, output), _start(err, output)


def _executed(code: str, scope: dict[str, Any]) -> bool:
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    try:
        exec(compile(code, "<code>", "exec"), scope)  # what this process is for
    except SystemExit as end:
        return end.code not in (None, 0)
    except BaseException as error:
        trace = error.__traceback__
        traceback.print_exception(type(error), error, trace.tb_next if trace is not None else None)
        return True
    return False


def _start(stream: Any, limit: int) -> bytes:
    stream.seek(0)
    found: bytes = stream.read(limit + 1)
    return found if len(found) <= limit else found[:limit] + b"\n[cut: the output is longer]\n"


if __name__ == "__main__":
    main()
