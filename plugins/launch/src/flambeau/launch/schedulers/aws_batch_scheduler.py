"""Jobs of AWS Batch: multi-node parallel ones, with a node for each replica."""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypedDict

from flambeau.launch.errors import LogsUnavailable, SchedulerError
from flambeau.launch.schedulers.api import (
    DAYS_IN_2_WEEKS,
    DescribeAppResponse,
    ListAppResponse,
    Scheduler,
    Stream,
    filter_regex,
)
from flambeau.launch.schedulers.aws_logs import aws_client, events, refusals, tag_values
from flambeau.launch.schedulers.devices import get_device_mounts
from flambeau.launch.schedulers.ids import make_unique, safe_id
from flambeau.launch.specs.apps import NONE, AppDef, AppDryRunInfo, Role
from flambeau.launch.specs.macros import macros
from flambeau.launch.specs.mounts import BindMount, DeviceMount, VolumeMount
from flambeau.launch.specs.named_resources_aws import K8S_ITYPE
from flambeau.launch.specs.options import runopts
from flambeau.launch.specs.resources import Resource
from flambeau.launch.specs.status import AppState, ReplicaStatus, RoleStatus, is_terminal
from flambeau.launch.util.datetime import get_past_epoch_time
from flambeau.launch.version import __version__
from flambeau.launch.workspace.docker_workspace import DockerWorkspaceMixin

if TYPE_CHECKING:
    from docker import DockerClient

__all__ = [
    "DEFAULT_ROLE_NAME",
    "ENV_TORCHX_ROLE_IDX",
    "ENV_TORCHX_ROLE_NAME",
    "JOB_STATE",
    "TAG_TORCHX_APPNAME",
    "TAG_TORCHX_USER",
    "TAG_TORCHX_VER",
    "AWSBatchOpts",
    "AWSBatchScheduler",
    "BatchJob",
    "ResourceType",
    "create_scheduler",
    "resource_from_resource_requirements",
    "resource_requirements_from_resource",
    "to_datetime",
    "to_millis_since_epoch",
]

ENV_TORCHX_ROLE_IDX = "TORCHX_ROLE_IDX"
ENV_TORCHX_ROLE_NAME = "TORCHX_ROLE_NAME"
DEFAULT_ROLE_NAME = "node"
TAG_TORCHX_VER = "torchx.pytorch.org/version"
TAG_TORCHX_APPNAME = "torchx.pytorch.org/app-name"
TAG_TORCHX_USER = "torchx.pytorch.org/user"
LOG_GROUP = "/aws/batch/job"
_RANK0 = "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"

JOB_STATE: dict[str, AppState] = {
    "SUBMITTED": AppState.PENDING,
    "PENDING": AppState.PENDING,
    "RUNNABLE": AppState.PENDING,
    "STARTING": AppState.PENDING,
    "RUNNING": AppState.RUNNING,
    "SUCCEEDED": AppState.SUCCEEDED,
    "FAILED": AppState.FAILED,
}
"""State by Batch's word for it."""


def to_millis_since_epoch(ts: datetime) -> int:
    """Milliseconds since the epoch, as AWS counts time."""
    return round(ts.timestamp() * 1000)


def to_datetime(ms_since_epoch: int) -> datetime:
    """The moment that AWS means, in local time. Upstream: it says nothing of its zone."""
    return datetime.fromtimestamp(ms_since_epoch / 1000)


class ResourceType(Enum):
    """What a container of Batch can ask for."""

    VCPU = auto()
    GPU = auto()
    MEMORY = auto()

    @staticmethod
    def from_str(resource_type: str) -> ResourceType:
        """The member of a name, in whatever case.

        Raises:
            KeyError: there is none.
        """
        return ResourceType[resource_type.upper()]


def resource_requirements_from_resource(resource: Resource) -> list[dict[str, str]]:
    """What a container asks Batch for, which needs at least one core and some memory."""
    asked = [
        {"type": ResourceType.VCPU.name, "value": str(max(1, resource.cpu))},
        {"type": ResourceType.MEMORY.name, "value": str(max(4, resource.memMB))},
    ]
    return asked + ([{"type": ResourceType.GPU.name, "value": str(resource.gpu)}] if resource.gpu > 0 else [])


def resource_from_resource_requirements(resource_requirements: list[dict[str, str]]) -> Resource:
    """The resource that a container asked for; -1 for what it did not name, and no GPU."""
    asked = {ResourceType.from_str(one["type"]): int(float(one["value"])) for one in resource_requirements}
    return Resource(
        asked.get(ResourceType.VCPU, -1), asked.get(ResourceType.GPU, 0), asked.get(ResourceType.MEMORY, -1)
    )


