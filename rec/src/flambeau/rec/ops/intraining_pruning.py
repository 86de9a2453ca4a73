"""Tables that are pruned while they are trained: more ids than rows, which go to the ids that are seen most.

Each table has a buffer with a place for each of its ids, one table after another: the row of the id, or 0, which is the
row of all ids that have none; and how often the id was seen.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._checks import require, require_indices
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = ["ROWS_PER_SAMPLE", "init_address_lookup", "prune_embedding_tables", "remap_indices_update_utils"]

ROWS_PER_SAMPLE = 23
"""One id of so many is looked at to find how often an id has to be seen to stay, as upstream."""
DECAY = 0.98
"""What counts are multiplied by at each pruning after the first interval, as upstream."""


def init_address_lookup(address_lookups: Tensor, buffer_offsets: Tensor, emb_sizes: Tensor) -> None:
    """Give the first ids of each table its rows, and the other ids row 0.

    Args:
        address_lookups: (ids of all tables,) int64; changed in place.
        buffer_offsets: (tables + 1,) where the ids of each table begin.
        emb_sizes: (tables,) rows of each.

    Raises:
        RuntimeError: other shapes or dtypes.

    Example:
        >>> lookup = torch.zeros(5, dtype=torch.int64)
        >>> init_address_lookup(lookup, torch.tensor([0, 5]), torch.tensor([3]))
        >>> lookup
        tensor([0, 1, 2, 0, 0])
    """
    OPS.init_address_lookup(address_lookups, buffer_offsets, emb_sizes)


def prune_embedding_tables(
    iter: int,
    pruning_interval: int,
    address_lookups: Tensor,
    row_utils: Tensor,
    buffer_offsets: Tensor,
    emb_sizes: Tensor,
) -> tuple[Tensor, Tensor, int]:
    """Take rows from ids that are rarely seen, and give them to ids that are seen more often and have none.

    An id stays where its count is above the threshold: of every 23rd id's count, beginning with the id `iter % 23`, the
    one below which lies the share of ids that there are no rows for. Of a table with fewer ids, all counts are looked
    at. Rows change hands in the order of ids; where there are fewer rarely seen ids with a row than others
    without, or the reverse, what is left over stays as it was. After the first interval counts are first multiplied by
    0.98.

    Args:
        iter: number of the batch.
        pruning_interval: batches from one pruning to the next.
        address_lookups: (ids of all tables,) int64: the row of each; changed in place.
        row_utils: (ids of all tables,) float32: how often each was seen; changed in place.
        buffer_offsets: (tables + 1,) where the ids of each table begin.
        emb_sizes: (tables,) rows of each.

    Returns:
        Rows that changed hands, one table after another, or [0] where none did; (tables + 1,) where those of each table
        begin; how many there are.

    Raises:
        RuntimeError: other shapes or dtypes.
    """
    rows, offsets, count = OPS.prune_embedding_tables(
        iter, pruning_interval, address_lookups, row_utils, buffer_offsets, emb_sizes
    )
    return rows, offsets, int(count)


def remap_indices_update_utils(
    iter: int,
    buffer_idx: Tensor,
    feature_lengths: Tensor,
    feature_offsets: Tensor,
    values: Tensor,
    address_lookup: Tensor,
    row_util: Tensor,
    buffer_offsets: Tensor,
    full_values_list: list[Tensor] | None = None,
    update_util: bool | None = None,
) -> Tensor:
    """Look the rows of ids up, and count how often each was seen.

    Args:
        iter: number of the batch.
        buffer_idx: (features,) the table of each, in the order of buffers.
        feature_lengths: (features,) how many ids each has.
        feature_offsets: (features,) where they begin.
        values: (L,) int32 or int64: the ids.
        address_lookup: (ids of all tables,) int64: the row of each.
        row_util: (ids of all tables,) float32: how often each was seen; changed in place.
        buffer_offsets: (tables + 1,) where the ids of each table begin.
        full_values_list: of each feature, the ids that are counted, where `values` has some of them only once.
        update_util: whether they are counted. By default in the first 10 batches, in every 19th of the first 100, and
            in every 39th.

    Returns:
        (L,) rows; ids of no feature stay as they are. `values` is left alone.

    Raises:
        RuntimeError: an id that its table has not, with its table; other shapes or dtypes.
    """
    return OPS.remap_indices_update_utils(  # type: ignore[no-any-return]
        iter, buffer_idx, feature_lengths, feature_offsets, values, address_lookup, row_util, buffer_offsets,
        full_values_list, update_util,
    )  # fmt: skip


def _tables(op: str, ids: Tensor, buffer_offsets: Tensor) -> list[int]:
    """Where the ids of each table begin, and the last one's end."""
    require_indices(op, "buffer_offsets", buffer_offsets)
    bounds: list[int] = buffer_offsets.tolist()
    fits = bool(bounds) and bounds == sorted(bounds) and bounds[0] >= 0 and bounds[-1] <= len(ids)
    require(fits, f"{op}: buffer_offsets is {bounds}, expected numbers that do not decrease, up to {len(ids)}.")
    return bounds


