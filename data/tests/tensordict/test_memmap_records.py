"""Records in folders that only the tensordict library writes, and what is added to a folder that is there."""

from __future__ import annotations

import json

import pytest
import torch

from flambeau.data.tensordict import LazyStackedTensorDict, TensorDict
from flambeau.data.tensordict.memmap.errors import LayoutError


def part_of(whole: TensorDict, folder, index) -> None:
    """A sub-tensordict as the tensordict library saves it."""
    whole.memmap(folder / "_source")
    record = {"_type": "<class 'tensordict._td._SubTensorDict'>", "index": index}
    (folder / "meta.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("record", "index"),
    [
        (["tuple", [0]], 0),
        (["tuple", [["slice", {"start": 1, "stop": 3, "step": None}], 1]], (slice(1, 3), 1)),
        (["tuple", [["tensor", [2, 0], "cpu"]]], [2, 0]),
        (["tuple", [["tensor", [True, False, True], "cpu"]]], [True, False, True]),
        (["tuple", [["range", {"start": 0, "stop": 2, "step": 1}]]], range(2)),
        (["tuple", [None]], None),
    ],
)
def test_a_part_is_read_and_writes_reach_the_file(tmp_path, record, index):
    whole = TensorDict({"a": torch.arange(6.0).reshape(3, 2), "n": {"b": torch.ones(3, 2)}}, batch_size=[3, 2])
    part_of(whole, tmp_path, record)
    part = TensorDict.load_memmap(tmp_path)
    assert (part == whole[index]).all() and part.batch_size == whole[index].batch_size
    part["a"] = torch.zeros_like(part["a"])
    assert (TensorDict.load_memmap(tmp_path / "_source")["a"] == 0).sum() >= part["a"].numel()


@pytest.mark.parametrize("record", [["tuple", 3], ["call", "x"], ["slice", {}], {}, ["tensor", ["x"]]])
def test_a_record_of_no_index_is_refused(tmp_path, record):
    part_of(TensorDict(a=torch.ones(3), batch_size=[3]), tmp_path, record)
    with pytest.raises(LayoutError, match="index"):
        TensorDict.load_memmap(tmp_path)


def test_a_folder_made_of_an_hdf5_file_is_a_tensordict(tmp_path):
    TensorDict({"a": torch.ones(3)}).memmap(tmp_path)
    meta = json.loads((tmp_path / "meta.json").read_text())
    meta["_type"] = "<class 'tensordict.persistent.PersistentTensorDict'>"
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    assert type(TensorDict.load_memmap(tmp_path)) is TensorDict


def test_the_content_of_a_storage_that_maps_no_file_is_written_to_the_entrys_file(tmp_path):
    td = TensorDict({"a": torch.ones(3)}, batch_size=[3]).memmap_(tmp_path)
    td.make_memmap_from_storage("new", torch.arange(3.0).untyped_storage(), (3,))
    td["new"].add_(1)
    assert TensorDict.load_memmap(tmp_path)["new"].tolist() == [1, 2, 3]


def test_a_nested_entry_is_added_below_one_that_is_memory_mapped_as_well(tmp_path):
    td = TensorDict({"a": torch.ones(3)}, batch_size=[3]).memmap_(tmp_path)
    td.make_memmap(("n", "new"), (3,))
    assert td["n"].is_memmap() and td["n"].is_locked


@pytest.mark.parametrize("key", ["new", ("n", "new")])
def test_no_entry_is_added_to_a_saved_lazy_stack(tmp_path, key):
    stack = LazyStackedTensorDict(*(TensorDict({"n": {"a": torch.ones(2)}}) for _ in range(2))).memmap(tmp_path)
    with pytest.raises(RuntimeError, match="lazy stack"):
        stack.make_memmap(key, (2,))


def test_a_refreshed_one_stays_memory_mapped(tmp_path):
    td = TensorDict({"a": torch.ones(3), "n": {"b": torch.ones(3)}}).memmap_(tmp_path)
    TensorDict.load_memmap(tmp_path)["a"].zero_()
    assert td.memmap_refresh_() is td and td.is_memmap() and td["n"].is_memmap() and td["a"].sum() == 0
    with pytest.raises(RuntimeError, match="memmap_"):
        TensorDict({"a": torch.ones(3)}).memmap_refresh_()


def test_what_is_in_shared_memory_is_not_copied_again():
    td = TensorDict({"a": torch.ones(3)}).memmap()
    td.memmap()["a"].zero_()
    assert td["a"].sum() == 0


def test_values_are_where_their_collection_is(tmp_path):
    saved = TensorDict({"s": "text", "o": 1j}).memmap(tmp_path)
    assert saved.get("s").is_memmap() and saved.get("o").is_memmap()
    loaded = TensorDict.load_memmap(tmp_path)
    assert loaded.get("s").device == torch.device("cpu") and not loaded.get("s").is_memmap()


def test_what_is_loaded_or_made_of_an_archive_is_not_locked(tmp_path):
    saved = TensorDict({"a": torch.ones(3)}).memmap(tmp_path / "x.tdz")
    saved["new"] = torch.ones(2)
    assert not TensorDict.load_memmap(tmp_path / "x.tdz").is_locked
