"""Saving tensordicts to folders and archives, and loading them."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import os
import pickle
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from flambeau.core.errors import UnsafeArchiveError
from flambeau.core.tensors import TypedTensor, tensor_type
from flambeau.data.tensordict import (
    LazyStackedTensorDict,
    MemoryMappedTensor,
    NonTensorData,
    NonTensorStack,
    TensorClass,
    TensorDict,
    is_memmap_archive,
    pack_memmap,
    refresh_archive_checksums,
    unpack_memmap,
)
from flambeau.data.tensordict.memmap import parallel
from flambeau.data.tensordict.memmap.errors import LayoutError, ReadOnlyError, TruncatedFileError, UnsafePickleError
from flambeau.data.tensordict.memmap.pickles import set_allow_pickle


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Plain:
    x: int


class Sample(TensorClass):
    image: torch.Tensor
    label: str = "?"
    extra: torch.Tensor | None = None


@tensor_type(name="memmap_test_wave", fields={"rate": int}, shape="... time", index="keep")
class StoredWave(TypedTensor):
    pass


def sample() -> TensorDict:
    data = {"a": torch.arange(12.0).reshape(4, 3), "n": {"b": torch.arange(4), "c/d": torch.ones(4)}, "s": "text"}
    return TensorDict(data, batch_size=[4])


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


# --- folders


def test_a_folder_written_by_the_other_library_is_read(tmp_path):
    # As that library writes it, byte for byte.
    nested = tmp_path / "b"
    nested.mkdir()
    leaf = '{"device":"cpu","shape":[2],"dtype":"torch.int64","is_nested":false}'
    rest = '"shape":[2],"device":"cpu","_type":"<class \'tensordict._td.TensorDict\'>"'
    (tmp_path / "meta.json").write_text(
        f'{{"x/y":{leaf},"b":{{"type":"TensorDict"}},"o":{{"type":"NonTensorData"}},{rest}}}'
    )
    (tmp_path / "x%2Fy.memmap").write_bytes(b"\1" + bytes(7) + b"\2" + bytes(7))
    (nested / "meta.json").write_text(f'{{"q":{leaf},{rest}}}')
    (nested / "q.memmap").write_bytes(bytes(16))
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "meta.json").write_text(
        '{"_type":"<class \'tensordict.tensorclass.NonTensorData\'>","_is_non_tensor":true,"_metadata":null}'
    )
    (tmp_path / "o" / "other.pickle").write_bytes(pickle.dumps({"data": {1, 2}}))
    td = TensorDict.load_memmap(tmp_path)
    assert td["x/y"].tolist() == [1, 2] and td["b", "q"].tolist() == [0, 0] and td["o"] == {1, 2}
    assert td.batch_size == (2,)


@pytest.mark.parametrize("num_threads", [0, 1, 3])
def test_what_is_saved_is_loaded(tmp_path, num_threads):
    saved = sample().memmap(tmp_path, num_threads=num_threads)
    loaded = TensorDict.load_memmap(tmp_path)
    assert (saved == sample()).all() and (loaded == sample()).all()
    assert list(loaded.keys(True)) == list(sample().keys(True))
    assert isinstance(loaded["a"], MemoryMappedTensor) and saved.is_memmap() and saved.is_locked
    assert saved.saved_path == loaded.saved_path == tmp_path


def test_large_tensors_are_cut_and_written_by_several_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "CHUNK_BYTES", 1000)
    data = {
        "flat": torch.arange(5000),
        "strided": torch.arange(6000.0).reshape(20, 300).T,
        "deep": torch.rand(3, 500, 4).transpose(0, 1),
    }
    TensorDict(data).memmap(tmp_path, num_threads=4)
    loaded = TensorDict.load_memmap(tmp_path)
    assert all(torch.equal(loaded[key], value) for key, value in data.items())


def test_a_future_gives_the_tensordict_or_the_error(tmp_path):
    future = sample().memmap(tmp_path, num_threads=2, return_early=True)
    assert future.result()["a"].sum() == 66 and future.done()
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        sample().memmap(tmp_path / "file" / "below", num_threads=2, return_early=True).result()
    with pytest.raises(ValueError, match="num_threads > 0"):
        sample().memmap(tmp_path, return_early=True)


def test_parts_load_alone(tmp_path):
    sample().memmap(tmp_path)
    assert TensorDict.load_memmap(tmp_path / "n")["b"].tolist() == [0, 1, 2, 3]
    assert TensorDict.load_memmap(tmp_path, subpath="n")["b"].tolist() == [0, 1, 2, 3]


def test_names_and_keys_that_are_words_of_the_layout_come_back(tmp_path):
    data = {key: torch.ones(2) * index for index, key in enumerate(["shape", "x", "_type", "device", "_flambeau"])}
    TensorDict(data, batch_size=[2], names=["time"]).memmap(tmp_path)
    loaded = TensorDict.load_memmap(tmp_path)
    assert list(loaded.keys()) == list(data) and loaded.names == ["time"]
    assert loaded["_type"].tolist() == [2, 2]


def test_keys_that_need_the_same_file_are_refused(tmp_path):
    clash = TensorDict({"a": torch.zeros(1), "a.memmap": {"x": torch.zeros(1)}})
    with pytest.raises(ValueError, match=r"needs the file a\.memmap"):
        clash.memmap(tmp_path)


def test_every_kind_of_collection_comes_back(tmp_path):
    stack = LazyStackedTensorDict(TensorDict(a=torch.ones(2)), TensorDict(a=torch.zeros(3)))
    ragged = torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(1, 3)], layout=torch.jagged)
    td = TensorDict(
        {
            "stack": stack,
            "sample": Sample(torch.ones(2, 5), batch_size=[2]),
            "empty": {},
            "zero": torch.zeros(2, 0),
            "j": ragged,
        },
        batch_size=[2],
    )
    td.memmap(tmp_path)
    loaded = TensorDict.load_memmap(tmp_path)
    assert loaded["stack"][1]["a"].shape == (3,)
    assert type(loaded["sample"]) is Sample and loaded["sample"].label == "?" and loaded["sample"].extra is None
    assert loaded["empty"].is_empty() and loaded["zero"].shape == (2, 0)
    assert loaded["j"].layout is torch.jagged and [part.shape[0] for part in loaded["j"].unbind()] == [2, 1]


def test_registered_tensor_types_are_stored_and_mapped(tmp_path):
    td = TensorDict({"w": StoredWave(torch.arange(6.0).reshape(2, 3), rate=16000)}, batch_size=[2])
    mapped = td.memmap(tmp_path / "d")
    td.memmap(tmp_path / "x.tdz")
    shared, one = td.memmap(), td.consolidate(tmp_path / "c")
    for found in (
        mapped,
        shared,
        one,
        TensorDict.load_memmap(tmp_path / "d"),
        TensorDict.load_memmap(tmp_path / "x.tdz"),
        TensorDict.from_consolidated(tmp_path / "c"),
    ):
        assert type(found["w"]) is StoredWave and found["w"].rate == 16000
        assert torch.equal(found["w"].as_subclass(torch.Tensor), torch.arange(6.0).reshape(2, 3))
    mapped["w"].as_subclass(torch.Tensor).zero_()
    assert TensorDict.load_memmap(tmp_path / "d")["w"].as_subclass(torch.Tensor).sum() == 0


def test_memmap_in_place_exchanges_the_tensors_and_memmap_like_their_content(tmp_path):
    td = sample()
    assert td.memmap_(tmp_path / "a") is td and isinstance(td["n", "b"], MemoryMappedTensor) and td.is_locked
    like = sample().memmap_like(tmp_path / "b")
    assert like["a"].sum() == 0 and like["s"] == "text"
    like["a"][1] = 5
    assert TensorDict.load_memmap(tmp_path / "b")["a"].sum() == 15


def test_shared_memory_needs_no_folder_and_one_descriptor():
    before = len(os.listdir("/proc/self/fd"))
    shared = TensorDict({str(index): torch.full((3,), index) for index in range(50)}).memmap()
    assert len(os.listdir("/proc/self/fd")) - before == 1
    assert shared["49"].tolist() == [49] * 3 and shared.is_memmap()
    with pytest.raises(AttributeError, match="not saved"):
        _ = shared.saved_path


def test_entries_are_added_to_a_saved_tensordict_and_seen_by_others(tmp_path):
    td = sample().memmap_(tmp_path)
    other = TensorDict.load_memmap(tmp_path)
    td.make_memmap(("new", "deep"), (4, 2), dtype=torch.int16).fill_(3)
    td.make_memmap_from_tensor("copied", torch.ones(4))
    assert td["new", "deep"].sum() == 24
    other.memmap_refresh_()
    assert other["new", "deep"].sum() == 24 and other["copied"].sum() == 4
    with pytest.raises(RuntimeError, match="begin with the batch size"):
        td.make_memmap("bad", (3,))
    with pytest.raises(RuntimeError, match="memmap_"):
        sample().make_memmap("x", (4,))


def test_loading_into_a_tensordict_replaces_entries_and_removes_others(tmp_path):
    sample().memmap(tmp_path)
    out = TensorDict({"a": torch.zeros(4, 3), "gone": torch.zeros(4), "n": {"b": torch.zeros(4)}}, batch_size=[4])
    nested = out["n"]
    assert TensorDict.load_memmap(tmp_path, out=out) is out
    assert set(out.keys()) == {"a", "n", "s"} and out["n"] is nested and out["n", "b"].tolist() == [0, 1, 2, 3]


def test_loading_on_the_meta_device_opens_no_leaf(tmp_path):
    sample().memmap(tmp_path)
    (tmp_path / "a.memmap").unlink()
    loaded = TensorDict.load_memmap(tmp_path, device="meta")
    assert loaded["a"].is_meta and loaded["a"].shape == (4, 3)


def test_a_saved_tensordict_is_saved_elsewhere_only_on_request(tmp_path):
    td = sample().memmap(tmp_path / "1")
    with pytest.raises(RuntimeError, match="copy_existing=True"):
        td.memmap(tmp_path / "2")
    td.memmap(tmp_path / "2", copy_existing=True)["a"].zero_()
    td.memmap(tmp_path / "1")  # its own folder needs no copy
    assert TensorDict.load_memmap(tmp_path / "1")["a"].sum() == 66
    with pytest.raises(RuntimeError, match="existsok is False"):
        sample().memmap(tmp_path / "1", existsok=False)


# --- values that are no tensors

VALUES = [
    *(None, True, 3, 2**70, 1.5, float("inf"), "é\ud800", [1, "a"], (1, 2), {"a": 1}, {1: "a"}, {1, 2}, frozenset("x")),
    *(b"raw", complex(1, 2), datetime.timedelta(2), range(3), Path("/x"), torch.float16, [torch.ones(2)]),
    datetime.datetime(2024, 2, 3, tzinfo=datetime.UTC),
]


@pytest.mark.parametrize(
    "value",
    VALUES,
    ids=repr,
)
def test_values_come_back_with_their_types(tmp_path, value):
    TensorDict({"a": torch.zeros(2)}).set_non_tensor("v", value).memmap(tmp_path / "d")
    TensorDict({"a": torch.zeros(2)}).set_non_tensor("v", value).memmap(tmp_path / "x.tdz")
    for place in ("d", "x.tdz"):
        loaded = TensorDict.load_memmap(tmp_path / place)["v"]
        assert type(loaded) is type(value)
        assert str(loaded) == str(value) and (isinstance(value, list) or loaded == value)


def test_a_pickle_that_would_run_code_is_refused_and_says_how_to_allow_it(tmp_path):
    td = TensorDict().set_non_tensor("v", Color.RED).set_non_tensor("w", Plain(3))
    td.memmap(tmp_path)
    with pytest.raises(UnsafePickleError, match=r"Color, which is not known to be harmless.*allow_pickle=True"):
        TensorDict.load_memmap(tmp_path)
    assert TensorDict.load_memmap(tmp_path, allow_pickle=True)["w"] == Plain(3)
    with set_allow_pickle(True):
        assert TensorDict.load_memmap(tmp_path)["v"] is Color.RED
    with torch.serialization.safe_globals([Color, Plain]):
        assert TensorDict.load_memmap(tmp_path)["w"] == Plain(3)


def test_a_malicious_pickle_runs_nothing(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path}/owned",)

    TensorDict().set_non_tensor("v", b"x").memmap(tmp_path / "d")
    (tmp_path / "d" / "v" / "other.pickle").write_bytes(pickle.dumps({"data": Evil()}))
    with pytest.raises(UnsafePickleError, match="system"):
        TensorDict.load_memmap(tmp_path / "d")
    assert not (tmp_path / "owned").exists()
    with pytest.raises(UnsafePickleError, match="allow_pickle is False"):
        TensorDict.load_memmap(tmp_path / "d", allow_pickle=False)


def test_a_folder_does_not_import_modules(tmp_path):
    Sample(torch.ones(2)).memmap(tmp_path)
    meta = json.loads((tmp_path / "meta.json").read_text())
    (tmp_path / "meta.json").write_text(json.dumps({**meta, "_type": "<class 'antigravity.Sample'>"}))
    with pytest.raises(LayoutError, match="Import antigravity first"):
        TensorDict.load_memmap(tmp_path)


def test_a_folder_of_a_class_that_another_library_made_says_so(tmp_path, monkeypatch):
    Sample(torch.ones(2)).memmap(tmp_path)
    meta = json.loads((tmp_path / "meta.json").read_text())
    (tmp_path / "meta.json").write_text(json.dumps({**meta, "_type": "<class 'elsewhere.Sample'>"}))
    other = type("Sample", (), {"_is_tensorclass": True, "__module__": "elsewhere"})
    monkeypatch.setitem(sys.modules, "elsewhere", SimpleNamespace(Sample=other))
    with pytest.raises(LayoutError, match=r"elsewhere\.Sample, which is no tensorclass of this library"):
        TensorDict.load_memmap(tmp_path)


def test_a_value_that_cannot_be_pickled_is_named(tmp_path):
    with pytest.raises(TypeError, match="neither written as JSON nor pickled"):
        TensorDict().set_non_tensor("v", lambda: None).memmap(tmp_path)


def test_stacks_of_values_keep_their_shape(tmp_path):
    lists = NonTensorStack(NonTensorData(["x"]), NonTensorData(["y", "z"]))  # whose values are lists
    td = TensorDict({"s": NonTensorStack.from_list([["a", "b"], ["c", "d"]])}, batch_size=[2, 2])
    td.memmap(tmp_path / "1")
    TensorDict({"l": lists}, batch_size=[2]).memmap(tmp_path / "2")
    loaded = TensorDict.load_memmap(tmp_path / "1")
    assert loaded["s"] == [["a", "b"], ["c", "d"]] and loaded.get("s").batch_size == (2, 2)
    assert TensorDict.load_memmap(tmp_path / "2")["l"] == [["x"], ["y", "z"]]


# --- archives


def test_an_archive_holds_the_folder_and_is_mapped(tmp_path):
    sample().memmap(tmp_path / "x.tdz")
    sample().memmap(tmp_path / "d")
    assert is_memmap_archive(tmp_path / "x.tdz") and not is_memmap_archive(tmp_path / "d" / "meta.json")
    with zipfile.ZipFile(tmp_path / "x.tdz") as archive:
        assert sorted(archive.namelist()) == files(tmp_path / "d")
        assert archive.testzip() is None
    loaded = TensorDict.load_memmap(tmp_path / "x.tdz")
    assert (loaded == sample()).all()
    assert loaded["a"].data_ptr() % 64 == loaded["n", "b"].data_ptr() % 64 == 0
    assert loaded["a"].untyped_storage().data_ptr() == loaded["n", "b"].untyped_storage().data_ptr()
    assert TensorDict.load_memmap(tmp_path / "x.tdz", subpath=("n",))["c/d"].sum() == 4


def test_packing_and_unpacking_undo_each_other(tmp_path):
    sample().memmap(tmp_path / "d")
    pack_memmap(tmp_path / "d", tmp_path / "x.tdz")
    unpack_memmap(tmp_path / "x.tdz", tmp_path / "e")
    assert files(tmp_path / "d") == files(tmp_path / "e")
    assert all(
        (tmp_path / "d" / name).read_bytes() == (tmp_path / "e" / name).read_bytes() for name in files(tmp_path / "d")
    )
    with pytest.raises(ValueError, match="outside"):
        pack_memmap(tmp_path / "d", tmp_path / "d" / "x.tdz")


@pytest.mark.parametrize("compression", ["deflate", "bzip2", "lzma"])
def test_compressed_archives_load_by_copies(tmp_path, compression):
    sample().memmap(tmp_path / "x.tdz", compression=compression)
    assert (TensorDict.load_memmap(tmp_path / "x.tdz") == sample()).all()
    with pytest.raises(ReadOnlyError, match="compressed"):
        TensorDict.load_memmap(tmp_path / "x.tdz", mode="r+")


def test_an_archive_that_other_programs_packed_loads_by_copies(tmp_path):
    sample().memmap(tmp_path / "d")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in files(tmp_path / "d"):
            archive.write(tmp_path / "d" / name, name)
    assert (TensorDict.load_memmap(tmp_path / "x.zip") == sample()).all()


def test_writes_reach_an_archive_only_in_shared_mode(tmp_path):
    sample().memmap(tmp_path / "x.tdz")["a"].zero_()
    TensorDict.load_memmap(tmp_path / "x.tdz")["a"].zero_()
    assert TensorDict.load_memmap(tmp_path / "x.tdz")["a"].sum() == 66
    TensorDict.load_memmap(tmp_path / "x.tdz", mode="r+")["a"].zero_()
    assert TensorDict.load_memmap(tmp_path / "x.tdz")["a"].sum() == 0
    with zipfile.ZipFile(tmp_path / "x.tdz") as archive:
        assert archive.testzip() == "a.memmap"
    refresh_archive_checksums(tmp_path / "x.tdz")
    with zipfile.ZipFile(tmp_path / "x.tdz") as archive:
        assert archive.testzip() is None


def test_archives_cannot_leave_their_folder(tmp_path):
    sample().memmap(tmp_path / "d")
    with zipfile.ZipFile(tmp_path / "x.tdz", "w") as archive:
        archive.writestr("meta.json", "{}")
        archive.writestr("../outside", "x")
    with pytest.raises(UnsafeArchiveError, match="outside"):
        unpack_memmap(tmp_path / "x.tdz", tmp_path / "e")
    assert not (tmp_path / "outside").exists()


def test_damaged_archives_are_named(tmp_path):
    sample().memmap(tmp_path / "x.tdz")
    data = (tmp_path / "x.tdz").read_bytes()
    (tmp_path / "cut.tdz").write_bytes(data[: len(data) // 2])
    with pytest.raises(LayoutError, match=r"cut\.tdz is no archive"):
        TensorDict.load_memmap(tmp_path / "cut.tdz")
    with zipfile.ZipFile(tmp_path / "x.tdz") as whole, zipfile.ZipFile(tmp_path / "short.tdz", "w") as short:
        for name in whole.namelist():
            short.writestr(name, whole.read(name)[:40] if name == "a.memmap" else whole.read(name))
    with pytest.raises(TruncatedFileError, match=r"short\.tdz!a\.memmap holds 40 bytes"):
        TensorDict.load_memmap(tmp_path / "short.tdz")


# --- values changed in place


def stored_stack(folder) -> TensorDict:
    return torch.stack([TensorDict({"a": torch.zeros(3), "s": text}, [3]) for text in "xz"]).memmap(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda td: td.update({"n": {"s": "new"}}, inplace=True),
        lambda td: td.update_({"n": {"s": "new"}}),
        lambda td: td.set_(("n", "s"), "new"),
        lambda td: td["n"].update_(TensorDict({"s": "new"}, [3])),
        lambda td: td.get(("n", "s")).update("new", inplace=True),
        lambda td: pickle.loads(pickle.dumps(td)).set_(("n", "s"), "new"),
        lambda td: td._get_sub_tensordict(slice(None)).update_({"n": {"s": "new"}}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", ["old", {1, 2}])
def test_a_value_changed_in_place_is_changed_on_disk(tmp_path, change, before):
    td = TensorDict({"n": {"s": NonTensorData(before)}}, [3]).memmap(tmp_path)
    for mapped in (td, TensorDict.load_memmap(tmp_path)):
        mapped.set_(("n", "s"), NonTensorData(before))
        change(mapped)
        found = TensorDict.load_memmap(tmp_path)["n", "s"]
        assert found == "new" or found == ["new"] * 3


@pytest.mark.parametrize(
    "change",
    [
        lambda td: td.__setitem__(0, TensorDict({"a": torch.ones(3), "s": {1}}, [3])),
        lambda td: td["s"].__setitem__(0, {1}),
        lambda td: td.get("s").__setitem__(0, NonTensorData({1}, batch_size=[3])),
        lambda td: td.update_at_(TensorDict({"s": NonTensorData({1})}, [3]), 0),
        lambda td: td.set_at_("s", {1}, 0),
    ],
)  # fmt: skip
def test_values_of_a_stack_changed_in_place_are_changed_on_disk(tmp_path, change):
    td = stored_stack(tmp_path)
    change(td)
    for found in (td["s"], TensorDict.load_memmap(tmp_path)["s"]):
        assert found == [[{1}] * 3, ["z"] * 3]


def test_one_value_for_all_becomes_several_on_disk_as_it_does_here(tmp_path):
    td = TensorDict({"s": "x"}, [3]).memmap(tmp_path)
    td[1] = TensorDict({"s": "y"})
    td["s"][0] = "z"
    assert td["s"] == TensorDict.load_memmap(tmp_path)["s"] == ["z", "y", "x"]


def test_values_of_a_lazy_stack_changed_in_place_are_changed_on_disk(tmp_path):
    td = LazyStackedTensorDict(TensorDict({"s": "a"}, [2]), TensorDict({"s": "b"}, [2])).memmap(tmp_path)
    td.update({"s": "c"}, inplace=True)
    td["s"][1] = "d"
    assert TensorDict.load_memmap(tmp_path)["s"] == td["s"] == [["c", "c"], ["d", "d"]]


def test_what_was_saved_is_not_changed_by_its_copies(tmp_path):
    td = stored_stack(tmp_path)
    copy = td.clone()
    copy["s"][0] = "q"
    td.to_tensordict().set_("s", "q")
    TensorDict.load_memmap(tmp_path, mode="c")["s"][0] = "q"
    assert TensorDict.load_memmap(tmp_path)["s"] == [["x"] * 3, ["z"] * 3]


def test_values_loaded_for_reading_cannot_be_changed(tmp_path):
    stored_stack(tmp_path)
    td = TensorDict.load_memmap(tmp_path, mode="r")
    with pytest.raises(ReadOnlyError, match='mode="r"'):
        td["s"][0] = "q"
    assert td.get("s").tolist() == [["x"] * 3, ["z"] * 3]
    with pytest.raises(RuntimeError, match="locked"):
        TensorDict({"s": "x"}).memmap().get("s").data = "y"


# --- consolidated


def test_consolidation_puts_all_tensors_into_one_storage(tmp_path):
    td = TensorDict({"b": torch.ones(3, dtype=torch.uint8), "n": {"x": torch.arange(4)}, "s": "q", "a": torch.rand(5)})
    one = td.consolidate(num_threads=2)
    assert len({value.untyped_storage().data_ptr() for value in one.values(True, True)}) == 1
    assert (one == td).all() and list(one.keys()) == list(td.keys()) and one.is_consolidated() and one.is_locked
    again = pickle.loads(pickle.dumps(one))
    assert again.is_consolidated() and (again == td).all()
    assert one.consolidate() is one


def test_a_consolidated_tensordict_moves_as_one_and_stays_consolidated():
    td = TensorDict({"a": torch.ones(3, dtype=torch.uint8), "n": {"x": torch.arange(4)}, "s": "q"})
    moved = td.consolidate().to("meta")
    assert moved.is_consolidated() and moved.device.type == moved["n"].device.type == "meta"
    assert moved["n", "x"].dtype is torch.int64 and moved["s"] == "q"
    assert moved["a"].untyped_storage()._cdata == moved["n", "x"].untyped_storage()._cdata


def test_unlocked_a_tensordict_is_no_longer_taken_for_consolidated_or_mapped():
    td = TensorDict({"a": torch.ones(3)}).consolidate().unlock_()
    td["a"] = torch.zeros(3)
    assert not td.is_consolidated() and pickle.loads(pickle.dumps(td.lock_()))["a"].sum() == 0
    mapped = TensorDict({"a": torch.ones(3)}).memmap().unlock_()
    assert not mapped.is_memmap() and not mapped.lock_().is_memmap()


def test_a_consolidated_file_is_mapped_with_all_it_held(tmp_path):
    stack = LazyStackedTensorDict(TensorDict(a=torch.ones(2)), TensorDict(a=torch.zeros(3)))
    ragged = torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(1, 3)], layout=torch.jagged)
    td = TensorDict(
        {"stack": stack, "a": torch.ones(2, 3), "sample": Sample(torch.ones(2, 5), "l", batch_size=[2]), "j": ragged,
         "set": NonTensorData({1, 2}, batch_size=[2]), "st": NonTensorStack("x", "y")}, batch_size=[2], names=["t"],
    )  # fmt: skip
    td.consolidate(tmp_path / "one", num_threads=3)
    loaded = TensorDict.from_consolidated(tmp_path / "one")
    assert list(loaded.keys()) == list(td.keys()) and loaded.names == ["t"]
    assert loaded["stack"][1]["a"].shape == (3,) and type(loaded["sample"]) is Sample and loaded["sample"].label == "l"
    assert loaded["set"] == {1, 2} and list(loaded["st"]) == ["x", "y"]
    assert [part.shape[0] for part in loaded["j"].unbind()] == [2, 1]
    loaded["a"].zero_()
    assert TensorDict.from_consolidated(tmp_path / "one")["a"].sum() == 0


@pytest.mark.parametrize(
    "word", ["nested", "leaves", "cls", "cls_metadata", "non_tensors", "order", "tensor_types", "below", "0"]
)
def test_a_key_may_be_any_word_of_the_consolidated_format(tmp_path, word):
    td = TensorDict({"z": torch.ones(2), word: {"x": torch.arange(3), word: {"y": torch.ones(1)}}, "s": "q"})
    td.consolidate(tmp_path / "one")
    for read in (TensorDict.from_consolidated(tmp_path / "one"), pickle.loads(pickle.dumps(td.consolidate()))):
        assert (read == td).all() and list(read.keys(True)) == list(td.keys(True))
    moved = td.consolidate().to("meta")
    assert moved[word, word].device.type == "meta"


@pytest.mark.parametrize(
    "view",
    [
        lambda td: td.view(6),
        lambda td: td.unsqueeze(0),
        lambda td: td.transpose(0, 1),
        lambda td: td.expand(4, 3, 2),
        lambda td: td.narrow(0, 1, 2),
        lambda td: td.flatten(),
        lambda td: td.split(2)[1],
        lambda td: td.unbind(1)[1],
        lambda td: td[0],
        lambda td: td[:2, None],
    ],
)
def test_views_of_a_memory_mapped_one_are_memory_mapped_and_locked(tmp_path, view):
    td = TensorDict({"a": torch.rand(3, 2, 4), "n": {"c": torch.rand(3, 2)}, "s": "text"}, [3, 2])
    result = view(td.memmap(tmp_path / "td"))
    assert result.is_memmap() and result.is_locked and result["n"].is_memmap()
    assert (result == view(td)).all()
    result.zero_()
    assert not (TensorDict.load_memmap(tmp_path / "td")["a"] == td["a"]).all()
    result.unlock_()
    assert not result.is_memmap()


def test_every_operation_in_place_works_on_files(tmp_path):
    td = TensorDict({"a": torch.arange(4.0)}, [4]).memmap(tmp_path / "td")
    td.maximum_(1.0).minimum_(TensorDict({"a": torch.full((4,), 2.0)}, [4]))
    assert TensorDict.load_memmap(tmp_path / "td")["a"].tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize("copied", [lambda td: td.flip(0), lambda td: td.roll(1, 0), lambda td: td[[0, 1]]])
def test_copies_of_a_memory_mapped_one_are_not_memory_mapped(tmp_path, copied):
    td = TensorDict({"a": torch.rand(3, 2), "n": {"c": torch.rand(3, 2)}}, [3, 2]).memmap(tmp_path / "td")
    assert not copied(td).is_memmap() and not copied(td)["n"].is_memmap()


@pytest.mark.parametrize("key", ["<NJT>k", "<NT>k", "<NT_SIZES>k", "<NJT_VALUES>k", "<NJT_OFFSETS>k"])
def test_a_key_may_look_like_a_part_of_a_ragged_tensor(tmp_path, key):
    ragged = torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(1, 3)], layout=torch.jagged)
    td = TensorDict({key: torch.arange(3), "j": ragged, "n": {key: torch.ones(2)}})
    td.consolidate(tmp_path / "one")
    loaded = TensorDict.from_consolidated(tmp_path / "one")
    assert list(loaded.keys(True)) == list(td.keys(True))
    assert loaded[key].tolist() == [0, 1, 2] and loaded["n", key].tolist() == [1, 1]


def test_a_consolidated_file_that_was_cut_is_named(tmp_path):
    sample().consolidate(tmp_path / "one")
    os.truncate(tmp_path / "one", 100)
    with pytest.raises(LayoutError, match="cut short or is another file"):
        TensorDict.from_consolidated(tmp_path / "one")
    with pytest.raises(FileNotFoundError):
        TensorDict.from_consolidated(tmp_path / "two")
