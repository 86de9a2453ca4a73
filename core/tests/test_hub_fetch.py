"""A file is fetched through cuts, stalls, refusals and lies, and becomes visible only when it is whole and right."""

import hashlib
import os
import random
import stat
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path

import pytest

from flambeau.core.errors import DownloadError, GatedError, HashMismatchError, HubWarning, OfflineError
from flambeau.core.hub import cached, downloads, fetch
from flambeau.core.testing.server import FileServer, Reply

DATA = random.Random(0).randbytes(400_000)
SHA = hashlib.sha256(DATA).hexdigest()
OTHER = random.Random(1).randbytes(400_000)

pytestmark = pytest.mark.usefixtures("flambeau_home")


@pytest.fixture(params=["urllib3", "stdlib"])
def library(request, monkeypatch):
    """Both libraries that can carry a request; without urllib3 the standard library does."""
    if request.param == "stdlib":
        monkeypatch.setitem(sys.modules, "urllib3", None)
    else:
        pytest.importorskip("urllib3")
    return request.param


@pytest.fixture
def server():
    with FileServer({"a.bin": DATA, "good/a.bin": DATA, "bad/a.bin": OTHER}) as server:
        yield server


@pytest.fixture
def pauses(monkeypatch):
    """The seconds that would have been waited between attempts."""
    waited = []
    monkeypatch.setattr(downloads, "pause", waited.append)
    return waited


@pytest.fixture
def get(server, tmp_path, pauses, library):
    """Fetch `a.bin` into a folder of its own."""

    def get(path="a.bin", **options):
        return fetch(server.url(path), root=tmp_path / "root", **options)

    return get


def left(tmp_path):
    """What is in the folder besides locks."""
    folder = tmp_path / "root"
    return sorted(name for name in os.listdir(folder) if not name.endswith(".lock")) if folder.exists() else []


def ranges(server):
    return [request.headers.get("range") for request in server.requests()]


# --- the plain case -----------------------------------------------------------------------------------------------


def test_a_file_arrives_whole_under_a_name_that_begins_with_its_hash(get, tmp_path):
    path = get(sha256=SHA, size=len(DATA))
    assert path == tmp_path / "root" / f"{SHA[:16]}-a.bin"
    assert path.read_bytes() == DATA
    assert left(tmp_path) == [path.name, f"{path.name}.ok"]


def test_without_a_hash_the_name_is_the_urls(get, tmp_path):
    assert get().name == "a.bin"


def test_by_default_files_go_to_the_cache(server, flambeau_home):
    assert fetch(server.url("a.bin")) == flambeau_home / "files" / "a.bin"


def test_a_prefix_of_the_hash_is_enough(get):
    assert get(sha256=SHA[:8].upper()).name == f"{SHA[:8]}-a.bin"


def test_a_fetched_file_is_neither_asked_for_nor_hashed_again(get, server, monkeypatch):
    path = get(sha256=SHA)
    monkeypatch.setattr(hashlib, "file_digest", lambda *arguments: pytest.fail("hashed again"))
    monkeypatch.setattr(hashlib, "sha256", lambda *arguments: pytest.fail("hashed again"))
    assert [get(sha256=SHA) for _ in range(3)] == [path] * 3
    assert len(server.requests()) == 1


def test_an_empty_file_is_a_file(get, server):
    server.files["empty"] = b""
    assert get("empty", size=0, sha256=hashlib.sha256().hexdigest()).read_bytes() == b""


def test_the_file_has_the_permissions_of_any_file_the_user_makes(get):
    umask = os.umask(0o027)
    try:
        assert stat.S_IMODE(get().stat().st_mode) == 0o640
    finally:
        os.umask(umask)


def test_bytes_are_asked_for_as_they_are(get, server):
    get()
    assert server.requests()[0].headers["accept-encoding"] == "identity"


def test_a_path_object_is_verified_and_returned(tmp_path):
    (tmp_path / "mine").write_bytes(DATA)
    assert fetch(tmp_path / "mine", sha256=SHA) == tmp_path / "mine"
    with pytest.raises(HashMismatchError):
        fetch(tmp_path / "mine", sha256="0" * 64)


# --- broken connections -------------------------------------------------------------------------------------------


