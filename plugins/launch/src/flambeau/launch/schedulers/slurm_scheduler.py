"""Batch jobs of Slurm.

A job has a component for each replica, which gets a node's share of its own. It starts in the folder that it was
submitted from, or in the option `job_dir`, to which the workspace is copied. The image means nothing: programs are
those of the nodes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, TypedDict

from flambeau.launch.errors import LogsUnavailable, SchedulerError
from flambeau.launch.schedulers.api import DescribeAppResponse, ListAppResponse, Scheduler, Stream, filter_regex
from flambeau.launch.schedulers.following import follow
from flambeau.launch.schedulers.ids import safe_id
from flambeau.launch.schedulers.programs import ProgramFailed, run_program
from flambeau.launch.schedulers.slurm_jobs import (
    SLURM_STATES,
    Component,
    JobRecord,
    components_of,
    overall,
    states_by_sacct,
)
from flambeau.launch.schedulers.slurm_script import (
    SBATCH_GROUP_OPTIONS,
    SBATCH_JOB_OPTIONS,
    SlurmBatchRequest,
    SlurmReplicaRequest,
    _one_line,
    _ordered,
)
from flambeau.launch.specs.apps import NONE, AppDef, AppDryRunInfo, Role
from flambeau.launch.specs.macros import macros
from flambeau.launch.specs.options import runopts
from flambeau.launch.specs.serialization import role_from_dict
from flambeau.launch.specs.status import AppState, ReplicaStatus, RoleStatus, is_terminal
from flambeau.launch.workspace.dir_workspace import DirWorkspaceMixin

__all__ = [
    "SBATCH_GROUP_OPTIONS",
    "SBATCH_JOB_OPTIONS",
    "SLURM_JOB_DIRS",
    "SLURM_STATES",
    "SlurmBatchRequest",
    "SlurmOpts",
    "SlurmReplicaRequest",
    "SlurmScheduler",
    "create_scheduler",
]

log = logging.getLogger(__name__)

SLURM_JOB_DIRS = ".torchxslurmjobdirs"
"""File in the current folder that says where jobs with a `job_dir` are, as upstream keeps it."""
RANK0_ENV = "SLURM_JOB_NODELIST_HET_GROUP_0"
_NO_MEMORY_MB = 1000
"""Partitions without memory in their configuration report 1 MB, and refuse jobs that ask for some."""

SlurmOpts = TypedDict(
    "SlurmOpts",
    {
        "partition": str | None,
        "time": str | None,
        "comment": str | None,
        "constraint": str | None,
        "mail-user": str | None,
        "mail-type": str | None,
        "job_dir": str | None,
    },
    total=False,
)


class SlurmScheduler(DirWorkspaceMixin, Scheduler[SlurmOpts]):
    """Submits jobs by `sbatch`, and asks `scontrol`, `sacct` and the jobs' folders for their states."""

    def __init__(self, session_name: str) -> None:
        super().__init__("slurm", session_name)

    def _run_opts(self) -> runopts:
        options = runopts()
        options.add("partition", type_=str, help="partition to run in")
        options.add(
            "time",
            type_=str,
            help="longest time, as minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes or "
            "days-hours:minutes:seconds",
        )
        options.add("comment", type_=str, help="comment on the job")
        options.add("constraint", type_=str, help="features that nodes must have")
        options.add("mail-user", type_=str, help="whom mail goes to")
        options.add("mail-type", type_=str, help="which events are mailed")
        options.add(
            "job_dir",
            type_=str,
            help="new folder that the workspace is copied to, and the job starts in; shared by all nodes",
        )
        return options

    def _submit_dryrun(self, app: AppDef, cfg: SlurmOpts) -> AppDryRunInfo[SlurmBatchRequest]:
        job_dir = cfg.get("job_dir")
        nomem = self._counts_no_memory(cfg.get("partition"))
        replicas = {}
        for role in app.roles:
            for number in range(role.num_replicas):
                name = f"{role.name}-{number}"
                # Only Slurm knows the job's id, and the script itself puts it in.
                values = macros.Values(role.image, macros.app_id, str(number), RANK0_ENV)
                replicas[name] = SlurmReplicaRequest.from_role(name, values.apply(role), dict(cfg), nomem)
        options = [
            f"--{key}={_one_line(key, cfg[key])}"  # type: ignore[literal-required]
            for key in _ordered({"mail-user", "mail-type", "comment"})
            if cfg.get(key)
        ]
        request = SlurmBatchRequest(
            cmd=["sbatch", "--parsable", *options],
            replicas=replicas,
            job_dir=str(job_dir) if job_dir else None,
            max_retries=min((role.max_retries for role in app.roles), default=0),
            app=asdict(app),
        )
        return AppDryRunInfo(request, repr)

    def request_text(self, dryrun_info: AppDryRunInfo[SlurmBatchRequest]) -> str:
        """The script, which `sbatch` takes."""
        return dryrun_info.request.materialize()

    def _counts_no_memory(self, partition: str | None) -> bool:
        """Whether nodes of the partition say nothing of their memory; False where nobody can be asked."""
        words = ["sinfo", "--noheader", "--format=%m", *([f"--partition={partition}"] if partition else [])]
        try:
            sizes = [int(line.strip().rstrip("+")) for line in run_program(words).splitlines() if line.strip()]
        except (SchedulerError, ValueError):
            return False
        return bool(sizes) and max(sizes) <= _NO_MEMORY_MB

    def schedule(self, dryrun_info: AppDryRunInfo[SlurmBatchRequest]) -> str:
        """Submit a job.

        Raises:
            SchedulerError: (a RuntimeError) Slurm refuses it, or cannot be reached.
        """
        request = dryrun_info.request
        folder = Path(request.job_dir or Path.cwd()).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            answer = run_program(request.cmd, cwd=str(folder), stdin=request.materialize())
        except ProgramFailed as error:
            raise SchedulerError(
                f"Slurm refuses the job: {error}. `sinfo` shows partitions and whether the cluster answers."
            ) from None
        job_id = answer.strip().splitlines()[-1].partition(";")[0]
        if not job_id.isdigit():
            raise SchedulerError(f"sbatch answered {answer.strip()!r}; expected the number of a job.")
        JobRecord(job_id, str(folder), request.app).save()
        if request.job_dir:
            _remember(job_id, folder)
        return job_id

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """What Slurm knows of a job, and what the job left behind."""
        if not app_id.isdigit():
            return None
        record = JobRecord.load(app_id)
        if components := components_of(app_id):
            return _described(app_id, components, record)
        if found := states_by_sacct(app_id).get(app_id):
            components = [Component(app_id, name, state, "None", "", 0, "") for name, state in found]
            return _described(app_id, components, record)
        if record is None:
            return None
        state = record.state()
        code = record.exit_code()
        message = NONE if code is None else f"exit code {code}"
        statuses = [
            RoleStatus(role.name, [ReplicaStatus(k, state, role.name, "") for k in range(role.num_replicas)])
            for role in _roles(record)
        ]
        return DescribeAppResponse(app_id, state, msg=message, roles_statuses=statuses, roles=_roles(record))

    def list(self) -> list[ListAppResponse]:
        """The user's jobs: those that Slurm knows, and of accounting those of the last two days."""
        found: dict[str, list[AppState]] = {}
        user = _user()
        for component in components_of():
            if component.user == user:
                found.setdefault(component.job_id, []).append(component.state)
        for job_id, states in states_by_sacct().items():
            found.setdefault(job_id, [state for _, state in states])
        return [
            ListAppResponse(job_id, overall(states))
            for job_id, states in sorted(found.items(), key=lambda i: int(i[0]))
        ]

    def _cancel_existing(self, app_id: str) -> None:
        run_program(["scancel", app_id])
        if (record := JobRecord.load(app_id)) is not None:
            record.cancelled = True
            record.save()

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
        """The lines that a replica wrote, from its files in the job's folder; without `streams` those of both.

        Raises:
            LogsUnavailable: there are none: the job has not started, or they were cleaned away.
        """
        if since or until:
            log.warning("logs of Slurm have no times; since and until are ignored")
        folder = self._folder(app_id)
        endings = {Stream.STDOUT: ["out"], Stream.STDERR: ["err"]}.get(streams or Stream.COMBINED, ["out", "err"])
        files: Sequence[Path] = [
            folder / f"slurm-{app_id}-{safe_id(f'{role_name}-{k}')}.{ending}" for ending in endings
        ]
        lines = self._lines(app_id, files, should_tail)
        return filter_regex(regex, lines) if regex else lines

    def _lines(self, app_id: str, files: Sequence[Path], should_tail: bool) -> Iterator[str]:
        last_asked, ended = 0.0, not should_tail

        def has_ended() -> bool:
            nonlocal last_asked, ended
            # Every answer is a process: one a second is enough.
            if not ended and time.monotonic() - last_asked >= 1:
                about = self.describe(app_id)
                ended, last_asked = about is None or is_terminal(about.state), time.monotonic()
            return ended

        yield from follow(files, has_ended, what=f"job {app_id}")

    def _folder(self, app_id: str) -> Path:
        if record := JobRecord.load(app_id):
            return Path(record.folder)
        with contextlib.suppress(OSError):
            for line in Path(SLURM_JOB_DIRS).read_text(encoding="utf-8").splitlines():
                job_id, _, folder = line.partition(" = ")
                if job_id == app_id:
                    return Path(folder)
        if self.describe(app_id) is None:
            raise LogsUnavailable(f"job {app_id} is not known, neither to Slurm nor here.")
        return Path.cwd()


