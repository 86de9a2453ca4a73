"""Jobs of Volcano on Kubernetes: one task for each replica, all of which start together.

`kubernetes_job_scheduler` and `kubernetes_jobset_scheduler` need no Volcano.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from flambeau.launch.schedulers.api import DescribeAppResponse, ListAppResponse
from flambeau.launch.schedulers.kubernetes_base import KubernetesBase, KubernetesJob, found_or_none, parse_app_id
from flambeau.launch.schedulers.kubernetes_pods import (
    ANNOTATION_ISTIO_SIDECAR,
    LABEL_APP_NAME,
    LABEL_INSTANCE_TYPE,
    LABEL_KUBE_APP_NAME,
    LABEL_ORGANIZATION,
    LABEL_REPLICA_ID,
    LABEL_ROLE_INDEX,
    LABEL_ROLE_NAME,
    LABEL_UNIQUE_NAME,
    LABEL_VERSION,
    RESERVED_MEMMB,
    RESERVED_MILLICPU,
    cleanup_str,
    job_name,
    pod_labels,
    role_to_pod,
    sanitize_for_serialization,
    set_rank0_here,
)
from flambeau.launch.specs.apps import NONE, AppDef, AppDryRunInfo, RetryPolicy
from flambeau.launch.specs.macros import macros
from flambeau.launch.specs.options import runopts
from flambeau.launch.specs.status import AppState, ReplicaState

if TYPE_CHECKING:
    from docker import DockerClient
    from kubernetes.client import ApiClient

__all__ = [
    "ANNOTATION_ISTIO_SIDECAR",
    "JOB_STATE",
    "LABEL_APP_NAME",
    "LABEL_INSTANCE_TYPE",
    "LABEL_KUBE_APP_NAME",
    "LABEL_ORGANIZATION",
    "LABEL_REPLICA_ID",
    "LABEL_ROLE_INDEX",
    "LABEL_ROLE_NAME",
    "LABEL_UNIQUE_NAME",
    "LABEL_VERSION",
    "RESERVED_MEMMB",
    "RESERVED_MILLICPU",
    "RETRY_POLICIES",
    "TASK_STATE",
    "KubernetesJob",
    "KubernetesOpts",
    "KubernetesScheduler",
    "app_to_resource",
    "cleanup_str",
    "create_scheduler",
    "pod_labels",
    "role_to_pod",
    "sanitize_for_serialization",
]

logger = logging.getLogger(__name__)

_GROUP, _VERSION, _PLURAL = "batch.volcano.sh", "v1alpha1", "jobs"

RETRY_POLICIES: Mapping[str, Iterable[Mapping[str, str]]] = {
    RetryPolicy.REPLICA: [],
    RetryPolicy.APPLICATION: [
        {"event": "PodEvicted", "action": "RestartJob"},
        {"event": "PodFailed", "action": "RestartJob"},
    ],
    RetryPolicy.HOT_SPARE: [],
}
"""What Volcano does when a pod fails, by the role's policy."""

JOB_STATE: dict[str, AppState] = {
    "Pending": AppState.PENDING,
    "Aborting": AppState.RUNNING,
    "Aborted": AppState.CANCELLED,
    "Running": AppState.RUNNING,
    "Restarting": AppState.RUNNING,
    "Completing": AppState.RUNNING,
    "Completed": AppState.SUCCEEDED,
    "Terminating": AppState.RUNNING,
    "Terminated": AppState.FAILED,
    "Failed": AppState.FAILED,
}
"""State by the phase of Volcano's job."""

TASK_STATE: dict[str, ReplicaState] = {
    "Pending": ReplicaState.PENDING,
    "Allocated": ReplicaState.PENDING,
    "Pipelined": ReplicaState.PENDING,
    "Binding": ReplicaState.PENDING,
    "Bound": ReplicaState.PENDING,
    "Running": ReplicaState.RUNNING,
    "Releasing": ReplicaState.RUNNING,
    "Succeeded": ReplicaState.SUCCEEDED,
    "Failed": ReplicaState.FAILED,
    "Unknown": ReplicaState.UNKNOWN,
}
"""State by the phase of a task of it."""


class KubernetesOpts(TypedDict, total=False):
    """Options, see `KubernetesScheduler.run_opts`."""

    namespace: str | None
    queue: str
    image_repo: str | None
    service_account: str | None
    priority_class: str | None


