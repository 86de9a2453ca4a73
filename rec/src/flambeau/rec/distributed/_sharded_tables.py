"""What sharded collections of pooled and of plain embeddings share: tables, parameters, optimizers and states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed._shard.sharded_tensor import ShardedTensor  # type: ignore[attr-defined]
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from flambeau.rec.distributed._agreement import check_same_plan
from flambeau.rec.distributed._bounds import Bound
from flambeau.rec.distributed.embedding_kernel import get_state_dict
from flambeau.rec.distributed.embedding_sharding import EmbeddingSharding, EmbeddingShardingInfo
from flambeau.rec.distributed.embedding_types import (
    EmbeddingComputeKernel,
    ShardedEmbeddingModule,
    ShardedEmbeddingTable,
)
from flambeau.rec.distributed.types import ParameterSharding, QuantizedCommCodecs, ShardingEnv, ShardingEnv2D
from flambeau.rec.distributed.utils import (
    add_params_from_parameter_sharding,
    convert_to_fbgemm_types,
    merge_fused_params,
    optimizer_type_to_emb_opt_type,
)
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.embedding_configs import BaseEmbeddingConfig, EmbeddingTableConfig, PoolingType
from flambeau.rec.modules.embedding_modules import get_embedding_names_by_table
from flambeau.rec.modules.fused_embedding_modules import convert_optimizer_type_and_kwargs
from flambeau.rec.optim.fused import EmptyFusedOptimizer, FusedOptimizerModule
from flambeau.rec.optim.keyed import CombinedOptimizer, KeyedOptimizer
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["ShardedTables", "infos_by_type"]


def _optimizer_options(param: Tensor) -> dict[str, Any]:
    """What `apply_optimizer_in_backward` noted at a parameter, as options of kernels."""
    classes = getattr(param, "_optimizer_classes", None)
    if not classes:
        return {}
    if len(classes) > 1:
        raise OptionError(f"a table is to be trained by {len(classes)} optimizers, {classes}; kernels run one.")
    kind = optimizer_type_to_emb_opt_type(classes[0])
    converted = convert_optimizer_type_and_kwargs(classes[0], param._optimizer_kwargs[0])  # type: ignore[attr-defined]
    assert converted is not None
    return converted[1] | {"optimizer": kind}


def infos_by_type(
    tables: Sequence[BaseEmbeddingConfig],
    weights: Mapping[str, Tensor],
    plan: Mapping[str, ParameterSharding],
    fused_params: dict[str, Any] | None,
    *,
    pooled: bool,
    is_weighted: bool = False,
    has_feature_processor: bool = False,
) -> dict[str, list[EmbeddingShardingInfo]]:
    """The tables of a collection by the way in which they are spread.

    Args:
        tables: of the collection.
        weights: of each table, by name.
        plan: where each goes, by name.
        fused_params: options of all kernels.
        pooled: whether rows are pooled.
        is_weighted: whether ids have weights.
        has_feature_processor: whether these are computed from positions.

    Raises:
        OptionError: a table is not in the plan, or the plan has a table that is not there.
    """
    unknown = sorted(set(plan) - {table.name for table in tables})
    if unknown:
        raise OptionError(f"the plan has tables {unknown}, which the collection has not; it has {sorted(weights)}.")
    names = get_embedding_names_by_table(tables)  # type: ignore[arg-type]
    found: dict[str, list[EmbeddingShardingInfo]] = {}
    for table, embedding_names in zip(tables, names, strict=True):
        if table.name not in plan:
            raise OptionError(f"the plan says nothing of table {table.name!r}; it has {sorted(plan)}.")
        sharding, param = plan[table.name], weights[table.name]
        if sharding.sharding_type == "data_parallel" and getattr(param, "_optimizer_classes", None):
            raise OptionError(
                f"table {table.name!r} is data parallel, and to be trained in the backward pass, where gradients of "
                "all processes are not there yet; train it by an optimizer outside, or spread it in another way."
            )
        options = merge_fused_params(fused_params, _optimizer_options(param))
        options = convert_to_fbgemm_types(add_params_from_parameter_sharding(options, sharding))
        config = EmbeddingTableConfig(
            **{one.name: getattr(table, one.name) for one in fields(BaseEmbeddingConfig)}
            | {"feature_names": list(table.feature_names)},
            pooling=getattr(table, "pooling", PoolingType.SUM) if pooled else PoolingType.NONE,
            is_weighted=is_weighted,
            has_feature_processor=has_feature_processor,
            embedding_names=embedding_names,
        )
        found.setdefault(sharding.sharding_type, []).append(EmbeddingShardingInfo(config, sharding, param, options))
    return found


class ShardedTables(ShardedEmbeddingModule[Any, Any, Any, Any], FusedOptimizerModule):
    """Tables of which each process has some parts.

    Parameters are `<tables_name>.<table>.weight`, of each table the part here; state dictionaries hold whole tables, as
    tensors of which each process has its part.

    Args:
        tables_name: of the dictionary of tables in the unsharded module.
        infos: tables by the way in which they are spread.
        env: the processes.
        device: of this one.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
        module_fqn: path of the module in the model.
        source: weights to begin with, by table; those on the meta device are filled anew.
    """

    def __init__(
        self,
        tables_name: str,
        infos: dict[str, list[EmbeddingShardingInfo]],
        env: ShardingEnv,
        device: torch.device | None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None,
        module_fqn: str | None,
        source: Mapping[str, Tensor],
    ) -> None:
        super().__init__(qcomm_codecs_registry)
        self._tables_name, self._module_fqn = tables_name, module_fqn
        self._env = env
        self._device = torch.device("cpu") if device is None else torch.device(device)
        self._sharding_infos = infos
        self._pg = env.sharding_pg if isinstance(env, ShardingEnv2D) else env.process_group
        plan = {info.embedding_config.name: info.param_sharding for of_kind in infos.values() for info in of_kind}
        check_same_plan(plan, self._pg, self._device)
        self._sharding_types = list(infos)
        self._embedding_shardings: list[EmbeddingSharding[Any, Any, Any, Any]] = [
            self._sharding_of(kind, of_kind) for kind, of_kind in infos.items()
        ]
        self._lookups = [sharding.create_lookup(self._device) for sharding in self._embedding_shardings]
        self._input_dists = []
        self._input_keys: list[str] | None = None
        self._output_dists = [sharding.create_output_dist(self._device) for sharding in self._embedding_shardings]
        self._register_tables()
        self._register_state_dict_hook(self._whole_tables)  # type: ignore[no-untyped-call]
        self._register_load_state_dict_pre_hook(self._parts_of_tables)  # type: ignore[no-untyped-call]
        self._take_over(source)

    def _sharding_of(self, kind: str, infos: list[EmbeddingShardingInfo]) -> EmbeddingSharding[Any, Any, Any, Any]:
        raise NotImplementedError

    @property
    def shardings(self) -> dict[str, Any]:
        """Each sharding, by its type."""
        return dict(zip(self._sharding_types, self._embedding_shardings, strict=True))

    # ----- parameters -------------------------------------------------------------------------------------------------

    def _kernels(self) -> Iterator[Any]:
        for lookup in self._lookups:
            lookup = lookup.module if isinstance(lookup, DistributedDataParallel) else lookup
            yield from lookup._emb_modules  # type: ignore[misc]

    def _register_tables(self) -> None:
        params: dict[str, nn.Parameter] = {}
        for kernel in self._kernels():
            for name, param in kernel.named_parameters_by_table():
                params[name] = param
        tables = nn.ModuleDict()
        for info in self._all_infos():
            name = info.embedding_config.name
            holder = nn.Module()
            absent = nn.Parameter(torch.empty(0, device=self._device, dtype=info.param.dtype))
            holder.register_parameter("weight", params.get(name, absent))
            tables[name] = holder
        setattr(self, self._tables_name, tables)

    def _all_infos(self) -> list[EmbeddingShardingInfo]:
        """Tables, as the unsharded module orders them."""
        infos = {info.embedding_config.name: info for of_kind in self._sharding_infos.values() for info in of_kind}
        order = getattr(self, "_table_order", list(infos))
        return [infos[name] for name in order]

    def _local_parts(self) -> dict[str, list[tuple[ShardedEmbeddingTable, Tensor]]]:
        """Of each table, its parts here."""
        parts: dict[str, list[tuple[ShardedEmbeddingTable, Tensor]]] = {}
        for kernel in self._kernels():
            weights = kernel.named_split_embedding_weights()
            for table, (_, weight) in zip(kernel.config.embedding_tables, weights, strict=True):
                parts.setdefault(table.name, []).append((table, weight))
        return parts

    @torch.no_grad()
    def _take_over(self, source: Mapping[str, Tensor]) -> None:
        for name, parts in self._local_parts().items():
            whole = source.get(name)
            if whole is None or whole.is_meta:
                continue
            for table, weight in parts:
                if not getattr(weight, "is_virtual", False):  # whose rows are made when their ids come up
                    weight.copy_(_cut(whole, table))

    def sharded_parameter_names(self, prefix: str = "") -> Iterator[str]:
        """Names of all tables, data-parallel ones as well, which train apart from other parameters."""
        for info in self._all_infos():
            name = f"{self._tables_name}.{info.embedding_config.name}.weight"
            yield f"{prefix}.{name}" if prefix else name

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Fill the tables anew, as their configurations say."""
        if self._device.type == "meta":
            return
        for kernel in self._kernels():
            kernel.init_parameters()

    def init_data_parallel(self) -> None:
        """Have gradients of data-parallel tables averaged over all processes."""
        if self._device.type == "meta":
            return
        for at, (kind, lookup) in enumerate(zip(self._sharding_types, self._lookups, strict=True)):
            if kind != "data_parallel" or isinstance(lookup, DistributedDataParallel) or self._pg is None:
                continue
            dense = [one for one in lookup._emb_modules if one.config.compute_kernel == EmbeddingComputeKernel.DENSE]  # type: ignore[union-attr]
            if not dense:
                continue
            self._lookups[at] = DistributedDataParallel(
                module=lookup,
                device_ids=[self._device] if self._device.type == "cuda" else None,
                process_group=self._env.process_group,
                gradient_as_bucket_view=True,
            )

    def create_rocksdb_hard_link_snapshot(self) -> None:
        """Keep tables in key-value stores as they are now, for a checkpoint to read; others are left alone."""
        for kernel in self._kernels():
            keep = getattr(kernel.emb_module, "create_rocksdb_hard_link_snapshot", None)
            if keep is not None:
                keep()

    # ----- optimizers -------------------------------------------------------------------------------------------------

    @property
    def fused_optimizer(self) -> KeyedOptimizer:
        """What kernels train their tables by."""
        optimizers: list[KeyedOptimizer | tuple[str, KeyedOptimizer]] = [
            (self._tables_name, kernel.fused_optimizer)
            for kernel in self._kernels()
            if isinstance(kernel, FusedOptimizerModule)
        ]
        return CombinedOptimizer(optimizers) if optimizers else EmptyFusedOptimizer()

    # ----- states -----------------------------------------------------------------------------------------------------

    def _whole_tables(self, module: nn.Module, destination: dict[str, Any], prefix: str, _: Any) -> None:
        """Replace parts by wholes in a state dictionary."""
        inside = f"{prefix}{self._tables_name}."
        for kernel in self._stored_kernels():
            kernel.state_dict(destination, inside)
        stored = {name for kernel in self._stored_kernels() for name in kernel.config.table_names()}
        for kind, of_kind in self._sharding_infos.items():
            if kind == "data_parallel" or self._pg is None:
                continue
            sharding = self.shardings[kind]
            for info in of_kind:
                key = f"{inside}{info.embedding_config.name}.weight"
                if key in destination and info.embedding_config.name not in stored:
                    destination[key] = self._whole(sharding, info, inside)

    def _whole(self, sharding: Any, info: EmbeddingShardingInfo, inside: str) -> Any:
        name = info.embedding_config.name
        mine = self._local_parts().get(name, [])
        if mine:
            made = get_state_dict([table for table, _ in mine], [weight for _, weight in mine], self._pg, None, inside)
            return made[f"{inside}{name}.weight"]
        whole = sharding._whole(info)
        if self._env.output_dtensor:
            from flambeau.rec.distributed.embedding_kernel import joined_shards
            from flambeau.rec.distributed.embedding_types import DTensorMetadata

            metadata = DTensorMetadata(sharding._mesh(), sharding._placements(), tuple(whole.size), (whole.size[1], 1))
            return joined_shards([], [], whole, self._pg, metadata)  # type: ignore[arg-type]
        return ShardedTensor._init_from_local_shards_and_global_metadata([], whole, process_group=self._pg)

    def _parts_of_tables(self, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
        """Replace wholes by the parts here, before a state is loaded."""
        parts = self._local_parts()
        stored = {name: kernel for kernel in self._stored_kernels() for name in kernel.config.table_names()}
        for info in self._all_infos():
            name = info.embedding_config.name
            key = f"{prefix}{self._tables_name}.{name}.weight"
            if key not in state_dict:
                continue
            mine = parts.get(name, [])
            if name in stored:
                self._load_stored(state_dict, f"{prefix}{self._tables_name}.{name}.", stored[name], mine)
                continue
            cut = [_cut(state_dict[key], table) for table, _ in mine]
            state_dict[key] = torch.cat(cut) if cut else torch.empty(0, dtype=info.param.dtype, device=self._device)

    def _stored_kernels(self) -> Iterator[Any]:
        """Those whose tables are on disk."""
        yield from (kernel for kernel in self._kernels() if hasattr(kernel, "load_rows"))

    @staticmethod
    def _load_stored(state_dict: dict[str, Any], key: str, kernel: Any, mine: list[tuple[Any, Any]]) -> None:
        """Write a table of a state to the disk; what is left of it is a parameter without elements."""
        whole = state_dict[f"{key}weight"]
        ids, _ = state_dict.pop(f"{key}weight_id", None), state_dict.pop(f"{key}bucket", None)
        if ids is None:
            for table, weight in mine:
                weight.copy_(_cut(whole, table))
        else:
            here = [one.local_shards()[0].tensor if isinstance(one, ShardedTensor) else one for one in (whole, ids)]
            kernel.load_rows(mine[0][0].name, *here)
        state_dict[f"{key}weight"] = torch.empty(0)

    # ----- features ---------------------------------------------------------------------------------------------------

    ids_of_tables: Mapping[str, int] = {}
    """Of tables that have more ids than rows, how many ids."""

    def _bounds(self) -> dict[str, list[Bound]]:
        """Of each sharding, the table of each feature that it is sent."""
        found = {}
        for kind, sharding in self.shardings.items():
            of_feature: dict[str, Bound] = {}
            for info in self._sharding_infos[kind]:
                config, mode = info.embedding_config, (info.fused_params or {}).get("bounds_check_mode")
                for feature in config.feature_names:
                    ids = self.ids_of_tables.get(config.name, config.num_embeddings)
                    bound = Bound(config.name, ids, mode)
                    before = of_feature.get(feature)
                    # A feature of several tables must fit all of them; the smallest is the first that it does not fit.
                    if before is None or before.rows > bound.rows:
                        of_feature[feature] = bound
            found[kind] = [of_feature[name] for name in sharding.feature_names()]
        return found

    def _init_input_dists(self, keys: Sequence[str]) -> None:
        """Learn the order of a batch's features; once, and again where another batch has another order."""
        if self._input_keys is not None and list(keys) == self._input_keys:
            return
        if self._input_keys is None:
            self._input_dists = [sharding.create_input_dist() for sharding in self._embedding_shardings]
        names = [sharding.feature_names() for sharding in self._embedding_shardings]
        places = {key: at for at, key in enumerate(keys)}
        missing = sorted({name for of_one in names for name in of_one if name not in places})
        if missing:
            raise OptionError(f"features {missing} are not in the batch, which has {list(keys)}.")
        order = [places[name] for of_one in names for name in of_one]
        self._feature_splits = [len(of_one) for of_one in names]
        self._features_order = [] if order == list(range(len(keys))) else order
        self.register_buffer(
            "_features_order_tensor",
            torch.tensor(self._features_order, device=self._device, dtype=torch.int32),
            persistent=False,
        )
        bounds = self._bounds()
        self._feature_bounds = [bound for kind in self._sharding_types for bound in bounds[kind]]
        self._input_keys = list(keys)

    def _ordered(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """Features of all shardings, one after another."""
        if not self._features_order:
            return features
        return features.permute(self._features_order, self._features_order_tensor)  # type: ignore[arg-type]


def _cut(whole: Any, table: ShardedEmbeddingTable) -> Tensor:
    """The part of a whole table that a process has."""
    place = table.local_metadata
    if isinstance(whole, ShardedTensor):
        for shard in whole.local_shards():
            if place is not None and shard.metadata.shard_offsets == place.shard_offsets:
                tensor: Tensor = shard.tensor
                if list(tensor.shape) == list(place.shard_sizes):
                    return tensor.detach()
        raise OptionError(
            f"the state has other parts of table {table.name!r} on this process than it should have; load it by "
            "torch.distributed.checkpoint, which moves them."
        )
    if isinstance(whole, DTensor):
        whole = whole._local_tensor
        shards = getattr(whole, "local_shards", None)
        if shards is not None and place is not None:
            for shard, offsets in zip(shards(), whole.local_offsets(), strict=True):
                if list(offsets) == list(place.shard_offsets):
                    return shard.detach()  # type: ignore[no-any-return]
    if place is None:
        return whole.detach()  # type: ignore[no-any-return]
    row, column = place.shard_offsets
    return whole.detach()[row : row + place.shard_sizes[0], column : column + place.shard_sizes[1]]  # type: ignore[no-any-return]
