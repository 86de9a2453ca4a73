"""One preprocessing program on one machine and on a cluster of Ray, with equal results.

    python data/examples/frame_on_a_cluster.py [--rows 100000] [--address auto]

Makes Parquet files like those of click logs, fills and scales their numbers, hashes their ids, keeps the rows with a
click or a recent visit, and computes what comes of it twice: by Polars here, and by Ray, which is started on this
machine unless an address is given. `program` is the same function both times.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import flambeau.data.frame as ta
from flambeau.data.frame import dtypes as dt
from flambeau.data.frame import functional, me


def write_files(folder: Path, rows: int, files: int = 4) -> None:
    """Click logs: a label, two counts that may be missing, a hexadecimal id, and the last items seen."""
    generator = np.random.default_rng(0)
    for number in range(files):
        size = rows // files
        counts = generator.integers(0, 1000, (2, size))
        items = np.split(generator.integers(0, 1 << 40, 3 * size), np.sort(generator.integers(0, 3 * size, size - 1)))
        frame = ta.dataframe(
            {
                "label": ta.column(generator.integers(0, 2, size).astype(np.int8)),
                "visits": [int(one) if one % 5 else None for one in counts[0]],
                "age_days": [int(one) if one % 7 else None for one in counts[1]],
                "campaign": [f"{one:08x}" for one in generator.integers(0, 1 << 32, size)],
                "items": [one.tolist() for one in items],
            }
        )
        pq.write_table(frame.to_arrow(), folder / f"clicks_{number}.parquet", row_group_size=max(size // 2, 1))


def program(frame: ta.DataFrame) -> ta.DataFrame:
    """What is done to the logs, wherever they are."""
    frame["visits"] = (frame["visits"].fill_null(0) + 1).log()
    frame["age"] = functional.bucketize(frame["age_days"].fill_null(-1), [0, 1, 7, 30, 365])
    frame["campaign"] = frame["campaign"].map(campaign_number, dtype=dt.int64) % 100_000
    frame["items"] = functional.sigrid_hash(functional.firstx(frame["items"], 5), salt=7, max_value=1_000_000)
    kept = frame.where((me["label"] == 1) | (me["age"] < 3))
    kept["visits"] = functional.scale_to_0_1(kept["visits"])
    return kept.drop("age_days")


def campaign_number(text: str) -> int:
    """A hexadecimal id as a number; a function of Python, to show that such travel too."""
    return int(text, 16)


def main() -> None:
    """Run both ways, compare, and say how long each took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--address", help="of a running cluster; a local one is started by default")
    options = parser.parse_args()
    import ray

    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), options.rows)
        begin = time.perf_counter()
        here = program(ta.scan_parquet(folder)).to_arrow()
        print(f"here:     {here.num_rows} rows in {time.perf_counter() - begin:.2f} s")
        ray.init(address=options.address, include_dashboard=False, logging_level="error")
        begin = time.perf_counter()
        there = program(ta.scan_parquet(folder).scale(ray)).to_arrow()
        print(f"cluster:  {there.num_rows} rows in {time.perf_counter() - begin:.2f} s")
        ray.shutdown()
    print("equal" if here.equals(there) else "DIFFERENT")
    if not here.equals(there):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
