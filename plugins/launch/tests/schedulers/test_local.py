"""Processes on this machine: states, logs, restarts, cancelling, and what happens when things go wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flambeau.launch.errors import LogsUnavailable, SchedulerError
from flambeau.launch.runner import get_runner
from flambeau.launch.schedulers.api import Stream
from flambeau.launch.schedulers.local_records import is_alive, process_start
from flambeau.launch.specs import AppDef, AppState, Resource, RetryPolicy, Role
from flambeau.launch.specs.macros import literal


def app(script: str, *, name: str = "job", replicas: int = 1, **options) -> AppDef:
    return AppDef(
        name, [Role("r", "", entrypoint="sh", args=["-c", literal(script)], num_replicas=replicas, **options)]
    )


def finished(runner, application, cfg=None):
    handle = runner.run(application, "local_cwd", {"log_dir": "logs", **(cfg or {})})
    return handle, runner.wait(handle, wait_interval=0.02)


def test_replicas_run_with_their_numbers_and_keep_their_streams_apart(runner):
    handle, status = finished(runner, app("echo out ${replica_id}; echo err >&2", replicas=2))
    assert status.state is AppState.SUCCEEDED
    assert list(runner.log_lines(handle, "r", 1)) == ["out 1\n"]
    assert list(runner.log_lines(handle, "r", 1, streams=Stream.STDERR)) == ["err\n"]
    assert sorted(runner.log_lines(handle, "r", 0, streams=Stream.COMBINED)) == ["err\n", "out 0\n"]
    assert [replica.state for replica in status.roles[0].replicas] == [AppState.SUCCEEDED] * 2


def test_lines_are_chosen_by_a_pattern_and_the_last_one_may_lack_its_end(runner):
    handle, _ = finished(runner, app("printf 'one\\ntwo\\nthree'"))
    assert list(runner.log_lines(handle, "r", regex="^t")) == ["two\n", "three"]


def test_lines_come_while_the_replica_still_writes(runner):
    handle = runner.run(app("echo first; sleep 0.3; printf half; sleep 0.3; echo ' line'"), "local_cwd")
    lines = iter(runner.log_lines(handle, "r", should_tail=True))
    assert next(lines) == "first\n"
    assert runner.status(handle).state is AppState.RUNNING
    assert list(lines) == ["half line\n"]


def test_a_failure_ends_the_others_and_says_who_failed(runner):
    handle, status = finished(runner, app("[ ${replica_id} = 1 ] && exit 3; sleep 60", replicas=3))
    assert status.state is AppState.FAILED and status.msg == "r/1 exited with 3"
    states = [replica.state for replica in status.roles[0].replicas]
    assert states[1] is AppState.FAILED
    assert runner.describe(handle).roles[0].num_replicas == 3


def test_a_program_that_is_not_there_is_told_in_one_line(runner):
    with pytest.raises(FileNotFoundError, match="nowhere") as caught:
        runner.run(AppDef("job", [Role("r", "", entrypoint="nowhere")]), "local_cwd")
    assert isinstance(caught.value, SchedulerError)


def test_an_application_is_started_again_as_often_as_it_may_be(runner):
    script = "echo x >> runs; [ $(wc -l < runs) -ge 3 ]"
    _, status = finished(runner, app(script, max_retries=2))
    assert (status.state, status.num_restarts) == (AppState.SUCCEEDED, 2)
    Path("runs").unlink()
    _, status = finished(runner, app(script, max_retries=1))
    assert (status.state, status.num_restarts) == (AppState.FAILED, 1)


def test_a_replica_is_started_again_alone_where_its_role_says_so(runner):
    script = "echo x >> runs${replica_id}; [ ${replica_id} = 0 ] && { sleep 1; exit 0; }; [ $(wc -l < runs1) -ge 2 ]"
    _, status = finished(runner, app(script, replicas=2, max_retries=1, retry_policy=RetryPolicy.REPLICA))
    assert status.state is AppState.SUCCEEDED
    assert (Path("runs0").read_text(), Path("runs1").read_text()) == ("x\n", "x\nx\n")


def test_a_killed_replica_is_started_again(runner):
    script = "echo $$ > pid; [ -e again ] && exit 0; touch again; sleep 60"
    handle = runner.run(app(script, max_retries=1), "local_cwd")
    while not Path("again").exists() or not Path("pid").read_text().strip():
        time.sleep(0.02)
    os.kill(int(Path("pid").read_text()), signal.SIGKILL)
    assert runner.wait(handle, 0.02).state is AppState.SUCCEEDED


def test_cancelling_ends_a_replica_and_everything_that_it_started(runner):
    handle = runner.run(app("sleep 300 & echo $! > child; wait"), "local_cwd")
    while not Path("child").exists() or not Path("child").read_text().strip():
        time.sleep(0.02)
    child = int(Path("child").read_text())
    started = process_start(child)
    runner.cancel(handle)
    assert runner.status(handle).state is AppState.CANCELLED
    assert not is_alive(child, started)
    runner.cancel(handle)  # once more changes nothing


@pytest.mark.slow
def test_a_replica_that_does_not_heed_is_ended_by_force(runner):
    handle = runner.run(app("trap '' TERM; touch ready; while :; do sleep 1; done"), "local_cwd")
    while not Path("ready").exists():
        time.sleep(0.02)
    runner.cancel(handle)
    assert runner.status(handle).state is AppState.CANCELLED


def test_another_process_can_ask_for_it_read_its_logs_and_cancel_it(runner):
    handle = runner.run(app("echo hello; sleep 60"), "local_cwd", {"log_dir": "logs"})
    with get_runner() as other:
        assert other.status(handle).state is AppState.RUNNING
        assert next(iter(other.log_lines(handle, "r", should_tail=True))) == "hello\n"
        assert other.describe(handle).roles[0].entrypoint == "sh"
        assert handle in [one.app_handle for one in other.list("local_cwd")]
        other.cancel(handle)
        assert other.status(handle).state is AppState.CANCELLED
    assert runner.wait(handle, 0.02).state is AppState.CANCELLED


def test_a_detached_application_goes_on_without_its_launcher():
    with get_runner() as launcher:
        handle = launcher.run(app("sleep 0.5; echo done"), "local_cwd", {"detach": True})
    with get_runner() as other:
        assert other.status(handle).state is AppState.RUNNING
        assert other.wait(handle, 0.05).state is AppState.SUCCEEDED
        assert list(other.log_lines(handle, "r")) == ["done\n"]


def test_a_detached_program_that_is_not_there_is_told_too(runner):
    with pytest.raises(SchedulerError, match="nowhere"):
        runner.run(AppDef("job", [Role("r", "", entrypoint="nowhere")]), "local_cwd", {"detach": True})


def test_closing_ends_what_was_launched():
    with get_runner() as launcher:
        handle = launcher.run(app("echo $$ > pid; sleep 300"), "local_cwd", {"log_dir": "logs"})
        while not Path("pid").exists() or not Path("pid").read_text().strip():
            time.sleep(0.02)
        pid = int(Path("pid").read_text())
        started = process_start(pid)
    assert not is_alive(pid, started)
    with get_runner() as other:
        assert other.status(handle).state is AppState.CANCELLED


def test_signals_are_what_they_were_once_the_schedulers_are_closed():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with get_runner() as launcher:
        finished(launcher, app("true"))
        assert signal.getsignal(signal.SIGTERM) is not before[0]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked there")
def test_a_forked_process_ends_at_once_and_leaves_its_parents_jobs_running(runner):
    handle = runner.run(app("sleep 60"), "local_cwd")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b"begun")
        time.sleep(60)
        os._exit(0)
    os.read(reading, 5)  # a signal that comes before Python has begun the child is lost there
    os.kill(child, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
    assert runner.status(handle).state is AppState.RUNNING
    runner.cancel(handle)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_launcher_that_is_told_to_end_ends_its_replicas_and_prints_one_line(number):
    words = [sys.executable, "-m", "flambeau.core", "launch", "run", "-s", "local_cwd", "utils.sh", "sh", "-c"]
    launcher = subprocess.Popen(
        [*words, "echo $$ > pid; exec sleep 300"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # tests in the background may ignore it
    )
    while not Path("pid").exists() or not Path("pid").read_text().strip():
        time.sleep(0.05)
    pid = int(Path("pid").read_text())
    started = process_start(pid)
    launcher.send_signal(number)
    _, told = launcher.communicate(timeout=30)
    assert launcher.returncode == 128 + number
    assert_one_line(told, number)
    assert not is_alive(pid, started)


LAUNCHER = Path(__file__).with_name("signalled_launcher.py")


def _signalled(name: str, moments: str, folder: Path) -> None:
    command = [sys.executable, str(LAUNCHER), name, moments, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    number = signal.Signals[name]
    for row in rows:
        # Before anything is launched a signal ends the program as it ends others.
        assert row["code"] in (128 + number, -number), row
        if row["launched"]:
            assert row["code"] > 0, row
            assert_one_line(row["told"], number)
        else:
            assert "Traceback" not in row["told"], row
        assert not row["alive"], row
    assert {row["launched"] for row in rows} == {True, False}


def assert_one_line(told: str, number: signal.Signals) -> None:
    """Beside what core may tell about plugins that are broken."""
    lines = [line for line in told.splitlines() if not line.startswith("flambeau: warning:")]
    assert lines == [f"flambeau launch: ended by {number.name}, with everything that was launched"]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_at_any_moment_ends_the_launcher_with_its_status(name, tmp_path):
    _signalled(name, "6", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_at_any_of_many_moments_ends_the_launcher_with_its_status(name, tmp_path):
    _signalled(name, "100", tmp_path)


def test_a_signal_while_processes_are_started_comes_when_they_are(runner, monkeypatch):
    from flambeau.launch.schedulers.local_apps import LocalApp
    from flambeau.launch.schedulers.local_scheduler import SignalException

    def interrupted(*arguments, **options):
        process = popen(*arguments, **options)
        signal.raise_signal(signal.SIGTERM)
        processes.append(process)
        return process

    processes, applications, popen, begin = [], [], subprocess.Popen, LocalApp.start
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    monkeypatch.setattr(LocalApp, "start", lambda one: (applications.append(one), begin(one)))
    with pytest.raises(SignalException) as caught:
        runner.run(app("sleep 60", replicas=2), "local_cwd")
    assert caught.value.sigval is signal.SIGTERM
    assert len(processes) == 2 and all(process.poll() is not None for process in processes)
    assert applications[0].state is AppState.CANCELLED


def test_a_handler_that_raises_while_processes_are_started_leaves_none(runner, monkeypatch):
    def interrupted(*arguments, **options):
        if processes:
            raise KeyboardInterrupt
        processes.append(popen(*arguments, **options))
        return processes[-1]

    processes, popen = [], subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runner.run(app("sleep 60", replicas=2), "local_cwd")
    assert processes[0].poll() is not None


def test_a_replica_that_cannot_be_started_again_fails_the_application(runner):
    Path("program").write_text("#!/bin/sh\nrm program\nexit 1\n")
    Path("program").chmod(0o755)
    handle = runner.run(AppDef("job", [Role("r", "", entrypoint="./program", max_retries=1)]), "local_cwd")
    status = runner.wait(handle, 0.02)
    assert status.state is AppState.FAILED and "program" in status.msg


def test_logs_that_were_cleaned_away_are_told(runner):
    handle, _ = finished(runner, app("echo x"))
    import shutil

    shutil.rmtree("logs")
    with pytest.raises(LogsUnavailable, match="cleaned away"):
        list(runner.log_lines(handle, "r"))


@pytest.mark.parametrize(("role", "replica"), [("nobody", 0), ("r", 7)])
def test_logs_of_nobody_are_told(runner, role, replica):
    handle, _ = finished(runner, app("echo x"))
    with pytest.raises(LogsUnavailable, match="has no replica"):
        list(runner.log_lines(handle, role, replica))


def test_two_launches_at_once_do_not_meet(runner):
    handles = [runner.run(app("echo ${app_id}"), "local_cwd", {"log_dir": "logs"}) for _ in range(8)]
    for handle in handles:
        assert runner.wait(handle, 0.02).state is AppState.SUCCEEDED
        assert list(runner.log_lines(handle, "r")) == [f"{handle.rpartition('/')[2]}\n"]


NAMES = [
    "a; touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "a' ; touch pwned ; '",
    "../../escape",
    "a\nb",
    "-rf",
    "ünï",
    ".hidden",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_with_a_meaning_to_shells_and_paths_mean_nothing_here(runner, name):
    from flambeau.launch.components.dist import ddp

    application = ddp(m="this", name=f"e/{name}" if "/" not in name else name)
    application.name = name
    application.roles[0].name = name
    # The shell of dist.ddp sees the application's id; a program of our own stands in for torchrun.
    Path("torchrun").write_text('#!/bin/sh\necho "$@"\n')
    Path("torchrun").chmod(0o755)
    application.roles[0].env["PATH"] = str(Path.cwd())
    handle = runner.run(application, "local_cwd", {"log_dir": "logs"})
    assert runner.wait(handle, 0.02).state is AppState.SUCCEEDED
    assert not Path("pwned").exists()
    assert all(Path.cwd() in path.resolve().parents for path in Path("logs").rglob("*.log"))
    assert len(list(runner.log_lines(handle, name))) == 1


def test_gpus_are_spread_over_the_replicas_that_ask_for_some(runner, monkeypatch):
    scheduler = runner._scheduler("local_cwd")
    monkeypatch.setattr(scheduler, "_cuda_device_count", lambda: 4)
    application = app("echo", replicas=2, resource=Resource(1, 2, 10))
    request = runner.dryrun(application, "local_cwd", {"auto_set_cuda_visible_devices": True}).request
    assert [param.env["CUDA_VISIBLE_DEVICES"] for param in request.role_params["r"]] == ["0,1", "2,3"]
    monkeypatch.setattr(scheduler, "_cuda_device_count", lambda: 3)
    request = runner.dryrun(application, "local_cwd", {"auto_set_cuda_visible_devices": True}).request
    assert "CUDA_VISIBLE_DEVICES" not in request.role_params["r"][0].env


def test_a_workspace_is_copied_and_run_in(runner, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "main.py").write_text("print('from the workspace')")
    handle = runner.run_component(
        "utils.python", ["--script", "main.py"], "local_cwd", {"log_dir": "logs"}, str(project)
    )
    (project / "main.py").write_text("print('changed')")
    assert runner.wait(handle, 0.02).state is AppState.SUCCEEDED
    assert list(runner.log_lines(handle, "python")) == ["from the workspace\n"]


def test_programs_are_found_in_the_folder_that_the_image_names(runner, tmp_path):
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "tool").write_text("#!/bin/sh\npwd\n")
    (tmp_path / "image" / "tool").chmod(0o755)
    role = Role("r", str(tmp_path / "image"), entrypoint="./tool")
    handle = runner.run(AppDef("job", [role]), "local_dir", {"log_dir": "logs"})
    assert runner.wait(handle, 0.02).state is AppState.SUCCEEDED
    assert list(runner.log_lines(handle, "r")) == [f"{tmp_path / 'image'}\n"]


def test_the_folder_of_logs_says_how_it_ended(runner):
    finished(runner, app("exit 4"))
    (path,) = Path("logs").rglob("SUCCESS")
    about = json.loads(path.read_text())
    assert about["final_state"] == "FAILED" and about["roles"]["r"][0]["exitcode"] == 4
