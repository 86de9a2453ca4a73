"""Jobs of Google Cloud Batch: a group of tasks for each role, a machine for each replica."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypedDict

from flambeau.launch.errors import LogsUnavailable, SchedulerError, SpecError
from flambeau.launch.schedulers.api import DescribeAppResponse, ListAppResponse, Scheduler, Stream, filter_regex
from flambeau.launch.schedulers.ids import make_unique
from flambeau.launch.schedulers.kubernetes_pods import cleanup_str
from flambeau.launch.specs.apps import AppDef, AppDryRunInfo, Role
from flambeau.launch.specs.macros import macros
from flambeau.launch.specs.options import runopts
from flambeau.launch.specs.resources import Resource
from flambeau.launch.specs.status import AppState, ReplicaStatus, RoleStatus
from flambeau.launch.version import __version__

if TYPE_CHECKING:
    from google.cloud import batch_v1

__all__ = [
    "BATCH_LOGGER_NAME",
    "DEFAULT_LOC",
    "GPU_COUNT_TO_TYPE",
    "GPU_TYPE_TO_COUNT",
    "JOB_STATE",
    "LABEL_APP_NAME",
    "LABEL_VERSION",
    "LOCATIONS",
    "GCPBatchJob",
    "GCPBatchOpts",
    "GCPBatchScheduler",
    "create_scheduler",
]

JOB_STATE: dict[str, AppState] = {
    "STATE_UNSPECIFIED": AppState.UNKNOWN,
    "QUEUED": AppState.SUBMITTED,
    "SCHEDULED": AppState.PENDING,
    "RUNNING": AppState.RUNNING,
    "SUCCEEDED": AppState.SUCCEEDED,
    "FAILED": AppState.FAILED,
    "DELETION_IN_PROGRESS": AppState.CANCELLED,
    "CANCELLATION_IN_PROGRESS": AppState.CANCELLED,
    "CANCELLED": AppState.CANCELLED,
}
"""State by Batch's word for it."""

GPU_COUNT_TO_TYPE: dict[int, str] = {
    1: "a2-highgpu-1g",
    2: "a2-highgpu-2g",
    4: "a2-highgpu-4g",
    8: "a2-highgpu-8g",
    16: "a2-highgpu-16g",
}
"""Machines with so many GPUs."""
GPU_TYPE_TO_COUNT: dict[str, int] = {kind: count for count, kind in GPU_COUNT_TO_TYPE.items()}

LABEL_VERSION: str = "torchx_version"
LABEL_APP_NAME: str = "torchx_app_name"
DEFAULT_LOC: str = "us-central1"
LOCATIONS: list[str] = [DEFAULT_LOC, "us-west1", "us-east1", "asia-southeast1", "europe-north1", "europe-west6"]
BATCH_LOGGER_NAME = "batch_task_logs"


@dataclass
class GCPBatchJob:
    """The request for a job.

    Attributes:
        name: of the job.
        project: that pays for it.
        location: of its machines.
        job_def: as Batch takes it.
    """

    name: str
    project: str
    location: str
    job_def: batch_v1.Job

    def __str__(self) -> str:
        import yaml

        # Enumerations by their names, as the documentation of Batch and `gcloud` have them.
        fields = type(self.job_def).to_dict(self.job_def, use_integers_for_enums=False)
        return str(yaml.safe_dump(fields))

    __repr__ = __str__


class GCPBatchOpts(TypedDict, total=False):
    """Options, see `GCPBatchScheduler.run_opts`."""

    project: str | None
    location: str | None


