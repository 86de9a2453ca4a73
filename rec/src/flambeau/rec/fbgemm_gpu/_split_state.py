"""How much memory of each kind tables and optimizer states take, and where each begins in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import ComputeDevice, EmbeddingLocation, SplitState
from flambeau.rec.ops._large_pages import zeros

__all__ = ["Spec", "apply_split_helper", "construct_split_state", "get_available_compute_device", "one_piece"]

Spec = tuple[int, int, EmbeddingLocation, ComputeDevice]


def construct_split_state(
    embedding_specs: Sequence[Spec],
    rowwise: bool,
    cacheable: bool,
    precision: SparseType = SparseType.FP32,
    int8_emb_row_dim_offset: int = 8,
    placement: EmbeddingLocation | None = None,
) -> SplitState:
    """Lay tables, or what an optimizer keeps of them, one after another in the memory that each is placed in.

    Args:
        embedding_specs: (rows, columns, location, device) of each table.
        rowwise: one number for each row rather than for each element.
        cacheable: whether what lies in managed memory with a cache may stay there; else it is plainly managed.
        precision: of elements; rows of INT8 have room for their scale and bias.
        int8_emb_row_dim_offset: that room, in elements.
        placement: of all of them, in place of their own.

    Returns:
        Sizes in elements, and of each table its place and where it begins.

    Example:
        >>> on_host = EmbeddingLocation.HOST, ComputeDevice.CPU
        >>> construct_split_state([(4, 4, *on_host), (3, 8, *on_host)], rowwise=True, cacheable=False).offsets
        [0, 4]
    """
    sizes = dict.fromkeys(("dev", "host", "uvm"), 0)
    state = SplitState(0, 0, 0)
    for rows, columns, location, _ in embedding_specs:
        if precision == SparseType.INT8:
            columns += int8_emb_row_dim_offset
        size = rows if rowwise else rows * columns
        where = location if placement is None else placement
        if where != EmbeddingLocation.HOST and rowwise:
            where = EmbeddingLocation.DEVICE  # a number for each row is little: it stays where it is fast
        elif where == EmbeddingLocation.MANAGED_CACHING and not cacheable:
            where = EmbeddingLocation.MANAGED
        kind = {EmbeddingLocation.HOST: "host", EmbeddingLocation.DEVICE: "dev"}.get(where, "uvm")
        state.placements.append(where)
        state.offsets.append(sizes[kind])
        sizes[kind] += size
    state.dev_size, state.host_size, state.uvm_size = sizes["dev"], sizes["host"], sizes["uvm"]
    return state


def one_piece(embedding_specs: Sequence[Spec], *, rowwise: bool, placement: EmbeddingLocation | None) -> SplitState:
    """All tables, or what an optimizer keeps of them, in one piece of memory: the slowest that one is placed in.

    Args:
        embedding_specs: (rows, columns, location, device) of each table.
        rowwise: one number for each row rather than for each element.
        placement: of all of them, in place of their own.

    Returns:
        Of each table its place and where it begins; one of the three sizes is not 0.
    """
    own = construct_split_state(embedding_specs, rowwise, cacheable=not rowwise, placement=placement)
    sizes = [rows if rowwise else rows * columns for rows, columns, _, _ in embedding_specs]
    starts = [0, *accumulate(sizes)]
    places = set(own.placements)
    kind = "host" if EmbeddingLocation.HOST in places or not places else "dev"
    if places & {EmbeddingLocation.MANAGED, EmbeddingLocation.MANAGED_CACHING}:
        kind = "uvm"
    return SplitState(
        starts[-1] if kind == "dev" else 0, starts[-1] if kind == "host" else 0, starts[-1] if kind == "uvm" else 0,
        own.placements, starts[:-1],
    )  # fmt: skip


def apply_split_helper(
    persistent_state_fn: Callable[[str, Tensor], None],
    set_attr_fn: Callable[[str, Any], None],
    current_device: torch.device,
    use_cpu: bool,
    feature_table_map: list[int],
    split: SplitState,
    prefix: str,
    dtype: torch.dtype,
    enforce_hbm: bool = False,
    make_dev_param: bool = False,
    dev_reshape: tuple[int, ...] | None = None,
    uvm_tensors_log: list[str] | None = None,
    uvm_host_mapped: bool = False,
    make_persistent: bool = False,
    preallocated_host_buffer: Tensor | None = None,
) -> None:
    """Make the memory that was laid out, and give it away under the names that begin with `prefix`.

    Args:
        persistent_state_fn: takes names and tensors that checkpoints have: `<prefix>_offsets` and `_placements` of each
            feature, and the kinds of memory that are no parameters.
        set_attr_fn: takes all others: `<prefix>_physical_offsets` and `_physical_placements` of each table, parameters.
        current_device: of tables and states on a device.
        use_cpu: whether that is the CPU; memory on the host is a parameter then.
        feature_table_map: the table of each feature.
        split: what `construct_split_state` gave.
        prefix: of all names.
        dtype: of the memory.
        enforce_hbm: whether managed memory is on the device, as a whole.
        make_dev_param: whether memory on the device is a parameter.
        dev_reshape: shape of memory on the device.
        uvm_tensors_log: takes the names of what is in managed memory or on the host.
        uvm_host_mapped: whether managed memory is the host's; there is no other here.
        make_persistent: whether `<prefix>_dev` of states is given to `persistent_state_fn` where it is a parameter too.
        preallocated_host_buffer: memory for the host's part.

    Raises:
        OptionError: that has another size.
    """
    set_attr_fn(f"{prefix}_physical_placements", split.placements)
    set_attr_fn(f"{prefix}_physical_offsets", split.offsets)
    offsets = [split.offsets[table] for table in feature_table_map]
    placements = [int(split.placements[table]) for table in feature_table_map]
    persistent_state_fn(f"{prefix}_offsets", torch.tensor(offsets, device=current_device, dtype=torch.int64))
    persistent_state_fn(f"{prefix}_placements", torch.tensor(placements, device=current_device, dtype=torch.int32))

    device_memory = zeros(split.dev_size, device=current_device, dtype=dtype)
    if split.dev_size and dev_reshape is not None:
        device_memory = device_memory.view(dev_reshape)
    if split.dev_size and make_dev_param:
        set_attr_fn(f"{prefix}_dev", nn.Parameter(device_memory))
    if not (split.dev_size and make_dev_param) or make_persistent:
        persistent_state_fn(f"{prefix}_dev", device_memory)

    if split.host_size:
        if preallocated_host_buffer is not None and preallocated_host_buffer.numel() != split.host_size:
            raise OptionError(
                f"the buffer for {prefix!r} has {preallocated_host_buffer.numel()} elements, expected "
                f"{split.host_size}."
            )
        memory = preallocated_host_buffer
        if memory is None:
            memory = zeros(split.host_size, device=current_device, dtype=dtype)
        if use_cpu:
            set_attr_fn(f"{prefix}_host", nn.Parameter(memory))
        else:
            persistent_state_fn(f"{prefix}_host", memory)
        if uvm_tensors_log is not None:
            uvm_tensors_log.append(f"{prefix}_host")
    else:
        persistent_state_fn(f"{prefix}_host", torch.empty(0, device=current_device, dtype=dtype))

    if split.uvm_size:
        on_device = enforce_hbm or current_device.type != "cuda"
        memory = torch.zeros(
            split.uvm_size, dtype=dtype, device=current_device if on_device else "cpu", pin_memory=not on_device
        )
        set_attr_fn(f"{prefix}_uvm", nn.Parameter(memory))
        if uvm_tensors_log is not None and not enforce_hbm:
            uvm_tensors_log.append(f"{prefix}_uvm")
    else:
        persistent_state_fn(f"{prefix}_uvm", torch.empty(0, device=current_device, dtype=dtype))


def get_available_compute_device() -> ComputeDevice:
    """Where tables are looked up on this machine: an accelerator if there is one."""
    if torch.cuda.is_available():
        return ComputeDevice.CUDA
    return ComputeDevice.MTIA if hasattr(torch, "mtia") and torch.mtia.is_available() else ComputeDevice.CPU
