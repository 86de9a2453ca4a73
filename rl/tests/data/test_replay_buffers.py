"""Replay buffers: rings, slices, folders on disk, and processes that share them."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    PrioritizedSampler,
    ReplayBuffer,
    SamplerWithoutReplacement,
    SliceSampler,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
)

STORAGES = (ListStorage, LazyTensorStorage, LazyMemmapStorage)


def rows(count, *, start=0, ends=()):
    done = torch.zeros(count, 1, dtype=torch.bool)
    done[list(ends)] = True
    steps = torch.arange(start, start + count)
    return TensorDict({"step": steps, "next": {"done": done, "terminated": done.clone()}}, [count])


@pytest.mark.parametrize("storage", STORAGES)
def test_the_oldest_items_are_written_over(storage):
    buffer = TensorDictReplayBuffer(storage=storage(5), batch_size=2)
    assert buffer.extend(rows(3)).tolist() == [0, 1, 2]
    assert buffer.extend(rows(4, start=3)).tolist() == [3, 4, 0, 1]
    assert buffer.add(rows(1, start=7)[0]) == 2
    assert buffer[:]["step"].tolist() == [5, 6, 7, 3, 4]
    assert buffer[:]["index"].tolist() == [0, 1, 2, 3, 4]
    assert (len(buffer), buffer.write_count) == (5, 8)


@pytest.mark.parametrize("storage", STORAGES)
def test_of_more_rows_than_places_the_last_stay(storage):
    buffer = ReplayBuffer(storage=storage(4))
    assert buffer.extend(rows(10)).tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert buffer[:]["step"].tolist() == [8, 9, 6, 7]


def test_rows_that_do_not_fit_change_nothing():
    buffer = ReplayBuffer(storage=LazyTensorStorage(4))
    buffer.extend(TensorDict({"a": torch.zeros(2), "b": torch.zeros(2, 3)}, [2]))
    with pytest.raises(RuntimeError, match=r"entry 'b' has rows of shape \(2,\)"):
        buffer.extend(TensorDict({"a": torch.ones(2), "b": torch.ones(2, 2)}, [2]))
    assert buffer[:]["a"].tolist() == [0, 0]
    assert (len(buffer), buffer.write_count) == (2, 2)


@given(
    size=st.integers(3, 12),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    chunks=st.lists(st.integers(1, 9), min_size=1, max_size=10),
    slice_len=st.integers(1, 3),
    seed=st.integers(0, 10),
)
def test_slices_lie_in_one_trajectory_wherever_the_ring_begins(size, lengths, chunks, slice_len, seed):
    ends, total = set(), 0
    for length in lengths:
        total += length
        ends.add(total - 1)
    kept_up = TensorDictReplayBuffer(storage=LazyTensorStorage(size), sampler=SliceSampler(slice_len=slice_len))
    written, oldest = 0, 0
    for chunk in chunks:
        data = rows(chunk, start=written, ends=[at for at in range(chunk) if written + at in ends])
        kept_up.extend(data)
        written += chunk
        oldest = max(written - size, 0)
        possible = [
            start
            for start in range(oldest, written - slice_len + 1)
            if not any(row in ends for row in range(start, start + slice_len - 1))
        ]
        if not possible:
            with pytest.raises(RuntimeError, match="as long as a slice"):
                kept_up.sample(slice_len)
            continue
        torch.manual_seed(seed)
        drawn = kept_up.sample(6 * slice_len)
        slices = drawn["step"].reshape(6, slice_len)
        assert set(slices[:, 0].tolist()) <= set(possible)
        assert torch.equal(slices, slices[:, :1] + torch.arange(slice_len))
        anew = TensorDictReplayBuffer(storage=kept_up._storage, sampler=SliceSampler(slice_len=slice_len))
        torch.manual_seed(seed)
        assert torch.equal(anew.sample(6 * slice_len)["step"], drawn["step"])


def test_new_items_have_the_highest_priority_that_was_seen():
    buffer = TensorDictPrioritizedReplayBuffer(alpha=1.0, beta=1.0, storage=LazyTensorStorage(8), batch_size=4)
    buffer.extend(rows(2))
    buffer.update_priority(torch.tensor([0, 1]), torch.tensor([3.0, 1.0]))
    buffer.extend(rows(2))
    assert buffer._sampler._sum_tree[torch.arange(4)].tolist() == [3, 1, 3, 3]


def test_priorities_below_zero_are_refused():
    buffer = ReplayBuffer(storage=LazyTensorStorage(4), sampler=PrioritizedSampler(4, 0.7, 0.5))
    buffer.extend(rows(2))
    with pytest.raises(ValueError, match=r"priority has -1.0"):
        buffer.update_priority(torch.tensor([0, 1]), torch.tensor([1.0, -1.0]))


def test_prefetching_draws_every_item_of_a_pass_once():
    sampler = SamplerWithoutReplacement()
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(10), sampler=sampler, batch_size=3, prefetch=2)
    buffer.extend(rows(10))
    assert sorted(torch.cat([batch["step"] for batch in buffer]).tolist()) == list(range(10))


@pytest.mark.parametrize("storage", [LazyTensorStorage, LazyMemmapStorage])
def test_a_buffer_comes_back_from_its_folder(storage, tmp_path):
    def made():
        return TensorDictPrioritizedReplayBuffer(alpha=0.7, beta=0.5, storage=storage(6), batch_size=2)

    buffer, twin = made(), made()
    buffer.extend(rows(8))
    buffer.update_priority(torch.arange(6), torch.arange(1.0, 7.0))
    buffer.dumps(tmp_path / "saved")
    buffer.dumps(tmp_path / "saved")  # in the place of the former
    twin.loads(tmp_path / "saved")
    assert torch.equal(twin[:]["step"], buffer[:]["step"])
    assert twin._sampler._sum_tree.DumpValues().tolist() == buffer._sampler._sum_tree.DumpValues().tolist()
    assert twin.extend(rows(1)).tolist() == [2]
    assert [each.name for each in tmp_path.iterdir()] == ["saved"]


def test_a_truncated_file_is_not_loaded(tmp_path):
    buffer = ReplayBuffer(storage=LazyTensorStorage(6))
    buffer.extend(rows(6))
    buffer.dumps(tmp_path / "saved")
    file = tmp_path / "saved" / "storage" / "step.memmap"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(RuntimeError, match=r"step.memmap has 40 bytes, expected 48"):
        ReplayBuffer(storage=LazyTensorStorage(6)).loads(tmp_path / "saved")


def _limited(function, most_bytes, *arguments):
    """Call a function in a process whose files cannot grow beyond a size, as on a full disk; its error's text."""

    def run(sender):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        try:
            function(*arguments)
        except (OSError, RuntimeError) as error:
            sender.send(f"{type(error).__name__}: {error}")
        else:
            sender.send("no error")

    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(False)
    process = context.Process(target=run, args=(sender,))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    return receiver.recv()


