"""What goes wrong with jobs in the end: they hang, their logs are cleaned away, and two are launched at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau.core.cli import main
from flambeau.launch.errors import SchedulerError
from flambeau.launch.runner import get_runner
from flambeau.launch.specs import AppDef, AppState, Role
from flambeau.launch.specs.macros import literal

COMMAND = (sys.executable, "-m", "flambeau.core", "launch")


def app(script: str) -> AppDef:
    return AppDef("job", [Role("r", "", entrypoint="sh", args=["-c", literal(script)])])


def stand_in(name: str, script: str, monkeypatch) -> None:
    """A program of a batch system."""
    folder = Path("bin")
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder.absolute()}:{os.environ['PATH']}")


def test_a_job_that_hangs_is_running_until_somebody_cancels_it_which_ends_those_who_follow_its_lines(runner):
    handle = runner.run(app("echo begun; exec sleep 600"), "local_cwd", {"log_dir": "logs"})
    lines = iter(runner.log_lines(handle, "r", should_tail=True))
    assert next(lines) == "begun\n"
    with get_runner() as other:
        assert other.status(handle).state is AppState.RUNNING
        other.cancel(handle)
    assert list(lines) == []
    assert runner.wait(handle, 0.02).state is AppState.CANCELLED


def test_a_batch_system_that_hangs_is_told(runner, monkeypatch):
    monkeypatch.setattr("flambeau.launch.schedulers.programs._TIMEOUT_S", 0.5)
    stand_in("scontrol", "exec sleep 600", monkeypatch)
    with pytest.raises(SchedulerError, match=r"scontrol did not answer within .* seconds; is the cluster up"):
        runner.status("slurm://torchx/1")


def test_the_command_tells_in_one_line_that_logs_were_cleaned_away(runner, capsys):
    handle = runner.run(app("echo x"), "local_cwd", {"log_dir": "logs"})
    assert runner.wait(handle, 0.02).state is AppState.SUCCEEDED
    shutil.rmtree("logs")
    assert main(["launch", "log", f"{handle}/r/0"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "cleaned away" in line
    assert main(["launch", "status", handle]) == 0  # its state is kept elsewhere


def test_two_launches_at_once_from_two_processes_do_not_meet(runner):
    def launched(message: str) -> subprocess.Popen[str]:
        words = ("run", "-s", "local_cwd", "-cfg", "log_dir=logs", "utils.sh", "--", "sh", "-c")
        # Each ends when both have begun, so that they truly run at once.
        script = f"touch {message}.here; until [ -e one.here ] && [ -e two.here ]; do sleep 0.05; done; echo {message}"
        return subprocess.Popen((*COMMAND, *words, script), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    launchers = {message: launched(message) for message in ("one", "two")}
    handles = []
    for message, launcher in launchers.items():
        printed, told = launcher.communicate(timeout=120)
        assert launcher.returncode == 0, told
        handle, *lines = printed.splitlines()
        assert lines == [f"sh/0 {message}"]
        handles.append(handle)
        assert runner.status(handle).state is AppState.SUCCEEDED
        assert list(runner.log_lines(handle, "sh")) == [f"{message}\n"]
    assert {one.app_handle for one in runner.list("local_cwd")} == set(handles) and len(set(handles)) == 2