class GCPBatchScheduler(Scheduler[GCPBatchOpts]):
    """Submits jobs to Google Cloud Batch.

    Args:
        session_name: what handles have in their middle.
        client: of Batch; one for the configured account where not given.
    """

    def __init__(self, session_name: str, client: Any | None = None) -> None:
        super().__init__("gcp_batch", session_name)
        self.__client = client

    @property
    def _client(self) -> Any:
        if self.__client is None:
            from google.auth.exceptions import GoogleAuthError
            from google.cloud import batch_v1

            try:
                self.__client = batch_v1.BatchServiceClient()
            except GoogleAuthError as error:
                raise SchedulerError(
                    f"Google Cloud: {error} `gcloud auth application-default login` logs in."
                ) from None
        return self.__client

    def _run_opts(self) -> runopts:
        options = runopts()
        options.add("project", type_=str, help="project that pays for the job; the configured one where not given")
        options.add("location", type_=str, default=DEFAULT_LOC, help="where its machines are")
        return options

    def _submit_dryrun(self, app: AppDef, cfg: GCPBatchOpts) -> AppDryRunInfo[GCPBatchJob]:
        name = make_unique(cleanup_str(app.name) or "app")[:63]
        project = cfg.get("project") or _configured_project()
        location = cfg.get("location") or DEFAULT_LOC
        return AppDryRunInfo(GCPBatchJob(name, project, location, _job(name, app)), str)

    def schedule(self, dryrun_info: AppDryRunInfo[GCPBatchJob]) -> str:
        """Make the job.

        Raises:
            SchedulerError: (a RuntimeError) Google Cloud refuses it, or cannot be reached.
        """
        from google.cloud import batch_v1

        request = dryrun_info.request
        asked = batch_v1.CreateJobRequest(
            parent=f"projects/{request.project}/locations/{request.location}", job=request.job_def, job_id=request.name
        )
        with _refusals(f"job {request.name}"):
            self._client.create_job(asked)
        return f"{request.project}:{request.location}:{request.name}"

    def _job(self, app_id: str) -> Any:
        from google.api_core.exceptions import NotFound
        from google.cloud import batch_v1

        with _refusals(f"job {app_id}"):
            try:
                return self._client.get_job(batch_v1.GetJobRequest(name=_full_name(app_id)))
            except NotFound:
                return None

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """What Batch knows of a job."""
        job = self._job(app_id)
        if job is None:
            return None
        state = JOB_STATE[job.status.state.name]
        roles, statuses = [], []
        for group in job.task_groups:
            role = _role(group, job)
            roles.append(role)
            replicas = [ReplicaStatus(number, state, role.name, "") for number in range(role.num_replicas)]
            statuses.append(RoleStatus(role.name, replicas))
        told = [event.description for event in job.status.status_events]
        return DescribeAppResponse(
            app_id, state, msg=told[-1] if told else "", roles_statuses=statuses, roles=roles, ui_url=_page(app_id)
        )

    def list(self) -> list[ListAppResponse]:
        """The jobs of ours in the configured project, in all of `LOCATIONS`."""
        from google.cloud import batch_v1

        project = _configured_project()
        found = []
        with _refusals("jobs"):
            for location in LOCATIONS:
                asked = batch_v1.ListJobsRequest(parent=f"projects/{project}/locations/{location}")
                for job in self._client.list_jobs(asked):
                    if LABEL_VERSION in job.labels:
                        app_id = f"{project}:{location}:{job.name.rpartition('/')[2]}"
                        found.append(ListAppResponse(app_id, JOB_STATE[job.status.state.name]))
        return found

    def _cancel_existing(self, app_id: str) -> None:
        from google.cloud import batch_v1

        reason = "cancelled by flambeau launch"
        with _refusals(f"job {app_id}"):
            # Upstream: Batch had no call to cancel, so the job is deleted.
            self._client.delete_job(batch_v1.DeleteJobRequest(name=_full_name(app_id), reason=reason))

    def log_iter(
        self,
        app_id: str,
        role_name: str = "",
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
    ) -> Iterable[str]:
        """The lines of a replica's task in Cloud Logging that are there now; see `Scheduler.log_iter`.

        Raises:
            LogsUnavailable: the job is not there, or not any more.
        """
        job = self._job(app_id)
        if job is None:
            raise LogsUnavailable(f"Google Cloud Batch does not know {app_id}, or has forgotten it.")
        names = [_role(group, job).name for group in job.task_groups]
        if role_name and role_name not in names:
            raise LogsUnavailable(f"{app_id} has no role {role_name!r}; it has {', '.join(names)}.")
        index = names.index(role_name) if role_name else 0
        lines = self._entries(app_id.partition(":")[0], log_filter(job, index, k, since, until))
        return filter_regex(regex, lines) if regex else lines

    def _entries(self, project: str, chosen: str) -> Iterator[str]:
        cloud_logging = import_module("google.cloud.logging")
        with _refusals("logs"):
            client = cloud_logging.Client(project=project)
            for entry in client.logger(BATCH_LOGGER_NAME).list_entries(filter_=chosen):
                text = str(entry.payload)
                yield text if text.endswith("\n") else f"{text}\n"


def log_filter(job: Any, group: int, task: int, since: datetime | None, until: datetime | None) -> str:
    """The filter of Cloud Logging for one task of a job."""
    parts = [f'labels.job_uid="{job.uid}"', f'labels.task_id:"task/{job.uid}-group{group}-{task}/"']
    if since is not None:
        parts.append(f'timestamp>="{since.isoformat()}"')
    if until is not None:
        parts.append(f'timestamp<="{until.isoformat()}"')
    return " AND ".join(parts)


