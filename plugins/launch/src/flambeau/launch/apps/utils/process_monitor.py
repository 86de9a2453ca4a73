"""`python -m flambeau.launch.apps.utils.process_monitor [options] -- PROGRAM ...`: run a program between two files."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import fsspec

__all__ = ["TIMEOUT_EXIT_CODE", "main", "parse_args"]

TIMEOUT_EXIT_CODE = 34
_GRACE_S = 10


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Run a program until it ends, a file appears, or time is over.")
    parser.add_argument("--timeout", type=float, required=True, help="seconds until it is ended")
    parser.add_argument("--poll_rate", type=float, default=5, help="seconds between two looks (default: %(default)s)")
    parser.add_argument("--start_on_file", default="", help="file that it waits for before it starts")
    parser.add_argument("--exit_on_file", default="", help="file that ends it, successfully")
    parser.add_argument("entrypoint", help="the program")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    return parser.parse_args(argv)


def _exists(path: str) -> bool:
    fs, name = fsspec.core.url_to_fs(path)
    return bool(fs.exists(name))


def main(argv: list[str]) -> None:
    """Wait, run, watch; exit as the program does, with 34 where time is over, with 0 where the file ends it."""
    arguments = parse_args(argv)
    end = time.monotonic() + arguments.timeout
    while arguments.start_on_file and not _exists(arguments.start_on_file):
        if time.monotonic() >= end:
            sys.exit(TIMEOUT_EXIT_CODE)
        time.sleep(min(arguments.poll_rate, max(0.0, end - time.monotonic())))
    process = subprocess.Popen([arguments.entrypoint, *arguments.args])
    sys.exit(_watched(process, arguments, end))


def _watched(process: subprocess.Popen[bytes], arguments: argparse.Namespace, end: float) -> int:
    while True:
        try:
            return process.wait(timeout=max(0.0, min(arguments.poll_rate, end - time.monotonic())))
        except subprocess.TimeoutExpired:
            if arguments.exit_on_file and _exists(arguments.exit_on_file):
                code = 0
            elif time.monotonic() >= end:
                code = TIMEOUT_EXIT_CODE
            else:
                continue
        process.terminate()
        try:
            process.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
        return code


if __name__ == "__main__":
    main(sys.argv[1:])
