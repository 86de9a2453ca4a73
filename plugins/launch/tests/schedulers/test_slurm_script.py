"""The script that Slurm gets, read by a shell whose `srun` tells what it was given."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flambeau.launch.components.dist import ddp
from flambeau.launch.components.utils import echo
from flambeau.launch.schedulers.slurm_jobs import SLURM_STATES, _component, overall, state_of
from flambeau.launch.schedulers.slurm_scheduler import create_scheduler
from flambeau.launch.specs import AppDef, AppState, Resource, Role

SRUN = """#!/usr/bin/env python3
import json, os, sys
open("srun.json", "w").write(json.dumps(sys.argv[1:]))
open("mode", "w").write(os.environ.get("SLURM_OPEN_MODE", ""))
"""


def script(application, **cfg):
    scheduler = create_scheduler("session")
    return scheduler.request_text(scheduler.submit_dryrun(application, cfg))


@pytest.fixture
def srun(monkeypatch):
    """Run a script with a stand-in for srun; gives the words that it got, component by component."""
    Path("bin").mkdir()
    Path("bin/srun").write_text(SRUN)
    Path("bin/srun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{Path.cwd() / 'bin'}:{__import__('os').environ['PATH']}")

    def run(text: str) -> list[list[str]]:
        import json

        Path("job.sh").write_text(text)
        subprocess.run(
            ["bash", "job.sh"], check=True, env={**__import__("os").environ, "SLURM_JOB_ID": "77"}, capture_output=True
        )
        parts: list[list[str]] = [[]]
        for word in json.loads(Path("srun.json").read_text()):
            if word == ":":
                parts.append([])
            else:
                parts[-1].append(word)
        return parts

    return run


def test_every_replica_is_a_component_with_its_resources():
    text = script(ddp(script="t.py", j="2x1", cpu=3, gpu=1, memMB=500), partition="long", time="10")
    lines = [line for line in text.splitlines() if line.startswith("#SBATCH")]
    options = "--requeue --partition=long --time=10 --ntasks-per-node=1 --cpus-per-task=3 --mem=500 --gpus-per-task=1"
    assert lines == [f"#SBATCH --job-name=t-0 {options}", "#SBATCH hetjob", f"#SBATCH --job-name=t-1 {options}"]


def test_words_arrive_as_they_are_and_the_id_is_filled_in(srun):
    words = ["$HOME", "it's", 'a "b"', "; touch pwned", "${app_id}", "x-${app_id}-${replica_id}", ""]
    role = Role("r", "", entrypoint="echo", args=words, num_replicas=2)
    first, second = srun(script(AppDef("job", [role])))
    assert first[-8:] == ["echo", "$HOME", "it's", 'a "b"', "; touch pwned", "77", "x-77-0", ""]
    assert second[-2] == "x-77-1"
    assert "--output=slurm-77-r-0.out" in first and not Path("pwned").exists()


def test_variables_with_commas_arrive_too(srun):
    role = Role("r", "", entrypoint="run", env={"PLAIN": "a b", "LIST": "a,b", "LINES": "x\ny", "ID": "${app_id}"})
    ((*_, export, env, a, b, program),) = srun(script(AppDef("job", [role])))
    assert export == "--export=ALL,PLAIN=a b,ID=77"
    assert (env, a, b, program) == ("env", "LIST=a,b", "LINES=x\ny", "run")


@pytest.mark.parametrize(("restarts", "mode"), [(None, ""), ("0", ""), ("1", "append")])
def test_a_job_that_is_queued_again_adds_to_its_logs(srun, monkeypatch, restarts, mode):
    if restarts:
        monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
    srun(script(echo(), job_dir=None))
    assert Path("mode").read_text() == mode


@pytest.mark.parametrize("name", ["a; touch pwned", "a\n#SBATCH --uid=0", "$(touch pwned)"])
def test_names_stay_names(srun, name):
    text = script(AppDef(name, [Role(name, "", entrypoint="true")]))
    assert len([line for line in text.splitlines() if line.startswith("#SBATCH")]) == 1
    srun(text)
    assert not Path("pwned").exists()


@pytest.mark.parametrize("option", ["comment", "partition", "time"])
def test_options_with_another_line_are_refused(option):
    with pytest.raises(ValueError, match=option):
        script(echo(), **{option: "x\n#SBATCH --uid=0"})


def test_memory_is_not_asked_for_where_the_partition_counts_none(monkeypatch):
    import flambeau.launch.schedulers.slurm_scheduler as module

    for answer, asked in (("1\n", False), ("1+\n", False), ("4000\n1\n", True)):
        monkeypatch.setattr(module, "run_program", lambda words, answer=answer: answer)
        assert (
            "--mem=" in script(AppDef("job", [Role("r", "", entrypoint="x", resource=Resource(1, 0, 10))]))
        ) is asked


def test_states_of_slurm_are_ours():
    assert state_of("CANCELLED by 1000") is AppState.CANCELLED and state_of("RUNNING") is AppState.RUNNING
    assert state_of("?") is AppState.UNKNOWN and state_of("") is AppState.UNKNOWN
    assert all(state_of(word) is state for word, state in SLURM_STATES.items())


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ("SUCCEEDED SUCCEEDED", "SUCCEEDED"),
        ("SUCCEEDED FAILED", "FAILED"),
        ("RUNNING FAILED", "RUNNING"),
        ("PENDING SUCCEEDED", "PENDING"),
        ("CANCELLED SUCCEEDED", "CANCELLED"),
    ],
)
def test_of_several_components_the_worst_counts_once_all_have_ended(states, expected):
    assert overall([AppState[state] for state in states.split()]) is AppState[expected]


def test_a_component_is_read_from_a_line_of_scontrol():
    line = (
        "JobId=12 HetJobId=11 HetJobOffset=1 JobName=r-1 UserId=ann(1000) GroupId=x(1) Priority=1 JobState=RUNNING "
        "Reason=None Dependency=(null) Requeue=1 Restarts=2 NodeList=n2 Comment=a b=c"
    )
    component = _component(line)
    assert (component.job_id, component.name, component.state) == ("11", "r-1", AppState.RUNNING)
    assert (component.nodes, component.restarts, component.user) == ("n2", 2, "ann")
