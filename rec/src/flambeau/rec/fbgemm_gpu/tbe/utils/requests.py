"""Made-up batches for benchmarks of tables: indices spread evenly or by power laws, in bags of many lengths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.tbe.utils.common import get_device

__all__ = [
    "TBERequest",
    "generate_batch_sizes_from_stats",
    "generate_indices_uniform",
    "generate_indices_zipf",
    "generate_int_data_from_stats",
    "generate_pooling_factors_from_stats",
    "generate_requests",
    "generate_requests_from_data_file",
    "maybe_to_dtype",
    "update_indices_with_random_pruning",
    "update_indices_with_random_reuse",
]


@dataclass
class TBERequest:
    """A batch.

    Args:
        indices: (L,) feature-major.
        offsets: (features * B + 1,).
        per_sample_weights: (L,) a factor for each index.
        Bs_per_feature_per_rank: examples of each feature and process, where they differ.
    """

    indices: Tensor
    offsets: Tensor
    per_sample_weights: Tensor | None = None
    Bs_per_feature_per_rank: list[list[int]] | None = None

    def unpack_2(self) -> tuple[Tensor, Tensor]:
        """Indices and offsets."""
        return self.indices, self.offsets

    def unpack_3(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Indices, offsets and factors."""
        return self.indices, self.offsets, self.per_sample_weights

    def unpack_4(self) -> tuple[Tensor, Tensor, Tensor | None, list[list[int]] | None]:
        """Indices, offsets, factors and sizes."""
        return self.indices, self.offsets, self.per_sample_weights, self.Bs_per_feature_per_rank


