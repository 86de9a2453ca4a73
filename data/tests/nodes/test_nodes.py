"""What each node gives, and that its state leads to exactly the rest, from every place."""

from __future__ import annotations

import gc
import inspect
import json
import os
import threading
import time
import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler

from flambeau.core.testing.golden import upstream_facts
from flambeau.data import nodes
from flambeau.data.nodes import (
    BaseNode,
    Batcher,
    Cycler,
    Filter,
    Header,
    IterableWrapper,
    Loader,
    Mapper,
    MapStyleWrapper,
    MultiNodeRoundRobinSampler,
    MultiNodeWeightedSampler,
    ParallelMapper,
    PinMemory,
    Prefetcher,
    SamplerWrapper,
    StopCriteria,
    Unbatcher,
)
from flambeau.data.nodes._remote import WorkerDiedError


def double(item):
    return item * 2


def even(item):
    return item % 2 == 0


def numbers(count=11):
    return IterableWrapper(range(count))


class Counting:
    """An iterable that keeps its own place, and refuses to be read from the start when resumed."""

    def __init__(self, count):
        self.count, self.place = count, 0

    def __iter__(self):
        while self.place < self.count:
            self.place += 1
            yield self.place - 1
        self.place = 0

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.place = state["place"]


GRAPHS = {
    "iterable": numbers,
    "stateful iterable": lambda: IterableWrapper(Counting(9)),
    "sampler": lambda: SamplerWrapper(SequentialSampler(range(9))),
    "random sampler": lambda: SamplerWrapper(RandomSampler(range(9))),
    "random sampler, replacement": lambda: SamplerWrapper(RandomSampler(range(9), replacement=True, num_samples=12)),
    "random sampler, generator": lambda: SamplerWrapper(
        RandomSampler(range(9), generator=torch.Generator().manual_seed(3))
    ),
    "subset": lambda: SamplerWrapper(SubsetRandomSampler(range(9))),
    "weighted": lambda: SamplerWrapper(WeightedRandomSampler([0.1, 0.6, 0.3], 9)),
    "distributed": lambda: SamplerWrapper(DistributedSampler(range(9), 2, 1, shuffle=True)),
    "map style": lambda: MapStyleWrapper({k: str(k) for k in range(9)}, RandomSampler(range(9))),
    "batches": lambda: Batcher(numbers(), 3, drop_last=False),
    "batches, dropped": lambda: Batcher(numbers(), 3),
    "unbatched": lambda: Unbatcher(Batcher(numbers(), 3, drop_last=False)),
    "mapped": lambda: Mapper(numbers(), double),
    "threads": lambda: ParallelMapper(numbers(), double, 3),
    "threads, rare snapshots": lambda: ParallelMapper(numbers(), double, 2, snapshot_frequency=4),
    "threads, prebatch": lambda: ParallelMapper(numbers(), double, 2, prebatch=4),
    "prefetched": lambda: Prefetcher(numbers(), 3, snapshot_frequency=3),
    "filtered": lambda: Filter(numbers(), even),
    "header": lambda: Header(numbers(), 5),
    "round robin": lambda: MultiNodeRoundRobinSampler({"a": numbers(2), "b": numbers(5)}),
    "mixture": lambda: MultiNodeWeightedSampler({"a": numbers(3), "b": numbers(9)}, {"a": 1.0, "b": 2.0}),
    "deep": lambda: Prefetcher(
        Unbatcher(ParallelMapper(Batcher(SamplerWrapper(RandomSampler(range(11))), 2, drop_last=False), double, 2)), 2
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_state_from_any_place_leads_to_exactly_the_rest_and_to_the_same_next_epochs(name):
    torch.manual_seed(5)
    node = GRAPHS[name]()
    states, items = [node.state_dict()], []
    for item in node:
        items.append(item)
        states.append(node.state_dict())
    node.reset()
    second = list(node)
    node.reset()
    third = list(node)
    assert len(items) >= 3
    for place, state in enumerate(states):
        torch.manual_seed(place)  # the resumed process is another one
        resumed = GRAPHS[name]()
        resumed.reset(json.loads(json.dumps(state)))
        assert resumed.state_dict() == state
        assert list(resumed) == items[place:]
        resumed.reset()
        assert list(resumed) == second
        resumed.reset()
        assert list(resumed) == third
        resumed.shutdown()
    node.shutdown()


@pytest.mark.parametrize("name", ["random sampler", "deep", "threads, rare snapshots", "mixture"])
def test_resuming_again_and_again_within_an_epoch_stays_aligned(name):
    torch.manual_seed(5)
    whole = list(GRAPHS[name]())
    torch.manual_seed(5)
    node, got = GRAPHS[name](), []
    for _ in whole:
        got.append(next(node))
        state = node.state_dict()
        node.shutdown()
        node = GRAPHS[name]()
        node.reset(state)
    assert got == whole
    assert list(node) == []
    node.shutdown()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 12), st.integers(0, 3), st.integers(0, 3), st.booleans(), st.sampled_from([1, 2, 5]))
