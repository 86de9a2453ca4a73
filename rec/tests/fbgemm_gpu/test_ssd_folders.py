"""Temporary folders of tables on disk go with their modules and processes, and those of killed ones with the next."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from flambeau.rec.fbgemm_gpu.tbe.ssd._folders import folder_with

PREFIX = "flambeau-tables-"
PROGRAM = f"""
import time
from flambeau.rec.fbgemm_gpu.tbe.ssd._folders import folder_with

class Owner:
    pass

owner = Owner()
print(folder_with(owner, {PREFIX!r}), flush=True)
time.sleep(100)
"""


class Owner:
    """Of a folder."""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_folder_goes_with_its_owner(temporary):
    owner = Owner()
    (folder_with(owner, PREFIX) / "file").write_text("text")
    assert len(list(temporary.iterdir())) == 1
    del owner
    gc.collect()
    assert not list(temporary.iterdir())


def test_folders_of_the_living_and_of_others_stay(temporary):
    first, second = Owner(), Owner()
    folders = [folder_with(first, PREFIX)]
    strange = temporary / f"{PREFIX}of-somebody"
    strange.mkdir()
    elsewhere = temporary / f"{PREFIX}of-another-machine"
    elsewhere.mkdir()
    (elsewhere / "owner").write_text("another machine, whose locks are not seen here")
    folders.append(folder_with(second, PREFIX))
    assert all(folder.is_dir() for folder in [*folders, strange, elsewhere])


@pytest.mark.skipif(importlib.util.find_spec("fcntl") is None, reason="without locks nothing is taken for abandoned")
def test_what_a_killed_process_left_goes_with_the_next_folder(temporary):
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        left = Path(process.stdout.readline().strip())
        first, second = Owner(), Owner()
        folder_with(first, PREFIX)
        assert left.is_dir() and left.parent == temporary
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert left.is_dir()
    folder_with(second, PREFIX)
    assert not left.exists()
