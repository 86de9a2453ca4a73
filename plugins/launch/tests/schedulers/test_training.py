"""One command trains a registered model on two processes, here, on Slurm and on Ray, and survives a killed worker."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]
EXAMPLE = Path(__file__).parents[2] / "examples" / "train_digits.py"
pytest.importorskip("flambeau.vision")


def launched(*words: str) -> str:
    shutil.copy(EXAMPLE, "train_digits.py")
    command = [sys.executable, "-m", "flambeau.core", "launch", "run", *words]
    environment = {**__import__("os").environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


COMMAND = ("dist.ddp", "-j", "1x2", "--script", "train_digits.py", "--", "--epochs", "4")


def test_here():
    assert "with 2 processes" in launched("-s", "local_cwd", *COMMAND)


@pytest.mark.usefixtures("slurm")
def test_on_slurm():
    assert "with 2 processes" in launched("-s", "slurm", "--log", *COMMAND)


def test_on_ray(ray_address):
    assert "with 2 processes" in launched("-s", "ray", "-cfg", f"dashboard_address={ray_address}", "--log", *COMMAND)


@pytest.mark.parametrize("scheduler", ["local_cwd", "slurm"])
def test_a_killed_worker_is_started_again_and_the_run_ends_well(scheduler, request):
    if scheduler == "slurm":
        request.getfixturevalue("slurm")
    words = ["dist.ddp", "-j", "1x2", "--max_retries", "1", "--script", "train_digits.py", "--"]
    printed = launched(
        "-s", scheduler, "--log", *words, "--epochs", "4", "--checkpoint", str(Path.cwd() / "ck.pt"), "--die_at", "2"
    )
    assert "with 2 processes" in printed
    assert printed.count("epoch 0: loss") == 1 and printed.count("epoch 3: loss") == 1
