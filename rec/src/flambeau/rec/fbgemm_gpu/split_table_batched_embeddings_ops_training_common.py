"""Batches whose size differs from feature to feature and from process to process."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_codegen_lookup_invokers.lookup_args import VBEMetadata
from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import PoolingMode

__all__ = ["check_allocated_vbe_output", "generate_vbe_metadata"]


def generate_vbe_metadata(
    offsets: Tensor,
    batch_size_per_feature_per_rank: list[list[int]] | None,
    pooling_mode: PoolingMode,
    feature_dims_cpu: Tensor,
    device: torch.device,
    vbe_output: Tensor | None = None,
    vbe_output_offsets: Tensor | None = None,
) -> VBEMetadata:
    """Where the bags of each feature and process lie.

    Args:
        offsets: of the batch; not looked at.
        batch_size_per_feature_per_rank: examples of each feature and process; None where all batches are equal.
        pooling_mode: sums or means; rows as they are have no place of their own.
        feature_dims_cpu: (features,) columns of each.
        device: of the result.
        vbe_output: kept for the look-up.
        vbe_output_offsets: kept for the look-up.

    Raises:
        OptionError: sizes without pooling, or of another number of features.
        ValueError: features with different numbers of processes.

    Example:
        >>> sizes, widths = [[1, 2], [2, 1]], torch.tensor([4, 4])
        >>> made = generate_vbe_metadata(torch.arange(7), sizes, PoolingMode.SUM, widths, torch.device("cpu"))
        >>> made.output_offsets_feature_rank
        tensor([ 0,  4, 12, 20, 24])
    """
    sizes = batch_size_per_feature_per_rank
    if sizes is None:
        return VBEMetadata(None, None, None)
    if pooling_mode == PoolingMode.NONE:
        raise OptionError("batch_size_per_feature_per_rank is for sums and means; pooling_mode is NONE.")
    widths = feature_dims_cpu.tolist()
    check_sizes(sizes, len(widths))
    by_feature = [sum(ranks) for ranks in sizes]
    by_rank = list(zip(*sizes, strict=True))
    parts = [size * width for ranks in by_rank for size, width in zip(ranks, widths, strict=True)]
    places = [0, *accumulate(parts)]
    return VBEMetadata(
        torch.tensor([0, *accumulate(by_feature)], dtype=torch.int32, device=device),
        torch.tensor(places, dtype=torch.int64, device=device),
        torch.tensor([[0, *accumulate(ranks)] for ranks in sizes], dtype=torch.int32, device=device),
        max((size for ranks in sizes for size in ranks), default=0),
        max(by_feature, default=0),
        places[-1],
        vbe_output,
        vbe_output_offsets,
    )


def check_sizes(sizes: Sequence[Sequence[int]], features: int) -> None:
    """Whether batch sizes are of so many features, each with as many processes.

    Raises:
        OptionError: of another number of features.
        ValueError: features differ in their number of processes.
    """
    if len(sizes) != features:
        raise OptionError(f"batch_size_per_feature_per_rank has {len(sizes)} features, expected {features}.")
    if len({len(ranks) for ranks in sizes}) > 1:
        counts = [len(ranks) for ranks in sizes]
        raise ValueError(f"batch_size_per_feature_per_rank has {counts} processes; features have equally many.")


def check_allocated_vbe_output(
    output_dtype: int,
    batch_size_per_feature_per_rank: list[list[int]] | None,
    vbe_output: Tensor | None = None,
    vbe_output_offsets: Tensor | None = None,
) -> None:
    """Whether an output that is there already can take a batch.

    Args:
        output_dtype: the number of its `SparseType`.
        batch_size_per_feature_per_rank: examples of each feature and process.
        vbe_output: (numbers,) of that type.
        vbe_output_offsets: (processes, features) where each begins in it.

    Raises:
        OptionError: one is given without the other, or has another shape or dtype.
    """
    sizes = batch_size_per_feature_per_rank
    if sizes is None:
        raise OptionError("vbe_output is for batches of different sizes; give batch_size_per_feature_per_rank.")
    if vbe_output is None and vbe_output_offsets is None:
        return
    if vbe_output is None or vbe_output_offsets is None:
        raise OptionError("vbe_output and vbe_output_offsets go together; give both, or neither.")
    dtype = SparseType.from_int(output_dtype).as_dtype()
    if vbe_output.dtype != dtype:
        raise OptionError(f"vbe_output is {vbe_output.dtype}, expected {dtype} as the tables' output_dtype says.")
    if vbe_output.dim() != 1:
        raise OptionError(f"vbe_output has shape {tuple(vbe_output.shape)}, expected one dimension.")
    expected = (len(sizes[0]) if sizes else 0, len(sizes))
    if tuple(vbe_output_offsets.shape) != expected:
        raise OptionError(
            f"vbe_output_offsets has shape {tuple(vbe_output_offsets.shape)}, expected {expected}: processes, features."
        )
