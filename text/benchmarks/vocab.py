"""Vocabularies beside a dict and a Counter, and beside torchtext in an environment where that still runs.

    python text/benchmarks/vocab.py [--tokens 2000000] [--package torchtext]

Tokens are drawn by Zipf's law from 50,000 words and are different objects, as a tokenizer makes them. CPU time of one
thread, the best of several repetitions. `--package torchtext` measures that package alone by the same calls, in the
interpreter that runs this file: its compiled library needs torch 2.3.
"""

from __future__ import annotations

import argparse
import importlib
import random
import time
import tracemalloc
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

WORDS, LENGTH = 50_000, 40


def texts(tokens: int) -> list[list[str]]:
    """Lists of tokens, each token an object of its own."""
    generator = random.Random(0)
    words = ["".join(generator.choices("abcdefghijklmnopqrstuvwxyz", k=2 + i % 9)) + str(i % 100) for i in range(WORDS)]
    weights = [1 / rank for rank in range(1, WORDS + 1)]
    flat = " ".join(generator.choices(words, weights, k=tokens)).split(" ")
    return [flat[at : at + LENGTH] for at in range(0, tokens, LENGTH)]


def measured(works: dict[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """The least CPU seconds of each, in turn, so that what else the machine does meets all alike."""
    least = dict.fromkeys(works, float("inf"))
    for _ in range(repetitions):
        for name, work in works.items():
            start = time.process_time()
            work()
            least[name] = min(least[name], time.process_time() - start)
    return least


def rate(name: str, tokens: int, seconds: float, first: float) -> None:
    print(f"  {name:48} {tokens / seconds / 1e6:8.2f} Mtok/s {seconds / first:7.2f} x our time")


def counted_as_upstream(lists: list[list[str]]) -> list[str]:
    """What upstream does in Python: one update a text, one sort of pairs."""
    counter: Counter[str] = Counter()
    for tokens in lists:
        counter.update(tokens)
    ordered = OrderedDict(sorted(counter.items(), key=lambda pair: (-pair[1], pair[0])))
    return [token for token, count in ordered.items() if count >= 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tokens", type=int, default=2_000_000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--package", default="flambeau.text")
    given = parser.parse_args()
    package: Any = importlib.import_module(f"{given.package}.vocab")
    ours = given.package == "flambeau.text"
    lists = texts(given.tokens)
    vocabulary = package.build_vocab_from_iterator(lists, specials=["<unk>"])
    vocabulary.set_default_index(0)
    table = vocabulary.get_stoi()

    print(f"{given.tokens:,} tokens in lists of {LENGTH}, {len(vocabulary):,} different")
    works: dict[str, Callable[[], object]] = {
        f"{given.package}: lookup_indices": lambda: [vocabulary.lookup_indices(tokens) for tokens in lists],
        f"{given.package}: one by one": lambda: [[vocabulary[token] for token in tokens] for tokens in lists],
    }
    if ours:
        works["dict, [table[token] for token in tokens]"] = lambda: [[table[token] for token in one] for one in lists]
        works["dict, [table.get(token, 0) for token in tokens]"] = lambda: [
            [table.get(token, 0) for token in one] for one in lists
        ]
    seconds = measured(works, given.repetitions)
    for name, value in seconds.items():
        rate(name, given.tokens, value, next(iter(seconds.values())))

    print("Counting")
    works = {f"{given.package}: build_vocab_from_iterator": lambda: package.build_vocab_from_iterator(lists)}
    if ours:
        works["Counter, as upstream counts and sorts"] = lambda: counted_as_upstream(lists)
    seconds = measured(works, given.repetitions)
    for name, value in seconds.items():
        rate(name, given.tokens, value, next(iter(seconds.values())))

    counts = OrderedDict({"a": 3, "b": 2, "c": 1})
    many = {"made": lambda: [package.vocab(counts) for _ in range(100)]}
    made = measured(many, given.repetitions)["made"] / 100
    tracemalloc.start()
    kept = [package.vocab(counts) for _ in range(100)]
    size = tracemalloc.get_traced_memory()[0] / len(kept)
    tracemalloc.stop()
    print(f"Vocabulary of 3 tokens: {made * 1e6:.1f} us, {size / 1e3:.1f} kB of Python's memory")


if __name__ == "__main__":
    main()