def maybe_to_dtype(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    """The tensor, of a dtype unless that is None."""
    return tensor if dtype is None else tensor.to(dtype)


# ----- numbers from statistics ----------------------------------------------------------------------------------------


def generate_int_data_from_stats(mu: int, sigma: int, size: int, distribution: str) -> np.ndarray:
    """Integers by numpy's global generator.

    Args:
        mu: the mean; of "uniform", the smallest number.
        sigma: the standard deviation; of "uniform", the largest number.
        size: how many.
        distribution: "uniform", else normal.

    Returns:
        (size,) int32.
    """
    if distribution == "uniform":
        return np.random.randint(mu, sigma + 1, (size,)).astype(np.int32)
    return np.random.normal(loc=mu, scale=sigma, size=size).astype(np.int32)


def generate_pooling_factors_from_stats(
    iters: int, Bs: list[int], L: int, sigma_L: int, length_dist: str
) -> tuple[int, Tensor]:
    """Lengths of bags.

    Args:
        iters: batches.
        Bs: bags of each feature in a batch.
        L: mean length.
        sigma_L: their spread.
        length_dist: see `generate_int_data_from_stats`.

    Returns:
        The mean that came of it, rounded, and (iters * sum of Bs + 1,) offsets over all batches.
    """
    lengths = np.maximum(generate_int_data_from_stats(L, sigma_L, iters * sum(Bs), length_dist), 0)
    mean = int(np.round(lengths.mean())) if len(lengths) else 0
    return mean, torch.cat([torch.zeros(1, dtype=torch.int64), torch.from_numpy(lengths).long().cumsum(0)])


def generate_batch_sizes_from_stats(
    B: int, T: int, sigma_B: int, vbe_num_ranks: int, batch_size_dist: str
) -> tuple[list[int], list[list[int]]]:
    """Sizes of batches that differ from feature to feature and from process to process.

    Args:
        B: mean size.
        T: features.
        sigma_B: spread of sizes.
        vbe_num_ranks: processes.
        batch_size_dist: see `generate_int_data_from_stats`.

    Returns:
        Sizes of each feature, and of each feature and process: 1 at least.
    """
    sizes = np.maximum(generate_int_data_from_stats(B, sigma_B, T * vbe_num_ranks, batch_size_dist), 1)
    by_rank = sizes.reshape(T, vbe_num_ranks).tolist()
    return [sum(ranks) for ranks in by_rank], by_rank


# ----- indices --------------------------------------------------------------------------------------------------------


def _rows(E: int, Es: list[int] | None, features: int) -> list[int]:
    rows = [E] * features if Es is None else list(Es)
    if len(rows) != features:
        raise OptionError(f"Es has {len(rows)} tables for {features} features; give the rows of each.")
    return rows


def _spread(iters: int, Bs: list[int], L: int, use_variable_L: bool, L_offsets: Tensor | None) -> Tensor | None:
    """(iters * bags,) lengths, where they differ."""
    if not use_variable_L:
        return None
    assert L_offsets is not None, "use_variable_L takes L_offsets"
    return L_offsets.diff()


def _row_of_each(iters: int, Bs: list[int], L: int, rows: list[int], lengths: Tensor | None) -> Tensor:
    """How many rows the table of each index has: (iters, L * bags), or flat over all batches where lengths differ."""
    by_bag = torch.tensor(rows).repeat_interleave(torch.tensor(Bs))
    if lengths is None:
        return by_bag.repeat_interleave(L).expand(iters, -1)
    return by_bag.repeat(iters).repeat_interleave(lengths)


def generate_indices_uniform(
    iters: int,
    Bs: list[int],
    L: int,
    E: int,
    use_variable_L: bool,
    L_offsets: Tensor | None,
    device: torch.device | None = None,
    Es: list[int] | None = None,
) -> Tensor:
    """Indices that are spread evenly, ascending in each bag.

    Args:
        iters: batches.
        Bs: bags of each feature in a batch.
        L: length of a bag.
        E: rows of all tables.
        use_variable_L: whether lengths differ.
        L_offsets: (iters * sum of Bs + 1,) offsets over all batches then.
        device: of the result.
        Es: rows of each table, in place of `E`.

    Returns:
        (iters, L * sum of Bs) int32; flat where lengths differ.
    """
    lengths = _spread(iters, Bs, L, use_variable_L, L_offsets)
    limits = _row_of_each(iters, Bs, L, _rows(E, Es, len(Bs)), lengths)
    indices = (torch.rand(limits.shape, dtype=torch.float64) * limits).long()
    if lengths is None:
        indices = indices.view(iters, sum(Bs), L).sort(dim=2).values.view(iters, -1)
    else:
        bags = torch.arange(len(lengths)).repeat_interleave(lengths)
        indices = indices[(bags * (int(limits.max()) if len(limits) else 0) + indices).argsort()]
    return indices.int().to(device or get_device())


def generate_indices_zipf(
    iters: int,
    Bs: list[int],
    L: int,
    E: int,
    alpha: float,
    zipf_oversample_ratio: int,
    use_variable_L: bool,
    L_offsets: Tensor | None,
    deterministic_output: bool,
    device: torch.device | None = None,
    Es: list[int] | None = None,
) -> Tensor:
    """Indices of which few are frequent: Zipf's law over rows in an order by chance, none twice in a bag if it can be.

    Args:
        iters: batches.
        Bs: bags of each feature in a batch.
        L: length of a bag.
        E: rows of all tables.
        alpha: exponent of the law, above 1.
        zipf_oversample_ratio: how many draws there are for an index, so that the ones in a bag differ.
        use_variable_L: whether lengths differ.
        L_offsets: (iters * sum of Bs + 1,) offsets over all batches then.
        deterministic_output: whether the frequent rows are the same ones in every run.
        device: of the result.
        Es: rows of each table, in place of `E`.

    Returns:
        (iters, L * sum of Bs) int32; flat where lengths differ.

    Raises:
        OptionError: `alpha` is not above 1.
    """
    if alpha <= 1:
        raise OptionError(f"alpha is {alpha}, expected above 1.")
    rows = _rows(E, Es, len(Bs))
    lengths = _spread(iters, Bs, L, use_variable_L, L_offsets)
    by_bag = torch.tensor(rows).repeat_interleave(torch.tensor(Bs)).repeat(iters)
    counts = torch.full_like(by_bag, L) if lengths is None else lengths
    orders = {limit: _order(limit, deterministic_output) for limit in set(rows)}
    parts = []
    for limit, count in zip(by_bag.tolist(), counts.tolist(), strict=True):
        drawn = torch.from_numpy(np.random.zipf(alpha, size=count * zipf_oversample_ratio).astype(np.int64) - 1) % limit
        _, first = np.unique(drawn.numpy(), return_index=True)
        distinct = drawn[torch.from_numpy(np.sort(first))][:count]
        parts.append(orders[limit][torch.cat([distinct, drawn[: count - len(distinct)]])])
    indices = torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64)
    return (indices if use_variable_L else indices.view(iters, -1)).int().to(device or get_device())


