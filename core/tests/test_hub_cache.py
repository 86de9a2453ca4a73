"""Looking up, verifying and clearing out what was fetched; files from packages and from the Hugging Face hub."""

import hashlib
import json
import mmap
import os
import pickle
import subprocess
import sys
import threading
import time
import types
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flambeau.core.errors import (
    DiskFullError,
    DownloadError,
    GatedError,
    HashMismatchError,
    HubError,
    HubWarning,
    OfflineError,
)  # fmt: skip
from flambeau.core.files import safe_name
from flambeau.core.hub import cache_dir, cached, fetch, huggingface, purge, verify
from flambeau.core.hub.transport import TransferError
from flambeau.core.testing.server import FileServer, Reply

DATA = b"content" * 1000
SHA = hashlib.sha256(DATA).hexdigest()

pytestmark = pytest.mark.usefixtures("flambeau_home")


@pytest.fixture
def server():
    with FileServer({"a": DATA}) as server:
        yield server


# --- names and look-ups -------------------------------------------------------------------------------------------


def test_folders_of_the_cache_are_below_the_home_and_not_made_by_asking(flambeau_home):
    assert cache_dir() == flambeau_home
    assert cache_dir("files", "x") == flambeau_home / "files" / "x"
    assert not flambeau_home.exists()


@pytest.mark.parametrize("part", ["..", "a/b", "/etc", "", "C:"])
def test_a_folder_outside_the_cache_has_no_name(part):
    with pytest.raises(ValueError, match="plain file name"):
        cache_dir("files", part)


def test_cached_says_where_a_file_is_and_asks_nobody(server):
    url = server.url("a")
    assert cached(url, sha256=SHA) is None
    path = fetch(url, sha256=SHA)
    assert cached(url, sha256=SHA) == path
    assert len(server.requests()) == 1


def test_cached_knows_the_arguments_of_fetch(server, tmp_path):
    path = fetch(server.url("a"), filename="mine", root=tmp_path)
    assert cached(server.url("a"), filename="mine", root=tmp_path) == path
    assert cached(server.url("a"), root=tmp_path) is None
    assert cached(server.url("a"), filename="mine") is None


def test_a_damaged_file_counts_as_absent_and_is_left_alone(server):
    path = fetch(server.url("a"), sha256=SHA)
    path.write_bytes(b"?" + DATA[1:])
    assert cached(server.url("a"), sha256=SHA) is None
    assert path.exists()


def test_the_sidecar_says_what_was_verified_and_how_far(server):
    path = fetch(server.url("a"), sha256=SHA[:8])
    record = json.loads(path.with_name(f"{path.name}.ok").read_text())
    stat = path.stat()
    assert record == {"size": len(DATA), "mtime_ns": stat.st_mtime_ns, "sha256": SHA, "prefix": SHA[:8],
                      "url": server.url("a")}  # fmt: skip


@pytest.mark.parametrize("content", ["", "{", "[]", '{"size": 1}', '{"size": 7000, "mtime_ns": 1, "sha256": "0"}'])
def test_a_sidecar_that_proves_nothing_is_replaced(server, content):
    path = fetch(server.url("a"), sha256=SHA)
    sidecar = path.with_name(f"{path.name}.ok")
    sidecar.write_text(content)
    assert fetch(server.url("a"), sha256=SHA) == path
    assert json.loads(sidecar.read_text())["sha256"] == SHA
    assert len(server.requests()) == 1


def test_a_file_that_was_touched_is_hashed_again(server, monkeypatch):
    path = fetch(server.url("a"), sha256=SHA)
    os.utime(path, (1, 1))
    calls, real = [], hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *arguments: calls.append(1) or real(*arguments))
    for _ in range(2):
        fetch(server.url("a"), sha256=SHA)
    assert len(calls) == 1


@given(st.text(max_size=300))
@example("a" + 300 * ".")
@example(300 * "é")
def test_any_name_becomes_one_component_that_file_systems_take_or_is_refused(name):
    try:
        clean = safe_name(name)
    except ValueError:
        assert name in ("", ".", "..") or set(name) & set("/\\\0") or name[1] == ":"
        return
    assert 0 < len(clean.encode()) <= 200
    assert not clean.startswith(".")
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 or c in '<>:"|?*/\\' for c in clean)


def test_a_mapped_file_keeps_its_content_when_it_is_replaced(server):
    path = fetch(server.url("a"), filename="mine")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        server.files["a"] = bytes(len(DATA))
        with pytest.warns(HubWarning):
            fetch(server.url("a"), filename="mine", sha256=hashlib.sha256(bytes(len(DATA))).hexdigest())
        assert mapped[:] == DATA
    assert path.read_bytes() == bytes(len(DATA))


# --- verify -------------------------------------------------------------------------------------------------------


def test_verify_returns_the_digest_it_found(tmp_path):
    (tmp_path / "a").write_bytes(DATA)
    assert verify(tmp_path / "a") == SHA
    assert verify(str(tmp_path / "a"), sha256=SHA.upper(), size=len(DATA)) == SHA
    assert verify(tmp_path / "a", sha256=SHA[:8]) == SHA


