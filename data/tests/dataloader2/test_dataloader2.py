"""DataLoader2: seeds, workers, states in the middle of a pass, faults."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch

from flambeau.core.files import write_atomic
from flambeau.data.dataloader2 import (
    DataLoader2,
    InProcessReadingService,
    MultiProcessingReadingService,
    PauseIteration,
    ReadingServiceInterface,
    SequentialReadingService,
    reshard,
)
from flambeau.data.dataloader2.adapter import CacheTimeout, Shuffle
from flambeau.data.dataloader2.graph import find_dps, list_dps, remove_dp, replace_dp, traverse_dps
from flambeau.data.dataloader2.linter import check_shuffle_before_sharding
from flambeau.data.datapipes.iter import SHARDING_PRIORITIES, IterableWrapper, IterDataPipe, Shuffler
from flambeau.data.datapipes.map import SequenceWrapper


def numbers(count=20):
    return IterableWrapper(range(count))


def pipeline():
    """Shuffled before and after sharding, batched, with a tail that differs in length between workers."""
    sharded = numbers(23).shuffle(buffer_size=6).sharding_filter()
    return sharded.map(lambda x: x * 10).shuffle(buffer_size=3).batch(2)


def dispatched():
    source = numbers(21).shuffle().sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)
    return source.map(lambda x: x + 100).batch(2)


def loader(build, workers=0, seed=7, **options):
    made = DataLoader2(build(), reading_service=MultiProcessingReadingService(workers, **options))
    made.seed(seed)
    return made


def copied(state):
    return pickle.loads(pickle.dumps(state))


def flat(batches):
    return sorted(x for batch in batches for x in batch)


# Seeds and passes


def test_a_seed_gives_the_same_passes_again_and_each_pass_another_order():
    runs = []
    for _ in range(2):
        with loader(pipeline, 2) as made:
            runs.append([list(made), list(made)])
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[0][1]
    assert flat(runs[0][0]) == flat(runs[0][1]) == [x * 10 for x in range(23)]


def test_without_a_seed_passes_follow_torchs_generator():
    def orders():
        torch.manual_seed(5)
        made = DataLoader2(numbers().shuffle())
        return [list(made), list(made)]

    first, second = orders(), orders()
    assert first == second
    assert first[0] != first[1]


def test_shuffles_behind_the_sharding_differ_between_workers_and_passes():
    def build():
        return numbers(40).sharding_filter().map(lambda x: x // 2).shuffle()

    with loader(build, 2) as made:
        first, second = list(made), list(made)
    assert first[0::2] != first[1::2]  # each worker has 0 to 19, in an order of its own
    assert sorted(first[0::2]) == sorted(first[1::2]) == list(range(20))
    assert first[0::2] != second[0::2]


def test_a_seed_has_to_fit_64_bits():
    made = DataLoader2(numbers())
    with pytest.raises(ValueError, match="2\\*\\*64"):
        made.seed(2**64)
    with pytest.raises(ValueError, match="got -1"):
        made.seed(-1)


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_workers_together_give_every_sample_once(workers, count):
    with loader(lambda: numbers(count).shuffle().sharding_filter(), workers) as made:
        for _ in range(2):
            assert sorted(made) == list(range(count))


def test_the_order_of_workers_is_that_of_one_process():
    with loader(lambda: numbers().shuffle().sharding_filter(), 3) as made:
        together = [list(made), list(made)]
    alone = loader(lambda: numbers().shuffle().sharding_filter(), 0)
    assert together == [list(alone), list(alone)]


def test_a_map_pipe_is_read_in_the_order_of_its_indices():
    assert list(DataLoader2(SequenceWrapper("abc"))) == ["a", "b", "c"]


def test_the_original_pipeline_stays_as_it_is():
    pipe = numbers(4).shuffle()
    list(DataLoader2(pipe, Shuffle(False)))
    assert pipe._enabled
    assert len(DataLoader2(pipe)) == 4


def test_tensors_come_out_of_workers():
    with loader(lambda: numbers(6).sharding_filter().map(torch.tensor), 2) as made:
        assert torch.stack(list(made)).tolist() == [0, 1, 2, 3, 4, 5]


def test_workers_can_be_spawned_and_run_lambdas():
    with loader(pipeline, 2, multiprocessing_context="spawn") as made:
        spawned = list(made)
    with loader(pipeline, 2) as made:
        assert list(made) == spawned


# States


@pytest.mark.parametrize("build", [pipeline, dispatched], ids=["sharded", "dispatched"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_loader_goes_on_after_any_sample(build, workers):
    with loader(build, workers) as made:
        whole, following = list(made), list(made)
    with loader(build, workers) as source:
        states, reader = [], iter(source)
        for _ in range(len(whole) + 1):
            states.append(copied(source.state_dict()))
            next(reader, None)
    for count in (0, 1, 2, 5, len(whole) - 1, len(whole)):
        with loader(build, workers, seed=99) as again:
            again.load_state_dict(states[count])
            assert list(again) == whole[count:], count
            assert list(again) == following


@pytest.mark.parametrize("build", [pipeline, dispatched], ids=["sharded", "dispatched"])
@pytest.mark.parametrize("others", [1, 2, 5])
def test_any_number_of_workers_goes_on_with_the_same_samples(build, others):
    with loader(build, 3) as made:
        whole = list(made)
    with loader(build, 3) as source:
        reader = iter(source)
        head = [next(reader) for _ in range(4)]
        state = copied(source.state_dict())
    with loader(build, others) as again:
        again.load_state_dict(state)
        assert head + list(again) == whole
        assert flat(list(again)) == flat(whole)


@pytest.mark.parametrize("service", [lambda: None, InProcessReadingService, lambda: InProcessReadingService(3)])
def test_a_loader_in_this_process_goes_on_after_any_sample(service):
    def build():
        made = DataLoader2(pipeline(), reading_service=service())
        made.seed(3)
        return made

    with build() as made:
        whole, following = list(made), list(made)
    for count in range(len(whole) + 1):
        with build() as source, build() as again:
            reader = iter(source)
            head = [next(reader) for _ in range(count)]
            again.load_state_dict(copied(source.state_dict()))
            assert head + list(again) == whole
            assert list(again) == following


def test_states_can_be_taken_and_loaded_again_and_again():
    with loader(pipeline, 2) as made:
        whole = list(made)
    found, state, workers = [], None, 2
    while True:
        with loader(pipeline, workers) as made:
            if state is not None:
                made.load_state_dict(state)
            reader = iter(made)
            found += [sample for _, sample in zip(range(3), reader, strict=False)]
            state = copied(made.state_dict())
            workers = workers % 3 + 1
        if len(found) == len(whole):
            break
    assert found == whole


def test_a_state_between_passes_begins_the_next_pass():
    with loader(pipeline, 2) as made:
        list(made)
        state = copied(made.state_dict())
        following = list(made)
    with loader(pipeline, 2, seed=1) as again:
        again.load_state_dict(state)
        assert list(again) == following


def test_a_loaded_state_is_the_state():
    with loader(pipeline, 2) as source, loader(pipeline, 2) as again:
        reader = iter(source)
        next(reader)
        state = copied(source.state_dict())
        again.load_state_dict(state)
        assert again.state_dict() == state


def test_a_state_builds_a_loader_with_its_pipeline():
    with loader(pipeline, 2) as source:
        reader = iter(source)
        next(reader)
        state = copied(source.state_dict())
        rest = list(reader)
    with DataLoader2.from_state(state, MultiProcessingReadingService(1)) as again:
        assert list(again) == rest


def test_a_state_is_not_loaded_into_a_loader_that_was_read():
    made = DataLoader2(numbers())
    state = made.state_dict()
    iter(made)
    with pytest.raises(RuntimeError, match="before the first iterator"):
        made.load_state_dict(state)
    with pytest.raises(ValueError, match="schema"):
        DataLoader2(numbers()).load_state_dict({**state, "schema": 0})


def test_states_of_three_ranks_go_on_with_two():
    def rank(number, count):
        pipe = numbers(30).shuffle(buffer_size=5).sharding_filter()
        pipe.apply_sharding(count, number, sharding_group=SHARDING_PRIORITIES.DISTRIBUTED)
        made = DataLoader2(pipe, reading_service=MultiProcessingReadingService(2))
        made.seed(4)
        return made

    found, states = [], []
    for number in range(3):
        with rank(number, 3) as made:
            reader = iter(made)
            found += [next(reader) for _ in range(number + 1)]
            states.append(copied(made.state_dict()))
    for number, state in enumerate(reshard(states, 2)):
        with rank(number, 2) as made:
            made.load_state_dict(state)
            found += list(made)
    assert sorted(found) == list(range(30))


def test_a_state_holds_no_samples_that_were_read_ahead():
    def build():
        return numbers(64).sharding_filter().map(lambda x: torch.full((10_000,), x))

    with loader(build, 2) as made:
        reader = iter(made)
        next(reader)
        assert len(pickle.dumps(made.state_dict())) < 10_000


def read_until_killed(path, workers, ready):
    """Read on from what the file says; after every sample the file has all samples so far, and the state."""
    with loader(pipeline, workers) as made:
        found = []
        if path.exists():
            found, state = pickle.loads(path.read_bytes())
            made.load_state_dict(state)
        for sample in made:
            found.append(sample)
            write_atomic(path, pickle.dumps((found, made.state_dict())))
            ready.set()
            time.sleep(0.005)


def test_a_job_that_is_killed_again_and_again_reads_every_sample_once(tmp_path):
    with loader(pipeline, 2) as made:
        whole = list(made)
    context, path = multiprocessing.get_context("fork"), tmp_path / "state"
    for attempt in range(50):
        ready = context.Event()
        job = context.Process(target=read_until_killed, args=(path, (attempt + 1) % 3 + 1, ready))
        job.start()
        if attempt < 4:
            assert ready.wait(60)
            os.kill(job.pid, signal.SIGKILL)
        job.join()
        if job.exitcode == 0:
            break
    assert pickle.loads(path.read_bytes())[0] == whole


# Iterators


def test_a_second_iterator_makes_the_first_invalid():
    with loader(pipeline, 2) as made:
        first = iter(made)
        next(first)
        second = iter(made)
        with pytest.raises(RuntimeError, match="invalid"):
            next(first)
        assert flat(second) == [x * 10 for x in range(23)]


def test_a_limited_iterator_goes_on_when_it_is_told():
    reader = iter(DataLoader2(numbers(5)))
    reader.limit(2)
    assert list(reader) == [0, 1]
    with pytest.raises(PauseIteration):
        next(reader)
    reader.resume()
    assert list(reader) == [2, 3]
    reader.limit(None)
    assert list(reader) == [4]


def test_a_loader_that_was_shut_down_is_of_no_more_use():
    made = loader(pipeline, 1)
    next(iter(made))
    made.shutdown()
    made.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        iter(made)


# Faults


def test_an_exception_in_a_worker_comes_with_its_traceback():
    def broken(x):
        if x == 3:
            raise KeyError("no such thing")
        return x

    with loader(lambda: numbers(6).sharding_filter().map(broken), 2) as made:
        reader = iter(made)
        assert [next(reader) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(KeyError) as raised:
            next(reader)
    notes = "\n".join(raised.value.__notes__)
    assert "worker 1 of 2" in notes
    assert "in broken" in notes


def test_an_exception_in_the_dispatching_process_arrives_too():
    def broken(x):
        raise ValueError(f"cannot read {x}")

    def build():
        source = numbers().map(broken).sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)
        return source.map(abs)

    with loader(build, 2) as made, pytest.raises(ValueError, match="cannot read 0"):
        next(iter(made))


def fail_at_7(x):
    if x == 7:
        raise ValueError("cannot read 7")
    return x


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_an_exception_late_in_the_dispatching_process_comes_behind_the_samples_before_it(workers):
    def build():
        source = numbers(10).map(fail_at_7).sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)
        return source.map(abs)

    with loader(build, workers) as made:
        reader = iter(made)
        assert [next(reader) for _ in range(7)] == list(range(7))
        with pytest.raises(ValueError, match="cannot read 7"):
            next(reader)


def test_what_was_dispatched_is_not_sharded_again():
    def build():
        source = numbers(20).sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)
        return source.sharding_filter().map(abs)

    with loader(build, 2) as made:
        assert list(made) == list(range(20))
        reader = iter(made)
        got = [next(reader) for _ in range(5)]
        state = copied(made.state_dict())
    with loader(build, 3) as again:
        again.load_state_dict(state)
        assert sorted(got + list(again)) == list(range(20))


def test_a_branch_beside_the_dispatched_one_is_sharded():
    def build():
        one = numbers(8).sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)
        return one.zip(numbers(8).map(str).sharding_filter())

    with loader(build, 2) as made:
        assert list(made) == [(n, str(n)) for n in range(8)]


@pytest.mark.parametrize("build", [pipeline, dispatched])
def test_workers_of_a_fork_server_give_the_samples_of_one_process(build):
    with loader(build, 2) as forked, loader(build, 2, multiprocessing_context="forkserver") as served:
        assert list(served) == list(forked)


def test_a_worker_that_is_killed_ends_the_pass_with_an_error():
    with loader(lambda: numbers(10_000).sharding_filter(), 2) as made:
        reader = iter(made)
        next(reader)
        os.kill(made.datapipe.processes.processes[0].pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="exit code -9"):
            list(reader)


def test_a_dead_worker_is_told_by_whatever_meets_it_first():
    """The next message to it may fail before its silence is noticed."""
    with loader(lambda: numbers(10_000).sharding_filter(), 2) as made:
        reader = iter(made)
        next(reader)
        running = made.datapipe.processes
        running.inbox._lost, lost = (lambda process: None), running.inbox._lost
        process = running.processes[0]
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        threading.Timer(0.2, lost, [process]).start()
        with pytest.raises(RuntimeError, match="exit code -9"):
            list(reader)


def gone(pid):
    end = time.monotonic() + 60  # on a busy machine
    while time.monotonic() < end:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_abandoned_loaders_leave_no_processes():
    made = loader(dispatched, 2)
    reader = iter(made)
    next(reader)
    pids = [process.pid for process in made.datapipe.processes.processes]
    assert len(pids) == 3
    del made, reader
    assert all(gone(pid) for pid in pids)


KILLED = """
import time
from flambeau.data.dataloader2 import DataLoader2, MultiProcessingReadingService
from flambeau.data.datapipes.iter import SHARDING_PRIORITIES, IterableWrapper

