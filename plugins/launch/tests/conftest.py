"""Every test has a folder of its own as home, as Flambeau's folder and as the current one."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "clusters"))


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Nothing of the machine's configuration, records and logs is read or written."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path / "flambeau"))
    for name in ("FLAMBEAUCONFIG", "TORCHXCONFIG", "TORCHX_JOB_ID", "TORCHX_TRACKERS", "TORCHX_PARENT_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{__import__('os').environ['PATH']}")
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture(autouse=True)
def handlers_as_before():
    """Who launches something handles signals only as long as it watches over it."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.fixture
def runner():
    from flambeau.launch.runner import get_runner

    with get_runner() as launcher:
        yield launcher


@pytest.fixture(scope="session")
def slurm():
    import slurm as clusters

    if reason := clusters.missing():
        pytest.skip(reason)
    with clusters.running() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def ray_address():
    import ray_cluster as clusters

    if reason := clusters.missing():
        pytest.skip(reason)
    with clusters.running() as address:
        yield address
