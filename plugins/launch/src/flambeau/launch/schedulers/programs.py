"""Programs of batch systems: run without a shell, and their failures in one line."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from flambeau.launch.errors import MissingBackend, SchedulerError

__all__ = ["ProgramFailed", "run_program"]

_TIMEOUT_S = 120.0


class ProgramFailed(SchedulerError):
    """A program of the batch system ended with an error; the message holds what it said.

    Attributes:
        code: its exit code.
        stderr: what it said.
    """

    def __init__(self, message: str, code: int, stderr: str) -> None:
        super().__init__(message)
        self.code, self.stderr = code, stderr


def run_program(words: Sequence[str], *, cwd: str | None = None, stdin: str | None = None) -> str:
    """Run a program and give what it prints.

    Args:
        words: the program and its arguments.
        cwd: the folder it starts in.
        stdin: what it reads.

    Raises:
        MissingBackend: (an ImportError) there is no such program.
        ProgramFailed: (a RuntimeError) it ends with an error.
        SchedulerError: it does not end within two minutes.
    """
    try:
        done = subprocess.run(
            list(words), cwd=cwd, input=stdin, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S
        )
    except FileNotFoundError:
        raise MissingBackend(
            f"there is no program {words[0]!r} here; run this where the batch system's programs are installed."
        ) from None
    except subprocess.TimeoutExpired:
        raise SchedulerError(f"{words[0]} did not answer within {_TIMEOUT_S:.0f} seconds; is the cluster up?") from None
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        text = said[-1] if said else "nothing on its error stream"
        raise ProgramFailed(f"{words[0]} failed with {done.returncode}: {text}", done.returncode, done.stderr)
    return done.stdout