@pytest.mark.parametrize(("facts", "match"), [
    ({"sha256": "0" * 64}, f"sha256 is {SHA}, expected {'0' * 64}"),
    ({"sha256": "0" * 8}, "expected 00000000"),
    ({"size": 3}, "7,000 bytes, expected 3"),
])  # fmt: skip
def test_verify_raises_on_any_difference(tmp_path, facts, match):
    (tmp_path / "a").write_bytes(DATA)
    with pytest.raises(HashMismatchError, match=match):
        verify(tmp_path / "a", **facts)


def test_verify_trusts_no_sidecar(server):
    path = fetch(server.url("a"), sha256=SHA)
    stat = path.stat()
    path.write_bytes(b"?" + DATA[1:])
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # a change that time and size do not show
    assert fetch(server.url("a"), sha256=SHA) == path
    with pytest.raises(HashMismatchError):
        verify(path, sha256=SHA)


def test_verify_of_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        verify(tmp_path / "none")


# --- purge --------------------------------------------------------------------------------------------------------


def test_purge_removes_files_and_says_how_many_bytes_that_freed(server, flambeau_home):
    path = fetch(server.url("a"), sha256=SHA)
    (flambeau_home / "config.json").write_text("{}")
    (path.parent / "unpacked").mkdir()
    (path.parent / "unpacked" / "b").write_bytes(bytes(100))
    assert purge() >= len(DATA) + 100
    assert os.listdir(flambeau_home / "files") == []
    assert (flambeau_home / "config.json").exists()


def test_purge_of_an_empty_cache_frees_nothing():
    assert purge() == 0


@pytest.mark.parametrize("age", [3600, timedelta(hours=1)])
def test_purge_keeps_what_was_used_lately(server, age):
    old, young = (fetch(server.url("a"), filename=name) for name in ("old", "young"))
    os.utime(old, (time.time() - 7200,) * 2)
    assert purge(older_than=age) >= len(DATA)
    assert not old.exists()
    assert sorted(os.listdir(young.parent)) == ["young", "young.lock", "young.ok"]


def test_purge_can_be_limited_to_what_failed_downloads_left(server):
    path = fetch(server.url("a"), sha256=SHA)
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    (path.parent / f"b.elsewhere.{dead.pid}.0123abcd.part").write_bytes(bytes(10))
    os.utime(path.parent / f"b.elsewhere.{dead.pid}.0123abcd.part", (0, 0))
    (path.parent / f"b.elsewhere.{dead.pid}.0123abcd.part.json").write_text("{}")
    (path.parent / "c.corrupt-1700000000").write_bytes(bytes(20))
    assert purge(partial_only=True) == 32
    assert sorted(os.listdir(path.parent)) == sorted([path.name, f"{path.name}.lock", f"{path.name}.ok"])


def test_purge_leaves_a_download_in_progress_alone(server):
    gate = threading.Event()
    server.next("a", Reply(wait_after=1000, gate=gate))
    thread = threading.Thread(target=fetch, args=(server.url("a"),), kwargs={"sha256": SHA})
    thread.start()
    while not list(cache_dir("files").glob("*.part.json")):
        time.sleep(0.01)
    purge()
    gate.set()
    thread.join()
    assert cached(server.url("a"), sha256=SHA)
    assert len(server.requests()) == 1


# --- files of installed packages ----------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with a file in it; to import it is an error."""
    folder = tmp_path / "site" / "embedding_package"
    (folder / "weights").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / "weights" / "tiny.safetensors").write_bytes(DATA)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return folder


URL = "package:embedding_package/weights/tiny.safetensors"