def test_a_mapper_resumes_with_another_number_of_workers(stop, before, after, in_order, frequency):
    first = ParallelMapper(numbers(13), double, before, in_order=in_order, snapshot_frequency=frequency)
    got = [next(first) for _ in range(stop)]
    state = first.state_dict()
    first.shutdown()
    second = ParallelMapper(numbers(13), double, after, in_order=in_order, snapshot_frequency=frequency)
    second.reset(state)
    assert second.state_dict() == state
    assert sorted(got + list(second)) == [2 * n for n in range(13)]
    second.shutdown()


def test_workers_without_order_lose_and_repeat_nothing_when_one_is_slow():
    release = threading.Event()

    def slow_first(item):
        if item == 0:
            release.wait(30)
        return item

    node = ParallelMapper(numbers(8), slow_first, 2, in_order=False)
    got = [next(node) for _ in range(3)]
    state = node.state_dict()
    release.set()
    node.shutdown()
    assert 0 not in got
    for workers in (0, 1, 2):
        rest = ParallelMapper(numbers(8), double, workers, in_order=False)
        rest.reset(state)
        first = next(rest)
        again = rest.state_dict()
        items = [first, *rest]
        assert sorted(got + [item // 2 for item in items]) == list(range(8))
        rest.reset(again)
        assert sorted(rest) == sorted(items[1:])
        rest.shutdown()


def test_an_error_comes_with_its_traceback_and_its_item_is_not_lost():
    def fail_at_four(item):
        if item == 4:
            raise ValueError("four")
        return item

    node = ParallelMapper(numbers(8), fail_at_four, 2)
    got = []
    with pytest.raises(ValueError, match="four") as caught:
        for item in node:
            got.append(item)
    assert "fail_at_four" in str(caught.traceback[-1])
    state = node.state_dict()
    node.shutdown()
    again = ParallelMapper(numbers(8), double, 2)
    again.reset(state)
    assert got == [0, 1, 2, 3]
    assert list(again) == [8, 10, 12, 14]
    again.shutdown()


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_mapper_goes_on_behind_an_item_that_failed(workers, in_order):
    def fail_at_four(item):
        if item == 4:
            raise ValueError("four")
        return item

    node = ParallelMapper(numbers(8), fail_at_four, workers, in_order=in_order)
    got = []
    with pytest.raises(ValueError, match="four"):
        for item in node:
            got.append(item)
    got.append(next(node))
    again = ParallelMapper(numbers(8), fail_at_four, workers, in_order=in_order)
    again.reset(node.state_dict())
    rest = list(node)
    assert sorted(got + rest) == [0, 1, 2, 3, 5, 6, 7]
    assert sorted(again) == sorted(rest)
    node.shutdown()
    again.shutdown()


def test_what_the_source_raises_arrives_in_its_place():
    def source():
        yield 1
        raise KeyError("broken")

    node = Prefetcher(IterableWrapper(source()), 4)
    assert next(node) == 1
    with pytest.raises(KeyError, match="broken"):
        next(node)
    node.shutdown()


def _whose(item):
    return item, os.getpid()


def _fail(item):
    raise ZeroDivisionError(f"item {item}")


def _die_once(path_and_item):
    path, item = path_and_item
    if item == 2 and not path.exists():
        path.touch()
        os.kill(os.getpid(), 9)
    return item


def _die(item):
    os._exit(3)


def test_processes_do_the_work_in_order():
    node = ParallelMapper(numbers(6), _whose, 2, method="process", multiprocessing_context="fork")
    got = list(node)
    assert [item for item, _ in got] == list(range(6))
    assert os.getpid() not in {process for _, process in got}
    node.shutdown()


def test_processes_may_be_spawned():
    node = ParallelMapper(numbers(4), hex, 1, method="process", multiprocessing_context="spawn")
    assert list(node) == ["0x0", "0x1", "0x2", "0x3"]
    node.shutdown()


def test_tensors_come_back_from_processes():
    node = ParallelMapper(IterableWrapper([torch.arange(3), torch.ones(2)]), double, 1, method="process")
    first, second = node
    assert (first.tolist(), second.tolist()) == ([0, 2, 4], [2, 2])
    node.shutdown()


def test_an_error_in_a_process_shows_where_it_was_raised():
    node = ParallelMapper(numbers(3), _fail, 1, method="process")
    with pytest.raises(ZeroDivisionError, match="item 0") as caught:
        next(node)
    assert "in _fail" in "".join(caught.value.__notes__)
    node.shutdown()


@pytest.mark.filterwarnings("ignore:A worker process:RuntimeWarning")
def test_a_killed_process_is_replaced_and_its_item_is_not_lost(tmp_path):
    items = [(tmp_path / "died", n) for n in range(5)]
    node = ParallelMapper(IterableWrapper(items), _die_once, 2, method="process")
    assert list(node) == [0, 1, 2, 3, 4]
    node.shutdown()


@pytest.mark.filterwarnings("ignore:A worker process:RuntimeWarning")
def test_an_item_that_kills_every_process_is_reported_and_stays_in_the_state():
    node = ParallelMapper(numbers(3), _die, 1, method="process")
    with pytest.raises(WorkerDiedError, match=r"exit code 3.*It was 0"):
        next(node)
    state = node.state_dict()
    node.shutdown()
    node = ParallelMapper(numbers(3), double, 1)
    node.reset(state)
    assert list(node) == [0, 2, 4]
    node.shutdown()


def test_no_more_items_are_under_way_than_allowed():
    read = []

    def source():
        for n in range(100):
            read.append(n)
            yield n

    node = ParallelMapper(IterableWrapper(source()), double, 4, max_concurrent=3)
    next(node)
    deadline = time.monotonic() + 10
    while len(read) < 4 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert len(read) == 4  # the one given out, and three more
    node.shutdown()


def test_threads_run_operators_on_one_core_each_and_others_keep_theirs():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        node = ParallelMapper(numbers(6), lambda item: torch.get_num_threads(), 2)
        assert list(node) == [1] * 6
        assert torch.get_num_threads() == 3
        elsewhere = []
        thread = threading.Thread(target=lambda: elsewhere.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert elsewhere == [3]
        node.shutdown()
    finally:
        torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore:PinMemory:UserWarning")
def test_a_node_that_is_forgotten_ends_its_threads():
    before = threading.active_count()
    node = PinMemory(Prefetcher(ParallelMapper(numbers(1000), double, 3), 2))
    next(node)
    assert threading.active_count() > before
    forgotten = weakref.ref(node)
    del node
    gc.collect()
    assert forgotten() is None
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("criterion", "round_robin"),
    [
        (StopCriteria.CYCLE_UNTIL_ALL_DATASETS_EXHAUSTED, ["a0", "b0", "a0", "b1", "a0", "b2", "a0"]),
        (StopCriteria.ALL_DATASETS_EXHAUSTED, ["a0", "b0", "b1", "b2"]),
        (StopCriteria.FIRST_DATASET_EXHAUSTED, ["a0", "b0"]),
    ],
)
def test_a_round_robin_ends_as_its_criterion_says(criterion, round_robin):
    sources = {"a": IterableWrapper(["a0"]), "b": IterableWrapper(["b0", "b1", "b2"])}
    node = MultiNodeRoundRobinSampler(sources, criterion)
    assert list(node) == round_robin
    assert next(node, None) is None


def test_a_round_robin_names_its_items_on_request():
    sources = [numbers(1), numbers(1)]
    node = MultiNodeRoundRobinSampler(sources, StopCriteria.ALL_DATASETS_EXHAUSTED, tag_output=("set", "value"))
    assert list(node) == [{"set": "ds_0", "value": 0}, {"set": "ds_1", "value": 0}]


def test_a_mixture_draws_in_proportion_differently_on_each_rank_and_epoch():
    def draws(rank):
        node = MultiNodeWeightedSampler(
            {"a": IterableWrapper("a"), "b": IterableWrapper("b")},
            {"a": 1.0, "b": 3.0},
            StopCriteria.CYCLE_FOREVER,
            rank=rank,
            world_size=2,
        )
        first = [next(node) for _ in range(3000)]
        node.reset()
        return first, [next(node) for _ in range(3000)]

    (first, second), (other, _) = draws(0), draws(1)
    assert 0.7 < first.count("b") / 3000 < 0.8
    assert first != second
    assert first != other
    assert draws(0) == (first, second)


def test_each_criterion_ends_a_mixture():
    def mixed(criterion):
        return list(MultiNodeWeightedSampler({"a": numbers(2), "b": numbers(4)}, {"a": 1.0, "b": 1.0}, criterion))

    assert sorted(mixed(StopCriteria.ALL_DATASETS_EXHAUSTED)) == [0, 0, 1, 1, 2, 3]
    assert len(mixed(StopCriteria.FIRST_DATASET_EXHAUSTED)) < 6
    assert {0, 1, 2, 3} <= set(mixed(StopCriteria.CYCLE_UNTIL_ALL_DATASETS_EXHAUSTED))


def test_a_cycler_goes_on_with_new_epochs_and_resumes_in_them():
    node = Cycler(SamplerWrapper(RandomSampler(range(5))))
    torch.manual_seed(0)
    got = [next(node) for _ in range(7)]
    state = node.state_dict()
    rest = [next(node) for _ in range(20)]
    assert sorted((got + rest)[5:10]) == list(range(5))
    assert got[:5] != (got + rest)[5:10]
    again = Cycler(SamplerWrapper(RandomSampler(range(5))))
    again.reset(state)
    assert [next(again) for _ in range(20)] == rest
    assert list(Cycler(numbers(0))) == []


def test_the_sampler_is_told_the_epoch_and_an_updater_may_change_it():
    class Told(SequentialSampler):
        def set_epoch(self, epoch):
            told.append(epoch)

    told = []
    node = SamplerWrapper(Told(range(2)), initial_epoch=3, epoch_updater=lambda epoch: epoch * 2)
    for _ in range(3):
        node.reset()
        list(node)
    assert told == [3, 6, 12]


def test_the_first_epoch_has_the_order_of_torch_after_the_same_seed():
    torch.manual_seed(11)
    expected = list(RandomSampler(range(20)))
    torch.manual_seed(11)
    assert list(SamplerWrapper(RandomSampler(range(20)))) == expected


def test_a_loader_gives_epochs_and_resumes_in_the_middle_and_at_the_end():
    def fresh():
        return Loader(Prefetcher(SamplerWrapper(RandomSampler(range(6))), 2))

    torch.manual_seed(0)
    loader = fresh()
    first, states = [], []
    for item in loader:
        first.append(item)
        states.append(loader.state_dict())
    second = list(loader)
    for place, state in enumerate(states, start=1):
        resumed = fresh()
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        if place < 6:
            assert list(resumed) == first[place:]
        assert list(resumed) == second
        resumed.root.shutdown()
    loader.root.shutdown()


def test_a_loader_may_leave_a_finished_epoch_finished():
    loader = Loader(numbers(3), restart_on_stop_iteration=False)
    list(loader)
    again = Loader(numbers(3), restart_on_stop_iteration=False)
    again.load_state_dict(loader.state_dict())
    assert list(again) == []


def test_a_state_is_for_the_next_iterator_and_an_older_one_says_so():
    loader = Loader(numbers(5))
    older = iter(loader)
    next(older)
    state = loader.state_dict()
    next(older)
    loader.load_state_dict(state)
    with pytest.raises(RuntimeError, match="load_state_dict"):
        next(older)
    assert list(loader) == [1, 2, 3, 4]


def test_an_iterator_that_was_replaced_says_so():
    loader = Loader(numbers(5))
    old = iter(loader)
    iter(loader)
    with pytest.raises(RuntimeError, match="newer"):
        next(old)


@pytest.mark.parametrize("state", [{}, None, {"schema": 99}])
def test_a_loader_refuses_what_is_no_state(state):
    with pytest.raises(ValueError, match="schema 1"):
        Loader(numbers(1)).load_state_dict(state)


def test_a_node_that_forgets_super_is_told():
    class NoInit(BaseNode):
        def __init__(self):
            pass

    class NoReset(BaseNode):
        def reset(self, initial_state=None):
            pass

    with pytest.raises(NotImplementedError, match=r"super\(\).__init__"):
        next(NoInit())
    with pytest.raises(NotImplementedError, match=r"super\(\).reset"):
        NoReset().state_dict()


@pytest.mark.parametrize(
    "make",
    [
        lambda: ParallelMapper(numbers(), double, 2, max_concurrent=3),
        lambda: ParallelMapper(numbers(), double, -1),
        lambda: ParallelMapper(numbers(), double, 2, method="fiber"),
        lambda: ParallelMapper(numbers(), double, 2, snapshot_frequency=0),
        lambda: ParallelMapper(numbers(), double, 2, prebatch=0),
        lambda: Batcher(numbers(), 0),
        lambda: Prefetcher(numbers(), 0),
        lambda: Header(numbers(), -1),
        lambda: MultiNodeWeightedSampler({"a": numbers()}, {"b": 1.0}),
        lambda: MultiNodeWeightedSampler({"a": numbers()}, {"a": 0.0}),
        lambda: MultiNodeWeightedSampler({"a": numbers()}, {"a": 1.0}, rank=2, world_size=2),
        lambda: MultiNodeRoundRobinSampler({"a": numbers()}, "SOMETIME"),
        lambda: MultiNodeRoundRobinSampler({"a": numbers()}, tag_output=("x", "x")),
    ],
)
def test_arguments_out_of_range_are_refused(make):
    with pytest.raises(ValueError, match=r" is |expected"):
        make()


def test_names_and_parameters_are_upstreams():
    facts = upstream_facts("datapipes", __file__)["nodes"]
    for name, fact in facts.items():
        ours = getattr(nodes, name)
        assert all(hasattr(ours, method) for method in fact["methods"])
        if name not in ("BaseNode", "Stateful", "StopCriteria"):
            expected = [word.split(":")[0].strip() for word in _split(fact["signature"])]
            assert list(inspect.signature(ours).parameters) == expected, name


def _split(signature):
    words, depth = [""], 0
    for character in signature[1 : signature.rindex(")")]:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            words.append("")
        else:
            words[-1] += character
    return words
