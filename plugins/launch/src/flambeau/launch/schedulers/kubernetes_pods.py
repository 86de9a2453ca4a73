"""Pods: what one replica is on Kubernetes, whichever kind of job it belongs to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from flambeau.launch.errors import SpecError
from flambeau.launch.schedulers.devices import get_device_mounts
from flambeau.launch.schedulers.ids import get_len_random_id, make_unique
from flambeau.launch.specs.apps import AppDef, Role
from flambeau.launch.specs.mounts import BindMount, DeviceMount, VolumeMount
from flambeau.launch.specs.named_resources_aws import EFA_DEVICE, K8S_ITYPE, NEURON_DEVICE
from flambeau.launch.util.strings import normalize_str
from flambeau.launch.version import __version__

if TYPE_CHECKING:
    from kubernetes.client.models import V1Pod

__all__ = [
    "ANNOTATION_ISTIO_SIDECAR",
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
    "cleanup_str",
    "job_name",
    "label_value",
    "pod_labels",
    "role_to_pod",
    "sanitize_for_serialization",
]

# What Kubernetes and its daemons take of every node: asking for all of it would leave a pod waiting for ever.
RESERVED_MILLICPU = 100
RESERVED_MEMMB = 1024

LABEL_VERSION = "torchx.pytorch.org/version"
LABEL_APP_NAME = "torchx.pytorch.org/app-name"
LABEL_ROLE_INDEX = "torchx.pytorch.org/role-index"
LABEL_ROLE_NAME = "torchx.pytorch.org/role-name"
LABEL_REPLICA_ID = "torchx.pytorch.org/replica-id"
LABEL_KUBE_APP_NAME = "app.kubernetes.io/name"
LABEL_ORGANIZATION = "app.kubernetes.io/managed-by"
LABEL_UNIQUE_NAME = "app.kubernetes.io/instance"
ANNOTATION_ISTIO_SIDECAR = "sidecar.istio.io/inject"
LABEL_INSTANCE_TYPE = K8S_ITYPE
_LONGEST_NAME = 63


def sanitize_for_serialization(obj: object) -> object:
    """Models of the Kubernetes client as plain values."""
    from kubernetes.client import ApiClient

    with ApiClient() as client:
        return client.sanitize_for_serialization(obj)


def cleanup_str(data: str) -> str:
    """A name that Kubernetes takes: lower-case letters, digits and hyphens, the first one a letter."""
    return normalize_str(data).lstrip("0123456789-")


def label_value(text: str) -> str:
    """A text as a label has it: at most 63 characters, others than letters, digits, `-`, `_` and `.` left out."""
    kept = re.sub(r"[^A-Za-z0-9_.-]", "", text)[:_LONGEST_NAME]
    return re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9]+$", "", kept)


def job_name(app: AppDef, *, room_for: int = 0) -> str:
    """A name for an application that no other has.

    Args:
        app: the application.
        room_for: characters that will be added to it in names of pods, which have 63 at most.
    """
    name = cleanup_str(app.name) or "app"
    unique = make_unique(name)
    most = _LONGEST_NAME - room_for
    return unique if len(unique) <= most else f"{name[: most - 7].rstrip('-')}-{get_len_random_id(6)}"


def pod_labels(app: AppDef, role_idx: int, role: Role, replica_id: int, app_id: str) -> dict[str, str]:
    """The labels by which a pod is found."""
    return {
        LABEL_VERSION: label_value(__version__),
        LABEL_APP_NAME: label_value(app.name),
        LABEL_ROLE_INDEX: str(role_idx),
        LABEL_ROLE_NAME: label_value(role.name),
        LABEL_REPLICA_ID: str(replica_id),
        LABEL_KUBE_APP_NAME: label_value(app.name),
        LABEL_ORGANIZATION: "torchx.pytorch.org",
        LABEL_UNIQUE_NAME: app_id,
    }


def _models() -> Any:
    """The client's models; their types call every field optional, also those that are always there."""
    from kubernetes.client import models

    return models


