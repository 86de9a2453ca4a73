"""Windows of steps, changes of items that may be gone, and episodes in nested form."""

from __future__ import annotations

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data import (
    ConditionalUpdateResult,
    H5Combine,
    H5Split,
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    Nested2TED,
    NestedStorageCheckpointer,
    PrioritizedSampler,
    ReplayBuffer,
    Sequence,
    StoreStorage,
    TED2Nested,
    TensorDictReplayBuffer,
    TensorDictRoundRobinWriter,
    Transition,
)
from flambeau.rl.testing import CountingEnv


def episodes(count, ends, size=10, **arguments):
    """A buffer of steps, of which some end an episode."""
    buffer = ReplayBuffer(storage=LazyTensorStorage(size), **arguments)
    done = torch.zeros(count, 1, dtype=torch.bool)
    done[list(ends)] = True
    buffer.extend(TensorDict({"obs": torch.arange(count), "next": {"done": done}}, [count]))
    return buffer


# Windows


@pytest.mark.parametrize(
    ("options", "anchor", "places", "valid"),
    [
        ({"length": 3}, 0, [0, 1, 2], [1, 1, 1]),
        ({"length": 3}, 3, [3, 4, 4], [1, 1, 0]),
        ({"length": 3, "episode_boundary": "stop"}, 3, [2, 3, 4], [1, 1, 1]),
        ({"length": 6, "episode_boundary": "stop"}, 3, [0, 1, 2, 3, 4, 4], [1, 1, 1, 1, 1, 0]),
        ({"length": 3, "episode_boundary": "include_reset"}, 4, [4, 5, 6], [1, 1, 1]),
        ({"length": 3, "episode_boundary": "include_reset"}, 9, [9, 9, 9], [1, 0, 0]),
        ({"length": 2, "burn_in": 1, "bootstrap": 1}, 5, [5, 5, 6, 7], [0, 1, 1, 1]),
        ({"length": 3, "burn_in": 1, "bootstrap": 1, "episode_boundary": "stop"}, 4, [0, 1, 2, 3, 4], [1] * 5),
        ({"length": 3, "dilation": 2}, 0, [0, 2, 4], [1, 1, 1]),
        ({"length": 3, "dilation": 2}, 3, [3, 4, 4], [1, 0, 0]),
        ({"length": 3, "done_key": None}, 3, [3, 4, 5], [1, 1, 1]),
    ],
)
def test_windows_keep_to_their_episodes(options, anchor, places, valid):
    storage = episodes(10, [4, 9]).storage
    index, info = Sequence(**options).expand(torch.tensor([anchor]), {}, storage)
    assert index.tolist() == places
    assert info["validity_mask"].tolist() == [bool(each) for each in valid]
    assert set(info["anchor_index"].tolist()) == {anchor}
    burn_in, length = options.get("burn_in", 0), options["length"]
    assert info["learning_mask"].tolist() == [burn_in <= at < burn_in + length for at in range(len(places))]


def test_windows_do_not_cross_the_place_where_a_full_ring_begins_anew():
    storage = episodes(13, [], size=10).storage  # rows 3 to 9, then 0 to 2
    index, info = Sequence(4, burn_in=1).expand(torch.tensor([1, 3, 9]), {}, storage)
    assert index.tolist() == [0, 1, 2, 2, 2, 3, 3, 4, 5, 6, 8, 9, 0, 1, 2]
    assert info["validity_mask"].tolist() == [True, True, True, False, False, False] + [True] * 9


def test_several_lanes_have_windows_of_their_own():
    buffer = ReplayBuffer(storage=LazyTensorStorage(8, ndim=2))
    done = torch.zeros(2, 4, 1, dtype=torch.bool)
    done[1, 1] = True
    buffer.extend(TensorDict({"next": {"done": done}}, [2, 4]))
    index, _ = Sequence(3).expand((torch.tensor([0, 0]), torch.tensor([0, 1])), {}, buffer.storage)
    time, lane = (each.reshape(2, 3).tolist() for each in index)
    assert lane == [[0, 0, 0], [1, 1, 1]]
    assert time == [[0, 1, 2], [0, 1, 1]]  # an episode of the second lane ends after two steps


def test_a_batch_of_windows_says_what_its_steps_are():
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(10), sample_unit=Sequence(3), batch_size=5, sampler=PrioritizedSampler(10, 1.0, 1.0)
    )
    done = torch.zeros(10, 1, dtype=torch.bool)
    done[4] = True
    buffer.extend(TensorDict({"obs": torch.arange(10), "next": {"done": done}}, [10]))
    batch = buffer.sample()
    assert batch.shape == (15,)
    assert (batch["obs"] == batch["index"]).all()
    assert batch["priority_weight"].shape == (15,)
    # Priorities of steps are those of their windows' anchors: the highest of what is there.
    batch["td_error"] = torch.where(batch["validity_mask"], batch["sequence_id"] + 1.0, torch.tensor(1e6))
    buffer.update_tensordict_priority(batch)
    tree = torch.as_tensor(buffer.sampler._sum_tree[torch.arange(10).numpy()])
    assert float(tree.max()) < 10
    last = {
        int(anchor): int(window) for anchor, window in zip(batch["anchor_index"], batch["sequence_id"], strict=True)
    }
    for anchor, window in last.items():
        assert abs(float(tree[anchor]) - (window + 1)) < 1e-3


