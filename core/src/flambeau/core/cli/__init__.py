"""The `flambeau` program.

A command is a module with a function `configure(parser)` that adds arguments and names the function to run by
`parser.set_defaults(run=function)`; `run(arguments)` returns the exit code. Built-in commands and those that plugins
declare in their manifests have this one form, and only the chosen command's module is imported: `--help` and the
listings load no torch.

Exit codes: 0 done, 1 failed, 2 used wrongly, 3 a broken plugin was met (`doctor` and `plugins list --strict` alone).

What a command prints goes to stdout: aligned columns on a terminal, tab-separated values without a header elsewhere,
and JSON with `--json`. Errors, warnings and progress go to stderr.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Sequence

from flambeau.core.errors import FlambeauError
from flambeau.core.terminal import printable

__all__ = ["main"]

INTERRUPTED = 130  # what a shell reports for a program stopped by Ctrl-C


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; never raises for wrong usage or a failure that has a message.

    Args:
        argv: the arguments after the program's name; None takes them from `sys.argv`.
    """
    from flambeau.core.cli.commands import run

    arguments = list(sys.argv[1:] if argv is None else argv)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            code = run(arguments)
            sys.stdout.flush()
            return code
        except SystemExit as stop:  # argparse, after it printed help or what is wrong with the usage
            return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except BrokenPipeError:
            _silence_stdout()
            return 0
        except KeyboardInterrupt:
            return INTERRUPTED
        except (FlambeauError, OSError) as error:
            print(printable(f"flambeau: error: {error}"), file=sys.stderr)
            return 1


def _show_warning(message: Warning | str, *details: object, **options: object) -> None:
    # A user of the program did not write the line of code that warns.
    print(printable(f"flambeau: warning: {message}"), file=sys.stderr)


def _silence_stdout() -> None:
    """The reader of our output is gone (`flambeau weights list | head`): let nothing more be written to it."""
    with contextlib.suppress(
        OSError, ValueError
    ):  # stdout may be closed, or replaced by something without a descriptor
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
