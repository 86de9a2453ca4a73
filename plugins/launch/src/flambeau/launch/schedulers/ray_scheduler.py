"""Jobs of a Ray cluster: replicas are actors in a placement group, started by a driver that runs on the cluster.

The workspace, or the folder that a role's image names, is the jobs' working directory; the cluster needs nothing of
this package. An application's id is `ADDRESS-JOB`, as jobs are known by their cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from flambeau.launch.errors import JobExists, LogsUnavailable, SchedulerError, SpecError
from flambeau.launch.schedulers.api import (
    DescribeAppResponse,
    ListAppResponse,
    Scheduler,
    Stream,
    filter_regex,
    split_lines,
)
from flambeau.launch.schedulers.ids import make_unique, safe_id
from flambeau.launch.schedulers.ray.ray_common import TORCHX_RANK0_HOST, RayActor
from flambeau.launch.specs.apps import NONE, AppDef, AppDryRunInfo, Role
from flambeau.launch.specs.macros import macros
from flambeau.launch.specs.options import runopts
from flambeau.launch.specs.status import AppState, ReplicaStatus, RoleStatus, is_terminal
from flambeau.launch.workspace.dir_workspace import TmpDirWorkspaceMixin

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

__all__ = ["RayJob", "RayOpts", "RayScheduler", "create_scheduler", "has_ray"]

log = logging.getLogger(__name__)

_DEFAULT_ADDRESS = "127.0.0.1:8265"
_DRIVER = Path(__file__).parent / "ray"
_AGENTS_S = 60.0  # that the agents of a cluster may take to come up behind its dashboard
_AGAIN_S = 1.0
_JOB_STATES = {
    "PENDING": AppState.PENDING,
    "RUNNING": AppState.RUNNING,
    "SUCCEEDED": AppState.SUCCEEDED,
    "FAILED": AppState.FAILED,
    "STOPPED": AppState.CANCELLED,
}


def has_ray() -> bool:
    """Whether Ray is installed."""
    return find_spec("ray") is not None


class RayOpts(TypedDict, total=False):
    """Options, see `RayScheduler.run_opts`."""

    cluster_config_file: str | None
    cluster_name: str | None
    dashboard_address: str | None
    working_dir: str | None
    requirements: str | None


@dataclass
class RayJob:
    """The request for a job.

    Attributes:
        app_id: Ray's id of the job.
        working_dir: local folder that the job gets a copy of.
        cluster_config_file: of a cluster that Ray launched, which tells its address.
        cluster_name: where that file holds another.
        dashboard_address: host and port of the cluster's dashboard.
        requirements: file of Python packages that the job needs.
        actors: the replicas.
    """

    app_id: str
    working_dir: str
    cluster_config_file: str | None = None
    cluster_name: str | None = None
    dashboard_address: str | None = None
    requirements: str | None = None
    actors: list[RayActor] = field(default_factory=list)


class RayScheduler(TmpDirWorkspaceMixin, Scheduler[RayOpts]):
    """Submits jobs to Ray's dashboard.

    Args:
        session_name: what handles have in their middle.
        ray_client: to use instead of one for the address that a job or id names.
    """

    def __init__(self, session_name: str, ray_client: JobSubmissionClient | None = None) -> None:
        super().__init__("ray", session_name)
        self._ray_client = ray_client
        self._clients: dict[str, JobSubmissionClient] = {}

    def _run_opts(self) -> runopts:
        options = runopts()
        options.add("cluster_config_file", type_=str, help="file of a cluster that `ray up` made; tells its address")
        options.add("cluster_name", type_=str, help="name of the cluster where that file has another")
        options.add(
            "dashboard_address", type_=str, default=_DEFAULT_ADDRESS, help="host and port of the cluster's dashboard"
        )
        options.add("requirements", type_=str, help="requirements.txt of what the job needs")
        return options

    def _submit_dryrun(self, app: AppDef, cfg: RayOpts) -> AppDryRunInfo[RayJob]:
        job = RayJob(
            app_id=make_unique(safe_id(app.name)),
            working_dir=_working_dir(app.roles),
            cluster_config_file=_file(cfg.get("cluster_config_file"), "cluster_config_file"),
            cluster_name=cfg.get("cluster_name"),
            dashboard_address=cfg.get("dashboard_address"),
            requirements=_file(cfg.get("requirements"), "requirements"),
        )
        address = _bare(job.dashboard_address or _DEFAULT_ADDRESS)
        for role in app.roles:
            for number in range(role.num_replicas):
                values = macros.Values(".", f"{address}-{job.app_id}", str(number), TORCHX_RANK0_HOST)
                job.actors.append(_actor(values.apply(role), number))
        return AppDryRunInfo(job, _formatted)

    def schedule(self, dryrun_info: AppDryRunInfo[RayJob]) -> str:
        """Submit a job.

        Raises:
            SchedulerError: (a RuntimeError) the cluster cannot be reached, or refuses the job.
        """
        job = dryrun_info.request
        address = _cluster_address(job) if job.cluster_config_file else _bare(job.dashboard_address or _DEFAULT_ADDRESS)
        client = self._client(address)
        environment: dict[str, Any] = {}
        if job.requirements:
            environment["pip"] = job.requirements
        with tempfile.TemporaryDirectory(prefix="flambeau_ray_") as folder:
            _fill(Path(folder), job)
            try:
                job_id = _submitted(
                    client,
                    entrypoint="python3 ray_driver.py",
                    submission_id=job.app_id,
                    runtime_env={"working_dir": folder, **environment},
                    metadata=_metadata(job),
                )
            except ValueError as error:
                raise JobExists(f"{job.app_id}: {error}") from None
            except RuntimeError as error:
                raise SchedulerError(f"Ray at {address} refuses the job: {_last_line(error)}") from None
        return f"{address}-{job_id}"

    def _client(self, address: str) -> JobSubmissionClient:
        if self._ray_client is not None:
            return self._ray_client
        if address not in self._clients:
            from ray.exceptions import RayError
            from ray.job_submission import JobSubmissionClient

            for name in (
                "dashboard.modules.dashboard_sdk",
                "dashboard.modules.job.sdk",
                "_private.runtime_env.packaging",
            ):
                logging.getLogger(f"ray.{name}").setLevel(logging.WARNING)  # they tell of every step
            try:
                self._clients[address] = JobSubmissionClient(f"http://{address}")
            except RayError as error:
                raise SchedulerError(
                    f"Ray at {address} lets nobody in without its token: {_first_line(error)}. Set "
                    "RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to the token of the cluster."
                ) from None
            except (ConnectionError, RuntimeError) as error:
                raise SchedulerError(
                    f"no Ray cluster answers at {address}: {_last_line(error)}. `ray start --head` starts one here; "
                    "the option dashboard_address names another."
                ) from None
        return self._clients[address]

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """What Ray knows of a job."""
        address, job_id = _parse(app_id)
        if (info := self._info(address, job_id)) is None:
            return None
        state = _state(info.status)
        counts = _replicas(info.metadata or {})
        statuses = [
            RoleStatus(name, [ReplicaStatus(number, state, name, "") for number in range(count)])
            for name, count in counts.items()
        ]
        roles = [Role(name, "", num_replicas=count) for name, count in counts.items()]
        return DescribeAppResponse(
            app_id,
            state,
            # Ray puts the end of the log behind it, which has a place of its own.
            msg=(info.message or NONE).partition(", last available logs")[0],
            roles_statuses=statuses,
            roles=roles or self._roles_by_logs(address, job_id),
        )

    def _roles_by_logs(self, address: str, job_id: str) -> list[Role]:
        """What a job without metadata shows of its roles: the names before its lines."""
        found: dict[str, int] = {}
        for line in split_lines(self._client(address).get_job_logs(job_id)):
            if match := _LINE.match(line):
                found[match["role"]] = max(found.get(match["role"], 0), int(match["replica"]) + 1)
        return [Role(name, "", num_replicas=number) for name, number in found.items()] or [Role("ray", "")]

    def _info(self, address: str, job_id: str) -> Any:
        client = self._client(address)
        try:
            return client.get_job_info(job_id)
        except RuntimeError as error:
            if "does not exist" in str(error):
                return None
            raise SchedulerError(f"Ray at {address}: {_last_line(error)}") from None

    def list(self) -> list[ListAppResponse]:
        """The jobs of the cluster that RAY_ADDRESS names, or of this machine's."""
        address = _bare(os.environ.get("RAY_ADDRESS") or _DEFAULT_ADDRESS)
        jobs = self._client(address).list_jobs()
        return [
            ListAppResponse(f"{address}-{job.submission_id}", _state(job.status)) for job in jobs if job.submission_id
        ]

    def _cancel_existing(self, app_id: str) -> None:
        address, job_id = _parse(app_id)
        self._client(address).stop_job(job_id)

    def wait_until_finish(self, app_id: str, timeout: int = 30) -> None:
        """Wait until a job has ended, `timeout` seconds at most.

        Raises:
            SchedulerError: it has not.
        """
        import time

        end = time.monotonic() + timeout
        while time.monotonic() < end:
            about = self.describe(app_id)
            if about is None or is_terminal(about.state):
                return
            time.sleep(0.5)
        raise SchedulerError(f"{app_id} has not ended within {timeout} seconds.")

    def log_iter(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
    ) -> Iterable[str]:
        """The lines that a replica wrote, both streams in one; see `Scheduler.log_iter`.

        Raises:
            LogsUnavailable: the job or its log is gone.
        """
        if since or until:
            log.warning("logs of Ray have no times; since and until are ignored")
        if streams in (Stream.STDOUT, Stream.STDERR):
            log.warning("replicas on Ray write to one stream; both are given")
        address, job_id = _parse(app_id)
        lines = _of_replica(self._log(address, job_id, should_tail), role_name, k)
        return filter_regex(regex, lines) if regex else lines

    def _log(self, address: str, job_id: str, should_tail: bool) -> Iterator[str]:
        client = self._client(address)
        try:
            chunks = _iterate(client.tail_job_logs(job_id)) if should_tail else [client.get_job_logs(job_id)]
            rest = ""
            for chunk in chunks:
                *lines, rest = (rest + chunk).split("\n")
                yield from (f"{line}\n" for line in lines)
            if rest:
                yield rest
        except RuntimeError as error:
            raise LogsUnavailable(f"Ray at {address} gives no logs of {job_id}: {_last_line(error)}") from None


