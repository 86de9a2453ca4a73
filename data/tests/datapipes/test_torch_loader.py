"""Pipes in torch's own DataLoader: its classes, graph tools, seeds, shards, workers and ranks."""

import functools
import itertools
import multiprocessing
import os
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset, graph, graph_settings
from torch.utils.data import IterDataPipe as TorchIterDataPipe
from torch.utils.data import MapDataPipe as TorchMapDataPipe

from flambeau.data.dataloader2 import (
    DataLoader2,
    DistributedReadingService,
    MultiProcessingReadingService,
    SequentialReadingService,
    reshard,
)
from flambeau.data.datapipes.iter import IterableWrapper, ShardingFilter
from flambeau.data.datapipes.map import SequenceWrapper
from flambeau.data.datapipes.utils import shard_worker

COUNT = 26


def pipeline(count=COUNT):
    return IterableWrapper(range(count)).shuffle().sharding_filter()


def double(x):
    return 2 * x


def test_torchs_classes_take_pipes_for_their_own():
    pipe = pipeline()
    assert isinstance(pipe, TorchIterDataPipe)
    assert isinstance(pipe, IterableDataset)
    assert isinstance(SequenceWrapper([1]), TorchMapDataPipe)
    assert not isinstance(SequenceWrapper([1]), TorchIterDataPipe)


def test_torchs_graph_tools_look_into_pipelines():
    left, right = pipeline().map(lambda x: x).fork(2)
    end = left.zip(right.map(double), SequenceWrapper("ab").to_iter_datapipe())
    found = graph_settings.get_all_graph_pipes(graph.traverse_dps(end))
    names = {type(pipe).__name__ for pipe in found}
    assert {"ShufflerIterDataPipe", "ShardingFilterIterDataPipe", "IterableWrapperIterDataPipe"} <= names
    assert "SequenceWrapperMapDataPipe" in names


def test_torchs_settings_reach_pipes():
    pipe = pipeline()
    graph_settings.apply_shuffle_settings(pipe, shuffle=False)
    assert list(pipe) == list(range(COUNT))
    graph_settings.apply_sharding(pipe, 4, 1)
    assert list(pipe) == list(range(1, COUNT, 4))
    graph_settings.apply_shuffle_settings(pipe, shuffle=True)
    graph_settings.apply_random_seed(pipe, torch.Generator().manual_seed(1))
    first = list(pipe)
    graph_settings.apply_random_seed(pipe, torch.Generator().manual_seed(1))
    assert list(pipe) == first != sorted(first)


def test_sharding_twice_on_a_branch_is_refused_by_torchs_tools():
    with pytest.raises(RuntimeError, match="Sharding twice"):
        graph_settings.apply_sharding(pipeline().sharding_filter(), 2, 0)


def test_pipes_of_torch_can_be_read_by_ours_and_ours_by_torchs():
    from torch.utils.data.datapipes import iter as theirs

    mixed = IterableWrapper([0]).concat(theirs.IterableWrapper([1, 2]))
    assert list(mixed) == [0, 1, 2]
    assert list(theirs.Mapper(pipeline(4), double)) != []
    assert ShardingFilter in {
        type(p) for p in graph_settings.get_all_graph_pipes(graph.traverse_dps(theirs.Mapper(pipeline(4), double)))
    }


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_workers_give_every_sample_once(workers):
    loader = DataLoader(pipeline(), batch_size=None, num_workers=workers, shuffle=True)
    for _ in range(2):
        assert sorted(loader) == list(range(COUNT))


@pytest.mark.parametrize("workers", [0, 2])
def test_the_order_follows_torchs_seed(workers):
    def orders(seed):
        torch.manual_seed(seed)
        loader = DataLoader(pipeline(), batch_size=None, num_workers=workers, shuffle=True)
        return [list(loader), list(loader)]

    assert orders(3) == orders(3)
    assert orders(3) != orders(4)
    assert orders(3)[0] != orders(3)[1]


