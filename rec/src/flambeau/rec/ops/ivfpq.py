"""The scan of an inverted file of product-quantized vectors; the native kernel is `native/ivfpq.cpp`.

Of every vector in the chosen lists a sum is made of a number of its list, an entry of a table for each byte of its
code, and a number of its own; the smallest sums are kept (Jegou et al. 2011, section IV-B).
"""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._checks import require
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = ["ivfpq_scan"]

_OP = "ivfpq_scan"
_ENTRIES = 256
_AT_ONCE = 1 << 22  # entries of tables that are gathered at a time


def ivfpq_scan(
    products: Tensor, coarse: Tensor, lists: Tensor, offsets: Tensor, codes: Tensor, norms: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """The smallest sums of the vectors in some lists.

    Args:
        products: (n, M, 256) float32: of each query a table for each byte of a code.
        coarse: (n, P) float32: what a list adds.
        lists: (n, P) int64: the lists to look at, each of a query once.
        offsets: (L + 1,) int64: where each list begins, and the last ends.
        codes: (N, M) uint8, list after list.
        norms: (N,) float32: what a vector adds.
        k: sums to keep, at least 1.

    Returns:
        Sums (n, k) float32, ascending, inf where the lists hold fewer; and rows of `codes` (n, k) int64, -1 there.

    Raises:
        RuntimeError: other shapes or dtypes, or a list or an offset that leads out.
    """
    return OPS.ivfpq_scan(products, coarse, lists, offsets, codes, norms, k)  # type: ignore[no-any-return]


def _check(
    products: Tensor, coarse: Tensor, lists: Tensor, offsets: Tensor, codes: Tensor, norms: Tensor, k: int
) -> None:
    float32, int64 = torch.float32, torch.int64
    queries, parts = products.shape[:2] if products.dim() == 3 else (-1, -1)
    for name, tensor, fits, wanted in (
        ("products", products, products.dim() == 3 and products.shape[2] == _ENTRIES, "(n, M, 256)"),
        ("coarse", coarse, coarse.dim() == 2 and coarse.shape[0] == queries, "(n, P)"),
        ("lists", lists, lists.shape == coarse.shape, "that of coarse"),
        ("offsets", offsets, offsets.dim() == 1 and offsets.shape[0] >= 1, "(L + 1,)"),
        ("codes", codes, codes.dim() == 2 and codes.shape[1] == parts, "(N, M)"),
        ("norms", norms, norms.shape == codes.shape[:1], "(N,)"),
    ):
        require(fits, f"{_OP}: {name} has shape {tuple(tensor.shape)}, expected {wanted}.")
    for name, tensor, dtype in (
        ("products", products, float32),
        ("coarse", coarse, float32),
        ("norms", norms, float32),
        ("lists", lists, int64),
        ("offsets", offsets, int64),
        ("codes", codes, torch.uint8),
    ):
        require(tensor.dtype == dtype, f"{_OP}: {name} has dtype {tensor.dtype}, expected {dtype}.")
    require(k >= 1, f"{_OP}: k is {k}, expected at least 1.")


def _check_values(lists: Tensor, offsets: Tensor, codes: Tensor) -> None:
    count = offsets.shape[0] - 1
    require(
        int(offsets[0]) == 0 and int(offsets[-1]) == len(codes) and bool((offsets.diff() >= 0).all()),
        f"{_OP}: offsets are not rising from 0 to the {len(codes)} rows of codes.",
    )
    require(
        not lists.numel() or 0 <= int(lists.min()) <= int(lists.max()) < count,
        f"{_OP}: lists has numbers outside of the {count} lists.",
    )


def _fake(
    products: Tensor, coarse: Tensor, lists: Tensor, offsets: Tensor, codes: Tensor, norms: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    _check(products, coarse, lists, offsets, codes, norms, k)
    shape = (products.shape[0], k)
    return products.new_empty(shape), lists.new_empty(shape)


def _reference(
    products: Tensor, coarse: Tensor, lists: Tensor, offsets: Tensor, codes: Tensor, norms: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    _check(products, coarse, lists, offsets, codes, norms, k)
    _check_values(lists, offsets, codes)
    sums = products.new_full((len(products), k), torch.inf)
    rows = lists.new_full((len(products), k), -1)
    counts = offsets.diff()[lists]
    longest = int(counts.sum(1).max()) if counts.numel() else 0
    if not longest:
        return sums, rows
    place = torch.arange(longest, device=lists.device)
    step = max(1, _AT_ONCE // (longest * max(codes.shape[1], 1)))
    for begin in range(0, len(products), step):
        part = slice(begin, begin + step)
        ends = counts[part].cumsum(1)
        at = torch.searchsorted(ends, place.expand(len(ends), -1), right=True)
        inside = at < ends.shape[1]
        at = at.clamp(max=ends.shape[1] - 1)
        row = (offsets[lists[part]] - ends + counts[part]).gather(1, at) + place
        row = row.where(inside, 0)
        found = products[part].gather(2, codes[row].transpose(1, 2).long()).sum(1)
        found = (found + coarse[part].gather(1, at) + norms[row]).masked_fill_(~inside, torch.inf)
        best = found.topk(min(k, longest), largest=False)
        sums[part, : best.values.shape[1]] = best.values
        rows[part, : best.values.shape[1]] = row.gather(1, best.indices).where(best.values < torch.inf, -1)
    return sums, rows


register_op(
    f"{_OP}(Tensor products, Tensor coarse, Tensor lists, Tensor offsets, Tensor codes, Tensor norms, int k) "
    "-> (Tensor, Tensor)",
    library=LIBRARY,
    fake=_fake,
    python=_reference,
)
