"""Batch jobs of IBM Spectrum LSF: one for each replica, in a Docker container where the role names an image."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypedDict

from flambeau.launch.errors import LogsUnavailable, SchedulerError
from flambeau.launch.schedulers.api import DescribeAppResponse, ListAppResponse, Scheduler, Stream, filter_regex
from flambeau.launch.schedulers.following import follow
from flambeau.launch.schedulers.ids import make_unique, safe_id
from flambeau.launch.schedulers.programs import ProgramFailed, run_program
from flambeau.launch.specs.apps import NONE, AppDef, AppDryRunInfo, Role
from flambeau.launch.specs.macros import macros
from flambeau.launch.specs.mounts import BindMount, DeviceMount, VolumeMount
from flambeau.launch.specs.options import runopts
from flambeau.launch.specs.status import AppState, ReplicaStatus, RoleStatus, is_terminal
from flambeau.launch.version import __version__

__all__ = [
    "JOB_STATE",
    "LsfBsub",
    "LsfOpts",
    "LsfScheduler",
    "bjobs_msg_to_describe",
    "bjobs_msg_to_list",
    "bjobs_msg_to_log_file",
    "cleanup_str",
    "create_scheduler",
    "find_rank0_host",
    "find_rank0_host_from_bhosts_stdout",
    "get_bsub",
    "get_command",
    "get_docker_command",
    "get_job_state",
    "get_submit_script",
]

log = logging.getLogger(__name__)

JOB_STATE: dict[str, AppState] = {
    "DONE": AppState.SUCCEEDED,
    "EXIT": AppState.FAILED,
    "PEND": AppState.PENDING,
    "RUN": AppState.RUNNING,
    "PSUSP": AppState.PENDING,
    "USUSP": AppState.PENDING,
    "SSUSP": AppState.PENDING,
}
"""State by LSF's word for it."""
_KILLED = "130"
"""Exit code of jobs that `bkill` ended."""
_FIELDS = "jobid stat proj exit_code job_name output_file error_file exec_host"


class LsfOpts(TypedDict, total=False):
    """Options, see `LsfScheduler.run_opts`."""

    lsf_queue: str | None
    jobdir: str | None
    container_workdir: str | None
    host_network: bool | None
    shm_size: str | None


def get_job_state(state_str: str, exit_code: str) -> AppState:
    """State by LSF's word for it; a job that was killed is cancelled."""
    state = JOB_STATE.get(state_str, AppState.UNKNOWN)
    return AppState.CANCELLED if state is AppState.FAILED and exit_code == _KILLED else state


def cleanup_str(data: str) -> str:
    """A name that LSF takes: letters, digits, `_` and `-`, lower case, the first one none of both."""
    kept = "".join(character for character in data.lower() if character.isalnum() or character in "_-")
    return kept.lstrip("_-")


def get_docker_command(job_name: str, role: Role, cfg: LsfOpts) -> str:
    """The `docker run` of a replica, quoted for a shell."""
    words = ["docker", "run", f"--name={job_name}"]
    for mount in role.mounts:
        if isinstance(mount, BindMount):
            words += ["-v", f"{mount.src_path}:{mount.dst_path}:{'ro' if mount.read_only else 'rw'}"]
        elif isinstance(mount, VolumeMount):
            read_only = ",readonly" if mount.read_only else ""
            words += ["--mount", f"type=volume,src={mount.src},dst={mount.dst_path}{read_only}"]
        elif isinstance(mount, DeviceMount):
            words.append(f"--device={mount.src_path}:{mount.dst_path}:{mount.permissions}")
    if workdir := cfg.get("container_workdir"):
        words += ["-w", workdir]
    if cfg.get("host_network"):
        words += ["--net=host", "--ipc=host"]
    else:
        words += [word for port in role.port_map.values() for word in ("-p", str(port))]
    words.append(f"--shm-size={cfg.get('shm_size') or '64m'}")
    words += [word for name, value in role.env.items() for word in ("-e", f"{name}={value}")]
    resource = role.resource
    if resource.cpu > 0:
        words.append(f"--cpus={resource.cpu}")
    if resource.memMB > 0:
        words.append(f"--memory={resource.memMB * 1024 * 1024}")
    if resource.gpu > 0:
        words += ["--gpus", "all"]
    words += ["--entrypoint", role.entrypoint, "--rm", role.image, *role.args]
    return " ".join(map(shlex.quote, words))


