"""Saving and loading a decoder-like dict of tensors: this package, tensordict, safetensors and torch side by side.

    python benchmarks/tensordict_storage.py [--mebibytes 1024] [--threads 4] [--folder /dev/shm] [--rounds 3]

Every path runs in this process, one thread in torch. Times are the best of the rounds, in milliseconds; a ratio below 1
means that this package is faster. Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from flambeau.data.tensordict import TensorDict


def decoder(mebibytes: int, layers: int = 30) -> dict[str, torch.Tensor]:
    """273 float32 tensors with the shares of bytes of a decoder: 9 in each layer, embedding, norm and head."""
    width = max(8, int((mebibytes * 2**20 / 4 / (12 * layers + 2 * 16)) ** 0.5))
    square = dict.fromkeys("qkvo", (width, width))
    wide = {"up": (4 * width, width), "gate": (2 * width, width), "down": (width, 2 * width)}
    shapes = {**square, **wide, "norm1": (width,), "norm2": (width,)}
    tensors = {f"layers.{layer}.{name}": torch.rand(shape) for layer in range(layers) for name, shape in shapes.items()}
    return {
        **tensors,
        "embed": torch.rand(16 * width, width),
        "norm": torch.rand(width),
        "head": torch.rand(16 * width, width),
    }


def best(function: Callable[[], Any], rounds: int, before: Callable[[], Any] = lambda: None) -> float:
    """Milliseconds of the fastest round."""
    times = []
    for _ in range(rounds):
        before()
        gc.collect()
        start = time.perf_counter()
        kept = function()
        times.append(time.perf_counter() - start)
        del kept
    return min(times) * 1000


def touch(tensors: Any) -> float:
    """Read every page."""
    return sum(float(tensor.view(-1)[::1024].sum()) for tensor in tensors)


class Bench:
    """The paths, each a row of the table."""

    def __init__(self, tensors: dict[str, torch.Tensor], folder: Path, threads: int, rounds: int) -> None:
        self.tensors, self.folder, self.threads, self.rounds = tensors, folder, threads, rounds
        self.times: dict[str, float] = {}

    def clear(self) -> None:
        """Remove what was written."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def save(self, name: str, function: Callable[[], Any]) -> None:
        """Time a save into an empty folder; its files stay for the loads."""
        self.times[name] = best(function, self.rounds, self.clear)

    def load(self, name: str, function: Callable[[], Any], values: Callable[[Any], Any]) -> None:
        """Time a load, and a load with every page read."""
        self.times[name] = best(function, self.rounds)
        self.times[f"{name} + read"] = best(lambda: touch(values(function())), self.rounds)

    def ours(self) -> None:
        """This package."""
        td = TensorDict(self.tensors)
        place = self.folder / "ours"
        for threads in (0, self.threads):
            self.save(f"memmap, {threads} threads", lambda threads=threads: td.memmap(place, num_threads=threads))
        self.load("load_memmap", lambda: TensorDict.load_memmap(place), lambda found: found.values())
        self.save("memmap over an old version", self.over(td, place))
        for threads in (0, self.threads):
            self.save(
                f"consolidate, {threads} threads", lambda threads=threads: td.consolidate(place, num_threads=threads)
            )
        self.load("from_consolidated", lambda: TensorDict.from_consolidated(place), lambda found: found.values())
        self.save("archive", lambda: td.memmap(self.folder / "x.tdz"))
        self.load("load archive", lambda: TensorDict.load_memmap(self.folder / "x.tdz"), lambda found: found.values())

    def over(self, td: TensorDict, place: Path) -> Callable[[], Any]:
        """A save over a version that is there."""

        def twice() -> Any:
            if not place.exists():
                td.memmap(place, num_threads=self.threads)
            return td.memmap(place, num_threads=self.threads)

        return twice

    def torch(self) -> None:
        """torch.save and torch.load."""
        path = self.folder / "x.pt"
        self.save("torch.save", lambda: torch.save(self.tensors, path))
        self.load("torch.load", lambda: torch.load(path, weights_only=True), lambda found: found.values())
        self.load(
            "torch.load, mmap", lambda: torch.load(path, mmap=True, weights_only=True), lambda found: found.values()
        )

    def safetensors(self) -> None:
        """The safetensors library."""
        from safetensors.torch import load_file, save_file

        path = self.folder / "x.safetensors"
        self.save("safetensors save", lambda: save_file(self.tensors, path))
        self.load("safetensors load", lambda: load_file(path), lambda found: found.values())

    def upstream(self) -> None:
        """The tensordict library."""
        import tensordict

        td = tensordict.TensorDict(self.tensors)
        place = self.folder / "theirs"
        for threads in (0, self.threads):
            self.save(f"tensordict memmap, {threads} threads", lambda t=threads: td.memmap(place, num_threads=t))
        self.load(
            "tensordict load_memmap", lambda: tensordict.TensorDict.load_memmap(place), lambda found: found.values()
        )
        self.save("tensordict consolidate", lambda: td.consolidate(place, num_threads=self.threads))
        self.load(
            "tensordict from_consolidated",
            lambda: tensordict.TensorDict.from_consolidated(place),
            lambda found: found.values(),
        )

    def report(self) -> None:
        """Print times, and the ratios that are required."""
        for name, milliseconds in self.times.items():
            print(f"{name:<36}{milliseconds:>12.1f} ms")
        mine = self.times[f"memmap, {self.threads} threads"]
        required = [
            ("memmap / torch.save", mine, "torch.save", 1 / 3),
            ("memmap / safetensors save", mine, "safetensors save", 1.0),
            ("memmap / tensordict memmap", mine, f"tensordict memmap, {self.threads} threads", 1.0),
            ("load_memmap / tensordict load_memmap", self.times["load_memmap"], "tensordict load_memmap", 1.0),
            ("load + read / safetensors", self.times["load_memmap + read"], "safetensors load + read", 1.0),
        ]
        print()
        for name, value, peer, most in required:
            if peer in self.times:
                print(f"{name:<40}{value / self.times[peer]:>8.2f}   required: at most {most:.2f}")
        print(f"{'load_memmap':<40}{self.times['load_memmap']:>8.1f} ms   required: below 20 ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None, help="where to write: a RAM disk (/dev/shm) or a disk")
    args = parser.parse_args()
    torch.set_num_threads(1)
    # Scripts beside this one must not hide the libraries that they are named after.
    sys.path = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]
    tensors = decoder(args.mebibytes)
    size = sum(tensor.nbytes for tensor in tensors.values())
    print(f"{len(tensors)} tensors, {size / 2**30:.2f} GiB, {args.threads} threads")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        bench = Bench(tensors, Path(folder), args.threads, args.rounds)
        bench.ours()
        bench.torch()
        for peer in (bench.safetensors, bench.upstream):
            try:
                peer()
            except ImportError as error:
                print(f"left out: {error}")
        bench.report()


if __name__ == "__main__":
    main()
