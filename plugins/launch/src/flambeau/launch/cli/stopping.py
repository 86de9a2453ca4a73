"""A command that is told to end while it has applications of its own: they are ended first, and then it ends so."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["Stop"]


class Stop:
    """The signal that told this command to end, if any did.

    From `listen` on, SIGTERM and SIGINT are only noted. Nothing is raised: an exception out of a handler comes up
    wherever the main thread stands, where somebody may take it for an error of his own, or nobody carries it on. So
    whoever launches looks at `number` between two steps. When the block ends it leaves by `SystemExit`, whatever
    else went wrong meanwhile, with the code that shells have for a program that this signal ended.

    Until then signals end the command as they end any program, and so does a second one.

    Attributes:
        number: the signal; None where none came.
    """

    def __init__(self) -> None:
        self.number: signal.Signals | None = None
        self._former: dict[int, Any] = {}

    def listen(self) -> None:
        """Note signals; those that are ignored, or that somebody else handles, stay so. For the main thread alone."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            if (former := signal.getsignal(number)) in (signal.SIG_DFL, signal.default_int_handler):
                self._former[number] = former
                signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = signal.Signals(number)
        for one in self._former:
            signal.signal(one, signal.SIG_DFL)

    def __enter__(self) -> Stop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)
        if self.number is not None:
            told = f"ended by {self.number.name}, with everything that was launched"
            print(f"flambeau launch: {told}", file=sys.stderr)
            raise SystemExit(128 + self.number) from error
