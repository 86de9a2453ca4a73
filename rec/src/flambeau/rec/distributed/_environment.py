"""The processes that share a module."""

from __future__ import annotations

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from flambeau.rec.distributed._plans import ShardingStrategy, ShardingType
from flambeau.rec.errors import OptionError

__all__ = ["ShardingEnv", "ShardingEnv2D"]

_BY_HOST = (ShardingType.TABLE_ROW_WISE, ShardingType.GRID_SHARD)


class ShardingEnv:
    """How many processes share a module, and which one this is.

    Args:
        world_size: processes, or devices of one process.
        rank: of this process among them.
        pg: they as a process group; None for the devices of one process.
        output_dtensor: whether state dictionaries hold DTensors instead of ShardedTensors.
    """

    def __init__(
        self, world_size: int, rank: int, pg: dist.ProcessGroup | None = None, output_dtensor: bool = False
    ) -> None:
        self.world_size = world_size
        self.rank = rank
        self.process_group: dist.ProcessGroup | None = pg
        self.device_mesh: DeviceMesh | None = (
            DeviceMesh.from_group(pg, _device_type(pg)) if output_dtensor and pg is not None else None
        )
        self.output_dtensor = output_dtensor

    @classmethod
    def from_process_group(cls, pg: dist.ProcessGroup) -> ShardingEnv:
        """The processes of a group."""
        return cls(dist.get_world_size(pg), dist.get_rank(pg), pg)

    @classmethod
    def from_local(cls, world_size: int, rank: int) -> ShardingEnv:
        """The devices of one process, as for serving."""
        return cls(world_size, rank, None)


class ShardingEnv2D(ShardingEnv):
    """Groups of processes that each hold all of a module, in shards.

    Args:
        sharding_pg: the processes that share one copy of the module with this one.
        replica_pg: the processes that hold the same shards as this one.
        global_pg: all processes.
        device_mesh: the same, its dimensions called "replicate" and "shard".
        node_group_size: processes of a host in each sharding group, for sharding by hosts.
        use_inter_host_allreduce: whether groups are of neighbouring processes.
        sharding_strategy: what the copies hold between steps.
    """

    def __init__(
        self,
        sharding_pg: dist.ProcessGroup,
        replica_pg: dist.ProcessGroup,
        global_pg: dist.ProcessGroup,
        device_mesh: DeviceMesh,
        node_group_size: int | None = None,
        use_inter_host_allreduce: bool = False,
        sharding_strategy: ShardingStrategy = ShardingStrategy.DEFAULT,
    ) -> None:
        self._check(sharding_pg, global_pg)
        self.world_size = dist.get_world_size(sharding_pg)
        self.global_world_size = dist.get_world_size(global_pg)
        self.rank = dist.get_rank(sharding_pg)
        self.process_group = global_pg
        self.sharding_pg = sharding_pg
        self.replica_pg = replica_pg
        self.device_mesh = device_mesh
        self.node_group_size = node_group_size
        self.output_dtensor = True
        self.use_inter_host_allreduce = use_inter_host_allreduce
        self.sharding_strategy = sharding_strategy

    @staticmethod
    def _check(sharding_pg: dist.ProcessGroup, global_pg: dist.ProcessGroup) -> None:
        size, total = dist.get_world_size(sharding_pg), dist.get_world_size(global_pg)
        if total % size:
            raise OptionError(
                f"sharding_pg has {size} of {total} processes; expected a divisor, for groups to be equally large."
            )

    def num_sharding_groups(self) -> int:
        """How many copies of the module there are."""
        return self.global_world_size // self.world_size

    def remap_rank(self, rank: int, sharding_type: ShardingType) -> int:
        """The rank within its sharding group of a global one.

        Args:
            rank: among all processes.
            sharding_type: of the parameter; sharding by hosts keeps the processes of a host together.
        """
        if self.use_inter_host_allreduce:
            return rank % self.world_size
        if sharding_type in _BY_HOST and self.node_group_size is None:
            raise OptionError(
                f"sharding by hosts ({sharding_type.value}) needs node_group_size: how many processes of a host each "
                "sharding group has."
            )
        return rank // self.num_sharding_groups()


def _device_type(pg: dist.ProcessGroup) -> str:
    return "cpu" if dist.get_backend(pg) == "gloo" else "cuda"
