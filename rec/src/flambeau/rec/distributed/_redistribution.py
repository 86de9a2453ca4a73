"""Tables on their way from one plan to another, with what optimizers keep of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributed._shard.metadata import ShardMetadata

from flambeau.rec.distributed._transport import exchange

if TYPE_CHECKING:
    import torch.distributed as dist

    from flambeau.rec.distributed._sharded_tables import ShardedTables

__all__ = ["redistributed"]

Box = tuple[int, int, int, int]


def _shared(one: ShardMetadata, other: ShardMetadata) -> Box | None:
    """Rows and columns that two parts of a table share: first row, last, first column, last."""
    row = max(one.shard_offsets[0], other.shard_offsets[0])
    last_row = min(one.shard_offsets[0] + one.shard_sizes[0], other.shard_offsets[0] + other.shard_sizes[0])
    column = max(one.shard_offsets[1], other.shard_offsets[1])
    last_column = min(one.shard_offsets[1] + one.shard_sizes[1], other.shard_offsets[1] + other.shard_sizes[1])
    return (row, last_row, column, last_column) if row < last_row and column < last_column else None


def _within(tensor: Tensor, place: ShardMetadata, box: Box) -> Tensor:
    row, column = place.shard_offsets
    mine = tensor[box[0] - row : box[1] - row]
    # What is kept for each row has no columns.
    return mine[:, box[2] - column : box[3] - column] if tensor.dim() == 2 else mine


@torch.no_grad()
def redistributed(old: ShardedTables, new: ShardedTables) -> None:
    """Fill the tables of one module, and what its optimizers keep, from another one of the same tables.

    Args:
        old: where they are; all processes have to call this.
        new: where they go.
    """
    before, after = old._local_parts(), new._local_parts()
    kept_before, kept_after = _kept(old), _kept(new)
    for info in old._all_infos():
        name = info.embedding_config.name
        sources, targets = _places(old, name), _places(new, name)
        mine = [weight for _, weight in before.get(name, [])]
        theirs = [weight for _, weight in after.get(name, [])]
        states = max((len(one) for one in kept_before.get(name, [])), default=0)
        _move(old._pg, sources, targets, mine, theirs)
        for number in range(_agreed(old._pg, states)):
            _move(
                old._pg,
                sources,
                targets,
                [one[number] for one in kept_before.get(name, [])],
                [one[number] for one in kept_after.get(name, [])],
            )


def _agreed(pg: dist.ProcessGroup | None, count: int) -> int:
    """The largest number that any process has."""
    if pg is None or pg.size() == 1:
        return count
    import torch.distributed as dist

    found = torch.tensor([count])
    dist.all_reduce(found, dist.ReduceOp.MAX, group=pg)
    return int(found)


def _kept(module: ShardedTables) -> dict[str, list[list[Tensor]]]:
    """Of each table, of each part here, what an optimizer keeps."""
    found: dict[str, list[list[Tensor]]] = {}
    for kernel in module._kernels():
        states = getattr(kernel.emb_module, "split_optimizer_states", None)
        kept = [] if states is None else states()
        if not kept:
            continue
        for table, of_table in zip(kernel.config.embedding_tables, kept, strict=True):
            found.setdefault(table.name, []).append(of_table)
    return found


def _places(module: ShardedTables, name: str) -> list[list[ShardMetadata]]:
    """Of each process, the parts of a table that it has."""
    for kind, infos in module._sharding_infos.items():
        sharding: Any = module.shardings[kind]
        for info in infos:
            config = info.embedding_config
            if config.name != name:
                continue
            if kind == "data_parallel":
                whole = ShardMetadata([0, 0], [config.num_embeddings, config.embedding_dim])
                return [[whole]] * module._env.world_size
            return [
                [
                    table.local_metadata
                    for group in of_rank
                    for table in group.embedding_tables
                    if table.name == name and table.local_metadata is not None
                ]
                for of_rank in sharding._grouped_embedding_configs_per_rank
            ]
    raise KeyError(name)


def _move(
    pg: dist.ProcessGroup | None,
    sources: list[list[ShardMetadata]],
    targets: list[list[ShardMetadata]],
    mine: list[Tensor],
    theirs: list[Tensor],
) -> None:
    size = len(sources)
    rank = 0 if pg is None else pg.rank()
    # What several processes have is taken from the first of them, but for one that has it itself.
    owned: list[list[tuple[int, ShardMetadata]]] = []
    for receiver in range(size):
        order = [receiver, *(one for one in range(size) if one != receiver)]
        seen: set[tuple[int, ...]] = set()
        found = []
        for sender in order:
            for place in sources[sender]:
                key = (*place.shard_offsets, *place.shard_sizes)
                if key not in seen:
                    seen.add(key)
                    found.append((sender, ShardMetadata(place.shard_offsets, place.shard_sizes)))
        owned.append(found)
    kind = [tensor.dim() for tensor in (*mine, *theirs)]
    flat_rows = bool(kind) and kind[0] == 1

    def boxes(sender: int, receiver: int) -> list[tuple[ShardMetadata, int, int, Box]]:
        found = []
        for at, place in enumerate(sources[sender]):
            key = (*place.shard_offsets, *place.shard_sizes)
            if not any(who == sender and (*one.shard_offsets, *one.shard_sizes) == key for who, one in owned[receiver]):
                continue
            for to, target in enumerate(targets[receiver]):
                box = _shared(place, target)
                if box is not None:
                    found.append((target, at, to, box))
        return found

    def count(box: Box) -> int:
        return (box[1] - box[0]) * (1 if flat_rows else box[3] - box[2])

    like = next(iter((*mine, *theirs)), None)
    dtype = torch.float32 if like is None else like.dtype
    pieces, sent = [], []
    for receiver in range(size):
        outgoing = boxes(rank, receiver)
        pieces += [_within(mine[at], sources[rank][at], box).reshape(-1) for _, at, _, box in outgoing]
        sent.append(sum(count(box) for *_, box in outgoing))
    received = [sum(count(box) for *_, box in boxes(sender, rank)) for sender in range(size)]
    flat = torch.cat(pieces) if pieces else torch.empty(0, dtype=dtype)
    arrived = flat if pg is None else exchange(pg, flat, sent, received, "a change of plan (all-to-all)").wait()
    begin = 0
    for sender in range(size):
        for target, _, to, box in boxes(sender, rank):
            there = _within(theirs[to], target, box)
            there.copy_(arrived[begin : begin + there.numel()].view(there.shape))
            begin += there.numel()
