"""Tables that move to other processes while a model lives: what changes between plans, and the messages that move them.

`DistributedModelParallel.reshard` moves tables between any plans by itself; here are the steps, for those who put
together their own. A step works on state dictionaries before and after, whose tensors are spread over all processes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, unique
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharded_tensor import Shard, ShardedTensor  # type: ignore[attr-defined]

from flambeau.rec.distributed._failures import waited_for
from flambeau.rec.distributed.comm import get_local_size
from flambeau.rec.distributed.embedding_sharding import EmbeddingShardingInfo
from flambeau.rec.distributed.types import EmbeddingModuleShardingPlan, ParameterSharding, ShardedModule, ShardingEnv
from flambeau.rec.errors import OptionError

__all__ = [
    "MAX_TAG_HASH_VALUE",
    "CommP2PMetadata",
    "CommStrategy",
    "move_sharded_tensors_to_cpu",
    "output_sharding_plan_delta_single",
    "output_sharding_plans_delta",
    "prepare_comm_ops",
    "transfer_data",
    "update_module_sharding_plan",
    "update_state_dictionaries",
]

MAX_TAG_HASH_VALUE = 2**31 - 1

OptimizerState = dict[str, dict[str, dict[str, Any]]]


@unique
class CommStrategy(Enum):
    """Messages by what they carry, and by whether they leave the host."""

    STATE_INTER_NODE_COMM = "state_inter_node_comm"
    STATE_INTRA_NODE_COMM = "state_intra_node_comm"
    OPT_INTER_NODE_COMM = "opt_inter_node_comm"
    OPT_INTRA_NODE_COMM = "opt_intra_node_comm"


@dataclass
class CommP2PMetadata:
    """One message.

    Args:
        shard_name: the table, or the state of an optimizer.
        offsets: where the part lies in the whole.
        comm_op: to send it, or to receive it.
        requires_copy: whether it is received beside its place, and has to be copied there.
        is_optimizer_state: whether it is the state of an optimizer.
    """

    shard_name: str
    offsets: list[int]
    comm_op: dist.P2POp
    requires_copy: bool
    is_optimizer_state: bool


# ----- plans ----------------------------------------------------------------------------------------------------------


def _shards(sharding: ParameterSharding) -> list[ShardMetadata]:
    return list(getattr(sharding.sharding_spec, "shards", None) or [])


def _facts(sharding: ParameterSharding) -> Any:
    places = [(list(one.shard_offsets), list(one.shard_sizes), str(one.placement)) for one in _shards(sharding)]
    return sharding.sharding_type, sharding.compute_kernel, sharding.ranks, places


def _megabytes(sharding: ParameterSharding) -> float:
    # Upstream: numbers of 4 bytes, whatever the table has.
    return sum(one.shard_sizes[0] * one.shard_sizes[1] * 4 for one in _shards(sharding)) / 1024**2


def output_sharding_plan_delta_single(
    old_plan: EmbeddingModuleShardingPlan, new_plan: EmbeddingModuleShardingPlan, return_data_volume: bool = False
) -> tuple[float, EmbeddingModuleShardingPlan]:
    """Which tables of a module go elsewhere.

    Args:
        old_plan: where they are.
        new_plan: where they go.
        return_data_volume: whether to say how much that moves.

    Returns:
        MiB of the tables that move, or 0; where those go.

    Raises:
        OptionError: plans of different tables.
    """
    if set(old_plan) != set(new_plan):
        raise OptionError(
            f"the old plan has tables {sorted(old_plan)}, and the new one {sorted(new_plan)}; expected the same."
        )
    changed = EmbeddingModuleShardingPlan(
        {name: one for name, one in new_plan.items() if _facts(one) != _facts(old_plan[name])}
    )
    volume = sum(_megabytes(one) for one in changed.values()) if return_data_volume else 0
    return volume, changed


def output_sharding_plans_delta(
    old_plan: dict[str, EmbeddingModuleShardingPlan],
    new_plan: dict[str, EmbeddingModuleShardingPlan],
    return_data_volume: bool = False,
) -> dict[str, tuple[float, EmbeddingModuleShardingPlan]]:
    """The same for all modules of a model, by path, as `DistributedModelParallel.reshard` takes it.

    Raises:
        OptionError: a module without a new plan, or plans of different tables.
    """
    missing = sorted(set(old_plan) - set(new_plan))
    if missing:
        raise OptionError(f"the new plan says nothing of modules {missing}; it has {sorted(new_plan)}.")
    return {
        path: output_sharding_plan_delta_single(one, new_plan[path], return_data_volume)
        for path, one in old_plan.items()
    }


def update_module_sharding_plan(
    module: ShardedModule[Any, Any, Any, Any],
    changed_sharding_params: dict[str, ParameterSharding],
    sharding_type_to_sharding_infos: dict[str, list[EmbeddingShardingInfo]],
) -> None:
    """Note where tables are now, in the plan of a module and in what it says of them.

    Args:
        module: with a `module_sharding_plan`.
        changed_sharding_params: where tables are that went elsewhere.
        sharding_type_to_sharding_infos: what is known of its tables, by the way in which they are spread; changed in
            place.

    Raises:
        OptionError: the module has no plan, or no such table.
    """
    plan = getattr(module, "module_sharding_plan", None)
    if plan is None:
        raise OptionError(f"{type(module).__name__} has no module_sharding_plan, which tables could be noted in.")
    unknown = sorted(set(changed_sharding_params) - set(plan))
    if unknown:
        raise OptionError(f"tables {unknown} are not in the plan of {type(module).__name__}, which has {sorted(plan)}.")
    for name, sharding in changed_sharding_params.items():
        plan[name] = sharding
        for kind, infos in list(sharding_type_to_sharding_infos.items()):
            for info in [one for one in infos if one.embedding_config.name == name]:
                info.param_sharding = sharding
                if kind != sharding.sharding_type:
                    infos.remove(info)
                    sharding_type_to_sharding_infos.setdefault(sharding.sharding_type, []).append(info)
            if not infos:
                del sharding_type_to_sharding_infos[kind]


# ----- states ---------------------------------------------------------------------------------------------------------


def move_sharded_tensors_to_cpu(state_dict: dict[str, Any]) -> dict[str, Any]:
    """A state whose parts here are on the CPU, to make room for new tables; other values are kept as they are.

    Args:
        state_dict: of a sharded module.
    """
    found = {}
    for name, value in state_dict.items():
        if isinstance(value, ShardedTensor):
            shards = [Shard(one.tensor.detach().cpu(), one.metadata) for one in value.local_shards()]
            value = ShardedTensor._init_from_local_shards_and_global_metadata(
                shards, value.metadata(), process_group=value._process_group
            )
        elif isinstance(value, Tensor):
            value = value.detach().cpu()
        found[name] = value
    return found


@dataclass
class _Piece:
    """What two parts of a tensor share."""

    sender: int
    receiver: int
    source: ShardMetadata
    target: ShardMetadata
    offsets: list[int]
    sizes: list[int]

    def within(self, tensor: Tensor, place: ShardMetadata) -> Tensor:
        # What is kept for each row has no columns.
        for dim in range(tensor.dim()):
            tensor = tensor.narrow(dim, self.offsets[dim] - place.shard_offsets[dim], self.sizes[dim])
        return tensor


def _rank(place: ShardMetadata) -> int:
    if place.placement is None or place.placement.rank() is None:
        raise OptionError(f"a part at {place.shard_offsets} has no process; expected a placement such as 'rank:0/cpu'.")
    return int(place.placement.rank())  # type: ignore[arg-type]


def _places(whole: ShardedTensor) -> list[ShardMetadata]:
    return list(whole.metadata().shards_metadata)


def _pieces(sources: list[ShardMetadata], targets: list[ShardMetadata], *, of_rows: bool) -> Iterator[_Piece]:
    """All pieces of a table on their way, in an order that all processes agree on.

    Args:
        sources: where its parts are.
        targets: where they go.
        of_rows: whether it is of what is kept for each row, which parts of the same rows have alike.
    """
    for target in targets:
        seen: set[int] = set()
        for source in sources:
            pairs = list(zip(source.shard_offsets, target.shard_offsets, strict=True))
            first = [max(one, other) for one, other in pairs]
            last = [
                min(a + b, c + d)
                for a, b, c, d in zip(
                    source.shard_offsets, source.shard_sizes, target.shard_offsets, target.shard_sizes, strict=True
                )
            ]
            sizes = [end - begin for begin, end in zip(first, last, strict=True)]
            if min(sizes) <= 0 or (of_rows and first[0] in seen):
                continue
            seen.add(first[0])
            yield _Piece(_rank(source), _rank(target), source, target, first, sizes)


def _local(tensor: ShardedTensor | None, places: list[ShardMetadata], place: ShardMetadata) -> Tensor:
    """The part of this process that lies at a place of the table; states have theirs in the order of the table's."""
    mine = [one.shard_offsets for one in places if _rank(one) == dist.get_rank()]
    shards = [] if tensor is None else tensor.local_shards()
    if len(shards) != len(mine):
        raise OptionError(f"this process has {len(shards)} parts, where the plan says that it has those at {mine}.")
    found: Tensor = shards[mine.index(place.shard_offsets)].tensor
    return found


