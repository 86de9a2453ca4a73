"""AppWrappers of MCAD, the Multi-Cluster Application Dispatcher: a pod for each replica, and a service."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
    label_value,
    sanitize_for_serialization,
    set_rank0_here,
)
from flambeau.launch.schedulers.kubernetes_pods import pod_labels as _pod_labels
from flambeau.launch.schedulers.kubernetes_pods import role_to_pod as _role_to_pod
from flambeau.launch.schedulers.kubernetes_scheduler import RETRY_POLICIES
from flambeau.launch.specs.apps import NONE, AppDef, AppDryRunInfo, Role
from flambeau.launch.specs.macros import macros
from flambeau.launch.specs.options import runopts
from flambeau.launch.specs.status import AppState, ReplicaState

if TYPE_CHECKING:
    from docker import DockerClient
    from kubernetes.client import ApiClient
    from kubernetes.client.models import V1Pod, V1Service

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
    "KubernetesMCADJob",
    "KubernetesMCADOpts",
    "KubernetesMCADScheduler",
    "app_to_resource",
    "cleanup_str",
    "create_pod_group",
    "create_scheduler",
    "enable_retry",
    "get_appwrapper_status",
    "get_port_for_service",
    "get_role_information",
    "get_tasks_status_description",
    "get_unique_truncated_appid",
    "mcad_svc",
    "object_labels",
    "pod_labels",
    "role_to_pod",
    "sanitize_for_serialization",
]

logger = logging.getLogger(__name__)

_GROUP, _VERSION, _PLURAL = "workload.codeflare.dev", "v1beta1", "appwrappers"
_POD_GROUP = "pod-group.scheduling.sigs.k8s.io"

JOB_STATE: dict[str, AppState] = {
    "Pending": AppState.PENDING,
    "Running": AppState.RUNNING,
    "Deleted": AppState.CANCELLED,
    "Failed": AppState.FAILED,
    "Completed": AppState.SUCCEEDED,
    "RunningHoldCompletion": AppState.RUNNING,
}
"""State by MCAD's word for it."""

TASK_STATE: dict[str, ReplicaState] = {
    "Pending dispatch": ReplicaState.PENDING,
    "pending": ReplicaState.PENDING,
    "running": ReplicaState.RUNNING,
    "Succeeded": ReplicaState.SUCCEEDED,
    "failed": ReplicaState.FAILED,
    "Unknown": ReplicaState.UNKNOWN,
}
"""State of pods by MCAD's word for it."""


class KubernetesMCADOpts(TypedDict, total=False):
    """Options, see `KubernetesMCADScheduler.run_opts`."""

    namespace: str | None
    image_repo: str | None
    service_account: str | None
    priority: int | None
    priority_class_name: str | None
    image_secret: str | None
    coscheduler_name: str | None
    network: str | None


@dataclass
class KubernetesMCADJob(KubernetesJob):
    """The request for a job.

    Attributes:
        images_to_push: id of a local image -> its repository and tag.
        resource: the AppWrapper, as plain values.
    """

    images_to_push: dict[str, tuple[str, str]]
    resource: dict[str, Any]

    __repr__ = KubernetesJob.__str__


def role_to_pod(
    name: str,
    unique_app_id: str,
    namespace: str,
    role: Role,
    service_account: str | None,
    image_secret: str | None,
    coscheduler_name: str | None,
    priority_class_name: str | None,
    network: str | None,
) -> V1Pod:
    """The pod of a replica.

    Args:
        name: of the pod.
        unique_app_id: of the application, which is the pod's subdomain too.
        namespace: of the pod.
        role: whose macros are filled in.
        service_account: that it runs by.
        image_secret: that its image is fetched with.
        coscheduler_name: scheduler that places pods together.
        priority_class_name: of the pod.
        network: that it has besides the cluster's.
    """
    from kubernetes.client import models

    pod: Any = _role_to_pod(name, role, service_account)
    pod.api_version, pod.kind = "v1", "Pod"
    pod.metadata.name, pod.metadata.namespace = name, namespace
    pod.spec.hostname, pod.spec.subdomain = name, unique_app_id
    pod.spec.scheduler_name, pod.spec.priority_class_name = coscheduler_name, priority_class_name
    if image_secret is not None:
        pod.spec.image_pull_secrets = [models.V1LocalObjectReference(name=image_secret)]
    if network is not None:
        pod.metadata.annotations["k8s.v1.cni.cncf.io/networks"] = network
    made: V1Pod = pod
    return made


def create_pod_group(app: AppDef, role: Role, role_idx: int, namespace: str, app_id: str) -> dict[str, Any]:
    """The group of a role's pods, for a scheduler that places them together."""
    labels = {**object_labels(app, app_id), "appwrapper.workload.codeflare.dev": app_id}
    group = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": f"{app_id}-pg{role_idx}", "namespace": namespace, "labels": labels},
        "spec": {"minMember": role.num_replicas},
    }
    return {"replicas": 1, "generictemplate": group}


