"""Fetching, unpacking and verifying under upstream's names."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch

from flambeau import text
from flambeau.core.errors import DownloadError, HashMismatchError, UnsafeArchiveError
from flambeau.core.testing.server import FileServer
from flambeau.text import utils
from flambeau.text._download_hooks import DownloadManager, load_state_dict_from_url
from flambeau.text._internal.module_utils import is_module_available
from flambeau.text.vocab import Vocab

CONTENT = b"the content"


def digest(kind: str) -> str:
    return hashlib.new(kind, CONTENT).hexdigest()


def archive(kind: str, members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w") as packed:
            for name, content in members.items():
                packed.writestr(name, content)
        return buffer.getvalue()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_a_file_is_fetched_once_and_verified(tmp_path, kind):
    with FileServer({"a.txt": CONTENT}) as server:
        for _ in range(2):
            path = utils.download_from_url(
                server.url("a.txt"), root=tmp_path / "new", hash_value=digest(kind), hash_type=kind
            )
        assert len(server.log) == 1
    assert path == str(tmp_path / "new" / "a.txt")
    assert Path(path).read_bytes() == CONTENT


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_what_is_not_announced_is_refused(tmp_path, kind):
    wrong = hashlib.new(kind, b"other").hexdigest()
    with FileServer({"a.txt": CONTENT}) as server, pytest.raises(RuntimeError, match=r"a\.txt"):
        utils.download_from_url(server.url("a.txt"), root=tmp_path, hash_value=wrong, hash_type=kind)
    assert not (tmp_path / "a.txt").exists()


def test_a_file_that_is_there_and_something_else_is_named(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"damaged")
    with pytest.raises(HashMismatchError, match=r"a\.txt does not match.*overwrite=True"):
        utils.download_from_url("http://127.0.0.1:9/a.txt", root=tmp_path, hash_value=digest("md5"), hash_type="md5")


def test_overwriting_keeps_the_old_file_until_there_is_a_good_new_one(tmp_path):
    path = tmp_path / "named.txt"
    path.write_bytes(b"old")
    with FileServer({"a.txt": CONTENT}) as server:
        with pytest.raises(DownloadError):
            utils.download_from_url(server.url("absent.txt"), path=path, overwrite=True)
        assert path.read_bytes() == b"old"
        utils.download_from_url(server.url("a.txt"), path=path, overwrite=True)
    assert path.read_bytes() == CONTENT
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".flambeau-incoming")] == []


def test_other_hashes_are_refused(tmp_path):
    with pytest.raises(ValueError, match="'sha256' or 'md5'"):
        utils.validate_file(io.BytesIO(), "", "crc")
    with pytest.raises(ValueError, match="'sha256' or 'md5'"):
        utils.download_from_url("http://127.0.0.1:9/a", root=tmp_path, hash_type="crc")


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "tgz"])
def test_archives_are_unpacked(tmp_path, kind):
    packed = tmp_path / f"a.{kind}"
    packed.write_bytes(archive(kind, {"one.txt": b"1", "folder/two.txt": b"2"}))
    target = tmp_path / "out"
    assert utils.extract_archive(packed, target) == [str(target / "folder" / "two.txt"), str(target / "one.txt")]
    (target / "one.txt").write_bytes(b"mine")
    utils.extract_archive(packed, target)
    assert (target / "one.txt").read_bytes() == b"mine"
    utils.extract_archive(packed, target, overwrite=True)
    assert sorted(file.name for file in target.rglob("*")) == ["folder", "one.txt", "two.txt"]
    assert (target / "one.txt").read_bytes() == b"1"


def test_a_compressed_file_is_unpacked_beside_itself(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(CONTENT))
    assert utils.extract_archive(tmp_path / "a.txt.gz") == [str(tmp_path / "a.txt")]
    assert (tmp_path / "a.txt").read_bytes() == CONTENT


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_an_archive_that_leaves_its_folder_is_refused(tmp_path, kind):
    packed = tmp_path / f"evil.{kind}"
    packed.write_bytes(archive(kind, {"../evil.txt": b"x", "good.txt": b"y"}))
    with pytest.raises(UnsafeArchiveError):
        utils.extract_archive(packed, tmp_path / "out")
    assert not (tmp_path / "evil.txt").exists()
    assert list((tmp_path / "out").iterdir()) == []


def test_other_archives_are_refused(tmp_path):
    with pytest.raises(NotImplementedError, match=r"\.tar\.gz, \.tgz, \.zip, \.gz"):
        utils.extract_archive(tmp_path / "a.rar")


def test_an_asset_is_a_file_or_fetched_into_the_cache(home, tmp_path):
    (tmp_path / "here.txt").write_bytes(CONTENT)
    assert utils.get_asset_local_path(str(tmp_path / "here.txt")) == str(tmp_path / "here.txt")
    with FileServer({"a.txt": CONTENT}) as server:
        for _ in range(2):
            path = utils.get_asset_local_path(server.url("a.txt"))
        assert len(server.log) == 1
    assert path == str(home / "text" / "a.txt") == str(Path(text._CACHE_DIR) / "a.txt")
    assert Path(utils.get_lock_dir()) == home / "text" / "locks"
    with pytest.raises(FileNotFoundError, match="no URL either"):
        utils.get_asset_local_path("absent.txt")


def test_a_bar_moves_with_the_blocks():
    class Bar:
        total, done = None, 0

        def update(self, amount):
            self.done += amount

    bar = Bar()
    hook = utils.reporthook(bar)
    hook(0, 10, 35)
    hook(2, 10, 35)
    hook(3, 10, 35)
    assert (bar.total, bar.done) == (35, 30)


def test_states_and_vocabularies_are_loaded_from_urls(home, tmp_path):
    vocabulary, state = io.BytesIO(), io.BytesIO()
    torch.save(Vocab(["a", "b"]), vocabulary)
    torch.save({"weight": torch.ones(2)}, state)
    name = f"model-{hashlib.sha256(state.getvalue()).hexdigest()[:8]}.pt"
    with FileServer({"x.vocab.pt": vocabulary.getvalue(), name: state.getvalue(), "m-00000000.pt": b"?"}) as server:
        assert load_state_dict_from_url(server.url("x.vocab.pt"))(["b"]) == [1]
        loaded = load_state_dict_from_url(server.url(name), model_dir=tmp_path, check_hash=True)
        assert loaded["weight"].tolist() == [1, 1]
        with pytest.raises(HashMismatchError):
            load_state_dict_from_url(server.url("m-00000000.pt"), check_hash=True)
        target = tmp_path / "there" / "m.pt"
        for _ in range(2):
            assert DownloadManager().get_local_path(server.url(name), target) == str(target)
        assert [request.path for request in server.log].count(name) == 2


def test_top_level_names_are_upstreams(home):
    assert text.disable_torchtext_deprecation_warning() is None
    assert text._TEXT_BUCKET == "https://download.pytorch.org/models/text/"
    assert Path(text._CACHE_DIR) == home / "text"
    with pytest.raises(AttributeError, match="legacy"):
        _ = text.legacy


def test_modules_are_asked_for_without_importing_them():
    assert is_module_available("torch", "json")
    assert not is_module_available("torch", "no_such_module")