def test_a_connection_cut_in_the_middle_resumes_where_it_broke(get, server):
    server.next("a.bin", Reply(cut_after=150_000))
    assert get(sha256=SHA).read_bytes() == DATA
    assert ranges(server) == [None, "bytes=150000-"]
    assert server.requests()[1].headers["if-range"] == f'"{SHA[:16]}"'
    assert server.sent() == len(DATA)


def test_a_connection_that_is_reset_resumes(get, server):
    server.next("a.bin", Reply(cut_after=150_000, reset=True))
    assert get(sha256=SHA).read_bytes() == DATA
    assert server.requests()[1].status in (200, 206)


def test_a_connection_that_stalls_is_given_up_and_resumed(get, server):
    server.next("a.bin", Reply(wait_after=150_000, gate=threading.Event()))
    assert get(sha256=SHA, timeout=1.5).read_bytes() == DATA
    assert ranges(server) == [None, "bytes=150000-"]


def test_a_connection_closed_without_an_answer_is_tried_again(get, server):
    server.next("a.bin", Reply(drop=True), Reply(drop=True, reset=True))
    assert get(sha256=SHA).read_bytes() == DATA


def test_attempts_that_bring_something_do_not_count(get, server):
    server.next("a.bin", *(Reply(cut_after=30_000) for _ in range(12)))
    assert get(sha256=SHA, retries=0).read_bytes() == DATA
    assert server.sent() == len(DATA)


def test_attempts_that_bring_only_what_was_there_already_do_count(get, server, pauses, tmp_path):
    server.always["a.bin"] = Reply(cut_after=30_000, ranges=False)
    with pytest.raises(DownloadError, match=r"ended after 30,000 of 400,000 bytes"):
        get(sha256=SHA, retries=3)
    assert len(server.requests()) == 5  # one that brought bytes, the one after it, and three more
    assert len(pauses) == 4


def test_a_body_shorter_than_announced_is_never_accepted(get, server, tmp_path):
    server.always["a.bin"] = Reply(body=DATA[:300_000], length=len(DATA))
    with pytest.raises(DownloadError, match=r"300,000 of 400,000"):
        get(retries=1)
    assert not (tmp_path / "root" / "a.bin").exists()


def test_a_body_without_length_ends_with_its_last_chunk(get, server):
    server.next("a.bin", Reply(chunked=True))
    assert get().read_bytes() == DATA


def test_a_chunked_body_that_breaks_off_is_resumed_and_never_accepted(get, server):
    server.next("a.bin", Reply(chunked=True, cut_after=100_000))
    assert get().read_bytes() == DATA
    assert ranges(server) == [None, "bytes=100000-"]


def test_a_body_that_ends_with_the_connection_is_judged_by_its_hash(get, server):
    server.next("a.bin", Reply(length=None, cut_after=100_000))
    assert get(sha256=SHA).read_bytes() == DATA  # asked for again from zero, for nothing announced how long it is
    assert ranges(server) == [None, None]


def test_more_than_announced_is_not_accepted(get, server):
    server.next("a.bin", Reply(chunked=True, body=DATA + b"surplus"))
    assert get(sha256=SHA, size=len(DATA)).read_bytes() == DATA


# --- resuming -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said", ["bytes 0-399999/400000", "bytes 150001-399999/400000", "bytes 150000-399999/500000", "x"]
)
def test_a_part_that_does_not_fit_is_thrown_away_and_the_whole_asked_for(get, server, said):
    server.next("a.bin", Reply(cut_after=150_000), Reply(content_range=said))
    assert get(sha256=SHA).read_bytes() == DATA
    assert ranges(server) == [None, "bytes=150000-", None]


def test_a_server_that_ignores_ranges_sends_the_whole_again(get, server):
    server.next("a.bin", Reply(cut_after=150_000), Reply(ranges=False))
    assert get(sha256=SHA).read_bytes() == DATA


def test_a_part_nobody_asked_for_is_refused(get, server):
    server.always["a.bin"] = Reply(status=206)
    with pytest.raises(DownloadError, match="sent a part"):
        get()


