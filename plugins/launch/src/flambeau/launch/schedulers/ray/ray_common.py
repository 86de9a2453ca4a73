"""What the scheduler and the driver on the cluster both know."""

from __future__ import annotations

from dataclasses import dataclass, field

TORCHX_RANK0_HOST: str = "TORCHX_RANK0_HOST"


@dataclass
class RayActor:
    """A replica, which runs in an actor.

    Attributes:
        name: of its role.
        command: the program and its arguments; no shell sees them.
        env: environment variables.
        num_cpus: cores.
        num_gpus: GPUs.
        min_replicas: as few replicas of its role as the job begins with; None for all.
        replica_id: its number in the role.
        max_retries: how often the job's replicas are started again after a failure.
        memory: bytes of memory, 0 for any.
    """

    name: str
    command: list[str]
    env: dict[str, str] = field(default_factory=dict)
    num_cpus: int = 1
    num_gpus: int = 0
    min_replicas: int | None = None
    replica_id: int = 0
    max_retries: int = 0
    memory: int = 0
