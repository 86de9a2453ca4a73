"""What the processes of a loader say to each other."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import Any

Groups = list[tuple[int, int, int]]  # (sharding group, number of shards, index)


@dataclass
class ShardPlan:
    """What a process needs to read one shard.

    Args:
        number: of the shard, among those of this loader.
        groups: shardings to apply.
        state: of the pipeline, to go on from; None for a new pass.
        skip: samples to leave out after that.
        seeds: state of the shard's `SeedGenerator`; None where a state is given.
    """

    number: int
    groups: Groups
    state: dict[str, Any] | None = None
    skip: int = 0
    seeds: dict[str, Any] | None = None


@dataclass
class Begin:
    """Begin a pass with these shards; what was under way is forgotten."""

    epoch: int
    shards: list[ShardPlan]
    credit: int
    shard_count: int
    reset_fn: Any = None


@dataclass
class More:
    """So many more samples of a shard may be sent; and `taken` were handed to the user."""

    shard: int
    count: int
    taken: int


@dataclass
class TellState:
    """Tell the state of a shard when `taken` samples of it were handed to the user."""

    shard: int
    taken: int


@dataclass
class Stop:
    """End the process."""


# A sample is sent as the plain tuple (epoch, shard, sample): it is the one message that has to be cheap.


@dataclass
class End:
    """A shard has no more samples."""

    epoch: int
    shard: int


@dataclass
class State:
    """The state of a shard: that of its pipeline, and how many samples to leave out after it."""

    epoch: int
    shard: int
    state: dict[str, Any]
    skip: int


@dataclass
class Failure:
    """An exception, with the traceback of the process it was raised in."""

    epoch: int
    shard: int
    error: BaseException
    trace: str
    where: str = field(default="a worker")

    @classmethod
    def of(cls, epoch: int, shard: int, error: BaseException, where: str) -> Failure:
        """The message for an exception; one that cannot be pickled is replaced by a RuntimeError."""
        import pickle

        trace = "".join(traceback.format_exception(error))
        bare = error.with_traceback(None)
        try:
            pickle.loads(pickle.dumps(bare))
        except Exception:  # any class may fail at either step, in its own way
            bare = RuntimeError(f"{type(error).__name__}: {error}")
        return cls(epoch, shard, bare, trace, where)

    def raise_(self) -> None:
        """Raise the exception here; its notes hold the other process's traceback."""
        self.error.add_note(f"raised in {self.where}:\n{self.trace}")
        raise self.error


@dataclass
class Fetch:
    """To the dispatcher: the next samples of a shard, at most so many."""

    epoch: int
    shard: int
    most: int


@dataclass
class Batch:
    """From the dispatcher: samples of a shard; `ended` when no more will come."""

    samples: list[Any]
    ended: bool


@dataclass
class Dispatch:
    """To the dispatcher: begin a pass, for these shards; `start` is where each goes on."""

    epoch: int
    shard_count: int
    start: dict[int, int]
    origin: dict[str, Any] | None
    seeds: dict[str, Any] | None
    reset_fn: Any = None
    ask_origin: bool = False
