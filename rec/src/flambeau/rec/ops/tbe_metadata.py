"""What look-ups of batches of different sizes are told, and what becomes of rows that were pruned."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._checks import require
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.cache import lxu_cache_lookup

__all__ = ["generate_vbe_metadata", "get_infos_metadata"]

_DEVICE, _MANAGED_CACHING = 0, 2
_BITS = 32


def generate_vbe_metadata(
    B_offsets: Tensor,
    B_offsets_rank_per_feature: Tensor,
    output_offsets_feature_rank: Tensor,
    D_offsets: Tensor,
    D: int,
    nobag: bool,
    max_B_feature_rank: int,
    info_B_num_bits: int,
    total_B: int,
    vbe_output_offsets: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Where each bag of batches of different sizes goes, and which feature and example it is.

    Args:
        B_offsets: (features + 1,) which bags are a feature's.
        B_offsets_rank_per_feature: (features, processes + 1) which bags of a feature are a process's.
        output_offsets_feature_rank: (processes * features + 1,) where each process's part of a feature begins.
        D_offsets: (features + 1,) running sums of widths.
        D: width of all features, where there is no pooling. Not looked at, as that is said by `D_offsets`.
        nobag: whether there is none. Not looked at.
        max_B_feature_rank: largest batch of a feature and process. A hint that is not needed here.
        info_B_num_bits: bits of the number that are the example's.
        total_B: bags.
        vbe_output_offsets: (processes, features) in place of `output_offsets_feature_rank`.

    Returns:
        (total_B,) int64 places, and (total_B,) int32 numbers: the feature above, the example in the lower bits.

    Raises:
        RuntimeError: sizes that do not fit together.

    Example:
        >>> sizes = torch.tensor([0, 1, 3]), torch.tensor([[0, 1], [0, 2]]), torch.tensor([0, 4, 12])
        >>> generate_vbe_metadata(*sizes, torch.tensor([0, 4, 8]), -1, False, 2, 26, 3)[0]
        tensor([0, 4, 8])
    """
    return OPS.generate_vbe_metadata(  # type: ignore[no-any-return]
        B_offsets, B_offsets_rank_per_feature, output_offsets_feature_rank, D_offsets, D, nobag, max_B_feature_rank,
        info_B_num_bits, total_B, vbe_output_offsets,
    )  # fmt: skip


