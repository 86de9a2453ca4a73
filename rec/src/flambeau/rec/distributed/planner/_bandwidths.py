"""How fast devices talk to each other."""

from __future__ import annotations

import abc
from enum import Enum

from flambeau.rec.distributed.planner.constants import CROSS_NODE_BANDWIDTH, INTRA_NODE_BANDWIDTH

__all__ = ["BasicCommsBandwidths", "CollectiveType", "GeneralizedCommsBandwidth"]


class CollectiveType(Enum):
    """What a group of devices does together."""

    ALL_TO_ALL = "all_to_all"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_GATHER = "all_gather"
    ALL_REDUCE = "all_reduce"


class GeneralizedCommsBandwidth(abc.ABC):
    """The bandwidth of each kind of communication, in bytes a millisecond."""

    @abc.abstractmethod
    def get_bw(self, local_world_size: int, world_size: int, collective_type: CollectiveType) -> float:
        """Of a kind of communication.

        Args:
            local_world_size: devices of a host.
            world_size: devices that take part.
            collective_type: what they do.
        """

    @property
    @abc.abstractmethod
    def intra_host_bw(self) -> float:
        """Between devices of a host."""

    @property
    @abc.abstractmethod
    def inter_host_bw(self) -> float:
        """Between hosts."""


class BasicCommsBandwidths(GeneralizedCommsBandwidth):
    """One bandwidth inside of hosts, and one between them; of all-reduce, every device of a host has a link of its own.

    Args:
        inter_host_bw: between hosts, bytes a millisecond.
        intra_host_bw: between devices of a host.
    """

    def __init__(
        self, inter_host_bw: float = CROSS_NODE_BANDWIDTH, intra_host_bw: float = INTRA_NODE_BANDWIDTH
    ) -> None:
        self._inter_host_bw = inter_host_bw
        self._intra_host_bw = intra_host_bw

    def __str__(self) -> str:
        return f"BasicCommsBandwidths: inter_host_bw={self._inter_host_bw}, intra_host_bw={self._intra_host_bw}"

    @property
    def inter_host_bw(self) -> float:
        """Between hosts."""
        return self._inter_host_bw

    @property
    def intra_host_bw(self) -> float:
        """Between devices of a host."""
        return self._intra_host_bw

    def get_bw(self, local_world_size: int, world_size: int, collective_type: CollectiveType) -> float:
        """Of a kind of communication: the slower link where hosts take part, the faster one else."""
        if collective_type == CollectiveType.ALL_REDUCE:
            return self._inter_host_bw * local_world_size
        return self._inter_host_bw if world_size > local_world_size else self._intra_host_bw
