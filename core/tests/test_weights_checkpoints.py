"""Reading checkpoint files: formats by content, mapped and private, and nothing in them is ever run."""

from __future__ import annotations

import collections
import io
import json
import os
import pickle
import struct
import tarfile
import warnings
import zipfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from flambeau.core.errors import CheckpointError, HubError, MissingCheckpointError, UnsafeCheckpointError
from flambeau.core.weights import Weights, WeightsEnum, load_state_dict
from flambeau.core.weights.checkpoints import VERSIONS_KEY, read_checkpoint, sniff

TENSORS = {
    "weight": torch.arange(12.0).reshape(3, 4),
    "bias": torch.tensor([1.0, -0.0, float("nan")]),
    "steps": torch.tensor(7),
    "half": torch.ones(2, dtype=torch.float16),
    "empty": torch.empty(0, 3),
}


def save_zip(content: Any, path: Path) -> None:
    torch.save(content, path)


def save_legacy(content: Any, path: Path) -> None:
    torch.save(content, path, _use_new_zipfile_serialization=False)


def save_safetensors(content: Any, path: Path) -> None:
    save_file(content, path)


def save_zip_in_zip(content: Any, path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/net.pth", buffer.getvalue())
        archive.writestr("__MACOSX/folder/._net.pth", b"resource fork")


WRITERS: dict[str, Callable[[Any, Path], None]] = {
    "torch": save_zip,
    "torch-legacy": save_legacy,
    "safetensors": save_safetensors,
    "torch-in-zip": save_zip_in_zip,
}
LEGACY_START = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
FORMATS = pytest.mark.parametrize("format", WRITERS)
PICKLED = pytest.mark.parametrize("format", ["torch", "torch-legacy", "torch-in-zip"])
MAPPED = pytest.mark.parametrize("format", ["torch", "safetensors"])


@pytest.fixture(autouse=True)
def _site(site: Any) -> None:
    """What is unpacked goes to the test's own cache, and names are looked up among no plugins."""


def same(a: Any, b: Any) -> bool:
    """Equal names in equal order, equal bits."""
    return list(a) == list(b) and all(
        a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and bits(a[k]) == bits(b[k]) for k in a
    )


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


class TestFormats:
    @FORMATS
    def test_the_content_tells_the_format_whatever_the_name_says(self, tmp_path: Path, format: str) -> None:
        path = tmp_path / "misleading.txt"
        WRITERS[format](TENSORS, path)
        assert sniff(path) == format
        assert same({k: load_state_dict(path)[k] for k in TENSORS}, TENSORS)

    @FORMATS
    def test_reading_without_a_map_gives_the_same(self, tmp_path: Path, format: str) -> None:
        WRITERS[format](TENSORS, tmp_path / "net")
        loaded = load_state_dict(tmp_path / "net", mmap=False)
        assert same({k: loaded[k] for k in TENSORS}, TENSORS)

    @FORMATS
    def test_dtype_casts_floating_tensors_alone(self, tmp_path: Path, format: str) -> None:
        WRITERS[format](TENSORS, tmp_path / "net")
        loaded = load_state_dict(tmp_path / "net", dtype=torch.bfloat16)
        assert loaded["weight"].dtype == loaded["half"].dtype == torch.bfloat16
        assert loaded["steps"].dtype == torch.int64

    @FORMATS
    def test_a_stated_format_is_enforced(self, tmp_path: Path, format: str) -> None:
        WRITERS[format](TENSORS, tmp_path / "net")
        read_checkpoint(tmp_path / "net", format=format)  # type: ignore[arg-type]
        other = "torch" if format == "safetensors" else "safetensors"
        with pytest.raises(CheckpointError, match=f"format is {format}, expected {other}"):
            read_checkpoint(tmp_path / "net", format=other)  # type: ignore[arg-type]

    def test_a_format_that_does_not_exist_is_a_value_error(self, tmp_path: Path) -> None:
        save_zip(TENSORS, tmp_path / "net")
        with pytest.raises(ValueError, match=r"format 'onnx' is unknown, expected one of auto, torch"):
            read_checkpoint(tmp_path / "net", format="onnx")  # type: ignore[arg-type]

    def test_order_class_and_versions_of_a_state_dict_survive(self, tmp_path: Path) -> None:
        state = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1)).state_dict()
        save_zip(state, tmp_path / "net")
        for loaded in (load_state_dict(tmp_path / "net"), load_state_dict(tmp_path / "net", dtype=torch.half)):
            assert list(loaded) == list(state)
            assert loaded._metadata == state._metadata  # type: ignore[attr-defined]

    @pytest.mark.parametrize("mmap", [True, False])
    def test_a_safetensors_file_can_carry_the_versions_too(self, tmp_path: Path, mmap: bool) -> None:
        state = torch.nn.BatchNorm1d(2).state_dict()
        save_file(dict(state), tmp_path / "net", {VERSIONS_KEY: json.dumps(state._metadata)})  # type: ignore[attr-defined]
        loaded = load_state_dict(tmp_path / "net", mmap=mmap)
        assert loaded._metadata == state._metadata  # type: ignore[attr-defined]

    def test_nested_checkpoints_are_returned_as_they_are(self, tmp_path: Path) -> None:
        save_zip({"model": TENSORS, "epoch": 3}, tmp_path / "net")
        loaded = load_state_dict(tmp_path / "net", dtype=torch.half)
        assert (loaded["epoch"], loaded["model"]["weight"].dtype) == (3, torch.half)

    @pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor, torch.quantize_per_channel")
    @pytest.mark.parametrize("save", [save_zip, save_legacy])
    @pytest.mark.parametrize("mmap", [True, False])
    def test_tensors_in_integers_with_scales_come_back_without_a_warning(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Callable[[Any, Path], None], mmap: bool
    ) -> None:
        weight = torch.linspace(-1, 1, 12).reshape(3, 4)
        state = {
            "weight": torch.quantize_per_channel(weight, torch.ones(3) / 99, torch.zeros(3), 0, torch.qint8),
            "packed": (torch.quantize_per_tensor(weight, 0.1, 3, torch.quint8), None),
            "dtype": torch.qint8,
        }
        save(state, tmp_path / "net")
        monkeypatch.delattr(torch.storage._warn_typed_storage_removal, "has_warned", raising=False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            loaded = load_state_dict(tmp_path / "net", mmap=mmap)
        assert loaded["dtype"] == torch.qint8
        for ours, theirs in ((loaded["weight"], state["weight"]), (loaded["packed"][0], state["packed"][0])):
            assert torch.equal(ours.int_repr(), theirs.int_repr())
            assert torch.equal(ours.dequantize(), theirs.dequantize())

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.dictionaries(
            st.text("abc.", min_size=1, max_size=6),
            st.tuples(
                st.lists(st.integers(0, 3), max_size=3),
                st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.uint8]),
            ),
            max_size=4,
        ),
        st.sampled_from(sorted(WRITERS)),
    )
    def test_whatever_tensors_were_saved_come_back(
        self, tmp_path: Path, layout: dict[str, tuple[list[int], torch.dtype]], format: str
    ) -> None:
        saved = {name: torch.randn(shape).to(dtype) for name, (shape, dtype) in layout.items()}
        WRITERS[format](saved, tmp_path / "net")
        loaded = load_state_dict(tmp_path / "net")
        assert sorted(loaded) == sorted(saved)
        assert same({k: loaded[k] for k in saved}, saved)


