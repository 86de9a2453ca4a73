"""What all schedulers of Kubernetes share: the client, ids, pods and their logs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from flambeau.launch.errors import JobExists, LogsUnavailable, SchedulerError
from flambeau.launch.schedulers.api import Scheduler, Stream, filter_regex, joined_lines
from flambeau.launch.schedulers.kubernetes_pods import (
    LABEL_REPLICA_ID,
    LABEL_ROLE_NAME,
    LABEL_UNIQUE_NAME,
    label_value,
)
from flambeau.launch.specs.apps import AppDryRunInfo, Role
from flambeau.launch.specs.status import AppState, ReplicaStatus, RoleStatus
from flambeau.launch.workspace.docker_workspace import DockerWorkspaceMixin

if TYPE_CHECKING:
    from docker import DockerClient
    from kubernetes.client import ApiClient

__all__ = ["KubernetesBase", "KubernetesJob", "parse_app_id"]

log = logging.getLogger(__name__)
T = TypeVar("T")

_POD_STATES = {
    "Pending": AppState.PENDING,
    "Running": AppState.RUNNING,
    "Succeeded": AppState.SUCCEEDED,
    "Failed": AppState.FAILED,
}


@dataclass
class KubernetesJob:
    """The request for a job.

    Attributes:
        images_to_push: id of a local image -> its repository and tag.
        resource: the object that is made, as plain values.
    """

    images_to_push: dict[str, tuple[str, str]]
    resource: dict[str, Any]

    def __str__(self) -> str:
        import yaml

        return str(yaml.safe_dump(self.resource, default_flow_style=False, allow_unicode=True))

    __repr__ = __str__


def parse_app_id(app_id: str) -> tuple[str, str]:
    """Namespace and name of an id `NAMESPACE:NAME`.

    Raises:
        SchedulerError: it has not both.
    """
    namespace, separator, name = app_id.partition(":")
    if not separator or not name:
        raise SchedulerError(f"{app_id!r} is no job of Kubernetes; expected NAMESPACE:NAME.")
    return namespace, name


class KubernetesBase(DockerWorkspaceMixin, Scheduler[T]):
    """A scheduler whose jobs are objects of a Kubernetes cluster.

    Args:
        backend: name of the scheduler.
        session_name: what handles have in their middle.
        client: of the cluster; the one of the current context where not given.
        docker_client: of the engine that builds images.
    """

    def __init__(
        self,
        backend: str,
        session_name: str,
        client: ApiClient | None = None,
        docker_client: DockerClient | None = None,
    ) -> None:
        super().__init__(backend, session_name, docker_client=docker_client)
        self._client = client

    def _api_client(self) -> ApiClient:
        """The client of the cluster that kubectl would ask too, or of the one that this process runs in.

        Raises:
            SchedulerError: neither is there.
        """
        if self._client is None:
            from kubernetes import client
            from kubernetes import config as kube_config

            config: Any = kube_config

            configuration = client.Configuration()
            try:
                config.load_kube_config(client_configuration=configuration)
            except config.ConfigException as outside:
                try:
                    config.load_incluster_config(client_configuration=configuration)
                except config.ConfigException:
                    raise SchedulerError(
                        f"no Kubernetes cluster is configured: {outside} `kubectl config current-context` tells which "
                        "one is used; KUBECONFIG names the file."
                    ) from None
            configuration.retries = 1  # urllib3 would warn of each of several
            self._client = client.ApiClient(configuration)
        return self._client

    def _custom(self) -> Any:
        from kubernetes import client

        return client.CustomObjectsApi(self._api_client())

    def _core(self) -> Any:
        from kubernetes import client

        return client.CoreV1Api(self._api_client())

    def _active_namespace(self) -> str:
        """The namespace that kubectl would ask for."""
        from kubernetes import config as kube_config

        config: Any = kube_config
        try:
            _, active = config.list_kube_config_contexts()
        except config.ConfigException:
            return "default"
        return str((active or {}).get("context", {}).get("namespace") or "default")

    def schedule(self, dryrun_info: AppDryRunInfo[KubernetesJob]) -> str:
        """Send images to their registry and make the job.

        Raises:
            SchedulerError: (a RuntimeError) the cluster cannot be reached, or refuses it.
        """
        namespace = str(dryrun_info._cfg.get("namespace") or "default")
        request = dryrun_info.request
        if request.images_to_push:
            self.push_images(request.images_to_push)
        with _explained(f"job {request.resource['metadata']['name']}"):
            made = self._create(namespace, request.resource)
        return f"{namespace}:{made}"

    def _create(self, namespace: str, resource: Mapping[str, Any]) -> str:
        """Make an object; returns its name."""
        raise NotImplementedError

    def _pods(self, namespace: str, name: str) -> list[Any]:
        with _explained(f"pods of {name}"):
            pods: list[Any] = (
                self._core().list_namespaced_pod(namespace, label_selector=f"{LABEL_UNIQUE_NAME}={name}").items
            )
        return pods

    def _statuses(self, pods: Iterable[Any]) -> tuple[list[RoleStatus], list[Role]]:
        """Roles with their replicas, as the pods' labels and phases tell; of a replaced pod the newest counts."""
        newest: dict[tuple[str, int], Any] = {}
        for pod in sorted(pods, key=_created):
            labels = pod.metadata.labels or {}
            if LABEL_ROLE_NAME in labels:
                newest[labels[LABEL_ROLE_NAME], _replica(labels)] = pod
        statuses: dict[str, RoleStatus] = {}
        roles: dict[str, Role] = {}
        for (role, number), pod in sorted(newest.items()):
            state = _POD_STATES.get(pod.status.phase, AppState.UNKNOWN)
            host = pod.spec.node_name or ""
            statuses.setdefault(role, RoleStatus(role, [])).replicas.append(ReplicaStatus(number, state, role, host))
            found = roles.setdefault(role, Role(role, pod.spec.containers[0].image, num_replicas=0))
            found.num_replicas += 1
        return list(statuses.values()), list(roles.values())

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
        """The lines of a replica's pod; see `Scheduler.log_iter`. Pods have one stream; `until` is not known there.

        Raises:
            LogsUnavailable: there is no such pod, or none any more.
        """
        if streams not in (None, Stream.COMBINED):
            log.warning("pods write to one stream; all of it is given")
        namespace, name = parse_app_id(app_id)
        pod = self._pod_of(namespace, name, role_name, k)
        options: dict[str, Any] = {"follow": should_tail, "_preload_content": False}
        if since is not None:
            past = (datetime.now(UTC) - since.astimezone(UTC)).total_seconds()
            options["since_seconds"] = max(1, int(past))
        lines = self._log_lines(namespace, pod, options)
        return filter_regex(regex, lines) if regex else lines

    def _log_lines(self, namespace: str, pod: str, options: dict[str, Any]) -> Iterator[str]:
        with _explained(f"logs of pod {pod}", LogsUnavailable):
            answer = self._core().read_namespaced_pod_log(pod, namespace, **options)
            yield from joined_lines(answer.stream(4096, decode_content=False))

    def _pod_of(self, namespace: str, name: str, role: str, replica: int, timeout_s: float = 0) -> str:
        end = time.monotonic() + timeout_s
        while True:
            pods = [
                pod
                for pod in sorted(self._pods(namespace, name), key=_created)
                if (pod.metadata.labels or {}).get(LABEL_ROLE_NAME) == label_value(role)
                and _replica(pod.metadata.labels) == replica
            ]
            if pods:
                return str(pods[-1].metadata.name)
            if time.monotonic() >= end:
                raise LogsUnavailable(
                    f"{namespace}:{name} has no pod of {role}/{replica}: it waits for one, or the pod was removed."
                )
            time.sleep(1)


