"""What happens to rows: each step takes a query, the names of its columns and of its keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.data.frame._engine import pl

Step = Callable[..., pl.LazyFrame]
STEPS: dict[str, Step] = {}


def step(function: Step) -> Step:
    """Offer a step under its function's name."""
    STEPS[function.__name__] = function
    return function


@step
def keep(query: pl.LazyFrame, names: list[str], keys: list[str]) -> pl.LazyFrame:
    """Rows where the key is true; missing is not."""
    return query.filter(pl.col(keys[0])).select(names)


@step
def order(
    query: pl.LazyFrame, names: list[str], keys: list[str], *, descending: list[bool], nulls_last: bool
) -> pl.LazyFrame:
    """Rows ordered by the keys; equal ones stay in their order."""
    return query.sort(keys, descending=descending, nulls_last=nulls_last, maintain_order=True).select(names)


@step
def distinct(query: pl.LazyFrame, names: list[str], keys: list[str], *, which: Any) -> pl.LazyFrame:
    """One row for each value of the keys, in the order of the rows kept."""
    return query.unique(subset=keys, keep=which, maintain_order=True).select(names)


@step
def part(query: pl.LazyFrame, names: list[str], keys: list[str], *, start: int, length: int) -> pl.LazyFrame:
    """Some rows in succession."""
    return query.slice(start, length)


@step
def stride(query: pl.LazyFrame, names: list[str], keys: list[str], *, places: range) -> pl.LazyFrame:
    """Rows at even distances, backward where the distance is negative."""
    taken = pl.int_range(places.start, places.stop, places.step, dtype=pl.Int64, eager=True)
    return query.select(pl.col(names).gather(pl.lit(taken)))


@step
def take(query: pl.LazyFrame, names: list[str], keys: list[str], *, places: list[int]) -> pl.LazyFrame:
    """Rows by their numbers, in the order given."""
    return query.select(pl.col(names).gather(pl.lit(pl.Series(places, dtype=pl.Int64))))


@step
def spread(query: pl.LazyFrame, names: list[str], keys: list[str]) -> pl.LazyFrame:
    """Each item of the key's lists as a row; empty lists give none."""
    column = pl.col(keys[0])
    return query.filter(column.list.len() > 0).select(column.explode().alias(names[0]))


@step
def same(query: pl.LazyFrame, names: list[str], keys: list[str]) -> pl.LazyFrame:
    """The rows as they are."""
    return query
