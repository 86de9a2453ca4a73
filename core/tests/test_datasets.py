"""Datasets: facts by name, and files that are in place or explained."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flambeau.core.datasets import (
    DatasetFile,
    DatasetInfo,
    Field,
    fetch_dataset,
    get_dataset,
    get_dataset_info,
    list_datasets,
    prepare_dataset,
    register_dataset,
    verify_dataset,
)
from flambeau.core.errors import (
    DatasetMissingError,
    DownloadError,
    DuplicateNameError,
    GatedError,
    HashMismatchError,
    HubWarning,
    OfflineError,
    UnknownNameError,
)
from flambeau.core.testing.server import FileServer, Reply

pytestmark = pytest.mark.usefixtures("site")


class Shelf(FileServer):
    """A loopback server that files are put on one by one."""

    def put(self, path: str, body: bytes) -> str:
        self.files[path.strip("/")] = body
        return self.url(path)


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    with Shelf() as shelf:
        yield shelf


def empty() -> list[int]:
    return []


def md5(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def tar(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, body in members.items():
            entry = tarfile.TarInfo(f"inner/{name}")
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
    return buffer.getvalue()


def visible(root: Path) -> set[str]:
    return {path.name for path in root.iterdir() if not path.name.startswith(".")} if root.exists() else set()


# Facts


def test_a_record_holds_the_facts_as_json_and_comes_back_equal() -> None:
    info = DatasetInfo(
        "digits",
        task="image-classification",
        sizes={"train": 0, "test": 5},
        files=[
            {"url": "https://host.example/a/digits.tar.gz?x=1", "md5": "0" * 32, "extract": True, "splits": ["train"]}
        ],
        schema=[Field("image", "image", (1, "H", "W"), "uint8"), Field("label", "label", classes=10)],
        gated={"kind": "form", "url": "https://host.example/form"},
        license="CC0-1.0",
    )

    record = json.loads(json.dumps(info.record()))

    assert DatasetInfo.from_record({**record, "target": "ignored:here", "later": 1}) == info
    assert record["splits"] == ["train", "test"]
    assert record["sizes"] == {"train": 0, "test": 5}
    assert record["files"][0]["path"] == "digits.tar.gz"
    assert "citation" not in record


@pytest.mark.parametrize("path", ["../up", "/etc/passwd", "a/../b", "C:/x", "a\\b", "a//b", "."])
def test_a_file_path_that_could_leave_the_root_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="below the dataset's root"):
        DatasetFile(path=path)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"files": [{"path": "a", "sha256": "abc"}]}, "64 lower-case hexadecimal"),
        ({"files": [{"path": "a", "md5": "F" * 32}]}, "32 lower-case hexadecimal"),
        ({"files": [{"path": "a", "splits": ["val"]}], "splits": ("train",)}, r"\['val'\]"),
        ({"files": [{}]}, "neither"),
        ({"gated": {"kind": "secret"}}, "'secret'"),
    ],
)
def test_contradicting_facts_are_refused(facts: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DatasetInfo("broken", **facts)


# Names


def test_a_registered_class_is_listed_described_and_built_with_its_configuration() -> None:
    @register_dataset("shapes", plugin="doc", task="image-classification", schema=[{"key": "n", "kind": "int"}])
    class Shapes:
        def __init__(self, root: str, split: str = "train") -> None:
            self.root, self.split = root, split

    assert "doc/shapes" in list_datasets(plugin="doc", task="image-classification")
    assert "doc/shapes" not in list_datasets(task="translation")
    assert get_dataset_info("doc/shapes").schema == Shapes.schema == (Field("n", "int"),)
    assert get_dataset("shapes", root="r", split="val").split == "val"


def test_a_split_is_given_by_the_name_that_the_dataset_has_for_it() -> None:
    @register_dataset("recorded", plugin="doc")
    class Recorded:
        split_argument = "subset"

        def __init__(self, subset: str = "train") -> None:
            self.subset = subset

    assert get_dataset("doc/recorded", split="dev").subset == "dev"
    assert get_dataset("doc/recorded", subset="dev").subset == "dev"
    with pytest.raises(TypeError, match="split"):
        get_dataset("doc/recorded", subset="dev", split="test")


def test_a_function_can_be_a_dataset_and_takes_the_name_of_its_facts() -> None:
    @register_dataset(info=DatasetInfo("counted", sizes={"all": 3}), plugin="doc")
    def build(stop: int = 3) -> range:
        return range(stop)

    assert get_dataset("doc/counted", stop=2) == range(2)
    assert get_dataset_info("counted").sizes == {"all": 3}


def test_a_configuration_the_dataset_does_not_take_is_explained() -> None:
    register_dataset("ranged", plugin="doc")(lambda stop=3: range(stop))

    with pytest.raises(TypeError, match=r"'doc/ranged'.*'rot'.*\(stop=3\)"):
        get_dataset("doc/ranged", rot=1)


def test_an_error_inside_the_constructor_is_left_alone() -> None:
    @register_dataset("failing", plugin="doc")
    def build() -> None:
        raise TypeError("from inside")

    with pytest.raises(TypeError, match=r"^from inside$"):
        get_dataset("doc/failing")


def test_a_second_dataset_of_one_name_is_refused() -> None:
    register_dataset("twice", plugin="doc")(empty)

    with pytest.raises(DuplicateNameError, match="doc/twice"):
        register_dataset("twice", plugin="doc")(lambda: [1])


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"files": [{"url": "https://e.example/a.zip", "sha265": "0" * 64}]}, r"no 'sha265'.*Close names: sha256"),
        ({"files": [{"path": "a.zip", "contents": [{"path": "a", "sise": 3}]}]}, r"Content has no 'sise'"),
        ({"files": ["a.zip"]}, r"DatasetFile.*is expected; got 'a.zip'"),
        ({"schema": [{"key": "image", "kind": "image", "typ": 1}]}, r"Field has no 'typ'"),
        ({"gated": {"kind": "manual", "page": "x"}}, r"Gate has no 'page'"),
    ],
)
def test_a_key_that_means_nothing_is_refused_where_a_dataset_is_registered(facts: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        register_dataset("strange", plugin="tests", **facts)(lambda: None)


def test_keys_that_only_a_later_manifest_knows_are_passed_over() -> None:
    contents = [{"path": "a", "new": 1}]
    record = {"name": "x", "files": [{"path": "a.zip", "new": 1, "contents": contents}], "new": {"new": 1}}
    assert DatasetInfo.from_record(record).files[0].contents[0].path == "a"


def test_facts_are_given_once() -> None:
    with pytest.raises(TypeError, match="not both"):
        register_dataset("a", info=DatasetInfo("a"), task="x")


def test_an_unknown_name_suggests_the_nearest() -> None:
    register_dataset("nearby", plugin="doc")(empty)

    with pytest.raises(UnknownNameError, match="nearby"):
        get_dataset_info("nearbye")


# Files


def test_files_are_fetched_once_and_need_no_network_afterwards(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = DatasetInfo("two", files=[
        {"url": shelf.put("/a.bin", b"alpha"), "sha256": sha256(b"alpha"), "size": 5},
        {"url": shelf.put("/b.bin", b"beta"), "md5": md5(b"beta"), "path": "deep/b.bin"},
    ])  # fmt: skip

    root = fetch_dataset(info, tmp_path / "data")
    asked = len(shelf.log)
    monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")
    fetch_dataset(info, tmp_path / "data")

    assert (root / "a.bin").read_bytes() == b"alpha"
    assert (root / "deep/b.bin").read_bytes() == b"beta"
    assert visible(root) == {"a.bin", "deep"}
    assert visible(root / "deep") == {"b.bin"}
    assert len(shelf.log) == asked


def test_without_a_root_a_registered_dataset_lives_in_the_cache(shelf: Shelf, tmp_path: Path) -> None:
    info = DatasetInfo("cached", files=[{"url": shelf.put("/c", b"c"), "md5": md5(b"c")}])
    register_dataset(info=info, plugin="doc")(empty)

    root = fetch_dataset("doc/cached")

    assert root.is_relative_to(tmp_path / "home")
    assert root.parts[-2:] == ("doc", "cached")
    assert (root / "c").read_bytes() == b"c"


def test_a_root_that_cannot_be_written_is_named_with_the_remedy(shelf: Shelf, tmp_path: Path) -> None:
    tmp_path.joinpath("file").write_text("")
    info = DatasetInfo("toy", files=({"url": shelf.put("a.bin", b"abc")},))  # type: ignore[arg-type]
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(DownloadError, match=r"file.* cannot be written .*pass root="):
            fetch_dataset(info, root)


def test_a_wrong_md5_leaves_nothing_behind_and_names_both_digests(shelf: Shelf, tmp_path: Path) -> None:
    info = DatasetInfo("bad", files=[{"url": shelf.put("/bad.bin", b"evil"), "md5": md5(b"good")}])

    with pytest.raises(HashMismatchError, match=f"(?s){md5(b'evil')}.*{md5(b'good')}"):
        fetch_dataset(info, tmp_path / "data")

    assert visible(tmp_path / "data") == set()
    assert b"evil" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_mirror_serves_when_the_first_address_has_the_wrong_bytes(shelf: Shelf, tmp_path: Path) -> None:
    urls = [shelf.put("/bad/x.bin", b"evil"), shelf.put("/good/x.bin", b"good")]
    info = DatasetInfo("mirrored", files=[{"url": urls[0], "mirrors": urls[1:], "md5": md5(b"good")}])

    assert (fetch_dataset(info, tmp_path) / "x.bin").read_bytes() == b"good"


def test_a_page_of_google_drive_in_place_of_a_file_says_what_to_do_by_hand(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.put("/download", b"<!DOCTYPE html><title>Google Drive - Quota exceeded</title>")
    monkeypatch.setenv("FLAMBEAU_MIRRORS", f"https://drive.usercontent.google.com/={shelf.url('')}")
    url = "https://drive.usercontent.google.com/download?id=1abc&export=download&confirm=t"
    info = DatasetInfo("faces", files=[{"url": url, "path": "img/faces.zip", "md5": md5(b"faces"), "size": None}])

    with pytest.raises(HashMismatchError) as caught:
        fetch_dataset(info, tmp_path / "data")

    message = str(caught.value)
    assert "sent a web page in place of the file" in message
    assert "open https://drive.google.com/file/d/1abc/view in a browser" in message
    assert f"save faces.zip (md5 {md5(b'faces')}) as {tmp_path / 'data' / 'img' / 'faces.zip'}" in message
    assert visible(tmp_path / "data" / "img") == set()
    with pytest.raises(DatasetMissingError, match=r"from https://drive\.google\.com/file/d/1abc/view"):
        prepare_dataset(info, tmp_path / "data", download=False)


def test_a_damaged_file_is_found_and_fetched_again(shelf: Shelf, tmp_path: Path) -> None:
    info = DatasetInfo("worn", files=[{"url": shelf.put("/w.bin", b"whole"), "md5": md5(b"whole")}])
    fetch_dataset(info, tmp_path)
    (tmp_path / "w.bin").write_bytes(b"who")

    assert [item.state for item in verify_dataset(info, tmp_path)] == ["damaged"]
    with pytest.warns(HubWarning, match=r"w\.bin is damaged"):
        fetch_dataset(info, tmp_path)
    assert (tmp_path / "w.bin").read_bytes() == b"whole"


def test_a_damaged_file_is_not_said_to_be_fetched_while_offline(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = DatasetInfo("worn", files=[{"url": shelf.put("/w.bin", b"whole"), "md5": md5(b"whole")}])
    fetch_dataset(info, tmp_path)
    (tmp_path / "w.bin").write_bytes(b"who")
    monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")

    with pytest.warns(HubWarning, match=r"w\.bin is damaged \(.*\); nothing is fetched"), pytest.raises(OfflineError):
        fetch_dataset(info, tmp_path)
    assert (tmp_path / "w.bin").read_bytes() == b"who"


def test_offline_names_the_file_its_place_and_its_digest(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")
    info = DatasetInfo("far", files=[{"url": shelf.put("/f.bin", b"far"), "md5": md5(b"far")}])

    with pytest.raises(OfflineError) as caught:
        fetch_dataset(info, tmp_path)

    for part in (str(tmp_path / "f.bin"), md5(b"far"), shelf.put("/f.bin", b"far")):
        assert part in str(caught.value)
    assert shelf.log == []


def test_only_the_files_of_the_wanted_split_are_fetched(shelf: Shelf, tmp_path: Path) -> None:
    info = DatasetInfo("split", splits=("train", "test"), files=[
        {"url": shelf.put("/train", b"1"), "splits": ["train"]},
        {"url": shelf.put("/test", b"2"), "splits": ["test"]},
        {"url": shelf.put("/labels", b"3")},
    ])  # fmt: skip

    fetch_dataset(info, tmp_path / "data", splits=["test"])

    assert visible(tmp_path / "data") == {"test", "labels"}
    with pytest.raises(ValueError, match="no split 'val'"):
        fetch_dataset(info, tmp_path / "data", splits=["val"])


def test_nothing_but_the_files_and_one_hidden_note_is_left(shelf: Shelf, tmp_path: Path) -> None:
    info = DatasetInfo("tidy", files=[{"url": shelf.put("/t.bin", b"tidy"), "md5": md5(b"tidy")}])

    root = fetch_dataset(info, tmp_path / "data")

    left = {path.name for path in root.iterdir()} - {".flambeau-tidy.json.lock"}
    assert left == {"t.bin", ".flambeau-tidy.json"}


def test_a_broken_connection_is_resumed_before_the_md5_is_checked(shelf: Shelf, tmp_path: Path) -> None:
    body = bytes(range(256)) * 1000
    info = DatasetInfo("cut", files=[{"url": shelf.put("/cut.bin", body), "md5": md5(body)}])
    shelf.next("cut.bin", Reply(cut_after=100_000))

    assert (fetch_dataset(info, tmp_path / "data") / "cut.bin").read_bytes() == body
    assert "range" in shelf.requests("cut.bin")[1].headers
    assert shelf.sent("cut.bin") == len(body)


def test_a_file_that_a_package_carries_is_copied_and_stays_where_it_is(site: Any, tmp_path: Path) -> None:
    folder = site.add("carrier", modules={"values.bin": "carried"})
    info = DatasetInfo("carried", files=[{"url": "package:carrier_plugin/values.bin", "md5": md5(b"carried")}])

    assert (fetch_dataset(info, tmp_path / "data") / "values.bin").read_bytes() == b"carried"
    assert (folder / "values.bin").read_bytes() == b"carried"


def test_four_processes_that_ask_for_one_dataset_fetch_it_once(shelf: Shelf, tmp_path: Path) -> None:
    body = tar(x=b"ex" * 500_000)
    contents = [{"path": "inner/x", "md5": md5(b"ex" * 500_000)}]
    url = shelf.put("/many.tar", body)
    info = DatasetInfo("many", files=[{"url": url, "md5": md5(body), "extract": True, "contents": contents}])
    shelf.always["many.tar"] = Reply(pace=0.01)
    program = (
        "import json, sys\n"
        "from flambeau.core.datasets import DatasetInfo, fetch_dataset\n"
        "root = fetch_dataset(DatasetInfo.from_record(json.loads(sys.argv[1])), sys.argv[2])\n"
        "print(len((root / 'inner/x').read_bytes()))\n"
    )
    command = [sys.executable, "-c", program, json.dumps(info.record()), str(tmp_path / "data")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    ended = [process.communicate(timeout=120) for process in running]

    assert [output for output, _ in ended] == ["1000000\n"] * 4, ended
    assert shelf.sent("many.tar") <= 1.3 * len(body)


def test_looking_at_facts_imports_neither_torch_nor_the_hub() -> None:
    program = (
        "import sys, flambeau.core.datasets, flambeau.core.testing\n"
        "flambeau.core.datasets.list_datasets()\n"
        "print(sorted({'torch', 'numpy', 'pydantic', 'urllib3', 'flambeau.core.hub.fetching'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)

    assert done.stdout == "[]\n", done.stderr


# Archives


@pytest.fixture
def packed(shelf: Shelf) -> DatasetInfo:
    body = tar(x=b"ex", y=b"why")
    contents = [{"path": "sub/inner/x", "md5": md5(b"ex")}, {"path": "sub/inner/y", "md5": md5(b"why")}]
    url = shelf.put("/p.tar", body)
    return DatasetInfo("packed", files=[{"url": url, "sha256": sha256(body), "extract": "sub", "contents": contents}])


def test_archives_are_unpacked_where_the_facts_say(packed: DatasetInfo, tmp_path: Path) -> None:
    root = fetch_dataset(packed, tmp_path / "data")

    assert (root / "sub/inner/x").read_bytes() == b"ex"
    assert [item.state for item in verify_dataset(packed, root)] == ["ok"]


def test_archives_stay_packed_on_request_and_unpack_later_without_network(
    packed: DatasetInfo, shelf: Shelf, tmp_path: Path
) -> None:
    root = fetch_dataset(packed, tmp_path / "data", extract=False)
    assert visible(root) == {"p.tar"}
    assert [item.state for item in verify_dataset(packed, root)] == ["packed"]
    asked = len(shelf.log)

    prepare_dataset(packed, root, download=False)

    assert (root / "sub/inner/y").read_bytes() == b"why"
    assert len(shelf.log) == asked


def test_an_archive_may_be_removed_once_its_contents_are_in_place(
    packed: DatasetInfo, shelf: Shelf, tmp_path: Path
) -> None:
    root = fetch_dataset(packed, tmp_path / "data")
    (root / "p.tar").unlink()
    asked = len(shelf.log)

    assert prepare_dataset(packed, root, download=False) == root
    fetch_dataset(packed, root)

    assert len(shelf.log) == asked


@pytest.mark.parametrize("damage", ["change", "remove", "remove_all"])
def test_damaged_or_missing_contents_are_unpacked_again(
    packed: DatasetInfo, shelf: Shelf, tmp_path: Path, damage: str
) -> None:
    root = fetch_dataset(packed, tmp_path / "data")
    asked = len(shelf.log)
    if damage == "change":
        (root / "sub/inner/x").write_bytes(b"changed")
    else:
        (root / "sub/inner/x").unlink()
    if damage == "remove_all":
        (root / "sub/inner/y").unlink()

    with pytest.warns(HubWarning, match="unpacked again") if damage != "remove_all" else contextlib.nullcontext():
        fetch_dataset(packed, root)

    assert (root / "sub/inner/x").read_bytes() == b"ex"
    assert (root / "sub/inner/y").read_bytes() == b"why"
    assert len(shelf.log) == asked


def test_contents_placed_without_any_archive_are_accepted_when_they_verify(packed: DatasetInfo, tmp_path: Path) -> None:
    (tmp_path / "sub/inner").mkdir(parents=True)
    (tmp_path / "sub/inner/x").write_bytes(b"ex")
    (tmp_path / "sub/inner/y").write_bytes(b"why")

    assert prepare_dataset(packed, tmp_path, download=False) == tmp_path


# Absent and gated


def test_an_absent_dataset_names_the_folder_and_both_ways_out(shelf: Shelf, tmp_path: Path) -> None:
    url = shelf.put("/absent.bin", b"absent")
    info = DatasetInfo("absent", files=[{"url": url, "md5": md5(b"absent"), "size": 6}])

    with pytest.raises(DatasetMissingError) as caught:
        prepare_dataset(info, tmp_path / "nowhere", download=False)

    assert isinstance(caught.value, FileNotFoundError | RuntimeError)
    for part in (str(tmp_path / "nowhere"), "download=True", "by hand", "absent.bin", "6 bytes", md5(b"absent"), url):
        assert part in str(caught.value)
    assert shelf.log == []
    assert not (tmp_path / "nowhere").exists()


@pytest.fixture
def manual() -> DatasetInfo:
    gate = {"kind": "manual", "url": "https://owner.example/ask", "instructions": "Sign the form."}
    body = tar(x=b"ex")
    files = [{"path": "m.tar", "md5": md5(body), "size": len(body), "extract": True}, {"path": "labels.csv"}]
    return DatasetInfo("manual", gated=gate, files=files)


def test_a_manual_dataset_lists_every_file_to_place_by_hand(manual: DatasetInfo, tmp_path: Path) -> None:
    for attempt in (lambda: fetch_dataset(manual, tmp_path), lambda: prepare_dataset(manual, tmp_path, download=True)):
        with pytest.raises(GatedError) as caught:
            attempt()
        expected = (
            "m.tar",
            "labels.csv",
            str(tmp_path),
            manual.files[0].md5,
            "https://owner.example/ask",
            "Sign the form.",
        )
        for part in expected:
            assert str(part) in str(caught.value)


def test_a_manual_dataset_absent_without_download_does_not_suggest_downloading(
    manual: DatasetInfo, tmp_path: Path
) -> None:
    with pytest.raises(DatasetMissingError, match="Place by hand") as caught:
        prepare_dataset(manual, tmp_path, download=False)

    assert "download=True" not in str(caught.value)


def test_files_placed_by_hand_are_verified_and_unpacked(manual: DatasetInfo, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("1")
    (tmp_path / "m.tar").write_bytes(b"not it")
    with pytest.raises(GatedError, match=r"(?s)m\.tar is damaged.*size") as caught:
        fetch_dataset(manual, tmp_path)
    assert "labels.csv" not in str(caught.value)

    (tmp_path / "m.tar").write_bytes(tar(x=b"ex"))
    fetch_dataset(manual, tmp_path)

    assert (tmp_path / "inner/x").read_bytes() == b"ex"


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_of_a_gated_dataset_says_how_to_obtain_access(shelf: Shelf, tmp_path: Path, status: int) -> None:
    gate = {"kind": "token", "url": "https://owner.example/ask", "instructions": "Put the token into the token file."}
    info = DatasetInfo("closed", gated=gate, files=[{"url": shelf.put("/c.bin", b"c"), "md5": md5(b"c")}])
    shelf.always["c.bin"] = Reply(status=status)

    with pytest.raises(GatedError) as caught:
        fetch_dataset(info, tmp_path / "data")

    for part in ("c.bin", "owner.example/ask", "Put the token", str(tmp_path / "data")):
        assert part in str(caught.value)


def test_a_file_without_address_in_an_open_dataset_is_asked_for_before_anything_is_fetched(
    shelf: Shelf, tmp_path: Path
) -> None:
    info = DatasetInfo("mixed", files=[{"url": shelf.put("/open", b"1")}, {"path": "closed.bin"}])

    with pytest.raises(GatedError, match=r"closed\.bin is missing"):
        fetch_dataset(info, tmp_path)
    assert shelf.log == []


# Cost


def test_an_unchanged_file_is_not_hashed_again(shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = DatasetInfo("big", files=[{"url": shelf.put("/big", b"big"), "md5": md5(b"big")}])
    fetch_dataset(info, tmp_path)
    monkeypatch.setattr("flambeau.core.datasets.presence.digests", lambda *args: pytest.fail("hashed again"))

    assert [item.state for item in verify_dataset(info, tmp_path)] == ["ok"]


def test_a_folder_that_cannot_be_written_is_verified_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr("flambeau.core.datasets.presence.write_atomic", refuse)
    (tmp_path / "r").write_bytes(b"r")

    info = DatasetInfo("readonly", files=[{"path": "r", "md5": md5(b"r")}])
    assert [item.state for item in verify_dataset(info, tmp_path)] == ["ok"]