def app_to_resource(
    app: AppDef, queue: str, service_account: str | None, priority_class: str | None = None
) -> dict[str, object]:
    """The job of Volcano for an application, as plain values.

    Args:
        app: the application.
        queue: where it waits.
        service_account: that its pods run by.
        priority_class: of the job.
    """
    unique = job_name(app)
    tasks = []
    for index, role in enumerate(app.roles):
        for number in range(role.num_replicas):
            first = index == 0 and number == 0
            name = cleanup_str(f"{role.name}-{number}")
            # The plugin `svc` gives every pod the hosts of each task by such a variable. The first pod needs none: it
            # is its own host, and the name of a service may not resolve before it is up.
            rank0 = "TORCHX_RANK0_HOST" if first else _hosts_variable(app)
            values = macros.Values("", unique, str(number), rank0)
            pod: Any = role_to_pod(name, values.apply(role), service_account)
            pod.metadata.labels.update(pod_labels(app, index, role, number, unique))
            if first:
                set_rank0_here(pod)
            task: dict[str, Any] = {"replicas": 1, "name": name, "template": pod}
            if role.max_retries > 0:
                task["maxRetry"] = role.max_retries
                task["policies"] = [dict(rule) for rule in RETRY_POLICIES[role.retry_policy]]
            if role.min_replicas is not None:
                # Every task has one pod; those beyond the fewest may wait while the others go on.
                task["minAvailable"] = 1 if number < role.min_replicas else 0
            tasks.append(task)
    # Volcano counts retries of all tasks together.
    spec: dict[str, Any] = {
        "schedulerName": "volcano",
        "queue": queue,
        "tasks": tasks,
        "maxRetry": min((role.max_retries for role in app.roles), default=0),
        "plugins": {"svc": ["--publish-not-ready-addresses"], "env": []},
    }
    if priority_class is not None:
        spec["priorityClassName"] = priority_class
    resource: dict[str, object] = {
        "apiVersion": f"{_GROUP}/{_VERSION}",
        "kind": "Job",
        "metadata": {"name": unique},
        "spec": spec,
    }
    return resource


def _hosts_variable(app: AppDef) -> str:
    task = cleanup_str(f"{app.roles[0].name}-0").upper().replace("-", "_")
    return f"VC_{task}_HOSTS"


class KubernetesScheduler(KubernetesBase[KubernetesOpts]):
    """Makes jobs of Volcano.

    Args:
        session_name: what handles have in their middle.
        client: of the cluster; the one of the current context where not given.
        docker_client: of the engine that builds images.
    """

    def __init__(
        self, session_name: str, client: ApiClient | None = None, docker_client: DockerClient | None = None
    ) -> None:
        super().__init__("kubernetes", session_name, client, docker_client)

    def _run_opts(self) -> runopts:
        options = runopts()
        options.add("namespace", type_=str, default="default", help="namespace of the job")
        options.add("queue", type_=str, required=True, help="queue of Volcano that it waits in")
        options.add("service_account", type_=str, help="service account that its pods run by")
        options.add("priority_class", type_=str, help="priority class of the job")
        return options

    def _submit_dryrun(self, app: AppDef, cfg: KubernetesOpts) -> AppDryRunInfo[KubernetesJob]:
        images = self.dryrun_push_images(app, dict(cfg))  # type: ignore[arg-type]
        resource = app_to_resource(app, cfg["queue"], cfg.get("service_account"), cfg.get("priority_class"))
        plain: Any = sanitize_for_serialization(resource)
        return AppDryRunInfo(KubernetesJob(images, plain), str)

    def _create(self, namespace: str, resource: Mapping[str, Any]) -> str:
        made = self._custom().create_namespaced_custom_object(_GROUP, _VERSION, namespace, _PLURAL, resource)
        return str(made["metadata"]["name"])

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """What Volcano and the pods tell of a job."""
        namespace, name = parse_app_id(app_id)
        job = found_or_none(
            lambda: self._custom().get_namespaced_custom_object(_GROUP, _VERSION, namespace, _PLURAL, name),
            f"job {app_id}",
        )
        if job is None:
            return None
        status = job.get("status") or {}  # a job that Volcano has not seen yet has none
        statuses, roles = self._statuses(self._pods(namespace, name))
        state = status.get("state") or {}
        return DescribeAppResponse(
            app_id=app_id,
            state=JOB_STATE.get(state.get("phase", "Pending"), AppState.UNKNOWN),
            num_restarts=int(status.get("retryCount", 0)),
            msg=state.get("message") or NONE,
            roles_statuses=statuses,
            roles=roles,
        )

    def list(self) -> list[ListAppResponse]:
        """The jobs of the namespace of the current context."""
        namespace = self._active_namespace()
        jobs = found_or_none(
            lambda: self._custom().list_namespaced_custom_object(_GROUP, _VERSION, namespace, _PLURAL),
            f"jobs of namespace {namespace}",
        )
        return [
            ListAppResponse(f"{namespace}:{job['metadata']['name']}", _state_of(job))
            for job in (jobs or {}).get("items", [])
        ]

    def _cancel_existing(self, app_id: str) -> None:
        namespace, name = parse_app_id(app_id)
        found_or_none(
            lambda: self._custom().delete_namespaced_custom_object(_GROUP, _VERSION, namespace, _PLURAL, name),
            f"job {app_id}",
        )


def _state_of(job: Mapping[str, Any]) -> AppState:
    phase = ((job.get("status") or {}).get("state") or {}).get("phase", "Pending")
    return JOB_STATE.get(phase, AppState.UNKNOWN)


def create_scheduler(
    session_name: str, client: ApiClient | None = None, docker_client: DockerClient | None = None, **kwargs: Any
) -> KubernetesScheduler:
    """A scheduler of Volcano's jobs.

    Raises:
        ModuleNotFoundError: the client of Kubernetes is not installed.
    """
    import kubernetes  # noqa: F401  (here, so that its absence is told at once)

    return KubernetesScheduler(session_name, client, docker_client)
