"""Preprocessing of click logs, as for recommender models: frames beside pandas, plain Polars and Ray Data.

    python data/benchmarks/frame.py [--rows 1000000] [--only frame polars pandas ray scale]
    python data/benchmarks/frame.py --hashing [--rows 1000000]

The files are made for the purpose, like the Criteo logs: 13 counts (int32) and 26 ids (8 hexadecimal digits, 10 to
200,000 different ones), a fifth of all values missing. The work, by every engine: counts are filled, held
above zero and become log(1 + x) in float32; ids become numbers modulo 1,000,000; both are handed over as tensors in
batches of 131,072 rows. Each engine runs in a process of its own, which does a few rows first; all sums must agree, and
CPU seconds (of all its processes; for Linux) are what counts on a machine that others use. Ratios are to the frame's.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

COUNTS = [f"int_{place}" for place in range(13)]
IDS = [f"cat_{place}" for place in range(26)]
BATCH = 131_072
MODULO = 1_000_000
Batches = Iterator[tuple[Any, Any]]


def write_files(folder: Path, rows: int, files: int = 5) -> None:
    """The logs, deterministic."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator = np.random.default_rng(0)
    for number in range(files):
        size = rows // files
        columns: dict[str, Any] = {}
        for name in COUNTS:
            values = generator.geometric(0.01, size).astype(np.int32) - 2
            columns[name] = pa.array(values, mask=generator.random(size) < 0.2)
        for place, name in enumerate(IDS):
            kinds = np.geomspace(10, 200_000, len(IDS)).astype(int)[place]
            drawn = generator.integers(0, kinds, size).astype(np.uint64) * 2_654_435_761 % (1 << 32)
            names, codes = np.unique(drawn, return_inverse=True)
            texts = pa.array([f"{one:08x}" for one in names])
            mask = generator.random(size) < 0.2
            columns[name] = pa.DictionaryArray.from_arrays(pa.array(codes, mask=mask), texts).cast(pa.string())
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=BATCH)


def frame(folder: Path) -> Batches:
    """Frames on one machine."""
    import flambeau.data.frame as ta
    from flambeau.data.frame.pytorch import rec

    dense, sparse = rec.Dense(batch_first=True), rec.Dense(batch_first=True)
    for batch in ta.reader(folder, BATCH, plan=_program(ta.scan_parquet(folder))):
        batch = batch.collect()
        yield batch[COUNTS].to_tensor(dense), batch[IDS].to_tensor(sparse)


def _program(logs: Any) -> Any:
    for name in COUNTS:
        logs[name] = (logs[name].fill_null(0).clip(low=0) + 1).log()
    for name in IDS:
        logs[name] = logs[name].fill_null("0").str.to_integer(16) % MODULO
    return logs


def polars(folder: Path) -> Batches:
    """Polars as its manual says."""
    import polars as pl
    import torch

    query = pl.scan_parquet(folder / "*.parquet").select(
        *[pl.col(name).fill_null(0).clip(0).cast(pl.Float32).log1p() for name in COUNTS],
        *[pl.col(name).fill_null("0").str.to_integer(base=16) % MODULO for name in IDS],
    )
    for batch in query.collect_batches(chunk_size=BATCH, maintain_order=True):
        yield (
            torch.from_numpy(batch.select(COUNTS).to_numpy(writable=True)),
            torch.from_numpy(batch.select(IDS).to_numpy(writable=True)),
        )


def pandas(folder: Path) -> Batches:
    """Pandas, file by file."""
    import pandas as pd
    import torch

    for file in sorted(folder.glob("*.parquet")):
        logs = pd.read_parquet(file)
        counts = np.log1p(logs[COUNTS].fillna(0).clip(lower=0).to_numpy(np.float32))
        ids = np.stack([_pandas_ids(logs[name]) for name in IDS], axis=1)
        for start in range(0, len(logs), BATCH):
            yield torch.from_numpy(counts[start : start + BATCH]), torch.from_numpy(ids[start : start + BATCH])


def _pandas_ids(column: Any) -> np.ndarray[Any, Any]:
    return column.fillna("0").map(lambda text: int(text, 16) % MODULO).to_numpy(np.int64)


def ray(folder: Path) -> Batches:
    """Ray Data with Pandas batches, as its manual says."""
    import ray as module
    import torch

    _start(module)

    def work(logs: Any) -> dict[str, Any]:
        counts = np.log1p(logs[COUNTS].fillna(0).clip(lower=0).to_numpy(np.float32))
        return {"counts": counts, "ids": np.stack([_pandas_ids(logs[name]) for name in IDS], axis=1)}

    dataset = module.data.read_parquet(str(folder)).map_batches(work, batch_format="pandas", batch_size=BATCH)
    for batch in dataset.iter_batches(batch_format="numpy", batch_size=BATCH):
        yield torch.from_numpy(batch["counts"]), torch.from_numpy(batch["ids"])


def scale(folder: Path) -> Batches:
    """The frame's program on Ray."""
    import ray as module

    import flambeau.data.frame as ta
    from flambeau.data.frame.pytorch import rec

    _start(module)
    conversion = rec.Dense(batch_first=True)
    for block in (
        _program(ta.scan_parquet(folder)).to_ray(module).iter_batches(batch_format="pyarrow", batch_size=BATCH)
    ):
        batch = ta.from_arrow(block)
        yield batch[COUNTS].to_tensor(conversion), batch[IDS].to_tensor(conversion)


