"""What single pipes do beyond their golden values: rules of columns, iterators, buffers, lengths and errors."""

import asyncio
import copy
import pickle
import threading
import time
import warnings
from collections import namedtuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.data.datapipes import _columns
from flambeau.data.datapipes.iter import (
    Concater,
    HuggingFaceHubReader,
    IterableWrapper,
    IterDataPipe,
    SampleMultiplexer,
    ShardingFilter,
)
from flambeau.data.datapipes.map import MapDataPipe, SequenceWrapper
from flambeau.data.datapipes.utils import pin_memory_fn, to_graph

Point = namedtuple("Point", "x y")


def numbers(count=6):
    return IterableWrapper(range(count))


# Columns


def test_fields_of_named_tuples_are_columns_and_stay_named():
    points = IterableWrapper([Point(1, 2)])
    assert list(points.map(lambda x: x * 10, input_col="x")) == [Point(10, 2)]
    assert list(points.map(lambda x, y: x + y, input_col=["x", "y"], output_col="y")) == [Point(1, 3)]
    assert list(points.map(lambda x: x + 5, input_col=0, output_col=-1)) == [(1, 2, 6)]


def test_samples_are_copied_before_a_column_is_put_in():
    samples = [{"a": 1}, {"a": 2}]
    pipe = IterableWrapper(samples, deepcopy=False).map(lambda a: -a, input_col="a", output_col="b")
    assert list(pipe) == [{"a": 1, "b": -1}, {"a": 2, "b": -2}]
    assert samples == [{"a": 1}, {"a": 2}]


def test_columns_of_lists_can_be_named_from_the_end():
    assert list(IterableWrapper([[1, 2, 3]]).map(lambda a, b: a + b, input_col=[-1, 0])) == [[2, 4]]


def needs_keyword(x, *, scale):
    return x * scale


def two(a, b):
    return a + b


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"fn": needs_keyword}, "keyword-only arguments \\['scale'\\]"),
        ({"fn": two}, "takes 2 positional arguments, but input_col=None gives it 1"),
        ({"fn": two, "input_col": [0, 1, 2]}, "gives it 3"),
        ({"fn": abs, "output_col": 1}, "needs input_col"),
        ({"fn": abs, "input_col": 0, "output_col": [0, 1]}, "one column"),
    ],
)
def test_functions_that_do_not_fit_are_refused_at_once(arguments, words):
    with pytest.raises(ValueError, match=words):
        numbers().map(**arguments)
    with pytest.raises(ValueError, match=words):
        numbers().threadpool_map(**arguments)


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="expected a callable"):
        numbers().map(3)


