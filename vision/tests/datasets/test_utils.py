"""Fetching, unpacking and listing under upstream's names."""

import hashlib
import io
import tarfile

import pytest

from flambeau.core.errors import DownloadError, HashMismatchError, UnsafeArchiveError
from flambeau.core.testing.server import FileServer
from flambeau.vision.datasets import utils


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_md5_is_calculated_and_compared(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    assert utils.calculate_md5(path) == utils.calculate_md5(str(path), chunk_size=1) == md5(b"abc")
    assert utils.check_md5(path, md5(b"abc"))
    assert not utils.check_md5(path, md5(b"abd"))
    assert utils.check_integrity(path)
    assert utils.check_integrity(path, md5(b"abc"))
    assert not utils.check_integrity(path, md5(b""))
    assert not utils.check_integrity(tmp_path / "absent")


def test_a_file_is_fetched_once_and_kept(tmp_path):
    with FileServer({"a.bin": b"content"}) as server:
        for _ in range(2):
            utils.download_url(server.url("a.bin"), tmp_path / "new", md5=md5(b"content"))
        utils.download_url(server.url("a.bin"), str(tmp_path), filename="other.bin")
        assert len(server.log) == 2
    assert (tmp_path / "new" / "a.bin").read_bytes() == (tmp_path / "other.bin").read_bytes() == b"content"


def test_another_md5_is_an_error_and_leaves_nothing(tmp_path):
    with FileServer({"a.bin": b"content"}) as server, pytest.raises(DownloadError, match=md5(b"content")):
        utils.download_url(server.url("a.bin"), tmp_path, md5=md5(b"other"))
    assert not (tmp_path / "a.bin").exists()


@pytest.mark.filterwarnings("ignore:.*damaged.*fetched again")
def test_a_damaged_file_is_fetched_again(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"contend")
    with FileServer({"a.bin": b"content"}) as server:
        utils.download_url(server.url("a.bin"), tmp_path, md5=md5(b"content"))
    assert (tmp_path / "a.bin").read_bytes() == b"content"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_archive_is_fetched_and_unpacked(tmp_path, elsewhere):
    content = archive({"data/x.txt": b"x", "data/y.txt": b"y"})
    to = tmp_path / "unpacked" if elsewhere else None
    with FileServer({"a.tar.gz": content}) as server:
        utils.download_and_extract_archive(
            server.url("a.tar.gz"), tmp_path / "root", to, md5=md5(content), remove_finished=elsewhere
        )
    assert ((to or tmp_path / "root") / "data" / "y.txt").read_bytes() == b"y"
    assert (tmp_path / "root" / "a.tar.gz").exists() is not elsewhere


def test_an_archive_cannot_leave_its_folder(tmp_path):
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a.tar.gz"
    path.write_bytes(archive({"../escaped.txt": b"x"}))
    with pytest.raises(UnsafeArchiveError):
        utils.extract_archive(path)
    assert not (tmp_path / "escaped.txt").exists()


def test_listings_are_sorted_and_may_have_their_folder_before_them(tmp_path):
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.png").touch()
    (tmp_path / "c.txt").touch()
    assert utils.list_dir(tmp_path) == ["a", "b"]
    assert utils.list_files(tmp_path, ".png") == ["a.png", "b.png"]
    assert utils.list_files(str(tmp_path), (".png", ".txt"), prefix=True) == [
        str(tmp_path / name) for name in ("a.png", "b.png", "c.txt")
    ]
    assert utils.list_dir(tmp_path, prefix=True)[0] == str(tmp_path / "a")


def test_an_argument_with_fixed_values_is_checked():
    assert utils.verify_str_arg("train", "split", ("train", "test")) == "train"
    assert utils.verify_str_arg("anything") == "anything"
    with pytest.raises(ValueError, match=r"'trian' for argument split. .*\{'train', 'test'\}. Did you mean 'train'"):
        utils.verify_str_arg("trian", "split", ("train", "test"))
    with pytest.raises(ValueError, match="Expected type str for argument split, but got type <class 'int'>"):
        utils.verify_str_arg(3, "split")
    with pytest.raises(ValueError, match=r"^my words$"):
        utils.verify_str_arg("x", "split", ("y",), custom_msg="my words")


def test_items_are_quoted_and_separated():
    assert utils.iterable_to_str(["a", 1]) == "'a', '1'"


@pytest.fixture
def drive(monkeypatch):
    """A server that stands for Google Drive, holding one file."""
    with FileServer({"download": b"the file"}) as server:
        monkeypatch.setenv("FLAMBEAU_MIRRORS", f"https://drive.usercontent.google.com/={server.url('')}")
        yield server


def test_a_file_is_fetched_from_google_drive_once(tmp_path, drive):
    md5 = hashlib.md5(b"the file").hexdigest()
    for _ in range(2):
        utils.download_file_from_google_drive("1abc", tmp_path / "data", "file.bin", md5)
    assert (tmp_path / "data" / "file.bin").read_bytes() == b"the file"
    assert len(drive.log) == 1
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["file.bin"]


@pytest.mark.parametrize("md5", [None, "0" * 32])
def test_a_page_in_place_of_the_file_is_told_and_not_saved(tmp_path, drive, md5):
    drive.files["download"] = b"\n<!DOCTYPE html><title>Google Drive - Quota exceeded</title>"
    with pytest.raises(DownloadError, match=r"sent a web page in place of file.bin \(id 1abc.*quota may be used up"):
        utils.download_file_from_google_drive("1abc", tmp_path, "file.bin", md5)
    assert list(tmp_path.iterdir()) == []


def test_another_file_than_announced_is_not_saved(tmp_path, drive):
    with pytest.raises(HashMismatchError, match=r"sent a file with md5 .* in place of 1abc"):
        utils.download_file_from_google_drive("1abc", tmp_path, md5="0" * 32)
    assert list(tmp_path.iterdir()) == []