_LINE = re.compile(r"(?P<role>[^\s/]+)/(?P<replica>\d+) (?P<text>.*)", re.DOTALL)


def _of_replica(lines: Iterable[str], role: str, replica: int) -> Iterator[str]:
    """What one replica wrote; of the first also what the driver says itself."""
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            if replica == 0:
                yield line
        elif match["role"] == role and int(match["replica"]) == replica:
            yield match["text"]


def _iterate(asynchronous: Any) -> Iterator[str]:
    """The items of an asynchronous iterator, in an event loop of its own."""
    loop = asyncio.new_event_loop()
    try:
        while True:
            try:
                yield loop.run_until_complete(anext(asynchronous))
            except StopAsyncIteration:
                return
    finally:
        with contextlib.suppress(RuntimeError):
            loop.run_until_complete(asynchronous.aclose())
        loop.close()


def _working_dir(roles: list[Role]) -> str:
    """The folder of all roles.

    Raises:
        RoleImage: (a RuntimeError) an image is no folder, or roles have different ones.
    """
    folders = dict.fromkeys(role.image for role in roles)
    for folder in folders:
        if not Path(folder).is_dir():
            raise RoleImage(
                f"image {folder!r} is not a folder; jobs of Ray run in a folder of this machine, which is sent to the "
                "cluster: give a workspace, or the folder as the image."
            )
    # Each role has its own copy of one workspace.
    return next(iter(folders))