def _described(app_id: str, components: list[Component], record: JobRecord | None) -> DescribeAppResponse:
    state = overall([component.state for component in components])
    if record is not None and state is AppState.FAILED and record.cancelled:
        state = AppState.CANCELLED
    roles: dict[str, RoleStatus] = {}
    for component in components:
        role, _, number = component.name.rpartition("-")
        status = roles.setdefault(role, RoleStatus(role, []))
        host = "" if component.nodes in ("(null)", "") else component.nodes
        status.replicas.append(ReplicaStatus(int(number) if number.isdigit() else 0, component.state, role, host))
    reasons = [component.reason for component in components if component.reason not in ("None", "")]
    known = _roles(record) if record else []
    return DescribeAppResponse(
        app_id=app_id,
        state=state,
        num_restarts=max(component.restarts for component in components),
        msg=reasons[0] if reasons else NONE,
        roles_statuses=list(roles.values()),
        roles=known or [Role(name, "", num_replicas=len(status.replicas)) for name, status in roles.items()],
    )


def _roles(record: JobRecord) -> list[Role]:
    return [role_from_dict(role) for role in record.app.get("roles", [])]


def _remember(job_id: str, folder: Path) -> None:
    with Path(SLURM_JOB_DIRS).open("a", encoding="utf-8") as file:
        file.write(f"{job_id} = {folder}\n")


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def create_scheduler(session_name: str, **kwargs: Any) -> SlurmScheduler:
    """A scheduler of Slurm's jobs."""
    return SlurmScheduler(session_name)
