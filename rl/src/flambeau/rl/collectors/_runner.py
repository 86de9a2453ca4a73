"""What a process of a collector does: it makes a collector of its own, and answers to those who started it.

A message to it is a command and a value, an answer a kind and a value: "ready", "batch", "value" or "error".
"""

from __future__ import annotations

import faulthandler
import pickle
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl._comm.makers import dumps
from flambeau.rl.collectors._recording import IDS
from flambeau.rl.collectors.utils import _TrajectoryPool

_LOOK_S = 0.005


class Packed:
    """Something on its way to another process: pickled, by cloudpickle where it is a lambda or the like.

    Args:
        value: what it is.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes]]:
        return _unpacked, (dumps(self.value),)


class PackedByValue(Packed):
    """Something on its way to another machine, with what it needs of the program that is run here."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes]]:
        try:
            import cloudpickle
        except ModuleNotFoundError:
            return super().__reduce__()
        return _unpacked, (cloudpickle.dumps(self.value),)


def _unpacked(data: bytes) -> Packed:
    return Packed(pickle.loads(data))


@dataclass
class Job:
    """What a worker needs to begin.

    Args:
        number: which worker it is.
        collector_class: of its collector.
        arguments: of its collector, without those below.
        replay_buffer: where its steps go.
        pool: numbers of its trajectories.
        interruptor: a flag that ends batches early.
        schemes: what brings weights, by model.
        threads: number of threads that torch may use.
        init_fn: called before anything else.
        notes: a file for tracebacks of crashes, and of where it is when asked by a signal.
        is_single: the collector works in this process, and takes a pool and an interruptor.
        count: number of workers.
    """

    number: int
    collector_class: Packed
    arguments: Packed
    replay_buffer: Any
    pool: _TrajectoryPool
    interruptor: Any
    schemes: dict[str, Any]
    threads: int
    init_fn: Packed
    notes: str
    is_single: bool = True
    count: int = 1

    def made(self) -> Any:
        """The collector."""
        if self.init_fn.value is not None:
            self.init_fn.value()
        arguments = dict(self.arguments.value)
        if self.schemes:
            arguments["weight_recv_schemes"] = self.schemes
        if self.is_single:
            arguments |= {"traj_pool": self.pool, "interruptor": self.interruptor}
        if self.replay_buffer is not None:
            arguments["replay_buffer"] = self.replay_buffer
        return self.collector_class.value(**arguments, worker_idx=self.number)


def by_value(job: Job) -> Job:
    """A job on its way to another machine."""
    return replace(
        job,
        collector_class=PackedByValue(job.collector_class.value),
        arguments=PackedByValue(job.arguments.value),
        init_fn=PackedByValue(job.init_fn.value),
    )


def _main_async_collector(
    line: Connection, job: Job, strange: list[Connection], desk: Callable[..., Desk] | None = None
) -> None:
    """What a worker process does until it is told to end, or until nobody is there to tell it.

    Args:
        line: to those who started it.
        job: what it does.
        strange: ends of lines that a fork copied: while one is open here, its other end does not hear that we ended.
        desk: makes what answers to commands; default: `Desk`.
    """
    for other in strange:
        other.close()
    file = Path(job.notes).open("w")  # noqa: SIM115  # open as long as the process lives
    faulthandler.enable(file)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, file, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which ends the workers
    torch.set_num_threads(job.threads)
    try:
        collector = job.made()
        answer(line, "ready", None)
    except BaseException as error:
        send_error(line, error)
        return
    try:
        with suppress(EOFError, ConnectionError):
            (Desk if desk is None else desk)(line, collector, job).serve()
    finally:
        with suppress(Exception):
            collector.shutdown(raise_on_error=False)


