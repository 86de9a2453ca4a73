"""A program that reads batches, notes each in a file, and is killed at any moment; run again, it goes on.

`python trainee.py KIND FOLDER STEPS WORKERS` reads with the loader KIND until STEPS batches have been noted in all. A
note is one line of the file `notes`: the batch and the state behind it, written before the next batch is asked for. A
line that was cut off by the kill does not count.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import random
import sys
import time
import warnings

import torch
from torch.utils.data import Dataset, IterableDataset, RandomSampler, get_worker_info

from flambeau.data import FastLoader
from flambeau.data.nodes import Batcher, Loader, ParallelMapper, Prefetcher, SamplerWrapper
from flambeau.data.stateful_dataloader import StatefulDataLoader

COUNT = 61


class Numbers(Dataset):
    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return index


class Lines(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return _Place(*((0, 1) if info is None else (info.id, info.num_workers)))


class _Place:
    def __init__(self, start, step):
        self.next, self.step = start, step

    def __iter__(self):
        return self

    def __next__(self):
        if self.next >= COUNT:
            raise StopIteration
        self.next += self.step
        return self.next - self.step

    def state_dict(self):
        return {"next": self.next, "step": self.step}

    def load_state_dict(self, state):
        self.next, self.step = state["next"], state["step"]


def same(item):
    return item


def unevenly(item):
    """Takes its time now and then, so that batches overtake each other."""
    if random.random() < 0.1:
        time.sleep(0.002)
    return item


def nodes(workers, method="thread"):
    node = SamplerWrapper(RandomSampler(range(COUNT)))
    node = ParallelMapper(node, same, workers, method=method, snapshot_frequency=3)
    return Loader(Prefetcher(Batcher(node, 4, drop_last=False), 3, snapshot_frequency=2))


LOADERS = {
    "nodes": nodes,
    "nodes in processes": lambda workers: nodes(workers, "process"),
    "StatefulDataLoader": lambda workers: StatefulDataLoader(Numbers(), 4, shuffle=True, num_workers=workers),
    "StatefulDataLoader of lines": lambda workers: StatefulDataLoader(Lines(), 4, num_workers=workers),
    "FastLoader": lambda workers: FastLoader(Numbers(), 4, workers, shuffle=True),
    "FastLoader of a node": lambda workers: FastLoader(
        SamplerWrapper(RandomSampler(range(COUNT))), 4, workers, in_order=False, decode=unevenly
    ),
}


def read_notes(path):
    """Batches that were noted, and the last state; what a kill cut off is dropped."""
    batches, state, good = [], None, 0
    if os.path.exists(path):
        with open(path, "rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                good += len(line)
                batch, packed = json.loads(line)
                batches.append(batch)
                state = pickle.loads(base64.b64decode(packed))
        os.truncate(path, good)
    return batches, state


def train(kind, folder, steps, workers, noted=lambda: None):
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    path = os.path.join(folder, "notes")
    batches, state = read_notes(path)
    # Every process has another global generator, but the first: only what the state holds carries over.
    torch.manual_seed(7 if state is None else os.getpid())
    loader = LOADERS[kind](workers)
    if state is not None:
        loader.load_state_dict(state)
    with open(path, "ab", buffering=0) as notes_file:
        while len(batches) < steps:
            for batch in loader:
                batches.append(batch.tolist() if isinstance(batch, torch.Tensor) else batch)
                packed = base64.b64encode(pickle.dumps(loader.state_dict())).decode()
                notes_file.write(json.dumps([batches[-1], packed]).encode() + b"\n")
                noted()
                if len(batches) >= steps:
                    return


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
