"""Typical user code, which must type-check as it stands; it is never run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from flambeau.data.datapipes.iter import IterableWrapper
from flambeau.data.nodes import IterableWrapper as Source
from flambeau.data.nodes import Loader, Mapper
from flambeau.data.stateful_dataloader import StatefulDataLoader
from flambeau.data.tensordict import LazyStackedTensorDict, NonTensorData, TensorDict, TensorDictBase, lazy_stack
from flambeau.data.tensordict.nn import TensorDictModule, TensorDictSequential


def collect(steps: int) -> TensorDict:
    td = TensorDict({"obs": torch.zeros(steps, 3)}, batch_size=[steps], names=["time"])
    td["next", "obs"] = torch.ones(steps, 3)
    td.set("note", NonTensorData("a run", batch_size=[steps]))
    return td.lock_()


def shapes(td: TensorDictBase) -> tuple[torch.Size, torch.device | None, list[str | None]]:
    parts: tuple[TensorDictBase, ...] = td.reshape(-1).unbind(0)
    assert len(parts) == td.batch_size[0]
    return td.batch_size, td.device, td.names


def saved(td: TensorDictBase, folder: Path) -> TensorDictBase:
    td.memmap(folder, num_threads=2)
    return TensorDict.load_memmap(folder).to(torch.float64).clone()


def stacked(tds: list[TensorDict]) -> LazyStackedTensorDict:
    stack: LazyStackedTensorDict = lazy_stack(tds, 0)
    return stack.apply_(lambda leaf: leaf + 1)


def policy() -> TensorDictSequential:
    first = TensorDictModule(nn.Linear(3, 4), in_keys=["obs"], out_keys=["hidden"])
    return TensorDictSequential(first, TensorDictModule(nn.Linear(4, 2), in_keys=["hidden"], out_keys=[("out", "a")]))


def batches() -> Iterator[Tensor]:
    loader = Loader(Mapper(Source(range(8)), lambda number: torch.tensor(number)))
    yield from loader
    yield from StatefulDataLoader(IterableWrapper(range(8)).map(torch.tensor), batch_size=2)
