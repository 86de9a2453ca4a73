"""One copy of a pipeline in a worker, and its state at any of the last samples.

A state is wanted for the last sample that the user has, while the worker is some samples ahead. Snapshots are taken
now and then, kept here, and cost nothing until one is asked for; a state is the last snapshot before the sample, and
the number of samples to read again from there.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any

_LEAST = 16
# Share of the time that snapshots may take. Reading again after a resume takes at most this many snapshots' time.
_SHARE = 0.02


class Shard:
    """Reads one shard.

    Args:
        number: of the shard.
        pipe: the last pipe, seeded, sharded and with its state loaded.
        skip: samples to leave out.
        credit: samples that may be sent.
    """

    def __init__(self, number: int, pipe: Any, skip: int, credit: int) -> None:
        self.number = number
        self.pipe = pipe
        self.credit = credit
        self.ended = False
        self._given = 0
        self._samples: Iterator[Any] = iter(pipe)
        # Counted from the state that the pipe begins with: `skip` of its samples are the user's already.
        self._skipped = self._skip = skip
        self._snapshots: deque[tuple[int, dict[str, Any]]] = deque([(0, pipe.state_dict())])
        self._interval = _LEAST
        self._since = 0
        self._clock = time.perf_counter()

    @property
    def ready(self) -> bool:
        """Whether a sample may be produced."""
        return not self.ended and self.credit > 0

    def produce(self) -> Any:
        """The next sample.

        Raises:
            StopIteration: there is none.
        """
        while self._skip:
            self._skip -= 1
            next(self._samples)
        sample = next(self._samples)
        self.credit -= 1
        self._given += 1
        self._since += 1
        if self._since >= self._interval:
            self._take_snapshot()
        return sample

    def _take_snapshot(self) -> None:
        begun = time.perf_counter()
        self._snapshots.append((self._skipped + self._given, self.pipe.state_dict()))
        ended = time.perf_counter()
        per_sample = max(begun - self._clock, 1e-9) / self._since
        self._interval = min(max(_LEAST, int((ended - begun) / (_SHARE * per_sample))), 1 << 20)
        self._since, self._clock = 0, ended

    def taken(self, count: int) -> None:
        """Forget snapshots that no state will need: the user has so many samples of this pass."""
        while len(self._snapshots) > 1 and self._snapshots[1][0] <= self._skipped + count:
            self._snapshots.popleft()

    def state(self, count: int) -> tuple[dict[str, Any], int]:
        """The state when the user has so many samples of this pass: of the pipeline, and how many to leave out then."""
        self.taken(count)
        position, state = self._snapshots[0]
        return state, self._skipped + count - position