if __name__ == "__main__":
    source = IterableWrapper(range(21)).sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING).map(abs)
    loader = DataLoader2(source, reading_service=MultiProcessingReadingService(2, multiprocessing_context="METHOD"))
    reader = iter(loader)
    next(reader)
    print(*(process.pid for process in loader.datapipe.processes.processes), flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_workers_end_when_the_main_process_is_killed(method, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(KILLED.replace("METHOD", method))
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as main:
        pids = list(map(int, main.stdout.readline().split()))
        main.kill()
    assert len(pids) == 3
    assert all(gone(pid) for pid in pids)


# Reading services


def test_functions_of_the_user_run_in_the_workers():
    def init(pipe, info):
        return pipe.map(lambda x: (info.worker_id, x))

    def reset(pipe, info, seeds):
        return pipe.map(lambda pair: (*pair, seeds is not None))

    with loader(lambda: numbers(4).sharding_filter(), 2, worker_init_fn=init, worker_reset_fn=reset) as made:
        assert list(made) == [(0, 0, True), (1, 1, True), (0, 2, True), (1, 3, True)]


def test_wrong_arguments_of_the_service_are_named():
    with pytest.raises(ValueError, match="num_workers has to be >= 0, got -1"):
        MultiProcessingReadingService(-1)
    with pytest.raises(ValueError, match="multiprocessing_context has to be one of"):
        MultiProcessingReadingService(1, multiprocessing_context="thread")


def test_services_are_called_one_after_the_other():
    calls = []

    class Recording(ReadingServiceInterface):
        def __init__(self, name):
            self.name = name

        def initialize(self, datapipe):
            calls.append(f"initialize {self.name}")
            return datapipe

        def initialize_iteration(self, seed_generator, iter_reset_fn=None):
            calls.append(f"begin {self.name}")

        def finalize_iteration(self):
            calls.append(f"end {self.name}")

    with DataLoader2(numbers(2), reading_service=SequentialReadingService(Recording("a"), Recording("b"))) as made:
        list(made)
    assert calls == ["initialize a", "initialize b", "begin a", "begin b", "end b", "end a"]


# Graphs, adapters, linter


def test_adapters_turn_shuffling_on_and_off():
    assert list(DataLoader2(numbers(9).shuffle(), Shuffle(False))) == list(range(9))
    with pytest.warns(UserWarning, match="no shuffle"):
        made = DataLoader2(numbers(9), [Shuffle(True)])
    assert type(made.datapipe) is Shuffler
    assert list(DataLoader2(numbers(9).shuffle().set_shuffle(False), Shuffle(None))) == list(range(9))


def test_the_timeout_of_disk_caches_is_set():
    pipe = numbers(1).on_disk_cache(filepath_fn=str).map(lambda x: (x, "")).end_caching("w")
    made = DataLoader2(pipe, CacheTimeout(7))
    assert made.datapipe.holder.timeout == 7
    with pytest.raises(ValueError, match="-1"):
        CacheTimeout(-1)


def test_pipes_are_found_replaced_and_removed():
    source = numbers(4)
    shuffled = source.shuffle()
    left, right = shuffled.map(lambda x: x).fork(2)
    end = left.zip(right)
    graph = traverse_dps(end)
    assert find_dps(graph, Shuffler) == [shuffled]
    assert len(list_dps(graph)) == len({id(pipe) for pipe in list_dps(graph)}) == 7
    assert source not in list_dps(graph, exclude_dps=shuffled)
    graph = replace_dp(graph, shuffled, source.map(lambda x: -x))
    assert list(end) == [(0, 0), (-1, -1), (-2, -2), (-3, -3)]
    mapped = next(pipe for pipe in list_dps(graph) if getattr(pipe, "datapipe", None) is source)
    remove_dp(graph, mapped)
    assert list(end) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert next(iter(replace_dp(traverse_dps(end), end, source).values()))[0] is source


def test_pipes_are_listed_breadth_first():
    far = numbers(4)
    near = numbers(4)
    middle = far.map(abs)
    end = middle.zip(near)
    assert list_dps(traverse_dps(end)) == [end, middle, near, far]


def test_the_linter_finds_shardings_without_a_shuffle():
    assert check_shuffle_before_sharding(numbers())
    assert check_shuffle_before_sharding(numbers().shuffle().map(abs).sharding_filter().batch(2))
    assert not check_shuffle_before_sharding(numbers().sharding_filter().shuffle())
    plain, shuffled = numbers(), numbers().shuffle()
    assert not check_shuffle_before_sharding(plain.zip(shuffled).sharding_filter())


def test_a_dispatched_part_is_cut_where_all_marks_end():
    mark = SHARDING_PRIORITIES.MULTIPROCESSING

    def build():
        left = numbers(6).sharding_round_robin_dispatch(mark)
        right = numbers(6).map(str).sharding_round_robin_dispatch(mark)
        return left.zip(right).map(lambda pair: (*pair, "worker"))

    with loader(build, 2) as made:
        assert list(made) == [(n, str(n), "worker") for n in range(6)]


def test_pipes_of_the_user_with_a_seed_get_one():
    class Random(IterDataPipe):
        def __init__(self, source):
            self.source = source
            self.seen = None

        def set_seed(self, seed):
            self.seen = seed

        def __iter__(self):
            yield from (self.seen for _ in self.source)

    made = DataLoader2(Random(numbers(2)))
    made.seed(123)
    assert list(made) == [9025247384375923790] * 2
