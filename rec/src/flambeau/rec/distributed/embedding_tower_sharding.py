"""Towers over several hosts: each is on one host, which all others send their features to, and get results from.

What a tower makes of its embeddings is small beside them, so that less is sent between hosts than if these were
(Luo et al. 2024, "Disaggregated Multi-Tower", arXiv 2403.00877).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._shard.sharding_spec.api import EnumerableShardingSpec

from flambeau.core.errors import FlambeauError
from flambeau.rec.distributed._bounds import Bound, within_bounds
from flambeau.rec.distributed._data_parallel import with_own_buffers
from flambeau.rec.distributed.comm import get_local_size, intra_and_cross_node_pg
from flambeau.rec.distributed.dist_data import KJTAllToAll, PooledEmbeddingsAllToAll
from flambeau.rec.distributed.embedding import EmbeddingCollectionSharder, to_full_batch
from flambeau.rec.distributed.embedding_sharding import EmbeddingShardingContext, KJTListSplitsAwaitable
from flambeau.rec.distributed.embedding_types import BaseEmbeddingSharder, KJTList, ShardedEmbeddingModule
from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder, features_of
from flambeau.rec.distributed.sharding._spread import codecs_of
from flambeau.rec.distributed.types import (
    Awaitable,
    CommOp,
    EmbeddingModuleShardingPlan,
    LazyAwaitable,
    NullShardedModuleContext,
    ParameterSharding,
    QuantizedCommCodecs,
    ShardingEnv,
    ShardingType,
)
from flambeau.rec.distributed.utils import append_prefix, init_parameters
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from flambeau.rec.modules.embedding_tower import EmbeddingTower, EmbeddingTowerCollection
from flambeau.rec.optim.fused import FusedOptimizerModule
from flambeau.rec.optim.keyed import CombinedOptimizer, KeyedOptimizer
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor
from flambeau.rec.streamable import Multistreamable

__all__ = [
    "EmbeddingTowerCollectionContext",
    "EmbeddingTowerCollectionSharder",
    "EmbeddingTowerSharder",
    "ShardedEmbeddingTower",
    "ShardedEmbeddingTowerCollection",
    "TowerLazyAwaitable",
]

# How tables of a tower are spread over the processes of its host.
_WITHIN_HOST = {
    ShardingType.TABLE_ROW_WISE.value: ShardingType.ROW_WISE.value,
    ShardingType.TABLE_COLUMN_WISE.value: ShardingType.COLUMN_WISE.value,
}


class UnknownEmbeddingError(FlambeauError, RuntimeError, TypeError):
    """A tower whose embeddings no sharder knows."""


class TowerLazyAwaitable(LazyAwaitable[Tensor]):
    """What towers give for the local batch, under way.

    Args:
        awaitable: it.
    """

    def __init__(self, awaitable: Awaitable[Tensor]) -> None:
        super().__init__()
        self._awaitable = awaitable

    def _wait_impl(self) -> Tensor:
        return self._awaitable.wait()


class _TowerContext(NullShardedModuleContext):
    """How many examples come from each host."""

    sharding_contexts: list[EmbeddingShardingContext]

    def __init__(self) -> None:
        object.__setattr__(self, "sharding_contexts", [])


@dataclass
class EmbeddingTowerCollectionContext(Multistreamable):
    """What the stages of one batch share.

    Args:
        embedding_contexts: of each tower.
        sharding_contexts: of features and of weighted ones, how many examples come from each host.
    """

    embedding_contexts: list[NullShardedModuleContext] = field(default_factory=list)
    sharding_contexts: list[EmbeddingShardingContext] = field(default_factory=list)

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep their memory until `stream` is done with it."""
        for ctx in self.embedding_contexts:
            ctx.record_stream(stream)


# ----- hosts ----------------------------------------------------------------------------------------------------------