def _order(rows: int, deterministic: bool) -> Tensor:
    generator = torch.Generator().manual_seed(0) if deterministic else None
    return torch.randperm(rows, generator=generator)


def update_indices_with_random_reuse(
    iters: int, Bs: list[int], L: int, reuse: float, indices: Tensor, device: torch.device | None = None
) -> Tensor:
    """Let each batch look up part of what the one before did.

    Args:
        iters: batches.
        Bs: bags of each feature in a batch.
        L: length of a bag.
        reuse: what part, 0 to 1.
        indices: (iters, L * sum of Bs); changed in place.
        device: of what is drawn.

    Returns:
        The same.
    """
    for later in range(1, iters):
        for feature, start in enumerate(np.cumsum([0, *Bs[:-1]]).tolist()):
            size = L * Bs[feature]
            chosen = torch.randperm(size, device=device or indices.device)[: int(size * reuse)] + start * L
            indices[later, chosen] = indices[later - 1, chosen]
    return indices


def update_indices_with_random_pruning(iters: int, B: int, T: int, L: int, indices: Tensor) -> Tensor:
    """Make a part of the indices -1, as those of rows that were pruned are.

    Args:
        iters: batches.
        B: bags of each feature.
        T: features.
        L: length of a bag.
        indices: (iters, T * B * L); changed in place.

    Returns:
        The same.
    """
    for batch in range(iters):
        share = float(torch.rand(()))
        chosen = torch.randperm(T * B * L, device=indices.device)[: int(T * B * L * share)]
        indices[batch].view(-1)[chosen] = -1
    return indices


# ----- batches --------------------------------------------------------------------------------------------------------


def generate_requests_from_data_file(
    iters: int,
    B: int,
    T: int,
    L: int,
    E: int,
    weighted: bool,
    device: torch.device,
    requests_data_file: str | None = None,
    indices_file: str | None = None,
    offsets_file: str | None = None,
    tables: str | None = None,
    index_dtype: torch.dtype | None = None,
    offset_dtype: torch.dtype | None = None,
) -> list[TBERequest]:
    """Batches that were recorded with `torch.save`: the same one, so many times.

    Args:
        iters: batches.
        B: bags of each feature.
        T: features.
        L: mean length of a bag, rounded; it must be that of the file.
        E: rows of each table.
        weighted: whether indices have factors.
        device: of the result.
        requests_data_file: a file of (indices, offsets, lengths of (features, bags)).
        indices_file: a file of indices, in its place.
        offsets_file: a file of offsets, with it.
        tables: comma-separated numbers of the features that are taken of `requests_data_file`.
        index_dtype: of indices.
        offset_dtype: of offsets.

    Raises:
        OptionError: no file or too many; the file has other features, bags or rows.
    """
    if (requests_data_file is None) == (indices_file is None) or (indices_file is None) != (offsets_file is None):
        raise OptionError("give requests_data_file, or indices_file and offsets_file.")
    if requests_data_file is not None:
        indices, offsets, lengths = torch.load(requests_data_file, weights_only=True)
        chosen = range(lengths.shape[0]) if tables is None else [int(one) for one in tables.split(",")]
        bags = lengths.shape[1]
        parts = [indices[offsets[one * bags] : offsets[(one + 1) * bags]] for one in chosen]
        counts = lengths[list(chosen)].reshape(-1).long()
        indices, offsets = torch.cat(parts), torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    else:
        assert indices_file is not None, "checked above"
        assert offsets_file is not None, "checked above"
        indices, offsets = torch.load(indices_file, weights_only=True), torch.load(offsets_file, weights_only=True)
    if offsets.numel() - 1 != T * B:
        raise OptionError(f"the file has {offsets.numel() - 1} bags, expected {T} features of {B}.")
    mean = round(indices.numel() / max(T * B, 1))
    if mean != L:
        raise OptionError(f"bags in the file have {mean} indices on average, expected L = {L}.")
    if indices.numel() and int(indices.max()) >= E:
        raise OptionError(f"the file has the index {int(indices.max())}, expected below E = {E}.")
    factors = torch.randn(indices.numel(), device=device) if weighted else None
    made = TBERequest(
        maybe_to_dtype(indices.to(device), index_dtype), maybe_to_dtype(offsets.to(device), offset_dtype), factors
    )
    return [made] * iters


