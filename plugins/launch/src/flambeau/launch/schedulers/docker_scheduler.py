"""Containers on this machine, or on the one that DOCKER_HOST names: one for each replica, in a network of their own."""

from __future__ import annotations

import contextlib
import fnmatch
import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypedDict

from flambeau.launch.errors import JobExists, LogsUnavailable, SchedulerError
from flambeau.launch.schedulers.api import (
    DescribeAppResponse,
    ListAppResponse,
    Scheduler,
    Stream,
    filter_regex,
    joined_lines,
)
from flambeau.launch.schedulers.devices import get_device_mounts
from flambeau.launch.schedulers.ids import make_unique, safe_id
from flambeau.launch.specs.apps import NONE, AppDef, AppDryRunInfo, Role
from flambeau.launch.specs.macros import macros
from flambeau.launch.specs.mounts import BindMount, DeviceMount, VolumeMount
from flambeau.launch.specs.options import runopts
from flambeau.launch.specs.status import AppState, ReplicaStatus, RoleStatus, is_terminal
from flambeau.launch.version import __version__
from flambeau.launch.workspace.docker_workspace import DockerWorkspaceMixin, connect_docker

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

__all__ = [
    "CONTAINER_STATE",
    "LABEL_APP_ID",
    "LABEL_REPLICA_ID",
    "LABEL_ROLE_NAME",
    "LABEL_VERSION",
    "NETWORK",
    "DockerContainer",
    "DockerJob",
    "DockerOpts",
    "DockerScheduler",
    "create_scheduler",
    "ensure_network",
    "has_docker",
]

log = logging.getLogger(__name__)

CONTAINER_STATE: dict[str, AppState] = {
    "created": AppState.SUBMITTED,
    "restarting": AppState.PENDING,
    "running": AppState.RUNNING,
    "paused": AppState.PENDING,
    "removing": AppState.PENDING,
    "exited": AppState.SUCCEEDED,
    "dead": AppState.FAILED,
}
"""State by Docker's word for it; of containers that exited the exit code tells more."""

LABEL_VERSION: str = DockerWorkspaceMixin.LABEL_VERSION
LABEL_APP_ID: str = "torchx.pytorch.org/app-id"
LABEL_ROLE_NAME: str = "torchx.pytorch.org/role-name"
LABEL_REPLICA_ID: str = "torchx.pytorch.org/replica-id"
NETWORK = "torchx"


@dataclass
class DockerContainer:
    """One container.

    Attributes:
        image: what it runs in.
        command: the program and its arguments.
        kwargs: for `docker.containers.run`.
    """

    image: str
    command: list[str]
    kwargs: dict[str, Any]


@dataclass
class DockerJob:
    """The request for an application.

    Attributes:
        app_id: its id.
        containers: one for each replica.
    """

    app_id: str
    containers: list[DockerContainer]

    def __str__(self) -> str:
        import yaml

        plain = [{"image": one.image, "command": one.command, "kwargs": _plain(one.kwargs)} for one in self.containers]
        return str(yaml.safe_dump(plain))

    __repr__ = __str__