def _tag(name: str, offsets: list[int]) -> int:
    # The same on all processes, which Python's own hashes of texts are not.
    return zlib.crc32(f"{name}{offsets}".encode()) % MAX_TAG_HASH_VALUE


@dataclass
class _Move:
    """A tensor before and after; of an optimizer's state, either is there only on processes that have parts of it."""

    name: str
    old: ShardedTensor | None
    new: ShardedTensor | None
    sources: list[ShardMetadata]
    targets: list[ShardMetadata]
    is_optimizer_state: bool

    def pieces(self) -> Iterator[_Piece]:
        some = self.new if self.old is None else self.old
        yield from _pieces(self.sources, self.targets, of_rows=some is not None and len(some.size()) == 1)

    def before(self, piece: _Piece) -> Tensor:
        return piece.within(_local(self.old, self.sources, piece.source), piece.source).detach()

    def after(self, piece: _Piece) -> Tensor:
        return piece.within(_local(self.new, self.targets, piece.target), piece.target).detach()


def _moves(
    name: str, key: str, old: ShardedTensor, new: ShardedTensor, states: tuple[OptimizerState | None, ...]
) -> Iterator[_Move]:
    """A table, and what optimizers keep of it."""
    sources, targets = _places(old), _places(new)
    yield _Move(name, old, new, sources, targets, False)
    before, after = ((one or {}).get("state", {}).get(key, {}) for one in states)
    for state in sorted(set(before) | set(after)):
        kept = before.get(state), after.get(state)
        if all(one is None or isinstance(one, ShardedTensor) for one in kept):
            yield _Move(state, *kept, sources, targets, True)


