"""StatefulDataLoader gives the batches, epochs, errors and resumed rests of TorchData 0.11."""

# ruff: noqa: E501  # a program is easier to read on one line

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info
from torchdata_peers import DIFFERENCES, FUNCTIONS, NEEDED, ROOTS

from flambeau.core.testing.differential import Cell, Suite, program

pytest.importorskip("torchdata.stateful_dataloader", reason=NEEDED)


def loaders_of(root: str) -> SimpleNamespace:
    """The public names of stateful loaders and samplers."""
    package = import_module(f"{root}.stateful_dataloader")
    sampler = import_module(f"{root}.stateful_dataloader.sampler")
    names = {name: getattr(package, name) for name in ("StatefulDataLoader", "Stateful")}
    names |= {name: getattr(sampler, name) for name in ("RandomSampler", "BatchSampler", "StatefulDistributedSampler")}
    return SimpleNamespace(**names)


SUITE = Suite(
    "stateful_dataloader",
    ours=loaders_of("flambeau.data"),
    peer=loaders_of("torchdata"),
    roots=ROOTS,
    differences=DIFFERENCES,
)


class Numbers(Dataset):
    """Numbers by index."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return index


class Drawn(Numbers):
    """Numbers that the worker draws."""

    def __getitem__(self, index: int) -> int:
        return int(torch.randint(1 << 30, ()))


class Failing(Numbers):
    """One of them raises."""

    def __getitem__(self, index: int) -> int:
        if index == 7:
            raise ArithmeticError("seven")
        return index


class Lines(IterableDataset):
    """Numbers in their order, every worker its part."""

    def __init__(self, count: int) -> None:
        self.count = count

    def _own(self) -> range:
        info = get_worker_info()
        return range(self.count) if info is None else range(info.id, self.count, info.num_workers)

    def __iter__(self) -> Any:
        yield from self._own()


class SizedLines(Lines):
    """With a length."""

    def __len__(self) -> int:
        return self.count


class StatefulLines(Lines):
    """Says itself how far it is."""

    at = 0

    def __iter__(self) -> Any:
        own = self._own()
        while self.at < len(own):
            self.at += 1
            yield own[self.at - 1]
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class Reader:
    """An iterator that says how far it is, and goes on behind an error."""

    def __init__(self, numbers: range, fails: bool) -> None:
        self.numbers, self.fails, self.at = numbers, fails, 0

    def __iter__(self) -> Reader:
        return self

    def __next__(self) -> int:
        if self.at >= len(self.numbers):
            raise StopIteration
        self.at += 1
        if self.fails and self.numbers[self.at - 1] == 7:
            raise ArithmeticError("seven")
        return self.numbers[self.at - 1]

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class ReaderLines(Lines):
    """Its iterators say how far they are."""

    def __iter__(self) -> Any:
        return Reader(self._own(), fails=False)


class FailingLines(Lines):
    """One of them raises, and the next are read."""

    def __iter__(self) -> Any:
        return Reader(self._own(), fails=True)


GENERATOR = "generator=torch.Generator().manual_seed(3)"
LOADERS = {
    "map": "Numbers(11), 2, num_workers={w}",
    "map-drop": "Numbers(11), 2, drop_last=True, num_workers={w}",
    "map-no-batch": "Numbers(6), None, num_workers={w}",
    "map-shuffled": "Numbers(11), 2, shuffle=True, num_workers={w}",
    "map-shuffled-generator": f"Numbers(11), 2, shuffle=True, num_workers={{w}}, {GENERATOR}",
    "map-sampler": "Numbers(11), 2, sampler=torch.utils.data.SequentialSampler(range(5)), num_workers={w}",
    "map-random-sampler": f"Numbers(11), 2, sampler=torch.utils.data.RandomSampler(range(11), {GENERATOR}), num_workers={{w}}",
    "map-stateful-sampler": f"Numbers(11), 2, sampler=RandomSampler(Numbers(11), {GENERATOR}), num_workers={{w}}",
    "map-batch-sampler": "Numbers(11), batch_sampler=torch.utils.data.BatchSampler(range(11), 4, False), num_workers={w}",
    "map-stateful-batch-sampler": "Numbers(11), batch_sampler=BatchSampler(torch.utils.data.SequentialSampler(range(11)), 4, False), num_workers={w}",
    "map-distributed": "Numbers(11), 2, sampler=StatefulDistributedSampler(Numbers(11), num_replicas=2, rank=1, shuffle=False), num_workers={w}",
    "map-distributed-shuffled": "Numbers(11), 2, sampler=StatefulDistributedSampler(Numbers(11), num_replicas=2, rank=0, seed=3), num_workers={w}",
    "map-collate": "Numbers(11), 2, collate_fn=list, num_workers={w}",
    "map-sparse": "Numbers(11), 2, snapshot_every_n_steps=3, num_workers={w}",
    "map-fails": "Failing(12), 2, num_workers={w}",
    "map-empty": "Numbers(0), 2, num_workers={w}",
    "map-list": "list(range(7)), 2, num_workers={w}",
    "lines": "Lines(11), 2, num_workers={w}",
    "lines-drop": "Lines(11), 2, drop_last=True, num_workers={w}",
    "lines-no-batch": "Lines(6), None, num_workers={w}",
    "lines-sized": "SizedLines(11), 2, num_workers={w}",
    "lines-sparse": "Lines(11), 2, snapshot_every_n_steps=3, num_workers={w}",
    "lines-stateful": "StatefulLines(11), 2, num_workers={w}",
    "lines-stateful-sparse": "StatefulLines(11), 2, snapshot_every_n_steps=2, num_workers={w}",
    "lines-reader": "ReaderLines(11), 2, num_workers={w}",
    "lines-reader-sparse": "ReaderLines(11), 2, snapshot_every_n_steps=3, num_workers={w}",
    "lines-fail": "FailingLines(16), 2, num_workers={w}",
}
WITH_WORKERS_ONLY = {
    "drawn": "Drawn(8), 2, num_workers={w}",
    "persistent": "Numbers(11), 2, persistent_workers=True, num_workers={w}",
    "persistent-lines": "Lines(11), 2, persistent_workers=True, num_workers={w}",
    "prefetch": "Numbers(11), 2, prefetch_factor=1, num_workers={w}",
}
VIEWS = {
    "epochs": "l = BUILD; [outcomes(iter(l)), outcomes(iter(l))]",
    "length": "len(BUILD)",
    "resumed": "l = BUILD; i = iter(l); a = outcomes(i, 2); state = pickle.loads(pickle.dumps(l.state_dict())); m = BUILD; m.load_state_dict(state); [a, outcomes(iter(m))]",
    "resumed-later": "l = BUILD; i = iter(l); a = outcomes(i, 4); m = BUILD; m.load_state_dict(l.state_dict()); [a, outcomes(iter(m))]",
    "resumed-here": "l = BUILD; i = iter(l); outcomes(i, 2); state = l.state_dict(); outcomes(i, 1); l.load_state_dict(state); outcomes(iter(l))",
    "resumed-twice": "l = BUILD; outcomes(iter(l), 1); m = BUILD; m.load_state_dict(l.state_dict()); outcomes(iter(m), 2); k = BUILD; k.load_state_dict(m.state_dict()); outcomes(iter(k))",
    "resumed-at-end": "l = BUILD; outcomes(iter(l)); m = BUILD; m.load_state_dict(l.state_dict()); outcomes(iter(m))",
    "state-first": "l = BUILD; l.state_dict(); outcomes(iter(l))",
    "begun-anew": "l = BUILD; outcomes(iter(l), 2); outcomes(iter(l))",
}
# Starting workers takes most of the time; what does not depend on their number is tried without any.
SAVED = {
    0: set(),
    1: {"length", "resumed-later", "resumed-here", "resumed-at-end", "state-first", "begun-anew"},
    2: {"length", "resumed-here", "state-first", "begun-anew"},
}
ERRORS = {
    "stateful-yes": "isinstance(StatefulLines(3), Stateful)",
    "stateful-loader": "isinstance(StatefulDataLoader([1]), Stateful)",
    "workers-negative": "StatefulDataLoader([1], num_workers=-1)",
    "batch-size-zero": "StatefulDataLoader([1], batch_size=0)",
    "shuffle-and-sampler": "StatefulDataLoader([1], shuffle=True, sampler=[0])",
    "shuffled-lines": "StatefulDataLoader(Lines(3), shuffle=True)",
    "prefetch-without-workers": "StatefulDataLoader([1], prefetch_factor=2)",
    "timeout-negative": "StatefulDataLoader([1], timeout=-1)",
    "persistent-without-workers": "StatefulDataLoader([1], persistent_workers=True)",
    "batch-sampler-and-size": "StatefulDataLoader([1], 3, batch_sampler=[[0]])",
    "length-unknown": "len(StatefulDataLoader(Lines(3)))",
    "state-keys-are-strings": "all(isinstance(key, str) for key in StatefulDataLoader([1]).state_dict())",
    "iterator-length": "len(iter(StatefulDataLoader(Numbers(5), 2)))",
    "sampler-length": "len(StatefulDistributedSampler(Numbers(11), num_replicas=2, rank=0))",
    "sampler-drop": "list(StatefulDistributedSampler(Numbers(11), num_replicas=2, rank=0, shuffle=False, drop_last=True))",
    "sampler-epoch": "s = StatefulDistributedSampler(Numbers(11), num_replicas=2, rank=0); s.set_epoch(2); list(s)",
    "sampler-resumed": "s = StatefulDistributedSampler(Numbers(11), num_replicas=2, rank=0); i = iter(s); a = [next(i), next(i)]; t = StatefulDistributedSampler(Numbers(11), num_replicas=2, rank=0); t.load_state_dict(s.state_dict()); [a, list(t)]",
    "random-sampler": f"list(RandomSampler(Numbers(7), {GENERATOR}))",
    "random-sampler-replacement": f"list(RandomSampler(Numbers(7), replacement=True, num_samples=9, {GENERATOR}))",
    "random-sampler-resumed": f"s = RandomSampler(Numbers(7), {GENERATOR}); i = iter(s); a = [next(i), next(i)]; t = RandomSampler(Numbers(7), {GENERATOR}); t.load_state_dict(s.state_dict()); [a, list(t)]",
}
NAMES = FUNCTIONS | {
    kind.__name__: kind
    for kind in (Numbers, Drawn, Failing, Lines, SizedLines, StatefulLines, ReaderLines, FailingLines)
}


def cells(area: str, programs: dict[str, str]) -> list[Cell]:
    return [Cell(f"{area}/{name}", area, program(text, NAMES), printed=False) for name, text in programs.items()]


def views() -> dict[str, str]:
    found = {}
    for workers in (0, 1, 2):
        for name, words in LOADERS.items() | (WITH_WORKERS_ONLY.items() if workers else set()):
            build = f"StatefulDataLoader({words.format(w=workers)})"
            chosen = VIEWS.keys() - SAVED[workers]
            found |= {
                f"{name}/workers-{workers}/{view}": text.replace("BUILD", build)
                for view, text in VIEWS.items()
                if view in chosen
            }
    return dict(sorted(found.items()))


SUITE.add(*cells("loaders", views()), *cells("errors", ERRORS))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_give_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
