"""JobSets: an indexed job for each role, which start, fail and restart together, without Volcano.

JobSet (https://jobset.sigs.k8s.io, `jobset.x-k8s.io/v1alpha2`) names pods `SET-ROLE-0-NUMBER` and gives them a headless
service; a failed job restarts the whole set, `maxRestarts` times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flambeau.launch.schedulers.api import DescribeAppResponse, ListAppResponse
from flambeau.launch.schedulers.kubernetes_base import KubernetesBase, KubernetesJob, found_or_none, parse_app_id
from flambeau.launch.schedulers.kubernetes_job_scheduler import KubernetesJobOpts, indexed_job, job_state
from flambeau.launch.schedulers.kubernetes_pods import LABEL_ORGANIZATION, LABEL_UNIQUE_NAME, cleanup_str, job_name
from flambeau.launch.specs.apps import NONE, AppDef, AppDryRunInfo
from flambeau.launch.specs.options import runopts
from flambeau.launch.specs.status import AppState

if TYPE_CHECKING:
    from docker import DockerClient
    from kubernetes.client import ApiClient

__all__ = ["KubernetesJobSetScheduler", "create_scheduler"]

_GROUP, _VERSION, _PLURAL = "jobset.x-k8s.io", "v1alpha2", "jobsets"


class KubernetesJobSetScheduler(KubernetesBase[KubernetesJobOpts]):
    """Makes JobSets.

    Args:
        session_name: what handles have in their middle.
        client: of the cluster; the one of the current context where not given.
        docker_client: of the engine that builds images.
    """

    def __init__(
        self, session_name: str, client: ApiClient | None = None, docker_client: DockerClient | None = None
    ) -> None:
        super().__init__("kubernetes_jobset", session_name, client, docker_client)

    def _run_opts(self) -> runopts:
        options = runopts()
        options.add("namespace", type_=str, default="default", help="namespace of the set")
        options.add("service_account", type_=str, help="service account that its pods run by")
        options.add("priority_class", type_=str, help="priority class of its pods")
        options.add("ttl_seconds", type_=int, help="seconds after its end until Kubernetes removes the set")
        return options

    def _submit_dryrun(self, app: AppDef, cfg: KubernetesJobOpts) -> AppDryRunInfo[KubernetesJob]:
        images = self.dryrun_push_images(app, dict(cfg))  # type: ignore[arg-type]
        longest = max(len(f"-{cleanup_str(role.name)}-0-{role.num_replicas}") for role in app.roles)
        unique = job_name(app, room_for=longest)
        rank0 = f"{unique}-{cleanup_str(app.roles[0].name)}-0-0.{unique}"
        jobs = []
        for index, role in enumerate(app.roles):
            name = cleanup_str(role.name)
            spec = indexed_job(app, index, role, name, unique, rank0, {**cfg, "ttl_seconds": None})
            spec["backoffLimit"] = 0  # the set restarts, not a pod by itself
            jobs.append({"name": name, "replicas": 1, "template": {"spec": spec}})
        whole: dict[str, Any] = {
            "failurePolicy": {"maxRestarts": min(role.max_retries for role in app.roles)},
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True, "subdomain": unique},
            "replicatedJobs": jobs,
        }
        if cfg.get("ttl_seconds") is not None:
            whole["ttlSecondsAfterFinished"] = cfg["ttl_seconds"]
        resource = {
            "apiVersion": f"{_GROUP}/{_VERSION}",
            "kind": "JobSet",
            "metadata": {
                "name": unique,
                "labels": {LABEL_UNIQUE_NAME: unique, LABEL_ORGANIZATION: "torchx.pytorch.org"},
            },
            "spec": whole,
        }
        return AppDryRunInfo(KubernetesJob(images, resource), str)

    def _create(self, namespace: str, resource: Mapping[str, Any]) -> str:
        made = self._custom().create_namespaced_custom_object(_GROUP, _VERSION, namespace, _PLURAL, resource)
        return str(made["metadata"]["name"])

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """What Kubernetes tells of a set and its pods."""
        namespace, name = parse_app_id(app_id)
        found = found_or_none(
            lambda: self._custom().get_namespaced_custom_object(_GROUP, _VERSION, namespace, _PLURAL, name),
            f"job set {app_id}",
        )
        if found is None:
            return None
        status = found.get("status") or {}
        statuses, roles = self._statuses(self._pods(namespace, name))
        state, message = _state(status)
        restarts = int(status.get("restarts", 0))
        return DescribeAppResponse(app_id, state, restarts, message or NONE, roles_statuses=statuses, roles=roles)

    def list(self) -> list[ListAppResponse]:
        """The sets of the namespace of the current context."""
        namespace = self._active_namespace()
        found = found_or_none(
            lambda: self._custom().list_namespaced_custom_object(_GROUP, _VERSION, namespace, _PLURAL),
            f"job sets of {namespace}",
        )
        return [
            ListAppResponse(f"{namespace}:{one['metadata']['name']}", _state(one.get("status") or {})[0])
            for one in (found or {}).get("items", [])
        ]

    def _cancel_existing(self, app_id: str) -> None:
        """Suspend the set: its pods go, and the set itself stays to be asked for."""
        namespace, name = parse_app_id(app_id)
        change = {"spec": {"suspend": True}}
        found_or_none(
            lambda: self._custom().patch_namespaced_custom_object(_GROUP, _VERSION, namespace, _PLURAL, name, change),
            f"job set {app_id}",
        )


def _state(status: Mapping[str, Any]) -> tuple[AppState, str]:
    active = sum(int(job.get("active", 0)) for job in status.get("replicatedJobsStatus") or [])
    return job_state({**status, "active": active})


def create_scheduler(
    session_name: str, client: ApiClient | None = None, docker_client: DockerClient | None = None, **kwargs: Any
) -> KubernetesJobSetScheduler:
    """A scheduler of JobSets.

    Raises:
        ModuleNotFoundError: the client of Kubernetes is not installed.
    """
    import kubernetes  # noqa: F401  (here, so that its absence is told at once)

    return KubernetesJobSetScheduler(session_name, client, docker_client)