def test_a_full_disk_leaves_the_checkpoint_that_was_there(tmp_path):
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(100), batch_size=4)
    buffer.extend(rows(50))
    buffer.dumps(tmp_path / "saved")
    buffer.extend(rows(50, start=1000))
    assert "no error" not in _limited(buffer.dumps, 200, tmp_path / "saved")
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    again = TensorDictReplayBuffer(storage=LazyTensorStorage(100), batch_size=4)
    again.loads(tmp_path / "saved")
    assert again[:]["step"].tolist() == list(range(50))


def test_a_list_is_not_sent_to_other_processes():
    with pytest.raises(RuntimeError, match=r"ListStorage cannot be shared.*LazyMemmapStorage"):
        ReplayBuffer(storage=ListStorage(4), shared=True)


def _write(buffer, writer, batches, count):
    for batch in range(batches):
        number = writer * 1_000_000 + batch
        buffer.extend(TensorDict({"a": torch.full((count,), number), "b": torch.full((count, 50), number)}, [count]))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("storage", [LazyMemmapStorage, LazyTensorStorage])
def test_two_writing_processes_lose_nothing(storage, method):
    buffer = ReplayBuffer(storage=storage(400), batch_size=8, shared=True)
    context = multiprocessing.get_context(method)
    writers = [context.Process(target=_write, args=(buffer, number, 20, 10)) for number in range(2)]
    for each in writers:
        each.start()
    for each in writers:
        each.join(120)
        assert each.exitcode == 0
    assert (len(buffer), buffer.write_count) == (400, 400)
    numbers, counts = buffer[:]["a"].unique(return_counts=True)
    assert len(numbers) == 40
    assert counts.tolist() == [10] * 40


def _write_for_ever(buffer):
    batch = 0
    while True:
        batch += 1
        _write(buffer, os.getpid(), 1, 100)


def _kill_writers(times: int) -> None:
    buffer = ReplayBuffer(storage=LazyMemmapStorage(1000), batch_size=64, shared=True)
    _write(buffer, 0, 1, 100)
    context = multiprocessing.get_context("fork")
    for _ in range(times):
        writer = context.Process(target=_write_for_ever, args=(buffer,))
        before = buffer.write_count
        writer.start()
        deadline = time.monotonic() + 60
        while buffer.write_count < before + 300 and time.monotonic() < deadline:
            batch = buffer.sample()
            assert torch.equal(batch["b"], batch["a"].unsqueeze(-1).expand_as(batch["b"]))
        os.kill(writer.pid, signal.SIGKILL)
        writer.join(60)
        batch = buffer.sample()
        assert torch.equal(batch["b"], batch["a"].unsqueeze(-1).expand_as(batch["b"]))
        _write(buffer, 1, 1, 10)  # the lock is free
    everything = buffer[:]
    assert torch.equal(everything["b"], everything["a"].unsqueeze(-1).expand_as(everything["b"]))


def test_killed_writers_leave_neither_torn_rows_nor_a_lock():
    _kill_writers(5)


def _write_and_acknowledge(buffer, acknowledged, first):
    number = first
    while True:
        number += 1
        buffer.extend(TensorDict({"number": torch.full((10,), number), "copy": torch.full((10,), number)}, [10]))
        acknowledged.value = number


