"""The driver of a job: `python ray_driver.py`, beside `actors.json`, on the cluster.

Replicas run in actors. As many as the job needs at least are placed together, and the first of them gives the others
its address; the rest follow as the cluster has room. Every line that a replica writes is printed behind its role and
number. The driver fails where a replica does and no retries are left.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import ray
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

try:
    from flambeau.launch.schedulers.ray.ray_common import TORCHX_RANK0_HOST, RayActor
except ModuleNotFoundError:  # on the cluster, where this file lies beside the other
    from ray_common import TORCHX_RANK0_HOST, RayActor  # type: ignore[import-not-found, no-redef]

__all__ = [
    "ActorInfo",
    "CommandActor",
    "CommandActorScheduled",
    "RayDriver",
    "RayResult",
    "TaskCompleted",
    "create_placement_group_async",
    "load_actor_json",
    "main",
]

_CHUNK_S = 0.1
_GUARD = "ray_guard.py"  # in the working directory of the job


@dataclass
class RayResult:
    """What an actor reports.

    Attributes:
        id: of the actor.
    """

    id: str


class TaskCompleted(RayResult):
    """The replica has ended well."""


class CommandActorScheduled(RayResult):
    """The actor has a place."""


class ReplicaFailed(RuntimeError):
    """A replica ended with an error."""


class _CommandActor:
    """Runs a replica's program on some machine of the cluster.

    Args:
        cmd: the program and its arguments.
        env: environment variables, added to the actor's own.
    """

    def __init__(self, cmd: list[str], env: dict[str, str]) -> None:
        self.cmd = cmd
        self.env = {**os.environ, **env}
        if "PATH" in env:
            self.env["PATH"] = os.pathsep.join([env["PATH"], os.environ.get("PATH", "")])

    def schedule(self, actor_id: str) -> CommandActorScheduled:
        """Answer as soon as there is a place."""
        return CommandActorScheduled(actor_id)

    def get_actor_address_and_port(self) -> tuple[str, int]:
        """The address of this machine, and a port that is free now."""
        with closing(socket.socket()) as probe:
            probe.bind(("", 0))
            return str(ray.util.get_node_ip_address()), int(probe.getsockname()[1])

    def exec_module(self, master_addr: str, master_port: int, actor_id: str) -> TaskCompleted:
        """Run the program to its end, with its output going to the actor's."""
        for lines in self.run(master_addr):
            sys.stdout.write("".join(lines))
        return TaskCompleted(actor_id)

    def run(self, master_addr: str) -> Iterator[list[str]]:
        """Run the program, and give the lines that it writes, some at a time.

        Raises:
            ReplicaFailed: it ends with an error.
        """
        environment = {**self.env, TORCHX_RANK0_HOST: master_addr, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            [sys.executable, _GUARD, *self.cmd],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        try:
            waiting: list[str] = []
            told = time.monotonic()
            for line in process.stdout:
                waiting.append(line.decode(errors="replace"))
                if time.monotonic() - told >= _CHUNK_S or len(waiting) == 1:
                    yield waiting
                    waiting, told = [], time.monotonic()
            if waiting:
                yield waiting
            code = process.wait()
        finally:
            process.stdin.close()  # the program ends, where it has not
        if code:
            raise ReplicaFailed(f"{self.cmd[0]} ended with {code}")


CommandActor = ray.remote(_CommandActor)


def load_actor_json(filename: str) -> list[RayActor]:
    """The replicas that a file describes."""
    return [RayActor(**fields) for fields in json.loads(Path(filename).read_text(encoding="utf-8"))]


def create_placement_group_async(replicas: list[RayActor]) -> PlacementGroup:
    """Ask for room for replicas, on as many machines as there are; it may not be there yet."""
    bundles = []
    for replica in replicas:
        bundle: dict[str, float] = {"CPU": replica.num_cpus, "GPU": replica.num_gpus, "memory": replica.memory}
        bundles.append({name: amount for name, amount in bundle.items() if amount > 0} or {"CPU": 0.001})
    group: PlacementGroup = ray.util.placement_group(bundles, strategy="SPREAD")
    return group


@dataclass
class ActorInfo:
    """A replica that has an actor.

    Attributes:
        pg: the room that it was given.
        replica: the replica.
        actor: its actor.
    """

    pg: PlacementGroup
    replica: RayActor
    actor: Any


class RayDriver:
    """Places replicas and waits for their ends.

    Args:
        replicas: all of them; with `min_replicas` the first so many are placed together, and the others one by one.
    """

    def __init__(self, replicas: list[RayActor]) -> None:
        self.replicas = replicas
        self.actor_info_of_id: dict[str, ActorInfo] = {}
        self.placement_groups: list[PlacementGroup] = []
        fewest = replicas[0].min_replicas if replicas else None
        self.min_replicas = len(replicas) if fewest is None else min(fewest, len(replicas))
        self.max_retries = min((replica.max_retries for replica in replicas), default=0)
        self.rank_0_address: str | None = None

    def init_placement_groups(self) -> None:
        """Ask for room: once for those that are needed, once for each of the others."""
        groups = [self.replicas[: self.min_replicas], *([one] for one in self.replicas[self.min_replicas :])]
        self.placement_groups = [create_placement_group_async(group) for group in groups if group]

    def pop_actor_info(self, actor_id: str) -> ActorInfo:
        """Forget an actor."""
        return self.actor_info_of_id.pop(actor_id)

    def create_and_schedule_actor(self, pg: PlacementGroup, replica: RayActor, index: int = 0) -> Any:
        """Make a replica's actor in its room; it starts once the room is there."""
        actor: Any = CommandActor.options(
            num_cpus=replica.num_cpus or 0.001,
            num_gpus=replica.num_gpus,
            memory=replica.memory or None,
            scheduling_strategy=PlacementGroupSchedulingStrategy(pg, placement_group_bundle_index=index),
        ).remote(replica.command, replica.env)
        self.actor_info_of_id[actor._actor_id.hex()] = ActorInfo(pg, replica, actor)
        return actor

    def place_command_actors(self) -> None:
        """Make all actors."""
        rest = iter(self.replicas)
        for group in self.placement_groups:
            for index in range(len(group.bundle_specs)):
                self.create_and_schedule_actor(group, next(rest), index)

    def run(self) -> None:
        """Run all replicas to their ends, again after a failure for as long as retries are left.

        Raises:
            ReplicaFailed: one failed, and none are left.
        """
        for attempt in range(self.max_retries + 1):
            try:
                self._run_once()
                return
            except ReplicaFailed as error:
                print(f"attempt {attempt + 1} of {self.max_retries + 1} failed: {error}", file=sys.stderr, flush=True)
                if attempt == self.max_retries:
                    raise
            finally:
                self._clear()

    def _run_once(self) -> None:
        self.init_placement_groups()
        self._wait_for_room()
        self.place_command_actors()
        infos = list(self.actor_info_of_id.values())
        self.rank_0_address, _ = ray.get(infos[0].actor.get_actor_address_and_port.remote())
        # The first one is at home, whatever address others know it by: torchrun then never doubts that it is to listen.
        hosts = ["localhost", *[self.rank_0_address] * (len(infos) - 1)]
        run = [
            info.actor.run.options(num_returns="streaming").remote(host)
            for info, host in zip(infos, hosts, strict=True)
        ]
        self._follow(list(zip(infos, run, strict=True)))

    def _wait_for_room(self) -> None:
        needed = self.placement_groups[0]
        while not needed.wait(30):
            asked = [dict(bundle) for bundle in needed.bundle_specs]
            there = ray.cluster_resources()
            print(f"waiting for room for {asked}; the cluster has {there}", file=sys.stderr, flush=True)

    def _follow(self, streams: list[tuple[ActorInfo, Any]]) -> None:
        """Print what replicas write as it comes; those that never got room end with the others."""
        open_streams = {id(stream): (info, stream) for info, stream in streams}
        started: set[int] = set()
        while open_streams:
            ready, _ = ray.wait([stream for _, stream in open_streams.values()], timeout=1, fetch_local=True)
            for stream in ready:
                key = id(stream)
                info = open_streams[key][0]
                started.add(key)
                try:
                    lines: Any = ray.get(next(cast("Any", stream)))
                except StopIteration:
                    del open_streams[key]
                    continue
                except ray.exceptions.RayTaskError as error:
                    raise ReplicaFailed(f"{_name(info)}: {error.cause}") from None
                except ray.exceptions.RayActorError as error:
                    raise ReplicaFailed(f"{_name(info)}: {error}") from None
                for line in lines:
                    print(f"{_name(info)} {line}", end="" if line.endswith("\n") else "\n", flush=True)
            if not any(key in open_streams for key in started) and len(started) >= self.min_replicas:
                return

    def _clear(self) -> None:
        for info in self.actor_info_of_id.values():
            ray.kill(info.actor)
        self.actor_info_of_id.clear()
        for group in self.placement_groups:
            ray.util.remove_placement_group(group)
        self.placement_groups = []


def _name(info: ActorInfo) -> str:
    return f"{info.replica.name}/{info.replica.replica_id}"


def main() -> None:
    """Run what `actors.json` describes; exits with 1 where it fails."""
    ray.init(address="auto", log_to_driver=False, logging_level=logging.WARNING)
    try:
        RayDriver(load_actor_json("actors.json")).run()
    except ReplicaFailed as error:
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