def _created(pod: Any) -> tuple[float, str]:
    stamp = pod.metadata.creation_timestamp
    return (stamp.timestamp() if stamp is not None else 0.0, str(pod.metadata.name))


def _replica(labels: Mapping[str, str]) -> int:
    """A replica's number; pods of indexed jobs have it from Kubernetes."""
    text = labels.get("batch.kubernetes.io/job-completion-index", labels.get(LABEL_REPLICA_ID, "0"))
    return int(text) if text.isdigit() else 0


@contextmanager
def _explained(what: str, kind: type[SchedulerError] = SchedulerError) -> Iterator[None]:
    """Failures of the client in one line.

    Raises:
        JobExists: (a ValueError) an object of this name is there already.
        SchedulerError: the cluster refuses, or cannot be reached.
    """
    import urllib3.exceptions
    from kubernetes.client.exceptions import ApiException

    try:
        yield
    except ApiException as error:
        message = _message(error)
        if error.status == 409:
            raise JobExists(f"{what}: {message}") from None
        raise kind(f"{what}: Kubernetes answers {error.status} {error.reason}: {message}") from None
    except urllib3.exceptions.HTTPError as error:
        reason = getattr(error, "reason", None) or error
        raise SchedulerError(
            f"{what}: the Kubernetes cluster cannot be reached: {reason}. Try `kubectl get nodes`."
        ) from None


def _message(error: Any) -> str:
    import json

    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.body or "no reason given")


def is_absent(error: Exception) -> bool:
    """Whether the cluster says that there is no such object."""
    return getattr(error, "status", None) == 404


def found_or_none(read: Callable[[], Any], what: str) -> Any:
    """What a request gives; None where the object is not there.

    Raises:
        SchedulerError: the cluster refuses, or cannot be reached.
    """
    from kubernetes.client.exceptions import ApiException

    with _explained(what):
        try:
            return read()
        except ApiException as error:
            if is_absent(error):
                return None
            raise
