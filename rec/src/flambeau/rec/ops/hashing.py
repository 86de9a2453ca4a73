"""MurmurHash3 of integers, and a table that gives every id a slot of its own as long as there is room (ZCH).

The native kernels are in `native/hashing.cpp`.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._checks import INDICES, require
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = ["create_zch_buffer", "murmur_hash3", "zero_collision_hash"]


def murmur_hash3(input: Tensor, y: int, seed: int) -> Tensor:
    """Hash each number x together with another one.

    Args:
        input: any shape, int64.
        y: the other number.
        seed: of the hash.

    Returns:
        MurmurHash3 x64 128 of the 16 bytes (x, y), its halves joined by exclusive or, as int64 of the same shape; a
        tensor (1,) gives one without dimensions.

    Raises:
        RuntimeError: another dtype.

    References:
        A. Appleby, MurmurHash3, 2011 (public domain).
    """
    return OPS.murmur_hash3(input, y, seed)  # type: ignore[no-any-return]


def create_zch_buffer(
    size: int, support_evict: bool = False, device: torch.device | None = None, long_type: bool = False
) -> tuple[Tensor, Tensor | None]:
    """An empty table for `zero_collision_hash`.

    Args:
        size: slots.
        support_evict: whether ids may be evicted, which takes memory for what decides about it.
        device: of the table.
        long_type: whether ids are int64 instead of int32.

    Returns:
        Identities (size, 1) and metadata (size, 1) int32, or None; -1 everywhere.
    """
    return OPS.create_zch_buffer(size, support_evict, device, long_type)  # type: ignore[no-any-return]


def zero_collision_hash(
    input: Tensor,
    identities: Tensor,
    max_probe: int,
    circular_probe: bool = False,
    exp_hours: int = -1,
    readonly: bool = False,
    local_sizes: Tensor | None = None,
    offsets: Tensor | None = None,
    metadata: Tensor | None = None,
    output_on_uvm: bool = False,
    disable_fallback: bool = False,
    _modulo_identity_DPRECATED: bool = False,
    input_metadata: Tensor | None = None,
    eviction_threshold: int = -1,
    eviction_policy: int = 0,
    opt_in_prob: int = -1,
    num_reserved_slots: int = -1,
    opt_in_rands: Tensor | None = None,
    runtime_meta: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Give each id its slot, by linear probing from its hash on; new ids are put in.

    An id that finds neither itself nor a free slot takes the slot of the one that may be evicted and is the oldest;
    else it shares the first slot that it looked at.

    Args:
        input: (L,) ids, int32 or int64, not -1.
        identities: (slots, 1) int32 or int64: the id in each slot, -1 where it is free; changed in place.
        max_probe: slots to look at, > 0.
        circular_probe: whether probing goes on at the first slot behind the last, which it does in any case.
        exp_hours: with `metadata`: ids not seen for so many hours may be evicted; -1: see `eviction_threshold`.
        readonly: whether no id is put in.
        local_sizes: (L,) int64: how many slots an id may use; all by default.
        offsets: (L,) int64: where these begin; 0 by default.
        metadata: (slots, 1) int32: when each id was seen, or what `input_metadata` says; changed in place. None:
            nothing
            is evicted.
        output_on_uvm: not read.
        disable_fallback: whether an id without a slot gets -1 instead of sharing one.
        _modulo_identity_DPRECATED: not read.
        input_metadata: (L,) int32: what an id leaves in `metadata`; by default the hour, counted from 1970.
        eviction_threshold: ids with less than that in `metadata` may be evicted.
        eviction_policy: 0: only those; 1: any, the one with the least in `metadata`.
        opt_in_prob: percentage of new ids that are put in; -1: all.
        num_reserved_slots: the last slots of the table that ids which were not put in share; -1: none.
        opt_in_rands: (L,) int32 in [0, 100): an id is put in if it is below `opt_in_prob`; drawn by default.
        runtime_meta: (slots, ...): its rows are set to 0 where an id was evicted; changed in place.

    Returns:
        Slots (L,) of the dtype of `input`; and with `metadata` (L,) int64: the slot whose id was evicted for each, or
        -1.

    Raises:
        RuntimeError: shapes or dtypes that do not fit, no probes.
    """
    return OPS.zero_collision_hash(  # type: ignore[no-any-return]
        input, identities, max_probe, circular_probe, exp_hours, readonly, local_sizes, offsets, metadata,
        output_on_uvm, disable_fallback, _modulo_identity_DPRECATED, input_metadata, eviction_threshold,
        eviction_policy, opt_in_prob, num_reserved_slots, opt_in_rands, runtime_meta,
    )  # fmt: skip


