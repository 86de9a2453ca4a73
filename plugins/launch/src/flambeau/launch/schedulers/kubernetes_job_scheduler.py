"""Plain indexed jobs of Kubernetes: no operator is needed, the default scheduler places the pods.

An application with one role is one object, `batch/v1` Job with `completionMode: Indexed`, and a headless service by
which its pods find the first one. Several roles are what `kubernetes_jobset` is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from flambeau.launch.errors import SpecError
from flambeau.launch.schedulers.api import DescribeAppResponse, ListAppResponse
from flambeau.launch.schedulers.kubernetes_base import KubernetesBase, KubernetesJob, found_or_none, parse_app_id
from flambeau.launch.schedulers.kubernetes_pods import (
    LABEL_ORGANIZATION,
    LABEL_REPLICA_ID,
    LABEL_UNIQUE_NAME,
    cleanup_str,
    job_name,
    pod_labels,
    role_to_pod,
    sanitize_for_serialization,
)
from flambeau.launch.specs.apps import NONE, AppDef, AppDryRunInfo, Role
from flambeau.launch.specs.macros import macros
from flambeau.launch.specs.options import runopts
from flambeau.launch.specs.status import AppState

if TYPE_CHECKING:
    from docker import DockerClient
    from kubernetes.client import ApiClient

__all__ = ["KubernetesJobOpts", "KubernetesJobScheduler", "create_scheduler", "indexed_job", "service"]

_INDEX = "JOB_COMPLETION_INDEX"
RANK0_ENV = "FLAMBEAU_RANK0_HOST"


class KubernetesJobOpts(TypedDict, total=False):
    """Options, see `KubernetesJobScheduler.run_opts`."""

    namespace: str | None
    image_repo: str | None
    service_account: str | None
    priority_class: str | None
    ttl_seconds: int | None


def indexed_job(
    app: AppDef, index: int, role: Role, name: str, unique: str, rank0: str, cfg: Mapping[str, Any]
) -> dict[str, Any]:
    """The specification of a job for a role, as plain values.

    Args:
        app: the application.
        index: of the role in it.
        role: the role.
        name: of the job; pods are named after it.
        unique: of the application.
        rank0: host of the first pod of the application.
        cfg: options of the scheduler.
    """
    # Pods of a job are alike: each learns its number from Kubernetes. `$(NAME)` is what Kubernetes fills in itself.
    values = macros.Values("", unique, f"$({_INDEX})", RANK0_ENV)
    pod = role_to_pod(cleanup_str(role.name) or "role", values.apply(role), cfg.get("service_account"))
    template: Any = sanitize_for_serialization(pod)
    labels = pod_labels(app, index, role, 0, unique)
    del labels[LABEL_REPLICA_ID]  # the number of each pod is in a label of Kubernetes's own
    template["metadata"]["labels"] = labels
    spec = template["spec"]
    spec["subdomain"] = unique
    if cfg.get("priority_class"):
        spec["priorityClassName"] = cfg["priority_class"]
    # First of all variables, as later ones may refer to it.
    variables = [{"name": RANK0_ENV, "value": rank0}]
    spec["containers"][0]["env"] = variables + spec["containers"][0].get("env", [])
    job = {
        "completionMode": "Indexed",
        "completions": role.num_replicas,
        "parallelism": role.num_replicas,
        "backoffLimit": role.max_retries * role.num_replicas,
        "template": template,
    }
    if cfg.get("ttl_seconds") is not None:
        job["ttlSecondsAfterFinished"] = cfg["ttl_seconds"]
    return job


def service(unique: str, role: Role) -> dict[str, Any]:
    """The headless service that gives pods their names, as plain values."""
    spec: dict[str, Any] = {
        "clusterIP": "None",
        "selector": {LABEL_UNIQUE_NAME: unique},
        # torchrun of the first pod waits for the others before it would count as ready.
        "publishNotReadyAddresses": True,
    }
    if role.port_map:
        spec["ports"] = [{"name": name, "port": port} for name, port in role.port_map.items()]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": unique, "labels": {LABEL_UNIQUE_NAME: unique, LABEL_ORGANIZATION: "torchx.pytorch.org"}},
        "spec": spec,
    }


class KubernetesJobScheduler(KubernetesBase[KubernetesJobOpts]):
    """Makes plain indexed jobs.

    Args:
        session_name: what handles have in their middle.
        client: of the cluster; the one of the current context where not given.
        docker_client: of the engine that builds images.
    """

    def __init__(
        self, session_name: str, client: ApiClient | None = None, docker_client: DockerClient | None = None
    ) -> None:
        super().__init__("kubernetes_job", session_name, client, docker_client)

    def _run_opts(self) -> runopts:
        options = runopts()
        options.add("namespace", type_=str, default="default", help="namespace of the job")
        options.add("service_account", type_=str, help="service account that its pods run by")
        options.add("priority_class", type_=str, help="priority class of its pods")
        options.add("ttl_seconds", type_=int, help="seconds after its end until Kubernetes removes the job")
        return options

    def _submit_dryrun(self, app: AppDef, cfg: KubernetesJobOpts) -> AppDryRunInfo[KubernetesJob]:
        if len(app.roles) != 1:
            raise SpecError(
                f"{app.name!r} has {len(app.roles)} roles, and a plain job of Kubernetes has one; -s kubernetes_jobset "
                "takes several."
            )
        (role,) = app.roles
        images = self.dryrun_push_images(app, dict(cfg))  # type: ignore[arg-type]
        unique = job_name(app, room_for=len(str(role.num_replicas)) + 1)
        resource = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": unique,
                "labels": {LABEL_UNIQUE_NAME: unique, LABEL_ORGANIZATION: "torchx.pytorch.org"},
            },
            "spec": indexed_job(app, 0, role, unique, unique, f"{unique}-0.{unique}", cfg),
        }
        return AppDryRunInfo(PlainJob(images, resource, service(unique, role)), str)

    def schedule(self, dryrun_info: AppDryRunInfo[KubernetesJob]) -> str:
        """Make the job, and then its service, which goes with it.

        Raises:
            SchedulerError: (a RuntimeError) the cluster cannot be reached, or refuses it.
        """
        app_id = super().schedule(dryrun_info)
        namespace, name = parse_app_id(app_id)
        request = dryrun_info.request
        assert isinstance(request, PlainJob)
        job = self._batch().read_namespaced_job(name, namespace)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job.metadata.uid}
        body = {**request.service, "metadata": {**request.service["metadata"], "ownerReferences": [owner]}}
        found_or_none(lambda: self._core().create_namespaced_service(namespace, body), f"service {name}")
        return app_id

    def _batch(self) -> Any:
        from kubernetes import client

        return client.BatchV1Api(self._api_client())

    def _create(self, namespace: str, resource: Mapping[str, Any]) -> str:
        return str(self._batch().create_namespaced_job(namespace, resource).metadata.name)

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """What Kubernetes tells of a job and its pods."""
        namespace, name = parse_app_id(app_id)
        job = found_or_none(lambda: self._batch().read_namespaced_job(name, namespace), f"job {app_id}")
        if job is None:
            return None
        statuses, roles = self._statuses(self._pods(namespace, name))
        state, message = job_state(sanitize_for_serialization(job.status))
        return DescribeAppResponse(
            app_id,
            state,
            num_restarts=int(getattr(job.status, "failed", None) or 0),
            msg=message or NONE,
            roles_statuses=statuses,
            roles=roles,
        )

    def list(self) -> list[ListAppResponse]:
        """The jobs of ours in the namespace of the current context."""
        namespace = self._active_namespace()
        selector = f"{LABEL_ORGANIZATION}=torchx.pytorch.org"
        jobs = found_or_none(
            lambda: self._batch().list_namespaced_job(namespace, label_selector=selector), f"jobs of {namespace}"
        )
        return [
            ListAppResponse(f"{namespace}:{job.metadata.name}", job_state(sanitize_for_serialization(job.status))[0])
            for job in (jobs.items if jobs else [])
        ]

    def _cancel_existing(self, app_id: str) -> None:
        """Suspend the job: its pods go, and the job itself stays to be asked for."""
        namespace, name = parse_app_id(app_id)
        change = {"spec": {"suspend": True}}
        found_or_none(lambda: self._batch().patch_namespaced_job(name, namespace, change), f"job {app_id}")


class PlainJob(KubernetesJob):
    """The request for a job, and for the service that goes with it.

    Attributes:
        service: as plain values.
    """

    def __init__(
        self, images_to_push: dict[str, tuple[str, str]], resource: dict[str, Any], service: dict[str, Any]
    ) -> None:
        super().__init__(images_to_push, resource)
        self.service = service

    def __str__(self) -> str:
        import yaml

        return str(yaml.safe_dump_all([self.resource, self.service], default_flow_style=False, allow_unicode=True))

    __repr__ = __str__


def job_state(status: Any) -> tuple[AppState, str]:
    """State and message by the `status` of a job or a JobSet, as plain values."""
    for condition in (status or {}).get("conditions") or []:
        if condition.get("status") != "True":
            continue
        message = condition.get("message") or ""
        if condition["type"] in ("Complete", "Completed"):
            return AppState.SUCCEEDED, message
        if condition["type"] == "Failed":
            return AppState.FAILED, message
        if condition["type"] == "Suspended":
            return AppState.CANCELLED, message
    return (AppState.RUNNING, "") if (status or {}).get("active") else (AppState.PENDING, "")


def create_scheduler(
    session_name: str, client: ApiClient | None = None, docker_client: DockerClient | None = None, **kwargs: Any
) -> KubernetesJobScheduler:
    """A scheduler of plain indexed jobs.

    Raises:
        ModuleNotFoundError: the client of Kubernetes is not installed.
    """
    import kubernetes  # noqa: F401  (here, so that its absence is told at once)

    return KubernetesJobScheduler(session_name, client, docker_client)