@dataclass
class BatchJob:
    """The request for a job.

    Attributes:
        name: of the job and its definition.
        queue: where it waits.
        share_id: whose share of the queue it counts for.
        job_def: the definition, as Batch takes it.
        images_to_push: id of a local image -> its repository and tag.
    """

    name: str
    queue: str
    share_id: str | None
    job_def: dict[str, Any]
    images_to_push: dict[str, tuple[str, str]]

    def __str__(self) -> str:
        import yaml

        fields = {name: getattr(self, name) for name in ("name", "queue", "share_id", "job_def", "images_to_push")}
        return str(yaml.safe_dump(fields))

    __repr__ = __str__


class AWSBatchOpts(TypedDict, total=False):
    """Options, see `AWSBatchScheduler.run_opts`."""

    queue: str
    user: str
    image_repo: str | None
    privileged: bool
    share_id: str | None
    priority: int
    job_role_arn: str | None
    execution_role_arn: str | None


class AWSBatchScheduler(DockerWorkspaceMixin, Scheduler[AWSBatchOpts]):
    """Submits multi-node jobs to AWS Batch.

    Args:
        session_name: what handles have in their middle.
        client: of Batch; boto3's for the configured account where not given.
        log_client: of CloudWatch's logs, likewise.
        docker_client: of the engine that builds images.
    """

    def __init__(
        self,
        session_name: str,
        client: Any | None = None,
        log_client: Any | None = None,
        docker_client: DockerClient | None = None,
    ) -> None:
        super().__init__("aws_batch", session_name, docker_client=docker_client)
        self.__client, self.__log_client = client, log_client

    @property
    def _client(self) -> Any:
        if self.__client is None:
            self.__client = aws_client("batch")
        return self.__client

    @property
    def _log_client(self) -> Any:
        if self.__log_client is None:
            self.__log_client = aws_client("logs")
        return self.__log_client

    def _run_opts(self) -> runopts:
        options = runopts()
        options.add("queue", type_=str, required=True, help="queue that the job waits in")
        options.add("user", type_=str, default=getpass.getuser(), help="user that the job is tagged with")
        options.add("privileged", type_=bool, default=False, help="whether containers may do what root on the host may")
        options.add("share_id", type_=str, help="share of the queue, for queues with a scheduling policy alone")
        options.add("priority", type_=int, default=0, help="priority in the share, 0 to 9999, higher ones first")
        options.add("job_role_arn", type_=str, help="IAM role that containers have")
        options.add("execution_role_arn", type_=str, help="IAM role that the agent has, to fetch images and write logs")
        return options

    def _submit_dryrun(self, app: AppDef, cfg: AWSBatchOpts) -> AppDryRunInfo[BatchJob]:
        name = self._name(app, cfg)
        images = self.dryrun_push_images(app, dict(cfg))  # type: ignore[arg-type]
        nodes, first = [], 0
        for index, role in enumerate(app.roles):
            last = first + role.num_replicas - 1
            nodes.append({"targetNodes": f"{first}:{last}", "container": _container(index, role, first, name, cfg)})
            first = last + 1
        definition: dict[str, Any] = {
            "jobDefinitionName": name,
            "type": "multinode",
            "nodeProperties": {"numNodes": first, "mainNode": 0, "nodeRangeProperties": nodes},
            "retryStrategy": {
                "attempts": max(1, max(role.max_retries for role in app.roles)),
                "evaluateOnExit": [{"onExitCode": "0", "action": "EXIT"}],
            },
            "tags": tag_values(
                {
                    TAG_TORCHX_VER: __version__,
                    TAG_TORCHX_APPNAME: app.name,
                    TAG_TORCHX_USER: str(cfg.get("user") or getpass.getuser()),
                    **app.metadata,
                }
            ),
        }
        if cfg.get("share_id") is not None:
            definition["schedulingPriority"] = cfg.get("priority", 0)
        return AppDryRunInfo(BatchJob(name, cfg["queue"], cfg.get("share_id"), definition, images), str)

    def _name(self, app: AppDef, cfg: AWSBatchOpts) -> str:
        name = safe_id(app.name).replace(".", "-")
        share = cfg.get("share_id")
        return make_unique(f"{name}-{share}" if share else name)[:128]

    def schedule(self, dryrun_info: AppDryRunInfo[BatchJob]) -> str:
        """Register the job's definition and submit it.

        Raises:
            SchedulerError: (a RuntimeError) AWS refuses it, or cannot be reached.
        """
        request = dryrun_info.request
        if request.images_to_push:
            self.push_images(request.images_to_push)
        options: dict[str, Any] = {"shareIdentifier": request.share_id} if request.share_id else {}
        with refusals(f"job {request.name}"):
            self._client.register_job_definition(**request.job_def)
            self._client.submit_job(
                jobName=request.name, jobQueue=request.queue, jobDefinition=request.name,
                tags=request.job_def["tags"], **options,
            )  # fmt: skip
        return f"{request.queue}:{request.name}"

    def _job(self, app_id: str) -> Any:
        """What Batch knows of a job; None for nothing."""
        queue, separator, name = app_id.rpartition(":")
        if not separator:
            raise SchedulerError(f"{app_id!r} is no job of AWS Batch; expected QUEUE:NAME.")
        with refusals(f"job {app_id}"):
            found = self._client.list_jobs(jobQueue=queue, filters=[{"name": "JOB_NAME", "values": [name]}])
            ids = [job["jobId"] for job in found["jobSummaryList"] if job["jobName"] == name]
            jobs = self._client.describe_jobs(jobs=ids[:1])["jobs"] if ids else []
        return jobs[0] if jobs else None

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """What Batch knows of a job."""
        job = self._job(app_id)
        if job is None:
            return None
        state = _state(job)
        roles, statuses = [], []
        for part in job.get("nodeProperties", {}).get("nodeRangeProperties", []):
            role = _role(part)
            roles.append(role)
            replicas = [ReplicaStatus(number, state, role.name, "") for number in range(role.num_replicas)]
            statuses.append(RoleStatus(role.name, replicas))
        return DescribeAppResponse(
            app_id=app_id,
            state=state,
            num_restarts=max(0, len(job.get("attempts", [])) - 1),
            msg=job.get("statusReason") or NONE,
            roles_statuses=statuses,
            roles=roles,
            ui_url=self._page(job),
        )

    def _page(self, job: Any) -> str | None:
        region = getattr(getattr(self._client, "meta", None), "region_name", None)
        if region is None:
            return None
        return f"https://{region}.console.aws.amazon.com/batch/home?region={region}#jobs/mnp-job/{job['jobId']}"

    def list(self) -> list[ListAppResponse]:
        """The jobs of the last two weeks in all queues that were submitted from here."""
        found = []
        with refusals("jobs"):
            for page in self._client.get_paginator("describe_job_queues").paginate():
                for queue in page["jobQueues"]:
                    if queue.get("state", "ENABLED") == "ENABLED":
                        found += list(self._jobs_of(queue["jobQueueName"]))
        return found

    def _jobs_of(self, queue: str) -> Iterator[ListAppResponse]:
        after = str(get_past_epoch_time(DAYS_IN_2_WEEKS))
        pages = self._client.get_paginator("list_jobs").paginate(
            jobQueue=queue, filters=[{"name": "AFTER_CREATED_AT", "values": [after]}]
        )
        ids = [job["jobId"] for page in pages for job in page["jobSummaryList"]]
        for start in range(0, len(ids), 100):  # as many as one question may name
            for job in self._client.describe_jobs(jobs=ids[start : start + 100])["jobs"]:
                if TAG_TORCHX_VER in job.get("tags", {}):
                    yield ListAppResponse(f"{queue}:{job['jobName']}", _state(job))

    def _cancel_existing(self, app_id: str) -> None:
        job = self._job(app_id)
        if job is not None:
            with refusals(f"job {app_id}"):
                self._client.terminate_job(jobId=job["jobId"], reason=CANCELLED)

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
        """The lines of a replica's node in CloudWatch, both streams in one; see `Scheduler.log_iter`.

        Raises:
            LogsUnavailable: the job, its node or the log is not there, or not any more.
        """
        job = self._job(app_id)
        if job is None:
            raise LogsUnavailable(f"AWS Batch does not know {app_id}, or has forgotten it.")
        stream = self._stream(job, role_name, k)

        def has_ended() -> bool:
            current = self._job(app_id) if should_tail else None
            return current is None or is_terminal(_state(current))

        lines = events(self._log_client, LOG_GROUP, stream, since=since, until=until, has_ended=has_ended)
        return filter_regex(regex, lines) if regex else lines

    def _stream(self, job: Any, role_name: str, replica: int) -> str:
        """The log stream of a node, which is a job of its own, named `JOB#NUMBER`."""
        first = 0
        for part in job["nodeProperties"]["nodeRangeProperties"]:
            role = _role(part)
            if role.name == role_name and replica < role.num_replicas:
                with refusals(f"job {job['jobName']}"):
                    nodes = self._client.describe_jobs(jobs=[f"{job['jobId']}#{first + replica}"])["jobs"]
                stream = nodes[0].get("container", {}).get("logStreamName") if nodes else None
                if stream is None:
                    raise LogsUnavailable(f"{role_name}/{replica} of {job['jobName']} has not started, and has no log.")
                return str(stream)
            first += role.num_replicas
        raise LogsUnavailable(f"{job['jobName']} has no replica {role_name}/{replica}.")


