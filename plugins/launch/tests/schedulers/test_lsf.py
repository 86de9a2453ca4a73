"""LSF: the script that submits, run with stand-ins for its programs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flambeau.launch.components.dist import ddp
from flambeau.launch.errors import LogsUnavailable, SchedulerError
from flambeau.launch.specs import AppDef, AppState, Resource, Role

BSUB = """#!/usr/bin/env python3
import json, subprocess, sys
words = sys.argv[1:]
name, project = words[words.index("-J") + 1], words[words.index("-P") + 1]
if "refuse" in name:
    sys.exit("Bad queue")
command = sys.stdin.read()
done = subprocess.run(["bash", "-c", command])
with open("jobs", "a") as jobs:
    place = words[words.index("-oo") + 1] if "-oo" in words else "-"
    state = "EXIT" if done.returncode else "DONE"
    jobs.write(f"1;{state};{project};{done.returncode or '-'};{name};{place};-;host1\\n")
with open("words", "a") as file:
    file.write(json.dumps(words) + "\\n")
"""
BJOBS = "#!/bin/sh\n[ -e jobs ] && cat jobs || { echo 'No job found' >&2; exit 255; }\n"
BHOSTS = "#!/bin/sh\necho 'host0 closed 8'; echo 'host1 ok 8'\n"


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    Path("bin").mkdir()
    for name, text in (
        ("bsub", BSUB),
        ("bjobs", BJOBS),
        ("bhosts", BHOSTS),
        ("bkill", "#!/bin/sh\necho $@ > killed\n"),
    ):
        Path("bin", name).write_text(text)
        Path("bin", name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{Path.cwd() / 'bin'}:{os.environ['PATH']}")


def bare(script: str, **options) -> AppDef:
    return AppDef(
        "job", [Role("r", "<NONE>", entrypoint="sh", args=["-c", script], resource=Resource(1, 0, 10), **options)]
    )


def test_jobs_run_and_leave_states_and_logs(runner):
    handle = runner.run(
        bare("echo $TORCHX_RANK0_HOST ${replica_id}", num_replicas=2), "lsf", {"jobdir": str(Path.cwd() / "logs")}
    )
    assert runner.wait(handle, 0.05).state is AppState.SUCCEEDED
    assert list(runner.log_lines(handle, "r", 1)) == ["host1 1\n"]
    assert handle in [one.app_handle for one in runner.list("lsf")]
    with pytest.raises(LogsUnavailable, match="writes to no file"):
        runner.log_lines(handle, "nobody")


def test_a_failure_is_told(runner):
    handle = runner.run(bare("exit 3"), "lsf")
    assert runner.status(handle).state is AppState.FAILED


def test_words_arrive_as_they_are(runner):
    words = ["$HOME", "`id`", "it's", "\\", "; touch pwned", 'a "b"']
    role = Role("r", "<NONE>", entrypoint="printf", args=["%s\\n", *words], resource=Resource(1, 0, 10))
    handle = runner.run(AppDef("job", [role]), "lsf", {"jobdir": str(Path.cwd() / "logs")})
    assert list(runner.log_lines(handle, "r")) == [f"{word}\n" for word in words]
    assert not Path("pwned").exists()


@pytest.mark.parametrize("name", ["a; touch pwned", "$(touch pwned)", "a\nEOF\ntouch pwned\n"])
def test_names_stay_names(runner, name):
    role = Role(name, "<NONE>", entrypoint="true", resource=Resource(1, 0, 10))
    runner.run(AppDef(name, [role]), "lsf")
    assert not Path("pwned").exists()


def test_a_refused_job_is_told(runner):
    with pytest.raises(SchedulerError, match="Bad queue"):
        runner.run(AppDef("refuse", bare("true").roles), "lsf")


def test_no_jobs_are_no_error(runner):
    assert runner.list("lsf") == [] and runner.status("lsf://torchx/nobody") is None


def test_containers_get_their_resources_and_the_first_host():
    from flambeau.launch.schedulers.lsf_scheduler import get_docker_command

    (role,) = ddp(script="t.py", j="2x1", gpu=1, env={"A": "b c"}, mounts=["type=bind", "src=/a", "dst=/b"]).roles
    command = get_docker_command("job", role, {"host_network": True})
    assert "-v /a:/b:rw" in command and "--gpus all" in command and "-e 'A=b c'" in command and "--net=host" in command