def generate_requests(
    iters: int,
    B: int,
    T: int,
    L: int,
    E: int,
    reuse: float = 0.0,
    alpha: float = 1.0,
    zipf_oversample_ratio: int = 3,
    weighted: bool = False,
    requests_data_file: str | None = None,
    indices_file: str | None = None,
    offsets_file: str | None = None,
    tables: str | None = None,
    sigma_L: int | None = None,
    Ls: list[int] | None = None,
    sigma_B: int | None = None,
    emulate_pruning: bool = False,
    use_cpu: bool = False,
    deterministic_output: bool = False,
    length_dist: str = "normal",
    batch_size_dist: str = "normal",
    vbe_num_ranks: int | None = None,
    index_dtype: torch.dtype | None = None,
    offset_dtype: torch.dtype | None = None,
    Es: list[int] | None = None,
) -> list[TBERequest]:
    """Batches for a benchmark of tables.

    Args:
        iters: how many.
        B: bags of each feature.
        T: features.
        L: length of a bag, or its mean.
        E: rows of each table.
        reuse: what part of a batch the next one looks up again.
        alpha: exponent of Zipf's law; indices are spread evenly up to 1.
        zipf_oversample_ratio: see `generate_indices_zipf`.
        weighted: whether indices have factors.
        requests_data_file: see `generate_requests_from_data_file`.
        indices_file: see there.
        offsets_file: see there.
        tables: see there.
        sigma_L: spread of lengths.
        Ls: length of the bags of each feature, in place of `L`.
        sigma_B: spread of batch sizes.
        emulate_pruning: whether some indices are -1.
        use_cpu: whether they are on the CPU rather than on the accelerator.
        deterministic_output: see `generate_indices_zipf`.
        length_dist: of lengths, "normal" or "uniform".
        batch_size_dist: of batch sizes.
        vbe_num_ranks: processes, where batch sizes differ.
        index_dtype: of indices.
        offset_dtype: of offsets.
        Es: rows of each table, in place of `E`.

    Raises:
        OptionError: options that do not go together.
    """
    device = torch.device("cpu") if use_cpu else get_device()
    if requests_data_file is not None or indices_file is not None or offsets_file is not None:
        return generate_requests_from_data_file(
            iters, B, T, L, E, weighted, device, requests_data_file, indices_file, offsets_file, tables, index_dtype,
            offset_dtype,
        )  # fmt: skip
    if sigma_L is not None and Ls is not None:
        raise OptionError("sigma_L and Ls both say how long bags are; give one.")
    sizes, by_rank = [B] * T, None
    if sigma_B is not None:
        if vbe_num_ranks is None:
            raise OptionError("sigma_B goes with vbe_num_ranks, the number of processes.")
        sizes, by_rank = generate_batch_sizes_from_stats(B, T, sigma_B, vbe_num_ranks, batch_size_dist)
    ends = None
    if sigma_L is not None:
        L, ends = generate_pooling_factors_from_stats(iters, sizes, L, sigma_L, length_dist)
    elif Ls is not None:
        counts = torch.tensor(Ls).repeat_interleave(torch.tensor(sizes)).repeat(iters)
        ends = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    varies = ends is not None
    if varies and (reuse > 0 or emulate_pruning):
        raise OptionError("reuse and emulate_pruning take bags of one length; leave sigma_L and Ls out.")
    if alpha <= 1:
        indices = generate_indices_uniform(iters, sizes, L, E, varies, ends, device, Es)
    else:
        indices = generate_indices_zipf(
            iters, sizes, L, E, alpha, zipf_oversample_ratio, varies, ends, deterministic_output, device, Es
        )
    if reuse > 0:
        indices = update_indices_with_random_reuse(iters, sizes, L, reuse, indices, device)
    if emulate_pruning:
        indices = update_indices_with_random_pruning(iters, B, T, L, indices)
    bags = sum(sizes)
    made = []
    for batch in range(iters):
        if ends is None:
            mine, offsets = indices[batch], torch.arange(bags + 1) * L
        else:
            mine_ends = ends[batch * bags : (batch + 1) * bags + 1]
            mine, offsets = indices[mine_ends[0] : mine_ends[-1]], mine_ends - mine_ends[0]
        factors = torch.randn(mine.numel(), device=device) if weighted else None
        made.append(
            TBERequest(
                maybe_to_dtype(mine, index_dtype), maybe_to_dtype(offsets.to(device), offset_dtype), factors, by_rank
            )
        )
    return made
