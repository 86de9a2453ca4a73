"""Jobs of Ray: the request, and a real cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flambeau.launch.errors import SchedulerError
from flambeau.launch.schedulers.local_records import is_alive, process_start
from flambeau.launch.schedulers.ray import ray_guard
from flambeau.launch.specs import AppDef, AppState, Resource, Role

pytest.importorskip("ray")


def app(script, *, replicas=1, **options):
    options.setdefault("resource", Resource(1, 0, 100))
    role = Role("r", str(Path.cwd()), entrypoint="sh", args=["-c", script], num_replicas=replicas, **options)
    return AppDef("job", [role])


def test_every_replica_is_an_actor(runner):
    info = runner.dryrun(app("echo", replicas=2, max_retries=1, min_replicas=1), "ray", {"dashboard_address": "host:1"})
    first, second = info.request.actors
    assert (first.name, first.replica_id, second.replica_id, first.num_cpus) == ("r", 0, 1, 1)
    assert (first.command, first.min_replicas, first.max_retries) == (["sh", "-c", "echo"], 1, 1)
    assert first.env["TORCHX_JOB_ID"] == f"ray://torchx/host:1-{info.request.app_id}"


def test_an_image_that_is_no_folder_is_told(runner):
    application = AppDef("job", [Role("r", "registry/image", entrypoint="x")])
    with pytest.raises(RuntimeError, match="is not a folder"):
        runner.dryrun(application, "ray")


def test_a_cluster_that_does_not_answer_is_told_in_one_line(runner):
    with pytest.raises(SchedulerError, match=r"no Ray cluster answers at 127.0.0.1:1") as caught:
        runner.run(app("true"), "ray", {"dashboard_address": "127.0.0.1:1"})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("handle", ["ray://torchx/nonsense", "ray://torchx/host-job"])
def test_ids_that_are_none_are_told(runner, handle):
    with pytest.raises(SchedulerError, match="HOST:PORT-JOB"):
        runner.status(handle)


def test_the_driver_reads_what_the_scheduler_writes(runner, tmp_path):
    from dataclasses import asdict

    from flambeau.launch.schedulers.ray.ray_driver import load_actor_json

    actors = runner.dryrun(app("echo", replicas=2), "ray").request.actors
    (tmp_path / "actors.json").write_text(json.dumps([asdict(actor) for actor in actors]))
    assert load_actor_json(str(tmp_path / "actors.json")) == actors


GUARD = (sys.executable, str(Path(ray_guard.__file__)))


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)])
def test_the_guard_of_a_program_ends_as_it_does(script, code):
    command = [*GUARD, "sh", "-c", f"echo said; {script}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.read() == b"said\n"
        assert process.wait() == code


def test_the_guard_tells_that_there_is_no_such_program():
    with subprocess.Popen([*GUARD, "nowhere"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.read() == "nowhere: No such file or directory\n"
        assert process.wait() == 127


def test_a_program_ends_with_the_actor_that_started_it_also_where_both_are_killed():
    script = "trap 'touch asked; exit' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    actor = "import subprocess, sys; subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE).wait()"
    process = subprocess.Popen([sys.executable, "-c", actor, *GUARD, "sh", "-c", script], start_new_session=True)
    until(lambda: Path("pid").exists() and Path("pid").read_text())
    os.killpg(process.pid, signal.SIGKILL)  # the actor, and its child
    process.wait()
    until(Path("asked").exists)
    pid = int(Path("pid").read_text())
    until(lambda: not is_alive(pid, process_start(pid)))


def until(condition, timeout_s=30):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_cluster_whose_agents_are_still_starting_is_asked_again(runner, monkeypatch):
    class Client:
        """The client of a cluster whose dashboard is up before its agents are."""

        def submit_job(self, **options):
            asked.append(options["submission_id"])
            if len(asked) < 3:
                raise RuntimeError("Request failed with status code 500: No available agent to submit job, try again.")
            return options["submission_id"]

    asked = []
    scheduler = runner._scheduler("ray")
    monkeypatch.setattr(scheduler, "_ray_client", Client())
    monkeypatch.setattr("flambeau.launch.schedulers.ray_scheduler._AGAIN_S", 0.01)
    handle = runner.run(app("true"), "ray", {"dashboard_address": "host:1"})
    assert len(asked) == 3 and len(set(asked)) == 1
    assert handle.endswith(asked[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:ssl=None is deprecated:DeprecationWarning")  # of Ray's client, told by aiohttp
class TestCluster:
    """A real cluster of one machine."""

    @pytest.fixture
    def cfg(self, ray_address):
        return {"dashboard_address": ray_address}

    @pytest.mark.timeout(500)
    def test_replicas_run_and_their_lines_are_told_apart(self, runner, cfg):
        Path("here").write_text("from the workspace")
        handle = runner.run(app("cat here; echo; echo line $ ${replica_id}", replicas=2), "ray", cfg)
        assert runner.wait(handle, 0.5).state is AppState.SUCCEEDED
        assert list(runner.log_lines(handle, "r", 1)) == ["from the workspace\n", "line $ 1\n"]
        assert [replica.id for replica in runner.status(handle).roles[0].replicas] == [0, 1]

    @pytest.mark.timeout(500)
    def test_a_failure_is_told_after_the_retries_that_it_has(self, runner, cfg, tmp_path):
        count = tmp_path / "runs"
        handle = runner.run(app(f"echo x >> {count}; exit 3", max_retries=1), "ray", cfg)
        status = runner.wait(handle, 0.5)
        assert status.state is AppState.FAILED and count.read_text() == "x\nx\n"
        assert any("sh ended with 3" in line for line in runner.log_lines(handle, "r", 0))

    @pytest.mark.timeout(500)
    def test_lines_come_while_the_job_runs_and_cancelling_ends_it(self, runner, cfg, monkeypatch, ray_address):
        handle = runner.run(app("echo started; sleep 300"), "ray", cfg)
        lines = runner.log_lines(handle, "r", 0, regex="^started", should_tail=True)
        assert next(iter(lines)) == "started\n"
        runner.cancel(handle)
        assert runner.wait(handle, 0.5).state is AppState.CANCELLED
        monkeypatch.setenv("RAY_ADDRESS", f"http://{ray_address}")
        assert handle in [one.app_handle for one in runner.list("ray")]

    @pytest.mark.timeout(500)
    def test_unknown_jobs_are_unknown(self, runner, ray_address):
        assert runner.status(f"ray://torchx/{ray_address}-nobody") is None
