"""Reading word vectors, beside the loop in Python that upstream runs, and beside gensim where it is installed.

    python text/benchmarks/vectors.py [--words 8000] [--dim 100] [--package torchtext]

The file is made of random numbers with six digits, like published ones. CPU time of one thread, the least of several
repetitions; opening the copy is wall time. `--package torchtext` measures that package alone, in the interpreter that
runs this file.
"""

from __future__ import annotations

import argparse
import importlib
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _peers import peer


def write(path: Path, words: int, dim: int) -> None:
    generator = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for i in range(words):
            numbers = " ".join(f"{generator.uniform(-1, 1):.6f}" for _ in range(dim))
            file.write(f"word{i} {numbers}\n")


def least(work: Callable[[], object], repetitions: int, clock: Callable[[], float] = time.process_time) -> float:
    seconds = float("inf")
    for _ in range(repetitions):
        start = clock()
        work()
        seconds = min(seconds, clock() - start)
    return seconds


def as_upstream(path: Path) -> tuple[list[str], torch.Tensor]:
    """A tensor of Python's floats a row."""
    words, rows = [], []
    with path.open("rb") as file:
        for line in file:
            word, *numbers = line.rstrip().split(b" ")
            rows.append(torch.tensor([float(number) for number in numbers]))
            words.append(word.decode())
    return words, torch.stack(rows)


def row(name: str, seconds: float, first: float) -> None:
    print(f"  {name:44} {seconds * 1e3:10.2f} ms {seconds / first:8.1f} x our time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--words", type=int, default=8000)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--package", default="flambeau.text")
    given = parser.parse_args()
    torch.set_num_threads(1)
    package: Any = importlib.import_module(f"{given.package}.vocab")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, cache = folder / "vectors.txt", folder / "cache"
        write(path, given.words, given.dim)
        print(f"{given.words:,} words of {given.dim} numbers, {path.stat().st_size / 1e6:.1f} MB")

        def load() -> Any:
            shutil.rmtree(cache, ignore_errors=True)
            cache.mkdir()
            return package.Vectors(str(path), cache=str(cache))

        load()
        first = least(load, given.repetitions)
        row(f"{given.package}: first load, copy written", first, first)
        if given.package == "flambeau.text":
            from flambeau.text._vectors.reading import read_text

            row("flambeau.text: reading alone", least(lambda: read_text(path), given.repetitions), first)
            row("a loop in Python, as upstream", least(lambda: as_upstream(path), 2), first)
        if gensim := peer("gensim.models"):
            row("gensim", least(lambda: gensim.KeyedVectors.load_word2vec_format(path, no_header=True), 2), first)

        def opened() -> Any:
            return package.Vectors(str(path), cache=str(cache))

        again = least(opened, given.repetitions, time.perf_counter)
        row("opening the copy", again, first)
        row("opening, and looking up a word", least(lambda: opened()["word7"], 5, time.perf_counter), first)
        vectors = opened()
        words = [f"word{i * 7919 % given.words}" for i in range(10_000)]
        row("get_vecs_by_tokens, 10,000 words", least(lambda: vectors.get_vecs_by_tokens(words), 5), first)
        if given.package == "flambeau.text":
            row("nearest, 10 of all", least(lambda: vectors.nearest("word7"), given.repetitions), first)


if __name__ == "__main__":
    main()
