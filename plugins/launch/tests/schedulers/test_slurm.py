"""A real Slurm of two nodes: submitted, watched, cancelled, queued again, and forgotten."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from flambeau.launch.errors import LogsUnavailable, SchedulerError
from flambeau.launch.schedulers.api import Stream
from flambeau.launch.specs import AppDef, AppState, Role
from flambeau.launch.specs.macros import literal

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("slurm")]


def app(script, *, replicas=1, **options):
    role = Role("r", "", entrypoint="sh", args=["-c", literal(script)], num_replicas=replicas, **options)
    return AppDef("job", [role])


def test_replicas_run_on_their_nodes_and_their_lines_are_told_apart(runner):
    handle = runner.run(app("echo $SLURMD_NODENAME ${replica_id}; echo e >&2", replicas=2), "slurm")
    assert runner.wait(handle, 0.5).state is AppState.SUCCEEDED
    lines = [list(runner.log_lines(handle, "r", k, streams=Stream.STDOUT)) for k in (0, 1)]
    assert [line.split()[1] for (line,) in lines] == ["0", "1"]
    assert list(runner.log_lines(handle, "r", 1, streams=Stream.STDERR)) == ["e\n"]
    status = runner.status(handle)
    assert [replica.id for replica in status.roles[0].replicas] == [0, 1]
    assert handle in [one.app_handle for one in runner.list("slurm")]


def test_lines_come_until_the_job_ends(runner):
    handle = runner.run(app("echo one; sleep 1; echo two"), "slurm")
    assert list(runner.log_lines(handle, "r", should_tail=True)) == ["one\n", "two\n"]


def test_a_failure_is_told_and_the_others_are_ended(runner):
    handle = runner.run(app("[ ${replica_id} = 1 ] && exit 3; sleep 100", replicas=2), "slurm")
    assert runner.wait(handle, 0.5).state is AppState.FAILED


def test_cancelling_a_running_and_a_waiting_job(runner):
    running = runner.run(app("sleep 300"), "slurm")
    while runner.status(running).state is not AppState.RUNNING:
        time.sleep(0.2)
    runner.cancel(running)
    assert runner.wait(running, 0.5).state is AppState.CANCELLED


def test_a_failed_job_is_queued_again(runner):
    handle = runner.run(app("echo x >> runs; wc -l < runs; [ $(wc -l < runs) -ge 2 ]", max_retries=1), "slurm")
    deadline = time.monotonic() + 180
    while not (Path("runs").exists() and len(Path("runs").read_text().split()) >= 2):
        subprocess.run(["scontrol", "release", handle.rpartition("/")[2]], capture_output=True)
        assert time.monotonic() < deadline, runner.status(handle)
        time.sleep(1)
    status = runner.wait(handle, 0.5)
    assert (status.state, status.num_restarts) == (AppState.SUCCEEDED, 1)
    assert list(runner.log_lines(handle, "r", streams=Stream.STDOUT)) == ["1\n", "2\n"]


def test_a_job_keeps_its_state_when_slurm_has_forgotten_it(runner, monkeypatch):
    import flambeau.launch.schedulers.slurm_scheduler as module

    succeeded, failed = (runner.run(app(f"exit {code}"), "slurm") for code in (0, 5))
    assert runner.wait(succeeded, 0.5).state is AppState.SUCCEEDED
    assert runner.wait(failed, 0.5).state is AppState.FAILED
    monkeypatch.setattr(module, "components_of", lambda job_id=None: [])
    assert runner.status(succeeded).state is AppState.SUCCEEDED
    assert (runner.status(failed).state, runner.status(failed).msg) == (AppState.FAILED, "exit code 5")
    assert runner.status("slurm://torchx/999999") is None


def test_a_workspace_is_copied_to_the_jobs_folder(runner, tmp_path):
    Path("main.py").write_text("print('from the workspace')")
    cfg = {"job_dir": str(tmp_path / "job")}
    handle = runner.run_component("utils.python", ["--script", "main.py"], "slurm", cfg, str(Path.cwd()))
    Path("main.py").write_text("print('changed')")
    assert runner.wait(handle, 0.5).state is AppState.SUCCEEDED
    assert list(runner.log_lines(handle, "python", streams=Stream.STDOUT)) == ["from the workspace\n"]
    with pytest.raises(FileExistsError, match="one of its own"):
        runner.run_component("utils.python", ["--script", "main.py"], "slurm", cfg, str(Path.cwd()))


def test_sbatch_takes_the_printed_request_unchanged(runner):
    info = runner.dryrun(app("true", replicas=2), "slurm")
    text = runner._scheduler("slurm").request_text(info)
    done = subprocess.run(["sbatch", "--test-only"], input=text, text=True, capture_output=True)
    assert done.returncode == 0 and "to start at" in done.stderr


def test_a_refused_job_is_told_in_one_line(runner):
    with pytest.raises(SchedulerError, match=r"Slurm refuses the job: .*partition"):
        runner.run(app("true"), "slurm", {"partition": "nowhere"})


def test_a_cluster_that_does_not_answer_is_told_in_one_line(runner, monkeypatch, tmp_path):
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=x\nSlurmctldHost=nowhere(127.0.0.1)\nSlurmctldPort=1\nMessageTimeout=2\n")
    monkeypatch.setenv("SLURM_CONF", str(conf))
    with pytest.raises(SchedulerError) as caught:
        runner.status("slurm://torchx/1")
    assert "\n" not in str(caught.value)


def test_logs_that_were_cleaned_away_are_told(runner):
    handle = runner.run(app("echo x"), "slurm")
    runner.wait(handle, 0.5)
    for path in Path().glob("slurm-*"):
        path.unlink()
    with pytest.raises(LogsUnavailable, match="cleaned away"):
        list(runner.log_lines(handle, "r"))