def test_a_file_that_changed_meanwhile_is_fetched_from_zero(get, server, pauses, monkeypatch):
    server.next("a.bin", Reply(cut_after=150_000))
    monkeypatch.setattr(downloads, "pause", lambda s: server.files.update({"a.bin": OTHER}))
    assert get().read_bytes() == OTHER


def test_a_server_that_continues_with_another_file_is_found_out_by_its_etag(get, server):
    server.next("a.bin", Reply(cut_after=150_000), Reply(headers={"ETag": '"other"'}))
    assert get().read_bytes() == DATA
    assert ranges(server) == [None, "bytes=150000-", None]


def test_a_weak_etag_is_not_used_to_resume(get, server):
    server.next("a.bin", Reply(cut_after=150_000, headers={"ETag": 'W/"weak"'}), Reply(headers={"ETag": 'W/"weak"'}))
    assert get().read_bytes() == DATA
    assert server.requests()[1].headers["if-range"] == formatdate(1_700_000_000, usegmt=True)


def test_without_anything_to_recognise_the_file_by_it_is_fetched_from_zero(get, server):
    anonymous = {"ETag": None, "Last-Modified": None}
    server.next("a.bin", Reply(cut_after=150_000, headers=anonymous))
    assert get().read_bytes() == DATA
    assert ranges(server) == [None, None]


def test_a_hash_is_enough_to_resume(get, server):
    server.next("a.bin", Reply(cut_after=150_000, headers={"ETag": None, "Last-Modified": None}))
    assert get(sha256=SHA).read_bytes() == DATA
    assert ranges(server) == [None, "bytes=150000-"]
    assert "if-range" not in server.requests()[1].headers


def test_another_mirror_continues_what_the_first_began(get, server):
    server.next("bad/a.bin", Reply(cut_after=150_000))
    server.always["bad/a.bin"] = Reply(status=404)
    server.files["bad/a.bin"] = DATA
    assert get("bad/a.bin", sha256=SHA, mirrors=[server.url("good/a.bin")]).read_bytes() == DATA
    assert server.requests("good/a.bin")[0].headers["range"] == "bytes=150000-"
    assert server.sent() == len(DATA)


def test_a_failed_call_leaves_what_came_for_the_next(get, server, tmp_path):
    server.next("a.bin", Reply(cut_after=150_000), Reply(status=404))
    with pytest.raises(DownloadError, match="404"):
        get(sha256=SHA)
    assert [Path(name).suffix for name in left(tmp_path)] == [".part", ".json"]
    assert get(sha256=SHA).read_bytes() == DATA
    assert server.sent() == len(DATA)
    assert left(tmp_path) == [f"{SHA[:16]}-a.bin", f"{SHA[:16]}-a.bin.ok"]


def test_an_interrupt_leaves_what_came_for_the_next_call(get, server, monkeypatch):
    def interrupt(seconds):
        raise KeyboardInterrupt

    server.next("a.bin", Reply(cut_after=150_000))
    monkeypatch.setattr(downloads, "pause", interrupt)
    with pytest.raises(KeyboardInterrupt):
        get()
    assert get().read_bytes() == DATA
    assert ranges(server) == [None, "bytes=150000-"]