def _messages(move: _Move, env: ShardingEnv) -> Iterator[tuple[CommStrategy, CommP2PMetadata]]:
    me, size = dist.get_rank(), get_local_size()
    for piece in move.pieces():
        if piece.sender == piece.receiver or me not in (piece.sender, piece.receiver):
            continue
        within = piece.sender // size == piece.receiver // size
        kind = "OPT" if move.is_optimizer_state else "STATE"
        strategy = CommStrategy[f"{kind}_{'INTRA' if within else 'INTER'}_NODE_COMM"]
        tag = _tag(move.name, piece.offsets)
        if me == piece.sender:
            op = dist.P2POp(dist.isend, move.before(piece).contiguous(), piece.receiver, env.process_group, tag)
            yield strategy, CommP2PMetadata(move.name, piece.offsets, op, False, move.is_optimizer_state)
            continue
        part = move.after(piece)
        copied = not part.is_contiguous()
        buffer = part.new_empty(part.shape) if copied else part
        op = dist.P2POp(dist.irecv, buffer, piece.sender, env.process_group, tag)
        yield strategy, CommP2PMetadata(move.name, piece.offsets, op, copied, move.is_optimizer_state)


def prepare_comm_ops(
    module_sharding_plan: EmbeddingModuleShardingPlan,
    current_state_dict: dict[str, ShardedTensor],
    new_state_dict: dict[str, ShardedTensor],
    changed_sharding_params: dict[str, ParameterSharding],
    shard_name: str,
    env: ShardingEnv,
    extend_shard_name: Callable[[str], str] = lambda name: name,
    current_opt_state: OptimizerState | None = None,
    new_opt_state: OptimizerState | None = None,
    has_optimizer: bool = False,
) -> dict[CommStrategy, list[CommP2PMetadata]]:
    """The messages of this process that move a table; all processes call this for the same tables in the same order.

    Args:
        module_sharding_plan: where the tables are.
        current_state_dict: their state.
        new_state_dict: the state of a module of the new plan, which is written to.
        changed_sharding_params: where tables go.
        shard_name: the table.
        env: the processes.
        extend_shard_name: gives the name of a table's parameter.
        current_opt_state: of the optimizers of the tables.
        new_opt_state: of those of the new module, which is written to.
        has_optimizer: whether they are moved as well.

    Raises:
        OptionError: a table that is not in the plans or states, or that is not spread.
    """
    key = extend_shard_name(shard_name)
    for what, names, name in (
        ("module_sharding_plan", module_sharding_plan, shard_name),
        ("changed_sharding_params", changed_sharding_params, shard_name),
        ("current_state_dict", current_state_dict, key),
        ("new_state_dict", new_state_dict, key),
    ):
        if name not in names:
            raise OptionError(f"{what} has no {name!r}; it has {sorted(names)}.")
    old: Any = current_state_dict[key]
    new: Any = new_state_dict[key]
    if not isinstance(old, ShardedTensor) or not isinstance(new, ShardedTensor):
        raise OptionError(f"{key!r} is a {type(old).__name__} and a {type(new).__name__}, expected ShardedTensors.")
    found: dict[CommStrategy, list[CommP2PMetadata]] = {strategy: [] for strategy in CommStrategy}
    states = (current_opt_state, new_opt_state) if has_optimizer else (None, None)
    for move in _moves(shard_name, key, old, new, states):
        for strategy, message in _messages(move, env):
            found[strategy].append(message)
    return found


