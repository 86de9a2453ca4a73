"""Environments in processes of their own: what runs there, and those who talk to it.

A message is a tag of one byte, and where needed a pickle behind it. To a worker: `s` step, `m` step and maybe reset,
`r` reset, `c` call, `q` end. From it: `k` done, `e` done and an episode ended, `v` done, with a value, `x` an error.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import select
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as mp

from flambeau.rl._comm.makers import Maker, dumps
from flambeau.rl.envs._batched.member import Member, member_of, wait_for
from flambeau.rl.errors import EnvWorkerError

Reply = tuple[bytes, Any]

_SPIN_S = 50e-6
"""How long to look for a message before sleeping, where there are cores to spare: waking up takes as long."""
_GRACE_S = 20.0
"""How long to wait for what a dead or silent worker leaves behind."""


def timeout_s() -> float:
    """Seconds that a worker may take for an answer: the environment variable BATCHED_PIPE_TIMEOUT, default 10,000."""
    return float(os.environ.get("BATCHED_PIPE_TIMEOUT", "10000"))


# In the worker


def serve(
    line: Connection, maker: Maker, seat: Any, threads: int, notes: str, spins: bool, strange: list[Connection]
) -> None:
    """What a worker process does until it is told to end, or until nobody is there to tell it.

    Args:
        line: to those who started it.
        maker: makes the environment.
        seat: (handle of the shared memory, places in it, keys).
        threads: number of threads that torch may use.
        notes: a file for tracebacks of crashes, and of where the worker is when asked by a signal.
        spins: there are cores to spare.
        strange: ends of lines that a fork copied: while one is open here, its other end does not hear that we ended.
    """
    from flambeau.rl.envs._batched.layout import opened

    for other in strange:
        other.close()
    file = Path(notes).open("w")  # noqa: SIM115  # open as long as the process lives
    faulthandler.enable(file)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, file, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which ends the workers
    torch.set_num_threads(threads)
    try:
        env = maker()
        handle, row, keys = seat
        member = member_of(env, opened(handle), row, keys)
        env.is_closed = False
    except BaseException as error:
        _send_error(line, error)
        return
    line.send_bytes(b"k")
    try:
        with suppress(EOFError, ConnectionError):
            _answer_all(line, member, opened(handle).device, spins)
    finally:
        with suppress(Exception):
            env.close()


def _answer_all(line: Connection, member: Member, device: torch.device, spins: bool) -> None:
    poll = _poller([line]) if spins else None
    while True:
        if poll is not None:
            until = time.perf_counter() + _SPIN_S
            while not poll(0.0) and time.perf_counter() < until:
                pass
        message = line.recv_bytes()
        tag = message[:1]
        if tag == b"q":
            return
        try:
            value = pickle.loads(message[1:]) if len(message) > 1 else None
            answer = _message(*reply_of(member, tag, value))
            wait_for(device)
        except BaseException as error:
            _send_error(line, error)
            if not isinstance(error, Exception):
                return
            continue
        line.send_bytes(answer)


def _step(member: Member, carried: Any) -> Reply:
    out = member.step(carried)
    return (b"k", None) if out is None else (b"v", (False, out, None))


def _step_and_maybe_reset(member: Member, carried: Any) -> Reply:
    ended, out, first = member.step_and_maybe_reset(carried)
    if out is None and first is None:
        return (b"e" if ended else b"k"), None
    return b"v", (ended, out, first)


def _reset(member: Member, given: Any) -> Reply:
    out = member.reset(*(([], None, {}) if given is None else given))
    return (b"k", None) if out is None else (b"v", (False, None, out))


def _call(member: Member, given: Any) -> Reply:
    function, args, kwargs = given
    return b"v", function(member.env, *args, **kwargs)


_ANSWERS: dict[bytes, Callable[[Member, Any], Reply]] = {
    b"s": _step, b"m": _step_and_maybe_reset, b"r": _reset, b"c": _call
}  # fmt: skip


def reply_of(member: Member, tag: bytes, value: Any) -> Reply:
    """What an environment answers to a message.

    Args:
        member: the environment.
        tag: what to do.
        value: with what.
    """
    return _ANSWERS[tag](member, value)


def _message(tag: bytes, value: Any = None) -> bytes:
    return tag if value is None and tag != b"v" else tag + dumps(value)


def _send_error(line: Connection, error: BaseException) -> None:
    text = "".join(traceback.format_exception(error))
    try:
        cause = dumps(error)
        pickle.loads(cause)
    except Exception:  # whatever cannot make the journey stays here; its text goes
        cause = b""
    with suppress(EOFError, ConnectionError):
        line.send_bytes(_message(b"x", (f"{type(error).__name__}: {error}", text, cause)))


def _poller(lines: Iterable[Connection]) -> Callable[[float], list[int]]:
    """A function of a timeout in seconds that returns which lines have something to read, or are closed."""
    lines = list(lines)
    if hasattr(select, "poll"):
        poll = select.poll()
        places = {}
        for at, line in enumerate(lines):
            places[line.fileno()] = at
            poll.register(line.fileno(), select.POLLIN | select.POLLHUP)
        return lambda seconds: [places[number] for number, _ in poll.poll(seconds * 1000)]
    return lambda seconds: [at for at, line in enumerate(lines) if line in wait(lines, seconds)]


# In the main process


class Workers:
    """The processes of several environments.

    Args:
        makers: what makes each environment.
        seats: what each needs of the shared memory.
        method: how processes start: "fork", "spawn" or "forkserver".
        threads: number of threads in each.
        daemon: they end with the main process, and may have no children.
        shutdown_timeout: seconds that they have to end by themselves.

    Raises:
        EnvWorkerError: an environment could not be made.
    """

    def __init__(
        self, makers: list[Maker], seats: list[Any], method: str, threads: int, daemon: bool, shutdown_timeout: float
    ) -> None:
        self.count = len(makers)
        self.shutdown_timeout = shutdown_timeout
        spare = (os.cpu_count() or 1) > self.count
        self._spins = spare
        self._notes = tempfile.TemporaryDirectory(prefix="flambeau-workers-")
        context: Any = mp.get_context(method)
        self.lines: list[Connection] = []
        self.processes: list[Any] = []
        self._end = Finalize(
            self, _end_all, (self.lines, self.processes, shutdown_timeout, os.getpid(), self._notes), exitpriority=20
        )
        try:
            for at, (maker, seat) in enumerate(zip(makers, seats, strict=True)):
                ours, theirs = context.Pipe()
                strange = [*self.lines, ours] if method == "fork" else []
                process = context.Process(
                    target=serve,
                    args=(theirs, maker, seat, threads, str(self._note(at)), spare, strange),
                    daemon=daemon,
                    name=f"flambeau-env-{at}",
                )
                process.start()
                theirs.close()
                self.lines.append(ours)
                self.processes.append(process)
            self._poll = [_poller([line]) for line in self.lines]
            self.receive(range(self.count), "being made")
        except BaseException:
            self.close()
            raise

    def _note(self, at: int) -> Path:
        return Path(self._notes.name) / f"{at}.txt"

    def close(self) -> None:
        """End all processes: they are told to, and killed where they do not."""
        self._end()

    def tell(self, at: int, tag: bytes, value: Any = None) -> None:
        """Send a message to one worker.

        Args:
            at: its number.
            tag: what to do.
            value: with what; None for nothing.
        """
        try:
            self.lines[at].send_bytes(tag if value is None else tag + dumps(value))
        except (EOFError, OSError) as error:
            self._raise_dead(at, error)

    def ask(self, which: Iterable[int], tag: bytes, values: dict[int, Any] | None = None) -> list[Reply]:
        """Let several workers do something at once, and wait for all.

        Args:
            which: their numbers.
            tag: what to do.
            values: with what, by number.

        Returns:
            What each answered, in the order of `which`.

        Raises:
            EnvWorkerError: one of them raised, died, or does not answer in time. All are ended then.
        """
        which = list(which)
        try:
            for at in which:
                self.tell(at, tag, None if values is None else values.get(at))
            return self.receive(which)
        except EnvWorkerError:
            raise
        except BaseException:
            # Answers that nobody waits for any more would be taken for those to the next message.
            self.close()
            raise

    def call(self, at: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a function of one worker's environment returns there."""
        self.tell(at, b"c", (function, args, kwargs))
        return self.receive([at], "answering a call", keep=True)[0][1]

    def receive(self, which: Iterable[int], doing: str = "working", keep: bool = False) -> list[Reply]:
        """The answers of several workers.

        Args:
            which: their numbers.
            doing: what they are at, for messages.
            keep: go on after an error.
        """
        replies, failed = [], None
        deadline = time.monotonic() + timeout_s()
        for at in which:
            reply = self._receive(at, deadline, doing)
            if reply[0] == b"x" and failed is None:
                failed = (at, reply[1])
            replies.append(reply)
        if failed is not None:
            if not keep:
                self.close()
            raise _error(*failed)
        return replies

    def _receive(self, at: int, deadline: float, doing: str) -> Reply:
        poll = self._poll[at]
        if self._spins:
            until = time.perf_counter() + _SPIN_S
            while not poll(0.0) and time.perf_counter() < until:
                pass
        # Signals that other parts of a program handle may end a wait early.
        while not poll(max(0.0, min(deadline - time.monotonic(), 3600.0))):
            if time.monotonic() >= deadline:
                self._raise_silent(at, doing)
        try:
            message = self.lines[at].recv_bytes()
        except (EOFError, OSError) as error:
            self._raise_dead(at, error)
        return message[:1], pickle.loads(message[1:]) if len(message) > 1 else None

    def _raise_dead(self, at: int, error: BaseException) -> Any:
        process = self.processes[at]
        process.join(_GRACE_S)
        code = process.exitcode
        how = "ended" if code is None else f"ended with code {code}"
        if code is not None and code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
        text = self._traceback(at)
        self.close()
        raise EnvWorkerError(
            f"The process of environment {at} {how} without a word. "
            + (
                f"Where it was then:\n{text}"
                if text
                else "It left no traceback here: look at what it printed, and whether memory ran out."
            )
        ) from error

    def _raise_silent(self, at: int, doing: str) -> Any:
        text = ""
        if hasattr(signal, "SIGUSR1") and hasattr(faulthandler, "register"):
            with suppress(OSError):
                os.kill(self.processes[at].pid, signal.SIGUSR1)
                until = time.monotonic() + _GRACE_S
                while not (text := self._traceback(at)) and time.monotonic() < until:
                    time.sleep(0.01)
        for process in self.processes:
            process.kill()
        self.close()
        raise EnvWorkerError(
            f"The environment {at} has not answered for {timeout_s():g} s while {doing}, and was ended. If it may take "
            f"longer, set the environment variable BATCHED_PIPE_TIMEOUT to more seconds. Where it was:\n{text}"
        )

    def _traceback(self, at: int) -> str:
        with suppress(OSError):
            return self._note(at).read_text().strip()
        return ""


def _error(at: int, told: tuple[str, str, bytes]) -> EnvWorkerError:
    short, text, cause = told
    error = EnvWorkerError(f"The environment {at} raised {short}\n\nIn its process:\n{text}")
    if cause:
        with suppress(Exception):
            error.__cause__ = pickle.loads(cause)
    return error


def _end_all(lines: list[Connection], processes: list[Any], seconds: float, owner: int, notes: Any) -> None:
    if os.getpid() != owner:  # a child that was forked has copies of all this
        return
    for line in lines:
        with suppress(EOFError, OSError):
            line.send_bytes(b"q")
    deadline = time.monotonic() + seconds
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
    for process in processes:
        if process.is_alive():
            process.terminate()
    for process in processes:
        process.join(0.5)
        if process.is_alive():
            process.kill()
            process.join()
    for line in lines:
        line.close()
    notes.cleanup()


def default_method() -> str:
    """How processes start where nobody said so: as was set for multiprocessing, else by spawn, which is always safe."""
    chosen: str | None = mp.get_start_method(allow_none=True)
    return chosen or "spawn"
