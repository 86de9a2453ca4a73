"""Blocks of several outputs, read ahead by threads and handed out in the order of their times."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from flambeau.audio.io._errors import MediaTimeoutError


@dataclass(frozen=True)
class Block:
    """Consecutive frames of one output.

    Attributes:
        output: number of the output.
        frames: (frames, channels) of audio, (frames, C, H, W) of video.
        pts: seconds of the first frame on the source's clock.
    """

    output: int
    frames: Tensor
    pts: float


class Closed(Exception):
    """The consumer is gone; a thread that reads ahead has nothing left to do."""


class Merger:
    """A bounded store between reading threads and one consumer.

    The block with the lowest time goes first, for which every output must have one. An output that lacks blocks while
    another's share is full does not hold up the rest: waiting for it could stop the program that feeds both.

    Args:
        outputs: how many there are.
        most_bytes: each output's share.
    """

    def __init__(self, outputs: int, most_bytes: int = 32 * 2**20) -> None:
        self._queues: list[deque[Block]] = [deque() for _ in range(outputs)]
        self._sizes = [0] * outputs
        self._open = set(range(outputs))
        self._full: set[int] = set()
        self._most = most_bytes
        self._error: BaseException | None = None
        self._closed = False
        self._changed = threading.Condition()

    def put(self, block: Block, share: int | None = None) -> None:
        """Add a block; waits while the output's share is full.

        Args:
            block: what to hand out.
            share: whose share it takes; that of its output by default.

        Raises:
            Closed: nobody will take it.
        """
        share = block.output if share is None else share
        size = _bytes(block)
        with self._changed:
            while not self._closed and self._sizes[share] and self._sizes[share] + size > self._most:
                self._full.add(share)
                self._changed.notify_all()
                self._changed.wait()
            self._full.discard(share)
            if self._closed:
                raise Closed
            self._queues[share].append(block)
            self._sizes[share] += size
            self._changed.notify_all()

    def finish(self, share: int, error: BaseException | None = None) -> None:
        """No more blocks come for a share; the first error of all is raised once the blocks before it are taken."""
        with self._changed:
            self._open.discard(share)
            self._error = self._error or error
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Remember an error from beside the blocks, to be raised at their end."""
        with self._changed:
            self._error = self._error or error

    def get(self, timeout_s: float | None) -> Block | None:
        """The next block, None at the end of all outputs.

        Args:
            timeout_s: how long to wait; None without limit.

        Raises:
            MediaTimeoutError: nothing came in time.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while (share := self._next()) is None:
                if not self._open:
                    if self._error is not None:
                        error, self._error = self._error, None
                        raise error
                    return None
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise MediaTimeoutError(
                        f"The source gave nothing within {timeout_s:.3f} s. It may have stopped; try again, wait "
                        "longer with `timeout`, or close the reader."
                    )
                self._changed.wait(left)
            block = self._queues[share].popleft()
            self._sizes[share] -= _bytes(block)
            self._changed.notify_all()
            return block

    def _next(self) -> int | None:
        """The share whose first block is due, None while that cannot be told."""
        filled = [share for share, queue in enumerate(self._queues) if queue]
        if not filled or (not self._full and any(not self._queues[share] for share in self._open)):
            return None
        return min(filled, key=lambda share: self._queues[share][0].pts)

    def close(self) -> None:
        """Let the threads go that wait for room, and drop what was not taken."""
        with self._changed:
            self._closed = True
            for queue in self._queues:
                queue.clear()
            self._changed.notify_all()


class ReadAhead:
    """One thread that runs an iterator of blocks ahead of its consumer.

    Args:
        blocks: the iterator; the thread alone uses it.
        most_bytes: how far ahead.
    """

    def __init__(self, blocks: Iterator[Block], most_bytes: int = 32 * 2**20) -> None:
        self._merger = Merger(1, most_bytes)
        self._thread = threading.Thread(target=_run, args=(blocks, self._merger), name="media-ahead", daemon=True)
        self._thread.start()

    def read(self, timeout_s: float | None) -> Block | None:
        """As `Merger.get`."""
        return self._merger.get(timeout_s)

    def close(self) -> None:
        """Stop the thread; what it reads from must be closed before, so that it does not wait there."""
        self._merger.close()
        if self._thread is not threading.current_thread():
            self._thread.join()


def _run(blocks: Iterator[Block], merger: Merger) -> None:
    error: BaseException | None = None
    try:
        for block in blocks:
            merger.put(block, share=0)  # one for all: the order in which they were decoded is the order they go out in
    except Closed:
        return
    except BaseException as raised:
        error = raised
    merger.finish(0, error)


def _bytes(block: Block) -> int:
    return block.frames.numel() * block.frames.element_size()