class TestMaps:
    @MAPPED
    def test_writing_to_a_tensor_leaves_the_file_unchanged(self, tmp_path: Path, format: str) -> None:
        path = tmp_path / "net"
        WRITERS[format](TENSORS, path)
        before = path.read_bytes()
        loaded = load_state_dict(path)
        loaded["weight"].zero_()
        assert loaded["weight"].sum() == 0
        assert path.read_bytes() == before
        assert load_state_dict(path)["weight"].sum() == 66

    def test_a_process_that_asked_torch_for_shared_maps_is_served_without_one(self, tmp_path: Path) -> None:
        import mmap

        path = tmp_path / "net"
        save_zip(TENSORS, path)
        before = path.read_bytes()
        with torch.serialization.set_default_mmap_options(mmap.MAP_SHARED):
            load_state_dict(path)["weight"].zero_()
        assert path.read_bytes() == before

    @MAPPED
    def test_a_replaced_file_does_not_change_what_was_loaded(self, tmp_path: Path, format: str) -> None:
        path = tmp_path / "net"
        WRITERS[format](TENSORS, path)
        loaded = load_state_dict(path)
        WRITERS[format]({"weight": torch.zeros(3, 4)}, tmp_path / "new")
        os.replace(tmp_path / "new", path)
        assert loaded["weight"].sum() == 66

    @MAPPED
    def test_bytes_are_mapped_and_not_read(self, tmp_path: Path, format: str) -> None:
        path = tmp_path / "net"
        WRITERS[format]({"weight": torch.zeros(1 << 20)}, path)
        loaded = load_state_dict(path)
        maps = Path("/proc/self/maps")
        if not maps.exists():
            pytest.skip("this system does not list a process's maps")
        assert str(path) in maps.read_text()
        del loaded


