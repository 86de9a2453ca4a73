"""Samplers, schedulers, storages and ensembles of replay buffers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data import (
    CompressedListStorage,
    FlatStorageCheckpointer,
    H5StorageCheckpointer,
    LazyTensorStorage,
    ListStorage,
    PrioritizedSampler,
    PrioritizedSliceSampler,
    ReplayBuffer,
    ReplayBufferEnsemble,
    SliceSamplerWithoutReplacement,
    StreamingSliceSampler,
    TensorDictReplayBuffer,
)
from flambeau.rl.data.replay_buffers.scheduler import LambdaScheduler, LinearScheduler, SchedulerList, StepScheduler


def rows(count, *, start=0, ends=()):
    done = torch.zeros(count, 1, dtype=torch.bool)
    done[list(ends)] = True
    return TensorDict({"step": torch.arange(start, start + count), "next": {"done": done}}, [count])


def written_in_chunks(sampler, size, chunks, ends):
    """A buffer that was written in chunks, with a step to look at after each."""
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(size), sampler=sampler)
    written = 0
    for chunk in chunks:
        buffer.extend(rows(chunk, start=written, ends=[at for at in range(chunk) if written + at in ends]))
        written += chunk
        yield buffer, written


WRITTEN = {
    "size": st.integers(3, 12),
    "lengths": st.lists(st.integers(1, 6), min_size=1, max_size=12),
    "chunks": st.lists(st.integers(1, 9), min_size=1, max_size=10),
    "length": st.integers(1, 3),
}


def ends_of(lengths):
    return set((torch.tensor(lengths).cumsum(0) - 1).tolist())


@given(**WRITTEN)
def test_slices_begin_where_priorities_say_and_lie_in_one_trajectory(size, lengths, chunks, length):
    ends = ends_of(lengths)
    sampler = PrioritizedSliceSampler(size, 1.0, 1.0, 0.0, slice_len=length)
    for buffer, written in written_in_chunks(sampler, size, chunks, ends):
        oldest = max(written - size, 0)
        starts = [at for at in range(oldest, written - length + 1) if not ends & set(range(at, at + length - 1))]
        if not starts:
            with pytest.raises(RuntimeError, match="as long as a slice"):
                buffer.sample(length)
            continue
        buffer.update_priority(torch.arange(len(buffer)), 1.0 + torch.arange(len(buffer)))
        slices = buffer.sample(4 * length)["step"].reshape(4, length)
        assert torch.equal(slices, slices[:, :1] + torch.arange(length))
        allowed = torch.zeros(size)
        allowed[torch.tensor(starts) % size] = 1.0 + (torch.tensor(starts) % size)
        assert sampler._start_tree.DumpValues().tolist() == allowed.tolist()


@given(**WRITTEN)
def test_each_slice_of_a_stream_comes_once_in_order(size, lengths, chunks, length):
    ends, seen, expected = ends_of(lengths), [], []
    sampler = StreamingSliceSampler(slice_len=length)
    at = 0
    for buffer, written in written_in_chunks(sampler, size, chunks, ends):
        at = max(at, written - size)
        while at + length <= written:
            stop = next((row for row in range(at, at + length) if row in ends), None)
            if stop is not None and stop < at + length - 1:
                at = stop + 1
                continue
            expected.append(at)
            at += length
        count = len(expected) - len(seen)
        if count:
            drawn = buffer.sample(count * length)["step"].reshape(count, length)
            assert torch.equal(drawn, drawn[:, :1] + torch.arange(length))
            seen += drawn[:, 0].tolist()
    assert seen == expected


def test_each_trajectory_gives_one_slice_in_a_pass():
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(20), sampler=SliceSamplerWithoutReplacement(slice_len=2), batch_size=4
    )
    buffer.extend(rows(20, ends=(3, 8, 12, 14)))
    drawn = torch.cat([batch["step"] for batch in buffer]).reshape(-1, 2)
    numbers = torch.bucketize(drawn, torch.tensor([3, 8, 12, 14]))
    assert sorted(numbers[:, 0].tolist()) == [0, 1, 2, 3, 4]
    assert torch.equal(numbers[:, 0], numbers[:, 1])


@pytest.mark.parametrize("storage", [ListStorage, LazyTensorStorage])
def test_items_are_used_up_and_their_places_filled_first(storage):
    buffer = TensorDictReplayBuffer(storage=storage(8), batch_size=4, consume_after_n_samples=1)
    buffer.extend(rows(6))
    used = buffer.sample()["step"]
    assert len(buffer) == 2
    assert buffer.extend(rows(5, start=10)).tolist() == [*used.tolist(), 6]
    assert len(buffer) == 7
    left = torch.cat([batch["step"] for batch in buffer]).tolist()
    assert sorted(left) == sorted({*range(6)} - {*used.tolist()} | {*range(10, 15)})
    with pytest.raises(RuntimeError, match="used up"):
        buffer.sample()


def test_schedulers_change_a_parameter_step_by_step():
    sampler = PrioritizedSampler(8, alpha=0.8, beta=0.4)
    buffer = ReplayBuffer(storage=LazyTensorStorage(8), sampler=sampler)
    linear = LinearScheduler(buffer, "beta", final_value=1.0, num_steps=3)
    halving = StepScheduler(sampler, "alpha", gamma=0.5, n_steps=2, min_value=0.3)
    both, found = SchedulerList([linear, halving]), []
    for _ in range(4):
        both.step()
        found += [sampler.beta, sampler.alpha]
    assert found == pytest.approx([0.6, 0.8, 0.8, 0.4, 1.0, 0.4, 1.0, 0.3])
    scaled = LambdaScheduler(sampler, "beta", lambda step: 1 / step)
    scaled.load_state_dict({**scaled.state_dict(), "_step_cnt": 3})
    scaled.step()
    assert sampler.beta == 0.25
    with pytest.raises(ValueError, match="no attribute 'gamma'"):
        LinearScheduler(sampler, "gamma", 1.0, 3)


def test_compressed_items_come_back_and_take_less_room(tmp_path):
    frames = TensorDict({"pixels": torch.zeros(6, 3, 64, 64, dtype=torch.uint8), "at": torch.arange(6)}, [6])
    buffer = ReplayBuffer(storage=CompressedListStorage(6), batch_size=3)
    buffer.extend(frames)
    assert torch.equal(buffer[:]["pixels"], frames["pixels"])
    assert buffer.storage.bytes() < 6 * 3 * 64 * 64 / 20
    buffer.dumps(tmp_path / "saved")
    twin = ReplayBuffer(storage=CompressedListStorage(6), batch_size=3)
    twin.loads(tmp_path / "saved")
    assert twin[:]["at"].tolist() == list(range(6))


def test_items_that_need_code_are_not_written(tmp_path):
    buffer = ReplayBuffer(storage=ListStorage(2), collate_fn=list)
    buffer.extend([object()])
    with pytest.raises(RuntimeError, match="tensors, tensordicts and plain values"):
        buffer.dumps(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def ensemble(**kwargs):
    buffers = [TensorDictReplayBuffer(storage=LazyTensorStorage(8), batch_size=4) for _ in range(2)]
    for at, each in enumerate(buffers):
        each.extend(rows(8, start=100 * at))
    return buffers, ReplayBufferEnsemble(*buffers, batch_size=8, **kwargs)


def test_an_ensemble_draws_from_all_its_buffers():
    _, together = ensemble(sample_from_all=True)
    batch = together.sample()
    assert batch.shape == (2, 4)
    assert batch["index", "buffer_ids"].tolist() == [[0] * 4, [1] * 4]
    assert torch.equal(batch["step"], batch["index", "index"] + 100 * batch["index", "buffer_ids"])


def test_an_ensemble_draws_buffers_by_probability():
    _, together = ensemble(p=[0.0, 1.0])
    assert set(together.sample()["index", "buffer_ids"].flatten().tolist()) == {1}
    with pytest.raises(RuntimeError, match="sample_from_all"):
        ensemble(p=[0.5, 0.5], sample_from_all=True)


def test_an_ensemble_routes_rows_by_key():
    buffers, together = ensemble(routing_key="to")
    for each in buffers:
        each.empty()
        each._storage.initialized = False
    data = rows(4).set("to", torch.tensor([1, 0, 1, 1]))
    found = together.extend(data)
    assert found["index"].tolist() == [0, 0, 1, 2]
    assert [each[:]["step"].tolist() for each in buffers] == [[1], [0, 2, 3]]


def test_an_ensemble_is_written_through_its_buffers(tmp_path):
    buffers, together = ensemble()
    with pytest.raises(RuntimeError, match="through its buffers"):
        together.extend(rows(2))
    together.dumps(tmp_path / "saved")
    buffers[1].empty()
    together.loads(tmp_path / "saved")
    assert buffers[1][:]["step"].tolist() == list(range(100, 108))
    assert together[1, 3]["step"] == 103
    assert together[:, :2]["step"].tolist() == [[0, 1], [100, 101]]


def episodes(count, *, ends=(), start=0, columns=()):
    """Rows whose next observation is the next row's observation, inside an episode."""
    steps = torch.arange(start, start + count, dtype=torch.float32)
    done = torch.zeros(count, 1, dtype=torch.bool)
    done[list(ends)] = True
    following = {"obs": steps[:, None] + 1, "reward": steps[:, None], "done": done, "terminated": done.clone()}
    made = TensorDict({"obs": steps[:, None], "action": steps[:, None] * 2, "next": following}, [count])
    return made.unsqueeze(1).expand(count, *columns).clone() if columns else made


