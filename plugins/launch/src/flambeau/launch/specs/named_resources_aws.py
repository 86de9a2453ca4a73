"""Instances of Amazon EC2 as named resources.

A replica cannot have all memory of its instance, as the system needs some: each is counted with 0.96 of what EC2 says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flambeau.launch.specs.resources import Resource

__all__ = [
    "EFA_DEVICE",
    "K8S_ITYPE",
    "MEM_TAX",
    "NAMED_RESOURCES",
    "NEURON_DEVICE",
    "GiB",
    "aws_g4dn_2xlarge",
    "aws_g4dn_4xlarge",
    "aws_g4dn_8xlarge",
    "aws_g4dn_12xlarge",
    "aws_g4dn_16xlarge",
    "aws_g4dn_metal",
    "aws_g4dn_xlarge",
    "aws_g5_2xlarge",
    "aws_g5_4xlarge",
    "aws_g5_8xlarge",
    "aws_g5_12xlarge",
    "aws_g5_16xlarge",
    "aws_g5_24xlarge",
    "aws_g5_48xlarge",
    "aws_g5_xlarge",
    "aws_m5_2xlarge",
    "aws_p3_2xlarge",
    "aws_p3_8xlarge",
    "aws_p3_16xlarge",
    "aws_p3dn_24xlarge",
    "aws_p4d_24xlarge",
    "aws_p4de_24xlarge",
    "aws_p5_48xlarge",
    "aws_t3_medium",
    "aws_trn1_2xlarge",
    "aws_trn1_32xlarge",
    "instance_type_from_resource",
]

EFA_DEVICE = "vpc.amazonaws.com/efa"
NEURON_DEVICE = "aws.amazon.com/neurondevice"
K8S_ITYPE = "node.kubernetes.io/instance-type"
MEM_TAX = 0.96
GiB: int = int(1024 * MEM_TAX)


def instance_type_from_resource(resource: Resource) -> str:
    """The type of the instance that a resource was made for.

    Raises:
        KeyError: it was made for none.
    """
    kind: str = resource.capabilities[K8S_ITYPE]
    return kind


def _instance(kind: str, cpu: int, gpu: int, memory_mib: int, devices: Mapping[str, int] | None = None) -> Resource:
    return Resource(cpu, gpu, memory_mib, {K8S_ITYPE: kind}, dict(devices or {}))


def aws_t3_medium() -> Resource:
    """t3.medium: 2 cores, 4 GiB."""
    return _instance("t3.medium", 2, 0, 4 * GiB)


def aws_m5_2xlarge() -> Resource:
    """m5.2xlarge: 8 cores, 32 GiB."""
    return _instance("m5.2xlarge", 8, 0, 32 * GiB)


def aws_p3_2xlarge() -> Resource:
    """p3.2xlarge: 8 cores, 61 GiB, 1 GPU."""
    return _instance("p3.2xlarge", 8, 1, 61 * GiB)


def aws_p3_8xlarge() -> Resource:
    """p3.8xlarge: 32 cores, 244 GiB, 4 GPUs."""
    return _instance("p3.8xlarge", 32, 4, 244 * GiB)


def aws_p3_16xlarge() -> Resource:
    """p3.16xlarge: 64 cores, 488 GiB, 8 GPUs."""
    return _instance("p3.16xlarge", 64, 8, 488 * GiB)


def aws_p3dn_24xlarge() -> Resource:
    """p3dn.24xlarge: 96 cores, 768 GiB, 8 GPUs."""
    return _instance("p3dn.24xlarge", 96, 8, 768 * GiB, {EFA_DEVICE: 1})


def aws_p4d_24xlarge() -> Resource:
    """p4d.24xlarge: 96 cores, 1152 GiB, 8 GPUs."""
    return _instance("p4d.24xlarge", 96, 8, 1152 * GiB, {EFA_DEVICE: 4})


def aws_p4de_24xlarge() -> Resource:
    """p4de.24xlarge: 96 cores, 1152 GiB, 8 GPUs."""
    return _instance("p4de.24xlarge", 96, 8, 1152 * GiB, {EFA_DEVICE: 4})


def aws_p5_48xlarge() -> Resource:
    """p5.48xlarge: 192 cores, 2048 GiB, 8 GPUs."""
    return _instance("p5.48xlarge", 192, 8, 2048 * GiB, {EFA_DEVICE: 32})


def aws_g4dn_xlarge() -> Resource:
    """g4dn.xlarge: 4 cores, 16 GiB, 1 GPU."""
    return _instance("g4dn.xlarge", 4, 1, 16 * GiB)


def aws_g4dn_2xlarge() -> Resource:
    """g4dn.2xlarge: 8 cores, 32 GiB, 1 GPU."""
    return _instance("g4dn.2xlarge", 8, 1, 32 * GiB)


def aws_g4dn_4xlarge() -> Resource:
    """g4dn.4xlarge: 16 cores, 64 GiB, 1 GPU."""
    return _instance("g4dn.4xlarge", 16, 1, 64 * GiB)


def aws_g4dn_8xlarge() -> Resource:
    """g4dn.8xlarge: 32 cores, 128 GiB, 1 GPU."""
    return _instance("g4dn.8xlarge", 32, 1, 128 * GiB, {EFA_DEVICE: 1})


def aws_g4dn_16xlarge() -> Resource:
    """g4dn.16xlarge: 64 cores, 256 GiB, 1 GPU."""
    return _instance("g4dn.16xlarge", 64, 1, 256 * GiB, {EFA_DEVICE: 1})


def aws_g4dn_12xlarge() -> Resource:
    """g4dn.12xlarge: 48 cores, 192 GiB, 4 GPUs."""
    return _instance("g4dn.12xlarge", 48, 4, 192 * GiB, {EFA_DEVICE: 1})


def aws_g4dn_metal() -> Resource:
    """g4dn.metal: 96 cores, 384 GiB, 8 GPUs."""
    return _instance("g4dn.metal", 96, 8, 384 * GiB, {EFA_DEVICE: 1})


def aws_g5_xlarge() -> Resource:
    """g5.xlarge: 4 cores, 16 GiB, 1 GPU."""
    return _instance("g5.xlarge", 4, 1, 16 * GiB)


def aws_g5_2xlarge() -> Resource:
    """g5.2xlarge: 8 cores, 32 GiB, 1 GPU."""
    return _instance("g5.2xlarge", 8, 1, 32 * GiB)


def aws_g5_4xlarge() -> Resource:
    """g5.4xlarge: 16 cores, 64 GiB, 1 GPU."""
    return _instance("g5.4xlarge", 16, 1, 64 * GiB)


def aws_g5_8xlarge() -> Resource:
    """g5.8xlarge: 32 cores, 128 GiB, 1 GPU."""
    return _instance("g5.8xlarge", 32, 1, 128 * GiB, {EFA_DEVICE: 1})


def aws_g5_16xlarge() -> Resource:
    """g5.16xlarge: 64 cores, 256 GiB, 1 GPU."""
    return _instance("g5.16xlarge", 64, 1, 256 * GiB, {EFA_DEVICE: 1})


def aws_g5_12xlarge() -> Resource:
    """g5.12xlarge: 48 cores, 192 GiB, 4 GPUs."""
    return _instance("g5.12xlarge", 48, 4, 192 * GiB, {EFA_DEVICE: 1})


def aws_g5_24xlarge() -> Resource:
    """g5.24xlarge: 96 cores, 384 GiB, 4 GPUs."""
    return _instance("g5.24xlarge", 96, 4, 384 * GiB, {EFA_DEVICE: 1})


def aws_g5_48xlarge() -> Resource:
    """g5.48xlarge: 192 cores, 768 GiB, 8 GPUs."""
    return _instance("g5.48xlarge", 192, 8, 768 * GiB, {EFA_DEVICE: 1})


def aws_trn1_2xlarge() -> Resource:
    """trn1.2xlarge: 8 cores, 32 GiB, 1 Neuron device."""
    return _instance("trn1.2xlarge", 8, 0, 32 * GiB, {NEURON_DEVICE: 1})


def aws_trn1_32xlarge() -> Resource:
    """trn1.32xlarge: 128 cores, 512 GiB, 16 Neuron devices."""
    return _instance("trn1.32xlarge", 128, 0, 512 * GiB, {EFA_DEVICE: 8, NEURON_DEVICE: 16})


NAMED_RESOURCES: Mapping[str, Callable[[], Resource]] = {
    "aws_t3.medium": aws_t3_medium,
    "aws_m5.2xlarge": aws_m5_2xlarge,
    "aws_p3.2xlarge": aws_p3_2xlarge,
    "aws_p3.8xlarge": aws_p3_8xlarge,
    "aws_p3.16xlarge": aws_p3_16xlarge,
    "aws_p3dn.24xlarge": aws_p3dn_24xlarge,
    "aws_p4d.24xlarge": aws_p4d_24xlarge,
    "aws_p4de.24xlarge": aws_p4de_24xlarge,
    "aws_p5.48xlarge": aws_p5_48xlarge,
    "aws_g4dn.xlarge": aws_g4dn_xlarge,
    "aws_g4dn.2xlarge": aws_g4dn_2xlarge,
    "aws_g4dn.4xlarge": aws_g4dn_4xlarge,
    "aws_g4dn.8xlarge": aws_g4dn_8xlarge,
    "aws_g4dn.16xlarge": aws_g4dn_16xlarge,
    "aws_g4dn.12xlarge": aws_g4dn_12xlarge,
    "aws_g4dn.metal": aws_g4dn_metal,
    "aws_g5.xlarge": aws_g5_xlarge,
    "aws_g5.2xlarge": aws_g5_2xlarge,
    "aws_g5.4xlarge": aws_g5_4xlarge,
    "aws_g5.8xlarge": aws_g5_8xlarge,
    "aws_g5.16xlarge": aws_g5_16xlarge,
    "aws_g5.12xlarge": aws_g5_12xlarge,
    "aws_g5.24xlarge": aws_g5_24xlarge,
    "aws_g5.48xlarge": aws_g5_48xlarge,
    "aws_trn1.2xlarge": aws_trn1_2xlarge,
    "aws_trn1.32xlarge": aws_trn1_32xlarge,
}
"""Name -> what makes the resource."""