def test_the_plain_unit_changes_nothing():
    index, info = torch.tensor([1, 2]), {"a": 1}
    assert Transition().expand(index, info, None) == (index, info)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, "length"),
        ({"length": 2, "burn_in": -1}, "burn_in"),
        ({"length": 2, "dilation": 0}, "dilation"),
        ({"length": 2, "episode_boundary": "cut"}, "episode_boundary"),
    ],
)
def test_windows_without_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Sequence(**options)


def test_windows_need_tensordicts_and_the_key_of_their_ends():
    numbers = ReplayBuffer(storage=ListStorage(4))
    numbers.extend([1, 2])
    with pytest.raises(TypeError, match="ListStorage"):
        Sequence(2).expand(torch.tensor([0]), {}, numbers.storage)
    with pytest.raises(KeyError, match="over"):
        Sequence(2, done_key="over").expand(torch.tensor([0]), {}, episodes(4, []).storage)


# Items that may be gone


@pytest.fixture(params=[LazyTensorStorage, LazyMemmapStorage])
def tracked(request):
    buffer = TensorDictReplayBuffer(
        storage=request.param(4), writer=TensorDictRoundRobinWriter(track_generations=True), batch_size=2
    )
    index = buffer.extend(TensorDict({"value": torch.zeros(4), "version": torch.zeros(4, dtype=torch.int64)}, [4]))
    return buffer, index, buffer.writer.generations_of(index)


def test_only_items_that_are_still_there_are_changed(tracked):
    buffer, index, generation = tracked
    buffer.extend(TensorDict({"value": torch.full((2,), 9.0), "version": torch.ones(2, dtype=torch.int64)}, [2]))
    result = buffer.update_if_present(index=index, generation=generation, patch={"value": torch.arange(4.0)})
    assert isinstance(result, ConditionalUpdateResult)
    assert result.updated.tolist() == [False, False, True, True]
    assert (result.updated_count, result.stale_count, result.version_rejected_count) == (2, 2, 0)
    assert buffer[:]["value"].tolist() == [9.0, 9.0, 2.0, 3.0]


def test_the_higher_version_counts(tracked):
    buffer, index, generation = tracked

    def update(version, newer=False, where=slice(None)):
        patch = {"value": torch.full((len(index[where]),), float(torch.as_tensor(version).max()))}
        found = buffer.update_if_present(
            index=index[where], generation=generation[where], patch=patch, version_key="version", version=version,
            require_newer=newer,
        )  # fmt: skip
        return found.updated.tolist()

    assert update(torch.tensor([0, 1, 2, 0])) == [True] * 4
    assert update(1, newer=True) == [True, False, False, True]
    assert buffer[:]["version"].tolist() == [1, 1, 2, 1]
    assert update(torch.tensor([9, 8]), where=torch.tensor([0, 0])) == [True, False]
    assert buffer[:]["version"].tolist() == [9, 1, 2, 1]


@pytest.mark.parametrize(
    ("patch", "options", "error", "message"),
    [
        ({"other": torch.zeros(4)}, {}, KeyError, "other"),
        ({"value": torch.zeros(3)}, {}, ValueError, r"expected \(4,\)"),
        ({"value": torch.zeros(4, dtype=torch.int64)}, {}, ValueError, "float32"),
        ({"value": torch.zeros(4)}, {"version": 1}, ValueError, "version_key"),
        ({"version": torch.zeros(4, dtype=torch.int64)}, {"version_key": "version", "version": 1}, ValueError, "patch"),
    ],
)
def test_a_patch_that_does_not_fit_changes_nothing(tracked, patch, options, error, message):
    buffer, index, generation = tracked
    with pytest.raises(error, match=message):
        buffer.update_if_present(index=index, generation=generation, patch=patch, **options)
    assert buffer[:]["value"].tolist() == [0.0] * 4


def test_updates_that_are_submitted_come_one_after_another(tracked):
    buffer, index, generation = tracked
    futures = [
        buffer.submit_update_if_present(
            index=index, generation=generation, patch={"value": torch.full((4,), float(at))}
        )
        for at in range(5)
    ]
    buffer.synchronize()
    assert all(future.done() and future.result().updated_count == 4 for future in futures)
    assert buffer[:]["value"].tolist() == [4.0] * 4
    buffer.submit_update_if_present(index=index, generation=generation, patch={"other": torch.zeros(4)})
    with pytest.raises(KeyError, match="other"):
        buffer.shutdown()
    assert not buffer.is_alive
    with pytest.raises(RuntimeError, match="shut down"):
        buffer.sample()


