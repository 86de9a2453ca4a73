"""How tables for inference lie in memory: bytes of rows, where tables begin, and how rows are taken apart."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import EmbeddingLocation, SplitState, round_up

DEFAULT_SCALE_BIAS_SIZE_IN_BYTES = 4
CACHELINE = 128

Spec = tuple[str, int, int, SparseType, EmbeddingLocation]

SCALED = (SparseType.INT8, SparseType.INT4, SparseType.INT2)
"""Elements whose rows begin with a scale and a bias."""

KINDS = (*SCALED, SparseType.FP32, SparseType.FP16, SparseType.BF16, SparseType.FP8)


def unpadded_row_size_in_bytes(
    dim: int, weight_ty: SparseType, scale_bias_size_in_bytes: int = DEFAULT_SCALE_BIAS_SIZE_IN_BYTES
) -> int:
    """Bytes of a row with its scale and bias.

    Args:
        dim: numbers of a row.
        weight_ty: what they are.
        scale_bias_size_in_bytes: of scale and bias together, where there are any.

    Raises:
        KeyError: elements that no table for inference has.
    """
    if weight_ty not in KINDS:
        raise KeyError(f"tables for inference have no {weight_ty}; expected one of {', '.join(map(str, KINDS))}.")
    return (dim * weight_ty.bit_rate() + 7) // 8 + (scale_bias_size_in_bytes if weight_ty in SCALED else 0)


def rounded_row_size_in_bytes(
    dim: int,
    weight_ty: SparseType,
    row_alignment: int,
    scale_bias_size_in_bytes: int = DEFAULT_SCALE_BIAS_SIZE_IN_BYTES,
) -> int:
    """Bytes from one row to the next.

    Args:
        dim: numbers of a row.
        weight_ty: what they are.
        row_alignment: what the result is a multiple of.
        scale_bias_size_in_bytes: of scale and bias together, where there are any.

    Raises:
        KeyError: elements that no table for inference has.
    """
    return round_up(unpadded_row_size_in_bytes(dim, weight_ty, scale_bias_size_in_bytes), row_alignment)


def align_to_cacheline(a: int) -> int:
    """The next multiple of what devices read at once, 128 bytes."""
    return round_up(a, CACHELINE)


def nbit_construct_split_state(
    embedding_specs: Sequence[Spec],
    cacheable: bool,
    row_alignment: int,
    scale_bias_size_in_bytes: int = DEFAULT_SCALE_BIAS_SIZE_IN_BYTES,
    cacheline_alignment: bool = True,
) -> SplitState:
    """Where tables begin in the memory of each kind.

    Args:
        embedding_specs: name, rows, columns, elements and location of each table.
        cacheable: whether there may be a cache; without one MANAGED_CACHING is MANAGED.
        row_alignment: bytes that rows are a multiple of.
        scale_bias_size_in_bytes: of scale and bias together.
        cacheline_alignment: whether tables begin at multiples of 128 bytes.

    Returns:
        Sizes, placements and offsets, in bytes.
    """
    sizes = {"dev_size": 0, "host_size": 0, "uvm_size": 0}
    placements: list[EmbeddingLocation] = []
    offsets: list[int] = []
    for _, rows, dim, kind, location in embedding_specs:
        size = rows * rounded_row_size_in_bytes(dim, kind, row_alignment, scale_bias_size_in_bytes)
        place = location
        if location is EmbeddingLocation.MANAGED_CACHING and not cacheable:
            place = EmbeddingLocation.MANAGED
        memory = {EmbeddingLocation.HOST: "host_size", EmbeddingLocation.DEVICE: "dev_size"}.get(place, "uvm_size")
        placements.append(place)
        offsets.append(sizes[memory])
        sizes[memory] += align_to_cacheline(size) if cacheline_alignment else size
    return SplitState(sizes["dev_size"], sizes["host_size"], sizes["uvm_size"], placements, offsets)


def random_quant_scaled_tensor(shape: torch.Size, device: torch.device, output_tensor: Tensor | None = None) -> Tensor:
    """Random bytes.

    Args:
        shape: of the result.
        device: of the result.
        output_tensor: uint8, is filled where given.

    Returns:
        uint8.
    """
    made = torch.empty(shape, dtype=torch.uint8, device=device) if output_tensor is None else output_tensor
    return made.random_(0, 256)


def parts_of_rows(
    rows: Tensor, spec: Spec, mode: int, scale_bias_size_in_bytes: int
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Views of a table's codes, scales and biases.

    Args:
        rows: (rows, bytes) uint8.
        spec: of the table.
        mode: 0 leaves rows whole, 1 takes scale and bias off together as bytes, 2 each by itself as float16.
        scale_bias_size_in_bytes: of both together.

    Raises:
        OptionError: another mode.
    """
    _, _, dim, kind, _ = spec
    if mode not in (0, 1, 2):
        raise OptionError(f"split_scale_bias_mode is {mode}, expected 0, 1 or 2.")
    if mode == 0:
        return rows, None, None
    end = unpadded_row_size_in_bytes(dim, kind, scale_bias_size_in_bytes)
    if kind not in SCALED:
        return rows[:, :end], None, None
    begin, half = scale_bias_size_in_bytes, scale_bias_size_in_bytes // 2
    codes = rows[:, begin:end]
    if mode == 1:
        return codes, rows[:, :begin], None
    return codes, rows[:, :half].view(torch.float16), rows[:, half:begin].view(torch.float16)
