"""Files: local, in archives, on HTTP servers, on any file system, on S3; saved, cached, checked and decoded."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import multiprocessing
import os
import pickle
import signal
import struct
import tarfile
import time
import zipfile
import zlib
from pathlib import Path

import pytest
import torch

from flambeau.core.errors import DownloadError, HashMismatchError
from flambeau.core.testing.server import FileServer, Reply
from flambeau.data._crc32c import masked_crc32c
from flambeau.data.datapipes.iter import (
    FileLister,
    FileOpener,
    FSSpecFileLister,
    IoPathFileLister,
    IterableWrapper,
)
from flambeau.data.datapipes.utils import StreamWrapper, janitor
from flambeau.data.datapipes.utils.decoder import (
    Decoder,
    basichandlers,
    handle_extension,
    imagehandler,
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "b" / "c").mkdir(parents=True)
    for name, text in (("2.txt", "two\n2"), ("1.csv", "x,y\n1,2\n"), ("b/3.txt", "three"), ("b/c/4.txt", "four")):
        (tmp_path / name).write_text(text)
    return tmp_path


def names(paths, root):
    return [os.path.relpath(path, root) for path in paths]


# Listing, opening, saving


def test_files_are_listed_in_order(folder):
    assert names(FileLister(str(folder)), folder) == ["1.csv", "2.txt"]
    everything = ["1.csv", "2.txt", "b/3.txt", "b/c/4.txt"]
    assert names(FileLister([str(folder)], recursive=True), folder) == everything
    assert names(IterableWrapper([str(folder)]).list_files("*.txt", recursive=True), folder) == everything[1:]
    assert sorted(names(FileLister(str(folder), recursive=True, non_deterministic=True), folder)) == everything
    assert all(map(os.path.isabs, FileLister(os.path.relpath(folder), abspath=True)))
    assert list(FileLister(str(folder / "2.txt"))) == [str(folder / "2.txt")]
    assert len(FileLister(str(folder), length=5)) == 5
    with pytest.raises(FileNotFoundError):
        list(FileLister(str(folder / "absent")))


def test_files_are_opened_as_text_and_as_bytes(folder):
    path = str(folder / "2.txt")
    assert [(p, stream.read()) for p, stream in FileOpener([path])] == [(path, "two\n2")]
    assert [stream.read() for _, stream in FileOpener([path], mode="b")] == [b"two\n2"]
    for mode, encoding, word in (("w", None, "'w'"), ("rb", "utf-8", "no encoding")):
        with pytest.raises(ValueError, match=word):
            FileOpener([path], mode=mode, encoding=encoding)


def test_streams_are_read_whole_or_in_blocks(folder):
    opened = FileOpener([str(folder / "2.txt")], mode="b")
    assert [data for _, data in opened.read_from_stream()] == [b"two\n2"]
    assert [data for _, data in opened.read_from_stream(2)] == [b"tw", b"o\n", b"2"]


def test_data_are_saved_atomically_and_in_the_right_mode(tmp_path):
    pairs = IterableWrapper([("a", b"1"), ("deep/b", b"2")])
    saved = list(pairs.save_to_disk("wb", filepath_fn=lambda name: str(tmp_path / name)))
    assert [Path(path).read_bytes() for path in saved] == [b"1", b"2"]
    assert sorted(os.listdir(tmp_path)) == ["a", "deep"]
    with pytest.raises(TypeError, match="takes strings, got bytes"):
        list(pairs.save_to_disk("w", filepath_fn=lambda name: str(tmp_path / name)))
    with pytest.raises(ValueError, match="mode that writes"):
        pairs.save_to_disk("r")


# Archives


def tar_of(files, mode="w"):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as tar:
        directory = tarfile.TarInfo("folder")
        directory.type = tarfile.DIRTYPE
        tar.addfile(directory)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return data.getvalue()


def zip_of(files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.mkdir("folder")
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


MEMBERS = {"a.txt": b"first", "d/b.txt": b"second"}


class OneWay(io.RawIOBase):
    """A stream that cannot be sought, and counts what was read."""

    def __init__(self, data):
        self.data, self.position = data, 0

    def readable(self):
        return True

    def readinto(self, buffer):
        block = self.data[self.position : self.position + len(buffer)]
        buffer[: len(block)] = block
        self.position += len(block)
        return len(block)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_members_of_tar_archives_are_read(mode):
    members = IterableWrapper([("x.tar", io.BytesIO(tar_of(MEMBERS, mode)))], deepcopy=False).load_from_tar()
    assert [(name, stream.read()) for name, stream in members] == [
        ("x.tar/a.txt", b"first"),
        ("x.tar/d/b.txt", b"second"),
    ]


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_members_can_be_read_when_the_archive_was_listed(tmp_path, mode):
    (tmp_path / "x.tar").write_bytes(tar_of(MEMBERS, mode))
    members = list(FileOpener([str(tmp_path / "x.tar")], mode="b").load_from_tar())
    assert [stream.read() for _, stream in members] == [b"first", b"second"]


def test_archives_are_opened_whole(tmp_path):
    (tmp_path / "x.tar").write_bytes(tar_of(MEMBERS))
    (tmp_path / "x.tar.gz").write_bytes(tar_of(MEMBERS, "w:gz"))
    (tmp_path / "x.zip").write_bytes(zip_of(MEMBERS))
    opened = dict(FileOpener([str(tmp_path / "x.tar"), str(tmp_path / "x.tar.gz")], mode="b").decompress())
    assert [tar.getnames()[-2:] for tar in opened.values()] == [["a.txt", "d/b.txt"]] * 2
    ((_, archive),) = FileOpener([str(tmp_path / "x.zip")], mode="b").decompress(file_type="ZIP")
    assert archive.namelist()[-2:] == ["a.txt", "d/b.txt"]
    ((_, archive),) = FileOpener([str(tmp_path / "x.tar")], mode="b").decompress(file_type="tar")
    assert archive.extractfile("a.txt").read() == b"first"


@pytest.mark.parametrize("mode", ["r|", "r:*"])
def test_a_streamed_archive_begins_before_it_was_read_to_its_end(mode):
    source = OneWay(tar_of({"a": b"x" * 100, "b": b"y" * 3_000_000}))
    members = iter(IterableWrapper([("x.tar", source)], deepcopy=False).load_from_tar(mode=mode))
    assert next(members)[1].read() == b"x" * 100
    assert source.position < 100_000
    assert len(next(members)[1].read()) == 3_000_000
    assert next(members, None) is None


def test_members_of_zip_archives_are_read():
    members = IterableWrapper([("x.zip", io.BytesIO(zip_of(MEMBERS)))], deepcopy=False).load_from_zip()
    assert [(name, stream.read()) for name, stream in members] == [
        ("x.zip/a.txt", b"first"),
        ("x.zip/d/b.txt", b"second"),
    ]


def test_archives_are_closed_when_their_members_are_done(tmp_path):
    (tmp_path / "x.tar").write_bytes(tar_of(MEMBERS))
    opened = FileOpener([str(tmp_path / "x.tar")], mode="b")
    streams = [stream for _, stream in opened.load_from_tar()]
    archive = streams[0].parent_stream
    assert not archive.closed
    streams[0].close()
    assert streams[1].read() == b"second"
    janitor({"rest": [streams[1]]})
    assert archive.closed


def test_compressed_files_are_known_by_their_endings():
    kinds = {"a.gz": gzip.compress, "a.xz": lzma.compress, "a.bz2": bz2.compress}
    for name, compress in kinds.items():
        source = IterableWrapper([(name, io.BytesIO(compress(b"content")))], deepcopy=False)
        assert [stream.read() for _, stream in source.decompress()] == [b"content"]
    zstd = pytest.importorskip("backports.zstd")
    source = IterableWrapper([("a", io.BytesIO(zstd.compress(b"content")))], deepcopy=False)
    assert [stream.read() for _, stream in source.extract(file_type="zstd")] == [b"content"]
    with pytest.raises(RuntimeError, match="does not end like a compressed file"):
        list(IterableWrapper([("a.txt", io.BytesIO())], deepcopy=False).decompress())


def test_bz2_and_xz_files_lose_their_ending():
    for name, method, compress in (
        ("a.b.bz2", "load_from_bz2", bz2.compress),
        ("a.b.xz", "load_from_xz", lzma.compress),
    ):
        source = IterableWrapper([(name, io.BytesIO(compress(b"content")))], deepcopy=False)
        assert [(path, stream.read()) for path, stream in getattr(source, method)()] == [("a.b", b"content")]


def rar_of(files):
    """A rar archive of version 4 with members that are stored as they are."""

    def block(kind, flags, fields, data=b""):
        head = struct.pack("<BHH", kind, flags, 7 + len(fields)) + fields
        return struct.pack("<H", zlib.crc32(head) & 0xFFFF) + head + data

    out = b"Rar!\x1a\x07\x00" + block(0x73, 0, bytes(6))
    for name, content in files.items():
        path = name.replace("/", "\\").encode()
        size, crc = len(content), zlib.crc32(content)
        fields = struct.pack("<IIBIIBBHI", size, size, 3, crc, 0x5A210000, 20, 0x30, len(path), 0x81A4) + path
        out += block(0x74, 0x8000, fields, content)
    return out + block(0x7B, 0x4000, b"")


def test_members_of_rar_archives_are_read_and_resumed(tmp_path):
    pytest.importorskip("rarfile")
    (tmp_path / "x.rar").write_bytes(rar_of(MEMBERS))
    expected = [(f"{tmp_path}/x.rar/{name}", content) for name, content in MEMBERS.items()]

    def build():
        return (
            FileOpener([str(tmp_path / "x.rar")], mode="b").load_from_rar().map(lambda pair: (pair[0], pair[1].read()))
        )

    pipe = build()
    assert list(pipe) == expected
    reader = iter(pipe)
    next(reader)
    again = build()
    again.load_state_dict(pickle.loads(pickle.dumps(pipe.state_dict())))
    assert list(again) == expected[1:]
    reader.close()
    from_memory = IterableWrapper([("y.rar", io.BytesIO(rar_of(MEMBERS)))], deepcopy=False).load_from_rar()
    assert [stream.read() for _, stream in from_memory] == [b"first", b"second"]


def test_files_are_listed_opened_and_saved_by_iopath(tmp_path):
    pytest.importorskip("iopath")
    pairs = IterableWrapper([(str(tmp_path / "b.txt"), "two"), (str(tmp_path / "a.txt"), "one")])
    assert len(list(pairs.save_by_iopath("w"))) == 2
    listed = IoPathFileLister(str(tmp_path), masks="*.txt")
    assert names(listed, tmp_path) == ["a.txt", "b.txt"]
    assert [stream.read() for _, stream in listed.open_files_by_iopath()] == ["one", "two"]
    assert list(IoPathFileLister(str(tmp_path / "a.txt"))) == [str(tmp_path / "a.txt")]


def test_unclosed_streams_are_listed_on_request(folder):
    StreamWrapper.debug_unclosed_streams = True
    try:
        ((_, stream),) = FileOpener([str(folder / "2.txt")])
        assert stream in StreamWrapper.session_streams
        stream.close()
        assert stream not in StreamWrapper.session_streams
    finally:
        StreamWrapper.debug_unclosed_streams = False


def test_a_stream_is_pickled_as_the_way_to_open_it(folder):
    ((_, stream),) = FileOpener([str(folder / "2.txt")])
    with pickle.loads(pickle.dumps(stream)) as again, stream:
        assert again.read() == stream.read() == "two\n2"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(StreamWrapper(io.BytesIO()))


# Digests and caches


def digest(data, kind="sha256"):
    return hashlib.new(kind, data).hexdigest()


def test_contents_are_checked_and_can_still_be_read():
    for kind in ("sha256", "md5"):
        for data in (b"abc", io.BytesIO(b"abc"), io.BufferedReader(OneWay(b"abc"))):
            source = IterableWrapper([("f", data)], deepcopy=False)
            ((_, checked),) = source.check_hash({"f": digest(b"abc", kind)}, hash_type=kind)
            assert (checked if isinstance(checked, bytes) else checked.read()) == b"abc"


def test_other_contents_and_unknown_files_are_errors():
    source = IterableWrapper([("f", b"abc")])
    with pytest.raises(RuntimeError, match="expected 00") as raised:
        list(source.check_hash({"f": "00"}))
    assert isinstance(raised.value, HashMismatchError)
    with pytest.raises(RuntimeError, match="no sha256 is known"):
        list(source.check_hash({}))
    with pytest.raises(ValueError, match="one of sha256, md5"):
        source.check_hash({}, hash_type="sha1")


class Cached:
    """A pipeline with a cache, that counts how often its part ran."""

    def __init__(self, root, **options):
        self.root, self.ran, self.options = root, [], options

    def path(self, name):
        return str(self.root / f"{name}.txt")

    def make(self, name):
        self.ran.append(name)
        return name, f"content of {name}"

    def pipe(self, names="abc"):
        part = IterableWrapper(names).on_disk_cache(filepath_fn=self.path, **self.options).map(self.make)
        return part.end_caching("w", same_filepath_fn=True)


def test_a_cached_part_runs_once_for_each_file(tmp_path):
    cached = Cached(tmp_path)
    paths = [cached.path(name) for name in "abc"]
    assert list(cached.pipe()) == list(cached.pipe()) == paths
    assert cached.ran == list("abc")
    assert Path(paths[1]).read_text() == "content of b"
    os.remove(paths[1])
    assert list(cached.pipe()) == paths
    assert cached.ran == [*"abc", "b"]
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "b.txt", "c.txt"]


def test_a_cached_file_is_checked_by_its_digest(tmp_path):
    good = digest(b"content of a")
    cached = Cached(tmp_path, hash_dict={str(tmp_path / "a.txt"): good})
    list(cached.pipe("a"))
    (tmp_path / "a.txt").write_text("damaged")
    list(cached.pipe("a"))
    assert cached.ran == ["a", "a"]
    with pytest.raises(HashMismatchError, match="nothing of it was kept"):
        list(Cached(tmp_path / "other", hash_dict={str(tmp_path / "other" / "a.txt"): "00"}).pipe("a"))
    assert os.listdir(tmp_path / "other") == []


def test_a_cache_goes_on_after_a_resume(tmp_path):
    whole = list(Cached(tmp_path / "1").pipe())
    cached = Cached(tmp_path / "1")
    pipe = cached.pipe()
    reader = iter(pipe)
    next(reader)
    again = cached.pipe()
    again.load_state_dict(pickle.loads(pickle.dumps(pipe.state_dict())))
    assert list(again) == whole[1:]


@pytest.mark.parametrize(("mode", "content"), [("t", "text"), ("b", b"bytes"), ("w", "text"), ("wb", b"bytes")])
def test_what_is_cached_is_written_in_the_mode_that_was_named(tmp_path, mode, content):
    path = str(tmp_path / "file")
    part = IterableWrapper([path]).on_disk_cache().map(lambda path: (path, content))
    assert list(part.end_caching(mode)) == [path]
    assert (tmp_path / "file").read_bytes().decode() == (content if isinstance(content, str) else content.decode())


def test_caching_is_ended_once():
    with pytest.raises(RuntimeError, match="there is none before it"):
        IterableWrapper("a").end_caching()
    begun = IterableWrapper("a").on_disk_cache()
    with pytest.raises(RuntimeError, match="was not ended"):
        list(begun)
    begun.end_caching()
    with pytest.raises(RuntimeError, match="ended already"):
        begun.end_caching()


def fill(root, log, names, slow):
    def make(name):
        with open(log, "a") as file:
            file.write(f"{os.getpid()} {name}\n")
        time.sleep(slow)
        return name, name * 3

    part = IterableWrapper(names).on_disk_cache(filepath_fn=lambda name: str(root / name)).map(make)
    return list(part.end_caching("w", same_filepath_fn=True))


def test_processes_that_share_a_cache_make_each_file_once(tmp_path):
    log = tmp_path / "log"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=fill, args=(tmp_path / "c", log, "abcd", 0.02)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert sorted(line.split()[1] for line in log.read_text().splitlines()) == list("abcd")


def test_the_promise_of_a_process_that_died_is_void(tmp_path):
    log = tmp_path / "log"
    process = multiprocessing.get_context("fork").Process(target=fill, args=(tmp_path / "c", log, "a", 60))
    process.start()
    while not log.exists() or not log.read_text():
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert [Path(path).read_text() for path in fill(tmp_path / "c", log, "a", 0)] == ["aaa"]


# HTTP


def test_files_are_read_from_a_server():
    with FileServer({"a.txt": b"one", "b.txt": b"two" * 100_000}) as server:
        urls = [server.url("a.txt"), server.url("b.txt")]
        found = [(url, stream.read()) for url, stream in IterableWrapper(urls).read_from_http()]
        assert found == [(urls[0], b"one"), (urls[1], b"two" * 100_000)]
        assert [stream.read() for _, stream in IterableWrapper(urls[:1]).read_from_remote()] == [b"one"]
        assert len(IterableWrapper(urls).read_from_http()) == 2


def test_a_broken_connection_is_taken_up_where_it_broke():
    data = os.urandom(300_000)
    with FileServer({"a": data}) as server:
        server.next("a", Reply(cut_after=100_000))
        ((_, stream),) = IterableWrapper([server.url("a")]).read_from_http()
        assert stream.read() == data
        assert server.requests("a")[1].headers["range"] == "bytes=100000-"


def test_a_connection_that_cannot_be_taken_up_is_an_error():
    with FileServer({"a": bytes(300_000)}) as server:
        server.always["a"] = Reply(cut_after=1000, ranges=False)
        ((_, stream),) = IterableWrapper([server.url("a")]).read_from_http()
        with pytest.raises(DownloadError, match="no way to go on"):
            stream.read()


def test_missing_files_are_errors_or_left_out():
    with FileServer({"a": b"one"}) as server:
        urls = IterableWrapper([server.url("absent"), server.url("a")])
        with pytest.raises(DownloadError, match="404"):
            list(urls.read_from_http())
        with pytest.warns(UserWarning, match="left out"):
            assert [stream.read() for _, stream in urls.read_from_http(skip_on_error=True)] == [b"one"]
        with pytest.raises(TypeError, match="cookies"):
            urls.read_from_http(cookies={})


def test_headers_are_sent():
    with FileServer({"a": b"one"}) as server:
        ((_, stream),) = IterableWrapper([server.url("a")]).read_from_http(headers={"X-Name": "value"})
        stream.close()
        assert server.requests("a")[0].headers["x-name"] == "value"


def test_google_drive_gives_names_and_contents(monkeypatch):
    from flambeau.data.datapipes.iter import remote_files

    with FileServer({"download": b"data"}) as server:
        monkeypatch.setattr(remote_files, "_DRIVE", server.url("download"))
        server.next("download", Reply(headers={"Content-Disposition": 'attachment; filename="x.bin"'}))
        link = "https://drive.google.com/file/d/1a-B/view"
        ((name, stream),) = IterableWrapper([link]).read_from_remote()
        assert (name, stream.read()) == ("x.bin", b"data")
        with pytest.raises(DownloadError, match="a page in place of the file"):
            list(IterableWrapper(["https://drive.google.com/uc?id=1"]).read_from_gdrive())
        with pytest.raises(ValueError, match="names no file"):
            list(IterableWrapper(["https://drive.google.com/"]).read_from_gdrive())


def test_an_archive_is_streamed_from_a_server_and_resumed():
    files = {f"{number}.txt": str(number).encode() * 50_000 for number in range(4)}
    with FileServer({"x.tar": tar_of(files)}) as server:

        def build():
            opened = IterableWrapper([server.url("x.tar")]).read_from_http().load_from_tar(mode="r|")
            return opened.map(lambda pair: (pair[0].rpartition("/")[2], pair[1].read()))

        pipe = build()
        reader = iter(pipe)
        head = [next(reader), next(reader)]
        again = build()
        again.load_state_dict(pickle.loads(pickle.dumps(pipe.state_dict())))
        assert dict(head + list(again)) == files
        reader.close()


# File systems of fsspec, S3


def test_files_of_any_file_system_are_listed_opened_and_saved(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for root in ("memory://pipes/folder", f"file://{tmp_path}", str(tmp_path)):
        saved = IterableWrapper([(f"{root}/b.txt", "two"), (f"{root}/a.txt", "one")]).save_by_fsspec("w")
        assert list(saved) == [f"{root}/b.txt", f"{root}/a.txt"]
        listed = FSSpecFileLister(root, masks="*.txt")
        assert [path.rpartition("/")[2] for path in listed] == ["a.txt", "b.txt"]
        assert [stream.read() for _, stream in listed.open_files_by_fsspec()] == ["one", "two"]
    memory.rm("/pipes", recursive=True)


@pytest.fixture(scope="module")
def s3():
    boto3 = pytest.importorskip("boto3")
    pytest.importorskip("obstore")
    moto = pytest.importorskip("moto.server")
    pytest.importorskip("flambeau.data.storage")
    patch = pytest.MonkeyPatch()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        patch.setenv(name, "testing")
    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    client.create_bucket(Bucket="pipes")
    for key in ("folder/", "folder/a.txt", "folder/b.bin", "other.txt"):
        client.put_object(Bucket="pipes", Key=key, Body=b"" if key.endswith("/") else key.encode() * 10)
    yield endpoint
    server.stop()
    patch.undo()


def test_objects_are_listed_and_loaded(s3):
    options = {"region": "us-east-1", "endpoint_url": s3}
    listed = IterableWrapper(["s3://pipes/folder", "s3://pipes/other.txt"]).list_files_by_s3(**options)
    assert list(listed) == ["s3://pipes/folder/a.txt", "s3://pipes/folder/b.bin", "s3://pipes/other.txt"]
    masked = IterableWrapper(["s3://pipes"]).list_files_by_s3(masks="*.txt", **options)
    loaded = masked.load_files_by_s3(**options)
    assert [stream.read() for _, stream in loaded] == [b"folder/a.txt" * 10, b"other.txt" * 10]


def test_loading_objects_goes_on_after_a_resume(s3):
    options = {"region": "us-east-1", "endpoint_url": s3}

    def build():
        objects = IterableWrapper(["s3://pipes"]).list_files_by_s3(**options).load_files_by_s3(**options)
        return objects.shuffle(buffer_size=2).set_seed(1).map(lambda pair: pair[1].read())

    pipe = build()
    reader = iter(pipe)
    head = [next(reader)]
    again = build()
    again.load_state_dict(pickle.loads(pickle.dumps(pipe.state_dict())))
    assert head + list(again) == list(build())


def test_missing_packages_are_named():
    for build, package in (
        (lambda: IterableWrapper([]).list_files_by_ais("http://localhost"), "aistore"),
        (lambda: IterableWrapper([]).open_files_by_iopath(), "iopath"),
    ):
        try:
            __import__(package)
        except ModuleNotFoundError:
            with pytest.raises(ModuleNotFoundError, match=f"pip install {package}"):
                build()


# TFRecord


def varint(number):
    number &= (1 << 64) - 1
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def message(*fields):
    return b"".join(varint(number << 3 | 2) + varint(len(content)) + content for number, content in fields)


def feature(values):
    if isinstance(values[0], bytes):
        return message((1, message(*((1, value) for value in values))))
    if isinstance(values[0], float):
        return message((2, message((1, struct.pack(f"<{len(values)}f", *values)))))
    return message((3, message((1, b"".join(map(varint, values))))))


def serialized(features):
    return message((1, message(*((1, message((1, name.encode()), (2, feature(v)))) for name, v in features.items()))))


def framed(*payloads):
    out = b""
    for payload in payloads:
        length = struct.pack("<Q", len(payload))
        out += length + struct.pack("<I", masked_crc32c(length)) + payload + struct.pack("<I", masked_crc32c(payload))
    return out


FEATURES = {"ids": [1, -2, 3, 1 << 40], "weights": [0.5, -1.0], "name": [b"abc", b""], "label": [7]}


def records(data, **options):
    return IterableWrapper([("f.tfrecord", io.BytesIO(data))], deepcopy=False).load_from_tfrecord(**options)


def test_examples_are_decoded_as_they_are_stored():
    (found, again) = records(framed(serialized(FEATURES), serialized(FEATURES)))
    assert found["ids"].tolist() == again["ids"].tolist() == FEATURES["ids"]
    assert found["ids"].dtype == torch.int64
    assert (found["weights"].tolist(), found["weights"].dtype) == ([0.5, -1.0], torch.float32)
    assert found["name"] == [b"abc", b""]


def test_a_spec_gives_shapes_and_types():
    spec = {"ids": ((2, -1), torch.int64), "label": ((), torch.int32), "name": ((-1,), torch.uint8)}
    (found,) = records(framed(serialized({**FEATURES, "name": [b"\x01\x02"]})), spec=spec)
    assert found["ids"].tolist() == [[1, -2], [3, 1 << 40]]
    assert (found["label"].item(), found["label"].dtype) == (7, torch.int32)
    assert found["name"].tolist() == [1, 2]
    assert "weights" not in found


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"absent": ((), torch.int64)}, "lacks the features \\['absent'\\]"),
        ({"ids": ((3,), torch.int64)}, "4 values, which do not fit the shape \\(3,\\)"),
    ],
)
def test_examples_that_do_not_fit_the_spec_are_errors(spec, words):
    with pytest.raises(RuntimeError, match=words):
        list(records(framed(serialized(FEATURES)), spec=spec))


def test_a_spec_has_one_open_dimension():
    with pytest.raises(ValueError, match="only one dimension may be -1"):
        records(b"", spec={"ids": ((-1, -1), torch.int64)})


@pytest.mark.parametrize("position", [0, 9, 20, -1])
def test_damaged_records_are_errors(position):
    data = bytearray(framed(serialized(FEATURES)))
    data[position] ^= 1
    with pytest.raises(RuntimeError, match="damaged"):
        list(records(bytes(data)))


@pytest.mark.parametrize("cut", [3, 20, -1])
def test_a_file_that_is_cut_short_is_an_error(cut):
    with pytest.raises(RuntimeError, match="ends within record 0"):
        list(records(framed(serialized(FEATURES))[:cut]))


def test_sequence_examples_give_lists():
    sequence = message(
        (1, message((1, message((1, b"label"), (2, feature([7])))))),
        (2, message((1, message((1, b"frames"), (2, message((1, feature([1, 2])), (1, feature([3]))))))))
    )  # fmt: skip
    (found,) = records(framed(sequence))
    assert found["label"].tolist() == [7]
    assert [frame.tolist() for frame in found["frames"]] == [[1, 2], [3]]


# Decoding


def png(mode="RGB"):
    image = pytest.importorskip("PIL.Image").new(mode, (4, 3), 200 if mode == "L" else (255, 0, 0))
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def test_files_are_decoded_by_their_endings():
    files = {"a.txt": b"text", "b.cls": b"3", "c.json": b'{"x": 1}', "d.bin": b"raw", "e.pt": saved(torch.arange(3))}
    source = IterableWrapper([(name, io.BytesIO(data)) for name, data in files.items()], deepcopy=False)
    found = dict(source.routed_decode())
    assert found.pop("e.pt").tolist() == [0, 1, 2]
    assert found == {"a.txt": "text", "b.cls": 3, "c.json": {"x": 1}, "d.bin": b"raw"}


def saved(value):
    data = io.BytesIO()
    torch.save(value, data)
    return data.getvalue()


@pytest.mark.parametrize(
    ("spec", "shape", "kind", "most"),
    [
        ("rgb8", (3, 4, 3), "uint8", 255),
        ("rgb", (3, 4, 3), "float32", 1.0),
        ("l8", (3, 4), "uint8", 76),
        ("torchrgb8", (3, 3, 4), "torch.uint8", 255),
        ("torch", (3, 3, 4), "torch.float32", 1.0),
        ("torchl", (1, 3, 4), "torch.float32", 76 / 255),
        ("torchrgba8", (4, 3, 4), "torch.uint8", 255),
    ],
)
def test_images_are_decoded_as_the_specification_says(spec, shape, kind, most):
    pixels = imagehandler(spec)("PNG", png())
    assert (tuple(pixels.shape), str(pixels.dtype)) == (shape, kind)
    assert float(pixels.max()) == pytest.approx(most, abs=0.005 if "float" in kind else 1)


def test_images_of_pillow_and_unknown_specifications():
    assert imagehandler("pill")("png", png()).mode == "L"
    assert imagehandler("pil")("txt", b"") is None
    with pytest.raises(ValueError, match=r"imagespec is .*, expected one of"):
        imagehandler("bgr")


def test_handlers_of_the_user_come_first_and_may_name_several_endings():
    decoder = Decoder(basichandlers, key_fn=lambda path: path.partition(".")[2])
    decoder.add_handler(handle_extension("seg.txt Mask", bytes.upper))
    found = decoder([("a.seg.txt", b"x"), ("a.txt", b"y"), ("b.MASK", b"z"), ("_note.txt", b"n")])
    assert found == {"a.seg.txt": b"X", "a.txt": "y", "b.MASK": b"Z", "_note.txt": "n"}


def test_json_and_csv_files_of_a_folder_make_rows(folder):
    (folder / "x.json").write_text(json.dumps([1]))
    assert [v for _, v in FileLister(str(folder), "*.json").open_files().parse_json_files()] == [[1]]
    rows = FileLister(str(folder), "*.csv").open_files(mode="b").parse_csv_as_dict()
    assert list(rows) == [{"x": "1", "y": "2"}]
    assert [line for _, line in FileLister(str(folder), "*.txt").open_files().readlines()] == ["two", "2"]


def test_quoted_fields_may_hold_line_breaks():
    source = IterableWrapper([("f", io.BytesIO(b'a,"b\r\nc"\r\n'))], deepcopy=False)
    assert list(source.parse_csv()) == [["a", "b\r\nc"]]
