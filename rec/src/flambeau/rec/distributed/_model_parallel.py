"""A model whose tables of embeddings are spread over processes, and whose other parameters every process has."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.module import _IncompatibleKeys

from flambeau.rec.distributed._data_parallel import DataParallelWrapper, DefaultDataParallelWrapper, get_module
from flambeau.rec.distributed.comm import get_local_size
from flambeau.rec.distributed.types import (
    EmbeddingModuleShardingPlan,
    ModuleSharder,
    ShardedModule,
    ShardingEnv,
    ShardingPlan,
)
from flambeau.rec.distributed.utils import append_prefix, init_parameters, sharded_model_copy
from flambeau.rec.errors import OptionError
from flambeau.rec.optim.fused import FusedOptimizerModule
from flambeau.rec.optim.keyed import CombinedOptimizer, KeyedOptimizer

if TYPE_CHECKING:
    from flambeau.rec.distributed.model_tracker.model_delta_tracker import ModelDeltaTracker
    from flambeau.rec.distributed.model_tracker.types import (
        DeltaTrackerConfig,
        ModelTrackerConfigs,
        RawIdTrackerConfig,
        Trackers,
    )

__all__ = ["DistributedModelParallel", "get_default_sharders"]


def get_default_sharders() -> list[ModuleSharder[nn.Module]]:
    """A sharder for each class of modules that there is one for."""
    from flambeau.rec.distributed.sharding_plan import get_default_sharders as found

    return found()


class DistributedModelParallel(nn.Module, FusedOptimizerModule):
    """A model whose modules of embeddings are spread over processes by a plan, and whose rest is data parallel.

    Names of parameters and of states are those of the model.

    Args:
        module: the model; modules that are spread are replaced in it. What is on the meta device is made anew.
        env: the processes; those of the default group by default.
        device: of this process; the CPU by default.
        plan: where tables go; made by an `EmbeddingShardingPlanner` by default.
        sharders: for each class of modules that may be spread; `get_default_sharders()` by default.
        init_data_parallel: whether to wrap the rest at once; else call `init_data_parallel` before the first step.
        init_parameters: whether to fill what is on the meta device.
        data_parallel_wrapper: wraps the rest; a `DefaultDataParallelWrapper` by default.
        model_tracker_configs: trackers of rows to begin with.

    Raises:
        OptionError: there is no process group, or the plan names modules that are not there.

    Example:
        A process of a program that `torchrun` started::

            model = DistributedModelParallel(model, device=device, sharders=[EmbeddingBagCollectionSharder()])
            optimizer = KeyedOptimizerWrapper(dict(in_backward_optimizer_filter(model.named_parameters())), SGD)
            loss = model(batch).mean()
            loss.backward()
            optimizer.step()
    """

    def __init__(
        self,
        module: nn.Module,
        env: ShardingEnv | None = None,
        device: torch.device | None = None,
        plan: ShardingPlan | None = None,
        sharders: list[ModuleSharder[nn.Module]] | None = None,
        init_data_parallel: bool = True,
        init_parameters: bool = True,
        data_parallel_wrapper: DataParallelWrapper | None = None,
        model_tracker_configs: ModelTrackerConfigs | None = None,
    ) -> None:
        super().__init__()
        torch._C._log_api_usage_once(f"flambeau.rec.distributed.{type(self).__name__}")
        self.init_parameters = init_parameters
        self._ddp_wrapped = False
        if env is None:
            if not dist.is_initialized():
                raise OptionError(
                    "there is no default process group to spread the model over; call "
                    "torch.distributed.init_process_group, or give env."
                )
            pg = dist.group.WORLD
            assert pg is not None
            env = ShardingEnv.from_process_group(pg)
        self._env: ShardingEnv = env
        self.device = torch.device("cpu") if device is None else torch.device(device)
        self.sharders: list[Any] = get_default_sharders() if sharders is None else list(sharders)
        self._sharder_map = {sharder.module_type: sharder for sharder in self.sharders}
        self._data_parallel_wrapper = data_parallel_wrapper or DefaultDataParallelWrapper()
        self._plan = self._planned(module) if plan is None else plan
        _check_plan(module, self._plan)
        self._dmp_wrapped_module: nn.Module = self._sharded(module, "")
        if init_parameters:
            self._init_parameters(self._dmp_wrapped_module)
        self._optim: CombinedOptimizer = self._joined_optimizers()
        self._trackers: dict[Trackers, Any] = {}
        if model_tracker_configs is not None and model_tracker_configs.raw_id_tracker_config is not None:
            self._init_raw_id_tracker(model_tracker_configs.raw_id_tracker_config)
        if init_data_parallel:
            self.init_data_parallel()

    def _planned(self, module: nn.Module) -> ShardingPlan:
        from flambeau.rec.distributed.planner import EmbeddingShardingPlanner, Topology

        planner = EmbeddingShardingPlanner(
            topology=Topology(
                local_world_size=min(get_local_size(self._env.world_size), self._env.world_size),
                world_size=self._env.world_size,
                compute_device=self.device.type,
            )
        )
        pg = self._env.process_group
        if pg is not None:
            return planner.collective_plan(module, self.sharders, pg)
        return planner.plan(module, self.sharders)

    def _sharded(self, module: nn.Module, path: str) -> nn.Module:
        """The module with everything in it spread that the plan speaks of."""
        if isinstance(module, ShardedModule):
            return module
        plan = self._plan.get_plan_for_module(path)
        if plan is not None:
            if type(module) not in self._sharder_map:
                known = [kind.__name__ for kind in self._sharder_map]
                raise OptionError(
                    f"the plan speaks of {path!r}, a {type(module).__name__}, which no sharder knows; sharders know "
                    f"{known}."
                )
            sharded: nn.Module = self._sharder_map[type(module)].shard(module, plan, self._env, self.device, path)  # type: ignore[arg-type]
            return sharded
        for name, child in module.named_children():
            made = self._sharded(child, append_prefix(path, name))
            if made is not child:
                module.register_module(name, made)
        return module

    def _init_parameters(self, module: nn.Module) -> None:
        init_parameters(module, self.device)

    def init_data_parallel(self) -> None:
        """Wrap what every process has; once."""
        if self._ddp_wrapped:
            return
        if self._env.process_group is not None and self.device.type != "meta":
            self._data_parallel_wrapper.wrap(self, self._env, self.device)
            for module in get_module(self).modules():
                if isinstance(module, ShardedModule) and hasattr(module, "init_data_parallel"):
                    module.init_data_parallel()  # type: ignore[operator]
        self._ddp_wrapped = True

    # ----- what it holds ----------------------------------------------------------------------------------------------

    @property
    def module(self) -> nn.Module:
        """The model with what was spread in it, without wrappers."""
        return get_module(self)

    @property
    def plan(self) -> ShardingPlan:
        """Where tables are."""
        return self._plan

    @property
    def fused_optimizer(self) -> KeyedOptimizer:
        """What kernels train tables by."""
        return self._optim

    def _joined_optimizers(self) -> CombinedOptimizer:
        found: list[KeyedOptimizer | tuple[str, KeyedOptimizer]] = []

        def visit(module: nn.Module, path: str) -> None:
            if isinstance(module, FusedOptimizerModule):
                found.append((path, module.fused_optimizer))
                return
            for name, child in module.named_children():
                visit(child, append_prefix(path, name))

        visit(get_module(self._dmp_wrapped_module), "")
        return CombinedOptimizer(found)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the model."""
        for tracker in self._trackers.values():
            tracker.step()
        return self._dmp_wrapped_module(*args, **kwargs)

    # ----- rows that change -------------------------------------------------------------------------------------------

    def init_torchrec_delta_tracker(self, delta_tracker_config: DeltaTrackerConfig) -> ModelDeltaTracker:
        """Take note of all rows that are looked up from here on.

        Args:
            delta_tracker_config: what is kept of them, and for whom.

        Returns:
            The tracker, which tells those that were since it was asked last.
        """
        from flambeau.rec.distributed.model_tracker.model_delta_tracker import ModelDeltaTrackerTrec
        from flambeau.rec.distributed.model_tracker.types import Trackers

        config = delta_tracker_config
        tracker = ModelDeltaTrackerTrec(
            self,
            consumers=config.consumers,
            delete_on_read=config.delete_on_read,
            auto_compact=config.auto_compact,
            mode=config.tracking_mode,
            fqns_to_skip=config.fqns_to_skip,
        )
        self._trackers[Trackers.DELTA_TRACKER] = tracker
        return tracker

    def get_delta_tracker(self) -> ModelDeltaTracker | None:
        """The tracker of `init_torchrec_delta_tracker`; None where that was not called."""
        from flambeau.rec.distributed.model_tracker.types import Trackers

        return self._trackers.get(Trackers.DELTA_TRACKER)

    def _init_raw_id_tracker(self, config: RawIdTrackerConfig) -> None:
        from flambeau.rec.distributed.model_tracker.trackers.raw_id_tracker import RawIdTracker
        from flambeau.rec.distributed.model_tracker.types import Trackers

        tracker = RawIdTracker(self, config.delete_on_read, config.fqns_to_skip)
        self._trackers[Trackers.RAW_ID_TRACKER] = tracker
        for module in get_module(self).modules():
            for lookup in getattr(module, "_lookups", None) or []:
                for kernel in getattr(get_module(lookup), "_emb_modules", []):
                    kernel.init_raw_id_tracker(tracker.get_indexed_lookups, tracker.delete)

    def write(self, *input: Any, **kwargs: Any) -> None:
        """Overwrite rows: calls the model's `write`."""
        inside = get_module(self)
        if not callable(getattr(inside, "write", None)):
            raise NotImplementedError(f"{type(inside).__name__} has no method write.")
        inside.write(*input, **kwargs)  # type: ignore[operator]

    def copy(self, device: torch.device) -> DistributedModelParallel:
        """A model of its own on another device, of the devices of one process.

        Args:
            device: where to.
        """
        memo: dict[int, Any] = {}
        for pg in (self._env.process_group, getattr(self._env, "sharding_pg", None)):
            if pg is not None:
                memo[id(pg)] = pg
        with sharded_model_copy(device=device):
            made = copy.deepcopy(self, memo)
        made.device = torch.device(device)
        made._dmp_wrapped_module.to(device)
        return made

    # ----- names and states -------------------------------------------------------------------------------------------

    def state_dict(  # type: ignore[override]
        self, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """The state of the model, tables as wholes of which this process has parts."""
        found: dict[str, Any] = get_module(self).state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars)  # type: ignore[arg-type]
        return found

    def load_state_dict(  # type: ignore[override]
        self, state_dict: dict[str, Any], prefix: str = "", strict: bool = True
    ) -> _IncompatibleKeys:
        """Take over a state.

        Args:
            state_dict: of the model: tables as `state_dict` gives them, or whole as of the model that is not spread.
            prefix: before all names.
            strict: whether names that are missing or not known are errors.

        Returns:
            Names that are missing, and names that are not known.
        """
        given = {name[len(prefix) :]: value for name, value in state_dict.items() if name.startswith(prefix)}
        return get_module(self).load_state_dict(given, strict=strict)  # type: ignore[no-any-return]

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """Parameters by the names of the model; of a table, the part here."""
        yield from get_module(self).named_parameters(prefix, recurse, remove_duplicate)

    def bare_named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, nn.Parameter]]:
        """Parameters by the names of the model; of a table, the part here."""
        yield from get_module(self).named_parameters(prefix, recurse)

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """Buffers by the names of the model."""
        yield from get_module(self).named_buffers(prefix, recurse, remove_duplicate)

    def sparse_grad_parameter_names(self, destination: list[str] | None = None, prefix: str = "") -> list[str]:
        """Names of parameters whose gradients are sparse tensors.

        Args:
            destination: a list to add them to.
            prefix: before all names.
        """
        found = [] if destination is None else destination

        def visit(module: nn.Module, path: str) -> None:
            if isinstance(module, ShardedModule):
                return
            if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.sparse:
                found.append(append_prefix(path, "weight"))
            for name, child in module.named_children():
                visit(child, append_prefix(path, name))

        visit(get_module(self), prefix)
        return found

    # ----- other plans ------------------------------------------------------------------------------------------------

    def reshard(
        self,
        changed_shard_to_params: dict[str, tuple[float, EmbeddingModuleShardingPlan]],
        sharded_module_fqn: str | None = None,
    ) -> float:
        """Move tables to where other plans want them, with what optimizers keep of them; all processes call this.

        Args:
            changed_shard_to_params: for modules, by path, what moving costs, and where tables go that are to be moved.
            sharded_module_fqn: the only module to do this for; all of them by default.

        Returns:
            The sum of what it costs.
        """
        total = 0.0
        for path, (cost, plan) in changed_shard_to_params.items():
            if sharded_module_fqn is not None and path != sharded_module_fqn:
                continue
            module = get_module(self).get_submodule(path)
            if not isinstance(module, ShardedModule):
                raise OptionError(f"{path!r} is a {type(module).__name__}, whose tables are not spread.")
            sharder = self._sharder_map[module.unsharded_module_type]
            sharder.reshard(module, plan, self._env, self.device)  # type: ignore[union-attr]
            self._plan.plan[path] = module.module_sharding_plan  # type: ignore[assignment]
            total += cost
        self._optim = self._joined_optimizers()
        return total


def _check_plan(module: nn.Module, plan: ShardingPlan) -> None:
    paths = {path for path, _ in module.named_modules()}
    unknown = [path for path in plan.plan if path not in paths]
    if unknown:
        raise OptionError(f"the plan speaks of {unknown}, which {type(module).__name__} has no modules of.")
