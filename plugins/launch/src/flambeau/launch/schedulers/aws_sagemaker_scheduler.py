"""Training jobs of Amazon SageMaker: one role, an instance for each replica.

Jobs are made through SageMaker's own API; the SageMaker Python SDK is not needed. Code comes in the image: that of the
role, or one that is built of the workspace.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from flambeau.launch.errors import LogsUnavailable, SpecError
from flambeau.launch.schedulers.api import DescribeAppResponse, ListAppResponse, Scheduler, Stream, filter_regex
from flambeau.launch.schedulers.aws_logs import aws_client, events, refusals, tag_values
from flambeau.launch.schedulers.ids import make_unique, safe_id
from flambeau.launch.specs.apps import NONE, AppDef, AppDryRunInfo, Role
from flambeau.launch.specs.macros import macros
from flambeau.launch.specs.options import runopts
from flambeau.launch.specs.status import AppState, ReplicaStatus, RoleStatus, is_terminal
from flambeau.launch.version import __version__
from flambeau.launch.workspace.docker_workspace import DockerWorkspaceMixin

if TYPE_CHECKING:
    from docker import DockerClient

__all__ = ["JOB_STATE", "AWSSageMakerJob", "AWSSageMakerOpts", "AWSSageMakerScheduler", "create_scheduler"]

JOB_STATE: dict[str, AppState] = {
    "InProgress": AppState.RUNNING,
    "Completed": AppState.SUCCEEDED,
    "Failed": AppState.FAILED,
    "Stopping": AppState.CANCELLED,
    "Stopped": AppState.CANCELLED,
}
"""State by SageMaker's word for it."""

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
TAG_VERSION, TAG_APP, TAG_USER = (f"torchx.pytorch.org/{name}" for name in ("version", "app-name", "user"))
RANK0_HOST = "algo-1"
"""SageMaker names the machines of a job algo-1, algo-2, ..., and each finds the others by these names."""


class AWSSageMakerOpts(TypedDict, total=False):
    """Options, see `AWSSageMakerScheduler.run_opts`."""

    role: str
    instance_count: int
    instance_type: str
    user: str
    keep_alive_period_in_seconds: int | None
    volume_size: int | None
    volume_kms_key: str | None
    max_run: int | None
    input_mode: str | None
    output_path: str | None
    output_kms_key: str | None
    base_job_name: str | None
    tags: dict[str, str] | None
    subnets: list[str] | None
    security_group_ids: list[str] | None
    model_uri: str | None
    model_channel_name: str | None
    metric_definitions: dict[str, str] | None
    encrypt_inter_container_traffic: bool | None
    use_spot_instances: bool | None
    max_wait: int | None
    checkpoint_s3_uri: str | None
    checkpoint_local_path: str | None
    enable_network_isolation: bool | None
    environment: dict[str, str] | None
    enable_sagemaker_metrics: bool | None
    disable_profiler: bool | None
    disable_output_compression: bool | None
    enable_infra_check: bool | None
    training_repository_access_mode: str | None
    training_repository_credentials_provider_arn: str | None
    max_retry_attempts: int | None
    hyperparameters: dict[str, str] | None


@dataclass
class AWSSageMakerJob:
    """The request for a job.

    Attributes:
        job_name: its name.
        job_def: as SageMaker's `CreateTrainingJob` takes it.
        images_to_push: id of a local image -> its repository and tag.
    """

    job_name: str
    job_def: dict[str, Any]
    images_to_push: dict[str, tuple[str, str]]

    def __str__(self) -> str:
        import yaml

        return str(yaml.safe_dump({"job_name": self.job_name, "job_def": self.job_def}))

    __repr__ = __str__