def get_command(job_name: str, role: Role, cfg: LsfOpts) -> str:
    """What a job runs, with its output going to files of the job's folder; for text within a here-document."""
    if role.image and role.image != NONE:
        command = get_docker_command(job_name, role, cfg)
    else:
        variables = [f"{name}={value}" for name, value in role.env.items()]
        command = " ".join(map(shlex.quote, ["env", *variables, role.entrypoint, *role.args]))
    if folder := cfg.get("jobdir"):
        command += f" > {shlex.quote(f'{folder}/{job_name}.out')} 2> {shlex.quote(f'{folder}/{job_name}.err')}"
    # The shell that reads the here-document would fill in what the job's shell is meant to.
    return command.replace("\\", "\\\\").replace("$", "\\$").replace("`", "\\`")


def get_bsub(app_id: str, job_name: str, role: Role, cfg: LsfOpts, head_job_name: str, head_job_host: str) -> str:
    """The `bsub` of a replica, quoted for a shell.

    Args:
        app_id: the application, which is LSF's project.
        job_name: of the replica.
        role: whose resource it asks for.
        cfg: options of the scheduler.
        head_job_name: of the first replica; the others start after it, on other hosts.
        head_job_host: where the first replica runs.
    """
    words = ["bsub", "-P", app_id, "-J", job_name]
    if head_job_name and job_name != head_job_name:
        words += ["-w", f"started({head_job_name})", "-R", f"select[hname!='{head_job_host}']"]
    else:
        words += ["-m", head_job_host]
    if folder := cfg.get("jobdir"):
        words += ["-cwd", folder, "-outdir", folder]
        words += ["-oo", f"{folder}/{job_name}.submit.out", "-eo", f"{folder}/{job_name}.submit.err"]
    if queue := cfg.get("lsf_queue"):
        words += ["-q", queue]
    resource = role.resource
    if resource.cpu > 0:
        words += ["-n", str(resource.cpu)]
    usage = f" rusage[mem={resource.memMB}]" if resource.memMB > 0 else ""
    words += ["-R", f"span[hosts=1]{usage}"]
    if resource.gpu > 0:
        words += ["-gpu", f"num={resource.gpu}:mode=shared:j_exclusive=yes"]
    return " ".join(map(shlex.quote, words))


def find_rank0_host_from_bhosts_stdout(msg: str, role: Role) -> str:
    """The first host with room for a replica, in what `bhosts -o "HOST_NAME:30 STATUS:20 MAX" -noheader` says."""
    for line in msg.splitlines():
        fields = line.split()
        if (
            len(fields) >= 3
            and fields[1] == "ok"
            and fields[2].isdigit()
            and int(fields[2]) >= max(1, role.resource.cpu)
        ):
            return fields[0]
    return ""


def find_rank0_host(role: Role) -> str:
    """The first host with room for a replica.

    Raises:
        SchedulerError: there is none, or LSF cannot be asked.
    """
    answer = run_program(["bhosts", "-noheader", "-X", "-w", "-o", "HOST_NAME:30 STATUS:20 MAX"])
    if not (host := find_rank0_host_from_bhosts_stdout(answer, role)):
        raise SchedulerError(f"no host of LSF has {role.resource.cpu} cores and is up; `bhosts` shows all.")
    return host