def mcad_svc(app: AppDef, svc_name: str, namespace: str, service_port: str) -> V1Service:
    """The headless service by which pods find one another."""
    from kubernetes.client import models

    port = int(service_port)
    return models.V1Service(
        api_version="v1",
        kind="Service",
        metadata=models.V1ObjectMeta(name=svc_name, namespace=namespace, labels=object_labels(app, svc_name)),
        spec=models.V1ServiceSpec(
            cluster_ip="None",
            publish_not_ready_addresses=True,
            ports=[models.V1ServicePort(protocol="TCP", port=port, target_port=port)],
            selector={LABEL_UNIQUE_NAME: svc_name},
            session_affinity="None",
            type="ClusterIP",
        ),
        status=models.V1ServiceStatus(load_balancer=models.V1LoadBalancerStatus()),
    )


def get_unique_truncated_appid(app: AppDef) -> str:
    """A name for an application that no other has, short enough for its pods to be named after it."""
    return job_name(app, room_for=len(str(sum(role.num_replicas for role in app.roles))) + 1)


def get_port_for_service(app: AppDef) -> str:
    """The port that replicas meet at: the first one that a role names, else torchrun's 29500."""
    ports = [port for role in app.roles for port in role.port_map.values()]
    return str(ports[0]) if ports else "29500"


def enable_retry(job_spec: dict[str, Any], appwrapper_retries: int, total_pods: int) -> None:
    """Let MCAD queue a job again after a failure, `appwrapper_retries` times."""
    job_spec["schedulingSpec"] = {
        "minAvailable": total_pods,
        "requeuing": {
            "timeInSeconds": 300,
            "maxTimeInSeconds": 0,
            "growthType": "exponential",
            "maxNumRequeuings": appwrapper_retries,
        },
    }


def app_to_resource(
    app: AppDef,
    namespace: str,
    service_account: str | None,
    image_secret: str | None,
    coscheduler_name: str | None,
    priority_class_name: str | None,
    network: str | None,
    priority: int | None = None,
) -> dict[str, Any]:
    """The AppWrapper for an application, as plain values; see `KubernetesMCADScheduler.run_opts`."""
    from kubernetes.client import models

    unique = get_unique_truncated_appid(app)
    host_variable = f"TORCHX_MCAD_{cleanup_str(app.roles[0].name).upper().replace('-', '_')}_0_HOSTS"
    items: list[dict[str, Any]] = []
    if coscheduler_name is not None:
        items += [create_pod_group(app, role, index, namespace, unique) for index, role in enumerate(app.roles)]
    pods = 0
    for index, role in enumerate(app.roles):
        for number in range(role.num_replicas):
            rank0 = "TORCHX_RANK0_HOST" if pods == 0 else host_variable
            filled = macros.Values("", unique, str(number), rank0).apply(role)
            name = f"{unique}-{pods}"
            pod: Any = role_to_pod(
                name,
                unique,
                namespace,
                filled,
                service_account,
                image_secret,
                coscheduler_name,
                priority_class_name,
                network,
            )
            pod.metadata.labels.update(pod_labels(app, index, role, number, coscheduler_name, unique))
            if pods == 0:
                set_rank0_here(pod)
            pod.spec.containers[0].env.append(models.V1EnvVar(name=host_variable, value=f"{unique}-0.{unique}"))
            items.append({"replicas": 1, "generictemplate": pod})
            pods += 1
    items.append({"replicas": 1, "generictemplate": mcad_svc(app, unique, namespace, get_port_for_service(app))})
    spec: dict[str, Any] = {"resources": {"GenericItems": items}}
    if retries := min((role.max_retries for role in app.roles), default=0):
        enable_retry(spec, retries, pods)
    if priority is not None:
        spec["priority"] = priority
    return {
        "apiVersion": f"{_GROUP}/{_VERSION}",
        "kind": "AppWrapper",
        "metadata": {"name": unique, "namespace": namespace},
        "spec": spec,
    }


