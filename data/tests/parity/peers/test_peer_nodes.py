"""Nodes give the items, epochs, errors and resumed rests of TorchData 0.11."""

# ruff: noqa: E501  # a program is easier to read on one line

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import pytest
from torchdata_peers import DIFFERENCES, FUNCTIONS, NEEDED, ROOTS

from flambeau.core.testing.differential import Cell, Suite, program

pytest.importorskip("torchdata.nodes", reason=NEEDED)


def nodes_of(root: str) -> SimpleNamespace:
    """The public names of nodes, and of the samplers that a state comes from."""
    nodes = import_module(f"{root}.nodes")
    return SimpleNamespace(**{name: getattr(nodes, name) for name in nodes.__all__})


SUITE = Suite("nodes", ours=nodes_of("flambeau.data"), peer=nodes_of("torchdata"), roots=ROOTS, differences=DIFFERENCES)

N = "IterableWrapper(range(10))"
RANDOM = "torch.utils.data.RandomSampler(range(10), generator=torch.Generator().manual_seed(3))"
NODES = {
    "iterable": N,
    "iterable-of-list": "IterableWrapper(['a', 'b', 'c'])",
    "iterable-empty": "IterableWrapper([])",
    "iterable-stateful": "IterableWrapper(Counter(7))",
    "iterator-stateful": "IterableWrapper(CounterSet(7))",
    "sampler": "SamplerWrapper(torch.utils.data.SequentialSampler(range(6)))",
    "sampler-random": f"SamplerWrapper({RANDOM})",
    "sampler-batch": "SamplerWrapper(torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(range(7)), 3, False))",
    "sampler-epochs": "SamplerWrapper(torch.utils.data.DistributedSampler(range(8), num_replicas=2, rank=1, seed=4))",
    "sampler-initial-epoch": "SamplerWrapper(torch.utils.data.DistributedSampler(range(8), num_replicas=2, rank=0), initial_epoch=3)",
    "map-style": "MapStyleWrapper(list('abcdef'), torch.utils.data.SequentialSampler(range(6)))",
    "map-style-random": "MapStyleWrapper(dict(enumerate('abcdefghij')), " + RANDOM + ")",
    "batcher": f"Batcher({N}, 3)",
    "batcher-keep": f"Batcher({N}, 3, drop_last=False)",
    "batcher-exact": f"Batcher({N}, 5)",
    "unbatcher": f"Unbatcher(Batcher({N}, 4, drop_last=False))",
    "unbatcher-uneven": "Unbatcher(IterableWrapper([[1, 2], [], [3], [4, 5, 6]]))",
    "mapper": f"Mapper({N}, double)",
    "mapper-fails": f"Mapper({N}, fail_at_7)",
    "parallel-0": f"ParallelMapper({N}, double, num_workers=0)",
    "parallel-1": f"ParallelMapper({N}, double, num_workers=1)",
    "parallel-2": f"ParallelMapper({N}, double, num_workers=2)",
    "parallel-process": f"ParallelMapper({N}, double, num_workers=2, method='process', multiprocessing_context='fork')",
    "parallel-snapshots": f"ParallelMapper({N}, double, num_workers=2, snapshot_frequency=3)",
    "parallel-concurrent": f"ParallelMapper({N}, double, num_workers=2, max_concurrent=1)",
    "parallel-prebatch": f"ParallelMapper({N}, double, num_workers=2, prebatch=3)",
    "parallel-fails": f"ParallelMapper({N}, fail_at_7, num_workers=2)",
    "prefetcher": f"Prefetcher({N}, prefetch_factor=3)",
    "prefetcher-snapshots": f"Prefetcher({N}, prefetch_factor=3, snapshot_frequency=4)",
    "prefetcher-fails": f"Prefetcher(Mapper({N}, fail_at_7), prefetch_factor=3)",
    "weighted-cycle-all": f"MultiNodeWeightedSampler({{'a': {N}, 'b': IterableWrapper('xyz')}}, {{'a': 0.7, 'b': 0.3}}, seed=5)",
    "weighted-all": f"MultiNodeWeightedSampler({{'a': {N}, 'b': IterableWrapper('xyz')}}, {{'a': 0.7, 'b': 0.3}}, stop_criteria=StopCriteria.ALL_DATASETS_EXHAUSTED, seed=5)",
    "weighted-first": f"MultiNodeWeightedSampler({{'a': {N}, 'b': IterableWrapper('xyz')}}, {{'a': 0.7, 'b': 0.3}}, stop_criteria=StopCriteria.FIRST_DATASET_EXHAUSTED, seed=5)",
    "weighted-rank": f"MultiNodeWeightedSampler({{'a': {N}, 'b': IterableWrapper('xyz')}}, {{'a': 1.0, 'b': 1.0}}, rank=1, world_size=2, seed=5)",
    "weighted-three": f"MultiNodeWeightedSampler({{'a': {N}, 'b': IterableWrapper('xyz'), 'c': IterableWrapper([7.5])}}, {{'a': 5.0, 'b': 3.0, 'c': 2.0}}, stop_criteria=StopCriteria.ALL_DATASETS_EXHAUSTED)",
    "chain": f"Prefetcher(Batcher(ParallelMapper({N}, double, num_workers=2), 3), 2)",
    "chain-sampler": f"Batcher(ParallelMapper(SamplerWrapper({RANDOM}), double, num_workers=2), 4, drop_last=False)",
    "chain-mixture": f"Batcher(MultiNodeWeightedSampler({{'a': Mapper({N}, double), 'b': IterableWrapper('xyz')}}, {{'a': 1.0, 'b': 1.0}}, seed=2), 2)",
}
VIEWS = {
    "items": "n.reset(); outcomes(n)",
    "without-reset": "outcomes(n)",
    "two-passes": "n.reset(); a = outcomes(n); n.reset(); [a, outcomes(n)]",
    "begun-anew": "n.reset(); a = outcomes(n, 3); n.reset(); [a, outcomes(n)]",
    "resumed": "n.reset(); a = outcomes(n, 4); state = pickle.loads(pickle.dumps(n.state_dict())); m = BUILD; m.reset(state); [a, outcomes(m)]",
    "resumed-at-start": "n.reset(); state = n.state_dict(); m = BUILD; m.reset(state); outcomes(m)",
    "resumed-here": "n.reset(); outcomes(n, 2); state = n.state_dict(); outcomes(n, 3); n.reset(state); outcomes(n)",
    "resumed-twice": "n.reset(); outcomes(n, 2); m = BUILD; m.reset(n.state_dict()); outcomes(m, 2); k = BUILD; k.reset(m.state_dict()); outcomes(k)",
    "loader": "l = Loader(n); [outcomes(iter(l)), outcomes(iter(l))]",
    "loader-left": "l = Loader(n); [outcomes(iter(l), 3), outcomes(iter(l))]",
    "loader-resumed": "l = Loader(n); i = iter(l); outcomes(i, 3); state = l.state_dict(); m = Loader(BUILD); m.load_state_dict(state); [outcomes(iter(m)), outcomes(iter(m))]",
    "loader-resumed-at-end": "l = Loader(n); outcomes(iter(l)); state = l.state_dict(); m = Loader(BUILD); m.load_state_dict(state); outcomes(iter(m))",
}
ERRORS = {
    "base-next": "next(BaseNode())",
    "base-state": "BaseNode().state_dict()",
    "no-super-init": "next(type('Bare', (BaseNode,), {'__init__': lambda self: None, 'next': lambda self: 1, 'reset': lambda self, initial_state=None: None, 'get_state': dict})())",
    "no-super-reset": "next(type('Bare', (BaseNode,), {'next': lambda self: 1, 'reset': lambda self, initial_state=None: None, 'get_state': dict})())",
    "batch-size": f"Batcher({N}, 0); None",
    "concurrent-too-many": f"ParallelMapper({N}, double, num_workers=1, max_concurrent=5); None",
    "concurrent-zero": f"ParallelMapper({N}, double, num_workers=2, max_concurrent=0); None",
    "prebatch-zero": f"ParallelMapper({N}, double, num_workers=2, prebatch=0); None",
    "weights-other-names": f"MultiNodeWeightedSampler({{'a': {N}}}, {{'b': 1}}); None",
    "weights-negative": f"MultiNodeWeightedSampler({{'a': {N}}}, {{'a': -1.0}}); None",
    "weights-zero": f"MultiNodeWeightedSampler({{'a': {N}}}, {{'a': 0.0}}); None",
    "weights-criteria": f"MultiNodeWeightedSampler({{'a': {N}}}, {{'a': 1.0}}, stop_criteria='NEVER'); None",
    "weights-rank": f"MultiNodeWeightedSampler({{'a': {N}}}, {{'a': 1.0}}, rank=3, world_size=2); None",
    "weights-first-node-empty": "n = MultiNodeWeightedSampler({'a': IterableWrapper([]), 'b': IterableWrapper([1])}, {'a': 1.0, 'b': 1.0}); n.reset(); outcomes(n)",
    "stateful-yes": "isinstance(Counter(3), Stateful)",
    "stateful-no": "isinstance([], Stateful)",
    "load-under-iterator": f"l = Loader({N}); i = iter(l); next(i); state = l.state_dict(); next(i); l.load_state_dict(state); outcomes(iter(l))",
    "not-restarted": f"l = Loader({N}, restart_on_stop_iteration=False); outcomes(iter(l)); m = Loader({N}, restart_on_stop_iteration=False); m.load_state_dict(l.state_dict()); outcomes(iter(m))",
    "state-before-iter": f"l = Loader({N}); l.state_dict(); outcomes(iter(l))",
    "state-between": f"l = Loader({N}); outcomes(iter(l)); l.state_dict(); outcomes(iter(l))",
    "next-after-end": f"n = {N}; n.reset(); outcomes(n); outcomes(n, 1)",
}


class Counter:
    """Counts, and knows how far."""

    def __init__(self, end):
        self.end, self.at = end, 0

    def __iter__(self):
        while self.at < self.end:
            self.at += 1
            yield self.at
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


class CounterSet:
    """Its iterators know how far they are."""

    def __init__(self, end):
        self.end = end

    def __iter__(self):
        return CounterReader(self.end)


class CounterReader:
    def __init__(self, end):
        self.end, self.at = end, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.at >= self.end:
            raise StopIteration
        self.at += 1
        return self.at

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


NAMES = FUNCTIONS | {"Counter": Counter, "CounterSet": CounterSet}


def cells(area: str, programs: dict[str, str]) -> list[Cell]:
    return [Cell(f"{area}/{name}", area, program(text, NAMES)) for name, text in programs.items()]


def views() -> dict[str, str]:
    return {
        f"{name}/{view}": f"n = {build}; " + text.replace("BUILD", build)
        for name, build in NODES.items()
        for view, text in VIEWS.items()
    }


SUITE.add(*cells("nodes", views()), *cells("errors", ERRORS))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_give_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