# --- the hash ------------------------------------------------------------------------------------------------------

_C1, _C2 = -0x783C846EEEBDAC2B, 0x4CF5AD432745937F  # as int64; products keep their lower 64 bits


def _rotated(value: Tensor, bits: int) -> Tensor:
    return (value << bits) | ((value >> (64 - bits)) & ((1 << bits) - 1))


def finished(key: Tensor) -> Tensor:
    """The finalizer of MurmurHash3 for 64 bits: int64 of any shape, bits mixed."""
    key = key ^ ((key >> 33) & 0x7FFFFFFF)
    key = key * -0x00AE502812AA7333
    key = key ^ ((key >> 33) & 0x7FFFFFFF)
    key = key * -0x3B314601E57A13AD
    return key ^ ((key >> 33) & 0x7FFFFFFF)


def _murmur(x: Tensor, y: int = 0, seed: int = 0) -> Tensor:
    """int64, any shape."""
    other = torch.full_like(x, y)
    h1 = _rotated(x * _C1, 31) * _C2 ^ seed
    h2 = torch.full_like(x, seed)
    h1 = (_rotated(h1, 27) + h2) * 5 + 0x52DCE729
    h2 = h2 ^ _rotated(other * _C2, 33) * _C1
    h2 = (_rotated(h2, 31) + h1) * 5 + 0x38495AB5
    h1, h2 = h1 ^ 16, h2 ^ 16
    h1 = h1 + h2
    h2 = h2 + h1
    h1, h2 = finished(h1), finished(h2)
    h1 = h1 + h2
    return h1 ^ (h2 + h1)


def _fake_murmur(input: Tensor, y: int, seed: int) -> Tensor:
    require(input.dtype == torch.int64, f"murmur_hash3: input has dtype {input.dtype}, expected int64; convert it.")
    single = input.dim() == 1 and input.shape[0] == 1
    return input.new_empty(() if single else input.shape)


def _reference_murmur(input: Tensor, y: int, seed: int) -> Tensor:
    return _murmur(input, y, seed).reshape(_fake_murmur(input, y, seed).shape)


def _create(
    size: int, support_evict: bool = False, device: torch.device | None = None, long_type: bool = False
) -> tuple[Tensor, Tensor | None]:
    identities = torch.full((size, 1), -1, dtype=torch.int64 if long_type else torch.int32, device=device)
    return identities, torch.full((size, 1), -1, dtype=torch.int32, device=device) if support_evict else None


# --- the table -----------------------------------------------------------------------------------------------------


class _Job(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("ids", "identities", "sizes", "offsets", "metadata", "new_metadata")),
        *((name, ctypes.c_void_p) for name in ("draws", "output", "evicted")),
        *((name, ctypes.c_int64) for name in ("count", "slots", "probes", "reserved", "threshold", "opt_in")),
        *((name, ctypes.c_int32) for name in ("wide_ids", "wide_identities", "readonly", "fallback", "by_age", "now")),
    ]


