"""`PersistentTensorDict`: tensordicts in HDF5 files and Zarr stores."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys

import pytest
import torch

from flambeau.data.tensordict import (
    NonTensorData,
    NonTensorStack,
    PersistentTensorDict,
    TensorDict,
    TensorDictParams,
    merge_tensordicts,
    tensorclass,
)
from flambeau.data.tensordict.memmap.errors import ReadOnlyError

h5py = pytest.importorskip("h5py")


@tensorclass
class Pair:
    a: torch.Tensor


def sample() -> TensorDict:
    return TensorDict(
        {
            "z": torch.arange(24.0).reshape(4, 3, 2),
            "n": {"b": torch.arange(4), "deep": {"c/d": torch.ones(4).bfloat16()}},
            "flag": torch.tensor([True, False, True, False]),
            "complex": torch.complex(torch.ones(4), torch.zeros(4)),
            "s": "text",
            "stack": NonTensorStack("p", "q", "r", "s"),
            "number": NonTensorData(1 + 2j, batch_size=[4]),
        },
        batch_size=[4],
    )


@pytest.fixture(params=["h5", "zarr"])
def stored(request, tmp_path):
    if request.param == "zarr":
        pytest.importorskip("zarr")
    return PersistentTensorDict.from_dict(sample(), filename=tmp_path / f"x.{request.param}", backend=request.param)


def test_every_kind_of_entry_comes_back(stored):
    assert (stored.to_tensordict() == sample()).all()
    assert stored["n", "deep", "c/d"].dtype is torch.bfloat16
    assert stored["s"] == "text" and list(stored["stack"]) == ["p", "q", "r", "s"] and stored["number"] == 1 + 2j


def test_keys_keep_their_order_and_tell_without_reading_what_is_a_leaf(stored):
    assert list(stored.keys()) == ["z", "n", "flag", "complex", "s", "stack", "number"]
    assert set(stored.keys(True, True)) == {"z", ("n", "b"), ("n", "deep", "c/d"), "flag", "complex"}
    assert ("n", "deep", "c/d") in stored and ("n", "x") not in stored
    assert stored.entry_class(("n", "deep")) is PersistentTensorDict and stored.entry_class("z") is torch.Tensor


@pytest.mark.parametrize(
    "index",
    [
        0,
        -1,
        slice(1, 3),
        slice(None, None, 2),
        [2, 0, 2],
        torch.tensor([3, 1]),
        torch.tensor([True, False, True, False]),
        None,
        ...,
        range(2),
    ],
)
def test_an_index_reads_what_it_would_select_in_memory(stored, index):
    assert (stored[index] == sample()[index]).all()
    assert torch.equal(stored.get_at("z", index), sample()["z"][index])


def test_writes_reach_the_file(tmp_path):
    stored = PersistentTensorDict.from_dict(sample(), filename=tmp_path / "x.h5")
    stored["new", "entry"] = torch.full((4, 2), 7)
    stored["z"] = torch.zeros(4, 3, 2)
    stored[1] = stored[0].apply(lambda x: x + 1 if x.is_floating_point() else x)
    stored[torch.tensor([2, 3])] = TensorDict({"n": {"b": torch.tensor([20, 30])}}, batch_size=[2])
    stored.set_at_("flag", True, slice(0, 2))
    del stored["complex"]
    stored.rename_key_("s", "renamed")
    stored.close()
    again = PersistentTensorDict.from_h5(tmp_path / "x.h5")
    assert again.batch_size == (4,)
    assert again["new", "entry"].unique().item() == 7
    assert again["z"][:, 0, 0].tolist() == [0, 1, 0, 0]
    assert again["n", "b"].tolist() == [0, 0, 20, 30]
    assert again["flag"].tolist() == [True, True, True, False]
    assert "complex" not in again and again["renamed"] == "text"


def test_whether_an_entry_is_there_and_writing_a_row_of_it_read_no_data(stored, monkeypatch):
    monkeypatch.setattr(PersistentTensorDict, "_read_item", lambda self, item, index: pytest.fail("data were read"))

    assert "z" in stored and ("n", "b") in stored and "absent" not in stored
    assert stored.entry_class("z") is torch.Tensor
    stored.set_at_("z", torch.full((3, 2), 7.0), 1)
    stored.set_at_(("n", "b"), 5, -1)

    monkeypatch.undo()
    assert stored["z"][1].eq(7).all()
    assert stored["n", "b"].tolist() == [0, 1, 2, 5]


def test_in_place_operations_are_written_back(stored):
    stored.select("z", inplace=False)
    stored.zero_()
    assert stored["z"].sum() == 0 and stored["n", "b"].sum() == 0
    stored.fill_("z", 2)
    stored.apply_(lambda x: x.add_(1) if x.is_floating_point() else x)
    assert stored["z"].unique().item() == 3


def test_operations_give_tensordicts_in_memory(stored):
    floats = stored.select("z", "n")
    assert (torch.stack([floats, floats]).batch_size) == (2, 4)
    assert type(stored.reshape(2, 2)) is TensorDict is type(stored[0].to_tensordict())


def test_indexing_reads_an_entry_when_it_is_used_and_writes_reach_the_file(stored):
    part = stored[1:3]
    assert part.batch_size == (2,)
    part["z"] = torch.full_like(part["z"], 7)
    assert (stored["z"][1:3] == 7).all() and not (stored["z"][0] == 7).any()
    stored["z"] = torch.zeros_like(stored["z"])
    assert (part["z"] == 0).all()


def test_a_loader_reads_its_batches_into_memory(stored):
    loader = torch.utils.data.DataLoader(stored, batch_size=3)
    assert [(type(batch), len(batch)) for batch in loader] == [(TensorDict, 3), (TensorDict, 1)]


def test_a_file_opened_for_reading_refuses_writes_with_the_remedy(tmp_path):
    PersistentTensorDict.from_dict(sample(), filename=tmp_path / "x.h5").close()
    stored = TensorDict.from_h5(tmp_path / "x.h5")
    with pytest.raises(ReadOnlyError, match=r'mode="r\+"'):
        stored["z"] = torch.zeros(4, 3, 2)


def test_a_locked_one_refuses_new_entries_and_takes_in_place_ones(stored):
    stored.lock_()
    with pytest.raises(RuntimeError, match="locked"):
        stored["new"] = torch.zeros(4)
    stored.set_("z", torch.ones(4, 3, 2))
    assert stored["z"].sum() == 24


def test_shapes_are_checked_against_the_batch_size(tmp_path):
    stored = PersistentTensorDict(filename=tmp_path / "x.h5", mode="w", batch_size=[4])
    with pytest.raises(RuntimeError, match=r"begin with the batch size \[4\]"):
        stored["a"] = torch.zeros(3)
    stored["a"] = torch.zeros(4)
    stored.close()
    with pytest.raises(RuntimeError, match=r"'a' has shape \[4\]"):
        PersistentTensorDict(filename=tmp_path / "x.h5", batch_size=[5])


def test_files_of_other_programs_are_read(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["group/data"] = torch.arange(6).reshape(3, 2).numpy()
        file["name"] = "written by h5py"
    stored = TensorDict.from_h5(tmp_path / "x.h5", batch_size=[])
    assert stored["group", "data"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert stored["name"] == "written by h5py"


def test_another_process_reads_what_a_pickle_names(tmp_path):
    stored = PersistentTensorDict.from_dict(sample().exclude("number"), filename=tmp_path / "x.h5")
    data = pickle.dumps(stored)
    stored.close()
    assert len(data) < 2000
    code = "import pickle, sys; td = pickle.load(sys.stdin.buffer); print(int(td['n', 'b'].sum()), list(td.batch_size))"
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True)
    assert done.stdout.split(b" ", 1) == [b"6", b"[4]\n"], done.stderr.decode()


def test_datasets_take_the_options_of_h5py(tmp_path):
    stored = sample().to_h5(tmp_path / "x.h5", compression="gzip")
    stored.close()
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["z"].compression == "gzip"
    assert TensorDict.from_h5(tmp_path / "x.h5").memmap(tmp_path / "map")["z"].sum() == 276


def test_a_schema_makes_room_for_data_that_come_later(tmp_path):
    stored = TensorDict.from_schema(
        {"obs": ([2], torch.uint8), ("next", "reward"): ([], torch.float32)},
        batch_size=[5],
        storage="h5",
        filename=tmp_path / "x.h5",
    )
    stored[2] = TensorDict({"obs": torch.ones(2, dtype=torch.uint8), "next": {"reward": torch.tensor(0.5)}})
    assert stored["obs"].tolist() == [[0, 0], [0, 0], [1, 1], [0, 0], [0, 0]] and stored["next", "reward"][2] == 0.5


def test_another_device_leaves_the_tensordict_as_it_was(stored):
    elsewhere = stored.to("meta")
    assert elsewhere["z"].device.type == "meta" and type(elsewhere) is PersistentTensorDict
    assert stored.device is None and stored["z"].device.type == "cpu"


def test_arithmetic_with_what_is_stored(stored):
    floats = stored.select("z")
    assert ((floats + stored.select("z"))["z"] == 2 * stored["z"]).all()
    assert len(stored.chunk(2)) == 2


def test_a_file_of_another_program_has_the_batch_size_that_its_entries_share(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"] = torch.zeros(3, 2, 4).numpy()
        file["n/b"] = torch.zeros(3, 2).numpy()
    assert PersistentTensorDict.from_h5(tmp_path / "x.h5").batch_size == (3, 2)
    assert PersistentTensorDict.from_h5(tmp_path / "x.h5", batch_size=[3]).batch_size == (3,)
    assert PersistentTensorDict(filename=tmp_path / "x.h5").batch_size == ()


def test_nested_groups_of_other_programs_have_the_batch_size_that_their_entries_share(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"] = torch.zeros(3, 2).numpy()
        file["n/deep/b"] = torch.zeros(3, 2, 4).numpy()
    td = TensorDict.from_h5(tmp_path / "x.h5")
    assert (td.batch_size, td["n"].batch_size, td["n", "deep"].batch_size) == ((3, 2), (3, 2, 4), (3, 2, 4))
    given = TensorDict.from_h5(tmp_path / "x.h5", batch_size=[3])
    assert given["n", "deep"].batch_size == (3,)


def test_auto_batch_size_asks_the_entries_and_not_the_file(tmp_path):
    TensorDict({"a": torch.zeros(3, 2), "n": {"b": torch.zeros(3, 2, 4)}}).to_h5(tmp_path / "x.h5").close()
    assert TensorDict.from_h5(tmp_path / "x.h5").batch_size == ()
    found = TensorDict.from_h5(tmp_path / "x.h5", auto_batch_size=True)
    assert found.batch_size == (3, 2) and found["n"].batch_size == (3, 2, 4)


def test_another_batch_size_leaves_those_of_nested_collections(stored):
    stored["m"] = TensorDict({"x": torch.zeros(4, 2)}, batch_size=[4])
    stored.batch_size = []
    assert stored["m"].batch_size == (4,)
    resized = stored.to(batch_size=[4])
    assert type(resized) is PersistentTensorDict and (resized.batch_size, stored.batch_size) == ((4,), ())


def test_a_clone_has_a_file_of_its_own_that_goes_with_it(stored):
    copied = stored.clone()
    where = copied._filename
    copied["z"] = torch.zeros(4, 3, 2)
    assert type(copied) is PersistentTensorDict and stored["z"].sum() > 0 and os.path.exists(where)
    assert list(copied.keys(True)) == list(stored.keys(True))
    del copied
    gc.collect()
    assert not os.path.exists(where)


def test_a_shallow_copy_is_another_view_of_the_file(stored):
    copied = stored.lock_().copy()
    copied["new"] = torch.ones(4)
    assert not copied.is_locked and "new" in stored
    named = stored.rename("time")
    assert type(named) is PersistentTensorDict and (named.names, stored.names) == (["time"], [None])


@pytest.mark.parametrize(
    "change",
    [
        lambda td: td.replace(z=torch.zeros(4, 3, 2)),
        lambda td: td.split_keys(["z"]),
        lambda td: td.split_keys([("n", "b")]),
        lambda td: td.unflatten_keys("l"),
        lambda td: td.flatten_keys("."),
        lambda td: td.exclude(("n", "b")),
        lambda td: td.exclude().set(("n", "b"), torch.zeros(4)),
        lambda td: merge_tensordicts(td, TensorDict({"new": torch.ones(4)}, batch_size=[4])),
        lambda td: TensorDictParams(td.select("z")),
        lambda td: copy.deepcopy(td).zero_(),
    ],
)
def test_what_gives_another_tensordict_leaves_the_file_as_it_is(stored, change):
    before = stored.to_tensordict()
    change(stored)
    assert list(stored.keys(True)) and set(stored.keys(True)) == set(before.keys(True) | {("n", "deep"), "n"})
    assert (stored.to_tensordict() == before).all()


def test_a_nested_collection_is_unlocked_through_the_whole(stored):
    stored.lock_()
    with pytest.raises(RuntimeError, match="unlock the one that holds it"):
        stored["n", "deep"].unlock_()
    assert not stored.unlock_()["n"].is_locked


def test_an_entry_that_is_replaced_keeps_its_place(stored):
    stored["z"] = torch.zeros(4, dtype=torch.int16)
    stored["flag"] = "text"
    assert list(stored.keys()) == ["z", "n", "flag", "complex", "s", "stack", "number"]


def test_an_entry_that_is_written_in_place_keeps_its_shape_and_dtype(stored):
    stored.set_(("n", "b"), torch.tensor([1.5, 2.5, 3.5, 4.5]))
    assert stored["n", "b"].tolist() == [1, 2, 3, 4]
    stored.set("z", torch.ones(4, 1, 1), inplace=True)
    assert stored["z"].shape == (4, 3, 2) and stored["z"].unique().item() == 1
    with pytest.raises(RuntimeError, match=r"'z' of shape \[4, 3, 2\] cannot take"):
        stored.set_("z", torch.ones(4, 2))


def test_text_is_not_written_into_a_part_of_a_tensor(stored):
    with pytest.raises(TypeError, match="'z' holds a tensor"):
        stored.set_at_("z", "text", 0)


def test_a_tensorclass_over_a_file_closes_it(tmp_path):
    td = Pair(torch.ones(2), batch_size=[2]).to_h5(tmp_path / "x.h5")
    td.close()
    assert TensorDict.from_h5(tmp_path / "x.h5")["a"].sum() == 2
