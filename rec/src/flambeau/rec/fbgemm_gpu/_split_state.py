"""How much memory of each kind tables and optimizer states take, and where each begins in it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import ComputeDevice, EmbeddingLocation, SplitState

__all__ = ["Spec", "construct_split_state", "get_available_compute_device"]

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


def get_available_compute_device() -> ComputeDevice:
    """Where tables are looked up on this machine: an accelerator if there is one."""
    if torch.cuda.is_available():
        return ComputeDevice.CUDA
    return ComputeDevice.MTIA if hasattr(torch, "mtia") and torch.mtia.is_available() else ComputeDevice.CPU