def test_lambdas_are_warned_of_where_nothing_can_pickle_them(monkeypatch):
    monkeypatch.setattr(_columns, "_can_pickle_local_functions", lambda: False)
    with pytest.warns(UserWarning, match="a lambda cannot be sent to another process"):
        numbers().map(lambda x: x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numbers().map(abs)


# Iterators


def test_a_pipe_has_one_iterator_at_a_time():
    pipe = numbers()
    first = iter(pipe)
    assert next(first) == 0
    second = iter(pipe)
    assert next(second) == 0
    with pytest.raises(RuntimeError, match="this iterator of IterableWrapperIterDataPipe is invalid"):
        next(first)
    assert list(second) == [1, 2, 3, 4, 5]


def test_an_iterator_that_was_never_read_becomes_invalid_too():
    pipe = numbers().map(abs)
    first = iter(pipe)
    list(pipe)
    with pytest.raises(RuntimeError, match="invalid"):
        next(first)


def test_a_pipe_that_is_its_own_iterator_works_and_resumes():
    class Counter(IterDataPipe):
        def __init__(self, count):
            self.count = count

        def reset(self):
            self.number = 0

        def __iter__(self):
            return self

        def __next__(self):
            if self.number == self.count:
                raise StopIteration
            self.number += 1
            return self.number

    pipe = Counter(4)
    reader = iter(pipe)
    assert [next(reader), next(reader)] == [1, 2]
    again = Counter(4)
    again.load_state_dict(pipe.state_dict())
    assert list(again) == [3, 4]
    assert list(pipe) == [1, 2, 3, 4]


def test_a_subclass_may_call_the_iterator_of_its_base():
    class Tens(type(numbers())):
        def __iter__(self):
            for sample in super().__iter__():
                yield sample * 10

    assert list(Tens(range(3))) == list(Tens(range(3))) == [0, 10, 20]


def test_an_exception_tells_which_pipe_it_was_raised_in():
    def broken(x):
        raise KeyError(x)

    with pytest.raises(KeyError) as raised:
        list(numbers().map(broken).batch(2))
    assert raised.value.__notes__ == ["raised while reading MapperIterDataPipe"]


def test_copies_begin_anew():
    pipe = numbers(20).shuffle(buffer_size=5).set_seed(1)
    whole = list(pipe)
    pipe.set_seed(1)
    reader = iter(pipe)
    next(reader)
    for copied in (copy.deepcopy(pipe), pickle.loads(pickle.dumps(pipe))):
        assert sorted(copied.set_seed(1)) == list(range(20))
    assert list(copy.deepcopy(pipe).set_seed(1)) == whole


def test_generators_are_read_as_they_are_with_a_warning():
    pipe = IterableWrapper(number for number in range(3))
    with pytest.warns(UserWarning, match="cannot be copied"):
        assert list(pipe) == [0, 1, 2]
    assert list(IterableWrapper((number for number in range(3)), deepcopy=False)) == [0, 1, 2]


def test_lengths_that_are_not_known_are_type_errors():
    for pipe in (numbers().filter(bool), numbers().flatmap(range), numbers().cycle(), IterableWrapper(iter([1]))):
        with pytest.raises(TypeError):
            len(pipe)
    assert len(numbers(7).batch(2).enumerate().zip(numbers(3))) == 3
    assert len(numbers(7).map(abs).shuffle().repeat(2).cycle(3)) == 42
    assert [len(part) for part in numbers(7).round_robin_demux(3)] == [3, 2, 2]


# Order


def test_the_order_of_a_shuffle_follows_torchs_generator():
    def order():
        torch.manual_seed(2)
        return list(numbers(30).shuffle())

    assert order() == order() != list(range(30))


@given(count=st.integers(0, 60), size=st.integers(1, 70), seed=st.integers(0, 2**64 - 1))
def test_a_shuffle_is_that_of_pythons_generator(count, size, seed):
    import random

    rng, buffer, expected = random.Random(seed), [], []
    for item in range(count):
        if len(buffer) == size:
            index = rng.randint(0, size - 1)
            expected.append(buffer[index])
            buffer[index] = item
        else:
            buffer.append(item)
    while buffer:
        expected.append(buffer.pop(rng.randint(0, len(buffer) - 1)))
    assert list(numbers(count).shuffle(buffer_size=size).set_seed(seed)) == expected


@given(count=st.integers(0, 40), ranks=st.integers(1, 4), workers=st.integers(1, 4))
def test_shards_are_disjoint_and_complete_and_have_their_lengths(count, ranks, workers):
    from flambeau.data.datapipes.iter import SHARDING_PRIORITIES as BY

    shards = []
    for rank in range(ranks):
        for worker in range(workers):
            pipe = numbers(count).sharding_filter()
            pipe.apply_sharding(workers, worker, sharding_group=BY.MULTIPROCESSING)
            pipe.apply_sharding(ranks, rank, sharding_group=BY.DISTRIBUTED)
            assert pipe.instance_id == rank * workers + worker
            shards.append(list(pipe))
            assert len(pipe) == len(shards[-1])
    assert sorted(x for shard in shards for x in shard) == list(range(count))


def test_shardings_with_and_without_groups_do_not_mix():
    from flambeau.data.datapipes.iter import SHARDING_PRIORITIES as BY

    pipe = numbers().sharding_filter()
    pipe.apply_sharding(2, 0)
    with pytest.raises(RuntimeError, match="cannot be combined"):
        pipe.apply_sharding(2, 0, sharding_group=BY.DISTRIBUTED)
    with pytest.raises(ValueError, match="shard 2 of 2 does not exist"):
        numbers().sharding_filter().apply_sharding(2, 2)
    only = ShardingFilter(numbers(), BY.DISTRIBUTED)
    only.apply_sharding(2, 1, sharding_group=BY.MULTIPROCESSING)
    assert list(only) == list(range(6))
    with pytest.raises(NotImplementedError, match="MULTIPROCESSING"):
        numbers().sharding_round_robin_dispatch(BY.DISTRIBUTED)


@given(st.lists(st.floats(0.1, 5), min_size=1, max_size=4), st.integers(0, 30), st.integers(0, 99))
def test_the_parts_of_a_random_split_are_disjoint_and_complete(weights, count, seed):
    parts = numbers(count).random_split(dict(enumerate(weights)), seed, total_length=count)
    assert sorted(x for part in parts for x in part) == list(range(count))


def test_a_random_split_has_exact_sizes_and_one_target():
    weights = {"train": 7, "valid": 3}
    train, valid = numbers(10).random_split(weights, seed=1)
    assert (len(train), len(valid), len(list(train)), len(list(valid))) == (7, 3, 7, 3)
    assert list(numbers(10).random_split(weights, seed=1, target="valid")) == list(valid)
    with pytest.raises(KeyError, match="none of"):
        numbers(10).random_split(weights, seed=1, target="test")
    with pytest.raises(TypeError, match="average"):
        len(numbers(11).random_split({"a": 0.5, "b": 0.5}, seed=0, target="a"))


@given(st.integers(1, 5), st.integers(0, 25))
def test_multiplexers_give_everything_they_promise(count, length):
    pipes = [IterableWrapper([(number, n) for n in range(length)]) for number in range(count)]
    expected = sorted((number, n) for number in range(count) for n in range(length))
    for made in (
        pipes[0].mux(*pipes[1:]),
        pipes[0].mux_longest(*pipes[1:]),
        SampleMultiplexer(dict.fromkeys(pipes, 1.0)),
    ):
        assert sorted(made) == expected
        assert len(made) == len(expected)


def test_pipes_that_combine_refuse_what_is_no_pipe():
    with pytest.raises(TypeError, match="got list; wrap data with IterableWrapper"):
        numbers().zip([1, 2])
    with pytest.raises(ValueError, match="at least one pipe"):
        Concater()
    with pytest.raises(ValueError, match="weights have to be > 0"):
        SampleMultiplexer({numbers(): 0.0})


# Splitting


def test_streams_of_a_fork_begin_again_together_with_a_warning():
    left, right = numbers().fork(2)
    reader = iter(right)
    assert (next(iter(left)), next(reader)) == (0, 0)
    with pytest.warns(UserWarning, match="one stream begins again while others were not read"):
        assert list(left) == list(range(6))
    with pytest.raises(RuntimeError, match="all streams have begun again"):
        next(reader)
    assert list(right) == list(range(6))


def test_streams_that_were_read_to_their_end_begin_again_quietly():
    left, right = numbers().fork(2)
    for _ in range(3):
        assert list(left.zip(right)) == [(n, n) for n in range(6)]


def test_a_fork_copies_on_request():
    for kind, same, inner_same in ((None, True, True), ("shallow", False, True), ("deep", False, False)):
        left, right = IterableWrapper([[[1]]]).fork(2, copy=kind)
        ((a, b),) = left.zip(right)
        assert ((a is b), (a[0] is b[0])) == (same, inner_same)
    with pytest.raises(ValueError, match="copy has to be"):
        numbers().fork(2, copy="flat")


def test_unlimited_buffers_are_warned_of():
    for method, arguments in (("fork", ()), ("demux", (lambda x: 0,))):
        with pytest.warns(UserWarning, match="buffer_size=-1"):
            streams = getattr(numbers(3000), method)(2, *arguments, buffer_size=-1)
        assert len(list(streams[0])) == 3000


def test_a_classifier_gives_the_number_of_a_stream():
    for wrong in (2, -1, None):
        left, _ = numbers().demux(2, lambda x, wrong=wrong: wrong)
        with pytest.raises(ValueError, match=f"0 to 1, it gave {wrong}"):
            list(left)
    with pytest.raises(BufferError, match="more than buffer_size=2"):
        list(numbers().demux(2, lambda x: 1, buffer_size=2)[0])


def test_columns_to_skip_have_to_exist():
    with pytest.raises(ValueError, match="names \\[3\\]"):
        IterableWrapper([(1, 2)]).unzip(2, columns_to_skip=[3])
    with pytest.raises(ValueError, match="all columns are skipped"):
        SequenceWrapper([(1, 2)]).unzip(1, columns_to_skip=[0])


# Groups


def test_a_full_buffer_without_a_large_group_is_an_error_unless_it_may_be_dropped():
    options = {"buffer_size": 3, "group_size": 2, "guaranteed_group_size": 2}
    with pytest.raises(RuntimeError, match="the largest group has 1, below the guaranteed 2"):
        list(numbers().groupby(lambda x: x, **options))
    assert list(numbers(4).groupby(lambda x: x, drop_remaining=True, **options)) == [[2], [3]]


def test_batches_are_lists_that_keep_their_items():
    (batch,) = numbers(3).batch(3)
    assert isinstance(batch, list)
    assert list(batch.raw_iterator()) == batch.items == [0, 1, 2]
    assert batch.as_str("> ") == "> [0, 1, 2]"
    assert type(pickle.loads(pickle.dumps(batch))) is type(batch)


def test_taking_apart_more_levels_than_there_are_is_an_error():
    with pytest.raises(IndexError, match="is no list"):
        list(numbers().unbatch())
    with pytest.raises(ValueError, match="-1 for all levels"):
        numbers().unbatch(unbatch_level=0)


def test_samples_without_an_order_can_be_bucketized():
    pipe = IterableWrapper([{"n": 2}, {"n": 2}, {"n": 1}]).max_token_bucketize(4, len_fn=lambda sample: sample["n"])
    assert list(pipe) == [[{"n": 1}, {"n": 2}], [{"n": 2}]]


def test_of_a_full_buffer_the_oldest_sample_is_dropped_with_one_warning():
    source, other = IterableWrapper([3, 2]), IterableWrapper(range(5))
    with pytest.warns(UserWarning, match="the first has the key 0") as caught:
        assert list(source.zip_with_iter(other, key_fn=lambda x: x, buffer_size=2)) == [(3, 3), (2, 2)]
    assert len(caught) == 1
    with pytest.raises(ValueError, match="two samples of the other pipe have the key 1"):
        list(IterableWrapper([2]).zip_with_iter(IterableWrapper([1, 1, 2]), key_fn=lambda x: x))


def test_a_missing_entry_names_key_and_sample():
    with pytest.raises(KeyError, match=r"no entry for the key 'b' of the sample \('b', 1\)"):
        list(IterableWrapper([("b", 1)]).zip_with_map(SequenceWrapper({"a": 0}), key_fn=lambda sample: sample[0]))


def test_collating_by_column():
    (found,) = IterableWrapper([[{"a": 1, "b": 2}, {"a": 3, "b": 4}]]).collate({"a": sum})
    assert (found.a, found.b.tolist()) == (4, [2, 4])
    with pytest.raises(ValueError, match="no columns \\['c'\\]"):
        list(IterableWrapper([[{"a": 1}]]).collate({"c": sum}))
    with pytest.raises(ValueError, match="mean the same"):
        numbers().collate(sum, collate_fn=sum)
    assert list(IterableWrapper([[1, 2]]).collate(collate_fn=sum)) == [3]


# Threads and coroutines


def test_a_thread_reads_ahead_no_further_than_its_buffer():
    read = []
    pipe = numbers(100).map(lambda x: read.append(x) or x).prefetch(5)
    reader = iter(pipe)
    assert next(reader) == 0
    until(lambda: len(read) >= 6)
    assert len(read) <= 7
    reader.close()


def until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_reading_ahead_can_be_paused():
    read = []
    pipe = numbers(100).map(lambda x: read.append(x) or x).prefetch(3)
    reader = iter(pipe)
    next(reader)
    pipe.pause()
    seen = len(read)
    rest = [next(reader) for _ in range(seen - 1)]
    assert (len(read), rest) == (seen, list(range(1, seen)))
    with pytest.raises(RuntimeError, match="paused"):
        next(reader)


def test_threads_end_with_their_iterators():
    def running():
        return [thread for thread in threading.enumerate() if thread.name == "flambeau-prefetch"]

    before = len(running())
    pipe = numbers(100).prefetch(2).map(abs).prefetch(2)
    reader = iter(pipe)
    next(reader)
    assert len(running()) == before + 2
    reader.close()
    until(lambda: len(running()) == before)
    list(pipe)
    until(lambda: len(running()) == before)


def test_exceptions_of_the_thread_are_raised_where_it_is_read():
    reader = iter(numbers().map(lambda x: 1 // (x - 2)).prefetch(2))
    assert [next(reader), next(reader)] == [-1, -1]
    with pytest.raises(ZeroDivisionError):
        next(reader)


def test_threads_work_at_the_same_time_and_keep_the_order():
    barrier = threading.Barrier(3)

    def together(x):
        barrier.wait(timeout=30)
        return x

    assert list(numbers(6).threadpool_map(together, max_workers=3)) == list(range(6))


def test_coroutines_of_a_batch_run_at_the_same_time():
    running, most = 0, []

    async def slow(x, y):
        nonlocal running
        running += 1
        most.append(running)
        await asyncio.sleep(0.001)
        running -= 1
        return x + y

    pairs = IterableWrapper([(n, 1) for n in range(8)])
    found = pairs.async_map_batches(slow, batch_size=8, input_col=[0, 1], output_col=-1, max_concurrency=3)
    assert list(found) == [(n, 1, n + 1) for n in range(8)]
    assert max(most) == 3
    whole = pairs.async_map_batches(slow, batch_size=5, input_col=[0, 1], flatten=False)
    assert [len(batch) for batch in whole] == [5, 3]


# Memory


def test_a_cache_in_memory_reads_its_source_once():
    read = []
    pipe = numbers(4).map(lambda x: read.append(x) or x).in_memory_cache()
    assert list(pipe) == list(pipe) == [0, 1, 2, 3]
    assert read == [0, 1, 2, 3]
    mapped = SequenceWrapper([5]).map(lambda x: read.append(x) or x).in_memory_cache()
    assert (mapped[0], mapped[0], read[4:]) == (5, 5, [5])


def test_what_does_not_fit_into_the_cache_is_read_again():
    read = []
    pipe = IterableWrapper([b"x" * 400_000] * 5).map(lambda x: read.append(1) or x).in_memory_cache(size=1)
    assert len(list(pipe)) == len(list(pipe)) == 5
    assert len(read) == 10
    assert len(pipe._cache) == 2


def test_a_memory_cell_remembers_the_last_samples():
    pipe = numbers(5).memory_cell(remember_elements=2)
    assert list(pipe) == [0, 1, 2, 3, 4]
    assert pipe.get_last() == (4, 4)
    assert pipe.get_all() == [(3, 3), (4, 4)]


def test_pinning_leaves_containers_as_they_are():
    if torch.cuda.is_available():
        assert pin_memory_fn({"a": [torch.zeros(1)]})["a"][0].is_pinned()
    assert list(numbers(3).pin_memory(pin_memory_fn=lambda x, device: (x, device))) == [(0, None), (1, None), (2, None)]


# Map pipes and the rest


def test_map_pipes_say_what_is_missing():
    with pytest.raises(IndexError, match="index 3 is not among the 3 entries"):
        SequenceWrapper([1]).concat(SequenceWrapper([2, 3]))[3]
    with pytest.raises(IndexError, match="batch 2 is not among the 2 batches"):
        SequenceWrapper(range(3)).batch(2)[2]
    with pytest.raises(IndexError, match="one of the 2 pipes"):
        SequenceWrapper([1]).zip(SequenceWrapper([1, 2]))[1]
    with pytest.raises(IndexError, match="no sample has the key 'z'"):
        IterableWrapper([("a", 1)]).to_map_datapipe()["z"]
    with pytest.raises(TypeError, match="pairs of key and value"):
        len(numbers().to_map_datapipe())
    with pytest.raises(NotImplementedError, match="has no __getitem__"):
        MapDataPipe()[0]


def test_a_shuffle_of_a_map_pipe_can_be_turned_off():
    assert list(SequenceWrapper(range(4)).shuffle().set_shuffle(False)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: numbers().batch(0), ValueError, "batch_size has to be > 0"),
        (lambda: numbers().shuffle(buffer_size=0), ValueError, "buffer_size has to be > 0"),
        (lambda: numbers().prefetch(0), ValueError, "buffer_size has to be > 0"),
        (lambda: numbers().set_length(-1), ValueError, "length has to be >= 0"),
        (lambda: list(numbers().add_index()), TypeError, "`enumerate` numbers any sample"),
        (lambda: list(IterableWrapper([{"a": 1}]).drop("b")), KeyError, "no columns"),
        (lambda: list(IterableWrapper([(1,)]).drop(3)), IndexError, "range"),
        (lambda: list(IterableWrapper([{"a": 1}]).slice(0)), TypeError, "no order"),
        (lambda: list(IterableWrapper([{"a": 1, "b": {"a": 2}}]).flatten()), ValueError, "the key 'a'"),
        (lambda: numbers().bucketbatch(2, batch_num=0), ValueError, "batch_num has to be > 0"),
        (lambda: numbers().max_token_bucketize(2, max_len=3), ValueError, "at least max_len=3"),
        (lambda: numbers().fullsync(0), ValueError, "timeout has to be > 0"),
        (lambda: numbers().threadpool_map(abs, scheduled_tasks=0), ValueError, "scheduled_tasks has to be > 0"),
        (lambda: list(IterableWrapper([[(1, 2)]]).rows2columnar()), ValueError, "need column_names"),
    ],
)
def test_wrong_arguments_and_samples_are_named(build, error, words):
    with pytest.raises(error, match=words):
        build()


def test_a_pipeline_can_be_drawn():
    pytest.importorskip("graphviz")
    left, right = numbers().fork(2)
    source = to_graph(left.zip(right)).source
    assert "IterableWrapper" in source
    assert "Forker" not in source


def test_hugging_face_data_sets_need_their_package():
    try:
        import datasets  # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(ModuleNotFoundError, match="pip install datasets"):
            list(HuggingFaceHubReader("name"))


# Data frames


def frames(count=3):
    polars = pytest.importorskip("polars")
    return [polars.DataFrame({"a": [n, n + 10], "b": [n * 2, n * 3]}) for n in range(count)]


def rows(pipe):
    return [row for frame in pipe for row in frame.iter_rows()]


def test_frames_are_taken_apart_and_put_together():
    pipe = IterableWrapper(frames())
    assert list(pipe._dataframes_as_tuples())[:2] == [(0, 0), (10, 0)]
    assert [len(frame) for frame in pipe._dataframes_per_row()] == [1] * 6
    assert [len(frame) for frame in pipe._dataframes_concat(2)] == [4, 2]
    made = IterableWrapper([(1, "x"), (2, "y"), (3, "z")])._to_dataframes_pipe(2, columns=["n", "s"])
    assert [frame.columns for frame in made] == [["n", "s"]] * 2
    assert rows(made) == [(1, "x"), (2, "y"), (3, "z")]


def test_rows_of_frames_are_shuffled_and_filtered():
    pipe = IterableWrapper(frames())
    shuffled = pipe._dataframes_shuffle()
    assert sorted(rows(shuffled)) == sorted(rows(pipe))
    assert [len(frame) for frame in shuffled] == [2, 2, 2]
    kept = pipe._dataframes_filter(lambda row: row[0] != 1)
    assert [len(frame) for frame in kept] == [2, 2, 1]
    assert [len(frame) for frame in pipe.filter(lambda frame: frame["a"] > 5)] == [1, 1, 1]


def test_a_traced_pipeline_is_written_like_a_frame():
    pipe = IterableWrapper(frames()).trace_as_dataframe(schema_df=frames(1)[0])
    pipe["c"] = (pipe["a"] + pipe["b"]) * 2
    pipe["d"] = 1 - pipe["c"].clip(0, 4)
    assert pipe.columns == ["a", "b", "c", "d"]
    assert rows(pipe)[3] == (11, 3, 28, -3)
    with pytest.raises(KeyError, match="no column 'z'"):
        pipe["z"]
    assert [len(batch[0]) for batch in pipe.batch(4)] == [4, 2]
    assert sorted(rows(pipe.shuffle())) == sorted(rows(pipe))
    assert len(rows(pipe.filter(lambda row: row[0] > 9))) == 3


def test_data_frames_of_rows_and_of_parquet_files(tmp_path):
    frame = pytest.importorskip("flambeau.data.frame")
    made = list(IterableWrapper([(1, 0.5), (2, 1.5), (3, 2.5)]).dataframe(2, columns=["n", "x"]))
    assert [len(one) for one in made] == [2, 1]
    assert isinstance(made[0], frame.DataFrame)
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    path = str(tmp_path / "x.parquet")
    parquet.write_table(pyarrow.table({"n": [1, 2, 3], "s": ["a", "b", "c"]}), path, row_group_size=2)
    loaded = list(IterableWrapper([path]).load_parquet_as_df(columns=["n"]))
    assert [len(one) for one in loaded] == [2, 1]
    assert list(loaded[0].columns) == ["n"]
