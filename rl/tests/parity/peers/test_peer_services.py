"""Served policies, mailboxes, windows of steps and changes of stored items do what torchrl's do."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from test_peer_envs import Names

from flambeau.core.testing.differential import Suite, cross, read_table

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

HERE = Path(__file__).parent


def names(root: str, tensordict: str) -> Names:
    return Names(
        f"{root}.data",
        f"{root}._comm",
        f"{root}._comm.request_reply",
        f"{root}.modules.inference_server",
        f"{tensordict}.nn",
        tensordict,
    )


SUITE = Suite(
    "services",
    ours=names("flambeau.rl", "flambeau.data.tensordict"),
    peer=names("torchrl", "tensordict"),
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=HERE / "differences.toml",
)
TABLE = read_table(HERE / "service_programs.txt")
LENT = {"torch": torch, "queue": queue, "threading": threading}


def episodes(count: int, ends: tuple[int, ...], anchors: list[int], size: int = 10) -> dict[str, Any]:
    """A ring of steps, of which some end an episode, and places in it."""

    def buffer(library: Any) -> Any:
        made = library.ReplayBuffer(storage=library.LazyTensorStorage(size))
        done = torch.zeros(count, 1, dtype=torch.bool)
        done[list(ends)] = True
        made.extend(library.TensorDict({"obs": torch.arange(count), "next": {"done": done}}, [count]))
        return made

    return {"rb": buffer, "anchors": lambda library: torch.tensor(anchors)}


RINGS = {
    "full": episodes(10, (4, 9), [0, 3, 4, 6, 9]),
    "part": episodes(7, (2,), [0, 2, 3, 5, 6]),
    "lapped": episodes(13, (3, 8, 11), [0, 2, 3, 4, 6, 9]),
    "one episode": episodes(8, (), [0, 4, 7]),
    "ends everywhere": episodes(6, (0, 1, 2, 3, 4, 5), [0, 3, 5], 6),
}


def rows(library: Any) -> Any:
    return library.TensorDict({"value": torch.zeros(4), "version": torch.zeros(4, dtype=torch.int64)}, [4])


def tracked(storage: str) -> dict[str, Any]:
    """A buffer that counts generations, of the fourth row on."""

    def buffer(library: Any) -> Any:
        made = library.TensorDictReplayBuffer(
            storage=getattr(library, storage)(4),
            writer=library.TensorDictRoundRobinWriter(track_generations=True),
            batch_size=2,
        )
        made.extend(rows(library))
        return made

    return {
        "rb": buffer,
        "d": rows,
        "i": lambda library: torch.arange(4),
        "g": lambda library: torch.zeros(4, dtype=torch.int64),
    }


def served() -> dict[str, Any]:
    """A policy, requests, and a function that asks a server."""

    def policy(library: Any) -> Any:
        torch.manual_seed(0)
        return library.TensorDictModule(torch.nn.Linear(4, 2), in_keys=["observation"], out_keys=["action"])

    def ask(library: Any) -> Any:
        def asked(model: Any, request: Any, transport: str = "auto", **options: Any) -> Any:
            server = library.InferenceServer(model, transport, **options)
            client = server.client()
            server.start()
            try:
                return client(request)
            finally:
                server.shutdown()

        return asked

    return {
        "policy": policy,
        "ask": ask,
        "td": lambda library: library.TensorDict({"observation": torch.ones(4)}),
        "pair": lambda library: library.TensorDict({"observation": torch.ones(3, 4)}, [3]),
    }


SUITE.add(*cross("windows", RINGS, TABLE["windows"], names=LENT))
SUITE.add(*cross("updates", {"tracked": tracked("LazyTensorStorage")}, TABLE["updates"], names=LENT))
SUITE.add(*cross("comm", {"comm": served()}, TABLE["comm"], names=LENT))
SUITE.add(*cross("served", {"served": served()}, TABLE["served"], names=LENT))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