class AWSSageMakerScheduler(DockerWorkspaceMixin, Scheduler[AWSSageMakerOpts]):
    """Submits training jobs.

    Args:
        session_name: what handles have in their middle.
        client: of SageMaker; boto3's for the configured account where not given.
        docker_client: of the engine that builds images.
        log_client: of CloudWatch's logs, as `client`.
    """

    def __init__(
        self,
        session_name: str,
        client: Any | None = None,
        docker_client: DockerClient | None = None,
        log_client: Any | None = None,
    ) -> None:
        super().__init__("aws_sagemaker", session_name, docker_client=docker_client)
        self.__client, self.__log_client = client, log_client

    @property
    def _client(self) -> Any:
        if self.__client is None:
            self.__client = aws_client("sagemaker")
        return self.__client

    @property
    def _log_client(self) -> Any:
        if self.__log_client is None:
            self.__log_client = aws_client("logs")
        return self.__log_client

    def _run_opts(self) -> runopts:
        options = runopts()
        for name, kind, text in _OPTIONS:
            options.add(
                name, type_=kind, help=text, required=name in ("role", "instance_type"), default=_DEFAULTS.get(name)
            )
        options.add("user", type_=str, default=getpass.getuser(), help="user that the job is tagged with")
        return options

    def _submit_dryrun(self, app: AppDef, cfg: AWSSageMakerOpts) -> AppDryRunInfo[AWSSageMakerJob]:
        if len(app.roles) != 1:
            raise SpecError(f"{app.name!r} has {len(app.roles)} roles; jobs of SageMaker have one.")
        images = self.dryrun_push_images(app, dict(cfg))  # type: ignore[arg-type]
        (role,) = app.roles
        base = str(cfg.get("base_job_name") or app.name)
        name = make_unique(safe_id(base).replace("_", "-").replace(".", "-"))[-63:].strip("-")
        values = macros.Values("", name, "0", "TORCHX_RANK0_HOST")
        filled = values.apply(role)
        return AppDryRunInfo(AWSSageMakerJob(name, _job(name, app, filled, cfg), images), str)

    def schedule(self, dryrun_info: AppDryRunInfo[AWSSageMakerJob]) -> str:
        """Make the job.

        Raises:
            SchedulerError: (a RuntimeError) AWS refuses it, or cannot be reached.
        """
        request = dryrun_info.request
        if request.images_to_push:
            self.push_images(request.images_to_push)
        definition = dict(request.job_def)
        with refusals(f"job {request.job_name}"):
            if not definition["OutputDataConfig"].get("S3OutputPath"):
                definition["OutputDataConfig"] = {
                    **definition["OutputDataConfig"],
                    "S3OutputPath": self._default_bucket(),
                }
            self._client.create_training_job(TrainingJobName=request.job_name, **definition)
        return request.job_name

    def _default_bucket(self) -> str:
        """The bucket that the SageMaker SDK would make and use."""
        account = aws_client("sts").get_caller_identity()["Account"]
        return f"s3://sagemaker-{self._client.meta.region_name}-{account}/"

    def _job(self, app_id: str) -> Any:
        from botocore.exceptions import ClientError

        with refusals(f"job {app_id}"):
            try:
                return self._client.describe_training_job(TrainingJobName=app_id)
            except ClientError as error:
                about = error.response["Error"]
                if about["Code"] in ("ValidationException", "ResourceNotFound", "ResourceNotFoundException"):
                    return None
                raise

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """What SageMaker knows of a job."""
        job = self._job(app_id)
        if job is None:
            return None
        state = JOB_STATE.get(job["TrainingJobStatus"], AppState.UNKNOWN)
        algorithm, environment = job["AlgorithmSpecification"], job.get("Environment") or {}
        role = Role(
            environment.get("TORCHX_ROLE_NAME", "role"),
            algorithm.get("TrainingImage", ""),
            entrypoint=(algorithm.get("ContainerEntrypoint") or [""])[0],
            args=list(algorithm.get("ContainerArguments") or []),
            env=environment,
            num_replicas=job["ResourceConfig"].get("InstanceCount", 1),
        )
        replicas = [
            ReplicaStatus(number, state, role.name, f"algo-{number + 1}") for number in range(role.num_replicas)
        ]
        region = self._client.meta.region_name
        page = f"https://{region}.console.aws.amazon.com/sagemaker/home?region={region}#jobs/{app_id}"
        message = job.get("FailureReason") or NONE
        return DescribeAppResponse(
            app_id,
            state,
            msg=message,
            ui_url=page,
            roles_statuses=[RoleStatus(role.name, replicas)],
            roles=[role],
        )

    def list(self) -> list[ListAppResponse]:
        """The hundred newest jobs of the account in this region."""
        with refusals("jobs"):
            found = self._client.list_training_jobs(MaxResults=100, SortBy="CreationTime", SortOrder="Descending")
        return [
            ListAppResponse(job["TrainingJobName"], JOB_STATE.get(job["TrainingJobStatus"], AppState.UNKNOWN))
            for job in found["TrainingJobSummaries"]
        ]

    def _cancel_existing(self, app_id: str) -> None:
        with refusals(f"job {app_id}"):
            self._client.stop_training_job(TrainingJobName=app_id)

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
        """The lines of a replica's machine in CloudWatch, both streams in one; see `Scheduler.log_iter`.

        Raises:
            LogsUnavailable: the log is not there, or not any more.
        """
        prefix = f"{app_id}/algo-{k + 1}-"
        with refusals(f"logs of {app_id}"):
            try:
                found = self._log_client.describe_log_streams(logGroupName=LOG_GROUP, logStreamNamePrefix=prefix)
            except self._log_client.exceptions.ResourceNotFoundException:
                found = {"logStreams": []}
        names = [stream["logStreamName"] for stream in found["logStreams"]]
        if not names:
            raise LogsUnavailable(
                f"{role_name}/{k} of {app_id} has no log: it has not started, or its log was removed."
            )

        def has_ended() -> bool:
            about = self.describe(app_id) if should_tail else None
            return about is None or is_terminal(about.state)

        lines = events(self._log_client, LOG_GROUP, names[-1], since=since, until=until, has_ended=has_ended)
        return filter_regex(regex, lines) if regex else lines