CANCELLED = "killed via torchx CLI"
"""Reason that Batch keeps with jobs that were cancelled, as upstream has it; Batch itself only knows failed ones."""


def _state(job: Any) -> AppState:
    state = JOB_STATE.get(job["status"], AppState.UNKNOWN)
    return AppState.CANCELLED if state is AppState.FAILED and job.get("statusReason") == CANCELLED else state


def _role(part: Any) -> Role:
    """The role of a range of nodes."""
    first, _, last = part["targetNodes"].partition(":")
    container = part.get("container", {})
    env = {one["name"]: one["value"] for one in container.get("environment", [])}
    command = container.get("command", [])
    return Role(
        name=env.get(ENV_TORCHX_ROLE_NAME, DEFAULT_ROLE_NAME),
        image=container.get("image", ""),
        entrypoint=command[0] if command else "",
        args=list(command[1:]),
        env=env,
        num_replicas=int(last) - int(first) + 1,
        resource=resource_from_resource_requirements(container.get("resourceRequirements", [])),
    )


def _container(index: int, role: Role, first: int, name: str, cfg: AWSBatchOpts) -> dict[str, Any]:
    """A role's container as Batch takes it.

    The number of a replica is that of its node among all, as Batch knows no other; for the first role both are one.
    """
    values = macros.Values("", name, "$AWS_BATCH_JOB_NODE_INDEX", _RANK0)
    filled = values.apply(role)
    env = {**filled.env, ENV_TORCHX_ROLE_IDX: str(index), ENV_TORCHX_ROLE_NAME: role.name}
    volumes, mounts, devices = _mounts(filled)
    container: dict[str, Any] = {
        "command": [filled.entrypoint, *filled.args],
        "image": role.image,
        "environment": [{"name": key, "value": value} for key, value in env.items()],
        "privileged": bool(cfg.get("privileged")),
        "resourceRequirements": resource_requirements_from_resource(role.resource),
        "linuxParameters": {
            # Loaders of data share tensors between processes there, and the default has 64 MB.
            "sharedMemorySize": max(4, role.resource.memMB),
            "devices": devices,
        },
        "logConfiguration": {"logDriver": "awslogs"},
        "mountPoints": mounts,
        "volumes": volumes,
    }
    for option, key in (("job_role_arn", "jobRoleArn"), ("execution_role_arn", "executionRoleArn")):
        if cfg.get(option):
            container[key] = cfg[option]  # type: ignore[literal-required]
    if instance := role.resource.capabilities.get(K8S_ITYPE):
        container["instanceType"] = instance
    return container