class Danger:
    """Creates a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


class TestDangerousFiles:
    @PICKLED
    def test_code_in_a_checkpoint_is_named_and_not_run(self, tmp_path: Path, format: str) -> None:
        path, marker = tmp_path / "net.pth", tmp_path / "marker"
        WRITERS[format]({"weight": torch.ones(1), "danger": Danger(marker)}, path)
        with pytest.raises(UnsafeCheckpointError, match=r"(posix|nt)\.mkdir"):
            load_state_dict(path)
        assert not marker.exists()

    @PICKLED
    def test_the_file_would_indeed_run_its_code(self, tmp_path: Path, format: str) -> None:
        path, marker = tmp_path / "net.pth", tmp_path / "marker"
        WRITERS[format]({"danger": Danger(marker)}, path)
        load_state_dict(path, trust=True)
        assert marker.is_dir()

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_a_plain_pickle_is_refused_with_what_it_wants(self, tmp_path: Path, protocol: int) -> None:
        path, marker = tmp_path / "net.pkl", tmp_path / "marker"
        path.write_bytes(pickle.dumps({"danger": Danger(marker)}, protocol))
        kind = UnsafeCheckpointError if protocol >= 2 else CheckpointError  # before 2, a pickle has no mark of its own
        with pytest.raises(kind, match="mkdir" if protocol >= 2 else "is no checkpoint"):
            load_state_dict(path)
        with pytest.raises(kind):
            load_state_dict(path, trust=True)
        assert not marker.exists()

    def test_a_tar_of_old_torch_is_refused(self, tmp_path: Path) -> None:
        path, marker = tmp_path / "net.tar", tmp_path / "marker"
        data = pickle.dumps(Danger(marker), 2)
        with tarfile.open(path, "w") as archive:
            for name in ("storages", "tensors", "pickle"):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        with pytest.raises(UnsafeCheckpointError, match=r"tar of torch before 0\.4"):
            load_state_dict(path)
        assert not marker.exists()

    def test_a_safetensors_file_with_a_pickle_for_data_is_only_bytes(self, tmp_path: Path) -> None:
        path, marker = tmp_path / "net.safetensors", tmp_path / "marker"
        data = pickle.dumps(Danger(marker))
        header = json.dumps({"w": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}}).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header + data)
        assert bytes(load_state_dict(path)["w"].tolist()) == data
        assert not marker.exists()

    def test_the_environment_cannot_switch_the_restriction_off(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path, marker = tmp_path / "net.pth", tmp_path / "marker"
        save_zip({"danger": Danger(marker)}, path)
        monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
        with pytest.raises(UnsafeCheckpointError):
            load_state_dict(path)
        assert not marker.exists()

    def test_the_error_is_caught_as_upstream_and_hub_errors_are(self, tmp_path: Path) -> None:
        save_zip({"options": Namespace(depth=3)}, tmp_path / "net.pth")
        for kind in (pickle.UnpicklingError, HubError):
            with pytest.raises(kind, match=r"argparse\.Namespace"):
                load_state_dict(tmp_path / "net.pth")

    @pytest.mark.parametrize("source", ["https://host.example/net.pth", "hf:owner/net", "package:os/net.pth"])
    def test_trust_is_for_local_paths_only(self, source: str) -> None:
        with pytest.raises(ValueError, match="expected a local path"):
            load_state_dict(source, trust=True)

    def test_trust_is_not_for_weights_either(self) -> None:
        class Net_Weights(WeightsEnum):
            V1 = Weights("https://host.example/net.pth", dict, {})

        for source in (Net_Weights.V1, Net_Weights.V1.value):
            with pytest.raises(ValueError, match="expected a local path"):
                load_state_dict(source, trust=True)


class TestAllowedGlobals:
    def test_weights_can_name_classes_that_their_file_needs(self, tmp_path: Path) -> None:
        save_zip({"weight": torch.ones(1), "options": Namespace(depth=3)}, tmp_path / "net.pth")
        loaded = read_checkpoint(tmp_path / "net.pth", safe_globals=("argparse:Namespace",))
        assert loaded["options"].depth == 3

    def test_the_permission_ends_with_the_call(self, tmp_path: Path) -> None:
        save_zip({"options": Namespace(depth=3)}, tmp_path / "net.pth")
        read_checkpoint(tmp_path / "net.pth", safe_globals=("argparse:Namespace",))
        with pytest.raises(UnsafeCheckpointError):
            read_checkpoint(tmp_path / "net.pth")
        assert Namespace not in torch.serialization.get_safe_globals()

    def test_others_stay_forbidden(self, tmp_path: Path) -> None:
        save_zip({"options": Namespace(), "counter": collections.UserDict()}, tmp_path / "net.pth")
        with pytest.raises(UnsafeCheckpointError, match="UserDict"):
            read_checkpoint(tmp_path / "net.pth", safe_globals=("argparse:Namespace",))


class TestDamagedFiles:
    @FORMATS
    @pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
    def test_a_file_that_was_cut_off_says_so(self, tmp_path: Path, format: str, part: float) -> None:
        path = tmp_path / "net"
        WRITERS[format]({"weight": torch.randn(200, 30)}, path)
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * part)])
        with pytest.raises(HubError, match=r"net: .*(damaged or cut off|not a zip)"):
            load_state_dict(path)

    def test_an_empty_file(self, tmp_path: Path) -> None:
        (tmp_path / "net").touch()
        with pytest.raises(CheckpointError, match="the file is empty"):
            load_state_dict(tmp_path / "net")

    def test_a_web_page_saved_as_a_checkpoint(self, tmp_path: Path) -> None:
        (tmp_path / "net.pth").write_text("<!DOCTYPE html><title>404</title>")
        with pytest.raises(CheckpointError, match="looks like a web page"):
            load_state_dict(tmp_path / "net.pth")

    def test_a_zip_of_several_files_is_no_checkpoint(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "net.zip", "w") as archive:
            archive.writestr("a.pth", b"a")
            archive.writestr("b.pth", b"b")
        with pytest.raises(CheckpointError, match="is no checkpoint"):
            load_state_dict(tmp_path / "net.zip")

    def test_something_else_than_a_mapping(self, tmp_path: Path) -> None:
        save_zip([torch.ones(1)], tmp_path / "net.pth")
        with pytest.raises(CheckpointError, match="holds a list, expected a mapping"):
            load_state_dict(tmp_path / "net.pth")

    def test_a_program_in_place_of_a_state_dict(self, tmp_path: Path) -> None:
        save_zip(TENSORS, tmp_path / "net.pt")
        with zipfile.ZipFile(tmp_path / "net.pt", "a") as archive:
            archive.writestr("net/constants.pkl", pickle.dumps((), 2))  # what makes it a program to torch
        with pytest.raises(CheckpointError, match="is a TorchScript program, expected a state dict"):
            load_state_dict(tmp_path / "net.pt")

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.binary(max_size=600), st.sampled_from([b"", b"PK\x03\x04", b"\x80\x02", LEGACY_START]))
    @example(b"\x80\x00", LEGACY_START)  # names a pickle protocol that nobody writes
    def test_any_bytes_end_in_one_kind_of_error(self, tmp_path: Path, data: bytes, start: bytes) -> None:
        (tmp_path / "net").write_bytes(start + data)
        with pytest.raises(HubError):
            load_state_dict(tmp_path / "net")

    def test_a_device_that_does_not_exist_is_not_blamed_on_the_file(self, tmp_path: Path) -> None:
        save_zip(TENSORS, tmp_path / "net.pth")
        with pytest.raises(RuntimeError, match="nosuchdevice") as caught:
            load_state_dict(tmp_path / "net.pth", device="nosuchdevice")
        assert not isinstance(caught.value, CheckpointError)


class TestAbsentFiles:
    def test_a_missing_path_names_similar_files(self, tmp_path: Path) -> None:
        save_zip(TENSORS, tmp_path / "resnet50.pth")
        for kind in (MissingCheckpointError, FileNotFoundError):
            with pytest.raises(kind, match=r"in that folder are resnet50\.pth"):
                load_state_dict(tmp_path / "resnet5O.pth")
            with pytest.raises(kind, match=r"in that folder are resnet50\.pth"):
                load_state_dict(str(tmp_path / "resnet5O.pth"))

    def test_a_missing_folder_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(MissingCheckpointError, match=r"the folder .*nowhere does not exist"):
            load_state_dict(tmp_path / "nowhere" / "net.pth")

    def test_a_name_that_nobody_registered(self) -> None:
        with pytest.raises(ValueError, match="no weights 'resnet50'"):
            load_state_dict("resnet50")

    def test_something_that_is_no_source(self) -> None:
        with pytest.raises(TypeError, match="given by path, URL, weights member or name; got int 3"):
            load_state_dict(3)  # type: ignore[arg-type]

    @pytest.mark.parametrize("name", ["hf:", "hf:owner", "hf:a/b/c", "hf:/b", "hf:a/@v1"])
    def test_a_repository_needs_owner_and_name(self, name: str) -> None:
        with pytest.raises(ValueError, match="names no repository; expected 'hf:owner/name'"):
            load_state_dict(name)


def test_a_zipped_checkpoint_is_unpacked_once(tmp_path: Path, flambeau_home: Path) -> None:
    save_zip_in_zip(TENSORS, tmp_path / "net.zip")
    load_state_dict(tmp_path / "net.zip")
    (unpacked,) = flambeau_home.rglob("net.pth")
    stamp = unpacked.stat()
    load_state_dict(tmp_path / "net.zip")
    assert unpacked.stat() == stamp or unpacked.stat().st_mtime_ns == stamp.st_mtime_ns
    assert unpacked.stat().st_ino == stamp.st_ino


def test_a_zip_in_a_zip_in_a_zip_is_not_followed(tmp_path: Path) -> None:
    save_zip_in_zip(TENSORS, tmp_path / "inner.zip")
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as archive:
        archive.write(tmp_path / "inner.zip", "inner.zip")
    with pytest.raises(CheckpointError, match="holds a zip in a zip"):
        load_state_dict(tmp_path / "outer.zip")


def rewritten(path: Path, target: Path, change: Any) -> Path:
    """The zip again, with the content of its records as `change(name, content)` gives it."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return target


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("keep", [0, 40])
def test_a_record_that_was_emptied_or_cut_short_does_not_load_its_neighbours(
    tmp_path: Path, mmap: bool, keep: int
) -> None:
    path = tmp_path / "whole.pth"
    torch.save({"a": torch.ones(100), "b": torch.full((100,), 7.0)}, path)
    cut = rewritten(path, tmp_path / "cut.pth", lambda name, c: c[:keep] if name.endswith("/data/0") else c)
    with pytest.raises(CheckpointError, match=rf"record data/0 has {keep} bytes, expected 400"):
        read_checkpoint(cut, mmap=mmap)


