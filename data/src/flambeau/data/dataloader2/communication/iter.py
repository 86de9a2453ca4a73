"""The pipe that gives the samples of worker processes, in turn, in the main process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau.data.dataloader2.communication.messages import (
    Begin,
    Dispatch,
    End,
    Failure,
    Groups,
    More,
    ShardPlan,
    TellState,
)
from flambeau.data.dataloader2.communication.processes import Processes
from flambeau.data.dataloader2.communication.worker import Pipeline
from flambeau.data.dataloader2.random import SeedGenerator
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.data.datapipes.iter.sharding import SHARDING_PRIORITIES


class WorkersIterDataPipe(IterDataPipe[Any]):
    """Samples of a pipeline that runs in several processes, each with its shard, taken from one shard after the other.

    Shards and processes are two things. A pass has as many shards as there are processes when it begins. A pass that is
    resumed keeps its shards, whatever the number of processes: these share them out, so that the order stays the same
    and no sample is lost or read twice. The next pass has as many shards as processes again.

    Args:
        pipeline: what each process runs.
        num_workers: processes, > 0.
        context: of torch.multiprocessing.
        ahead: samples of each shard that are read ahead at most.
        dispatched: the part of the pipeline that runs once, in a process of its own; None for no such part.
        groups: shardings that were applied before, such as those of ranks.
        length: what `len()` says, None where it is not known.
    """

    state_fields = ("shards", "turn", "dispatched")
    transient = ("processes",)

    def __init__(
        self,
        pipeline: Pipeline,
        num_workers: int,
        context: Any,
        ahead: int,
        dispatched: Pipeline | None,
        groups: Groups,
        length: int | None,
    ) -> None:
        self.pipeline = pipeline
        self.num_workers = num_workers
        self.context = context
        self.credit = max(ahead, 0) + 1
        self.dispatched_pipeline = dispatched
        self.groups = groups
        self.length = length
        self.processes: Processes | None = None
        self.epoch = 0
        self._seeds: SeedGenerator | None = None
        self._reset_fn: Any = None
        self._plans: list[ShardPlan] | None = None
        self._origin: dict[str, Any] | None = None
        self._active: list[int] = []
        self._given: dict[int, int] = {}
        self._turn = 0

    # The processes have copies of the pipeline; none of its pipes is read here.
    _graph_attributes = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> WorkersIterDataPipe:
        raise TypeError("a pipe of running processes cannot be copied; copy the pipeline that it was made of.")

    def begin_pass(self, seeds: SeedGenerator, reset_fn: Any) -> None:
        """Take the seeds of the next pass."""
        self._seeds = seeds
        self._reset_fn = reset_fn

    def reset(self) -> None:
        """Go back to the beginning."""
        seeds = self._seeds if self._seeds is not None else SeedGenerator()
        self._plans = [
            ShardPlan(
                number,
                [*self.groups, (int(SHARDING_PRIORITIES.MULTIPROCESSING), self.num_workers, number)],
                seeds=seeds.for_worker(number).state_dict(),
            )
            for number in range(self.num_workers)
        ]
        self._origin = None
        self._dispatch_seeds = seeds.state_dict()
        self._shard_count = self.num_workers
        self._turn = 0
        self._active = list(range(self.num_workers))

    def get_state(self) -> dict[str, Any]:
        """The state of every shard that has samples left, at the last sample that was given out."""
        if self._plans is not None:  # not begun, or no sample asked for since
            plans = {plan.number: plan for plan in self._plans}
            shards = [_record(plans[number]) for number in self._active]
            return {"shards": shards, "turn": self._turn, "dispatched": self._dispatch_state()}
        for number in self._active:
            self._send_if_alive(self._connection(number), TellState(number, self._given[number]))
        shards = []
        for number in self._active:
            told = self._running().inbox.state(number)
            shards.append(_record(ShardPlan(number, self._applied[number], told.state, told.skip)))
        return {"shards": shards, "turn": self._turn, "dispatched": self._dispatch_state()}

    def _dispatch_state(self) -> dict[str, Any] | None:
        if self.dispatched_pipeline is None:
            return None
        return {"origin": self._origin, "seeds": self._dispatch_seeds, "count": self._shard_count}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on with the shards of a state."""
        self._plans = [
            ShardPlan(
                number, [tuple(group) for group in shard["groups"]], shard["state"], shard["skip"], shard["seeds"]
            )
            for number, shard in enumerate(state["shards"])
        ]
        self._shard_count = len(self._plans)
        if state["dispatched"] is not None:
            for plan, shard in zip(self._plans, state["shards"], strict=True):
                plan.number = shard["number"]
            self._origin = state["dispatched"]["origin"]
            self._dispatch_seeds = state["dispatched"]["seeds"]
            self._shard_count = state["dispatched"]["count"]
        self._active = [plan.number for plan in self._plans]
        self._turn = state["turn"]

    def __iter__(self) -> Iterator[Any]:
        self._start()
        inbox = self._running().inbox
        least = max(self.credit // 2, 1)
        owed = dict.fromkeys(self._active, 0)
        while self._active:
            number = self._active[self._turn]
            message = inbox.next(number)
            if isinstance(message, End):
                del self._active[self._turn]
                self._turn = self._turn % len(self._active) if self._active else 0
                continue
            self._given[number] += 1
            self._turn = (self._turn + 1) % len(self._active)
            owed[number] += 1
            if owed[number] >= least:
                self._send_if_alive(self._connection(number), More(number, owed[number], self._given[number]))
                owed[number] = 0
            yield message[0]

    def _start(self) -> None:
        running, plans = self._running(), self._plans or []
        self.epoch += 1
        running.inbox.begin(self.epoch)
        if running.central is not None:
            self._start_dispatcher(plans)
        self._given = {plan.number: 0 for plan in plans}
        self._applied = {plan.number: plan.groups for plan in plans}
        self._owner = {plan.number: place % self.num_workers for place, plan in enumerate(plans)}
        for worker, connection in enumerate(running.connections):
            share = [plan for plan in plans if self._owner[plan.number] == worker]
            self._send_if_alive(connection, Begin(self.epoch, share, self.credit, self._shard_count, self._reset_fn))
        self._plans = None

    def _start_dispatcher(self, plans: list[ShardPlan]) -> None:
        central: Any = self._running().central
        seeds = self._dispatch_seeds if self._origin is None else None
        start = {plan.number: _received(plan) for plan in plans}
        self._send_if_alive(
            central, Dispatch(self.epoch, self._shard_count, start, self._origin, seeds, self._reset_fn)
        )
        answer = central.recv()
        if isinstance(answer, Failure):
            answer.raise_()
        self._origin = answer

    _dispatch_seeds: dict[str, Any]
    _shard_count: int
    _owner: dict[int, int]
    _applied: dict[int, Groups]

    def _running(self) -> Processes:
        if self.processes is None:
            self.processes = Processes(self.context, self.pipeline, self.num_workers, self.dispatched_pipeline)
        return self.processes

    def _connection(self, number: int) -> Any:
        return self._running().connections[self._owner[number]]

    def _send_if_alive(self, connection: Any, message: Any) -> None:
        try:
            connection.send(message)
        except (BrokenPipeError, ConnectionResetError):  # dead; who reads its answers knows of what
            self._running().inbox.raise_end()

    def close(self) -> None:
        """End the processes."""
        if self.processes is not None:
            self.processes.close()
            self.processes = None

    def __len__(self) -> int:
        if self.length is None:
            raise TypeError("the length of what the workers give is not known.")
        return self.length


def _record(plan: ShardPlan) -> dict[str, Any]:
    return {
        "number": plan.number,
        "groups": [list(group) for group in plan.groups],
        "state": plan.state,
        "skip": plan.skip,
        "seeds": plan.seeds,
    }


def _received(plan: ShardPlan) -> int:
    """How many samples of the dispatcher a shard's state has behind it."""
    for record in (plan.state or {}).get("pipes", ()):
        if record["pipe"] == "FromDispatcherIterDataPipe":
            return int(record["state"]["count"]) if "state" in record else 0
    return 0
