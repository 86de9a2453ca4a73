"""StatefulDataLoader gives what DataLoader gives, and its state leads to exactly the rest."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import pickle
import signal

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, get_worker_info

from flambeau.core.testing.golden import upstream_facts
from flambeau.data.stateful_dataloader import Stateful, StatefulDataLoader, StatefulDistributedSampler
from flambeau.data.stateful_dataloader import sampler as samplers

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


class Numbers(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index


class Lines(IterableDataset):
    """Cut by workers, with no state of its own."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        info = get_worker_info()
        place, workers = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(place, self.count, workers))


class StatefulLines(IterableDataset):
    """Cut by workers, with iterators that know their place and refuse to begin at 0 when resumed."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        info = get_worker_info()
        return _Place(*((0, 1) if info is None else (info.id, info.num_workers)), self.count)


class _Place:
    def __init__(self, start, step, count):
        self.next, self.step, self.count, self.history = start, step, count, []

    def __iter__(self):
        return self

    def __next__(self):
        if self.next >= self.count:
            raise StopIteration
        self.next += self.step
        self.history.append(f"line {self.next - self.step} of a history that makes the state long")
        return self.next - self.step

    def state_dict(self):
        return {"next": self.next, "step": self.step, "history": self.history}

    def load_state_dict(self, state):
        self.next, self.step, self.history = state["next"], state["step"], list(state["history"])


class StatefulSet(IterableDataset):
    """Keeps its place in itself, so that two iterators over one copy would disturb each other."""

    def __init__(self, count):
        self.count, self.place = count, 0

    def __iter__(self):
        info = get_worker_info()
        own = range(*((0, self.count) if info is None else (info.id, self.count, info.num_workers)))
        while self.place < len(own):
            self.place += 1
            yield own[self.place - 1]
        self.place = 0

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.place = state["place"]


def batches_of(loader):
    return [batch.tolist() if isinstance(batch, torch.Tensor) else batch for batch in loader]


def flat(lists):
    return list(itertools.chain.from_iterable(lists))


LOADERS = {
    "map": lambda workers: StatefulDataLoader(Numbers(17), batch_size=3, num_workers=workers),
    "map, shuffled": lambda workers: StatefulDataLoader(Numbers(17), batch_size=3, shuffle=True, num_workers=workers),
    "map, generator": lambda workers: StatefulDataLoader(
        Numbers(17), 3, shuffle=True, num_workers=workers, generator=torch.Generator().manual_seed(1)
    ),
    "map, own sampler": lambda workers: StatefulDataLoader(
        Numbers(17), 3, sampler=samplers.RandomSampler(Numbers(17)), num_workers=workers, drop_last=True
    ),
    "map, own batch sampler": lambda workers: StatefulDataLoader(
        Numbers(17),
        batch_sampler=samplers.BatchSampler(RandomSampler(Numbers(17), replacement=True), 3, False),
        num_workers=workers,
    ),
    "map, no batches": lambda workers: StatefulDataLoader(
        Numbers(7), batch_size=None, shuffle=True, num_workers=workers
    ),
    "map, ranks": lambda workers: StatefulDataLoader(
        Numbers(40), 3, sampler=StatefulDistributedSampler(Numbers(40), 2, 1), num_workers=workers
    ),
    "lines": lambda workers: StatefulDataLoader(Lines(17), batch_size=2, num_workers=workers),
    "lines, dropped": lambda workers: StatefulDataLoader(Lines(17), batch_size=3, num_workers=workers, drop_last=True),
    "lines, no batches": lambda workers: StatefulDataLoader(Lines(7), batch_size=None, num_workers=workers),
    "stateful lines": lambda workers: StatefulDataLoader(StatefulLines(17), batch_size=2, num_workers=workers),
    "stateful lines, rarely": lambda workers: StatefulDataLoader(
        StatefulLines(19), batch_size=2, num_workers=workers, snapshot_every_n_steps=3
    ),
    "stateful set": lambda workers: StatefulDataLoader(StatefulSet(17), batch_size=2, num_workers=workers),
}


def run(name, workers):
    """Batches and states of one epoch, and the batches of the next."""
    torch.manual_seed(3)
    loader = LOADERS[name](workers)
    states, batches = [loader.state_dict()], []
    for batch in loader:
        batches.append(batch.tolist() if isinstance(batch, torch.Tensor) else batch)
        states.append(loader.state_dict())
    return batches, states, loader.state_dict(), batches_of(loader)


@pytest.mark.parametrize("name", LOADERS)
def test_a_state_from_any_place_leads_to_exactly_the_rest_and_to_the_same_next_epoch(name):
    batches, states, _, second = run(name, 0)
    assert len(batches) >= 5
    for place, state in enumerate(states):
        torch.manual_seed(99 + place)
        resumed = LOADERS[name](0)
        resumed.load_state_dict(json.loads(json.dumps(state)))
        assert resumed.state_dict() == state
        assert batches_of(resumed) == batches[place:]
        assert batches_of(resumed) == second


@pytest.mark.parametrize("name", ["map, shuffled", "lines", "stateful lines, rarely", "stateful set"])
def test_workers_resume_in_the_same_order(name):
    batches, states, _, second = run(name, 2)
    for place in (1, 4, len(batches)):
        resumed = LOADERS[name](2)
        resumed.load_state_dict(states[place])
        assert batches_of(resumed) == batches[place:]
        assert batches_of(resumed) == second


@pytest.mark.parametrize("name", ["map, shuffled", "map, ranks", "lines", "stateful lines", "stateful set"])
@pytest.mark.parametrize(("before", "after"), [(2, 0), (0, 2), (3, 2), (2, 3)])
def test_another_number_of_workers_gives_each_remaining_sample_exactly_once(name, before, after):
    batches, states, _, _ = run(name, before)
    place = 3
    resumed = LOADERS[name](after)
    resumed.load_state_dict(states[place])
    rest = batches_of(resumed)
    assert sorted(flat(rest)) == sorted(flat(batches[place:]))
    if name.startswith("map"):
        assert rest == batches[place:]
    assert len(batches_of(resumed)) > 0  # the next epoch is cut by the new number


@pytest.mark.parametrize("name", LOADERS)
def test_the_state_of_a_finished_epoch_begins_the_next(name):
    _, _, end, second = run(name, 0)
    resumed = LOADERS[name](0)
    resumed.load_state_dict(end)
    assert resumed.state_dict() == end
    assert batches_of(resumed) == second


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_first_epoch_is_that_of_torch(workers, shuffle):
    torch.manual_seed(8)
    expected = batches_of(DataLoader(Numbers(17), 4, shuffle=shuffle, num_workers=workers))
    torch.manual_seed(8)
    ours = StatefulDataLoader(Numbers(17), 4, shuffle=shuffle, num_workers=workers)
    assert batches_of(ours) == expected
    assert (len(ours), isinstance(ours, DataLoader)) == (5, True)


@pytest.mark.parametrize("workers", [0, 2])
def test_iterable_batches_are_those_of_torch(workers):
    expected = batches_of(DataLoader(Lines(19), 4, num_workers=workers))
    assert batches_of(StatefulDataLoader(Lines(19), 4, num_workers=workers)) == expected


@pytest.mark.parametrize("name", ["map, shuffled", "stateful lines"])
def test_resuming_again_and_again_within_an_epoch_stays_aligned(name):
    batches, states, _, _ = run(name, 0)
    state, got = states[0], []
    for _ in batches:
        loader = LOADERS[name](0)
        loader.load_state_dict(state)
        got.append(next(iter(loader)).tolist())
        state = loader.state_dict()
    assert got == batches


def test_batches_out_of_order_are_neither_lost_nor_repeated(tmp_path):
    dataset = SlowFirst(24, str(tmp_path / "go"))
    loader = StatefulDataLoader(dataset, 2, num_workers=2, in_order=False)
    iterator = iter(loader)
    got = [next(iterator).tolist() for _ in range(3)]
    assert [0, 1] not in got
    state = loader.state_dict()
    del iterator
    (tmp_path / "go").touch()
    for workers, in_order in ((2, False), (0, True), (2, True)):
        resumed = StatefulDataLoader(dataset, 2, num_workers=workers, in_order=in_order)
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        assert sorted(flat(got + batches_of(resumed))) == list(range(24))


class SlowFirst(Numbers):
    def __init__(self, count, path):
        super().__init__(count)
        self.path = path

    def __getitem__(self, index):
        import time

        while index == 0 and not os.path.exists(self.path):
            time.sleep(0.01)
        return index


@pytest.mark.parametrize("name", ["map, shuffled", "stateful lines"])
def test_kept_workers_give_the_same_epochs_and_can_be_sent_elsewhere(name):
    batches, states, _, _ = run(name, 2)
    torch.manual_seed(3)
    kept = StatefulDataLoader(
        LOADERS[name](0).dataset,
        LOADERS[name](0).batch_size,
        shuffle=name.startswith("map") or None,
        num_workers=2,
        persistent_workers=True,
    )
    assert batches_of(kept) == batches
    assert sorted(flat(batches_of(kept))) == sorted(flat(batches))
    kept.load_state_dict(states[2])
    assert batches_of(kept) == batches[2:]


def test_only_what_changed_is_sent():
    loader = StatefulDataLoader(StatefulLines(4000), batch_size=4, num_workers=1)
    sizes = []
    progress = loader._progress
    original = progress.given
    progress.given = lambda number, message: (sizes.append(len(message[1])), original(number, message))
    for _ in loader:
        pass
    assert len(pickle.dumps(loader.state_dict())) > 100_000
    assert max(sizes[100:]) < 2_000
    assert loader.state_dict()["place"]["shards"][0]["state"]["iterator"]["next"] == 4000


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_is_for_the_next_iterator_and_an_older_one_says_so(workers):
    loader = StatefulDataLoader(Numbers(6), num_workers=workers)
    older = iter(loader)
    next(older)
    state = loader.state_dict()
    next(older)
    loader.load_state_dict(state)
    with pytest.raises(RuntimeError, match="load_state_dict"):
        next(older)
    assert batches_of(loader) == [[n] for n in range(1, 6)]


class Drawn(Numbers):
    """Numbers that the worker draws."""

    def __getitem__(self, index):
        return int(torch.randint(1 << 30, ()))


def test_workers_begin_with_the_seeds_of_the_epoch_that_is_resumed():
    loader = StatefulDataLoader(Drawn(8), num_workers=2)
    first = iter(loader)
    drawn = [next(first).item() for _ in range(2)]
    state = loader.state_dict()
    torch.manual_seed(99)
    again = StatefulDataLoader(Drawn(8), num_workers=2)
    again.load_state_dict(state)
    assert again.state_dict() == state
    assert [batch.item() for batch in itertools.islice(again, 2)] == drawn


def test_an_iterator_that_was_replaced_says_so():
    loader = StatefulDataLoader(Numbers(6))
    old = iter(loader)
    new = iter(loader)
    with pytest.raises(RuntimeError, match="newer"):
        next(old)
    assert next(new).tolist() == [0]


@pytest.mark.parametrize("state", [{}, {"schema": 1, "kind": "iterable"}, 3])
def test_a_state_of_something_else_is_refused(state):
    with pytest.raises(ValueError, match="expected a state of schema 1"):
        StatefulDataLoader(Numbers(6)).load_state_dict(state)


class FailsAt(Numbers):
    def __init__(self, count, path):
        super().__init__(count)
        self.path = path

    def __getitem__(self, index):
        if index == 7 and not os.path.exists(self.path):
            raise ArithmeticError("seven")
        return index


class DiesAt(FailsAt):
    def __getitem__(self, index):
        if index == 7 and not os.path.exists(self.path):
            os.kill(os.getpid(), signal.SIGKILL)
        return index


@pytest.mark.parametrize(
    ("dataset_type", "error", "message"),
    [(FailsAt, ArithmeticError, r"worker process 1[\s\S]*in __getitem__"), (DiesAt, RuntimeError, "(?i)killed|exited")],
)
def test_a_failing_or_dying_worker_is_reported_and_its_samples_are_not_lost(tmp_path, dataset_type, error, message):
    dataset = dataset_type(20, str(tmp_path / "mended"))
    loader = StatefulDataLoader(dataset, 2, num_workers=2)
    got = []
    with pytest.raises(error, match=message):
        for batch in loader:
            got.append(batch.tolist())
    state = loader.state_dict()
    (tmp_path / "mended").touch()
    again = StatefulDataLoader(dataset, 2, num_workers=2)
    again.load_state_dict(state)
    assert got + batches_of(again) == [[n, n + 1] for n in range(0, 20, 2)]


class FailingLines(IterableDataset):
    """Goes on behind a number that cannot be read."""

    def __init__(self, count, path):
        self.count, self.path = count, path

    def __iter__(self):
        info = get_worker_info()
        workers, worker = (1, 0) if info is None else (info.num_workers, info.id)
        return FailingReader(range(worker, self.count, workers), self.path)


class FailingReader:
    def __init__(self, numbers, path):
        self.numbers, self.path = iter(numbers), path

    def __iter__(self):
        return self

    def __next__(self):
        number = next(self.numbers)
        if number == 7 and not os.path.exists(self.path):
            raise ArithmeticError("seven")
        return number


def tried(loader, iterator=None):
    """The batches of a pass, and None for one that failed."""
    got, iterator = [], iterator or iter(loader)
    while True:
        try:
            got.append(next(iterator).tolist())
        except StopIteration:
            return got
        except ArithmeticError:
            got.append(None)


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("dataset_type", [FailsAt, FailingLines])
def test_reading_goes_on_behind_a_batch_that_failed(tmp_path, dataset_type, workers, in_order):
    dataset = dataset_type(16, str(tmp_path / "never"))
    whole = tried(StatefulDataLoader(dataset, 2, num_workers=workers))
    assert whole.count(None) == 1
    assert len(whole) == 8
    for stop in (3, 4, 5, 7):
        loader = StatefulDataLoader(dataset, 2, num_workers=workers, in_order=in_order, snapshot_every_n_steps=3)
        iterator = iter(loader)
        got = []
        for _ in range(stop):
            try:
                got.append(next(iterator).tolist())
            except ArithmeticError:
                got.append(None)
        again = StatefulDataLoader(dataset, 2, num_workers=workers, snapshot_every_n_steps=3)
        again.load_state_dict(loader.state_dict())
        if got[-1] is None:
            del got[-1]  # is tried again
        rest = tried(again)
        assert sorted(map(str, got + rest)) == sorted(map(str, whole))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_that_failed_can_be_tried_again_until_the_next_is_asked_for(tmp_path, workers):
    dataset = FailsAt(20, str(tmp_path / "mended"))
    loader = StatefulDataLoader(dataset, 2, num_workers=workers)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    with pytest.raises(ArithmeticError):
        next(iterator)
    retried, skipped = loader.state_dict(), next(iterator) is not None and loader.state_dict()
    (tmp_path / "mended").touch()
    for state, expected in ((retried, [6, 7]), (skipped, [10, 11])):
        again = StatefulDataLoader(dataset, 2, num_workers=workers)
        again.load_state_dict(state)
        assert next(iter(again)).tolist() == expected


def test_a_dead_worker_ends_the_iteration(tmp_path):
    iterator = iter(StatefulDataLoader(DiesAt(20, str(tmp_path / "never")), 2, num_workers=2))
    with pytest.raises(RuntimeError, match=r"(?i)killed|exited"):
        list(iterator)
    with pytest.raises(RuntimeError, match="ended this iteration"):
        next(iterator)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("before", "after"), [(2, 3), (4, 1), (1, 4)])
def test_another_number_of_ranks_shares_the_rest_exactly(before, after, drop_last):
    def ranks(count, state=None):
        made = [StatefulDistributedSampler(Numbers(54), count, rank, drop_last=drop_last) for rank in range(count)]
        loaders = [StatefulDataLoader(Numbers(54), 3, sampler=sampler) for sampler in made]
        for loader in loaders if state is not None else []:
            loader.load_state_dict(state)
        return loaders

    first = ranks(before)
    iterators = [iter(loader) for loader in first]
    got = [next(iterator).tolist() for _ in range(2) for iterator in iterators]
    states = [loader.state_dict() for loader in first]
    assert all(state == states[0] for state in states)
    rest = [batches_of(loader) for loader in ranks(after, states[0])]
    assert sorted(flat(got) + flat(flat(rest))) == list(range(54))


def test_ranks_are_those_of_torch_on_a_whole_pass():
    from torch.utils.data.distributed import DistributedSampler

    for drop_last in (False, True):
        for rank in range(3):
            ours = StatefulDistributedSampler(Numbers(10), 3, rank, drop_last=drop_last)
            theirs = DistributedSampler(Numbers(10), 3, rank, drop_last=drop_last)
            for epoch in range(2):
                ours.set_epoch(epoch)
                theirs.set_epoch(epoch)
                assert list(ours) == list(theirs)


def test_the_signature_is_upstreams():
    facts = upstream_facts("datapipes", __file__)["stateful_dataloader"]
    signature = facts["StatefulDataLoader"]["signature"]
    for name in inspect.signature(StatefulDataLoader).parameters:
        assert f"{name}:" in signature or f"{name}=" in signature, name
    assert isinstance(StatefulDataLoader(Numbers(1)), Stateful)


def test_snapshots_must_come_at_least_sometimes():
    with pytest.raises(ValueError, match="snapshot_every_n_steps is 0"):
        StatefulDataLoader(Numbers(1), snapshot_every_n_steps=0)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pipeline_resumes_where_it_stood(workers):
    from flambeau.data.datapipes.iter import IterableWrapper

    def loader():
        pipe = IterableWrapper(range(60)).shuffle(buffer_size=20).sharding_filter()
        context = "fork" if workers else None
        return StatefulDataLoader(pipe, batch_size=4, num_workers=workers, multiprocessing_context=context)

    torch.manual_seed(3)
    first = loader()
    batches = iter(first)
    head = [next(batches).tolist() for _ in range(5)]
    state = first.state_dict()
    rest = [batch.tolist() for batch in batches]
    torch.manual_seed(99)
    second = loader()
    second.load_state_dict(state)
    assert [batch.tolist() for batch in second] == rest
    assert sorted(item for batch in head + rest for item in batch) == list(range(60))