def send_error(line: Connection, error: BaseException) -> None:
    """Tell that something went wrong, with the traceback, and the error itself if it can make the journey."""
    text = "".join(traceback.format_exception(error))
    try:
        cause = dumps(error)
        pickle.loads(cause)
    except Exception:  # whatever cannot make the journey stays here; its text goes
        cause = b""
    with suppress(EOFError, ConnectionError):
        answer(line, "error", (f"{type(error).__name__}: {error}", text, cause))


def answer(line: Connection, kind: str, value: Any) -> None:
    """Send an answer."""
    line.send_bytes(dumps((kind, value)))


class Desk:
    """Answers to commands.

    Args:
        line: where they come from.
        collector: what carries them out.
        job: what it is for.
    """

    def __init__(self, line: Any, collector: Any, job: Job) -> None:
        self.line, self.collector, self.job = line, collector, job
        self.batches = collector.iterator()
        self.slot: TensorDictBase | None = None

    def serve(self) -> None:
        """Answer until told to end."""
        while True:
            # Weights are taken between steps, and while there is nothing to do.
            while getattr(self.collector, "_receivers", ()) and not wait([self.line], _LOOK_S):
                self.collector.take_weights()
            command, value = self.line.recv()
            if command == "end":
                return
            try:
                kind, found = getattr(self, f"_{command}")(*value)
            except BaseException as error:
                send_error(self.line, error)
                if command == "collect" or not isinstance(error, Exception):
                    return
                continue
            answer(self.line, kind, found)
            self.answered(kind, found)

    def answered(self, kind: str, value: Any) -> None:
        """What follows an answer."""

    def batch(self, random: bool, version: Any) -> tuple[int, Any]:
        """Number of steps, and data, of the next batch.

        Args:
            random: actions are random.
            version: of the policy; None where it is not tracked.
        """
        collector = self.collector
        if hasattr(collector, "init_random_frames"):
            collector.init_random_frames = float("inf") if random else 0
        if version is not None:
            collector._version = version
        before = collector._frames
        batch = next(self.batches, None)
        if batch is not None and not self.job.is_single and IDS in batch.keys(True):
            # Collectors of several processes number trajectories without knowing of the other workers.
            ids = batch.get(IDS)
            batch.set(IDS, torch.where(ids < 0, ids, ids * self.job.count + self.job.number))
        return collector._frames - before, batch

    def _collect(self, slot: TensorDictBase | None, random: bool, version: Any) -> tuple[str, Any]:
        if slot is not None:
            self.slot = slot
        frames, batch = self.batch(random, version)
        if batch is None:
            return "batch", (frames, None, False)
        if self.slot is not None and fits(self.slot, batch):
            self.slot.update_(batch)
            return "batch", (frames, None, True)
        return "batch", (frames, batch, False)

    def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any]:
        return "value", self.collector.cascade_execute(name, *args, **kwargs)

    def _get(self, path: str) -> tuple[str, Any]:
        return "value", self.collector.get_distant_attr(path)

    def _do(self, function: Packed, args: tuple[Any, ...]) -> tuple[str, Any]:
        return "value", function.value(self.collector, *args)


def state_of(collector: Any) -> dict[str, Any]:
    """The state of a worker's collector, and of torch's random numbers in its process."""
    state: dict[str, Any] = collector.state_dict()
    state["rng_state"] = torch.get_rng_state()
    return state


def load_state(collector: Any, state: dict[str, Any]) -> None:
    """Go on from what `state_of` gave."""
    collector.load_state_dict(state)
    if "rng_state" in state:
        torch.set_rng_state(state["rng_state"])


def fits(slot: TensorDictBase, batch: TensorDictBase) -> bool:
    """Whether a batch can be written into memory that was made for another one."""
    if type(batch) is not TensorDict or batch.batch_size != slot.batch_size:
        return False
    given = dict(batch.items(True, True))
    there = dict(slot.items(True, True))
    if given.keys() != there.keys():
        return False
    return all(
        isinstance(value, torch.Tensor) and value.shape == there[key].shape and value.dtype == there[key].dtype
        for key, value in given.items()
    )
