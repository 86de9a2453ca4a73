"""Trackers: every one keeps what runs leave, and a launched program finds its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from fsspec import filesystem

from flambeau.launch.errors import TrackerError
from flambeau.launch.tracker.api import AppRun, TrackerArtifact, TrackerSource, build_trackers
from flambeau.launch.tracker.backend.fsspec import FsspecTracker
from flambeau.launch.tracker.runlog import RunLogTracker


def fsspec_tracker(folder):
    return FsspecTracker(filesystem("file"), str(folder))


def mlflow_tracker(folder):
    pytest.importorskip("mlflow")
    from flambeau.launch.tracker.mlflow import MLflowTracker

    return MLflowTracker("experiment", tracking_uri=f"file://{folder}/mlruns")


TRACKERS = {"fsspec": fsspec_tracker, "runlog": lambda folder: RunLogTracker(folder / "runs.jsonl")}


@pytest.fixture(params=TRACKERS)
def tracker(request, tmp_path):
    return TRACKERS[request.param](tmp_path)


def test_metadata_of_a_run_is_kept_and_the_last_value_holds(tracker):
    tracker.add_metadata("run", a=1, b="x")
    tracker.add_metadata("run", a=2)
    assert tracker.metadata("run") == {"a": 2, "b": "x"} and tracker.metadata("other") == {}


def test_artifacts_are_kept_by_name(tracker):
    tracker.add_artifact("slurm://torchx/1", "model", "/m.pt", {"epoch": 3})
    assert tracker.artifacts("slurm://torchx/1") == {"model": TrackerArtifact("model", "/m.pt", {"epoch": 3})}
    assert list(tracker.run_ids()) == ["slurm://torchx/1"]


def test_sources_and_lineage(tracker):
    for run, source in (("b", "a"), ("c", "b"), ("d", "b")):
        tracker.add_source(run, source)
    tracker.add_source("c", "x", "weights")
    assert list(tracker.sources("c", "weights")) == [TrackerSource("x", "weights")]
    assert sorted(tracker.run_ids(parent_run_id="b")) == ["c", "d"]
    lineage = tracker.lineage("b")
    assert (lineage.sources, lineage.descendants) == (("a",), ("c", "d"))


def test_what_json_cannot_hold_is_refused_and_leaves_nothing_behind(tracker):
    with pytest.raises(TypeError):
        tracker.add_metadata("run", model=object())
    assert tracker.metadata("run") == {}


def test_a_launched_program_finds_its_tracker(runner, tmp_path):
    (tmp_path / "runs").mkdir()
    Path("tracker.conf").write_text(f"protocol=file\nroot_path={tmp_path / 'runs'}\n")
    Path(".flambeauconfig").write_text(
        f"[torchx:tracker]\nfsspec =\n[tracker:fsspec]\nconfig = {Path.cwd()}/tracker.conf\n"
    )
    Path("main.py").write_text(
        "from flambeau.launch.tracker import app_run_from_env\napp_run_from_env().add_metadata(accuracy=0.9)\n"
    )
    handle = runner.run_component("utils.python", ["--script", "main.py"], "local_cwd", parent_run_id="parent")
    assert runner.wait(handle, 0.05).state.name == "SUCCEEDED"
    tracker = fsspec_tracker(tmp_path / "runs")
    assert tracker.metadata(handle) == {"accuracy": 0.9}
    assert list(tracker.run_ids(parent_run_id="parent")) == [handle]


def test_a_run_is_tracked_in_all_its_trackers_and_asks_the_first(tmp_path):
    first, second = RunLogTracker(tmp_path / "a"), RunLogTracker(tmp_path / "b")
    run = AppRun("run", [first, second])
    run.add_metadata(x=1)
    run.add_source("parent")
    assert first.metadata("run") == second.metadata("run") == {"x": 1}
    assert [source.parent.id for source in run.sources()] == ["parent"]
    assert [child.id for child in AppRun("parent", [first]).children()] == ["run"]


def test_trackers_that_cannot_be_made_are_left_out_and_told(caplog):
    assert build_trackers({"nobody": None, "fsspec": "nowhere"}) == []
    assert "no tracker 'nobody'" in caplog.text and "'fsspec' cannot be made" in caplog.text


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "runs.jsonl").write_text('{"run": "a", "values": {}}\n{broken\n')
    with pytest.raises(TrackerError, match="line 2"):
        RunLogTracker(tmp_path / "runs.jsonl").metadata("a")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_runs_are_kept_by_mlflow(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    tracker = mlflow_tracker(tmp_path)
    tracker.add_metadata("run", a=1)
    tracker.log_params_flat("run", {"model": {"layers": [2, 3]}})
    tracker.add_artifact("run", "model", "/m.pt", {"epoch": 3})
    tracker.add_source("run", "parent")
    assert tracker.metadata("run") == {"a": "1", "model.layers.0": "2", "model.layers.1": "3"}
    assert tracker.artifacts("run") == {"model": TrackerArtifact("model", "/m.pt", {"epoch": 3})}
    assert list(tracker.run_ids(parent_run_id="parent")) == ["run"]
