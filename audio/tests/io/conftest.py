"""Media made by the ffmpeg program, and a watch on what readers and writers leave behind."""

import os
import shutil
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import media


@pytest.fixture(scope="session")
def ffmpeg():
    """Path of the program; tests of the program are skipped without it."""
    found = shutil.which("ffmpeg")
    if found is None:
        pytest.skip("the ffmpeg program is not on PATH")
    return found


@pytest.fixture(scope="session")
def tones(ffmpeg, tmp_path_factory):
    """20 s of MP4: a tone for each second, 48 kHz stereo AAC, and pictures whose gray tells their number."""
    return media.make_tones(ffmpeg, tmp_path_factory.mktemp("media") / "tones.mp4", seconds=20)


@pytest.fixture(scope="session")
def short(ffmpeg, tmp_path_factory):
    """The same of 3 s."""
    return media.make_tones(ffmpeg, tmp_path_factory.mktemp("media") / "short.mp4", seconds=3)


@pytest.fixture
def no_leaks():
    """No child process, no thread of ours and no descriptor more than before."""
    if sys.platform != "linux":
        pytest.skip("counts descriptors and children by Linux's means")
    before, others = _descriptors(), set(media.children())  # such as the trackers of multiprocessing
    yield
    assert not set(media.children()) - others, "a child process was left"
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith(("ffmpeg", "media"))]
    assert _descriptors() <= before, "descriptors were left open"


def _descriptors() -> set[str]:
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
        except FileNotFoundError:  # the one that listed the folder
            continue
    return found
