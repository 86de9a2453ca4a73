"""Models of which several groups of processes have a copy each, spread over the processes of the group."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.remote_device import _remote_device

from flambeau.rec.distributed._data_parallel import DataParallelWrapper
from flambeau.rec.distributed._model_parallel import DistributedModelParallel
from flambeau.rec.distributed.types import (
    DMPCollectionConfig,
    DMPCollectionContext,
    EmbeddingModuleShardingPlan,
    ModuleSharder,
    ShardedModule,
    ShardingEnv2D,
    ShardingPlan,
    ShardingStrategy,
    ShardingType,
)
from flambeau.rec.distributed.utils import append_prefix
from flambeau.rec.errors import OptionError

__all__ = ["DMPCollection"]

AllReduce = Callable[[list[Tensor]], None]


class DMPCollection(DistributedModelParallel):
    """A model of which each of several groups of processes has a copy, spread over the group by the same plan.

    Features and embeddings are exchanged within a group only. Each group trains its copy of the tables by its own
    batches; `sync`, which pipelines call after each batch, makes the copies equal again: their mean. All other
    parameters are data parallel over all processes. States hold DTensors on the processes of a group.

    Args:
        module: the model; modules that are spread are replaced in it.
        device: of this process.
        plan: where tables go, for the processes 0 to `sharding_group_size` - 1; it is the same in each group.
        world_size: processes.
        sharding_group_size: of them, those of a group; a divisor.
        global_pg: all processes.
        sharding_strategy: `FULLY_SHARDED` makes copies equal before each forward pass in training, without `sync`;
            their memory stays theirs.
        node_group_size: processes of a host in each group, for sharding by hosts.
        sharders: for each class of modules that may be spread; `get_default_sharders()` by default.
        init_data_parallel: whether to wrap the rest at once.
        init_parameters: whether to fill what is on the meta device; copies begin as those of the first group.
        data_parallel_wrapper: wraps the rest.
        use_inter_host_allreduce: whether groups are of neighbouring processes (0, 1, ...), and not of every so manieth
            (0, `world_size / sharding_group_size`, ...), which leaves copies of a shard on neighbours.
        custom_all_reduce: makes tensors of all copies equal, in place of an all-reduce and a division.
        submodule_configs: for modules of some classes, a plan and groups of their own; paths in such a plan are within
            the module.
        rs_awaitable_hook_module: a child of the model that waits for copies to be equal, under `FULLY_SHARDED`; they
            are before the forward pass begins.
        use_sharded_relay: accepted for upstream's sake; sums are those of the backend.

    Raises:
        OptionError: groups are not equally large, or the plan names processes that a group has not.
    """

    def __init__(
        self,
        module: nn.Module,
        device: torch.device,
        plan: ShardingPlan,
        world_size: int,
        sharding_group_size: int,
        global_pg: dist.ProcessGroup,
        sharding_strategy: ShardingStrategy = ShardingStrategy.DEFAULT,
        node_group_size: int | None = None,
        sharders: list[ModuleSharder[nn.Module]] | None = None,
        init_data_parallel: bool = True,
        init_parameters: bool = True,
        data_parallel_wrapper: DataParallelWrapper | None = None,
        use_inter_host_allreduce: bool = False,
        custom_all_reduce: AllReduce | None = None,
        submodule_configs: list[DMPCollectionConfig] | None = None,
        rs_awaitable_hook_module: str | None = None,
        use_sharded_relay: bool = False,
    ) -> None:
        if world_size != dist.get_world_size(global_pg):
            raise OptionError(
                f"world_size is {world_size}, and global_pg has {dist.get_world_size(global_pg)} processes."
            )
        if rs_awaitable_hook_module is not None and rs_awaitable_hook_module not in dict(module.named_children()):
            raise OptionError(
                f"rs_awaitable_hook_module is {rs_awaitable_hook_module!r}; expected one of "
                f"{[name for name, _ in module.named_children()]}."
            )
        self._device_type = torch.device(device).type
        self._global_pg, self._all_reduce = global_pg, custom_all_reduce
        own = DMPCollectionConfig(
            type(module), plan, sharding_group_size, node_group_size, use_inter_host_allreduce, sharding_strategy
        )
        self._ctxs = [self._context(config) for config in (own, *(submodule_configs or []))]
        self._envs = [self._environment(ctx) for ctx in self._ctxs]
        self._within: DMPCollectionContext | None = None
        super().__init__(
            module,
            self._envs[0],
            device,
            self._ctxs[0].plan,
            sharders,
            init_data_parallel,
            init_parameters,
            data_parallel_wrapper,
        )
        self._ctxs[0].sharded_module = self._dmp_wrapped_module
        self._equal_at_first()

    # ----- groups -----------------------------------------------------------------------------------------------------

    def _context(self, config: DMPCollectionConfig) -> DMPCollectionContext:
        total, size = dist.get_world_size(self._global_pg), config.sharding_group_size
        if not 1 <= size <= total or total % size:
            raise OptionError(f"sharding_group_size is {size}; expected a divisor of {total}, the number of processes.")
        groups = total // size
        neighbours = config.use_inter_host_allreduce
        ranks = torch.arange(total).view(groups, size) if neighbours else torch.arange(total).view(size, groups).t()
        mesh = DeviceMesh(self._device_type, ranks.contiguous(), mesh_dim_names=("replicate", "shard"))
        mine = mesh.get_local_rank("replicate")
        plan = _for_group(config.plan, ranks[mine].tolist())
        given = {**vars(config), "plan": plan}
        return DMPCollectionContext(
            **given, device_mesh=mesh, sharding_pg=mesh.get_group("shard"), replica_pg=mesh.get_group("replicate")
        )

    def _environment(self, ctx: DMPCollectionContext) -> ShardingEnv2D:
        assert ctx.sharding_pg is not None
        assert ctx.replica_pg is not None
        assert ctx.device_mesh is not None
        return ShardingEnv2D(
            sharding_pg=ctx.sharding_pg,
            replica_pg=ctx.replica_pg,
            global_pg=self._global_pg,
            device_mesh=ctx.device_mesh,
            node_group_size=ctx.node_group_size,
            use_inter_host_allreduce=ctx.use_inter_host_allreduce,
            sharding_strategy=ctx.sharding_strategy,
        )

    @property
    def device_mesh(self) -> DeviceMesh:
        """All processes: rows are groups, columns are copies of a shard."""
        mesh = self._ctxs[0].device_mesh
        assert mesh is not None
        return mesh

    @property
    def sharding_pg(self) -> dist.ProcessGroup:
        """The processes of this one's group."""
        pg = self._ctxs[0].sharding_pg
        assert pg is not None
        return pg

    @property
    def replica_pg(self) -> dist.ProcessGroup:
        """The processes that have the same shards as this one."""
        pg = self._ctxs[0].replica_pg
        assert pg is not None
        return pg

    def _sharded(self, module: nn.Module, path: str) -> nn.Module:
        for ctx, env in zip(self._ctxs[1:], self._envs[1:], strict=True):
            if self._within is None and isinstance(module, ctx.module):
                before = self._env, self._plan
                inside = {append_prefix(path, name): plan for name, plan in ctx.plan.plan.items()}
                self._env, self._plan, self._within = env, ShardingPlan(inside), ctx
                try:
                    made = super()._sharded(module, path)
                finally:
                    (self._env, self._plan), self._within = before, None
                self._plan.plan.update(inside)
                ctx.sharded_module = made
                return made
        return super()._sharded(module, path)

    # ----- copies -----------------------------------------------------------------------------------------------------

    def _kernels(self, ctx: DMPCollectionContext) -> Iterator[Any]:
        """Kernels of the tables that are spread over the groups of a context, but for those that every process has."""
        others = [one.sharded_module for one in self._ctxs[1:] if one.sharded_module is not None]

        def visit(module: nn.Module) -> Iterator[Any]:
            if any(module is one for one in others) and module is not ctx.sharded_module:
                return
            if isinstance(module, ShardedModule):
                for one in module.modules():
                    kinds, lookups = getattr(one, "_sharding_types", None), getattr(one, "_lookups", None)
                    for kind, lookup in zip(kinds or [], lookups or [], strict=False):
                        if kind != ShardingType.DATA_PARALLEL.value:
                            yield from getattr(lookup, "_emb_modules", [])
                return
            for child in module.children():
                yield from visit(child)

        if ctx.sharded_module is not None:
            yield from visit(ctx.sharded_module)

    def _tensors(self, ctx: DMPCollectionContext) -> tuple[list[Tensor], list[Tensor]]:
        """Tables of a context's modules, and what optimizers keep of them."""
        weights, states = [], []
        for kernel in self._kernels(ctx):
            weights += [weight for weight in kernel.split_embedding_weights() if weight.numel()]
            kept = getattr(kernel.emb_module, "split_optimizer_states", None)
            if kept is not None:
                states += [one for of_table in kept() for one in of_table if one.numel()]
        return weights, states

    @torch.no_grad()
    def _equal_at_first(self) -> None:
        if self.device.type == "meta":
            return
        for ctx in self._ctxs:
            assert ctx.replica_pg is not None
            weights, states = self._tensors(ctx)
            for kind, name in ((weights, "weights_by_dtype"), (states, "optimizer_tensors_by_dtype")):
                grouped: dict[torch.dtype, list[Tensor]] = {}
                for tensor in kind:
                    grouped.setdefault(tensor.dtype, []).append(tensor)
                setattr(ctx, name, grouped)
            for weight in weights:
                dist.broadcast(weight, group=ctx.replica_pg, group_src=0)

    @torch.no_grad()
    def sync(self, include_optimizer_state: bool = True) -> None:
        """Make the copies of all tables equal to their mean; all processes call this.

        Args:
            include_optimizer_state: whether this goes for what optimizers in kernels keep of them, too; whole numbers
                among that become those of the copy that is ahead.
        """
        for ctx in self._ctxs:
            assert ctx.replica_pg is not None
            kernels = list(self._kernels(ctx))
            for kernel in kernels:
                kernel.flush()
            weights, states = self._tensors(ctx)
            self._equal(weights, ctx.replica_pg, "## 2d_weight_sync ##")
            if include_optimizer_state and states:
                self._equal(states, ctx.replica_pg, "## 2d_optimizer_sync ##")
            for kernel in kernels:
                # What caches hold is of before.
                kernel.purge()

    def _equal(self, tensors: list[Tensor], pg: dist.ProcessGroup, what: str) -> None:
        with torch.profiler.record_function(what):
            if self._all_reduce is not None:
                self._all_reduce(tensors)
                return
            copies = dist.get_world_size(pg)
            if copies == 1:
                return
            kinds = [dist.ReduceOp.SUM if one.is_floating_point() else dist.ReduceOp.MAX for one in tensors]
            pending = [
                dist.all_reduce(one, kind, group=pg, async_op=True) for one, kind in zip(tensors, kinds, strict=True)
            ]
            for work in pending:
                work.wait()
            for one in tensors:
                if one.is_floating_point():
                    one.div_(copies)

    def set_all_reduce_hook(self, reduce_hook: AllReduce) -> None:
        """Make copies equal by a function, in place of an all-reduce and a division.

        Args:
            reduce_hook: called with tables, and with what optimizers keep of them; changes them in place.
        """
        self._all_reduce = reduce_hook

    def ensure_reduce_scatter_complete(self) -> None:
        """Wait until copies are equal, under `FULLY_SHARDED`; they are whenever a forward pass has begun."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the model."""
        if self.training and any(ctx.sharding_strategy is ShardingStrategy.FULLY_SHARDED for ctx in self._ctxs):
            self.sync()
        return super().forward(*args, **kwargs)


def _for_group(plan: ShardingPlan, ranks: list[int]) -> ShardingPlan:
    """A plan for the processes 0, 1, ... as one for the processes of a group.

    Args:
        plan: it.
        ranks: of the group's processes, among all.
    """

    def global_rank(rank: int, what: str) -> int:
        if not 0 <= rank < len(ranks):
            raise OptionError(f"the plan puts {what} on process {rank}; a sharding group has {len(ranks)}.")
        return ranks[rank]

    made = ShardingPlan({})
    for path, of_module in plan.plan.items():
        assert isinstance(of_module, EmbeddingModuleShardingPlan)
        moved = EmbeddingModuleShardingPlan()
        for name, given in of_module.items():
            sharding = copy.deepcopy(given)
            if sharding.sharding_type != ShardingType.DATA_PARALLEL.value:
                what = f"table {name!r} of {path!r}"
                if sharding.ranks is not None:
                    sharding.ranks = [global_rank(rank, what) for rank in sharding.ranks]
                for shard in getattr(sharding.sharding_spec, "shards", []):
                    rank = shard.placement.rank()
                    shard.placement = _remote_device(f"rank:{global_rank(rank, what)}/{shard.placement.device()}")
            moved[name] = sharding
        made.plan[path] = moved
    return made