def _fake_init(address_lookups: Tensor, buffer_offsets: Tensor, emb_sizes: Tensor) -> None:
    return None


def _init(address_lookups: Tensor, buffer_offsets: Tensor, emb_sizes: Tensor) -> None:
    op = "init_address_lookup"
    require_indices(op, "address_lookups", address_lookups)
    require_indices(op, "emb_sizes", emb_sizes)
    bounds = _tables(op, address_lookups, buffer_offsets)
    require(len(emb_sizes) == len(bounds) - 1, f"{op}: {len(emb_sizes)} emb_sizes for {len(bounds) - 1} tables.")
    for table, rows in enumerate(emb_sizes.tolist()):
        part = address_lookups[bounds[table] : bounds[table + 1]]
        ids = torch.arange(len(part), device=part.device)
        part.copy_(torch.where(ids < rows, ids, 0))


def _fake_prune(
    iter: int, pruning_interval: int, address_lookups: Tensor, row_utils: Tensor, offsets: Tensor, sizes: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    changed = torch.library.get_ctx().new_dynamic_size()
    made = address_lookups.new_empty
    return made(changed, dtype=torch.int64), made(offsets.shape, dtype=torch.int64), made((), dtype=torch.int64)


def _threshold(counts: Tensor, iter: int, rows: int) -> Tensor:
    """How often an id has to be seen at least once more than, to stay."""
    ids = len(counts)
    samples = ids // ROWS_PER_SAMPLE
    if samples:
        places = iter % ROWS_PER_SAMPLE + torch.arange(samples, device=counts.device) * ROWS_PER_SAMPLE
        ordered = counts[places.clamp(max=ids - 1)].sort().values
    else:
        ordered = counts.sort().values
    # In float32, as upstream: the share decides which sample it is.
    share = torch.tensor(1.0) - torch.tensor(rows, dtype=torch.float32) / torch.tensor(ids, dtype=torch.float32)
    return ordered[min(int(torch.floor(share * len(ordered))), len(ordered) - 1)]


def _prune(
    iter: int, pruning_interval: int, address_lookups: Tensor, row_utils: Tensor, offsets: Tensor, sizes: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    op = "prune_embedding_tables"
    require_indices(op, "address_lookups", address_lookups)
    require(
        row_utils.shape == address_lookups.shape and row_utils.dtype == torch.float32,
        f"{op}: row_utils has shape {tuple(row_utils.shape)} and dtype {row_utils.dtype}, expected "
        f"{tuple(address_lookups.shape)} of float32.",
    )
    bounds = _tables(op, address_lookups, offsets)
    require(len(sizes) == len(bounds) - 1, f"{op}: {len(sizes)} emb_sizes for {len(bounds) - 1} tables.")
    if iter > pruning_interval:
        row_utils *= DECAY
    found = [address_lookups.new_empty(0, dtype=torch.int64)]
    for table, rows in enumerate(sizes.tolist()):
        place = slice(bounds[table], bounds[table + 1])
        addresses, counts = address_lookups[place], row_utils[place]
        if not len(addresses):
            found.append(found[0])
            continue
        stays = counts > _threshold(counts, iter, rows)
        has_row = addresses != 0
        leaving = (~stays & has_row).nonzero().flatten()
        coming = (stays & ~has_row).nonzero().flatten()
        count = min(len(leaving), len(coming))
        leaving, coming = leaving[:count], coming[:count]
        changed = addresses[leaving]
        addresses[coming] = changed
        addresses[leaving] = 0
        found.append(changed.long())
    counted = torch.tensor([len(one) for one in found], device=address_lookups.device).cumsum(0)
    changed = torch.cat(found)
    # Upstream gives one 0 where nothing changed.
    return changed if len(changed) else changed.new_zeros(1), counted, counted[-1].clone()


def _fake_remap(
    iter: int, tables: Tensor, lengths: Tensor, starts: Tensor, values: Tensor, addresses: Tensor, counts: Tensor,
    buffer_offsets: Tensor, full_values_list: list[Tensor] | None = None, update_util: bool | None = None,
) -> Tensor:  # fmt: skip
    return torch.empty_like(values)


def _counted_by_default(iter: int) -> bool:
    return iter < 10 or (iter < 100 and (iter + 1) % 19 == 0) or (iter + 1) % 39 == 0


def _remap(
    iter: int, tables: Tensor, lengths: Tensor, starts: Tensor, values: Tensor, addresses: Tensor, counts: Tensor,
    buffer_offsets: Tensor, full_values_list: list[Tensor] | None = None, update_util: bool | None = None,
) -> Tensor:  # fmt: skip
    op = "remap_indices_update_utils"
    for name, tensor in (("values", values), ("address_lookup", addresses), ("buffer_idx", tables)):
        require_indices(op, name, tensor)
    bounds = _tables(op, addresses, buffer_offsets)
    given = tables.tolist(), lengths.tolist(), starts.tolist()
    require(
        len(given[0]) == len(given[1]) == len(given[2])
        and (full_values_list is None or len(full_values_list) == len(given[0])),
        f"{op}: buffer_idx, feature_lengths, feature_offsets and full_values_list have entries for {len(given[0])}, "
        f"{len(given[1])}, {len(given[2])} and {len(full_values_list or given[0])} features.",
    )
    counting = _counted_by_default(iter) if update_util is None else update_util
    rows = values.clone()
    for feature, (table, length, start) in enumerate(zip(*given, strict=True)):
        require(0 <= table < len(bounds) - 1, f"{op}: buffer_idx has {table}, expected 0 to {len(bounds) - 2}.")
        first, last = bounds[table], bounds[table + 1]
        of_feature = values[start : start + length].long()
        seen = of_feature if full_values_list is None else full_values_list[feature].long()
        for ids in (of_feature, seen):
            require(
                (ids >= 0) & (ids < last - first),
                f"{op}: feature {feature} has an id that is not below {last - first}, the ids of table {table}.",
            )
        if length:
            rows[start : start + length] = addresses[first:last][of_feature].to(rows.dtype)
            if counting:
                counts[first:last] += torch.bincount(seen, minlength=last - first)
    return rows


register_op(
    "init_address_lookup(Tensor(a!) address_lookups, Tensor buffer_offsets, Tensor emb_sizes) -> ()",
    library=LIBRARY,
    fake=_fake_init,
    python=_init,
)
# Upstream's gives the count as an int, which no fake tensor can.
register_op(
    "prune_embedding_tables(int iter, int pruning_interval, Tensor(a!) address_lookups, Tensor(b!) row_utils, "
    "Tensor buffer_offsets, Tensor emb_sizes) -> (Tensor, Tensor, Tensor)",
    library=LIBRARY,
    fake=_fake_prune,
    python=_prune,
)
register_op(
    "remap_indices_update_utils(int iter, Tensor buffer_idx, Tensor feature_lengths, Tensor feature_offsets, "
    "Tensor values, Tensor address_lookup, Tensor(a!) row_util, Tensor buffer_offsets, Tensor[]? "
    "full_values_list=None, bool? update_util=None) -> Tensor",
    library=LIBRARY,
    fake=_fake_remap,
    python=_remap,
)