class RoleImage(SpecError, RuntimeError):
    """The image of a role is not what the scheduler needs."""


def _file(path: str | None, option: str) -> str | None:
    if path and not Path(path).is_file():
        raise SpecError(f"option {option!r} names {path!r}, which is not a file.")
    return path


def _actor(role: Role, number: int) -> RayActor:
    resource = role.resource
    return RayActor(
        name=safe_id(role.name),
        command=[role.entrypoint, *role.args],
        env=role.env,
        num_cpus=max(1, resource.cpu),
        num_gpus=max(0, resource.gpu),
        min_replicas=role.min_replicas,
        replica_id=number,
        max_retries=role.max_retries,
    )


def _fill(folder: Path, job: RayJob) -> None:
    """What is sent to the cluster: the working directory, the driver, and the replicas."""
    shutil.copytree(job.working_dir, folder, dirs_exist_ok=True, symlinks=True)
    for name in ("ray_driver.py", "ray_common.py", "ray_guard.py"):
        shutil.copy(_DRIVER / name, folder / name)
    (folder / "actors.json").write_text(json.dumps([asdict(actor) for actor in job.actors]), encoding="utf-8")


def _metadata(job: RayJob) -> dict[str, str]:
    """What Ray keeps with the job: how many replicas each role has."""
    counts: dict[str, int] = {}
    for actor in job.actors:
        counts[actor.name] = counts.get(actor.name, 0) + 1
    return {"flambeau_roles": json.dumps(counts)}


