"""Every pipe goes on where it was: at any sample, any number of times, in a new process, and the next pass is whole."""

import asyncio
import io
import pickle
import tarfile
import zipfile
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.data.dataloader2.graph import set_graph_random_seed
from flambeau.data.dataloader2.random import SeedGenerator
from flambeau.data.datapipes.iter import (
    FileLister,
    Forker,
    IterableWrapper,
    IterDataPipe,
    Mapper,
    SampleMultiplexer,
    Sampler,
    functional_datapipe,
)
from flambeau.data.datapipes.map import SequenceWrapper


class Numbers:
    """An iterable that can only be read from its beginning."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return iter(range(self.count))


class Pairs(IterDataPipe):
    """A pipe as a user writes it: it says nothing about its state."""

    def __init__(self, source):
        self.source = source

    def __iter__(self):
        before = None
        for sample in self.source:
            if before is not None:
                yield before, sample
            before = sample


def ten():
    return IterableWrapper(range(10))


def words():
    return IterableWrapper(["a1", "b1", "a2", "c1", "b2", "a3", "c2", "d1"])


def pairs():
    return IterableWrapper([(number, number * 10) for number in range(8)])


async def later(number):
    await asyncio.sleep(0)
    return number + 1


def forked():
    left, right = ten().shuffle(buffer_size=3).set_seed(4).fork(2)
    return left.zip(right.map(lambda x: -x))


def forked_unevenly():
    left, right = ten().fork(2)
    return left.header(4).concat(right)


def demuxed():
    even, odd = ten().demux(2, lambda x: x % 2)
    return even.mux_longest(odd.map(str))


def split():
    return ten().random_split(weights={"a": 0.5, "b": 0.5}, seed=0, total_length=10, target="b")


def sampled():
    return SampleMultiplexer({ten(): 0.3, IterableWrapper("abcdef"): 0.7}, seed=1)


def random_sampler():
    torch.manual_seed(3)
    return Sampler(ten(), sampler=torch.utils.data.RandomSampler)


def cached():
    return ten().shuffle().set_seed(5).in_memory_cache().map(str)


PIPELINES = {
    "a range": ten,
    "an iterable that is read over": lambda: IterableWrapper(Numbers(7)),
    "a string": lambda: IterableWrapper("abcdef"),
    "map": lambda: ten().map(lambda x: x * 2),
    "filter": lambda: ten().filter(lambda x: x % 3 == 1),
    "flatmap": lambda: ten().flatmap(lambda x: [x] * (x % 4)),
    "map_batches": lambda: ten().map_batches(lambda batch: [sum(batch), len(batch)], batch_size=3),
    "async_map_batches": lambda: ten().async_map_batches(later, batch_size=3),
    "threadpool_map": lambda: ten().threadpool_map(lambda x: -x, max_workers=2, scheduled_tasks=4),
    "batch": lambda: ten().batch(3),
    "unbatch": lambda: ten().batch(2).batch(2).unbatch(unbatch_level=2),
    "groupby": lambda: words().groupby(lambda word: word[0], buffer_size=4, group_size=2),
    "bucketbatch": lambda: set_graph_random_seed(
        ten().bucketbatch(2, batch_num=2, bucket_num=2, sort_key=sorted), SeedGenerator(5)
    ),
    "max_token_bucketize": lambda: words().max_token_bucketize(max_token_count=5, buffer_size=3),
    "shuffle": lambda: ten().shuffle(buffer_size=4).set_seed(7),
    "shuffle twice": lambda: ten().shuffle(buffer_size=4).set_seed(7).map(str).shuffle(buffer_size=3).set_seed(8),
    "shuffle, not seeded": lambda: ten().shuffle(),
    "shuffle of batches": lambda: ten().batch(2).shuffle(buffer_size=3, unbatch_level=1).set_seed(1),
    "in_batch_shuffle": lambda: ten().batch(4).in_batch_shuffle().set_seed(1),
    "shuffled_flatmap": lambda: ten().shuffled_flatmap(lambda x: range(x % 3), buffer_size=3).set_seed(2),
    "sharding_filter": lambda: ten().sharding_filter(),
    "concat": lambda: ten().shuffle().set_seed(1).concat(words(), ten().batch(3)),
    "zip": lambda: ten().zip(words()),
    "zip_longest": lambda: words().zip_longest(ten(), fill_value=0),
    "mux": lambda: ten().mux(words(), IterableWrapper("xyz")),
    "mux_longest": lambda: ten().mux_longest(words(), IterableWrapper("xyz")),
    "SampleMultiplexer": sampled,
    "fork": forked,
    "fork read unevenly": forked_unevenly,
    "demux": demuxed,
    "unzip": lambda: IterDataPipe.functions["zip"](*pairs().unzip(2)),
    "round_robin_demux": lambda: IterDataPipe.functions["mux_longest"](*ten().round_robin_demux(3)),
    "random_split": split,
    "zip_with_iter": lambda: pairs().zip_with_iter(
        pairs().shuffle().set_seed(1), key_fn=lambda pair: pair[0], buffer_size=20
    ),
    "zip_with_map": lambda: IterableWrapper([1, 0, 1]).zip_with_map(SequenceWrapper("ab"), key_fn=lambda x: x),
    "cycle": lambda: IterableWrapper(range(3)).shuffle().set_seed(3).cycle(4),
    "repeat": lambda: ten().repeat(3),
    "header": lambda: ten().header(4),
    "enumerate": lambda: words().enumerate(5),
    "add_index": lambda: words().map(lambda word: {"word": word}).add_index(),
    "prefetch": lambda: ten().shuffle(buffer_size=3).set_seed(1).prefetch(3),
    "prefetch twice": lambda: ten().prefetch(2).map(str).prefetch(4),
    "pin_memory": lambda: ten().pin_memory(pin_memory_fn=lambda sample, device: sample),
    "in_memory_cache": cached,
    "memory_cell": lambda: ten().memory_cell(),
    "lines_to_paragraphs": lambda: IterableWrapper(
        [("f", "a"), ("f", ""), ("f", "b"), ("g", "c"), ("g", "d")]
    ).lines_to_paragraphs(),
    "webdataset": lambda: IterableWrapper([(f"{n // 2}.{n % 2}", n) for n in range(8)]).webdataset(),
    "shard_expand": lambda: IterableWrapper(["a{0..3}", "b", "c{01..02}-{1..2}"]).shard_expand(),
    "rows2columnar": lambda: pairs().map(list).batch(3).rows2columnar(["x", "y"]),
    "set_length": lambda: ten().set_length(3),
    "drop, slice and flatten": lambda: pairs().map(lambda p: (*p, p)).drop(0).slice(0, 2).flatten(),
    "a map pipe": lambda: SequenceWrapper(range(6)).map(lambda x: x + 1).to_iter_datapipe(),
    "a shuffled map pipe": lambda: SequenceWrapper(range(6)).shuffle().set_seed(2),
    "Sampler": random_sampler,
    "a user's pipe": lambda: Pairs(ten().shuffle(buffer_size=4).set_seed(3)).map(str),
    "a user's pipe in a fork": lambda: IterDataPipe.functions["zip"](
        *[branch if number else Pairs(branch) for number, branch in enumerate(ten().shuffle().set_seed(3).fork(2))]
    ),
}  # fmt: skip


def advanced(pipe, count):
    reader = iter(pipe)
    return [next(reader) for _ in range(count)], reader


def copied(state):
    return pickle.loads(pickle.dumps(state))


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_goes_on_after_any_sample(name):
    build = PIPELINES[name]
    if "not seeded" in name:
        build = seeded_once(build)
    whole = list(build())
    for count in range(len(whole) + 1):
        source = build()
        head, reader = advanced(source, count)
        state = copied(source.state_dict())
        again = build()
        again.load_state_dict(state)
        assert head + list(again) == whole, count
        assert list(reader) == whole[count:]  # taking the state has not disturbed it


def seeded_once(build):
    def built():
        torch.manual_seed(9)
        return build()

    return built


@pytest.mark.parametrize("name", PIPELINES)
def test_a_loaded_state_is_the_state(name):
    build = PIPELINES[name]
    pipe = build()
    advanced_, reader = advanced(pipe, 2)
    state = copied(pipe.state_dict())
    again = build()
    again.load_state_dict(state)
    assert again.state_dict() == state
    resumed = iter(again)
    assert comparable(again.state_dict()) == comparable(state)  # also when its iterator has begun
    del resumed, reader, advanced_


def comparable(state):
    """What a thread may have read ahead in the meantime is left out."""
    threaded = {"PrefetcherIterDataPipe", "PinMemoryIterDataPipe"}
    return "read ahead" if threaded & {record["pipe"] for record in state["pipes"]} else state


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_can_be_resumed_after_every_sample_in_turn(name):
    build = seeded_once(PIPELINES[name])
    whole, found, state = list(build()), [], None
    while True:
        pipe = build()
        if state is not None:
            pipe.load_state_dict(state)
        sample = next(iter(pipe), "the end")
        if sample == "the end":
            break
        found.append(sample)
        state = copied(pipe.state_dict())
    assert found == whole


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.filterwarnings("ignore:.*one stream begins again")
def test_the_pass_after_a_resumed_one_is_whole(name):
    build = seeded_once(PIPELINES[name])
    pipe = build()
    expected = sorted(map(repr, pipe))
    source = build()
    _, reader = advanced(source, 2)
    again = build()
    again.load_state_dict(copied(source.state_dict()))
    next(iter(again))
    if "Sampl" not in name and "split" not in name and "batch" not in name and "user" not in name:
        assert sorted(map(repr, again)) == expected
    else:
        assert len(list(again)) in (len(expected), len(expected) + 1)
    del reader


def test_a_seeded_pipeline_repeats_the_following_passes_too():
    def passes(resume_at=None):
        pipe = ten().shuffle().set_seed(11)
        if resume_at is not None:
            source = ten().shuffle().set_seed(11)
            head, _ = advanced(source, resume_at)
            pipe.load_state_dict(copied(source.state_dict()))
            return [head + list(pipe), list(pipe), list(pipe)]
        return [list(pipe) for _ in range(3)]

    assert passes() == passes(resume_at=4)
    assert len({tuple(order) for order in passes()}) == 3


@pytest.fixture
def archives(tmp_path):
    for number in range(2):
        with tarfile.open(tmp_path / f"{number}.tar", "w") as tar:
            for member in range(3):
                content = f"{number}{member}\nend".encode()
                entry = tarfile.TarInfo(f"f{member}.txt")
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        with zipfile.ZipFile(tmp_path / f"{number}.zip", "w") as archive:
            for member in range(3):
                archive.writestr(f"f{member}.txt", f"{number}{member}\nend")
    return tmp_path


def read(item):
    return item[0].rpartition("/")[2], item[1].read()


@pytest.mark.parametrize("kind", ["tar", "zip"])
@pytest.mark.parametrize("mode", ["members", "shuffled members", "lines"])
def test_archives_go_on_within_an_archive(archives, kind, mode):
    def build():
        opened = FileLister(str(archives), masks=f"*.{kind}").open_files(mode="b")
        members = opened.load_from_tar() if kind == "tar" else opened.load_from_zip()
        if mode == "lines":
            return members.readlines(decode=True).map(lambda pair: (pair[0].rpartition("/")[2], pair[1]))
        if mode == "shuffled members":
            members = members.shuffle(buffer_size=2).set_seed(3)  # open files wait in the buffer
        return members.map(read)

    whole = list(build())
    assert len(whole) == (12 if mode == "lines" else 6)
    for count in range(len(whole) + 1):
        source = build()
        head, _ = advanced(source, count)
        again = build()
        again.load_state_dict(copied(source.state_dict()))
        assert head + list(again) == whole, count


def closing(file):
    with file:
        return file.name, len(file.read())


def test_an_open_file_of_the_users_in_a_buffer_makes_the_pipe_replay(archives):
    def build():
        files = FileLister(str(archives)).shuffle().set_seed(1).map(partial(open, mode="rb"))
        return files.shuffle(buffer_size=2).set_seed(2).map(closing)

    source = build()
    head, reader = advanced(source, 1)
    records = source.state_dict()["pipes"]
    again = build()
    again.load_state_dict(copied(source.state_dict()))
    assert head + list(again) == list(build())
    assert [record.get("replay") for record in records] == [None, 1, None, None, None, None]
    assert len(list(reader)) == 3


def test_a_list_or_a_pipe_of_torchs_in_the_place_of_a_source_is_read_over():
    from torch.utils.data.datapipes.iter import IterableWrapper as TorchWrapper

    for source in (lambda: list(range(6)), lambda: TorchWrapper(range(6))):
        pipe = Mapper(source(), str).batch(2)
        reader = iter(pipe)
        head = [next(reader)]
        again = Mapper(source(), str).batch(2)
        again.load_state_dict(copied(pipe.state_dict()))
        assert head + list(again) == [["0", "1"], ["2", "3"], ["4", "5"]]
    left, right = Forker(list(range(4)), 2)
    pipe = left.zip(right)
    reader = iter(pipe)
    head = [next(reader)]
    left, right = Forker(list(range(4)), 2)
    again = left.zip(right)
    again.load_state_dict(copied(pipe.state_dict()))
    assert head + list(again) == [(n, n) for n in range(4)]


def test_a_state_of_another_pipeline_is_refused():
    pipe = ten().map(str)
    next(iter(pipe))
    with pytest.raises(ValueError, match="another pipeline"):
        ten().batch(2).load_state_dict(pipe.state_dict())
    with pytest.raises(ValueError, match="version"):
        pipe.load_state_dict({**pipe.state_dict(), "_version": 99})
    with pytest.raises(ValueError, match="expected the state"):
        pipe.load_state_dict({"epoch": 1})


def test_a_state_of_one_shard_is_not_continued_by_another():
    source = ten().sharding_filter()
    source.apply_sharding(2, 0)
    next(iter(source))
    again = ten().sharding_filter()
    again.load_state_dict(source.state_dict())
    again.apply_sharding(3, 1)
    with pytest.raises(RuntimeError, match="shard 0 of 2"):
        next(iter(again))


def test_a_loaded_state_survives_pickling_and_is_used_by_the_copy():
    source = ten()
    next(iter(source))
    again = ten()
    again.load_state_dict(source.state_dict())
    assert list(copied(again)) == list(range(1, 10))


def test_the_state_of_plain_samples_is_plain_json():
    import json

    pipe = ten().shuffle().set_seed(0).batch(2)
    next(iter(pipe))
    again = ten().shuffle().set_seed(0).batch(2)
    again.load_state_dict(json.loads(json.dumps(pipe.state_dict())))
    assert [*list(again)] == list(ten().shuffle().set_seed(0).batch(2))[1:]


STEPS = {
    "map": lambda pipe, n: pipe.map(lambda x: (x, n)),
    "filter": lambda pipe, n: pipe.filter(lambda x: hash(repr(x)) % 97 != n),
    "batch": lambda pipe, n: pipe.batch(n),
    "shuffle": lambda pipe, n: pipe.shuffle(buffer_size=n).set_seed(n),
    "repeat": lambda pipe, n: pipe.repeat(n + 1),
    "prefetch": lambda pipe, n: pipe.prefetch(n),
    "flatmap": lambda pipe, n: pipe.flatmap(lambda x: [x] * n),
    "enumerate": lambda pipe, n: pipe.enumerate(n),
    "fork": lambda pipe, n: IterDataPipe.functions["zip"](*pipe.fork(2)),
    "concat": lambda pipe, n: pipe.concat(IterableWrapper(range(n))),
    "user": lambda pipe, n: Pairs(pipe),
    "shard": lambda pipe, n: pipe.sharding_filter(),
}


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(1, 4)), max_size=4),
    length=st.integers(0, 9),
    cuts=st.lists(st.integers(0, 12), min_size=1, max_size=3),
)
def test_any_pipeline_goes_on_anywhere_any_number_of_times(steps, length, cuts):
    def build():
        pipe = IterableWrapper(range(length))
        for name, number in steps:
            pipe = STEPS[name](pipe, number)
        return pipe

    found, state = [], None
    for count in cuts:
        pipe = build()
        if state is not None:
            pipe.load_state_dict(state)
        reader = iter(pipe)
        for _, sample in zip(range(count), reader, strict=False):
            found.append(sample)
        state = copied(pipe.state_dict())
    last = build()
    last.load_state_dict(state)
    assert found + list(last) == list(build())


def test_a_class_of_ones_own_goes_on_at_once_when_it_names_its_state():
    replayed = []

    class Every(IterDataPipe):
        state_fields = ("_seen",)

        def __init__(self, source):
            self.source = source

        def reset(self):
            self._seen = 0

        def __iter__(self):
            for sample in self.source:
                replayed.append(sample)
                self._seen += 1
                if self._seen % 2 == 0:
                    yield sample

    pipe = Every(ten())
    advanced(pipe, 2)
    again = Every(ten())
    again.load_state_dict(pipe.state_dict())
    replayed.clear()
    assert list(again) == [5, 7, 9]
    assert replayed == [4, 5, 6, 7, 8, 9]


def test_a_registered_method_name_is_refused_twice():
    from flambeau.core.errors import DuplicateNameError

    with pytest.raises(DuplicateNameError, match="'map' of IterDataPipe is taken"):

        @functional_datapipe("map")
        class Another(IterDataPipe):
            pass