def test_the_order_of_two_workers_is_that_of_one_process():
    def order(workers):
        torch.manual_seed(0)
        return list(DataLoader(pipeline(), batch_size=None, num_workers=workers, shuffle=True))

    assert order(0) == order(1) == order(2)


@pytest.mark.parametrize("workers", [0, 2])
def test_shuffling_is_turned_off_and_left_as_it_is(workers):
    made = functools.partial(DataLoader, batch_size=None, num_workers=workers)
    assert list(made(pipeline(), shuffle=False)) == list(range(COUNT))
    off = pipeline()
    off.source_datapipe.set_shuffle(False)
    assert list(made(off)) == list(range(COUNT))


def test_a_shuffle_that_is_missing_is_warned_of():
    with pytest.warns(UserWarning, match="does not contain"):
        loader = DataLoader(IterableWrapper(range(9)), batch_size=None, shuffle=True)
    assert sorted(loader) == list(range(9))


def test_persistent_workers_have_another_order_in_every_epoch():
    loader = DataLoader(pipeline(), batch_size=2, num_workers=2, shuffle=True, persistent_workers=True)
    epochs = [[x for batch in loader for x in batch.tolist()] for _ in range(3)]
    assert all(sorted(epoch) == list(range(COUNT)) for epoch in epochs)
    assert len(set(map(tuple, epochs))) == 3


def test_pipelines_are_sent_to_spawned_workers():
    loader = DataLoader(pipeline().map(double), batch_size=None, num_workers=1, multiprocessing_context="spawn")
    assert sorted(loader) == list(range(0, 2 * COUNT, 2))


def test_a_map_pipe_is_a_map_style_data_set():
    loader = DataLoader(SequenceWrapper(range(7)).map(double), batch_size=3, num_workers=1, shuffle=True)
    assert sorted(x for batch in loader for x in batch.tolist()) == list(range(0, 14, 2))


def test_a_resumed_pipeline_goes_on_in_the_loader():
    pipe = IterableWrapper(range(6))
    reader = iter(pipe)
    next(reader)
    again = IterableWrapper(range(6))
    again.load_state_dict(pipe.state_dict())
    for workers in (0, 1):
        loader = DataLoader(again, batch_size=None, num_workers=workers)
        assert list(loader) == ([1, 2, 3, 4, 5] if workers == 0 else list(range(6)))


WITHOUT_CLASSES = """
import torch, torch.utils.data as data
theirs, maps = data.IterDataPipe, data.MapDataPipe
del data.IterDataPipe, data.MapDataPipe
from flambeau.data.datapipes.iter import IterableWrapper
from flambeau.data.datapipes.utils import shard_worker
data.IterDataPipe, data.MapDataPipe = theirs, maps  # this torch's own workers import them
pipe = IterableWrapper(range(12)).shuffle().sharding_filter().map(abs)
assert not isinstance(pipe, theirs)
for workers in (1, 2):
    torch.manual_seed(3)
    loader = data.DataLoader(pipe, batch_size=None, num_workers=workers, worker_init_fn=shard_worker)
    epochs = [list(loader), list(loader)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(12))] * 2, epochs
    assert epochs[0] != epochs[1]
reader = iter(pipe)
next(reader)
pipe.load_state_dict(pipe.state_dict())
assert len(list(pipe)) == 11
"""


