"""FastLoader gives what DataLoader gives, and its state leads to exactly the rest."""

from __future__ import annotations

import collections
import gc
import itertools
import json
import os
import signal
import threading
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, RandomSampler, default_collate

from flambeau.data import FastLoader
from flambeau.data.fast_loader.assembly import Buffers, assemble
from flambeau.data.fast_loader.decoding import ImageDecoder
from flambeau.data.nodes import IterableWrapper

Pair = collections.namedtuple("Pair", "a b")


class Pictures:
    """Samples large enough for rows, with a label and a name."""

    def __init__(self, count=19):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        picture = torch.full((3, 50, 50), float(index))
        return {"picture": picture, "label": index, "name": f"n{index}"}


def labels(loader):
    return [batch["label"].tolist() for batch in loader]


def flat(lists):
    return list(itertools.chain.from_iterable(lists))


MODES = [(0, "thread"), (1, "thread"), (3, "thread"), (2, "process")]


@pytest.mark.parametrize(("workers", "mode"), MODES)
def test_batches_are_those_of_torch(workers, mode):
    loader = FastLoader(Pictures(), 4, workers, mode)
    expected = list(DataLoader(Pictures(), 4))
    assert len(loader) == len(expected) == 5
    for _ in range(2):
        for ours, theirs in zip(loader, expected, strict=True):
            assert ours.keys() == theirs.keys()
            assert torch.equal(ours["picture"], theirs["picture"])
            assert torch.equal(ours["label"], theirs["label"])
            assert ours["name"] == theirs["name"]
    loader.shutdown()


@pytest.mark.parametrize(("workers", "mode"), MODES[:3])
def test_a_state_from_any_place_leads_to_the_rest_and_the_next_epochs(workers, mode):
    def fresh(workers=workers, mode=mode):
        return FastLoader(Pictures(), 4, workers, mode, shuffle=True)

    torch.manual_seed(4)
    loader = fresh()
    states, batches = [loader.state_dict()], []
    for batch in loader:
        batches.append(batch["label"].tolist())
        states.append(loader.state_dict())
    second, third = labels(loader), labels(loader)
    loader.shutdown()
    assert sorted(flat(batches)) == sorted(flat(second)) == list(range(19))
    assert batches != second
    for place, state in enumerate(states):
        for other in (0, 2):
            resumed = fresh(other)
            resumed.load_state_dict(json.loads(json.dumps(state)))
            assert resumed.state_dict() == state
            expected = [batches[place:], second, third] if place < 5 else [second, third]
            assert [labels(resumed) for _ in expected] == expected
            resumed.shutdown()


def test_the_state_moves_between_threads_and_processes():
    loader = FastLoader(Pictures(), 4, 2, "process", shuffle=True, seed=1)
    iterator = iter(loader)
    first = [next(iterator)["label"].tolist() for _ in range(2)]
    state = loader.state_dict()
    del iterator
    loader.shutdown()
    resumed = FastLoader(Pictures(), 4, 3, "thread", shuffle=True, seed=1)
    resumed.load_state_dict(state)
    assert first + labels(resumed) == labels(FastLoader(Pictures(), 4, shuffle=True, seed=1))
    resumed.shutdown()


@pytest.mark.parametrize(("before", "after"), [(2, 3), (4, 1), (1, 2)])
@pytest.mark.parametrize("drop_last", [False, True])
def test_another_number_of_ranks_shares_the_rest_exactly(before, after, drop_last):
    def ranks(count):
        return [
            FastLoader(Pictures(66), 3, shuffle=True, seed=2, rank=r, world_size=count, drop_last=drop_last)
            for r in range(count)
        ]

    first = ranks(before)
    iterators = [iter(loader) for loader in first]
    got = flat(next(iterator)["label"].tolist() for _ in range(2) for iterator in iterators)
    states = [loader.state_dict() for loader in first]
    assert all(state == states[0] for state in states)
    rest = []
    for loader in ranks(after):
        loader.load_state_dict(states[0])
        rest += flat(labels(loader))
    assert sorted(got + rest) == list(range(66))