class _Hosts:
    """The processes of this one's host, and those at its place on others.

    Args:
        env: all processes.
        device: of this one.
    """

    def __init__(self, env: ShardingEnv, device: torch.device) -> None:
        intra, cross = intra_and_cross_node_pg(device)
        if intra is None or cross is None:
            raise OptionError("towers are on hosts, but the environment has no processes; give it a process group.")
        self.intra, self.cross = intra, cross
        self.local_size = min(get_local_size(env.world_size), env.world_size)
        self.count = env.world_size // self.local_size
        self.mine = dist.get_rank(cross)

    def of_plan(self, plan: Mapping[str, ParameterSharding], what: str) -> int:
        """The host of all tables in a plan."""
        found: dict[int, list[str]] = {}
        for name, sharding in plan.items():
            if sharding.sharding_type not in _WITHIN_HOST:
                raise OptionError(
                    f"table {name!r} is spread {sharding.sharding_type}; a tower is on one host, so that its tables "
                    f"are spread by one of {sorted(_WITHIN_HOST)}."
                )
            for rank in _ranks(name, sharding):
                found.setdefault(rank // self.local_size, []).append(name)
        if len(found) != 1:
            raise OptionError(
                f"tables of {what} are on hosts { ({host: sorted(set(names)) for host, names in found.items()}) }, "
                f"of {self.local_size} processes each; expected one host for all of them."
            )
        return next(iter(found))

    def within(self, plan: Mapping[str, ParameterSharding], host: int) -> EmbeddingModuleShardingPlan:
        """The plan as the processes of its host number themselves."""
        first = host * self.local_size
        # Placements stay those of all processes, which states are described by.
        made = {
            name: replace(
                sharding,
                sharding_type=_WITHIN_HOST[sharding.sharding_type],
                ranks=[rank - first for rank in _ranks(name, sharding)],
            )
            for name, sharding in plan.items()
        }
        return EmbeddingModuleShardingPlan(made)


def _ranks(name: str, sharding: ParameterSharding) -> list[int]:
    spec = sharding.sharding_spec
    if not isinstance(spec, EnumerableShardingSpec):
        raise OptionError(
            f"the sharding of table {name!r} does not say which rows and columns go where; give it an "
            "EnumerableShardingSpec, as construct_module_sharding_plan does."
        )
    return [shard.placement.rank() for shard in spec.shards]  # type: ignore[union-attr, misc]


# ----- features -------------------------------------------------------------------------------------------------------


def _bounds_of(embedding: nn.Module) -> dict[str, Bound]:
    """The smallest table of each feature."""
    found: dict[str, Bound] = {}
    for table in _tables_of(embedding):
        for feature in table.feature_names:
            before = found.get(feature)
            if before is None or table.num_embeddings < before.rows:
                found[feature] = Bound(table.name, table.num_embeddings, None)
    return found


def _tables_of(embedding: nn.Module) -> list[Any]:
    if isinstance(embedding, EmbeddingBagCollection):
        return list(embedding.embedding_bag_configs())
    if isinstance(embedding, EmbeddingCollection):
        return list(embedding.embedding_configs())
    raise UnknownEmbeddingError(
        f"the tower looks up by a {type(embedding).__name__}, which no sharder of towers knows; expected an "
        "EmbeddingBagCollection or an EmbeddingCollection."
    )


class _Features:
    """Sends features to the hosts of their towers.

    Args:
        hosts: the hosts.
        names: of each host, features in the order in which its towers want them; a feature of two towers comes twice.
        bounds: of each feature, its table.
    """

    def __init__(self, hosts: _Hosts, names: Sequence[Sequence[str]], bounds: Mapping[str, Bound]) -> None:
        self._names = [name for of_host in names for name in of_host]
        self._bounds = [bounds[name] for name in self._names]
        self._dist = KJTAllToAll(pg=hosts.cross, splits=[len(of_host) for of_host in names])

    @property
    def any(self) -> bool:
        """Whether there are features at all."""
        return bool(self._names)

    def send(self, features: Any, what: str) -> Awaitable[Awaitable[KeyedJaggedTensor]]:
        """Start to send."""
        if features is None:
            raise OptionError(f"{what} is None, but towers take features {self._names}.")
        features = features_of(features)
        places = {key: at for at, key in enumerate(features.keys())}
        missing = sorted(set(self._names) - set(places))
        if missing:
            raise OptionError(f"features {missing} are not in the batch, which has {features.keys()}.")
        with torch.no_grad():
            inverse = features.inverse_indices_or_none()
            ordered = features.permute([places[name] for name in self._names])
            ordered = within_bounds(ordered, self._bounds)
            if features.variable_stride_per_key():
                ordered = _full_batch(ordered, inverse)
            sent: Awaitable[Awaitable[KeyedJaggedTensor]] = self._dist(ordered)
        return sent


def _full_batch(features: KeyedJaggedTensor, inverse: tuple[list[str], Tensor] | None) -> KeyedJaggedTensor:
    """Features with batches of their own as what they stand for: interactions want examples of all features."""
    if inverse is None:
        raise OptionError(
            "features have batches of their own, and no inverse_indices say which of a feature's examples each example "
            "of the full batch has."
        )
    found = to_full_batch(features, inverse, True)
    weights = features.weights_or_none()
    return KeyedJaggedTensor(
        features.keys(),
        features.values()[found.recat],
        None if weights is None else weights[found.recat],
        lengths=found.reindexed_lengths.reshape(-1),
        stride=inverse[1].shape[1],
    )


# ----- towers ---------------------------------------------------------------------------------------------------------


class _Tower(nn.Module):
    """A tower on this process's host.

    Args:
        module: the tower.
        sharder: spreads its tables.
        plan: where they go, within the host.
        hosts: the hosts.
        device: of this process.
        static_graph: whether all parameters take part in each step.
    """

    def __init__(
        self,
        module: EmbeddingTower,
        sharder: BaseEmbeddingSharder[Any],
        plan: EmbeddingModuleShardingPlan,
        hosts: _Hosts,
        device: torch.device,
        *,
        static_graph: bool,
    ) -> None:
        super().__init__()
        self.embedding: Any = sharder.shard(module.embedding, plan, ShardingEnv.from_process_group(hosts.intra), device)
        init_parameters(module.interaction, device)
        self.interaction: nn.Module = module.interaction.to(device)
        self._wrapped = [_averaged(self.interaction, hosts.intra, device, static_graph)]

    def forward(self, *features: KeyedJaggedTensor) -> Tensor:
        """What it makes of the embeddings of features."""
        embeddings = LazyAwaitable._wait_async(self.embedding(*features))
        result: Tensor = self._wrapped[0](embeddings)
        return result


def _averaged(interaction: nn.Module, pg: dist.ProcessGroup, device: torch.device, static_graph: bool) -> nn.Module:
    """The module, with gradients averaged over a host; no submodule, so that names stay those of the module."""
    if not any(param.requires_grad for param in interaction.parameters()):
        return interaction
    return with_own_buffers(
        interaction,
        device_ids=[device] if device.type == "cuda" else None,
        process_group=pg,
        gradient_as_bucket_view=True,
        static_graph=static_graph,
    )


class _Results:
    """Sends what towers give back to the hosts that asked for it.

    Args:
        hosts: the hosts.
        device: of this process.
        codecs: of what is sent.
        order: of the columns of each tower, by host, which of them each tower of the result has; as they come by
            default.
    """

    def __init__(
        self,
        hosts: _Hosts,
        device: torch.device,
        codecs: QuantizedCommCodecs | None,
        order: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self._hosts, self._device, self._codecs, self._order = hosts, device, codecs, order
        self._dist: PooledEmbeddingsAllToAll | None = None

    def send(self, output: Tensor, widths: Sequence[int], batch_sizes: Sequence[int]) -> Awaitable[Tensor]:
        """Start to send.

        Args:
            output: (examples of all hosts, columns of this host's towers).
            widths: columns of each tower here; known to other hosts after the first batch.
            batch_sizes: examples of each host.
        """
        if self._dist is None:
            self._dist = self._made(list(widths))
        sent: Awaitable[Tensor] = self._dist(output, batch_size_per_rank=list(batch_sizes))
        return sent

    def _made(self, widths: list[int]) -> PooledEmbeddingsAllToAll:
        found: list[Any] = [None] * self._hosts.count
        dist.all_gather_object(found, widths, group=self._hosts.cross)
        return PooledEmbeddingsAllToAll(
            self._hosts.cross,
            [sum(of_host) for of_host in found],
            self._device,
            self._callbacks(found),
            self._codecs,
        )

    def _callbacks(self, widths: list[list[int]]) -> list[Callable[[Tensor], Tensor]] | None:
        if self._order is None:
            return None
        # By number of the tower: where its columns come.
        places: dict[int, tuple[int, int]] = {}
        begin = 0
        for numbers, of_host in zip(self._order, widths, strict=True):
            for number, width in zip(numbers, of_host, strict=True):
                places[number] = (begin, width)
                begin += width
        cuts = [places[number] for number in sorted(places)]
        if [begin for begin, _ in cuts] == sorted(begin for begin, _ in cuts):
            return None
        return [lambda whole: torch.cat([whole.narrow(1, begin, width) for begin, width in cuts], dim=1)]


def _batch_sizes(contexts: Sequence[EmbeddingShardingContext], hosts: _Hosts) -> list[int]:
    """Examples of each host."""
    sizes = [list(ctx.batch_size_per_rank) for ctx in contexts]
    if any(one != sizes[0] for one in sizes):
        raise OptionError(
            f"features and weighted features have batches of {sizes} examples of each host; expected the same of both."
        )
    assert len(sizes[0]) == hosts.count
    return sizes[0]


class _ShardedTowers(ShardedEmbeddingModule[KJTList, Tensor, Tensor, Any], FusedOptimizerModule):
    """What one tower and several have in common."""

    def _init(
        self,
        hosts: _Hosts,
        device: torch.device,
        order: Sequence[Sequence[int]] | None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None,
    ) -> None:
        self._hosts, self._device = hosts, device
        codecs = codecs_of(qcomm_codecs_registry, CommOp.POOLED_EMBEDDINGS_ALL_TO_ALL)
        self._results = _Results(hosts, device, codecs, order)
        self._register_load_state_dict_pre_hook(self._leave_others_out)  # type: ignore[no-untyped-call]

    def _here(self) -> dict[str, Any]:
        """Towers on this process's host, by where they are in this module."""
        raise NotImplementedError

    def _elsewhere(self) -> list[str]:
        """Where towers on other hosts would be."""
        raise NotImplementedError

    def _leave_others_out(self, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
        """Before a state is loaded, leave towers of other hosts out."""
        for path in self._elsewhere():
            for name in [name for name in state_dict if name.startswith(f"{prefix}{path}")]:
                del state_dict[name]

    def _start(self, ctx: Any, given: Sequence[tuple[_Features, Any, str]]) -> Awaitable[Awaitable[KJTList]]:
        awaitables = [one.send(features, what) for one, features, what in given if one.any]
        ctx.sharding_contexts.extend(EmbeddingShardingContext() for _ in awaitables)
        return KJTListSplitsAwaitable(awaitables, ctx)

    def _finish(self, ctx: Any, output: Tensor, widths: Sequence[int]) -> LazyAwaitable[Tensor]:
        sizes = _batch_sizes(ctx.sharding_contexts, self._hosts)
        return TowerLazyAwaitable(self._results.send(output, widths, sizes))

    def _nothing(self, dist_input: KJTList) -> Tensor:
        """What a host without towers gives."""
        examples = dist_input[0].stride() if len(dist_input) else 0
        return torch.empty(examples, 0, device=self._device, requires_grad=True)

    def sharded_parameter_names(self, prefix: str = "") -> Iterator[str]:
        """Names of all parameters here: those of interactions are on the processes of one host only."""
        for path, tower in self._here().items():
            inside = append_prefix(prefix, path)
            yield from tower.embedding.sharded_parameter_names(append_prefix(inside, "embedding"))
            for name, _ in tower.interaction.named_parameters(append_prefix(inside, "interaction")):
                yield name

    def prefetch(self, dist_input: KJTList, forward_stream: torch.Stream | None = None, ctx: Any | None = None) -> None:
        """Nothing: tables are looked up once features were sent within the host, too."""


class ShardedEmbeddingTower(_ShardedTowers):
    """An `EmbeddingTower` on one of several hosts, its tables spread over the processes of that host.

    On other hosts it has neither parameters nor a state.

    Args:
        module: the tower; where its tables have values, they are kept.
        table_name_to_parameter_sharding: where each table goes: "table_row_wise" or "table_column_wise".
        embedding_sharder: spreads its tables.
        kjt_features: features that it takes.
        wkjt_features: weighted features that it takes.
        env: the processes.
        fused_params: options of kernels, which `embedding_sharder` has.
        device: of this process.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.

    Raises:
        OptionError: tables that are spread in another way, or are on several hosts.
    """

    def __init__(
        self,
        module: EmbeddingTower,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        embedding_sharder: BaseEmbeddingSharder[Any],
        kjt_features: list[str],
        wkjt_features: list[str],
        env: ShardingEnv,
        fused_params: dict[str, Any] | None = None,
        device: torch.device | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__(qcomm_codecs_registry)
        here = torch.device("cpu") if device is None else torch.device(device)
        hosts = _Hosts(env, here)
        self._init(hosts, here, None, qcomm_codecs_registry)
        self._tower_node = hosts.of_plan(table_name_to_parameter_sharding, "a tower")
        self._active_device = hosts.mine == self._tower_node
        self._kjt_feature_names, self._wkjt_feature_names = kjt_features, wkjt_features
        bounds = _bounds_of(module.embedding)

        def features(names: list[str]) -> _Features:
            return _Features(hosts, [names if host == self._tower_node else [] for host in range(hosts.count)], bounds)

        self._plain, self._weighted = features(kjt_features), features(wkjt_features)
        self.embedding: Any = None
        self.interaction: nn.Module | None = None
        self._tower: list[_Tower] = []
        if self._active_device:
            plan = hosts.within(table_name_to_parameter_sharding, self._tower_node)
            tower = _Tower(module, embedding_sharder, plan, hosts, here, static_graph=False)
            self.embedding, self.interaction = tower.embedding, tower.interaction
            self._tower = [tower]  # no submodule: its modules are this one's
            self._lookups = tower.embedding._lookups

    def _here(self) -> dict[str, Any]:
        return {"": self._tower[0]} if self._tower else {}

    def _elsewhere(self) -> list[str]:
        return [] if self._tower else ["embedding.", "interaction."]

    def create_context(self) -> NullShardedModuleContext:
        """What the stages of one batch share."""
        return _TowerContext()

    def input_dist(
        self, ctx: Any, features: KeyedJaggedTensor, optional_features: KeyedJaggedTensor | None = None
    ) -> Awaitable[Awaitable[KJTList]]:
        """Start to send features to the tower's host.

        Args:
            ctx: of the batch.
            features: that the tower takes; weighted ones where it takes only those.
            optional_features: weighted ones, where it takes both.

        Raises:
            IdOutOfBoundsError: an id that its table has no row for, with the feature's name.
            OptionError: a feature is missing.
        """
        weighted = optional_features if self._plain.any else features
        return self._start(ctx, [(self._plain, features, "features"), (self._weighted, weighted, "optional_features")])

    def compute(self, ctx: Any, dist_input: KJTList) -> Tensor:
        """On the tower's host, compute it for examples of all hosts."""
        return self._tower[0](*dist_input) if self._tower else self._nothing(dist_input)

    def output_dist(self, ctx: Any, output: Tensor) -> LazyAwaitable[Tensor]:
        """Start to send results back."""
        return self._finish(ctx, output, [output.shape[1]] if self._tower else [])

    @property
    def fused_optimizer(self) -> KeyedOptimizer:
        """What kernels train tables by. Upstream: its names are those of the tower's embeddings."""
        return CombinedOptimizer([self.embedding.fused_optimizer] if self._tower else [])

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """`EmbeddingTower`."""
        return EmbeddingTower


class ShardedEmbeddingTowerCollection(_ShardedTowers):
    """An `EmbeddingTowerCollection` of which each tower is on one of several hosts.

    A process has parameters and the state of the towers on its host. Columns of results come in the order of towers.

    Args:
        module: the towers; where their tables have values, they are kept.
        table_name_to_parameter_sharding: where each table goes: "table_row_wise" or "table_column_wise".
        tower_sharder: knows how each tower's tables are spread.
        env: the processes.
        fused_params: options of kernels, which `tower_sharder` has.
        device: of this process.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.

    Raises:
        OptionError: tables that are spread in another way, or tables of a tower on several hosts.
    """

    def __init__(
        self,
        module: EmbeddingTowerCollection,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        tower_sharder: BaseEmbeddingSharder[EmbeddingTower],
        env: ShardingEnv,
        fused_params: dict[str, Any] | None = None,
        device: torch.device | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__(qcomm_codecs_registry)
        here = torch.device("cpu") if device is None else torch.device(device)
        hosts = _Hosts(env, here)
        assert isinstance(tower_sharder, EmbeddingTowerSharder)
        towers: list[EmbeddingTower] = list(module.towers)  # type: ignore[arg-type]
        plans, of_hosts = self._plans(towers, table_name_to_parameter_sharding, hosts)
        self._init(hosts, here, of_hosts, qcomm_codecs_registry)
        names = [tower_sharder.embedding_feature_names(tower) for tower in towers]
        bounds = [_bounds_of(tower.embedding) for tower in towers]
        self._is_weighted = {number: (bool(plain), bool(weighted)) for number, (plain, weighted) in enumerate(names)}
        self._counts = {number: (len(plain), len(weighted)) for number, (plain, weighted) in enumerate(names)}
        self._plain, self._weighted = (
            _Features(
                hosts,
                [[name for number in numbers for name in names[number][kind]] for numbers in of_hosts],
                _smallest(
                    [{name: bounds[number][name] for name in names[number][kind]} for number in range(len(names))]
                ),
            )
            for kind in (0, 1)
        )
        self._mine = of_hosts[hosts.mine]
        self._count = len(towers)
        self.towers = nn.ModuleDict(
            {
                str(number): _Tower(
                    towers[number],
                    tower_sharder.embedding_sharder(towers[number]),
                    hosts.within(plans[number], hosts.mine),
                    hosts,
                    here,
                    static_graph=True,
                )
                for number in self._mine
            }
        )
        self._lookups = [lookup for tower in self.towers.values() for lookup in tower.embedding._lookups]  # type: ignore[union-attr]

    @staticmethod
    def _plans(
        towers: Sequence[EmbeddingTower], plan: Mapping[str, ParameterSharding], hosts: _Hosts
    ) -> tuple[list[dict[str, ParameterSharding]], list[list[int]]]:
        """The plan of each tower, and the towers of each host."""
        plans: list[dict[str, ParameterSharding]] = []
        of_hosts: list[list[int]] = [[] for _ in range(hosts.count)]
        for number, tower in enumerate(towers):
            tables = [table.name for table in _tables_of(tower.embedding)]
            missing = [name for name in tables if name not in plan]
            if missing:
                raise OptionError(
                    f"the plan says nothing of tables {missing} of tower {number}; it has {sorted(plan)}."
                )
            plans.append({name: plan[name] for name in tables})
            of_hosts[hosts.of_plan(plans[-1], f"tower {number}")].append(number)
        return plans, of_hosts

    def _here(self) -> dict[str, Any]:
        return {f"towers.{name}": tower for name, tower in self.towers.items()}

    def _elsewhere(self) -> list[str]:
        return [f"towers.{number}." for number in range(self._count) if number not in self._mine]

    def create_context(self) -> EmbeddingTowerCollectionContext:
        """What the stages of one batch share."""
        return EmbeddingTowerCollectionContext()

    def input_dist(
        self,
        ctx: EmbeddingTowerCollectionContext,
        kjt_features: KeyedJaggedTensor | None = None,
        wkjt_features: KeyedJaggedTensor | None = None,
    ) -> Awaitable[Awaitable[KJTList]]:
        """Start to send features to the towers' hosts.

        Args:
            ctx: of the batch.
            kjt_features: for towers that take features.
            wkjt_features: for towers that take weighted ones.

        Raises:
            IdOutOfBoundsError: an id that its table has no row for, with the feature's name.
            OptionError: features are missing.
        """
        return self._start(
            ctx, [(self._plain, kjt_features, "kjt_features"), (self._weighted, wkjt_features, "wkjt_features")]
        )

    def compute(self, ctx: EmbeddingTowerCollectionContext, dist_input: KJTList) -> Tensor:
        """Compute the towers of this process's host for examples of all hosts."""
        if not self._mine:
            self._widths: list[int] = []
            return self._nothing(dist_input)
        given = iter(dist_input)
        plain = next(given).split([self._counts[number][0] for number in self._mine]) if self._plain.any else []
        weighted = next(given).split([self._counts[number][1] for number in self._mine]) if self._weighted.any else []
        outputs = []
        for at, number in enumerate(self._mine):
            takes = self._is_weighted[number]
            features = [kind[at] for kind, taken in zip((plain, weighted), takes, strict=True) if taken]
            outputs.append(self.towers[str(number)](*features))
        self._widths = [output.shape[1] for output in outputs]
        return torch.cat(outputs, dim=1)

    def output_dist(self, ctx: EmbeddingTowerCollectionContext, output: Tensor) -> LazyAwaitable[Tensor]:
        """Start to send results back."""
        return self._finish(ctx, output, self._widths)

    @property
    def fused_optimizer(self) -> KeyedOptimizer:
        """What kernels train tables by."""
        return CombinedOptimizer(
            [(f"{path}.embedding", tower.embedding.fused_optimizer) for path, tower in self._here().items()]
        )

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """`EmbeddingTowerCollection`."""
        return EmbeddingTowerCollection


def _smallest(bounds: Sequence[Mapping[str, Bound]]) -> dict[str, Bound]:
    found: dict[str, Bound] = {}
    for of_tower in bounds:
        for name, bound in of_tower.items():
            if name not in found or bound.rows < found[name].rows:
                found[name] = bound
    return found


# ----- sharders -------------------------------------------------------------------------------------------------------


def _types(compute_device_type: str) -> list[str]:
    return [ShardingType.TABLE_ROW_WISE.value, ShardingType.TABLE_COLUMN_WISE.value]


class EmbeddingTowerSharder(BaseEmbeddingSharder[EmbeddingTower]):
    """Puts `EmbeddingTower` on a host.

    Args:
        fused_params: options of the kernels.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
        sharded_module_order_overwrite: the order in which groups of tables are looked up.
    """

    def shard(
        self,
        module: EmbeddingTower,
        params: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedEmbeddingTower:
        """The sharded tower; see `ModuleSharder.shard`."""
        plain, weighted = self.embedding_feature_names(module)
        return ShardedEmbeddingTower(
            module,
            params,
            self.embedding_sharder(module),
            plain,
            weighted,
            env,
            self.fused_params,
            device,
            self.qcomm_codecs_registry,
        )

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """The ways in which tables are spread over the processes of a host."""
        return _types(compute_device_type)

    def shardable_parameters(self, module: EmbeddingTower) -> dict[str, nn.Parameter]:
        """The tables, by name."""
        return self.embedding_sharder(module).shardable_parameters(module.embedding)

    @property
    def module_type(self) -> type[EmbeddingTower]:
        """`EmbeddingTower`."""
        return EmbeddingTower

    def embedding_sharder(self, module: EmbeddingTower) -> BaseEmbeddingSharder[Any]:
        """What spreads the tables of a tower.

        Raises:
            RuntimeError: the tower looks up neither by an `EmbeddingBagCollection` nor by an `EmbeddingCollection`.
        """
        _tables_of(module.embedding)
        if isinstance(module.embedding, EmbeddingBagCollection):
            return EmbeddingBagCollectionSharder(self.fused_params, self.qcomm_codecs_registry)
        return EmbeddingCollectionSharder(self.fused_params, self.qcomm_codecs_registry)

    def embedding_feature_names(self, module: EmbeddingTower) -> tuple[list[str], list[str]]:
        """Features that a tower takes, and weighted ones.

        Raises:
            RuntimeError: the tower looks up neither by an `EmbeddingBagCollection` nor by an `EmbeddingCollection`.
        """
        names = [name for table in _tables_of(module.embedding) for name in table.feature_names]
        names = list(dict.fromkeys(names))
        if isinstance(module.embedding, EmbeddingBagCollection) and module.embedding.is_weighted():
            return [], names
        return names, []


class EmbeddingTowerCollectionSharder(BaseEmbeddingSharder[EmbeddingTowerCollection]):
    """Puts each tower of `EmbeddingTowerCollection` on a host.

    Args:
        fused_params: options of the kernels.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    def __init__(
        self,
        fused_params: dict[str, Any] | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__(fused_params, qcomm_codecs_registry)
        self._tower_sharder = EmbeddingTowerSharder(fused_params, qcomm_codecs_registry)

    def shard(
        self,
        module: EmbeddingTowerCollection,
        params: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedEmbeddingTowerCollection:
        """The sharded towers; see `ModuleSharder.shard`."""
        return ShardedEmbeddingTowerCollection(
            module, params, self._tower_sharder, env, self.fused_params, device, self.qcomm_codecs_registry
        )

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """The ways in which tables are spread over the processes of a host."""
        return _types(compute_device_type)

    def shardable_parameters(self, module: EmbeddingTowerCollection) -> dict[str, nn.Parameter]:
        """The tables of all towers, by name."""
        found: dict[str, nn.Parameter] = {}
        for tower in module.towers:
            assert isinstance(tower, EmbeddingTower)
            found |= self._tower_sharder.shardable_parameters(tower)
        return found

    @property
    def module_type(self) -> type[EmbeddingTowerCollection]:
        """`EmbeddingTowerCollection`."""
        return EmbeddingTowerCollection