def _replicas(metadata: dict[str, str]) -> dict[str, int]:
    counts: dict[str, int] = json.loads(metadata.get("flambeau_roles", "{}"))
    return counts


def _bare(address: str) -> str:
    return re.sub(r"^(https?|ray)://", "", address).rstrip("/")


def _cluster_address(job: RayJob) -> str:
    from ray.autoscaler.sdk import get_head_node_ip

    if job.cluster_name:
        raise SpecError("Ray finds a cluster by its file; write cluster_name into that file.")
    return f"{get_head_node_ip(str(job.cluster_config_file))}:8265"


def _parse(app_id: str) -> tuple[str, str]:
    """Address and job of an id.

    Raises:
        SchedulerError: it has not both.
    """
    match = re.fullmatch(r"(?P<address>.+?:\d+)-(?P<job>.+)", app_id)
    if match is None:
        raise SchedulerError(
            f"{app_id!r} is no job of Ray; expected HOST:PORT-JOB, as `flambeau launch list -s ray` shows."
        )
    return match["address"], match["job"]


def _state(status: Any) -> AppState:
    return _JOB_STATES.get(str(getattr(status, "value", status)), AppState.UNKNOWN)


def _submitted(client: JobSubmissionClient, **job: Any) -> str:
    """Submit a job; a cluster that has just started is asked again until an agent can take it."""
    end = time.monotonic() + _AGENTS_S
    while True:
        try:
            return str(client.submit_job(**job))
        except RuntimeError as error:
            if "No available agent" not in str(error) or time.monotonic() > end:
                raise
        time.sleep(_AGAIN_S)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _formatted(job: RayJob) -> str:
    import yaml

    return str(yaml.safe_dump(asdict(job), sort_keys=False))


def create_scheduler(session_name: str, ray_client: JobSubmissionClient | None = None, **kwargs: Any) -> RayScheduler:
    """A scheduler of Ray's jobs.

    Raises:
        ModuleNotFoundError: Ray is not installed.
    """
    if not has_ray():
        raise ModuleNotFoundError("No module named 'ray'", name="ray")
    return RayScheduler(session_name, ray_client)
