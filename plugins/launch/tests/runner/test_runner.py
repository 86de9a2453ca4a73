"""The runner: what it refuses, what it tells programs, and its events."""

from __future__ import annotations

import pytest

from flambeau.launch.runner import Runner
from flambeau.launch.runner.events import TorchxEvent, log_event
from flambeau.launch.specs import AppDef, Role, UnknownAppException


@pytest.mark.parametrize(
    ("application", "said"),
    [
        (AppDef("a"), "has no roles"),
        (AppDef("a", [Role("r", "i", entrypoint="")]), "names no program"),
        (AppDef("a", [Role("r", "i", entrypoint="x", num_replicas=0)]), "has 0 replicas"),
        (AppDef("a", [Role("r", "i", entrypoint="x"), Role("r", "i", entrypoint="x")]), "named alike"),
    ],
)
def test_applications_that_make_no_sense_are_refused(runner, application, said):
    with pytest.raises(ValueError, match=said):
        runner.dryrun(application, "local_cwd")


def test_an_unknown_scheduler_is_answered_with_the_nearest(runner):
    with pytest.raises(KeyError, match="did you mean slurm"):
        runner.status("slurmm://torchx/1")


def test_unknown_applications_are_unknown(runner):
    handle = "local_cwd://torchx/nobody"
    assert runner.status(handle) is None and runner.describe(handle) is None and runner.wait(handle) is None
    runner.cancel(handle)
    with pytest.raises(UnknownAppException, match="not known to its scheduler"):
        runner.log_lines(handle, "r")


@pytest.mark.parametrize("app_id", ["..", "../../etc/passwd", "a b", "$(x)"])
def test_ids_that_are_none_of_ours_are_unknown(runner, app_id):
    assert runner._scheduler("local_cwd").describe(app_id) is None


def test_programs_learn_their_handle(runner):
    role = Role("r", "", entrypoint="sh", args=["-c", "echo $TORCHX_JOB_ID"])
    handle = runner.run(AppDef("a", [role]), "local_cwd", {"log_dir": "logs"})
    runner.wait(handle, 0.02)
    assert list(runner.log_lines(handle, "r")) == [f"{handle}\n"]


def test_a_request_of_nobody_cannot_be_scheduled(runner):
    info = runner._scheduler("local_cwd").submit_dryrun(AppDef("a", [Role("r", "", entrypoint="true")]), {})
    with pytest.raises(ValueError, match=r"let Runner.dryrun make it"):
        runner.schedule(info)


def test_a_role_can_change_the_request():
    class Quiet(Role):
        def pre_proc(self, scheduler, dryrun_info):
            dryrun_info.request.role_params["r"][0].env["SCHEDULER"] = scheduler
            return dryrun_info

    from flambeau.launch.schedulers import get_scheduler_factories

    with Runner("torchx", get_scheduler_factories()) as runner:
        info = runner.dryrun(AppDef("a", [Quiet("r", "", entrypoint="true")]), "local_cwd")
    assert info.request.role_params["r"][0].env["SCHEDULER"] == "local_cwd"


def test_events_go_to_json_and_back_and_hold_errors(monkeypatch):
    import flambeau.launch.runner.events as events

    told = []
    monkeypatch.setattr(events, "record", lambda event, destination="null": told.append(event))
    with pytest.raises(ZeroDivisionError), log_event("run", scheduler="slurm"):
        raise ZeroDivisionError
    (event,) = told
    assert "ZeroDivisionError" in event.raw_exception and event.wall_time_usec >= 0
    assert TorchxEvent.deserialize(event.serialize()) == event