@pytest.mark.parametrize("checkpointer", [FlatStorageCheckpointer, H5StorageCheckpointer])
@pytest.mark.parametrize("chunks", [(5,), (8,), (6, 6), (8, 3), (7, 7, 7)], ids=str)
def test_flat_checkpoints_come_back_as_they_were(checkpointer, chunks, tmp_path):
    def made():
        storage = LazyTensorStorage(8)
        storage.checkpointer = checkpointer()
        return TensorDictReplayBuffer(storage=storage, batch_size=2)

    buffer, twin, start = made(), made(), 0
    for chunk in chunks:
        buffer.extend(episodes(chunk, start=start, ends=[at for at in range(chunk) if (start + at) % 3 == 2]))
        start += chunk
    buffer.dumps(tmp_path / "saved")
    twin.loads(tmp_path / "saved")
    assert len(twin) == len(buffer)
    for key in ("obs", "action", "index", ("next", "obs"), ("next", "reward"), ("next", "done")):
        assert torch.equal(twin[:][key], buffer[:][key]), key
    more = episodes(2, start=start).set("done", torch.zeros(2, 1).bool()).set("terminated", torch.zeros(2, 1).bool())
    assert torch.equal(twin.extend(more), buffer.extend(episodes(2, start=start)))


def test_flat_checkpoints_of_several_environments_come_back(tmp_path):
    def made():
        storage = LazyTensorStorage(18, ndim=2)
        storage.checkpointer = FlatStorageCheckpointer()
        return ReplayBuffer(storage=storage, dim_extend=0)

    buffer, twin = made(), made()
    for start in (0, 4):
        buffer.extend(episodes(4, start=start, ends=[1], columns=(3,)))
    buffer.dumps(tmp_path / "saved")
    twin.loads(tmp_path / "saved")
    for key in ("obs", "action", ("next", "obs"), ("next", "done")):
        assert torch.equal(twin[:][key], buffer[:][key]), key


def test_observations_are_written_once(tmp_path):
    storage = LazyTensorStorage(100)
    storage.checkpointer = FlatStorageCheckpointer()
    buffer = ReplayBuffer(storage=storage)
    buffer.extend(episodes(100, ends=(49, 99)))
    buffer.dumps(tmp_path / "saved")
    assert (tmp_path / "saved" / "storage" / "obs.memmap").stat().st_size == 4 * 102
    assert not (tmp_path / "saved" / "storage" / "next").exists()
