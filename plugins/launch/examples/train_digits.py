"""Train a registered model of flambeau.vision on several processes, by the same command on every scheduler.

    flambeau launch run -s local_cwd dist.ddp -j 1x2 --script plugins/launch/examples/train_digits.py
    flambeau launch run -s slurm     dist.ddp -j 1x2 --script plugins/launch/examples/train_digits.py
    flambeau launch run -s ray       dist.ddp -j 1x2 --script plugins/launch/examples/train_digits.py

The model is the digit CNN; its pictures are drawn below, without any download. A checkpoint after every epoch lets
processes that were started again go on where they stood: with `--max_retries 1` before `--script`, and
`-- --checkpoint FILE --die_at 1` at the end, the run ends well although a worker is killed.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from flambeau.core import get_model
from flambeau.launch.distributed import init_pg, is_rank0
from flambeau.launch.tracker import app_run_from_env

SEGMENTS = {  # of a display with seven, by digit
    0: "abcdef", 1: "bc", 2: "abdeg", 3: "abcdg", 4: "bcfg",
    5: "acdfg", 6: "acdefg", 7: "abc", 8: "abcdefg", 9: "abcdfg",
}  # fmt: skip
PLACES = {  # rows and columns of the picture
    "a": (slice(1, 2), slice(2, 6)), "b": (slice(1, 4), slice(5, 6)), "c": (slice(4, 7), slice(5, 6)),
    "d": (slice(6, 7), slice(2, 6)), "e": (slice(4, 7), slice(2, 3)), "f": (slice(1, 4), slice(2, 3)),
    "g": (slice(4, 5), slice(2, 6)),
}  # fmt: skip


def recipe_digits(count: int, seed: int = 0) -> TensorDataset:
    """Digits of a display with seven segments, noisy and moved by up to a pixel: (count, 1, 8, 8) and labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=generator)
    images = torch.zeros(count, 1, 8, 8)
    for image, label in zip(images, labels.tolist(), strict=True):
        for segment in SEGMENTS[label]:
            image[0][PLACES[segment]] = 1.0
    moves = torch.randint(-1, 2, (count, 2), generator=generator).tolist()
    moved = torch.stack([image.roll(tuple(move), (1, 2)) for image, move in zip(images, moves, strict=True)])
    return TensorDataset(moved + 0.2 * torch.randn(moved.shape, generator=generator), labels)


def main() -> None:
    """Train, and print the accuracy that it came to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--checkpoint", type=Path, help="file to go on from, and to write after every epoch")
    parser.add_argument("--die_at", type=int, metavar="EPOCH", help="kill the last rank there, once")
    arguments = parser.parse_args()
    device = init_pg()
    torch.manual_seed(0)
    model = DistributedDataParallel(get_model("vision/digit_cnn").to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    first = load(arguments.checkpoint, model, optimizer)
    data = recipe_digits(1536)
    sampler: DistributedSampler[TensorDataset] = DistributedSampler(data, seed=0)
    for epoch in range(first, arguments.epochs):
        last = dist.get_rank() == dist.get_world_size() - 1
        if arguments.die_at == epoch and last and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        sampler.set_epoch(epoch)
        for images, labels in DataLoader(data, batch_size=64, sampler=sampler):
            loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        save(arguments.checkpoint, model, optimizer, epoch + 1)
        if is_rank0():
            print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)
    accuracy = measure(model, device)
    if is_rank0():
        app_run_from_env().add_metadata(accuracy=accuracy, world_size=dist.get_world_size())
        print(f"accuracy {accuracy:.3f} with {dist.get_world_size()} processes", flush=True)
    dist.destroy_process_group()
    sys.exit(0 if accuracy > 0.9 else 1)


def measure(model: torch.nn.Module, device: torch.device) -> float:
    """Share of other digits that the model gets right."""
    images, labels = recipe_digits(512, seed=1).tensors
    model.eval()
    with torch.inference_mode():
        right = model.module(images.to(device)).argmax(-1) == labels.to(device)
    return float(right.float().mean())


def load(path: Path | None, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Go on from a checkpoint; returns the epoch to begin with."""
    if path is None or not path.is_file():
        return 0
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["epoch"])


def save(path: Path | None, model: torch.nn.Module, optimizer: torch.optim.Optimizer, epoch: int) -> None:
    """Write a checkpoint, as a whole."""
    if path is not None and is_rank0():
        temporary = path.with_suffix(".tmp")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, temporary)
        temporary.replace(path)
    dist.barrier()


if __name__ == "__main__":
    main()