def test_generations_have_to_be_counted():
    buffer = episodes(4, [])
    with pytest.raises(RuntimeError, match="track_generations"):
        buffer.update_if_present(
            index=torch.tensor([0]), generation=torch.tensor([0]), patch={"obs": torch.tensor([1])}
        )


def test_entries_are_written_in_place(tracked):
    buffer, _, _ = tracked
    assert buffer.set_("value", torch.arange(4.0)) is buffer
    buffer.set_at_("value", torch.tensor([7.0, 8.0]), [0, 3])
    assert buffer.read_all_in_order()["value"].tolist() == [7.0, 1.0, 2.0, 8.0]
    buffer.update_({"value": torch.ones(4)}, keys_to_update=["version"])
    buffer.update_({"value": torch.ones(4)})
    assert buffer.read_all_in_order(2)["value"].tolist() == [1.0, 1.0]
    buffer.write_all(TensorDict({"value": torch.zeros(2), "version": torch.ones(2, dtype=torch.int64)}, [2]))
    assert buffer[:]["value"].tolist() == [0.0, 0.0, 1.0, 1.0]
    with pytest.raises(KeyError, match="other"):
        buffer.set_("other", torch.zeros(4))


# Episodes


def stored(count, size=12):
    """A ring of steps of counting environments."""
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(size))
    buffer.extend(CountingEnv(max_steps=3).rollout(count, break_when_any_done=False).contiguous())
    return buffer


@pytest.mark.parametrize("count", [4, 8, 12, 17])
def test_the_nested_form_leads_back(count, tmp_path):
    buffer = stored(count)
    forms = NestedStorageCheckpointer()
    nested = forms._flatten
    content = forms._to_write(buffer.storage)
    assert forms._to_load(content).keys(True, True) is not None
    flat = nested(buffer.storage._storage)
    lengths = flat["reward"].offsets().diff()
    assert int(lengths.sum()) == min(count, 12)
    assert (flat["observation"].offsets().diff() == lengths + 1).all()
    restored = Nested2TED()(flat)
    taken = min(count, 12)
    for key in ("observation", ("next", "observation"), ("next", "reward"), ("next", "done"), "action"):
        assert torch.equal(restored[key][:taken], buffer.storage._storage[key][:taken]), key
    combined = H5Combine()(H5Split()(flat))
    assert torch.equal(combined["observation"].values(), flat["observation"].values())
    assert torch.equal(combined["observation"].offsets(), flat["observation"].offsets())


@pytest.mark.parametrize("count", [4, 12, 17])
def test_a_nested_checkpoint_leads_back_and_takes_no_more_than_there_is(count, tmp_path):
    buffer = stored(count)
    buffer.storage.checkpointer = NestedStorageCheckpointer()
    buffer.dumps(tmp_path / "saved")
    other = stored(2)
    other.storage.checkpointer = NestedStorageCheckpointer()
    other.loads(tmp_path / "saved")
    assert len(other) == len(buffer)
    for key in ("observation", ("next", "observation"), ("next", "reward"), "action"):
        assert torch.equal(other[:][key], buffer[:][key]), key


def test_the_nested_form_can_lie_in_files(tmp_path):
    buffer = stored(8)
    form = TED2Nested()
    form.is_full, form.shift = False, 8
    nested = form(buffer.storage._storage, path=tmp_path)
    assert (tmp_path / "observation.memmap").stat().st_size == nested["observation"].values().nbytes


# Elsewhere


class Server(dict):
    """A double of TensorDictStore with its interface; the real one is tested where a server is installed."""

    def __init__(self, batch_size, **place):
        super().__init__()
        self.batch_size, self.place = torch.Size(batch_size), place

    def set(self, key, value):
        self[key] = value.clone()

    def set_at_(self, key, value, index):
        dict.__getitem__(self, key)[index] = value

    def __getitem__(self, index):
        return TensorDict({key: value[index] for key, value in self.items()}, [len(torch.arange(9)[index])])


def test_a_storage_on_a_server_fetches_the_rows_that_are_drawn(monkeypatch):
    import flambeau.data.tensordict.store as store

    monkeypatch.setattr(store, "TensorDictStore", Server)
    buffer = TensorDictReplayBuffer(storage=StoreStorage(9, host="there", db=3), batch_size=4)
    assert buffer.extend(TensorDict({"value": torch.arange(6)}, [6])).tolist() == list(range(6))
    assert int(buffer.add(TensorDict({"value": torch.tensor(6)}))) == 6
    assert buffer.storage._store.place["host"] == "there"
    batch = buffer.sample()
    assert (batch["value"] == batch["index"]).all()
    assert len(buffer) == 7
    assert int(buffer.storage.get(3)["value"]) == 3
    with pytest.raises(IndexError, match="7 places"):
        buffer.storage.get(8)
    with pytest.raises(TypeError, match="tensordicts"):
        buffer.storage.set(0, torch.zeros(2))
    other = StoreStorage(9)
    other.load_state_dict(buffer.storage.state_dict())
    assert other.get(range(7))["value"].tolist() == list(range(7))
