"""A program that trains tables on disk and is killed, again and again, by itself: `python training_to_kill.py FOLDER`.

It prints, as JSON, the steps of the checkpoints that were found after the kills, and what was wrong with them.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from functools import partial

import torch

from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    EmbeddingLocation,
    SplitTableBatchedEmbeddingBagsCodegen,
)
from flambeau.rec.fbgemm_gpu.tbe.ssd import SSDTableBatchedEmbeddingBags

SPECS = [(3000, 16), (500, 8)]
STEPS = 100_000  # of a life; it ends before


def tables(folder):
    torch.manual_seed(0)
    return SSDTableBatchedEmbeddingBags(SPECS, None, 4, folder, tbe_unique_id=0, learning_rate=0.1)


def step(module, number):
    generator = torch.Generator().manual_seed(number)
    indices = torch.cat([torch.randint(0, rows, (60,), generator=generator) for rows, _ in SPECS])
    module(indices, torch.arange(0, 121, 3)).square().sum().backward()


def train(folder):
    module = tables(folder)
    for number in range(module.step, STEPS):
        step(module, number)
        if number % 3 == 2:
            module.checkpoint(json.dumps({"next": number + 1}).encode())


def check(folder, seen):
    """What is wrong with the checkpoint; it is compared with tables in memory that made as many steps."""
    module = tables(folder)
    if module.restored is None:
        return 0, None
    if json.loads(module.restored)["next"] != module.step:
        return module.step, f"step {module.step} with {module.restored!r}"
    held = SplitTableBatchedEmbeddingBagsCodegen(
        [(*spec, EmbeddingLocation.HOST, ComputeDevice.CPU) for spec in SPECS],
        optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD, learning_rate=0.1,
    )  # fmt: skip
    for table, weight in enumerate(held.split_embedding_weights()):
        rows = torch.arange(len(weight)).numpy()
        weight.copy_(torch.from_numpy(module.tables.initial_rows(table, rows)))
    for number in range(module.step):
        step(held, number)
    same = all(
        torch.equal(one, other)
        for one, other in zip(module.debug_split_embedding_weights(), held.split_embedding_weights(), strict=True)
    ) and all(
        torch.equal(one[0], other[0])
        for one, other in zip(module.split_optimizer_states(), held.split_optimizer_states(), strict=True)
    )
    if not same:
        return module.step, f"the tables are not those of step {module.step}"
    if module.step < seen:
        return module.step, f"step {seen} was there before, and {module.step} is now"
    return module.step, None


def child(work):
    """Run in a process of its own that has torch already; gives its number and where its answer comes from."""
    end, begin = os.pipe()
    pid = os.fork()
    if pid:
        os.close(begin)
        return pid, end
    try:
        os.write(begin, json.dumps(work()).encode())
    except BaseException:
        os.write(begin, json.dumps([-1, traceback.format_exc()[-2000:]]).encode())
    os._exit(0)


def main(folder, kills, seed):
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as other:  # what is loaded once need not be loaded in every life
        module = tables(other)
        step(module, 0)
        module.close()
    chance, found, seen = random.Random(seed), [], 0
    for _ in range(kills):
        pid, end = child(lambda: train(folder))
        time.sleep(chance.uniform(0.0, 0.3))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(end)
        pid, end = child(partial(check, folder, seen))
        with os.fdopen(end) as answer:
            step_found, wrong = json.loads(answer.read())
        os.waitpid(pid, 0)
        found.append([step_found, wrong])
        if wrong:
            break
        seen = step_found
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
