"""Where a loader stands: what has been given out, as against what workers have read ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flambeau.data._cursor import SamplerCursor
from flambeau.data._deltas import Decoder
from flambeau.data.stateful_dataloader._batches import COUNTED


class MapProgress:
    """Place in a map-style data set: that of its sampler behind the last batch given out.

    The indices of batches are numbered from the beginning of the epoch; without order, batches beyond the first that
    is still out are listed.
    """

    def __init__(self, sampler: Any, numbered: bool) -> None:
        self._sampler = sampler
        self._cursor = SamplerCursor(sampler)
        self._numbered = numbered
        self.num_yielded = 0
        self._begun = False
        self._low = 0
        self._beyond: set[int] = set()
        self._left_out: set[int] = set()
        self._drawn = 0
        self._marks: dict[int, Any] = {}

    def load(self, state: dict[str, Any]) -> None:
        """Stand where `state` was taken."""
        self._cursor.load(state["sampler"])
        self._begun = True
        self._low = self._drawn = state["low"]
        self._beyond = set(state["beyond"])
        self._left_out = set(state["beyond"])
        self._keep_mark()

    def new_epoch(self) -> None:
        """Begin anew with the next index asked for."""
        self.num_yielded = 0
        self._begun = False
        self._low = self._drawn = 0
        self._beyond, self._left_out, self._marks = set(), set(), {}

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        """The indices of the batches that remain, with their numbers where batches are numbered."""
        # Upstream: samplers are asked late. Torch draws the workers' seed first, so the order stays that of DataLoader.
        self._begin()
        if self._numbered or self._left_out or self._cursor.stateful:
            yield from self._account()
        else:
            yield from self._cursor.rest()

    def _account(self) -> Iterator[Any]:
        for indices in self._cursor:
            number = self._drawn
            self._drawn += 1
            self._keep_mark()
            if number in self._left_out:
                self._left_out.discard(number)
            else:
                yield (number, indices) if self._numbered else indices

    def given(self, number: int | None) -> None:
        """A batch has been given out; None: the next one."""
        if number is None and not self._beyond and not self._marks:
            self._low += 1
            return
        if number is not None and number != self._low:
            self._beyond.add(number)
            return
        while True:
            self._beyond.discard(self._low)
            self._marks.pop(self._low, None)
            self._low += 1
            if self._low not in self._beyond:
                return

    def state(self) -> dict[str, Any]:
        """Plain values, if the sampler's are."""
        self._begin()
        mark = self._marks.get(self._low, self._low)
        return {"low": self._low, "beyond": sorted(self._beyond), "sampler": self._cursor.state(mark)}

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._cursor.begin()
            self._keep_mark()

    def _keep_mark(self) -> None:
        if self._cursor.stateful:
            self._marks[self._drawn] = self._cursor.mark()


class ShardProgress:
    """Places in the logical shards of an iterable data set."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        # Shards without a state of their own, in this process, are asked how far they are.
        self.here: Callable[[], dict[int, Any]] | None = None
        self.new_epoch()

    def new_epoch(self) -> None:
        """All shards at their beginning, one for each worker."""
        self.num_yielded = 0
        self.count = self._workers
        self.turn = 0
        self._decoders: dict[int, Decoder] = {}
        self._base: dict[int, Any] = {}
        self._since: dict[int, int] = {}
        self.here = None

    def load(self, state: dict[str, Any]) -> None:
        """Stand where `state` was taken; the shards are the state's."""
        self.new_epoch()
        self.count, self.turn = state["count"], state["turn"]
        self._base = {shard["number"]: shard["state"] for shard in state["shards"]}

    def given(self, number: int, message: tuple[str, bytes] | None) -> None:
        """A batch of a shard has been given out."""
        self.turn = (number + 1) % max(1, self.count)
        if message == COUNTED:
            return
        if message is None:
            self._since[number] = self._since.get(number, 0) + 1
        else:
            self._decoders.setdefault(number, Decoder()).receive(message)
            self._since[number] = 0

    def states(self) -> dict[int, Any]:
        """Shard -> where it stands."""
        found = dict(self._base)
        if self.here is not None:
            found.update(self.here())
        found.update({number: decoder.value() for number, decoder in self._decoders.items()})
        for number, since in self._since.items():
            if since:
                known = found.get(number) or {"items": 0, "ended": False, "batches": 0}
                found[number] = {**known, "batches": known["batches"] + since}
        return found

    def state(self) -> dict[str, Any]:
        """Plain values, if the data set's are."""
        shards = [{"number": number, "state": state} for number, state in sorted(self.states().items())]
        return {"count": self.count, "turn": self.turn, "shards": shards}