def _fake_metadata(
    B_offsets: Tensor, by_rank: Tensor, output_offsets: Tensor, D_offsets: Tensor, D: int, nobag: bool, largest: int,
    bits: int, total_B: int, vbe_output_offsets: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return output_offsets.new_empty(total_B), B_offsets.new_empty(total_B, dtype=torch.int32)


def _metadata(
    B_offsets: Tensor, by_rank: Tensor, output_offsets: Tensor, D_offsets: Tensor, D: int, nobag: bool, largest: int,
    bits: int, total_B: int, vbe_output_offsets: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    features, ranks = by_rank.shape[0], by_rank.shape[1] - 1
    require(
        B_offsets.numel() == features + 1 and D_offsets.numel() == features + 1,
        f"generate_vbe_metadata: B_offsets has {B_offsets.numel()} entries and D_offsets {D_offsets.numel()}, expected "
        f"{features + 1}: one more than there are features.",
    )
    first = output_offsets[: ranks * features] if vbe_output_offsets is None else vbe_output_offsets.reshape(-1)
    require(
        first.numel() == ranks * features,
        f"generate_vbe_metadata: {first.numel()} places of output for {ranks} processes and {features} features.",
    )
    counts = by_rank.long().diff(dim=1).reshape(-1)  # feature-major
    parts = torch.arange(features * ranks, device=counts.device).repeat_interleave(counts)
    require(parts.numel() == total_B, f"generate_vbe_metadata: total_B is {total_B}, expected {parts.numel()} bags.")
    feature = parts // ranks if ranks else parts
    example = torch.arange(total_B, device=counts.device) - B_offsets.long()[feature]
    widths = D_offsets.long().diff()
    begin = first.long().view(ranks, features).t().reshape(-1)
    within = example - by_rank.long()[:, :-1].reshape(-1)[parts]
    return begin[parts] + within * widths[feature], (feature << bits | example).int()


def get_infos_metadata(unused: Tensor, B: int, T: int) -> tuple[int, int]:
    """How a number of 32 bits is shared by features and examples.

    Args:
        unused: what says where the operator runs.
        B: the largest batch.
        T: features.

    Returns:
        Bits that are the example's, and the mask of them.

    Raises:
        RuntimeError: there are too few bits.

    Example:
        >>> get_infos_metadata(torch.empty(0), B=512, T=26)
        (27, 134217727)
    """
    return OPS.get_infos_metadata(unused, B, T)  # type: ignore[no-any-return]


def _infos(unused: Tensor, B: int, T: int) -> tuple[int, int]:
    require(B > 0 and T > 0, f"get_infos_metadata: B is {B} and T {T}, expected at least one.")
    bits = _BITS - T.bit_length()
    most = (1 << bits) - 1
    require(most >= B, f"get_infos_metadata: {T} features leave {bits} bits for examples, at most {most}; B is {B}.")
    return bits, most


def _gate(key: str) -> bool:
    return os.environ.get(f"FBGEMM_{key}", "0") == "1"


# ----- pruned rows ----------------------------------------------------------------------------------------------------


def _pruned(offsets: Tensor, tables: Tensor, buffers: Tensor, rows: Tensor) -> Iterator[tuple[int, int, Tensor]]:
    ends = offsets.tolist()
    for table, buffer, (first, last) in zip(tables.tolist(), buffers.tolist(), pairwise(ends), strict=True):
        yield table, buffer, rows[first:last].long()


def _reset(
    dev_weights: Tensor, uvm_weights: Tensor, cached: Tensor, placements: Tensor, weights_offsets: Tensor,
    momentum_dev: Tensor, momentum_uvm: Tensor, momentum_placements: Tensor, momentum_offsets: Tensor,
    D_offsets: Tensor, pruned_indices: Tensor, pruned_offsets: Tensor, logical_table_ids: Tensor, buffer_ids: Tensor,
    starts: Tensor, cache_state: Tensor, total_cache_hash_size: int,
) -> None:  # fmt: skip
    require(
        pruned_offsets.numel() == buffer_ids.numel() + 1 == logical_table_ids.numel() + 1,
        f"reset_weight_momentum: {pruned_offsets.numel()} offsets, {logical_table_ids.numel()} logical_table_ids and "
        f"{buffer_ids.numel()} buffer_ids do not fit together.",
    )
    widths = D_offsets.long().diff().tolist()
    for table, buffer, rows in _pruned(pruned_offsets, logical_table_ids, buffer_ids, pruned_indices):
        memory = dev_weights if int(placements[buffer]) == _DEVICE else uvm_weights
        columns = torch.arange(widths[table], device=memory.device)
        places = int(weights_offsets[buffer]) + rows.to(memory.device).unsqueeze(1) * widths[table] + columns
        memory.view(-1)[places] = 0
        kept = momentum_dev if int(momentum_placements[buffer]) == _DEVICE else momentum_uvm
        kept.view(-1)[int(momentum_offsets[buffer]) + rows.to(kept.device)] = 0
        if int(placements[buffer]) == _MANAGED_CACHING and total_cache_hash_size and int(starts[table]) >= 0:
            slots = lxu_cache_lookup(rows.to(cached.device) + int(starts[table]), cache_state, total_cache_hash_size)
            cached[slots[slots >= 0].long()] = 0


register_op(
    "generate_vbe_metadata(Tensor B_offsets, Tensor B_offsets_rank_per_feature, Tensor output_offsets_feature_rank, "
    "Tensor D_offsets, int D, bool nobag, SymInt max_B_feature_rank, int info_B_num_bits, SymInt total_B, Tensor? "
    "vbe_output_offsets=None) -> (Tensor, Tensor)",
    library=LIBRARY,
    fake=_fake_metadata,
    python=_metadata,
)
# Everything that is put to zero, which upstream's schema does not say.
register_op(
    "reset_weight_momentum(Tensor(a!) dev_weights, Tensor(b!) uvm_weights, Tensor(c!) lxu_cache_weights, Tensor "
    "weights_placements, Tensor weights_offsets, Tensor(d!) momentum1_dev, Tensor(e!) momentum1_uvm, Tensor "
    "momentum1_placements, Tensor momentum1_offsets, Tensor D_offsets, Tensor pruned_indices, Tensor "
    "pruned_indices_offsets, Tensor logical_table_ids, Tensor buffer_ids, Tensor cache_hash_size_cumsum, Tensor "
    "lxu_cache_state, int total_cache_hash_size) -> ()",
    library=LIBRARY,
    fake=lambda *_: None,
    python=_reset,
)
register_composite("get_infos_metadata(Tensor unused, int B, int T) -> (int, int)", _infos)
register_composite("check_feature_gate_key(str key) -> bool", _gate)