def test_a_record_that_is_absent_is_a_damaged_file(tmp_path: Path) -> None:
    path, cut = tmp_path / "whole.pth", tmp_path / "cut.pth"
    torch.save({"a": torch.ones(100)}, path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(cut, "w") as new:
        for name in old.namelist():
            if not name.endswith("/data/0"):
                new.writestr(name, old.read(name))
    with pytest.raises(CheckpointError, match="damaged"):
        read_checkpoint(cut)


def test_a_file_whose_records_were_compressed_is_read_and_not_mapped(tmp_path: Path) -> None:
    path, packed = tmp_path / "whole.pth", tmp_path / "packed.pth"
    torch.save({"a": torch.arange(1000.0)}, path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert torch.equal(read_checkpoint(packed)["a"], torch.arange(1000.0))


def test_views_of_one_storage_and_every_dtype_pass_the_comparison_of_sizes(tmp_path: Path) -> None:
    path, base = tmp_path / "views.pth", torch.arange(10)
    state = {"base": base, "view": base[3:], "empty": torch.empty(0)}
    for dtype in (torch.bool, torch.uint8, torch.bfloat16, torch.complex64, torch.float8_e4m3fn, torch.float64):
        state[str(dtype)] = torch.zeros(3, 5).to(dtype)
    torch.save(state, path)
    found = read_checkpoint(path)
    assert list(found) == list(state)
    assert torch.equal(found["view"], base[3:])