def get_submit_script(app_id: str, cmd: list[str], app: AppDef, cfg: LsfOpts, rank0_host: str) -> str:
    """The script that submits all replicas.

    Args:
        app_id: the application.
        cmd: what runs the script.
        app: its roles.
        cfg: options of the scheduler.
        rank0_host: where the first replica runs.
    """
    parts = [f"#!/bin/bash\n#\n# Generated by flambeau-launch {__version__}\n# Run with: {shlex.join(cmd)}\n#"]
    head = f"{app_id}-{safe_id(app.roles[0].name)}-0"
    for role in app.roles:
        for number in range(role.num_replicas):
            name = f"{app_id}-{safe_id(role.name)}-{number}"
            filled = macros.Values("", app_id, str(number), "TORCHX_RANK0_HOST").apply(role)
            filled.env["TORCHX_RANK0_HOST"] = rank0_host
            line = get_bsub(app_id, name, filled, cfg, head, rank0_host)
            parts.append(f"{line} << EOF\n{get_command(name, filled, cfg)}\nEOF")
    return "\n".join(parts) + "\n"


@dataclass
class LsfBsub:
    """The request for an application.

    Attributes:
        jobdir: folder of its logs.
        app_id: its id.
        app: its roles.
        cfg: options of the scheduler.
        cmd: what runs the script.
    """

    jobdir: str | None
    app_id: str
    app: AppDef
    cfg: LsfOpts
    cmd: list[str]

    def materialize(self, rank0_host: str = "RANK0_HOST") -> str:
        """The script, for a first replica that runs on a host."""
        return get_submit_script(self.app_id, self.cmd, self.app, self.cfg, rank0_host)

    def __repr__(self) -> str:
        return f"{' '.join(self.cmd)} $BSUB_SCRIPT\n#------------\n# BSUB_SCRIPT\n#------------\n{self.materialize()}"


@dataclass(frozen=True)
class _Job:
    """A job, as `bjobs` tells of it."""

    jobid: str
    stat: str
    proj: str
    exit_code: str
    job_name: str
    output_file: str
    error_file: str
    exec_host: str

    @property
    def state(self) -> AppState:
        return get_job_state(self.stat, self.exit_code)

    @property
    def place(self) -> tuple[str, int]:
        """Role and number, which stand behind the application in the job's name."""
        role, _, number = self.job_name.removeprefix(f"{self.proj}-").rpartition("-")
        return role, int(number) if number.isdigit() else 0


def _jobs(msg: str) -> list[_Job]:
    rows = (line.split(";") for line in msg.splitlines() if line.count(";") == 7)
    return [_Job(*(cell.strip() for cell in row)) for row in rows]


def bjobs_msg_to_describe(app_id: str, msg: str) -> DescribeAppResponse | None:
    """What `bjobs` says of an application; None for nothing."""
    jobs = [job for job in _jobs(msg) if job.proj == app_id]
    if not jobs:
        return None
    roles: dict[str, Role] = {}
    statuses: dict[str, RoleStatus] = {}
    for job in jobs:
        name, number = job.place
        role = roles.setdefault(name, Role(name, "", num_replicas=0))
        role.num_replicas += 1
        host = "" if job.exec_host == "-" else job.exec_host
        statuses.setdefault(name, RoleStatus(name, [])).replicas.append(ReplicaStatus(number, job.state, name, host))
    state = _overall([job.state for job in jobs])
    return DescribeAppResponse(
        app_id, state, roles_statuses=list(statuses.values()), roles=list(roles.values()), msg=NONE
    )


def _overall(states: list[AppState]) -> AppState:
    for state in (AppState.FAILED, AppState.CANCELLED, AppState.RUNNING, AppState.PENDING, AppState.UNKNOWN):
        if state in states:
            return state
    return AppState.SUCCEEDED


def bjobs_msg_to_list(msg: str) -> list[ListAppResponse]:
    """The applications in what `bjobs` says."""
    states: dict[str, list[AppState]] = {}
    for job in _jobs(msg):
        states.setdefault(job.proj, []).append(job.state)
    return [ListAppResponse(app_id, _overall(many)) for app_id, many in states.items()]


def bjobs_msg_to_log_file(app_id: str, role_name: str, k: int = 0, streams: Stream | None = None, msg: str = "") -> str:
    """The file of a replica's output, or of its errors.

    Raises:
        LogsUnavailable: it writes to none.
    """
    name = f"{app_id}-{safe_id(role_name)}-{k}"
    ending, chosen = ("err", "error_file") if streams is Stream.STDERR else ("out", "output_file")
    for job in _jobs(msg):
        path = str(getattr(job, chosen))
        if job.job_name == name and path not in ("", "-"):
            return path.removesuffix(f".submit.{ending}") + f".{ending}"
    raise LogsUnavailable(f"{name} writes to no file; the option jobdir names the folder of logs.")