def transfer_data(
    comms_op: dict[CommStrategy, list[CommP2PMetadata]],
) -> list[tuple[dist.Work, CommP2PMetadata]]:
    """Start to send and receive.

    Args:
        comms_op: messages; all processes give those of the same tables.

    Returns:
        Each message with what it is waited for by.
    """
    found: list[tuple[dist.Work, CommP2PMetadata]] = []
    for strategy in CommStrategy:
        messages = comms_op.get(strategy, [])
        if not messages:
            continue
        works = dist.batch_isend_irecv([one.comm_op for one in messages])
        # Some backends join all messages into one.
        found += [(works[at] if len(works) == len(messages) else works[0], one) for at, one in enumerate(messages)]
    return found


@torch.no_grad()
def update_state_dictionaries(
    reqs: list[tuple[dist.Work, CommP2PMetadata]],
    old_optimizer_state: OptimizerState | None,
    new_optimizer_state: OptimizerState | None,
    old_state: dict[str, Any],
    new_state: dict[str, Any],
    changed_sharding_params: dict[str, ParameterSharding],
    extend_shard_name: Callable[[str], str] = lambda name: name,
    update_local: bool = False,
) -> None:
    """Wait for messages, and put what they brought into the new states.

    Args:
        reqs: as `transfer_data` gave them.
        old_optimizer_state: of the optimizers before.
        new_optimizer_state: of those after; written to.
        old_state: of the tables before.
        new_state: of those after; written to.
        changed_sharding_params: the tables that move.
        extend_shard_name: gives the name of a table's parameter.
        update_local: whether parts that stay on this process are copied as well.

    Raises:
        LostProcessError: another process did not take part.
    """
    states = {
        name: value
        for of_parameter in (new_optimizer_state or {}).get("state", {}).values()
        for name, value in of_parameter.items()
    }
    for work, message in reqs:
        op = message.comm_op
        waited_for(work.wait, op.group, "a move of tables (send and receive)")
        if not message.requires_copy:
            continue
        whole = states if message.is_optimizer_state else new_state
        name = message.shard_name if message.is_optimizer_state else extend_shard_name(message.shard_name)
        _put(whole[name], message.offsets, op.tensor)
    if not update_local:
        return
    me = dist.get_rank()
    for table in changed_sharding_params:
        key = extend_shard_name(table)
        for move in _moves(table, key, old_state[key], new_state[key], (old_optimizer_state, new_optimizer_state)):
            for piece in move.pieces():
                if piece.sender == piece.receiver == me:
                    move.after(piece).copy_(move.before(piece))


def _put(whole: ShardedTensor, offsets: list[int], part: Tensor) -> None:
    for shard in whole.local_shards():
        begin = [one - first for one, first in zip(offsets, shard.metadata.shard_offsets, strict=True)]
        sizes = zip(begin, part.shape, shard.metadata.shard_sizes, strict=True)
        if all(first >= 0 and first + size <= here for first, size, here in sizes):
            place = shard.tensor
            for dim, first in enumerate(begin):
                place = place.narrow(dim, first, part.shape[dim])
            place.copy_(part)
            return
    raise OptionError(f"no part of this process has room for what came for {offsets}.")