class _refusals:
    """A block whose failures at Google Cloud become one line."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError

        if isinstance(error, GoogleAPIError | GoogleAuthError):
            raise SchedulerError(f"{self._what}: Google Cloud: {error}") from None


def _configured_project() -> str:
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    try:
        _, project = google.auth.default()
    except GoogleAuthError as error:
        raise SchedulerError(f"Google Cloud: {error} Or name a project: -cfg project=NAME.") from None
    if not project:
        raise SchedulerError("no project of Google Cloud is configured; name one: -cfg project=NAME.")
    return str(project)


def _full_name(app_id: str) -> str:
    parts = app_id.split(":")
    if len(parts) != 3:
        raise SchedulerError(f"{app_id!r} is no job of Google Cloud Batch; expected PROJECT:LOCATION:NAME.")
    project, location, name = parts
    return f"projects/{project}/locations/{location}/jobs/{name}"


def _page(app_id: str) -> str:
    project, location, name = app_id.split(":")
    return f"https://console.cloud.google.com/batch/jobsDetail/regions/{location}/jobs/{name}?project={project}"


def _job(name: str, app: AppDef) -> batch_v1.Job:
    from google.cloud import batch_v1

    policies = []
    groups = []
    for index, role in enumerate(app.roles):
        values = macros.Values("", name, "0", "BATCH_MAIN_NODE_HOSTNAME")
        groups.append(_group(index, values.apply(role)))
        if role.resource.gpu > 0:
            if role.resource.gpu not in GPU_COUNT_TO_TYPE:
                known = ", ".join(map(str, GPU_COUNT_TO_TYPE))
                raise SpecError(
                    f"role {role.name!r} asks for {role.resource.gpu} GPUs; machines of Google Cloud have {known}."
                )
            kind = GPU_COUNT_TO_TYPE[role.resource.gpu]
            policy = batch_v1.AllocationPolicy.InstancePolicy(machine_type=kind)
            policies.append(batch_v1.AllocationPolicy.InstancePolicyOrTemplate(policy=policy, install_gpu_drivers=True))
    return batch_v1.Job(
        name=name,
        task_groups=groups,
        allocation_policy=batch_v1.AllocationPolicy(instances=policies),
        logs_policy=batch_v1.LogsPolicy(destination=batch_v1.LogsPolicy.Destination.CLOUD_LOGGING),
        # Labels have neither dots nor capitals.
        labels={LABEL_VERSION: __version__.replace(".", "-"), LABEL_APP_NAME: name},
    )


def _group(index: int, role: Role) -> batch_v1.TaskGroup:
    from google.cloud import batch_v1

    # Machines of a group reach one another by any port only after their firewalls were opened.
    opening = batch_v1.Runnable(script=batch_v1.Runnable.Script(text="/sbin/iptables -A INPUT -j ACCEPT"))
    container = batch_v1.Runnable.Container(
        image_uri=role.image, commands=[role.entrypoint, *role.args], options="--net host"
    )
    environment = {**role.env, "TORCHX_ROLE_IDX": str(index), "TORCHX_ROLE_NAME": role.name}
    running = batch_v1.Runnable(container=container, environment=batch_v1.Environment(variables=environment))
    resource = role.resource
    asked = batch_v1.ComputeResource()
    if resource.cpu > 0:
        asked.cpu_milli = int(resource.cpu * 1000)
    if resource.memMB > 0:
        asked.memory_mib = int(resource.memMB)
    task = batch_v1.TaskSpec(
        runnables=[opening, running], compute_resource=asked, max_retry_count=max(0, role.max_retries)
    )
    replicas = [
        batch_v1.Environment(variables={"TORCHX_REPLICA_IDX": str(number)}) for number in range(role.num_replicas)
    ]
    return batch_v1.TaskGroup(
        task_spec=task,
        task_count=role.num_replicas,
        parallelism=role.num_replicas,
        task_count_per_node=1,
        task_environments=replicas,
        require_hosts_file=True,
    )


def _role(group: Any, job: Any) -> Role:
    """The role of a group of tasks."""
    running = group.task_spec.runnables[-1]
    commands = list(running.container.commands)
    env = dict(running.environment.variables)
    asked = group.task_spec.compute_resource
    kinds = [one.policy.machine_type for one in job.allocation_policy.instances]
    gpus = max((GPU_TYPE_TO_COUNT.get(kind, 0) for kind in kinds), default=0)
    return Role(
        env.get("TORCHX_ROLE_NAME", "role"),
        running.container.image_uri,
        entrypoint=commands[0] if commands else "",
        args=commands[1:],
        env=env,
        num_replicas=int(group.task_count),
        max_retries=int(group.task_spec.max_retry_count),
        resource=Resource(int(asked.cpu_milli / 1000), gpus, int(asked.memory_mib)),
    )


def create_scheduler(session_name: str, client: Any | None = None, **kwargs: object) -> GCPBatchScheduler:
    """A scheduler of Google Cloud Batch.

    Raises:
        ModuleNotFoundError: its client is not installed.
    """
    import google.cloud.batch_v1  # noqa: F401  (here, so that its absence is told at once)

    return GCPBatchScheduler(session_name, client)