def _kill_and_count(times: int) -> None:
    """Of what a writer was told to be written, all is there when it is killed, and of what was not, nothing by half."""
    context = multiprocessing.get_context("fork")
    for round_ in range(times):
        buffer = ReplayBuffer(storage=LazyMemmapStorage(200_000), batch_size=8, shared=True)
        buffer.extend(TensorDict({"number": torch.zeros(10, dtype=torch.int64), "copy": torch.zeros(10).long()}, [10]))
        acknowledged = context.Value("q", 0, lock=False)
        writer = context.Process(target=_write_and_acknowledge, args=(buffer, acknowledged, 0))
        writer.start()
        deadline = time.monotonic() + 60
        while acknowledged.value < 5 + 7 * (round_ % 10) and time.monotonic() < deadline:
            time.sleep(0)
        os.kill(writer.pid, signal.SIGKILL)
        writer.join(60)
        last = acknowledged.value
        assert last > 0
        everything = buffer[:]
        assert torch.equal(everything["number"], everything["copy"])
        counts = everything["number"].bincount(minlength=last + 1)
        assert counts[: last + 1].tolist() == [10] * (last + 1)
        assert buffer.storage.cleanup()


def test_what_a_killed_writer_was_told_to_be_written_is_there():
    _kill_and_count(5)


@pytest.mark.slow
def test_what_a_hundred_killed_writers_were_told_to_be_written_is_there():
    _kill_and_count(100)


@pytest.mark.slow
def test_a_hundred_killed_writers_leave_neither_torn_rows_nor_a_lock():
    _kill_writers(100)


def _weigh(buffer, first, times):
    index = torch.arange(first, first + 20)
    for number in range(times):
        buffer.update_priority(index, torch.full((20,), float(number + first + 1)))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_share_priorities(method):
    buffer = TensorDictPrioritizedReplayBuffer(
        alpha=1.0, beta=1.0, eps=0.0, storage=LazyMemmapStorage(40), batch_size=8, shared=True
    )
    buffer.extend(rows(40))
    context = multiprocessing.get_context(method)
    weighers = [context.Process(target=_weigh, args=(buffer, first, 50)) for first in (0, 20)]
    for each in weighers:
        each.start()
    for each in weighers:
        each.join(120)
        assert each.exitcode == 0
    expected = torch.tensor([50.0] * 20 + [70.0] * 20)
    assert torch.equal(buffer._sampler._sum_tree[torch.arange(40)], expected)
    assert buffer._sampler._sum_tree.query(0, 40) == expected.sum()
    assert buffer.sample()["priority_weight"].max() <= 1


def test_items_of_another_process_are_drawn_by_priority():
    buffer = TensorDictPrioritizedReplayBuffer(
        alpha=1.0, beta=1.0, storage=LazyTensorStorage(40, shared_init=True), batch_size=64, shared=True
    )
    writer = multiprocessing.get_context("spawn").Process(target=buffer.extend, args=(rows(10),))
    writer.start()
    writer.join(120)
    assert sorted(set(buffer.sample()["index"].tolist())) == list(range(10))


def test_priorities_that_a_killed_process_left_half_changed_are_mended():
    buffer = TensorDictPrioritizedReplayBuffer(
        alpha=1.0, beta=1.0, eps=0.0, storage=LazyMemmapStorage(8), batch_size=4, shared=True
    )
    buffer.extend(rows(8))
    tree = buffer._sampler._sum_tree
    buffer._storage.publication.counts[3] = 1
    tree._tree[tree.capacity] = 100.0  # a leaf, without the sums above it
    buffer.sample()
    assert tree.query(0, 8) == 107


def _write_trajectories(buffer, writer, count):
    for number in range(count):
        data = rows(7, start=100 * (1000 * writer + number), ends=[6])
        buffer.extend(data)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_slices_of_trajectories_that_other_processes_write_are_whole(method):
    sampler = SliceSampler(slice_len=4)
    buffer = TensorDictReplayBuffer(storage=LazyMemmapStorage(100), sampler=sampler, batch_size=32, shared=True)
    _write_trajectories(buffer, 0, 3)
    context = multiprocessing.get_context(method)
    writers = [context.Process(target=_write_trajectories, args=(buffer, number, 60)) for number in (1, 2)]
    for each in writers:
        each.start()
    drawn = 0
    while any(each.is_alive() for each in writers) or drawn < 10:
        slices = buffer.sample()["step"].reshape(8, 4)
        assert torch.equal(slices, slices[:, :1] + torch.arange(4))
        drawn += 1
    for each in writers:
        each.join(120)
        assert each.exitcode == 0
    assert buffer.write_count == 7 * 123


def test_temporary_files_go_with_the_storage():
    storage = LazyMemmapStorage(4)
    ReplayBuffer(storage=storage).extend(rows(2))
    folder = Path(storage._folder)
    assert folder.is_dir()
    assert storage.cleanup()
    assert not folder.exists()