_PERMISSIONS = {"r": "READ", "w": "WRITE", "m": "MKNOD"}


def _mounts(role: Role) -> tuple[list[Any], list[Any], list[Any]]:
    """Volumes, where they are mounted, and device files."""
    volumes: list[Any] = []
    points: list[Any] = []
    devices: list[Any] = []
    for number, mount in enumerate([*role.mounts, *get_device_mounts(role.resource.devices)]):
        name = f"mount_{number}"
        if isinstance(mount, DeviceMount):
            permissions = [_PERMISSIONS[letter] for letter in mount.permissions]
            device = {"hostPath": mount.src_path, "containerPath": mount.dst_path, "permissions": permissions}
            devices.append(device)
            continue
        if isinstance(mount, BindMount):
            volumes.append({"name": name, "host": {"sourcePath": mount.src_path}})
        elif isinstance(mount, VolumeMount):
            volumes.append({"name": name, "efsVolumeConfiguration": {"fileSystemId": mount.src}})
        points.append({"containerPath": mount.dst_path, "readOnly": mount.read_only, "sourceVolume": name})
    return volumes, points, devices


def create_scheduler(
    session_name: str,
    client: Any | None = None,
    log_client: Any | None = None,
    docker_client: DockerClient | None = None,
    **kwargs: object,
) -> AWSBatchScheduler:
    """A scheduler of AWS Batch.

    Raises:
        ModuleNotFoundError: boto3 is not installed.
    """
    import boto3  # noqa: F401  (here, so that its absence is told at once)

    return AWSBatchScheduler(session_name, client, log_client, docker_client)
