"""What share of memory's bandwidth look-ups and steps of large tables reach, beside a copy and a sum, in one process.

    python rec/benchmarks/bandwidth_benchmarks.py [--threads N] [--markdown] [--only TEXT]

Counted is what must move: each row that an index names, each pooled row, and in a step the pooled gradient, each named
row once more and back (and its state). A copy counts what it reads and what it writes. Tables are larger than any
cache, and their rows are at random places, where a copy goes through memory in order. A sum of all elements shows what
reading alone reaches, which a look-up of many rows for each pooled one mostly is.
"""

from __future__ import annotations

import importlib

import torch
from _tables import clock_for, fastest, parser
from table_batched_benchmarks import Batched

COPIED = 1 << 27  # elements of 4 bytes: half a gigabyte
# Tables, rows, columns, examples, and ids in a bag.
SIZES = [
    (4, 400_000, 128, 2048, 20),
    (2, 400_000, 256, 2048, 20),
    (1, 1_000_000, 512, 2048, 10),
]
# Bytes of optimizer state that a row's step reads, and writes.
STATES = {"EXACT_SGD": lambda dim: 0, "EXACT_ROWWISE_ADAGRAD": lambda dim: 4, "EXACT_ADAGRAD": lambda dim: 4 * dim}


def moved(size: tuple[int, int, int, int, int], optimizer: str | None) -> int:
    """Bytes that a look-up, or a step of an optimizer, reads and writes at least."""
    tables, _, dim, examples, pooled = size
    row, named = 4 * dim, tables * examples * pooled
    look_up = named * row + tables * examples * row
    if optimizer is None:
        return look_up
    return look_up + tables * examples * row + 2 * named * (row + STATES[optimizer](dim))


def main() -> None:
    """Print a row for each size and work: its rate, a copy's, and the share."""
    chosen = parser(__doc__).parse_args()
    torch.set_num_threads(chosen.threads)
    library = "flambeau.rec.fbgemm_gpu"
    importlib.import_module(library)
    source = torch.ones(COPIED)
    target = torch.empty_like(source)
    mark = "| {} | {:.1f} | {:.1f} | {} | {:.1f} |" if chosen.markdown else "{:<82}{:>10.1f}{:>14.1f}{:>8}{:>13.1f}"
    heads = ("", "GB/s", "copy, GB/s", "share", "sum, GB/s")
    head = "\n|{} | {} | {} | {} | {} |\n|---|---|---|---|---|" if chosen.markdown else "{:<82}{:>10}{:>14}{:>8}{:>13}"
    print(head.format(*heads))
    for size in SIZES:
        tables, rows, dim, examples, pooled = size
        where = f"{tables} tables of {rows:,} x {dim}, batch {examples}, {pooled} ids each"
        works = {f"look_up: {where}": None} | {f"train {name}: {where}": name for name in STATES}
        for what, optimizer in works.items():
            if chosen.only not in what:
                continue
            case = Batched(library, size, optimizer or "EXACT_SGD")
            work = case.train if optimizer else case.look_up
            works_in_turn = [work, lambda: target.copy_(source), source.sum]
            times = fastest(works_in_turn, 7, clock=clock_for(chosen.threads))
            ours, copy = moved(size, optimizer) / times[0] / 1e9, 8 * COPIED / times[1] / 1e9
            read = 4 * COPIED / times[2] / 1e9
            bound = 0.4 if optimizer else 0.7
            share = f"{ours / copy:.2f}"
            marked = f"**{share}**" if ours / copy < bound and chosen.markdown else share
            print(mark.format(what, ours, copy, marked, read), flush=True)


if __name__ == "__main__":
    main()