def test_a_node_or_a_sampler_may_be_the_source():
    node = FastLoader(IterableWrapper(range(10)), 4, 2, decode=float)
    assert [batch.tolist() for batch in node] == [[0.0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    with pytest.raises(TypeError, match="length"):
        len(node)
    node.shutdown()
    sampled = FastLoader(Pictures(), 4, sampler=RandomSampler(Pictures()), drop_last=True)
    assert len(sampled) == 4
    batches = labels(sampled)
    assert [len(batch) for batch in batches] == [4] * 4


def test_samples_may_be_written_where_they_belong():
    def fill(index, rows):
        rows["x"].fill_(index)
        rows["y"][...] = index * 2

    layout = {"x": ((2, 2), torch.float32), "y": ((), torch.int64)}
    for workers, mode in MODES:
        loader = FastLoader(list(range(5)), 2, workers, mode, layout=layout, fill=fill, multiprocessing_context="fork")
        batches = list(loader)
        assert [batch["y"].tolist() for batch in batches] == [[0, 2], [4, 6], [8]]
        assert batches[1]["x"].tolist() == [[[2.0] * 2] * 2, [[3.0] * 2] * 2]
        loader.shutdown()


LEAVES = st.sampled_from(
    [
        lambda n: n,
        lambda n: n / 3,
        lambda n: n % 2 == 0,
        str,
        lambda n: torch.tensor(n),
        lambda n: torch.full((2, 3), n, dtype=torch.int16),
        lambda n: torch.full((70, 70), n, dtype=torch.float64),
        lambda n: np.full((90, 90), n, dtype=np.uint16),
        lambda n: np.float32(n),
        lambda n: np.arange(3) + n,
    ]
)
STRUCTURES = st.recursive(
    LEAVES,
    lambda inner: (
        st.tuples(inner, inner).map(lambda f: lambda n: (f[0](n), f[1](n)))
        | st.tuples(inner, inner).map(lambda f: lambda n: Pair(f[0](n), f[1](n)))
        | inner.map(lambda f: lambda n: {"k": f(n), "l": [f(n)]})
    ),
    max_leaves=5,
)


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list) and a and isinstance(a[0], str):
        return a == list(b)  # torch gives a list or a tuple of strings, depending on what they lie in
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return a == b


@settings(deadline=None, max_examples=60)
@given(STRUCTURES, st.integers(1, 5))
def test_whatever_the_structure_a_batch_is_what_default_collate_makes(structure, count):
    samples = [structure(number) for number in range(count)]
    assert equal(assemble(samples, count, Buffers()), default_collate(samples))


def test_samples_that_differ_are_named():
    samples = [torch.zeros(100, 100), torch.zeros(100, 101)]
    with pytest.raises(ValueError, match=r"sample 1 of a batch is \(100, 101\).*sample 0 is \(100, 100\)"):
        assemble(samples, 2, Buffers())
    with pytest.raises(ValueError, match=r"sample 1 of a batch is \(3,\)"):
        assemble([torch.zeros(2), torch.zeros(3)], 2, Buffers())
    with pytest.raises(ValueError, match="keys"):
        assemble([{"a": 1}, {"b": 1}], 2, Buffers())


def test_memory_is_used_again_only_when_nobody_holds_it():
    buffers = Buffers()
    first = buffers.empty((1000, 100), torch.float32).fill_(1)
    place = first.data_ptr()
    view = first[3:5]
    del first
    second = buffers.empty((1000, 100), torch.float32).fill_(2)
    assert second.data_ptr() != place
    assert view.eq(1).all()
    del view
    assert buffers.empty((100, 1000), torch.float32).data_ptr() == place


def test_batches_that_are_kept_do_not_change():
    loader = FastLoader(Pictures(40), 4, 2)
    kept = list(loader) + list(loader)
    for place, batch in enumerate(kept):
        assert batch["picture"][:, 0, 0, 0].tolist() == [float(n) for n in range(place % 10 * 4, place % 10 * 4 + 4)]
    loader.shutdown()


class Fails(Pictures):
    def __init__(self, path, kill):
        super().__init__()
        self.path, self.kill = path, kill

    def __getitem__(self, index):
        if index == 9 and not os.path.exists(self.path):
            if self.kill:
                with open(self.path, "w"):
                    os.kill(os.getpid(), signal.SIGKILL)
            raise LookupError("nine")
        return super().__getitem__(index)


def test_an_error_is_reported_and_its_batch_is_not_lost(tmp_path):
    dataset = Fails(str(tmp_path / "mended"), kill=False)
    loader = FastLoader(dataset, 4, 2)
    got = []
    with pytest.raises(LookupError, match="nine") as caught:
        for batch in loader:
            got.append(batch["label"].tolist())
    assert "Fails" in repr(caught.traceback[-1].frame.f_locals.get("self"))
    state = loader.state_dict()
    loader.shutdown()
    (tmp_path / "mended").touch()
    again = FastLoader(dataset, 4, 1)
    again.load_state_dict(state)
    assert flat(got + labels(again)) == list(range(19))
    again.shutdown()


def test_a_killed_worker_is_replaced_and_its_batch_is_not_lost(tmp_path):
    loader = FastLoader(Fails(str(tmp_path / "died"), kill=True), 4, 2, "process")
    with pytest.warns(RuntimeWarning, match="signal 9"):
        assert flat(labels(loader)) == list(range(19))
    loader.shutdown()


def test_a_forgotten_loader_ends_its_threads():
    before = threading.active_count()
    loader = FastLoader(Pictures(1000), 4, 3)
    next(iter(loader))
    del loader
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert threading.active_count() == before


def test_the_memory_of_threads_does_not_grow_over_epochs():
    resource = pytest.importorskip("resource")
    loader = FastLoader(Pictures(300), 20, 2)
    for _ in range(3):
        collections.deque(loader, maxlen=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(10):
        collections.deque(loader, maxlen=0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB; an epoch's batches are 9 MB
    loader.shutdown()


def test_pictures_are_decoded_by_the_vision_plugin():
    pytest.importorskip("flambeau.vision")
    import io

    from PIL import Image

    stream = io.BytesIO()
    Image.new("RGB", (64, 48), (200, 10, 10)).save(stream, "PNG")
    samples = [{"__key__": str(n), "png": stream.getvalue(), "cls": n} for n in range(4)]
    loader = FastLoader(samples, 2, 2, decode=ImageDecoder())
    batch = next(iter(loader))
    assert batch["image"].shape == (2, 3, 48, 64)
    assert batch["image"][1, :, 5, 5].tolist() == [200, 10, 10]
    assert "png" not in batch
    loader.shutdown()


@pytest.mark.parametrize(
    "arguments",
    [
        {"batch_size": 0},
        {"workers": -1},
        {"mode": "fiber"},
        {"rank": 2, "world_size": 2},
        {"prefetch": 0},
        {"shuffle": True, "sampler": [1]},
        {"layout": {"x": ((), torch.int64)}},
        {"source": IterableWrapper([1]), "shuffle": True},
    ],
)
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match=r" is |Both|belong|are for"):
        FastLoader(**{"source": [1, 2], "batch_size": 2, **arguments})


def test_a_state_of_another_data_set_is_refused():
    loader = FastLoader(Pictures(19), 4)
    state = loader.state_dict()
    other = FastLoader(Pictures(20), 4)
    other.load_state_dict(state)
    with pytest.raises(ValueError, match="19 samples, this one has 20"):
        next(iter(other))
