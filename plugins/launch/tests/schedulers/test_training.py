"""A registered model trains on two processes, here, on Slurm and on Ray, by commands that differ in one word.

It is watched, read and cancelled by the command line, too, and goes on after one of its workers was killed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
EXAMPLE = Path(__file__).parents[2] / "examples" / "train_digits.py"
pytest.importorskip("flambeau.vision")
FLAMBEAU = (sys.executable, "-m", "flambeau.core", "launch")


@pytest.fixture(params=["local_cwd", "slurm", "ray"])
def scheduler(request) -> str:
    """A scheduler's name; what its cluster needs stands in a configuration file, as a user would have it."""
    if request.param == "slurm":
        request.getfixturevalue("slurm")
    address = request.getfixturevalue("ray_address") if request.param == "ray" else ""
    Path(".flambeauconfig").write_text(f"[local_cwd]\nlog_dir = logs\n\n[ray]\ndashboard_address = {address}\n")
    shutil.copy(EXAMPLE, "train_digits.py")
    return request.param


def run(scheduler: str, *words: str, options: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The command: the same for all of them."""
    job = ("dist.ddp", "-j", "1x2", *options, "--script", "train_digits.py", "--", *words)
    return (*FLAMBEAU, "run", "--scheduler", scheduler, "--log", *job)


def done(*command: str, code: int = 0) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def processes_of(handle: str) -> set[int]:
    """Processes of an application, wherever on this machine; they know their handle."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TORCHX_JOB_ID={handle}\0".encode() in path.read_bytes():
                found.add(int(path.parent.name))
        except OSError:  # ended meanwhile
            pass
    return found


def until(condition: Callable[[], object], what: str, timeout_s: float = 240) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def test_it_trains_and_its_state_and_lines_are_there_afterwards(scheduler):
    printed = done(*run(scheduler, "--epochs", "4"))
    handle = printed.splitlines()[0]
    assert handle.startswith(f"{scheduler}://")
    assert re.search(r"accuracy \d\.\d+ with 2 processes", printed)
    assert "SUCCEEDED" in done(*FLAMBEAU, "status", handle)
    lines = done(*FLAMBEAU, "log", f"{handle}/train_digits/0", "--regex", "epoch")
    assert [line.partition(": loss")[0].rpartition("epoch ")[2] for line in lines.splitlines()] == list("0123")


def test_a_killed_worker_is_started_again_and_the_run_ends_well(scheduler):
    checkpoint = ("--checkpoint", str(Path.cwd() / "ck.pt"), "--die_at", "2")
    printed = done(*run(scheduler, "--epochs", "4", *checkpoint, options=("--max_retries", "1")))
    assert "with 2 processes" in printed
    assert printed.count("epoch 0: loss") == 1 and printed.count("epoch 3: loss") == 1
    assert "SUCCEEDED" in done(*FLAMBEAU, "status", printed.splitlines()[0])


def test_it_is_watched_and_cancelled_from_elsewhere_and_leaves_no_process(scheduler):
    command = run(scheduler, "--epochs", "100000")
    launcher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment())
    assert launcher.stdout is not None
    handle = launcher.stdout.readline().strip()
    assert any("epoch 1: loss" in line for line in iter(launcher.stdout.readline, ""))
    assert "RUNNING" in done(*FLAMBEAU, "status", handle)
    assert len(processes_of(handle)) >= 3  # torchrun and two workers
    done(*FLAMBEAU, "cancel", handle)
    told, _ = launcher.communicate(timeout=240)
    assert launcher.returncode == 1 and "CANCELLED" in told
    assert "CANCELLED" in done(*FLAMBEAU, "status", handle)
    until(lambda: not processes_of(handle), "processes are left")
