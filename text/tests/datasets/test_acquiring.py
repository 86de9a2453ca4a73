"""How files come into place: mirrors, copies, the user's own folder, killed processes, and two at once."""

import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from flambeau.core.errors import (
    DatasetMissingError,
    DownloadError,
    HashMismatchError,
    HubError,
    HubWarning,
    OfflineError,
)
from flambeau.core.testing.server import FileServer, Reply
from flambeau.text.datasets._locations import Download
from flambeau.text.datasets._urls import addresses

# What stands for a fetch in a process of its own: the tables are changed as a user would change them.
_PROGRAM = """
    import sys
    from flambeau.text.datasets import sst2
    sst2.URL, sst2.MD5 = sys.argv[1:3]
    print(len(list(sst2.SST2(root=sys.argv[3], split="train"))))
"""


def process(published):
    program = [sys.executable, "-c", textwrap.dedent(_PROGRAM)]
    arguments = [published.module.URL, published.module.MD5, str(published.root)]
    return subprocess.Popen([*program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_download_that_is_killed_leaves_nothing_that_a_later_run_trusts(publish):
    published, gate = publish("SST2"), threading.Event()
    published.server.next("SST-2.zip", Reply(wait_after=100, gate=gate))
    child = process(published)
    published.server.wait(lambda server: server.sent("SST-2.zip") >= 100)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not (published.folder / "SST-2.zip").exists()
    assert not (published.folder / "SST-2").exists()
    assert list(published.pipe("train")) == published.items["train"]


def test_two_processes_on_one_cache_both_get_the_items(publish):
    published = publish("SST2")
    children = [process(published) for _ in range(2)]
    answers = [child.communicate(timeout=120) for child in children]
    assert [answer[0].strip() for answer in answers] == [str(len(published.items["train"]))] * 2, answers


def test_an_archive_that_was_half_unpacked_is_unpacked_again(publish):
    published = publish("SST2")
    list(published.pipe("train"))
    text = published.folder / "SST-2" / "train.tsv"
    text.rename(text.with_name(".train.tsv.1.abcdef01.part"))  # as a killed process leaves it
    assert list(published.pipe("train")) == published.items["train"]


def test_only_what_the_split_needs_is_unpacked(publish):
    published = publish("SST2")
    list(published.pipe("dev"))
    assert [path.name for path in (published.folder / "SST-2").iterdir()] == ["dev.tsv"]


def test_an_archive_without_the_text_says_so(publish, monkeypatch):
    published = publish("SST2")
    monkeypatch.setitem(published.module._EXTRACTED_FILES, "train", "SST-2/moved.tsv")
    with pytest.raises(HubError, match=r"SST2: what was fetched has no SST-2/moved\.tsv"):
        list(published.pipe("train"))


def test_an_archive_without_a_digest_is_checked_by_its_texts_and_nothing_else_is_kept(publish, monkeypatch):
    published = publish("SogouNews")
    monkeypatch.setattr(published.module, "MD5", None)
    assert list(published.pipe("test")) == published.items["test"]
    monkeypatch.setitem(published.module._EXTRACTED_FILES_MD5, "train", "0" * 32)
    with pytest.raises(HashMismatchError, match=r"train\.csv: md5 is"):
        list(published.pipe("train"))
    assert [path.name for path in published.folder.rglob("*.csv")] == ["test.csv"]
    assert not list(published.folder.rglob("*.part"))


def test_the_tables_are_read_at_each_call(publish, monkeypatch):
    published = publish("SST2")
    monkeypatch.setattr(published.module, "URL", published.server.url("nowhere.zip"))
    with pytest.raises(DownloadError, match=r"nowhere\.zip"):
        list(published.pipe("train"))


def test_where_the_address_fails_a_copy_of_the_contents_serves(publish, monkeypatch):
    published = publish("YelpReviewFull")
    body = published.server.files.pop("yelp_review_full_csv.tar.gz")
    published.server.files["other/yelp.tgz"] = body
    copy = Download(published.server.url("other/yelp.tgz"), "yelp.tgz", hashlib.sha256(body).hexdigest())
    monkeypatch.setattr(published.module, "_COPIES", (copy,))
    assert list(published.pipe("test")) == published.items["test"]
    damaged = Download(copy.url, "again.tgz", "0" * 64)
    monkeypatch.setattr(published.module, "_COPIES", (damaged,))
    (published.folder / "yelp_review_full_csv" / "test.csv").unlink()
    with pytest.raises(DownloadError, match=r"(?s)yelp_review_full_csv\.tar\.gz.*again\.tgz"):
        list(published.pipe("test"))


def test_the_inner_archive_of_iwslt2017_serves_where_the_outer_one_fails(publish, monkeypatch):
    published = publish("IWSLT2017")
    list(published.pipe("train"))
    inner = next(published.folder.rglob("DeEnItNlRo-DeEnItNlRo.tgz")).read_bytes()
    published.server.files.clear()
    published.server.files["inner.tgz"] = inner
    monkeypatch.setattr(published.module, "_INNER_URL", published.server.url("inner.tgz"))
    monkeypatch.setattr(published.module, "_INNER_SHA256", hashlib.sha256(inner).hexdigest())
    published.root = published.root / "other"
    assert list(published.pipe("valid")) == published.items["valid"]


def test_a_mirror_is_asked_first_and_checked(publish):
    published = publish("SST2")
    with FileServer({"text/SST-2.zip": published.server.files["SST-2.zip"]}) as mirror:
        dataset = published.indexed("dev", mirror=mirror.url("text"))
        assert len(dataset) == len(published.items["dev"])
        assert mirror.requests("text/SST-2.zip") and not published.server.log
    with FileServer({"text/SST-2.zip": b"another file"}) as mirror:
        published.root = published.root / "other"
        assert len(published.indexed("dev", mirror=mirror.url("text"))) == len(published.items["dev"])
        assert published.server.requests("SST-2.zip")


def test_an_archive_in_the_users_folder_is_read_and_nothing_is_fetched_or_written_there(publish):
    published = publish("SST2")
    before = sorted(published.files.rglob("*"))
    dataset = published.indexed("dev", from_dir=published.files)
    assert [dataset[index] for index in range(len(dataset))] == published.items["dev"]
    assert not published.server.log
    assert sorted(published.files.rglob("*")) == before


@pytest.mark.parametrize("below", ["SST-2", "."])
def test_unpacked_files_in_the_users_folder_are_read(publish, tmp_path, below):
    published = publish("SST2")
    own = tmp_path / "own" / below
    own.mkdir(parents=True)
    (own / "dev.tsv").write_text("sentence\tlabel\nfine \t1\n")
    dataset = published.indexed("dev", from_dir=tmp_path / "own")
    assert [dataset[0]] == [("fine", 1)]
    assert not published.server.log


def test_a_users_folder_without_the_files_is_an_error_that_names_them(publish, tmp_path):
    published = publish("SST2")
    with pytest.raises(DatasetMissingError, match=r"(?s)SST2: .*/own has neither SST-2\.zip nor what is unpacked"):
        published.indexed("dev", from_dir=tmp_path / "own")


def test_a_damaged_archive_in_the_users_folder_is_refused(publish, tmp_path):
    published = publish("SST2")
    (tmp_path / "SST-2.zip").write_bytes(b"not it")
    with pytest.raises(HashMismatchError, match=r"SST-2\.zip: md5 is"):
        published.indexed("dev", from_dir=tmp_path)


def test_without_download_what_is_missing_is_named_with_both_ways_out(publish):
    published = publish("SST2")
    with pytest.raises(DatasetMissingError, match=r"(?s)SST-2\.zip is missing.*download=True.*by hand"):
        published.indexed("dev", download=False)


def test_google_drive_is_asked_where_it_sends_large_files_at_once():
    (address,) = addresses("https://drive.google.com/uc?export=download&id=1a-b_c")
    assert address == "https://drive.usercontent.google.com/download?id=1a-b_c&export=download&confirm=t"
    assert addresses("https://example.org/uc?id=1") == ("https://example.org/uc?id=1",)


def test_processes_that_were_forked_after_the_index_was_opened_read_it(publish):
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this platform cannot fork")
    dataset = publish("SST2").indexed("train")
    first = dataset[0]
    child = os.fork()
    if child == 0:
        os._exit(0 if dataset[0] == first else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_offline_a_file_with_another_digest_is_called_damaged_and_not_absent(publish, monkeypatch):
    published = publish("SST2")
    list(published.pipe("dev"))
    archive = published.folder / "SST-2.zip"
    archive.write_bytes(archive.read_bytes()[:-1] + b"x")
    (published.folder / "SST-2" / "dev.tsv").unlink()
    monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")
    with pytest.warns(HubWarning, match="damaged"), pytest.raises(HashMismatchError, match="switched off") as caught:
        list(published.pipe("dev"))
    assert str(archive) in str(caught.value)
    assert published.module.MD5 in str(caught.value)
    archive.unlink()
    with pytest.raises(OfflineError, match="not in place"):
        list(published.pipe("dev"))


def test_a_file_url_serves_as_any_other_address(publish, monkeypatch):
    published = publish("SST2")
    monkeypatch.setattr(published.module, "URL", (published.files / "SST-2.zip").as_uri())
    assert list(published.pipe("dev")) == published.items["dev"]
    assert not published.server.log
