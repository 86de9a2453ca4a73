"""Launchers that get a signal at chosen moments: python signalled_launcher.py SIGNAL MOMENTS FOLDER

A moment is a number of lines of the launcher, of `threading` and of `subprocess` that its main thread has run. Every
launcher is a fork of this process, which has imported everything, so that many moments take little time. They are
spread evenly over the lines from the command to the first look at the running application, and some beyond. Prints one
JSON object for each: the moment, how the launcher ended, whether it listened for signals, what it said, and whether
its replica is still alive.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import flambeau.launch.cli.cmd_run
import flambeau.launch.schedulers.local_scheduler  # noqa: F401  (imported once, before the forks)
from flambeau.core.cli import main
from flambeau.launch.cli.stopping import Stop
from flambeau.launch.runner import Runner
from flambeau.launch.schedulers.local_records import is_alive, process_start

TOTAL = 1.1  # of the lines until it runs
WATCHED = ("/flambeau/launch/", "/threading.py", "/subprocess.py")


class Lines:
    """Counts lines, and sends a signal to this process at one of them."""

    def __init__(self, moment: int, number: int, noted: Path) -> None:
        self.count, self.moment, self.number, self.noted = 0, moment, number, noted

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "call":
            return self if any(part in frame.f_code.co_filename for part in WATCHED) else None
        if event == "line":
            self.count += 1
            if self.count == self.moment:
                if isinstance(getattr(signal.getsignal(self.number), "__self__", None), Stop):
                    self.noted.touch()
                signal.raise_signal(self.number)
        return self


def launch(folder: Path, lines: Lines) -> int:
    """Launch a replica that sleeps; returns the exit code."""
    script = f"echo $$ > {folder}/pid.new && mv {folder}/pid.new {folder}/pid; exec sleep 300"
    sys.settrace(lines)
    try:
        return main(["launch", "run", "-s", "local_cwd", "utils.sh", "--", "sh", "-c", script])
    finally:
        sys.settrace(None)


def forked(folder: Path, moment: int, number: int) -> dict[str, Any]:
    """A launcher in a process of its own."""
    folder.mkdir()
    if (child := os.fork()) == 0:
        code = 1
        with contextlib.suppress(BaseException):
            os.dup2(os.open(folder / "told", os.O_WRONLY | os.O_CREAT), 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            code = launch(folder, Lines(moment, number, folder / "noted"))
            sys.stderr.flush()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    pid = int((folder / "pid").read_text()) if (folder / "pid").exists() else 0
    return {
        "moment": moment,
        "code": code,
        "launched": (folder / "noted").exists(),
        "told": (folder / "told").read_text(),
        "alive": pid > 0 and is_alive(pid, process_start(pid)),
    }


def lines_until_it_runs(folder: Path) -> int:
    """How many lines a launcher runs until it first asks how the application stands."""
    seen = folder / "seen"
    ask = Runner.status
    counting = Lines(-1, signal.SIGTERM, folder / "noted")

    def asked(runner: Runner, handle: str) -> Any:
        if runner is not None and sys.gettrace() is counting:
            seen.write_text(str(counting.count))
            sys.settrace(None)
            signal.raise_signal(signal.SIGTERM)
        return ask(runner, handle)

    if (child := os.fork()) == 0:
        Runner.status = asked  # type: ignore[method-assign]
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        with contextlib.suppress(BaseException):
            launch(folder, counting)
        os._exit(0)
    os.waitpid(child, 0)
    return int(seen.read_text())


if __name__ == "__main__":
    name, moments, where = sys.argv[1:]
    signal_number = signal.Signals[name]
    for one in (signal.SIGTERM, signal.SIGINT):  # processes in the background may ignore them
        signal.signal(one, signal.default_int_handler if one == signal.SIGINT else signal.SIG_DFL)
    total = lines_until_it_runs(Path(where)) * TOTAL
    for index in range(int(moments)):
        moment = 1 + int(index * total / int(moments))
        print(json.dumps(forked(Path(where) / str(moment), moment, signal_number)), flush=True)