def get_role_information(generic_items: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The roles in the items of an AppWrapper, by name."""
    roles: dict[str, Role] = {}
    for item in generic_items:
        template = item.get("generictemplate", {})
        labels = template.get("metadata", {}).get("labels", {})
        if template.get("kind") != "Pod" or LABEL_ROLE_NAME not in labels:
            continue
        container = template["spec"]["containers"][0]
        command = container.get("command") or [""]
        env = {one["name"]: one.get("value", "") for one in container.get("env") or []}
        role = roles.setdefault(
            labels[LABEL_ROLE_NAME],
            Role(
                labels[LABEL_ROLE_NAME],
                container["image"],
                entrypoint=command[0],
                args=command[1:],
                env=env,
                num_replicas=0,
            ),
        )
        role.num_replicas += 1
    return dict(roles)


def get_appwrapper_status(app: Mapping[str, Any]) -> AppState:
    """The state of an AppWrapper; one that MCAD has not seen yet waits."""
    return JOB_STATE.get((app.get("status") or {}).get("state") or "Pending", AppState.UNKNOWN)


def get_tasks_status_description(status: Mapping[str, Any]) -> dict[str, int]:
    """How many pods are in each state, as MCAD counts them."""
    return {name: int(status[name]) for name in TASK_STATE if name in status}


class KubernetesMCADScheduler(KubernetesBase[KubernetesMCADOpts]):
    """Makes AppWrappers.

    Args:
        session_name: what handles have in their middle.
        client: of the cluster; the one of the current context where not given.
        docker_client: of the engine that builds images.
    """

    def __init__(
        self, session_name: str, client: ApiClient | None = None, docker_client: DockerClient | None = None
    ) -> None:
        super().__init__("kubernetes_mcad", session_name, client, docker_client)

    def _run_opts(self) -> runopts:
        options = runopts()
        options.add("namespace", type_=str, default="default", help="namespace of the job")
        options.add("service_account", type_=str, help="service account that its pods run by")
        options.add("priority", type_=int, help="priority of the job, higher ones first")
        options.add("priority_class_name", type_=str, help="priority class of its pods")
        options.add("image_secret", type_=str, help="secret that private images are fetched with")
        options.add("coscheduler_name", type_=str, help="scheduler that places pods together")
        options.add("network", type_=str, help="network between pods besides the cluster's")
        return options

    def _submit_dryrun(self, app: AppDef, cfg: KubernetesMCADOpts) -> AppDryRunInfo[KubernetesJob]:
        images = self.dryrun_push_images(app, dict(cfg))  # type: ignore[arg-type]
        resource = app_to_resource(
            app,
            str(cfg.get("namespace") or "default"),
            cfg.get("service_account"),
            cfg.get("image_secret"),
            cfg.get("coscheduler_name"),
            cfg.get("priority_class_name"),
            cfg.get("network"),
            cfg.get("priority"),
        )
        plain: Any = sanitize_for_serialization(resource)
        return AppDryRunInfo(KubernetesMCADJob(images, plain), str)

    def _create(self, namespace: str, resource: Mapping[str, Any]) -> str:
        made = self._custom().create_namespaced_custom_object(_GROUP, _VERSION, namespace, _PLURAL, resource)
        return str(made["metadata"]["name"])

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """What MCAD and the pods tell of a job."""
        namespace, name = parse_app_id(app_id)
        found = found_or_none(
            lambda: self._custom().get_namespaced_custom_object(_GROUP, _VERSION, namespace, _PLURAL, name),
            f"job {app_id}",
        )
        if found is None:
            return None
        statuses, _ = self._statuses(self._pods(namespace, name))
        roles = get_role_information(found["spec"]["resources"]["GenericItems"])
        counts = get_tasks_status_description(found.get("status") or {})
        message = ", ".join(f"{number} {state}" for state, number in counts.items()) or NONE
        return DescribeAppResponse(
            app_id,
            get_appwrapper_status(found),
            msg=message,
            roles_statuses=statuses,
            roles=list(roles.values()),
        )

    def list(self) -> list[ListAppResponse]:
        """The jobs of the namespace of the current context."""
        namespace = self._active_namespace()
        found = found_or_none(
            lambda: self._custom().list_namespaced_custom_object(_GROUP, _VERSION, namespace, _PLURAL),
            f"jobs of {namespace}",
        )
        return [
            ListAppResponse(f"{namespace}:{one['metadata']['name']}", get_appwrapper_status(one))
            for one in (found or {}).get("items", [])
        ]

    def _cancel_existing(self, app_id: str) -> None:
        namespace, name = parse_app_id(app_id)
        found_or_none(
            lambda: self._custom().delete_namespaced_custom_object(_GROUP, _VERSION, namespace, _PLURAL, name),
            f"job {app_id}",
        )


def object_labels(app: AppDef, app_id: str) -> dict[str, str]:
    """The labels of everything that belongs to an application."""
    return {
        LABEL_KUBE_APP_NAME: label_value(app.name),
        LABEL_ORGANIZATION: "torchx.pytorch.org",
        LABEL_UNIQUE_NAME: app_id,
    }


def pod_labels(
    app: AppDef, role_idx: int, role: Role, replica_id: int, coscheduler_name: str | None, app_id: str
) -> dict[str, str]:
    """The labels of a pod, with that of its group where a scheduler places pods together."""
    labels = _pod_labels(app, role_idx, role, replica_id, app_id)
    return labels if coscheduler_name is None else {**labels, _POD_GROUP: f"{app_id}-pg{role_idx}"}


def create_scheduler(
    session_name: str, client: ApiClient | None = None, docker_client: DockerClient | None = None, **kwargs: Any
) -> KubernetesMCADScheduler:
    """A scheduler of AppWrappers.

    Raises:
        ModuleNotFoundError: the client of Kubernetes is not installed.
    """
    import kubernetes  # noqa: F401  (here, so that its absence is told at once)

    return KubernetesMCADScheduler(session_name, client, docker_client)