_OPTIONS: tuple[tuple[str, Any, str], ...] = (
    ("role", str, "ARN of the IAM role that the job has"),
    ("instance_type", str, "type of each machine, such as ml.p4d.24xlarge"),
    ("instance_count", int, "number of machines; as many as replicas where not given"),
    ("keep_alive_period_in_seconds", int, "seconds that machines are kept warm for the next job"),
    ("volume_size", int, "gigabytes of each machine's volume"),
    ("volume_kms_key", str, "key that volumes are encrypted with"),
    ("max_run", int, "seconds until the job is stopped"),
    ("input_mode", str, "how channels are given to the job: File, Pipe or FastFile"),
    ("output_path", str, "address in S3 for what the job leaves; a bucket of SageMaker's where not given"),
    ("output_kms_key", str, "key that it is encrypted with"),
    ("base_job_name", str, "what the job's name begins with, instead of the application's"),
    ("tags", dict[str, str], "tags of the job, as A:1;B:2"),
    ("subnets", list[str], "subnets that machines are in"),
    ("security_group_ids", list[str], "security groups that machines are in"),
    ("model_uri", str, "address in S3 of a model that the job begins with"),
    ("model_channel_name", str, "channel that it comes by"),
    ("metric_definitions", dict[str, str], "metrics that SageMaker reads from logs, as NAME:PATTERN"),
    ("encrypt_inter_container_traffic", bool, "whether machines encrypt what they send one another"),
    ("use_spot_instances", bool, "whether machines may be taken away, and cost less; needs max_wait"),
    ("max_wait", int, "seconds to wait for such machines, the run included"),
    ("checkpoint_s3_uri", str, "address in S3 that checkpoints are kept at"),
    ("checkpoint_local_path", str, "folder that the program writes them to"),
    ("enable_network_isolation", bool, "whether the job has no network"),
    ("environment", dict[str, str], "environment variables, as A:1;B:2"),
    ("enable_sagemaker_metrics", bool, "whether SageMaker keeps metrics as series of times"),
    ("disable_profiler", bool, "whether SageMaker does not profile the job"),
    ("disable_output_compression", bool, "whether results are uploaded as they are"),
    ("enable_infra_check", bool, "whether machines are checked before the job starts"),
    ("training_repository_access_mode", str, "how the image is fetched: Platform or Vpc"),
    ("training_repository_credentials_provider_arn", str, "Lambda function that knows the registry's password"),
    ("max_retry_attempts", int, "how often the job is started again when SageMaker fails, 1 to 30"),
    ("hyperparameters", dict[str, str], "what SageMaker shows as such, as A:1;B:2"),
)
_DEFAULTS: dict[str, Any] = {"instance_count": None}