def test_a_file_of_a_package_is_verified_and_used_where_it_is(package, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")
    assert fetch(URL, sha256=SHA, size=len(DATA)) == package / "weights" / "tiny.safetensors"
    assert cached(URL, sha256=SHA) == package / "weights" / "tiny.safetensors"
    assert os.listdir(package / "weights") == ["tiny.safetensors"]
    assert "embedding_package" not in sys.modules


@pytest.mark.parametrize("facts", [{"sha256": "0" * 64}, {"size": 1}])
def test_a_file_of_a_package_that_is_damaged_is_refused(package, facts):
    with pytest.raises(HashMismatchError):
        fetch(URL, **facts)
    assert (package / "weights" / "tiny.safetensors").exists()


@pytest.mark.parametrize(
    "url", ["package:embedding_package/none", "package:not_installed/a", "package:not.installed/a"]
)
def test_an_absent_package_or_file_says_what_to_install(package, url):
    with pytest.raises(DownloadError, match=r"[Ii]nstall"):
        fetch(url)
    assert cached(url) is None


@pytest.mark.parametrize(
    "rest", ["", "p", "p/", "p//etc/passwd", "p/../a", "p/a/../../b", "../p/a", "p/a\\b", "p/C:a", "p-q/a"]
)
def test_a_malformed_package_url_is_refused(rest):
    with pytest.raises(ValueError, match="malformed"):
        fetch(f"package:{rest}")


# --- the Hugging Face hub -----------------------------------------------------------------------------------------


def test_hugging_face_urls_are_taken_apart():
    parse, Reference = huggingface.parse, huggingface.Reference
    assert parse("hf://me/model/file.bin") == Reference("me/model", "file.bin", None)
    assert parse("hf://me/model/sub/file.bin@v1.0") == Reference("me/model", "sub/file.bin", "v1.0")
    assert parse("hf://datasets/me/set/data/a.csv") == Reference("me/set", "data/a.csv", None, "dataset")


@pytest.mark.parametrize("rest", ["", "me", "me/model", "me/model/", "me//file", "me/model/file@", "me/model/../x"])
def test_a_malformed_hugging_face_url_is_refused(rest):
    with pytest.raises(ValueError, match="expected hf://owner/name/file"):
        huggingface.parse(f"hf://{rest}")


class Gated(OSError):
    pass


class Absent(OSError):
    pass


class Refused(OSError):
    pass


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A stand-in for `huggingface_hub` that serves one file and notes how it was asked."""
    calls = []
    served = tmp_path / "hf" / "file.bin"
    served.parent.mkdir()
    served.write_bytes(DATA)

    def download(repository, file, **options):
        calls.append((repository, file, options))
        if isinstance(hub.answer, BaseException):
            raise hub.answer
        if options["force_download"]:
            served.write_bytes(DATA)
        return str(served)

    errors = types.SimpleNamespace(
        GatedRepoError=Gated, LocalEntryNotFoundError=Absent, HfHubHTTPError=Refused, EntryNotFoundError=Refused
    )
    hub = types.ModuleType("huggingface_hub")
    hub.hf_hub_download, hub.errors, hub.calls, hub.answer, hub.served = download, errors, calls, None, served
    hub.try_to_load_from_cache = lambda repository, file, **options: str(served) if file == "file.bin" else None
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)
    return hub


def test_a_file_of_the_hub_stays_in_the_hubs_own_cache(hub):
    assert fetch("hf://me/model/file.bin@v1", sha256=SHA) == hub.served
    assert hub.calls == [
        (
            "me/model",
            "file.bin",
            {"revision": "v1", "repo_type": "model", "local_files_only": False, "force_download": False},
        )
    ]
    assert cached("hf://me/model/file.bin@v1", sha256=SHA) == hub.served
    assert cached("hf://me/model/other.bin") is None


def test_a_file_of_the_hub_is_linked_or_copied_where_a_place_was_asked_for(hub, tmp_path):
    path = fetch("hf://me/model/file.bin@v1", sha256=SHA, root=tmp_path / "root", filename="mine")
    assert path == tmp_path / "root" / "mine"
    assert path.read_bytes() == DATA


def test_a_damaged_file_of_the_hub_is_fetched_once_more(hub):
    hub.served.write_bytes(b"damaged")
    assert fetch("hf://me/model/file.bin", sha256=SHA).read_bytes() == DATA
    with pytest.raises(HashMismatchError):
        fetch("hf://me/model/file.bin", sha256="0" * 64)


def test_offline_looks_into_the_hubs_cache_alone(hub, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")
    fetch("hf://me/model/file.bin")
    assert hub.calls[0][2]["local_files_only"]
    hub.answer = Absent("not there")
    with pytest.raises(OfflineError, match=r"hf download me/model file\.bin"):
        fetch("hf://me/model/file.bin")


@pytest.mark.parametrize(("answer", "error", "match"), [
    (Gated("403"), GatedError, "Ask for access at https://huggingface.co/me/model"),
    (Absent("no connection"), DownloadError, "cannot be reached"),
    (Refused("404"), DownloadError, "404"),
])  # fmt: skip
def test_refusals_of_the_hub_are_told_apart(hub, answer, error, match):
    hub.answer = answer
    with pytest.raises(error, match=match):
        fetch("hf://me/model/file.bin")


def test_without_the_hubs_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(HubError, match=r"pip install 'flambeau-core\[hub\]'"):
        fetch("hf://me/model/file.bin")


def test_the_real_library_is_called_as_it_wants(monkeypatch, tmp_path):
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")
    with pytest.raises(OfflineError):
        fetch("hf://flambeau-tests/there-is-no-such-model/file.bin")
    assert cached("hf://flambeau-tests/there-is-no-such-model/file.bin") is None


# --- the package itself -------------------------------------------------------------------------------------------


def test_importing_the_hub_loads_nothing_heavy():
    code = (
        "import flambeau.core.hub as hub, sys; hub.fetch; hub.extract_archive; hub.purge; "
        "heavy = 'urllib3', 'tqdm', 'torch', 'numpy', 'filelock', 'ssl', 'http.client'; "
        "print([module for module in heavy if module in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


@pytest.mark.parametrize("error", [
    HashMismatchError("m", url="u", expected="e", actual="a", size=1),
    DiskFullError("m", url="u", needed=1, free=2),
    GatedError("m", url="u", status=403),
    TransferError("m", url="u", status=500, again=True, wait_s=1.0),
])  # fmt: skip
def test_errors_survive_the_way_from_a_worker_process(error):
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == "m"
    assert vars(again) == vars(error)
