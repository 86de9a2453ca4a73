"""Train a table that is larger than memory, be killed in the middle, and go on from the last checkpoint.

::

    python train_larger_than_memory.py                                     # 50 MB, some seconds
    python train_larger_than_memory.py --gigabytes 20 --steps 60 --ids 60000 --folder /data/tables

The table is on disk, and a cache in memory; rows that were never looked up take no space. The rest of the model is kept
with each checkpoint of the table, so that both are always of the same step. The first life of the program ends by
SIGKILL between two checkpoints; the second one goes on where the last checkpoint was, and trains to the end.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType
from flambeau.rec.fbgemm_gpu.tbe.ssd import ASSOC, SSDTableBatchedEmbeddingBags


def batch(step: int, ids: int, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """The batch of a step, the same in every life: ids, where bags of four begin, and what is to be predicted."""
    generator = torch.Generator().manual_seed(step)
    # Half of them are from the first thousandth of the table, as a few items are looked up all the time.
    found = (torch.rand(ids, generator=generator, dtype=torch.float64) * rows).long()
    found[::2] //= 1000
    offsets = torch.arange(0, ids + 1, 4)
    wanted = (found.view(-1, 4).sum(1) % 2).float()
    return found, offsets, wanted


def train(options: argparse.Namespace) -> None:
    """One life of the program."""
    torch.manual_seed(0)
    rows = int(options.gigabytes * 1e9 / (4 * options.columns))
    table = SSDTableBatchedEmbeddingBags(
        [(rows, options.columns)],
        None,
        max(int(options.cache_mib * 2**20 / (4 * options.columns) / ASSOC), 1),
        options.folder,
        optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        learning_rate=0.05,
        tbe_unique_id=0,
    )
    over = nn.Linear(options.columns, 1)
    optimizer = torch.optim.Adagrad(over.parameters(), lr=0.05)
    if table.restored:
        state = torch.load(io.BytesIO(table.restored), weights_only=True)
        over.load_state_dict(state["over"])
        optimizer.load_state_dict(state["optimizer"])
    begin, started = table.step, time.monotonic()
    losses = []
    for step in range(begin, options.steps):
        if step == options.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        ids, offsets, wanted = batch(step, options.ids, rows)
        loss = nn.functional.binary_cross_entropy_with_logits(over(table(ids, offsets)).view(-1), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % options.checkpoint_every == 0 or step + 1 == options.steps:
            memory = io.BytesIO()
            torch.save({"over": over.state_dict(), "optimizer": optimizer.state_dict()}, memory)
            table.checkpoint(memory.getvalue())
            print(f"step {step + 1}: checkpoint, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    on_disk = sum(path.stat().st_blocks * 512 for path in table.folder.iterdir())
    counts = table.tables.counts
    report = {
        "first step": begin,
        "last step": table.step,
        "table, GB": round(rows * options.columns * 4 / 1e9, 3),
        "on disk, GB": round(on_disk / 1e9, 3),
        "most memory of the process, GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 3),
        "rows found in the cache": round(1 - counts.misses / max(counts.unique, 1), 3),
        "rows per second": int(counts.unique / (time.monotonic() - started)),
        "loss": [round(losses[0], 4), round(losses[-1], 4)],
    }
    table.close()
    print(json.dumps(report))


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=0.05, help="of the table")
    parser.add_argument("--columns", type=int, default=64, help="of the table")
    parser.add_argument("--cache-mib", type=float, default=8.0, help="of the rows in memory")
    parser.add_argument("--steps", type=int, default=30, help="to train")
    parser.add_argument("--ids", type=int, default=4000, help="of a batch, a multiple of 4")
    parser.add_argument("--checkpoint-every", type=int, default=10, help="steps from one checkpoint to the next")
    parser.add_argument("--kill-at", type=int, help="the step at which the program is killed; in the middle by default")
    parser.add_argument("--folder", help="where the table goes; a temporary one by default")
    parser.add_argument("--life", action="store_true", help="run one life of the program, and not two")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> dict[str, object]:
    """Two lives of the program, the first of which is killed; the report of the second one."""
    options = arguments(given)
    if options.life:
        train(options)
        return {}
    with tempfile.TemporaryDirectory() as temporary:
        kill_at = options.steps // 2 + options.checkpoint_every // 3 if options.kill_at is None else options.kill_at
        passed = [f"--{name.replace('_', '-')}={value}" for name, value in vars(options).items()
                  if name not in ("kill_at", "life", "folder")]  # fmt: skip
        command = [sys.executable, str(Path(__file__)), "--life", f"--folder={options.folder or temporary}", *passed]
        first = subprocess.run([*command, f"--kill-at={kill_at}"], check=False)
        print(f"the first life ended by signal {-first.returncode} at step {kill_at}")
        second = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    report: dict[str, object] = json.loads(second.stdout)
    for name, value in report.items():
        print(f"{name}: {value}")
    return report


if __name__ == "__main__":
    main()