def role_to_pod(name: str, role: Role, service_account: str | None) -> V1Pod:
    """The pod of a replica.

    Args:
        name: of the pod.
        role: whose macros are filled in.
        service_account: that it runs by.
    """
    models = _models()
    volumes, mounts, devices = _volumes(role)
    container = models.V1Container(
        command=[role.entrypoint, *role.args],
        image=role.image,
        name=name,
        env=[models.V1EnvVar(name=key, value=value) for key, value in role.env.items()],
        ports=[models.V1ContainerPort(name=key, container_port=port) for key, port in role.port_map.items()],
        resources=models.V1ResourceRequirements(**_resources(role)),
        volume_mounts=mounts,
        security_context=models.V1SecurityContext(privileged=True if devices else None),
    )
    spec = models.V1PodSpec(
        containers=[container],
        restart_policy="Never",
        service_account_name=service_account,
        volumes=volumes,
        node_selector=_node_selector(role),
    )
    # A sidecar would go on when the replica has ended, and the job with it.
    pod: V1Pod = models.V1Pod(
        spec=spec, metadata=models.V1ObjectMeta(annotations={ANNOTATION_ISTIO_SIDECAR: "false"}, labels={})
    )
    return pod


def _node_selector(role: Role) -> dict[str, str]:
    instance = role.resource.capabilities.get(LABEL_INSTANCE_TYPE)
    return {LABEL_INSTANCE_TYPE: str(instance)} if instance else {}


def _resources(role: Role) -> dict[str, dict[str, str]]:
    """What the pod may use, and what the node must have free for it."""
    resource = role.resource
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    if resource.cpu > 0:
        millis = int(resource.cpu * 1000)
        limits["cpu"], requests["cpu"] = f"{millis}m", f"{max(millis - RESERVED_MILLICPU, 0)}m"
    if resource.memMB > 0:
        limits["memory"] = f"{int(resource.memMB)}M"
        requests["memory"] = f"{max(int(resource.memMB) - RESERVED_MEMMB, 0)}M"
    if resource.gpu > 0:
        limits["nvidia.com/gpu"] = requests["nvidia.com/gpu"] = str(resource.gpu)
    limits.update({name: str(number) for name, number in resource.devices.items()})
    return {"limits": limits, "requests": requests}


# Their drivers' plugins bring the files along; the mounts of both are for engines without such.
_BY_PLUGIN = (EFA_DEVICE, NEURON_DEVICE)


def _volumes(role: Role) -> tuple[list[Any], list[Any], bool]:
    """Volumes, where they are mounted, and whether there are device files among them."""
    models = _models()
    # Loaders of data share tensors between processes there, and the default has 64 MB.
    volumes = [models.V1Volume(name="dshm", empty_dir=models.V1EmptyDirVolumeSource(medium="Memory"))]
    mounts = [models.V1VolumeMount(name="dshm", mount_path="/dev/shm")]
    others = {name: number for name, number in role.resource.devices.items() if name not in _BY_PLUGIN}
    has_devices = False
    for number, mount in enumerate([*role.mounts, *(get_device_mounts(others) if others else [])]):
        name = f"mount-{number}"
        read_only = False
        if isinstance(mount, VolumeMount):
            source = {"persistent_volume_claim": models.V1PersistentVolumeClaimVolumeSource(claim_name=mount.src)}
            read_only = mount.read_only
        elif isinstance(mount, BindMount):
            source = {"host_path": models.V1HostPathVolumeSource(path=mount.src_path)}
            read_only = mount.read_only
        elif isinstance(mount, DeviceMount):
            source = {"host_path": models.V1HostPathVolumeSource(path=mount.src_path)}
            read_only, has_devices = "w" not in mount.permissions, True
        else:
            raise SpecError(f"{mount!r} of role {role.name!r} is no mount.")
        volumes.append(models.V1Volume(name=name, **source))
        mounts.append(models.V1VolumeMount(name=name, mount_path=mount.dst_path, read_only=read_only))
    return volumes, mounts, has_devices


def set_rank0_here(pod: Any) -> None:
    """The first replica finds itself at home; only the others have a variable with its address."""
    models = _models()
    pod.spec.containers[0].env.append(models.V1EnvVar(name="TORCHX_RANK0_HOST", value="localhost"))
