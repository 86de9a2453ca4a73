"""Operators on sparse batches, rows and columns beside FBGEMM's and torch's, in one process.

    python rec/benchmarks/operator_benchmarks.py [--only TEXT] [--threads N] [--markdown]

Times are CPU time of one thread (wall time with more), the best of several repetitions, all in turn. Without FBGEMM,
which `tools/peers.py` installs, torch alone stands beside ours.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from _tables import Table, clock_for, fastest, parser

import flambeau.rec  # torch.ops.flambeau_rec
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS  # as the package's functions call them

Work = Callable[[], Any]


def batch(features: int, size: int, mean: int, *, rows: int = 1_000_000) -> tuple[torch.Tensor, ...]:
    """Lengths (features, size), offsets and indices of bags with `mean` indices on average."""
    lengths = torch.randint(0, 2 * mean + 1, (features, size))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.flatten().cumsum(0)])
    return lengths, offsets, torch.randint(0, rows, (int(lengths.sum()),))


Select = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def learning(select: Select, table: torch.Tensor, ids: torch.Tensor) -> Work:
    """Forward and backward."""
    leaf = table.clone().requires_grad_()
    flow = torch.ones(len(ids), table.shape[1])

    def work() -> None:
        leaf.grad = None
        select(leaf, ids).backward(flow)

    return work


def rows_of_tables(ours: Any, peer: Any) -> Iterator[tuple[str, Work, Work | None, Work | None]]:
    for rows, width, count in (
        (1_000_000, 64, 100_000),
        (1_000_000, 16, 100_000),
        (10_000, 128, 50_000),
        (1_000, 32, 256),
    ):
        table, ids = torch.rand(rows, width), torch.randint(0, rows, (count,))
        yield (
            f"index_select_dim0, {count} of {rows} x {width}",
            lambda t=table, i=ids: ours.index_select_dim0(t, i),
            peer and (lambda t=table, i=ids: peer.index_select_dim0(t, i)),
            lambda t=table, i=ids: torch.index_select(t, 0, i),
        )
    for rows, width, count in ((100_000, 64, 100_000), (1_000, 64, 100_000)):
        table, ids = torch.rand(rows, width), torch.randint(0, rows, (count,))
        yield (
            f"index_select_dim0 and gradient, {count} of {rows} x {width}",
            learning(ours.index_select_dim0, table, ids),
            peer and learning(peer.index_select_dim0, table, ids),
            learning(lambda t, i: torch.index_select(t, 0, i), table, ids),
        )
    group, chosen = [torch.rand(5_000, 64) for _ in range(20)], [torch.randint(0, 5_000, (2_000,)) for _ in range(20)]
    yield (
        "group_index_select_dim0, 20 of 5000 x 64",
        lambda: ours.group_index_select_dim0(group, chosen),
        peer and (lambda: peer.group_index_select_dim0(group, chosen)),
        lambda: [one[ids] for one, ids in zip(group, chosen, strict=True)],
    )
    flat, ids = torch.cat([one.flatten() for one in group]), torch.cat(chosen)
    layout = [2_000] * 20, [5_000] * 20, [64] * 20
    yield (
        "batch_index_select_dim0, 20 of 5000 x 64",
        lambda: ours.batch_index_select_dim0(flat, ids, *layout),
        peer and (lambda: peer.batch_index_select_dim0(flat, ids, *layout)),
        None,
    )


def columns(ours: Any, peer: Any) -> Iterator[tuple[str, Work, Work | None, Work | None]]:
    for size, features, width in ((128, 20, 32), (1_024, 40, 64), (8_192, 40, 64)):
        half = features // 2
        keys = [[f"{table}-{at}" for at in range(half)] for table in range(2)]
        widths = [[width] * half] * 2
        pooled = [torch.rand(size, half * width) for _ in range(2)]
        names = keys[0] + keys[1]
        groups = [names[::2], names[1::2], names[:3]]
        views = {key: pooled[t][:, at * width : (at + 1) * width] for t in range(2) for at, key in enumerate(keys[t])}
        made = ours.kt_regroup_arguments(pooled[0], keys, widths, groups)
        what = f"{features} features x {width}, batch {size}"
        by_names = (pooled, keys, widths, groups)
        yield (
            f"regroup_keyed_tensor, {what}",
            lambda a=by_names: ours.regroup_keyed_tensor(*a),
            peer and (lambda a=by_names: peer.regroup_keyed_tensor(*a)),
            lambda v=views, g=groups: [torch.cat([v[key] for key in one], 1) for one in g],
        )
        yield (
            f"permute_multi_embedding, {what}",
            lambda p=pooled, m=made: ours.permute_multi_embedding(p, *m),
            peer and (lambda p=pooled, m=made: peer.permute_multi_embedding(p, *m)),
            lambda v=views, g=groups: [torch.cat([v[key] for key in one], 1) for one in g],
        )
        order = torch.randperm(half)
        begins = torch.arange(half + 1) * width
        lists = begins, order, begins, torch.argsort(order)
        yield (
            f"permute_pooled_embs, {half} features x {width}, batch {size}",
            lambda p=pooled[0], a=lists: ours.permute_pooled_embs(p, *a),
            peer and (lambda p=pooled[0], a=lists: peer.permute_pooled_embs(p, *a)),
            lambda p=pooled[0], o=order, w=width: p.view(len(p), -1, w)[:, o].flatten(1),
        )


def batches(ours: Any, peer: Any) -> Iterator[tuple[str, Work, Work | None, Work | None]]:
    for features, size, mean in ((26, 128, 1), (26, 2_048, 10), (4, 64, 5)):
        lengths, offsets, ids = batch(features, size, mean)
        what = f"{features} features, batch {size}, {mean} each"
        flat, weights = lengths.flatten(), torch.rand(len(ids))
        blocks = torch.full((features,), 125_000)
        rows, warning = torch.full((features,), 1_000_000), torch.zeros(1, dtype=torch.int64)
        calls = {
            "block_bucketize_sparse_features": (flat, ids, False, True, blocks, 8),
            "block_bucketize_sparse_features, weighted": (flat, ids, True, True, blocks, 8, weights),
            "bucketize_sparse_features": (flat, ids, False, 8),
            "bounds_check_indices": (rows, ids, offsets, 1, warning),
            "offsets_range": (offsets[:-1], len(ids)),
            "lengths_range": (flat,),
            "segment_sum_csr": (1, offsets, weights),
            "expand_into_jagged_permute": expansion(lengths),
            "get_unique_indices": (ids, 1_000_001, True),
        }
        for name, arguments in calls.items():
            operator = name.partition(",")[0]
            yield (
                f"{name}, {what}",
                lambda o=operator, a=arguments: getattr(ours, o)(*a),
                peer and (lambda o=operator, a=arguments: getattr(peer, o)(*a)),
                None,
            )
        lists = list(ids.split(lengths.sum(1).tolist())), list(lengths.unbind()), [torch.empty(0)] * features
        yield (
            f"tbe_input_combine_with_length, {what}",
            lambda a=lists: ours.tbe_input_combine_with_length(*a),
            peer and (lambda a=lists: peer.tbe_input_combine_with_length(*a)),
            None,
        )


def expansion(lengths: torch.Tensor) -> tuple[Any, ...]:
    """A random order of features, as `expand_into_jagged_permute` takes it."""
    counts = lengths.sum(1)
    order = torch.randperm(len(counts))
    ends = [torch.cat([torch.zeros(1, dtype=torch.int64), one.cumsum(0)]) for one in (counts, counts[order])]
    return order, *ends, int(counts.sum())


def dense(ours: Any, peer: Any) -> Iterator[tuple[str, Work, Work | None, Work | None]]:
    bias, a, b = torch.rand(16, 64), torch.rand(512, 16, 64), torch.rand(16, 64, 64)
    yield (
        "permute102_baddbmm_permute102, 512 x 16 x 64",
        lambda: ours.permute102_baddbmm_permute102(bias, a, b),
        peer and (lambda: peer.permute102_baddbmm_permute102(bias, a, b)),
        lambda: torch.baddbmm(bias[:, None], a.transpose(0, 1), b).transpose(0, 1),
    )
    counts, hits, logits = torch.full((5_000,), 2e4).double(), torch.full((5_000,), 1e3).double(), torch.randn(100_000)
    last = 0.4, 0.0, 1.0, 10_000, 0.9995
    yield (
        "histogram_binning_calibration, 100000",
        lambda: ours.histogram_binning_calibration(logits, counts, hits, *last),
        peer and (lambda: peer.histogram_binning_calibration(logits, counts, hits, *last)),
        None,
    )
    table, tables = torch.rand(4, 30_000), torch.tensor([0, 10_000, 20_000, 30_000])
    _, offsets, ids = batch(3, 1_024, 10, rows=10_000)
    yield (
        "batched_unary_embeddings, 4 tasks, 3 tables, batch 1024",
        lambda: ours.batched_unary_embeddings(table, tables, offsets, ids),
        peer and (lambda: peer.batched_unary_embeddings(table, tables, offsets, ids)),
        None,
    )


def main() -> None:
    """Print the table."""
    options = parser(__doc__).parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    clock = clock_for(options.threads)
    try:
        importlib.import_module("fbgemm_gpu")
        peer = torch.ops.fbgemm
    except ImportError:
        peer = None
    print(f"torch {torch.__version__}, flambeau-rec {flambeau.rec.__version__}, tier {LIBRARY.provider}")
    table = Table(f"Operators, {options.threads} threads", "us", ["FBGEMM", "torch"], options.markdown)
    for family in (rows_of_tables, columns, batches, dense):
        for what, *works in family(OPS, peer):
            if options.only in what:
                there = [work for work in works if work]
                seconds = dict(zip(map(id, there), fastest(there, clock=clock), strict=True))
                ours, *others = (seconds.get(id(work)) for work in works)
                table.row(what, ours or 0.0, *others)


if __name__ == "__main__":
    main()
