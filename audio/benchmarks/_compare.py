"""Rows of time, ours beside a peer's, for the programs of this folder."""

from __future__ import annotations

import functools
import importlib
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from flambeau.audio._native import LIBRARY

Work = Callable[[], Any]


@functools.cache
def peer(name: str) -> ModuleType | None:
    """A library to compare with, where it is installed and loads; else its rows are left out, which is told once."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError, RuntimeError) as error:  # the last is torchcodec's, without FFmpeg
        print(f"no {name}: {error}", file=sys.stderr)
        return None


class Comparison:
    """A table that is printed row by row, and what it missed."""

    def __init__(self, title: str, *peers: ModuleType | None) -> None:
        torch.set_num_threads(1)
        self.missed: list[str] = []
        versions = ", ".join(f"{p.__name__} {p.__version__}" for p in peers if p is not None) or "no peer"
        print(f"{title}: torch {torch.__version__}, tier {LIBRARY.provider}, {versions}; CPU time, one thread")
        print(f"{'':<52} {'ours, ms':>10} {'peer, ms':>10} {'ratio':>9} {'bound':>8}")

    def row(
        self, what: str, ours: Work, theirs: Work | None, *, least: float | None = None, repetitions: int = 5
    ) -> None:  # fmt: skip
        """Time both in turn; `least` is the ratio that the library holds itself to."""
        works = [ours] if theirs is None else [ours, theirs]
        best = [float("inf")] * len(works)
        for work in works:
            work()
        for _ in range(repetitions):
            for index, work in enumerate(works):
                start = time.process_time()
                work()
                best[index] = min(best[index], (time.process_time() - start) * 1e3)
        ratio = best[1] / best[0] if theirs else None
        behind = least is not None and ratio is not None and ratio < least
        if behind:
            self.missed.append(what)
        cells = f"{best[1]:>10,.2f} {ratio:>7,.1f} x" if ratio is not None else f"{'-':>10} {'-':>9}"
        bound = f">= {least:g} x" if least is not None else ""
        print(f"{what:<52} {best[0]:>10,.3f} {cells} {bound:>8}{'  MISSED' if behind else ''}", flush=True)

    def finish(self) -> int:
        """The exit status: 1 where a bound was missed."""
        if self.missed:
            print("missed:", ", ".join(self.missed))
        return 1 if self.missed else 0