def _job(name: str, app: AppDef, role: Role, cfg: AWSSageMakerOpts) -> dict[str, Any]:
    options: Mapping[str, Any] = cfg
    environment = {**(options.get("environment") or {}), **role.env}
    environment.update(TORCHX_RANK0_HOST=RANK0_HOST, TORCHX_ROLE_NAME=role.name)
    tags = {
        **(options.get("tags") or {}),
        **app.metadata,
        TAG_VERSION: __version__,
        TAG_APP: app.name,
        TAG_USER: str(options.get("user") or getpass.getuser()),
    }
    job: dict[str, Any] = {
        "AlgorithmSpecification": _given(
            TrainingImage=role.image,
            TrainingInputMode=options.get("input_mode") or "File",
            ContainerEntrypoint=[role.entrypoint],
            ContainerArguments=role.args or None,
            MetricDefinitions=_pairs(options.get("metric_definitions"), "Name", "Regex"),
            EnableSageMakerMetricsTimeSeries=options.get("enable_sagemaker_metrics"),
            TrainingImageConfig=_repository(options),
        ),
        "RoleArn": options["role"],
        "OutputDataConfig": _given(
            S3OutputPath=options.get("output_path"),
            KmsKeyId=options.get("output_kms_key"),
            CompressionType="NONE" if options.get("disable_output_compression") else None,
        ),
        "ResourceConfig": _given(
            InstanceType=options["instance_type"],
            InstanceCount=options.get("instance_count") or role.num_replicas,
            VolumeSizeInGB=options.get("volume_size") or 30,
            VolumeKmsKeyId=options.get("volume_kms_key"),
            KeepAlivePeriodInSeconds=options.get("keep_alive_period_in_seconds"),
        ),
        "StoppingCondition": _given(
            MaxRuntimeInSeconds=options.get("max_run") or 86400, MaxWaitTimeInSeconds=options.get("max_wait")
        ),
        "Environment": environment,
        "Tags": _pairs(tag_values(tags), "Key", "Value"),
    }
    attempts = options.get("max_retry_attempts") or role.max_retries
    optional = _given(
        HyperParameters=options.get("hyperparameters"),
        EnableNetworkIsolation=options.get("enable_network_isolation"),
        EnableInterContainerTrafficEncryption=options.get("encrypt_inter_container_traffic"),
        EnableManagedSpotTraining=options.get("use_spot_instances"),
        RetryStrategy={"MaximumRetryAttempts": attempts} if attempts else None,
        ProfilerConfig={"DisableProfiler": True} if options.get("disable_profiler") else None,
        InfraCheckConfig={"EnableInfraCheck": True} if options.get("enable_infra_check") else None,
    )
    return {**job, **optional, **_places(options)}


def _repository(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """How the image is fetched from a registry in the job's own network."""
    if not options.get("training_repository_access_mode"):
        return None
    config: dict[str, Any] = {"TrainingRepositoryAccessMode": options["training_repository_access_mode"]}
    if provider := options.get("training_repository_credentials_provider_arn"):
        config["TrainingRepositoryAuthConfig"] = {"TrainingRepositoryCredentialsProviderArn": provider}
    return config


def _places(options: Mapping[str, Any]) -> dict[str, Any]:
    """Where the job is in the network, begins, and keeps its checkpoints."""
    places: dict[str, Any] = {}
    if options.get("subnets"):
        places["VpcConfig"] = {
            "Subnets": options["subnets"],
            "SecurityGroupIds": options.get("security_group_ids") or [],
        }
    if options.get("checkpoint_s3_uri"):
        places["CheckpointConfig"] = _given(
            S3Uri=options["checkpoint_s3_uri"], LocalPath=options.get("checkpoint_local_path")
        )
    if options.get("model_uri"):
        source = {"S3DataType": "S3Prefix", "S3Uri": options["model_uri"], "S3DataDistributionType": "FullyReplicated"}
        channel = {"ChannelName": options.get("model_channel_name") or "model", "DataSource": {"S3DataSource": source}}
        places["InputDataConfig"] = [channel]
    return places


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _pairs(values: Mapping[str, str] | None, key: str, value: str) -> list[dict[str, str]] | None:
    return [{key: name, value: text} for name, text in values.items()] if values else None


def create_scheduler(session_name: str, **kwargs: Any) -> AWSSageMakerScheduler:
    """A scheduler of training jobs.

    Raises:
        ModuleNotFoundError: boto3 is not installed.
    """
    import boto3  # noqa: F401  (here, so that its absence is told at once)

    known = ("client", "docker_client", "log_client")
    return AWSSageMakerScheduler(session_name, **{name: kwargs[name] for name in known if name in kwargs})
