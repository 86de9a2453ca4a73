"""A walk over a sampler that can say where it is, and be taken up there by another process.

Torch's samplers keep no position, and without a generator they take their order from the global one, whose state
nobody saves. A cursor pins the order of a pass down by a seed, or by the state that the sampler's generator began it
with, and counts.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from flambeau.data._stateful import Stateful

SCHEMA = 1


class SamplerCursor:
    """One pass after another over a sampler.

    A sampler with randomness of its own, that is neither torch's nor a `Stateful`, cannot be pinned down: it has to
    have a `state_dict`, or a `generator` attribute that it draws from.

    Args:
        sampler: any iterable; a batch sampler is looked through.
    """

    def __init__(self, sampler: Iterable[Any]) -> None:
        self._sampler = sampler
        # A batch sampler takes exactly its batch from the sampler inside, whose state then is that of the batch.
        inner = getattr(sampler, "sampler", None)
        self._keeper: Any = next((one for one in (sampler, inner) if isinstance(one, Stateful)), None)
        self.stateful = self._keeper is not None
        self._random = None if self.stateful else _with_generator(sampler)
        self._seed: int | None = None
        self._start: dict[str, Any] | None = None  # the generator, or the sampler, as the pass began
        self._iterator: Iterator[Any] = iter(())
        self._fresh = False
        self.taken = 0

    def begin(self) -> None:
        """Begin a new pass; the first takes its seed from torch's global generator, as torch's samplers do."""
        if self._random is not None and self._random.generator is None:
            # Later epochs follow from the first seed alone: another process's global generator stands elsewhere.
            if self._seed is None:
                source = torch.default_generator
            else:
                source = torch.Generator().manual_seed(self._seed ^ 0x5DEECE66D)
            self._seed = int(torch.empty((), dtype=torch.int64).random_(generator=source).item())
        if hasattr(self._keeper, "new_pass"):
            self._keeper.new_pass()
        self._begin(None)

    def load(self, state: dict[str, Any]) -> None:
        """Continue a pass where another cursor was when it gave `state`."""
        self._seed = state["seed"]
        if self._random is not None and self._random.generator is not None and state["generator"] is not None:
            self._random.generator.set_state(decode_tensor(state["generator"]))
        candidate: Any
        for candidate in (self._sampler, getattr(self._sampler, "sampler", None)):
            if state["epoch"] is not None and hasattr(candidate, "set_epoch"):
                candidate.set_epoch(state["epoch"])
        if self.stateful:
            self._keeper.load_state_dict(state["sampler"])
        self._begin(state)

    def __iter__(self) -> SamplerCursor:
        return self

    def __next__(self) -> Any:
        item = self._first() if self._fresh else next(self._iterator)
        self.taken += 1
        return item

    def rest(self) -> Iterator[Any]:
        """All that follows, faster than one by one; `taken` is not kept."""
        if self._fresh:
            try:
                first = self._first()
            except StopIteration:
                return
            yield first
        yield from self._iterator

    def mark(self) -> Any:
        """What `state` needs to describe the present place later."""
        return (self.taken, self._sampler_state()) if self.stateful else self.taken

    def state(self, mark: Any = None) -> dict[str, Any]:
        """The present place, or that of a mark, in plain values."""
        mark = self.mark() if mark is None else mark
        taken, sampler = mark if self.stateful else (mark, None)
        return {"taken": taken, "seed": self._seed, "sampler": sampler, **(self._start or {})}

    def _sampler_state(self) -> Any:
        if isinstance(self._iterator, Stateful):
            return self._iterator.state_dict()
        return self._keeper.state_dict()

    def _begin(self, state: dict[str, Any] | None) -> None:
        generator = self._random.generator if self._random is not None else None
        self._start = {
            "generator": None if generator is None else encode_tensor(generator.get_state()),
            "epoch": _epoch_of(self._sampler),
        }
        self._fresh = True
        self._iterator = iter(self._sampler)
        self.taken = 0
        if state is None:
            return
        if self.stateful:
            self.taken = state["taken"]
            if isinstance(self._iterator, Stateful) and self._iterator is not self._sampler:
                self._iterator.load_state_dict(state["sampler"])
            return
        for _ in itertools.repeat(None, min(1, state["taken"])):
            next(self, None)
        rest = state["taken"] - self.taken
        if rest > 0:
            next(itertools.islice(self._iterator, rest - 1, rest), None)
        self.taken = state["taken"]

    def _first(self) -> Any:
        """The first item of a pass: torch's samplers draw their order, or their seed, when it is asked for."""
        self._fresh = False
        if self._random is None or self._random.generator is not None or self._seed is None:
            return next(self._iterator)
        self._random.generator = torch.Generator().manual_seed(self._seed)
        try:
            return next(self._iterator)
        finally:
            self._random.generator = None


def _with_generator(sampler: Any) -> Any:
    """The sampler that draws: the given one, or the one inside a batch sampler."""
    for candidate in (sampler, getattr(sampler, "sampler", None)):
        if hasattr(candidate, "generator"):
            return candidate
    return None


def _epoch_of(sampler: Any) -> int | None:
    for candidate in (sampler, getattr(sampler, "sampler", None)):
        if isinstance(epoch := getattr(candidate, "epoch", None), int):
            return epoch
    return None


def encode_tensor(tensor: torch.Tensor) -> str:
    """A tensor of bytes, such as a generator's state, as text."""
    return base64.b64encode(tensor.numpy().tobytes()).decode("ascii")


def decode_tensor(text: str) -> torch.Tensor:
    """Undo `encode_tensor`."""
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