def _plain(value: Any) -> Any:
    """The client's types, which are dictionaries, as such."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


class DockerOpts(TypedDict, total=False):
    """Options, see `DockerScheduler.run_opts`."""

    copy_env: list[str] | None
    env: dict[str, str] | None
    privileged: bool
    image_repo: str | None
    quiet: bool


def has_docker() -> bool:
    """Whether a Docker engine answers."""
    if find_spec("docker") is None:
        return False
    try:
        with contextlib.closing(connect_docker()) as client:
            return bool(client.ping())
    except Exception:  # whatever the client raises, nothing answers
        return False


def ensure_network(client: DockerClient | None = None) -> None:
    """Make the network of our containers, where it is not there yet; two launches at once make one."""
    import docker.errors

    client = client or connect_docker()
    if client.networks.list(names=[f"^{NETWORK}$"]):
        return
    try:
        client.networks.create(NETWORK, driver="bridge", check_duplicate=True)
    except docker.errors.APIError as error:
        if "already exists" not in str(error):
            raise SchedulerError(f"the network {NETWORK!r} cannot be made: {error.explanation}") from None


class DockerScheduler(DockerWorkspaceMixin, Scheduler[DockerOpts]):
    """Runs replicas as containers.

    Args:
        session_name: what handles have in their middle.
        docker_client: of the engine; that of this machine or of DOCKER_HOST where not given.
    """

    def __init__(self, session_name: str, docker_client: DockerClient | None = None) -> None:
        super().__init__("local_docker", session_name, docker_client=docker_client)

    def _run_opts(self) -> runopts:
        options = runopts()
        options.add(
            "copy_env",
            type_=list[str],
            help="patterns of this environment's variables that containers get, as AWS_*;FOO",
        )
        options.add(
            "env", type_=dict[str, str], help="variables that containers get, as A:1;B:2; these stand over copied ones"
        )
        options.add("privileged", type_=bool, default=False, help="whether containers may do what root on the host may")
        return options

    def _submit_dryrun(self, app: AppDef, cfg: DockerOpts) -> AppDryRunInfo[DockerJob]:
        app_id = make_unique(safe_id(app.name))
        first = f"{app_id}-{safe_id(app.roles[0].name)}-0"
        containers = []
        for role in app.roles:
            for number in range(role.num_replicas):
                values = macros.Values("", app_id, str(number), "TORCHX_RANK0_HOST")
                containers.append(_container(values.apply(role), number, app_id, first, cfg))
        return AppDryRunInfo(DockerJob(app_id, containers), str)

    def schedule(self, dryrun_info: AppDryRunInfo[DockerJob]) -> str:
        """Start the containers; where one cannot be, those before it are removed.

        Raises:
            SchedulerError: (a RuntimeError) the engine cannot be reached, or refuses one.
        """
        import docker.errors

        client = self._docker_client
        request = dryrun_info.request
        self._pull({container.image for container in request.containers})
        ensure_network(client)
        started: list[Container] = []
        try:
            for one in request.containers:
                started.append(client.containers.run(one.image, one.command, detach=True, **one.kwargs))
        except docker.errors.DockerException as error:
            for container in started:
                container.remove(force=True)
            text = getattr(error, "explanation", None) or error
            kind = JobExists if "already in use" in str(text) else SchedulerError
            raise kind(f"Docker does not start {request.app_id}: {text}") from None
        return request.app_id

    def _pull(self, images: set[str]) -> None:
        """Get the newest of each image; one that only this machine has stays as it is."""
        import docker.errors

        for image in sorted(images):
            if image.startswith("sha256:"):
                continue
            try:
                self._docker_client.images.pull(image)
            except docker.errors.DockerException as error:
                log.warning("image %s cannot be pulled, a local one is used if there is any: %s", image, error)

    def _containers(self, app_id: str) -> list[Container]:
        import docker.errors

        try:
            found: list[Container] = self._docker_client.containers.list(
                all=True, filters={"label": f"{LABEL_APP_ID}={app_id}"}
            )
        except docker.errors.DockerException as error:
            raise SchedulerError(f"the Docker engine cannot be asked: {error}") from None
        return sorted(found, key=lambda one: (one.labels[LABEL_ROLE_NAME], int(one.labels[LABEL_REPLICA_ID])))

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """What Docker knows of an application's containers."""
        containers = self._containers(app_id)
        if not containers:
            return None
        roles: dict[str, Role] = {}
        statuses: dict[str, RoleStatus] = {}
        states = []
        for container in containers:
            name = container.labels[LABEL_ROLE_NAME]
            role = roles.setdefault(name, Role(name, str(container.attrs["Config"]["Image"]), num_replicas=0))
            role.num_replicas += 1
            states.append(_state(container))
            replica = ReplicaStatus(int(container.labels[LABEL_REPLICA_ID]), states[-1], name, str(container.name))
            statuses.setdefault(name, RoleStatus(name, [])).replicas.append(replica)
        restarts = sum(int(container.attrs.get("RestartCount", 0)) for container in containers)
        state, message = _overall(states), NONE
        if state is AppState.FAILED:
            failed = next(one for one, its in zip(containers, states, strict=True) if its is AppState.FAILED)
            message = f"{failed.name} exited with {failed.attrs['State'].get('ExitCode')}"
        return DescribeAppResponse(
            app_id,
            state,
            num_restarts=restarts,
            msg=message,
            roles_statuses=list(statuses.values()),
            roles=list(roles.values()),
        )

    def list(self) -> list[ListAppResponse]:
        """The applications whose containers are still there."""
        import docker.errors

        try:
            containers = self._docker_client.containers.list(all=True, filters={"label": LABEL_APP_ID})
        except docker.errors.DockerException as error:
            raise SchedulerError(f"the Docker engine cannot be asked: {error}") from None
        states: dict[str, list[AppState]] = {}
        for container in containers:
            states.setdefault(container.labels[LABEL_APP_ID], []).append(_state(container))
        return [ListAppResponse(app_id, _overall(many)) for app_id, many in states.items()]

    def _cancel_existing(self, app_id: str) -> None:
        for container in self._containers(app_id):
            if not is_terminal(_state(container)):
                container.stop(timeout=10)

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
        """The lines that a container wrote; see `Scheduler.log_iter`.

        Raises:
            LogsUnavailable: the container is not there, or not any more.
        """
        import docker.errors

        name = f"{app_id}-{safe_id(role_name)}-{k}"
        try:
            container = self._docker_client.containers.get(name)
        except docker.errors.NotFound:
            raise LogsUnavailable(f"there is no container {name}; it was removed, or never started.") from None
        except docker.errors.DockerException as error:
            raise SchedulerError(f"the Docker engine cannot be asked: {error}") from None
        chunks = container.logs(
            since=since,
            until=until,
            stream=True,
            follow=should_tail,
            stdout=streams is not Stream.STDERR,
            stderr=streams is not Stream.STDOUT,
        )
        lines = _lines(chunks)
        return filter_regex(regex, lines) if regex else lines


