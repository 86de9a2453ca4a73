"""Loaders beside torch's DataLoader, torchdata and webdataset, in one process.

    python data/benchmarks/loaders.py [--images 256] [--tokens 20000] [--repetitions 3]

Three tables: JPEG pictures from tar shards, decoded and resized; token sequences, where the machinery is what costs;
and the price of a state after every batch. Times are of the clock, the best of several repetitions taken in turn; the
last column is a loader's time over that of the first. A peer that is not installed is left out:

    pip install --no-deps torchdata==0.11.0 webdataset braceexpand
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.util
import io
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from flambeau.data import FastLoader, nodes
from flambeau.data.fast_loader import ImageDecoder
from flambeau.data.shards import ShardDataset, ShardWriter
from flambeau.data.stateful_dataloader import StatefulDataLoader

BATCH = 32
WORKERS = 2

Work = Callable[[], Iterable[Any]]


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def write_shards(folder: Path, count: int) -> str:
    """Pictures of 640 x 480 with some grain, about 110 KB each, in two shards."""
    generator = np.random.default_rng(0)
    with ShardWriter(folder / "s-%d.tar", maxcount=-(-count // 2)) as writer:
        for number in range(count):
            coarse = Image.fromarray(generator.integers(0, 255, (30, 40, 3), dtype=np.uint8)).resize((640, 480))
            noisy = np.asarray(coarse, dtype=np.int16) + generator.integers(-25, 25, (480, 640, 3))
            stream = io.BytesIO()
            Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(stream, "JPEG", quality=80)
            writer.write({"__key__": f"{number:06}", "jpg": stream.getvalue(), "cls": number % 10})
    return str(folder / "s-{0..1}.tar")


def by_pillow(content: bytes) -> np.ndarray[Any, Any]:
    """[3, 224, 224] uint8, the same for all loaders: decoded at a fraction of its size, then resized."""
    picture = Image.open(io.BytesIO(content))
    picture.draft("RGB", (224, 224))
    return np.asarray(picture.convert("RGB").resize((224, 224), Image.Resampling.BILINEAR)).transpose(2, 0, 1).copy()


def decoded(sample: dict[str, Any]) -> tuple[torch.Tensor, int]:
    return torch.from_numpy(by_pillow(sample["jpg"])), int(sample["cls"])


def fill(sample: dict[str, Any], rows: dict[str, torch.Tensor]) -> None:
    rows["image"].numpy()[...] = by_pillow(sample["jpg"])
    rows["label"].fill_(int(sample["cls"]))


class Tokens(Dataset[torch.Tensor]):
    """Sequences of 128 tokens out of one array."""

    def __init__(self, count: int) -> None:
        self.data = torch.arange(count * 128).view(count, 128) % 50_000

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.data[index]


def image_works(pattern: str) -> dict[str, Work]:
    dataset = ShardDataset(pattern, decode=decoded)
    raw = ShardDataset(pattern)
    layout = {"image": ((3, 224, 224), torch.uint8), "label": ((), torch.int64)}
    works: dict[str, Work] = {
        "FastLoader, threads": lambda: FastLoader(raw, BATCH, WORKERS, layout=layout, fill=fill),
        "FastLoader, processes": lambda: FastLoader(dataset, BATCH, WORKERS, "process"),
        "torch DataLoader": lambda: DataLoader(dataset, BATCH, num_workers=WORKERS),
    }
    if installed("flambeau.vision"):
        resize = importlib.import_module("flambeau.vision.transforms.v2.functional").resize
        decode = ImageDecoder(min_size=224, then=functools.partial(resize, size=[224, 224]))
        ours = ShardDataset(pattern, decode=decode)
        works["FastLoader, threads, flambeau.vision"] = lambda: FastLoader(ours, BATCH, WORKERS)
    if installed("torchdata"):
        peer = importlib.import_module("torchdata.nodes")
        works["torchdata.nodes, threads"] = lambda: node_loader(peer, range(len(dataset)), dataset.__getitem__)
    if installed("webdataset"):
        webdataset = importlib.import_module("webdataset")

        def web() -> Iterable[Any]:
            shards = webdataset.WebDataset(pattern, shardshuffle=False, empty_check=False).map(decoded)
            return DataLoader(shards, BATCH, num_workers=WORKERS)

        works["webdataset + DataLoader"] = web
    return works


def node_loader(module: Any, indices: Iterable[int], get: Callable[[int], Any]) -> Iterable[Any]:
    node = module.ParallelMapper(module.IterableWrapper(indices), get, num_workers=WORKERS)
    node = module.Batcher(node, BATCH, drop_last=False)
    return module.Loader(module.Mapper(node, torch.utils.data.default_collate))


def token_works(count: int) -> dict[str, Work]:
    dataset = Tokens(count)
    works: dict[str, Work] = {
        "FastLoader, threads": lambda: FastLoader(dataset, BATCH, WORKERS, shuffle=True),
        "FastLoader, inline": lambda: FastLoader(dataset, BATCH, 0, shuffle=True),
        "FastLoader, processes": lambda: FastLoader(dataset, BATCH, WORKERS, "process", shuffle=True),
        "torch DataLoader": lambda: DataLoader(dataset, BATCH, shuffle=True, num_workers=WORKERS),
        "torch DataLoader, inline": lambda: DataLoader(dataset, BATCH, shuffle=True),
        "our nodes, threads": lambda: node_loader(nodes, range(count), dataset.__getitem__),
    }
    if installed("torchdata"):
        peer = importlib.import_module("torchdata.nodes")
        works["torchdata.nodes, threads"] = lambda: node_loader(peer, range(count), dataset.__getitem__)
    return works


def state_works(count: int) -> dict[str, Work]:
    dataset = Tokens(count)
    works: dict[str, Work] = {
        "StatefulDataLoader, states": lambda: with_states(StatefulDataLoader(dataset, BATCH, num_workers=WORKERS)),
        "StatefulDataLoader": lambda: StatefulDataLoader(dataset, BATCH, num_workers=WORKERS),
        "FastLoader, states": lambda: with_states(FastLoader(dataset, BATCH, WORKERS)),
        "FastLoader": lambda: FastLoader(dataset, BATCH, WORKERS),
        "torch DataLoader": lambda: DataLoader(dataset, BATCH, num_workers=WORKERS),
    }
    if installed("torchdata"):
        peer = importlib.import_module("torchdata.stateful_dataloader").StatefulDataLoader
        works["torchdata StatefulDataLoader"] = lambda: peer(dataset, BATCH, num_workers=WORKERS)
        works["torchdata, states"] = lambda: with_states(peer(dataset, BATCH, num_workers=WORKERS))
    return works


def with_states(loader: Any) -> Iterable[Any]:
    for batch in loader:
        loader.state_dict()
        yield batch


def measure(title: str, works: dict[str, Work], samples: int, repetitions: int) -> None:
    """Print samples a second of each work, and its time over that of the first."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(repetitions):
        for name, work in works.items():
            start = time.perf_counter()
            batches = sum(1 for _ in work())
            best[name] = min(best[name], time.perf_counter() - start)
            assert batches == -(-samples // BATCH) or "webdataset" in name, (name, batches)
    ours = next(iter(best.values()))
    print(f"\n{title}\n\n| loader | samples/s | time over the first's |\n|---|---|---|")
    for name, seconds in best.items():
        print(f"| {name} | {samples / seconds:,.0f} | {seconds / ours:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--repetitions", type=int, default=3)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    run = functools.partial(measure, repetitions=chosen.repetitions)
    with tempfile.TemporaryDirectory() as folder:
        pattern = write_shards(Path(folder), chosen.images)
        run("JPEG 640 x 480 to 224 x 224, two workers", image_works(pattern), chosen.images)
    run("128 tokens a sample, shuffled, batches of 32, two workers", token_works(chosen.tokens), chosen.tokens)
    run("A state after every batch, tokens in order, two workers", state_works(chosen.tokens), chosen.tokens)


if __name__ == "__main__":
    main()
