"""Names of shards written short."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

from flambeau.data.datapipes._flat_map import Expanding
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


@functional_datapipe("shard_expand")
class ShardExpanderIterDataPipe(Expanding[str]):
    """Names out of ranges: `"ds-{00..02}.tar"` stands for `ds-00.tar` to `ds-02.tar` (functional name: `shard_expand`).

    Both ends are included, zeros are kept when both have the same width, the last range runs fastest.

    Args:
        source_datapipe: source of names; those without a range pass.

    Raises:
        ValueError: while iterating, for a range that runs backwards.
    """

    def __init__(self, source_datapipe: IterDataPipe[str]) -> None:
        self.source_datapipe: IterDataPipe[str] = source_datapipe

    def _expand(self, item: str) -> Iterable[str]:
        return expanded(item)


def expanded(name: str) -> Iterator[str]:
    """The names that one with ranges stands for.

    Raises:
        ValueError: a range runs backwards.
    """
    parts = _RANGE.split(name)  # text, first, last, text, ..., text
    ranges = [_numbers(name, first, last) for first, last in zip(parts[1::3], parts[2::3], strict=True)]
    for numbers in itertools.product(*ranges):
        yield "".join(itertools.chain(*zip(parts[::3], (*numbers, ""), strict=True)))


def _numbers(name: str, first: str, last: str) -> list[str]:
    if int(first) > int(last):
        raise ValueError(
            f"shard_expand: {{{first}..{last}}} in {name!r} runs backwards; the first number is the lower."
        )
    width = len(first) if len(first) == len(last) else 0
    return [f"{number:0{width}d}" if width else str(number) for number in range(int(first), int(last) + 1)]
