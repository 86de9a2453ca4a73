"""What a replica needs of a machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["NULL_RESOURCE", "Resource"]


@dataclass
class Resource:
    """Processors, memory and devices that one replica asks for.

    Attributes:
        cpu: number of logical cores; negative where it does not matter.
        gpu: number of GPUs.
        memMB: mebibytes of memory.
        capabilities: what a scheduler should know beyond, such as the type of the instance.
        devices: further devices by name, with their number, such as `{"vpc.amazonaws.com/efa": 4}`.
    """

    cpu: int
    gpu: int
    memMB: int
    capabilities: dict[str, Any] = field(default_factory=dict)
    devices: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def copy(original: Resource, **capabilities: Any) -> Resource:
        """The same resource with further capabilities; of equal names the new ones hold."""
        merged = {**original.capabilities, **capabilities}
        return Resource(original.cpu, original.gpu, original.memMB, merged, dict(original.devices))


NULL_RESOURCE: Resource = Resource(cpu=-1, gpu=-1, memMB=-1)
"""A replica that says nothing of what it needs."""
