"""Run checks on several processes, which are started once for all of them."""

from __future__ import annotations

import importlib
import os
import pickle
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

PREFIX = "check_"


@dataclass(frozen=True)
class World:
    """The processes, for a check."""

    rank: int
    size: int
    folder: Path


def names_of(modules: list[str]) -> list[str]:
    """All checks of some modules, as "module.check"."""
    found = []
    for module in modules:
        names = vars(importlib.import_module(module))
        found += [f"{module}.{name}" for name in names if name.startswith(PREFIX)]
    return found


def outcomes(modules: list[str], size: int, local_size: int) -> dict[str, list[str | None]]:
    """Run all checks of some modules on `size` processes.

    Returns:
        Of each check, of each process: None where it passed, else the traceback, or that it died in it. After a check
        that failed, processes no longer agree, and no further one is run.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            mp.spawn(_run, (modules, size, local_size, folder), nprocs=size)
            died = None
        except mp.ProcessExitedException as error:  # by a signal, as when a backend aborts
            died = str(error)
        parts = [_outcome(Path(folder), rank, died) for rank in range(size)]
    return {name: [part.get(name, "not run") for part in parts] for name in names_of(modules)}


def _outcome(folder: Path, rank: int, died: str | None) -> dict[str, str | None]:
    whole, current = folder / f"outcome{rank}", folder / f"current{rank}"
    if whole.is_file():
        found: dict[str, str | None] = pickle.loads(whole.read_bytes())
        return found
    return {current.read_text(): died} if current.is_file() else {}


def _run(rank: int, modules: list[str], size: int, local_size: int, folder: str) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ["LOCAL_WORLD_SIZE"] = str(local_size)
    store = dist.FileStore(str(Path(folder) / "store"), size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=60))
    found: dict[str, Any] = {}
    world = World(rank, size, Path(folder))
    for name in names_of(modules):
        module, _, check = name.rpartition(".")
        function: Callable[[World], None] = getattr(importlib.import_module(module), check)
        (Path(folder) / f"current{rank}").write_text(name)
        try:
            function(world)
        except BaseException:  # torch.distributed.checkpoint raises one that is no Exception
            found[name] = traceback.format_exc()
            break
        found[name] = None
    (Path(folder) / f"outcome{rank}").write_bytes(pickle.dumps(found))
    if None in found.values() and all(one is None for one in found.values()):
        dist.destroy_process_group()
    else:
        os._exit(0)  # the others are in a collective that this process does not take part in any more