class LsfScheduler(Scheduler[LsfOpts]):
    """Submits jobs by `bsub`, and asks `bjobs` for their states.

    Args:
        session_name: what handles have in their middle.
    """

    def __init__(self, session_name: str) -> None:
        super().__init__("lsf", session_name)

    def _run_opts(self) -> runopts:
        options = runopts()
        options.add("lsf_queue", type_=str, help="queue that jobs wait in")
        options.add("jobdir", type_=str, help="folder for logs, shared by all hosts")
        options.add("container_workdir", type_=str, help="folder that programs start in, in their containers")
        options.add("host_network", type_=bool, default=False, help="whether containers have the host's network")
        options.add("shm_size", type_=str, default="64m", help="size of the containers' /dev/shm")
        return options

    def _submit_dryrun(self, app: AppDef, cfg: LsfOpts) -> AppDryRunInfo[LsfBsub]:
        folder = cfg.get("jobdir")
        app_id = make_unique(cleanup_str(app.name) or "app")
        return AppDryRunInfo(LsfBsub(folder, app_id, app, cfg, ["/bin/bash"]), repr)

    def request_text(self, dryrun_info: AppDryRunInfo[LsfBsub]) -> str:
        """The script, which `bash` runs once RANK0_HOST is replaced by a host."""
        return dryrun_info.request.materialize()

    def schedule(self, dryrun_info: AppDryRunInfo[LsfBsub]) -> str:
        """Submit all replicas; where one is refused, those before it are killed.

        Raises:
            SchedulerError: (a RuntimeError) LSF refuses one, or cannot be asked.
        """
        request = dryrun_info.request
        host = find_rank0_host(request.app.roles[0])
        if request.jobdir:
            Path(request.jobdir).mkdir(parents=True, exist_ok=True)
        script = f"set -e\n{request.materialize(host)}"
        try:
            run_program([*request.cmd, "-s"], stdin=script)
        except ProgramFailed:
            self._kill(request.app_id)
            raise
        return request.app_id

    def _bjobs(self, *words: str) -> str:
        try:
            return run_program(["bjobs", "-noheader", "-a", *words, "-o", f"{_FIELDS} delimiter=';'"])
        except ProgramFailed as error:
            if (
                "found" in error.stderr or "matching" in error.stderr
            ):  # "No unfinished job found", "No matching job found"
                return ""
            raise

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """What LSF knows of an application's jobs."""
        return bjobs_msg_to_describe(app_id, self._bjobs("-P", app_id))

    def list(self) -> list[ListAppResponse]:
        """The user's jobs, as far as LSF remembers them."""
        return bjobs_msg_to_list(self._bjobs())

    def _cancel_existing(self, app_id: str) -> None:
        self._kill(app_id)

    def _kill(self, app_id: str) -> None:
        jobs = [job.jobid for job in _jobs(self._bjobs("-P", app_id)) if not is_terminal(job.state)]
        if jobs:
            run_program(["bkill", *jobs])

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
        """The lines that a replica wrote, without `streams` what it printed; see `Scheduler.log_iter`.

        Raises:
            LogsUnavailable: it writes to no file, or the file was cleaned away.
        """
        if since or until:
            log.warning("logs of LSF have no times; since and until are ignored")
        path = bjobs_msg_to_log_file(app_id, role_name, k, streams, self._bjobs("-P", app_id))

        def has_ended() -> bool:
            about = self.describe(app_id) if should_tail else None
            return about is None or is_terminal(about.state)

        lines = follow([Path(path)], has_ended, what=app_id)
        return filter_regex(regex, lines) if regex else lines


def create_scheduler(session_name: str, **kwargs: Any) -> LsfScheduler:
    """A scheduler of LSF's jobs."""
    return LsfScheduler(session_name)
