"""Metrics of either library on two ranks: started once for a library, for all of its cells."""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from metric_programs import KINDS, Kind, Way, apart, batch, build

RANKS = 2
WAYS = {
    "unfused": Way(tasks=2),
    "fused": Way(tasks=2, mode="FUSED_TASKS_COMPUTATION"),
    "validated": Way(tasks=2, weights="first-zero", options={"should_validate_update": True}),
    "everywhere": Way(options={"compute_on_all_ranks": True}),
}


class _Modules(SimpleNamespace):
    """Submodules of a package as attributes."""

    def __getattr__(self, name: str) -> Any:
        return importlib.import_module(f"{self.package}.{name}")


@functools.cache
def rank_values(package: str) -> dict[str, Any]:
    """Name of the cell -> what each rank saw, or the class of its error."""
    with tempfile.TemporaryDirectory() as folder:
        started = [
            subprocess.Popen([sys.executable, "-W", "ignore", __file__, package, str(rank), folder])
            for rank in range(RANKS)
        ]
        codes = [process.wait(300) for process in started]
        if any(codes):
            raise RuntimeError(f"The ranks ended with {codes}; their output says why.")
        seen = [torch.load(Path(folder) / f"{rank}.pt", weights_only=False) for rank in range(RANKS)]
    return {name: [one[name] for one in seen] for name in seen[0]}


def _look(library: Any, kind: Kind, way: Way, rank: int) -> dict[str, Any]:
    options = {**way.options, "my_rank": rank, "world_size": RANKS}
    way = Way(**{**vars(way), "options": options, "window_size": 64})
    metric = build(library, kind, way)
    steps = []
    for step in range(3):
        metric.update(**batch(kind, way, step, salt=f"rank{rank}"))
        steps.append(apart(metric.compute()))
    before = apart(dict(metric.state_dict()))
    metric.sync()
    synced = {"state": apart(dict(metric.state_dict())), "local": apart(metric.local_compute())}
    metric.unsync()
    return {"steps": steps, "synced": synced, "state": before, "after": apart(dict(metric.state_dict()))}


def cells() -> Iterator[tuple[str, Kind, Way]]:
    """All that run on several ranks; those that the peer cannot do on one are none of them."""
    for name, kind in KINDS.items():
        for word, way in WAYS.items():
            if not (kind.inputs and kind.inputs[0] != "target") and name != "auprc":
                yield f"{name}/{word}", kind, way


def _main(package: str, rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    library = _Modules(package=package)
    seen = {}
    for name, kind, way in cells():
        try:
            seen[name] = _look(library, kind, way, rank)
        except Exception as error:
            seen[name] = f"{type(error).__name__}: {error}"
    torch.save(seen, folder / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