def test_pipes_do_not_need_the_classes_of_torch():
    done = subprocess.run([sys.executable, "-c", WITHOUT_CLASSES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_hook_for_workers_says_what_it_is_for():
    with pytest.raises(RuntimeError, match="pass it as worker_init_fn"):
        shard_worker(0)
    loader = DataLoader(list(range(4)), num_workers=1, worker_init_fn=shard_worker)
    with pytest.raises(RuntimeError, match="no pipe but list"):
        list(loader)


# Ranks. Each test starts two processes of gloo, that report through a queue.


def run_ranks(function, *arguments, world=2):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    port = free_port()
    ranks = [
        context.Process(target=one_rank, args=(function, rank, world, port, queue, arguments)) for rank in range(world)
    ]
    for process in ranks:
        process.start()
    found = dict(queue.get(timeout=90) for _ in ranks)
    for process in ranks:
        process.join(30)
        assert process.exitcode == 0
    return [found[rank] for rank in range(world)]


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def one_rank(function, rank, world, port, queue, arguments):
    torch.set_num_threads(1)
    torch.manual_seed(rank)  # ranks that were not seeded alike
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=world)
    try:
        queue.put((rank, function(rank, *arguments)))
        queue.close()
        queue.join_thread()
        dist.barrier()
    finally:
        dist.destroy_process_group()


def torch_epochs(rank, workers):
    loader = DataLoader(pipeline(), batch_size=None, num_workers=workers, shuffle=True)
    return [list(loader), list(loader)]


@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_and_workers_of_torchs_loader_give_every_sample_once(workers):
    ranks = run_ranks(torch_epochs, workers)
    for epoch in range(2):
        samples = [sample for rank in ranks for sample in rank[epoch]]
        assert sorted(samples) == list(range(COUNT))
    assert ranks[0][0] != ranks[0][1]


def service(workers):
    return SequentialReadingService(DistributedReadingService(timeout=60), MultiProcessingReadingService(workers))


def loader2_epochs(rank, workers, count):
    with DataLoader2(pipeline(count), reading_service=service(workers)) as loader:
        return [list(loader), list(loader)]


@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_and_workers_of_dataloader2_give_every_sample_once(workers):
    ranks = run_ranks(loader2_epochs, workers, 24)
    for epoch in range(2):
        assert sorted(itertools.chain(*(rank[epoch] for rank in ranks))) == list(range(24))
    assert ranks[0][0] != ranks[0][1]


@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_end_together_when_one_has_fewer_samples(workers):
    ranks = run_ranks(loader2_epochs, workers, 9)
    assert [len(rank[0]) for rank in ranks] == [4, 4]
    assert len({*ranks[0][0], *ranks[1][0]}) == 8


def uneven(rank):
    return list(IterableWrapper(range(5 + 3 * rank)).fullsync(60))


def test_fullsync_stops_at_the_shortest_rank():
    assert run_ranks(uneven) == [list(range(5))] * 2


def part(rank, workers, states, count):
    with DataLoader2(pipeline(), reading_service=service(workers)) as loader:
        loader.seed(5)
        if states is not None:
            loader.load_state_dict(states[rank])
        reader = iter(loader)
        samples = list(itertools.islice(reader, count))
        return samples, None if count is None else loader.state_dict()


@pytest.mark.parametrize("workers", [0, 2])
def test_every_rank_goes_on_where_it_was(workers):
    whole = [samples for samples, _ in run_ranks(part, workers, None, None)]
    heads = run_ranks(part, workers, None, 3)
    rests = run_ranks(part, workers, [state for _, state in heads], None)
    assert [head + rest for (head, _), (rest, _) in zip(heads, rests, strict=True)] == whole


def test_one_rank_goes_on_for_two():
    heads = run_ranks(part, 2, None, 4)
    states = reshard([state for _, state in heads], 1)
    ((rest, _),) = run_ranks(part, 1, states, None, world=1)
    assert sorted([*heads[0][0], *heads[1][0], *rest]) == list(range(COUNT))


def late(rank):
    import time

    from flambeau.data.datapipes.iter.util.distributed import PrefetchTimeoutError

    def slow(x):
        time.sleep(4 if rank else 0)
        return x

    pipe = IterableWrapper(range(3)).map(slow).fullsync(1)
    try:
        return list(pipe)
    except PrefetchTimeoutError as error:
        return error.timeout
    except RuntimeError:  # the other rank is gone by then
        return "gone"


def test_fullsync_does_not_wait_for_ever():
    results = run_ranks(late)
    assert results[0] == 1


def test_fullsync_needs_a_process_group():
    with pytest.raises(RuntimeError, match="init_process_group"):
        list(IterableWrapper([1]).fullsync())
    with pytest.raises(RuntimeError, match="init_process_group"):
        iter(DataLoader2(pipeline(), reading_service=DistributedReadingService()))
