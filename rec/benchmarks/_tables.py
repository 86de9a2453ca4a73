"""Tables of times, for people or as Markdown, and how times are taken."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

Work = Callable[[], object]


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that all benchmarks have."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--markdown", action="store_true", help="print tables as Markdown")
    made.add_argument("--only", default="", help="rows whose name has this text")
    made.add_argument("--threads", type=int, default=1, help="threads of torch; CPU time counts of one, else wall time")
    return made


def clock_for(threads: int) -> Callable[[], float]:
    """CPU time of one thread, which other programs hardly change; wall time of several."""
    return time.process_time if threads == 1 else time.perf_counter


def fastest(
    works: Sequence[Work],
    repetitions: int = 9,
    least_s: float = 0.01,
    clock: Callable[[], float] = time.process_time,
) -> list[float]:
    """Seconds of each work, in turn, so that what else the machine does meets all alike.

    Args:
        works: what is timed.
        repetitions: of which the fastest counts.
        least_s: how long a repetition takes at least; works are called several times in it.
        clock: CPU time of this process by default.
    """
    calls = []
    for work in works:
        work()
        start = clock()
        work()
        calls.append(max(1, min(2000, int(least_s / max(clock() - start, 1e-7)))))
    best = [float("inf")] * len(works)
    for _ in range(repetitions):
        for at, work in enumerate(works):
            start = clock()
            for _ in range(calls[at]):
                work()
            best[at] = min(best[at], (clock() - start) / calls[at])
    return best


class Table:
    """Times of ours and of others beside them, printed row by row.

    Args:
        title: what is measured.
        unit: "us", "ms" or "s".
        others: names of those beside us.
        markdown: whether it is for a README.
    """

    def __init__(self, title: str, unit: str, others: Sequence[str], markdown: bool) -> None:
        self._factor = {"us": 1e6, "ms": 1e3, "s": 1.0}[unit]
        self._others, self._markdown = list(others), markdown
        heads = [f"ours, {unit}"]
        for other in self._others:
            heads += [f"{other}, {unit}", "times as fast"]
        if markdown:
            print(f"\n{title}\n\n| | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
        else:
            print(f"\n{title}\n{'':<76}{''.join(f'{head:>16}' for head in heads)}")

    def row(self, what: str, ours: float, *others: float | None) -> None:
        """Seconds of ours and of the others, None for what another has not."""
        cells = [self._number(ours)]
        for other in others[: len(self._others)]:
            if other is None:
                cells += ["", ""]
                continue
            ratio = f"{other / ours:.1f}" if other / ours >= 10 else f"{other / ours:.2f}"
            cells += [self._number(other), f"**{ratio}**" if self._markdown and other < ours else ratio]
        if self._markdown:
            print(f"| {what} | {' | '.join(cells)} |", flush=True)
        else:
            print(f"{what:<76}{''.join(f'{cell:>16}' for cell in cells)}", flush=True)

    def _number(self, seconds: float) -> str:
        value = seconds * self._factor
        return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