def test_a_complete_leftover_is_verified_without_a_request(get, server, monkeypatch):
    monkeypatch.setattr(downloads.Partial, "publish", lambda self, final: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        get(sha256=SHA)
    monkeypatch.undo()
    assert get(sha256=SHA).read_bytes() == DATA
    assert len(server.requests()) == 1


def test_a_complete_leftover_without_a_hash_is_confirmed_by_the_server(get, server, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(downloads.Partial, "publish", lambda self, final: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            get()
    assert get().read_bytes() == DATA
    assert [request.status for request in server.requests()] == [200, 416]


def test_a_leftover_beyond_the_end_is_thrown_away(get, server):
    server.next("a.bin", Reply(cut_after=150_000))
    server.next("a.bin", Reply(status=416, headers={"Content-Range": "bytes */100"}))
    assert get(sha256=SHA).read_bytes() == DATA
    assert ranges(server) == [None, "bytes=150000-", None]


# --- wrong content ------------------------------------------------------------------------------------------------


def test_a_wrong_checksum_leaves_nothing_and_names_both_digests(get, server, tmp_path):
    with pytest.raises(HashMismatchError) as caught:
        get("bad/a.bin", sha256=SHA)
    actual = hashlib.sha256(OTHER).hexdigest()
    assert SHA in str(caught.value)
    assert actual in str(caught.value)
    error = caught.value
    assert (error.url, error.expected, error.actual, error.size) == (server.url("bad/a.bin"), SHA, actual, len(OTHER))
    assert left(tmp_path) == []
    assert ranges(server) == [None, None]  # once more from zero, and no more


def test_a_wrong_file_is_followed_by_the_next_mirror(get, server):
    assert get("bad/a.bin", sha256=SHA, mirrors=[server.url("good/a.bin")]).read_bytes() == DATA
    assert [request.path for request in server.requests()] == ["bad/a.bin", "good/a.bin"]
    assert server.requests()[1].headers.get("range") is None


def test_damage_on_the_way_is_repaired_by_asking_once_more(get, server):
    server.next("a.bin", Reply(body=OTHER))
    assert get(sha256=SHA).read_bytes() == DATA


def test_an_announced_size_that_is_wrong_is_enough_to_refuse(get, server, tmp_path):
    with pytest.raises(HashMismatchError, match=r"400,000 bytes, expected 399,999"):
        get(size=len(DATA) - 1)
    assert left(tmp_path) == []


def test_a_web_page_in_place_of_the_file_is_named_as_such(get, server):
    server.always["a.bin"] = Reply(body=b"\n<!DOCTYPE html><title>Log in</title>")
    with pytest.raises(HashMismatchError, match="web page"):
        get(sha256=SHA)
    server.always["a.bin"] = Reply(body=b"log in", headers={"Content-Type": "text/html"})
    with pytest.raises(HashMismatchError, match="web page"):
        get(size=len(DATA))


def test_a_body_compressed_against_our_wish_is_refused(get, server):
    server.always["a.bin"] = Reply(compress=True)
    with pytest.raises(DownloadError, match="compresses"):
        get(sha256=SHA)


def test_an_archive_that_the_server_calls_encoded_is_taken_as_it_is(get, server):
    server.files["a.tar.gz"] = DATA
    server.always["a.tar.gz"] = Reply(headers={"Content-Encoding": "x-gzip"})
    assert get("a.tar.gz", sha256=SHA).read_bytes() == DATA


# --- refusals and mirrors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_passing_refusal_is_tried_again(get, server, pauses, status):
    server.next("a.bin", Reply(status=status), Reply(status=status))
    assert get(sha256=SHA).read_bytes() == DATA
    assert 0.25 <= pauses[0] <= 1.0 <= 2 * pauses[1] <= 4.0


@pytest.mark.parametrize("status", [400, 404, 410, 451, 501])
def test_a_lasting_refusal_is_not_tried_again(get, server, status):
    server.always["a.bin"] = Reply(status=status)
    with pytest.raises(DownloadError, match=str(status)) as caught:
        get(sha256=SHA)
    assert caught.value.status == status
    assert len(server.requests()) == 1


def test_a_server_that_never_recovers_is_given_up_after_the_retries(get, server, pauses):
    server.always["a.bin"] = Reply(status=503)
    with pytest.raises(DownloadError, match="503"):
        get(retries=8)
    assert len(server.requests()) == 9
    assert max(pauses) <= 30.0


@pytest.mark.parametrize("seconds", ["7", formatdate(4_000_000_000, usegmt=True)])
def test_the_server_may_say_how_long_to_wait(get, server, pauses, monkeypatch, seconds):
    monkeypatch.setattr("flambeau.core.hub.transport.time.time", lambda: 4_000_000_000 - 7)
    server.next("a.bin", Reply(status=429, headers={"Retry-After": seconds}))
    get(sha256=SHA)
    assert pauses == [7.0]


def test_a_server_that_wants_too_long_a_wait_is_left_for_the_next(get, server, pauses):
    server.always["a.bin"] = Reply(status=503, headers={"Retry-After": "86400"})
    assert get(sha256=SHA, mirrors=[server.url("good/a.bin")]).read_bytes() == DATA
    assert pauses == []


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_wants_to_know_who_asks_is_reported_as_gated(get, server, status):
    server.always["a.bin"] = Reply(status=status)
    with pytest.raises(GatedError, match="FLAMBEAU_TOKEN_FILE") as caught:
        get(sha256=SHA)
    assert caught.value.status == status
    assert len(server.requests()) == 1


def test_a_malformed_mirror_is_passed_over(get, server):
    server.always["bad"] = Reply(status=404)
    assert get("bad", sha256=SHA, mirrors=["http://[", server.url("a.bin")]).read_bytes() == DATA


@pytest.mark.parametrize("length", ["abc", "-5", "\u00b2", "9" * 5000, "1.5"])
def test_a_content_length_that_is_no_number_makes_the_next_mirror_be_asked(get, server, length):
    for name in ("bad", "other"):
        server.files[name] = DATA
        server.always[name] = Reply(headers={"Content-Length": length})
    assert get("bad", sha256=SHA, mirrors=[server.url("a.bin")]).read_bytes() == DATA
    with pytest.raises(DownloadError, match="could not be fetched"):
        get("other", retries=0)


def test_mirrors_are_asked_in_order_and_the_error_lists_what_each_said(get, server, tmp_path):
    paths = ["one", "two", "three"]
    with pytest.raises(DownloadError) as caught:
        get("one", sha256=SHA, mirrors=[server.url("two"), server.url("three")])
    assert [request.path for request in server.requests()] == paths
    assert all(f"{server.url(path)}: the server answered 404" in str(caught.value) for path in paths)
    assert str(tmp_path / "root" / f"{SHA[:16]}-one") in str(caught.value)


def test_a_mirror_is_asked_when_the_first_is_gone(get, server):
    with FileServer({"a.bin": DATA}) as gone:
        url = gone.url("a.bin")
    path = fetch(url, sha256=SHA, mirrors=[server.url("a.bin")], retries=1)
    assert path.read_bytes() == DATA


def test_rules_in_the_environment_come_before_the_url_itself(get, server, monkeypatch):
    rules = f"https://elsewhere.invalid/={server.url('no')}/; {server.url('bad')}/={server.url('good')}/"
    monkeypatch.setenv("FLAMBEAU_MIRRORS", rules)
    assert get("bad/a.bin", sha256=SHA).read_bytes() == DATA
    assert [request.path for request in server.requests()] == ["good/a.bin"]


def test_a_rule_that_leads_nowhere_falls_back_to_the_url(get, server, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_MIRRORS", f"{server.url('good')}/={server.url('no')}/")
    assert get("good/a.bin", sha256=SHA).read_bytes() == DATA
    assert [request.path for request in server.requests()] == ["no/a.bin", "good/a.bin"]


def test_a_malformed_rule_is_named(get, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_MIRRORS", "https://only-one-side/")
    with pytest.raises(ValueError, match="only-one-side"):
        get()


# --- offline ------------------------------------------------------------------------------------------------------


def test_offline_names_url_path_and_hash_and_opens_no_connection(get, server, tmp_path, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")
    with pytest.raises(OfflineError) as caught:
        get(sha256=SHA)
    expected = tmp_path / "root" / f"{SHA[:16]}-a.bin"
    assert all(fact in str(caught.value) for fact in (server.url("a.bin"), str(expected), SHA))
    assert server.requests() == []
    expected.parent.mkdir()
    expected.write_bytes(DATA)  # placed by hand, as the message says
    assert get(sha256=SHA) == expected


def test_the_argument_outweighs_the_environment(get, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")
    assert get(offline=False).read_bytes() == DATA
    with pytest.raises(OfflineError):
        get(sha256=SHA, offline=True)


# --- what is in the cache already ---------------------------------------------------------------------------------


def test_a_damaged_file_is_set_aside_with_a_warning_and_fetched_again(get, tmp_path):
    path = get(sha256=SHA)
    path.write_bytes(DATA[:-1] + b"?")
    with pytest.warns(HubWarning, match=f"sha256 is .*, expected {SHA}.*set aside"):
        assert get(sha256=SHA) == path
    assert path.read_bytes() == DATA
    (aside,) = (tmp_path / "root").glob("*.corrupt-*")
    assert aside.read_bytes() == DATA[:-1] + b"?"


def test_a_damaged_copy_is_kept_for_a_day(get, tmp_path):
    path = get(sha256=SHA)
    old, young = (path.with_name(f"{path.name}.corrupt-{n}") for n in (1, 2))
    old.touch()
    young.touch()
    os.utime(old, (0, 0))
    path.unlink()
    get(sha256=SHA)
    assert not old.exists()
    assert young.exists()


def test_a_file_of_another_size_is_replaced_without_hashing(get, server):
    path = get()
    path.write_bytes(b"short")
    with pytest.warns(HubWarning, match=r"5 bytes, expected 400,000"):
        assert get(size=len(DATA)).read_bytes() == DATA


def test_a_file_placed_by_hand_is_hashed_once(get, server, tmp_path, monkeypatch):
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "mine").write_bytes(DATA)
    calls, real = [], hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *arguments: calls.append(1) or real(*arguments))
    for _ in range(3):
        get(sha256=SHA, filename="mine")
    assert len(calls) == 1
    assert server.requests() == []


def test_two_urls_without_hash_and_with_one_base_name_are_two_files(get, server):
    assert get("bad/a.bin").read_bytes() == OTHER
    assert get("good/a.bin").read_bytes() == DATA


def test_a_name_the_caller_chose_is_trusted(get, server):
    get("bad/a.bin", filename="mine")
    assert get("good/a.bin", filename="mine").read_bytes() == OTHER


def test_checkpoints_that_torch_fetched_are_used_and_not_written(get, server, tmp_path):
    there = tmp_path / "torch" / "hub" / "checkpoints" / "a.bin"
    there.parent.mkdir(parents=True)
    there.write_bytes(DATA)
    path = get(sha256=SHA)
    assert path.samefile(there)
    assert os.listdir(there.parent) == ["a.bin"]
    assert server.requests() == []


def test_checkpoints_of_torch_are_copied_where_they_cannot_be_linked(get, server, tmp_path, monkeypatch):
    there = tmp_path / "torch" / "hub" / "checkpoints" / "a.bin"
    there.parent.mkdir(parents=True)
    there.write_bytes(DATA)

    def refuse(*arguments, **options):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    path = get(sha256=SHA)
    assert not path.samefile(there)
    assert path.read_bytes() == DATA
    assert left(tmp_path) == [path.name, f"{path.name}.ok"]
    assert server.requests() == []


def test_checkpoints_of_torch_are_used_in_place_where_the_cache_cannot_be_written(server, tmp_path):
    there = tmp_path / "torch" / "hub" / "checkpoints" / "a.bin"
    there.parent.mkdir(parents=True)
    there.write_bytes(DATA)
    (tmp_path / "file").touch()
    assert fetch(server.url("a.bin"), sha256=SHA, root=tmp_path / "file" / "root") == there


def test_a_checkpoint_of_torch_that_is_another_file_is_left_alone(get, server, tmp_path):
    there = tmp_path / "torch" / "hub" / "checkpoints" / "a.bin"
    there.parent.mkdir(parents=True)
    there.write_bytes(OTHER)
    assert get(sha256=SHA).read_bytes() == DATA
    assert there.read_bytes() == OTHER


# --- at the door --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "a/b", "/etc/passwd", "a\\b", "C:a", "a\0b"])
def test_a_file_name_that_is_a_path_is_refused(name):
    with pytest.raises(ValueError, match="plain file name"):
        fetch("https://host.invalid/a", filename=name)


@pytest.mark.parametrize("url", ["ftp://host/a", "/etc/passwd", "C:\\a", "https:///a", "data:,a"])
def test_other_schemes_are_refused(url):
    with pytest.raises(ValueError, match=r"cannot be fetched.*pathlib\.Path"):
        fetch(url)


@pytest.mark.parametrize("url", ["http://[", "https://[::1/a", "http://host:port/a", "http://host:99999999/a"])
def test_a_malformed_url_is_refused_with_the_forms_that_are_understood(url):
    with pytest.raises(ValueError, match=r"malformed.*expected an http or https URL"):
        fetch(url)


def test_a_file_url_gives_the_file_itself_verified(tmp_path):
    there = tmp_path / "a b.bin"
    there.write_bytes(DATA)
    assert fetch(there.as_uri(), sha256=SHA, size=len(DATA)) == there
    assert cached(there.as_uri(), sha256=SHA) == there
    with pytest.raises(HashMismatchError):
        fetch(there.as_uri(), sha256="0" * 64)


def test_a_file_url_is_copied_under_the_name_asked_for_and_again_when_it_changed(tmp_path):
    there, root = tmp_path / "a.bin", tmp_path / "root"
    there.write_bytes(b"old")
    path = fetch(there.as_uri(), root=root, filename="b.bin")
    assert (path, path.read_bytes(), there.read_bytes()) == (root / "b.bin", b"old", b"old")
    there.write_bytes(b"new")
    os.utime(there, ns=(path.stat().st_mtime_ns + 1,) * 2)
    assert fetch(there.as_uri(), root=root, filename="b.bin").read_bytes() == b"new"


@pytest.mark.parametrize("url", ["file://other.host/etc/passwd", "file:relative", "file:///", "file://["])
def test_a_file_url_that_names_no_file_of_this_machine_is_refused(url):
    with pytest.raises(ValueError, match="expected file:///path"):
        fetch(url)


def test_a_file_url_without_a_file_is_a_download_error(tmp_path):
    with pytest.raises(DownloadError, match="check the path"):
        fetch((tmp_path / "absent").as_uri())


def test_a_home_that_cannot_be_written_is_named_with_the_remedy(server, tmp_path, monkeypatch):
    tmp_path.joinpath("home").write_text("a file where the folder should be")
    monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path / "home"))
    with pytest.raises(DownloadError, match="FLAMBEAU_HOME"):
        fetch(server.url("a.bin"))


def test_a_password_in_a_url_is_refused_and_not_repeated():
    with pytest.raises(ValueError, match="FLAMBEAU_TOKEN_FILE") as caught:
        fetch("https://me:secret@host.invalid/a")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("digest", ["abc", "x" * 64, "0" * 65, ""])
def test_a_digest_that_is_none_is_refused(digest):
    with pytest.raises(ValueError, match="64 hex digits"):
        fetch("https://host.invalid/a", sha256=digest)


def test_a_negative_size_is_refused():
    with pytest.raises(ValueError, match="size=-1"):
        fetch("https://host.invalid/a", size=-1)


@pytest.mark.parametrize(("path", "name"), [
    ("x/a%20b.bin?download=1#top", "a b.bin"),
    ("..%2f..%2fetc%2fpasswd", "passwd"),
    ("a%5c..%5cevil", "evil"),
    (".hidden", "hidden"),
    ("a%00%0ab", "a__b"),
    ("%2e%2e", "download"),
    ("", "download"),
    ("a:b", "a_b"),
    ("n" * 300 + ".bin", "n" * 196 + ".bin"),
])  # fmt: skip
def test_names_from_urls_are_made_safe(tmp_path, path, name):
    with pytest.raises(OfflineError) as caught:
        fetch(f"https://host.invalid/{path}", root=tmp_path, offline=True)
    assert f"{tmp_path / name} (" in str(caught.value)


def test_a_long_name_keeps_its_hash_and_its_end():
    with pytest.raises(OfflineError) as caught:
        fetch(f"https://host.invalid/{'n' * 300}.bin", sha256=SHA, offline=True)
    name = Path(str(caught.value).split(" as ")[1].split(" (")[0]).name
    assert len(name) == 200
    assert name.startswith(SHA[:16] + "-n")
    assert name.endswith("n.bin")


# --- together -----------------------------------------------------------------------------------------------------


def test_threads_that_ask_for_one_file_fetch_it_once(get, server):
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: get(sha256=SHA), range(8)))
    assert {path.read_bytes() for path in paths} == {DATA}
    assert server.sent() == len(DATA)


def test_progress_goes_to_stderr_when_asked_for_and_counts_the_resumed_part_once(get, server, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setenv("FLAMBEAU_PROGRESS", "1")
    server.next("a.bin", Reply(cut_after=150_000))
    get(sha256=SHA)
    out, err = capsys.readouterr()
    assert out == ""
    assert "a.bin: 100 %" in err
    assert "110 %" not in err
    get("good/a.bin", sha256=SHA, progress=False)
    assert capsys.readouterr().err == ""
