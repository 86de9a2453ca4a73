"""Objects as files."""

import io
import multiprocessing
import os
import pickle
import random
import tarfile
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flambeau.data.storage import (
    ObjectMissingError,
    StorageAccessError,
    StorageError,
    StorageTimeoutError,
    list_objects,
    open_object,
    read_object,
    read_range,
)

CONTENT = random.Random(0).randbytes(5_000_000)


@pytest.fixture
def url(bucket):
    return bucket({"data.bin": CONTENT, "empty": b"", "folder/small": b"hello\nworld\n"}) + "/data.bin"


@pytest.mark.parametrize("multi_part_download", [None, True, False])
@pytest.mark.parametrize("buffer_size", [None, 100_000, 3_000_000])
def test_an_object_reads_as_what_was_stored(url, s3_endpoint, buffer_size, multi_part_download):
    with open_object(
        url, buffer_size=buffer_size, multi_part_download=multi_part_download, endpoint_url=s3_endpoint
    ) as file:
        assert file.read() == CONTENT
        assert file.read() == b""


def test_any_sequence_of_seeks_and_reads_equals_the_one_of_a_file_in_memory(web):
    content = random.Random(1).randbytes(300_000)
    server = web(content)
    moves = st.tuples(st.sampled_from(["seek", "read", "read1", "peek", "readinto"]), st.integers(0, 320_000))

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(moves, max_size=12), st.integers(1000, 400_000), st.booleans())
    def check(steps, buffer_size, parallel):
        real = io.BytesIO(content)
        with open_object(server.url, buffer_size=buffer_size, multi_part_download=parallel) as file:
            for name, amount in steps:
                if name == "seek":
                    assert file.seek(amount) == real.seek(amount)
                elif name == "read":
                    assert file.read(amount) == real.read(amount)
                elif name == "readinto":
                    ours, theirs = bytearray(amount), bytearray(amount)
                    assert file.readinto(ours) == real.readinto(theirs)
                    assert ours == theirs
                elif name == "read1":
                    piece = file.read1(amount)
                    assert piece == real.read(len(piece))
                    assert piece or amount == 0 or real.tell() >= len(content)
                else:
                    assert file.peek(amount) == b"" or content[file.tell() :].startswith(file.peek(amount))
                assert file.tell() == real.tell()

    check()


def test_lines_seek_from_the_end_and_size(url, s3_endpoint):
    small = url.replace("data.bin", "folder/small")
    with open_object(small, endpoint_url=s3_endpoint) as file:
        assert list(file) == [b"hello\n", b"world\n"]
        assert file.seek(-6, os.SEEK_END) == 6
        assert file.read() == b"world\n"
        assert file.size == 12
        assert io.TextIOWrapper(file).readable()


def test_a_small_object_costs_one_request(web):
    server = web(b"x" * 100_000)
    with open_object(server.url) as file:
        assert len(file.read()) == 100_000
    assert len(server.requests) == 1


def test_a_stream_begins_with_the_first_part_and_asks_for_no_more_than_the_window(web):
    server = web(bytes(20_000_000))
    with open_object(server.url, buffer_size=4 << 20) as file:
        assert file.read(10) == bytes(10)
        asked = [line for _, line in server.requests]
    assert asked[0] == f"bytes=0-{(1 << 20) - 1}"
    assert max(int(line.rpartition("-")[2]) for line in asked) < 4 << 20


def test_many_parts_are_asked_for_when_everything_is_wanted(web):
    server = web(CONTENT)
    with open_object(server.url) as file:
        assert file.read() == CONTENT
    assert len(server.requests) >= 4


def test_whole_objects_are_read_in_one_call(url, s3_endpoint):
    assert read_object(url, endpoint_url=s3_endpoint) == CONTENT


def test_an_empty_object_reads_as_empty(url, s3_endpoint):
    with open_object(url.replace("data.bin", "empty"), endpoint_url=s3_endpoint) as file:
        assert (file.read(10), file.read(), file.size) == (b"", b"", 0)


def test_reading_beyond_the_end_is_empty(url, s3_endpoint):
    with open_object(url, endpoint_url=s3_endpoint) as file:
        file.seek(len(CONTENT) + 10)
        assert file.read(5) == b""


def test_a_tar_streams_and_a_zip_is_read_at_random(bucket, s3_endpoint):
    tar, zipped = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for n in range(50):
            member = tarfile.TarInfo(f"{n}.txt")
            member.size = 20_000
            archive.addfile(member, io.BytesIO(bytes([n]) * 20_000))
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("a", b"A" * 1000)
        archive.writestr("b", b"B" * 1000)
    root = bucket({"x.tar": tar.getvalue(), "x.zip": zipped.getvalue()})
    with (
        open_object(f"{root}/x.tar", endpoint_url=s3_endpoint) as file,
        tarfile.open(fileobj=file, mode="r|") as archive,
    ):
        contents = [archive.extractfile(member).read() for member in archive]
    assert contents == [bytes([n]) * 20_000 for n in range(50)]
    with open_object(f"{root}/x.zip", endpoint_url=s3_endpoint) as file, zipfile.ZipFile(file) as archive:
        assert archive.read("b") == b"B" * 1000


def test_a_range_is_read_in_one_request(web):
    server = web(CONTENT)
    assert bytes(read_range(server.url, 1000, 2000)) == CONTENT[1000:2000]
    assert server.requests == [("/folder/file.bin", "bytes=1000-1999")]