def _lines(chunks: Any) -> Iterator[str]:
    return joined_lines(chunks if not isinstance(chunks, bytes) else [chunks])


def _state(container: Container) -> AppState:
    state = CONTAINER_STATE.get(str(container.status), AppState.UNKNOWN)
    if state is AppState.SUCCEEDED:
        code = container.attrs["State"].get("ExitCode", 0)
        # `docker stop` ends a program by SIGTERM, then by SIGKILL.
        return AppState.CANCELLED if code in (143, 137) else AppState.FAILED if code else AppState.SUCCEEDED
    return state


def _overall(states: list[AppState]) -> AppState:
    for state in (AppState.FAILED, AppState.CANCELLED, AppState.RUNNING, AppState.PENDING, AppState.SUBMITTED):
        if state in states:
            return state
    return AppState.SUCCEEDED if states else AppState.UNKNOWN


def _container(role: Role, number: int, app_id: str, first: str, cfg: DockerOpts) -> DockerContainer:
    import docker.types

    name = f"{app_id}-{safe_id(role.name)}-{number}"
    mounts, devices = _mounts(role)
    kwargs: dict[str, Any] = {
        "environment": {**_environment(cfg), **role.env, "TORCHX_RANK0_HOST": first},
        "labels": {
            LABEL_VERSION: __version__,
            LABEL_APP_ID: app_id,
            LABEL_ROLE_NAME: role.name,
            LABEL_REPLICA_ID: str(number),
        },
        "name": name,
        "hostname": name,
        "network": NETWORK,
        "mounts": mounts,
        "devices": devices,
        "privileged": bool(cfg.get("privileged")),
    }
    if role.max_retries > 0:
        kwargs["restart_policy"] = {"Name": "on-failure", "MaximumRetryCount": role.max_retries}
    resource = role.resource
    if resource.memMB >= 0:
        # Loaders of data share tensors between processes in /dev/shm, and the default has 64 MB.
        kwargs["mem_limit"] = kwargs["shm_size"] = f"{int(resource.memMB)}m"
    if resource.cpu >= 0:
        kwargs["nano_cpus"] = int(resource.cpu * 1e9)
    if resource.gpu > 0:
        request = docker.types.DeviceRequest(count=resource.gpu, capabilities=[["compute", "utility"]])
        kwargs["device_requests"] = [request]
    return DockerContainer(role.image, [role.entrypoint, *role.args], kwargs)


def _environment(cfg: DockerOpts) -> dict[str, str]:
    patterns = cfg.get("copy_env") or []
    copied = {
        name: value for name, value in os.environ.items() if any(fnmatch.fnmatchcase(name, one) for one in patterns)
    }
    return {**copied, **(cfg.get("env") or {})}


def _mounts(role: Role) -> tuple[list[Any], list[str]]:
    from docker.types import Mount

    mounts: list[Any] = []
    devices: list[str] = []
    for mount in [*role.mounts, *get_device_mounts(role.resource.devices)]:
        if isinstance(mount, DeviceMount):
            devices.append(f"{mount.src_path}:{mount.dst_path}:{mount.permissions}")
        elif isinstance(mount, BindMount):
            mounts.append(Mount(mount.dst_path, mount.src_path, type="bind", read_only=mount.read_only))
        elif isinstance(mount, VolumeMount):
            mounts.append(Mount(mount.dst_path, mount.src, type="volume", read_only=mount.read_only))
    return mounts, devices


def create_scheduler(session_name: str, **kwargs: Any) -> DockerScheduler:
    """A scheduler of containers.

    Raises:
        ModuleNotFoundError: the client of Docker is not installed.
    """
    import docker  # noqa: F401  (here, so that its absence is told at once)

    return DockerScheduler(session_name, docker_client=kwargs.get("docker_client"))
