"""Typical user code, which must type-check as it stands; it is never run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flambeau.launch.components.dist import ddp
from flambeau.launch.errors import LogsUnavailable
from flambeau.launch.plugins import SchedulerPlugin, hookimpl
from flambeau.launch.runner import Runner, get_runner
from flambeau.launch.schedulers.api import DescribeAppResponse, ListAppResponse, Scheduler, Stream
from flambeau.launch.specs import AppDef, AppDryRunInfo, AppState, Resource, RetryPolicy, Role, macros, runopts
from flambeau.launch.specs.options import CfgVal
from flambeau.launch.tracker import AppRun, app_run_from_env


def trainer(script: str, replicas: int = 1) -> AppDef:
    """A component of one's own.

    Args:
        script: what to run
        replicas: how many
    """
    role = Role(
        "trainer", "image", entrypoint="python", args=[script, "--out", f"{macros.img_root}/out"],
        num_replicas=replicas, resource=Resource(cpu=2, gpu=0, memMB=1024), retry_policy=RetryPolicy.REPLICA,
    )  # fmt: skip
    return AppDef("train", [role], metadata={"team": "vision"})


def train() -> bool:
    with get_runner() as runner:
        info: AppDryRunInfo[Any] = runner.dryrun(trainer("train.py", 2), "local_cwd", {"log_dir": "logs"})
        handle: str = runner.schedule(info)
        status = runner.wait(handle, wait_interval=1)
        if status is None:
            return False
        for replica in status.roles[0].replicas:
            print(replica.id, replica.state.name)
        return status.is_terminal() and status.state is AppState.SUCCEEDED


def lines(runner: Runner, handle: str) -> list[str]:
    try:
        found: Iterable[str] = runner.log_lines(handle, "trainer", 0, regex="loss", streams=Stream.STDOUT)
        return list(found)
    except LogsUnavailable as error:
        return [str(error)]


def by_name(runner: Runner, options: Mapping[str, CfgVal]) -> list[ListAppResponse]:
    runner.run_component("dist.ddp", ["-j", "1x2", "--script", "train.py"], "slurm", options)
    runner.run(ddp("--epochs", "3", script="train.py", j="1x2", max_retries=1), "ray", {"working_dir": "."})
    return runner.list("slurm")


def note(accuracy: float) -> None:
    run: AppRun = app_run_from_env()
    run.add_metadata(accuracy=accuracy)


class Queue(Scheduler[dict[str, CfgVal]]):
    """A scheduler of one's own."""

    def __init__(self, session_name: str) -> None:
        super().__init__("queue", session_name)

    def _run_opts(self) -> runopts:
        options = runopts()
        options.add("queue", type_=str, help="which", default="main")
        return options

    def _submit_dryrun(self, app: AppDef, cfg: dict[str, CfgVal]) -> AppDryRunInfo[list[str]]:
        return AppDryRunInfo([role.entrypoint for role in app.roles], repr)

    def schedule(self, dryrun_info: AppDryRunInfo[list[str]]) -> str:
        return dryrun_info.request[0]

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        return DescribeAppResponse(app_id, AppState.RUNNING)

    def list(self) -> list[ListAppResponse]:
        return [ListAppResponse("one", AppState.RUNNING)]

    def _cancel_existing(self, app_id: str) -> None:
        print(app_id)


@hookimpl
def launch_schedulers() -> Sequence[SchedulerPlugin]:
    return (SchedulerPlugin("queue", "mine.queues:Queue", summary="our queue", programs=("queue",)),)