def test_a_reader_can_be_pickled_and_keeps_its_place(web):
    with open_object(web(CONTENT).url) as file:
        file.seek(77)
        with pickle.loads(pickle.dumps(file)) as again:
            assert again.read(10) == CONTENT[77:87]


def test_a_signed_web_address_keeps_its_query(web):
    server = web(b"hello")
    with open_object(server.url + "?signature=a%2Fb") as file:
        assert file.read() == b"hello"
    assert server.requests[0][0] == "/folder/file.bin?signature=a%2Fb"


def test_google_and_azure_objects_are_asked_for_at_their_endpoints(web, monkeypatch):
    server = web(b"hello")
    endpoint = server.url.removesuffix("/folder/file.bin")
    with open_object("gs://bucket/key", anonymous=True, endpoint_url=endpoint) as file:
        assert file.read() == b"hello"
    with open_object("abfss://box@account.dfs.core.windows.net/key", anonymous=True, endpoint_url=endpoint) as file:
        assert file.read() == b"hello"
    assert [path for path, _ in server.requests] == ["/bucket/key", "/box/key"]
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(StorageError, match="AZURE_STORAGE_ACCOUNT_NAME"):
        open_object("az://box/key").read()


@pytest.mark.parametrize("faults", [{"refusals": 2}, {"cut_bodies": 2}, {"ranges": False}])
def test_refusals_broken_bodies_and_servers_without_ranges_are_overcome(web, faults):
    server = web(CONTENT[:300_000], **faults)
    with open_object(server.url) as file:
        assert file.read(100_000) == CONTENT[:100_000]
        file.seek(10)
        assert file.read() == CONTENT[10:300_000]


def test_a_server_that_keeps_breaking_off_is_reported(web):
    server = web(CONTENT[:1000], cut_bodies=100)
    with open_object(server.url) as file, pytest.raises(StorageError, match=r"file\.bin"):
        file.read()


def test_an_object_that_changes_while_it_is_read_is_reported(web):
    server = web(CONTENT)
    with open_object(server.url, buffer_size=1 << 20) as file:
        file.read(100)
        server.content = CONTENT[:-5]
        with pytest.raises(StorageError, match="replaced while it was being read"):
            file.read()


def test_a_server_that_never_answers_is_given_up(silent_endpoint):
    file = open_object("s3://bucket/key", request_timeout_ms=100, endpoint_url=silent_endpoint)
    with pytest.raises(StorageTimeoutError, match="no answer within 100 ms in 4 attempts"):
        file.read()
    with pytest.raises(TimeoutError):
        list(list_objects("s3://bucket/", request_timeout_ms=100, endpoint_url=silent_endpoint))


def test_a_missing_object_is_a_missing_file(url, s3_endpoint):
    with open_object(url + ".nope", endpoint_url=s3_endpoint) as file, pytest.raises(FileNotFoundError) as caught:
        file.read()
    assert isinstance(caught.value, ObjectMissingError)
    assert caught.value.url == url + ".nope"


def _child(pipe, url, endpoint):
    with open_object(url, endpoint_url=endpoint) as file:
        pipe.send((file.read() == CONTENT, len(list(list_objects(url, endpoint_url=endpoint)))))
    try:
        open_object(url + ".nope", endpoint_url=endpoint).read(1)
    except FileNotFoundError as error:
        pipe.send(type(error).__name__)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this platform")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_of_a_process_that_has_read_reads_too(url, s3_endpoint):
    assert read_range(url, 0, 3, endpoint_url=s3_endpoint) == CONTENT[:3]
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_child, args=(theirs, url, s3_endpoint))
    child.start()
    assert ours.poll(60)
    assert ours.recv() == (True, 1)
    assert ours.recv() == "ObjectMissingError"
    child.join(30)
    assert child.exitcode == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"buffer_size": 0}, ValueError),
        ({"request_timeout_ms": 0}, ValueError),
        ({"url": "s3://bucket/folder/"}, StorageError),
        ({"url": "s3://bucket"}, StorageError),
    ],
)
def test_wrong_arguments_are_refused_before_any_request(arguments, error):
    with pytest.raises(error):
        open_object(**{"url": "s3://bucket/key", **arguments})


def test_keys_come_from_the_profile_that_the_environment_names(monkeypatch, tmp_path, url, s3_endpoint):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_PROFILE", "work")
    (tmp_path / "credentials").write_text("[work]\naws_access_key_id = a%b\naws_secret_access_key = c\n")
    (tmp_path / "config").write_text(f"[profile work]\nregion = eu-west-1\nendpoint_url = {s3_endpoint}\n")
    from flambeau.data.storage.credentials import s3_settings
    from flambeau.data.storage.locations import locate

    assert s3_settings(locate(url).store) == {
        "region": "eu-west-1",
        "endpoint": s3_endpoint,
        "virtual_hosted_style_request": False,
        "access_key_id": "a%b",
        "secret_access_key": "c",
    }
    with open_object(url, options={"unsigned_payload": "true"}) as file:
        assert file.read(3) == CONTENT[:3]


def test_a_profile_that_is_not_there_is_reported(monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(StorageAccessError, match="'nobody'"):
        open_object("s3://bucket/key").read(1)


def test_the_package_loads_no_engine_before_the_first_request():
    import subprocess
    import sys

    use = "import flambeau.data.storage as storage, sys; storage.open_object('s3://bucket/key')"
    code = f"{use}; print({{'obstore', 'torch'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stderr