def _start(module: Any) -> None:
    if not module.is_initialized():
        module.init(include_dashboard=False, logging_level="error")
        module.data.DataContext.get_current().enable_progress_bars = False


ENGINES: dict[str, Callable[[Path], Batches]] = {
    "frame": frame,
    "polars": polars,
    "pandas": pandas,
    "ray": ray,
    "scale": scale,
}


def run(name: str, folder: Path) -> None:
    """Run one engine in this process, and print what it took."""
    import torch

    # Imports, and the start of a cluster, are not part of the work.
    for _ in ENGINES[name](folder / "few"):
        pass
    folder = folder / "many"
    begin, rows, counts, ids = time.perf_counter(), 0, 0.0, 0
    before = _cpu()
    for dense, sparse in ENGINES[name](folder):
        rows += len(dense)
        counts += float(dense.sum(dtype=torch.float64))
        ids += int(sparse.sum())
    wall, cpu = time.perf_counter() - begin, _cpu() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"rows": rows, "counts": counts, "ids": ids, "wall": wall, "cpu": cpu, "peak": peak}))


def _cpu() -> float:
    """CPU seconds of this process and of all that it and they have started and that still run."""
    ticks, parents = {}, {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended while the others were read
        number = int(entry.parent.name)
        parents[number], ticks[number] = int(fields[1]), int(fields[11]) + int(fields[12])
    ours = {os.getpid()}
    while more := {number for number, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(ticks[number] for number in ours) / os.sysconf("SC_CLK_TCK")


def hashing(rows: int) -> int:
    """26 columns of ids in memory, hashed into one tensor: by a frame, by NumPy and by Polars; best of five."""
    import polars as pl
    import torch

    import flambeau.data.frame as ta
    from flambeau.data.frame import functional, reference
    from flambeau.data.frame.pytorch import rec

    ids = {name: np.random.default_rng(place).integers(0, 1 << 40, rows) for place, name in enumerate(IDS)}

    def by_frame() -> torch.Tensor:
        columns = ta.dataframe(ids)
        for name in IDS:
            columns[name] = functional.sigrid_hash(columns[name], 0, MODULO)
        made: torch.Tensor = columns.to_tensor(rec.Dense(batch_first=True))
        return made

    def by_numpy() -> torch.Tensor:
        return torch.from_numpy(np.stack([reference.sigrid_hash(one, 0, MODULO) for one in ids.values()], axis=1))

    def by_polars() -> torch.Tensor:  # a hash of its own: it has no other
        query = pl.DataFrame(ids).lazy().select((pl.all().hash(0) % MODULO).cast(pl.Int64))
        return torch.from_numpy(query.collect().to_numpy(order="c", writable=True))

    if not torch.equal(by_frame(), by_numpy()):
        print("TENSORS DIFFER")
        return 1
    print(f"| 26 hashed columns, {rows} rows, to one tensor | wall s | CPU s | CPU to frame |\n|---|---|---|---|")
    base = 0.0
    for name, work in (("frame", by_frame), ("numpy", by_numpy), ("polars (another hash)", by_polars)):
        wall, cpu = min(_times(work) for _ in range(5))
        base = base or cpu
        print(f"| {name} | {wall:.2f} | {cpu:.2f} | {cpu / base:.1f} |")
    return 0


def _times(work: Callable[[], Any]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> int:
    """Make the files, run every engine, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=[*ENGINES])
    parser.add_argument("--hashing", action="store_true", help="hashed columns in memory to one tensor, alone")
    parser.add_argument("--run", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(options.run, options.folder)
        return 0
    if options.hashing:
        return hashing(options.rows)
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in (("few", 1000), ("many", options.rows)):
            (Path(folder) / name).mkdir()
            write_files(Path(folder) / name, rows)
        for name in options.only:
            command = [sys.executable, __file__, "--run", name, "--folder", folder]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{name}: not run: {done.stderr.strip().splitlines()[-1]}")
                continue
            results[name] = json.loads(done.stdout.strip().splitlines()[-1])
    return report(results)


def report(results: dict[str, dict[str, float]]) -> int:
    """Print the table; 1 when the engines' sums differ."""
    first = next(iter(results.values()))
    base = results.get("frame", first)["cpu"]
    print(
        "| engine | rows | wall s | CPU s | CPU s per 1M rows | CPU to frame | peak GB |\n|---|---|---|---|---|---|---|"
    )
    agree = True
    for name, one in results.items():
        per_million = one["cpu"] / one["rows"] * 1e6
        times = f"{one['wall']:.1f} | {one['cpu']:.1f} | {per_million:.1f} | {one['cpu'] / base:.2f}"
        print(f"| {name} | {one['rows']:.0f} | {times} | {one['peak']:.2f} |")
        agree &= one["ids"] == first["ids"] and abs(one["counts"] / first["counts"] - 1) < 1e-6
    print("all sums agree" if agree else "SUMS DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
