"""The AG_NEWS pipeline beside the same chain of TorchData 0.7, which torchtext's is made of: items for each second.

    python text/benchmarks/datasets.py [--rows N]

Rows of AG_NEWS's size and form are written once; both read them in one process, in turn, the best of several
repetitions of CPU time counts. Where torchdata 0.7 is not installed ours is timed alone: `nox -s bench -- text` has it;
with the peers of data, a later torchdata without that chain takes its place. Further rows, without a peer: the same
items by index, in random order, and what making the index costs.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from _peers import peer

from flambeau.text.datasets import ag_news

REPETITIONS = 5
_SENTENCE = 'oil prices fell on Monday after ministers said that output would rise; "the market" expects more of it'
_WORDS = _SENTENCE.split()


def write_rows(path: Path, rows: int) -> None:
    """A table as the published one is: a label and two texts of 42 and 194 characters on average, quoted."""
    drawn = random.Random(0)

    def text(words: int) -> str:
        return " ".join(drawn.choices(_WORDS, k=words)).replace('"', '""')

    with path.open("w", encoding="utf-8") as file:
        file.writelines(f'"{drawn.randint(1, 4)}","{text(7)}","{text(34)}"\n' for _ in range(rows))


def label_and_text(row: list[str]) -> tuple[int, str]:
    return int(row[0]), " ".join(row[1:])


def chain(path: Path) -> Callable[[], Iterable[Any]] | None:
    """The same chain of TorchData, where it is installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it announces its end
        pipes = peer("torchdata.datapipes.iter")
    if pipes is None:
        return None

    def build() -> Iterable[Any]:
        rows = pipes.FileOpener(pipes.IterableWrapper([str(path)]), encoding="utf-8").parse_csv()
        return rows.map(label_and_text).shuffle().set_shuffle(False).sharding_filter()  # type: ignore[no-any-return]

    return build


def seconds(build: Callable[[], Iterable[Any]]) -> float:
    """CPU seconds of one pass, the best of some."""
    best = float("inf")
    for _ in range(REPETITIONS):
        items = build()
        start = time.process_time()
        for _ in items:
            pass
        best = min(best, time.process_time() - start)
    return best


def main() -> None:
    """Write, time, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=120_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "datasets", "AG_NEWS", "train.csv")
        path.parent.mkdir(parents=True)
        write_rows(path, rows)
        ag_news.MD5 = {**ag_news.MD5, "train": hashlib.md5(path.read_bytes()).hexdigest()}
        ours = seconds(lambda: ag_news.AG_NEWS(folder, split="train"))
        print(f"{'case':<28}{'items/s':>12}{'peer':>12}{'ratio':>8}")
        build = chain(path)
        if build is None:
            print(f"{'AG_NEWS pipeline':<28}{rows / ours:>12,.0f}{'-':>12}{'-':>8}")
        else:
            theirs = seconds(build)
            print(f"{'AG_NEWS pipeline':<28}{rows / ours:>12,.0f}{rows / theirs:>12,.0f}{theirs / ours:>8.2f}")
        start = time.process_time()
        dataset = ag_news.AG_NEWSItems(folder, "train")
        count = len(dataset)
        print(f"{'making the index':<28}{count / (time.process_time() - start):>12,.0f}{'-':>12}{'-':>8}")
        order = random.Random(0).sample(range(count), min(count, 20_000))
        drawn = seconds(lambda: map(dataset.__getitem__, order))
        print(f"{'by index, in random order':<28}{len(order) / drawn:>12,.0f}{'-':>12}{'-':>8}")


if __name__ == "__main__":
    main()