@cache
def _function() -> Callable[..., Any]:
    return LIBRARY.function("fb_rec_place_ids", [ctypes.c_void_p], None)


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _place(
    native: bool,
    input: Tensor,
    identities: Tensor,
    local_sizes: Tensor | None,
    offsets: Tensor | None,
    metadata: Tensor | None,
    input_metadata: Tensor | None,
    opt_in_rands: Tensor | None,
    runtime_meta: Tensor | None,
    max_probe: int,
    exp_hours: int,
    readonly: bool,
    disable_fallback: bool,
    eviction_threshold: int,
    eviction_policy: int,
    opt_in_prob: int,
    num_reserved_slots: int,
) -> tuple[Tensor, Tensor]:
    """The operator without what is random and what is not read; without metadata the second result is empty."""
    _check(input, identities, max_probe, metadata)
    now = int(time.time() // 3600)

    def numbers(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
        return None if tensor is None else tensor.to("cpu", dtype).reshape(-1).contiguous()

    ids, table = input.cpu().contiguous(), identities.cpu().contiguous()
    ages = None if metadata is None else metadata.cpu().contiguous()
    sizes, begins = numbers(local_sizes, torch.int64), numbers(offsets, torch.int64)
    left, draws = numbers(input_metadata, torch.int32), numbers(opt_in_rands, torch.int32)
    slots = table.numel()
    if sizes is not None or begins is not None:
        first = torch.zeros(()) if begins is None else begins
        last = first + (slots if sizes is None else sizes)
        good = bool((last <= slots).all() & (first >= 0).all())
        require(good, f"zero_collision_hash: offsets and local_sizes lead beyond the {slots} slots of identities.")
    output = torch.empty_like(ids)
    evicted = None if metadata is None else torch.empty(ids.shape, dtype=torch.int64)
    job = _Job(
        ids.data_ptr(),
        table.data_ptr(),
        _address(sizes),
        _address(begins),
        _address(ages),
        _address(left),
        _address(draws),
        output.data_ptr(),
        _address(evicted),
        ids.numel(),
        slots,
        max_probe,
        max(num_reserved_slots, 0),
        now - exp_hours if exp_hours >= 0 else eviction_threshold,
        opt_in_prob,
        ids.dtype == torch.int64,
        table.dtype == torch.int64,
        readonly,
        not disable_fallback,
        eviction_policy == 1,
        now,
    )
    if native:
        _function()(ctypes.byref(job))
    else:
        _place_in_turn(job, ids, table, sizes, begins, ages, left, draws, output, evicted)
    if not readonly:
        for given, changed in ((identities, table), (metadata, ages)):
            if given is not None and changed is not None and changed is not given:
                given.copy_(changed)
    if evicted is None:
        return output.to(input.device), torch.empty(0, dtype=torch.int64, device=input.device)
    evicted = evicted.to(input.device)
    if runtime_meta is not None:
        runtime_meta[evicted[evicted >= 0]] = 0
    return output.to(input.device), evicted


def _check(input: Tensor, identities: Tensor, max_probe: int, metadata: Tensor | None) -> None:
    op = "zero_collision_hash"
    require(
        input.dim() == 1 and input.dtype in INDICES and identities.dtype in INDICES,
        f"{op}: input has shape {tuple(input.shape)} and dtype {input.dtype}, identities has dtype {identities.dtype}; "
        "expected (n,), both of int32 or int64.",
    )
    require(
        identities.element_size() >= input.element_size() or input.dtype == torch.int64,
        f"{op}: identities has dtype {identities.dtype}, which cannot hold ids of {input.dtype}.",
    )
    require(max_probe > 0, f"{op}: max_probe is {max_probe}, expected at least 1.")
    require(
        metadata is None or (metadata.dtype == torch.int32 and metadata.shape == identities.shape),
        f"{op}: metadata has to be int32, of the shape of identities, {tuple(identities.shape)}.",
    )


def _place_in_turn(
    job: _Job,
    ids: Tensor,
    table: Tensor,
    sizes: Tensor | None,
    begins: Tensor | None,
    ages: Tensor | None,
    left: Tensor | None,
    draws: Tensor | None,
    output: Tensor,
    evicted: Tensor | None,
) -> None:
    """What native/hashing.cpp does, in Python."""
    known = table.view(-1).tolist()
    old = None if ages is None else ages.view(-1).tolist()
    hashes = _murmur(ids.long()).tolist()
    slots_of, gone = [], []
    for i, id_ in enumerate(ids.tolist()):
        size = job.slots if sizes is None else int(sizes[i])
        offset = 0 if begins is None else int(begins[i])
        size -= job.reserved
        hashed = hashes[i] % (1 << 64)
        let_in = not job.readonly and (draws is None or int(draws[i]) < job.opt_in)
        found, oldest = -1, -1
        for probe in range(min(job.probes, max(size, 0))):
            slot = offset + (hashed % size + probe) % size
            if known[slot] == id_ or (let_in and known[slot] == -1):
                known[slot], found = id_, slot
                break
            evictable = let_in and old is not None and (job.by_age or old[slot] < job.threshold)
            if evictable and old is not None and (oldest < 0 or old[slot] < old[oldest]):
                oldest = slot
        gone.append(oldest if found < 0 else -1)
        if found < 0 and oldest >= 0:
            known[oldest], found = id_, oldest
        if found >= 0 and old is not None and not job.readonly:
            old[found] = job.now if left is None else int(left[i])
        if found < 0 and size > 0:
            if job.reserved > 0:
                found = offset + size + hashed % job.reserved
            elif job.fallback:
                found = offset + hashed % size
        slots_of.append(found)
    output.copy_(torch.tensor(slots_of, dtype=output.dtype).view_as(output))
    table.copy_(torch.tensor(known, dtype=table.dtype).view_as(table))
    if ages is not None:
        ages.copy_(torch.tensor(old, dtype=ages.dtype).view_as(ages))
    if evicted is not None:
        evicted.copy_(torch.tensor(gone, dtype=evicted.dtype).view_as(evicted))


def _fake_place(
    input: Tensor,
    identities: Tensor,
    local_sizes: Tensor | None,
    offsets: Tensor | None,
    metadata: Tensor | None,
    input_metadata: Tensor | None,
    opt_in_rands: Tensor | None,
    runtime_meta: Tensor | None,
    max_probe: int,
    *_: Any,
) -> tuple[Tensor, Tensor]:
    _check(input, identities, max_probe, metadata)
    evicted = 0 if metadata is None else input.shape[0]
    return input.new_empty(input.shape), input.new_empty(evicted, dtype=torch.int64)


def _zero_collision_hash(
    input: Tensor,
    identities: Tensor,
    max_probe: int,
    circular_probe: bool = False,
    exp_hours: int = -1,
    readonly: bool = False,
    local_sizes: Tensor | None = None,
    offsets: Tensor | None = None,
    metadata: Tensor | None = None,
    output_on_uvm: bool = False,
    disable_fallback: bool = False,
    modulo_identity: bool = False,
    input_metadata: Tensor | None = None,
    eviction_threshold: int = -1,
    eviction_policy: int = 0,
    opt_in_prob: int = -1,
    num_reserved_slots: int = -1,
    opt_in_rands: Tensor | None = None,
    runtime_meta: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    draws = None
    if opt_in_prob >= 0:
        draws = opt_in_rands
        if draws is None:
            draws = torch.randint(0, 100, input.shape, dtype=torch.int32, device=input.device)
    slots, evicted = OPS.place_ids(
        input, identities, local_sizes, offsets, metadata, input_metadata, draws, runtime_meta, max_probe, exp_hours,
        readonly, disable_fallback, eviction_threshold, eviction_policy, opt_in_prob, num_reserved_slots,
    )  # fmt: skip
    return slots, None if metadata is None else evicted


register_op(
    "murmur_hash3(Tensor input, int y, int seed) -> Tensor",
    library=LIBRARY,
    fake=_fake_murmur,
    python=_reference_murmur,
)
register_composite(
    "create_zch_buffer(int size, bool support_evict=False, Device? device=None, bool long_type=False) "
    "-> (Tensor, Tensor?)",
    _create,
)
register_op(
    "place_ids(Tensor input, Tensor(a!) identities, Tensor? local_sizes, Tensor? offsets, Tensor(b!)? metadata, "
    "Tensor? input_metadata, Tensor? opt_in_rands, Tensor(c!)? runtime_meta, int max_probe, int exp_hours, bool "
    "readonly, bool disable_fallback, int eviction_threshold, int eviction_policy, int opt_in_prob, int "
    "num_reserved_slots) -> (Tensor, Tensor)",
    library=LIBRARY,
    symbol=lambda *args: _place(True, *args),
    fake=_fake_place,
    python=lambda *args: _place(False, *args),
)
# Upstream's schema does not say what is written to, and that the second result may be missing.
register_composite(
    "zero_collision_hash(Tensor input, Tensor(a!) identities, int max_probe, bool circular_probe=False, int "
    "exp_hours=-1, bool readonly=False, Tensor? local_sizes=None, Tensor? offsets=None, Tensor(b!)? metadata=None, "
    "bool output_on_uvm=False, bool disable_fallback=False, bool _modulo_identity_DPRECATED=False, Tensor? "
    "input_metadata=None, int eviction_threshold=-1, int eviction_policy=0, int opt_in_prob=-1, int "
    "num_reserved_slots=-1, Tensor? opt_in_rands=None, Tensor(c!)? runtime_meta=None) -> (Tensor, Tensor?)",
    _zero_collision_hash,
)
