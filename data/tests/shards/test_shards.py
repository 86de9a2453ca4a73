"""Shards: what is written is read, at random and as a stream, and damage is named."""

from __future__ import annotations

import gzip
import io
import json
import multiprocessing
import os
import pickle
import signal
import struct
import subprocess
import sys
import tarfile
import threading
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.data._crc32c import masked_crc32c
from flambeau.data.shards import (
    DamagedShardError,
    Index,
    ShardDataset,
    ShardError,
    ShardReader,
    ShardWarning,
    ShardWriter,
    TarShard,
    mds_shards,
    open_shard,
    open_shards,
)
from flambeau.data.shards.opening import expand


def content(number):
    return bytes([number % 256]) * (number * 37 % 900)


def write_samples(folder, count, **options):
    with ShardWriter(folder / "s-%03d.tar", **options) as writer:
        for number in range(count):
            writer.write({"__key__": f"dir/{number:05}", "bin": content(number), "cls": number})
    return writer


def numbers(samples):
    return [int(sample["cls"]) for sample in samples]


def test_what_is_written_is_read_at_random(tmp_path):
    writer = write_samples(tmp_path, 25, maxcount=10)
    assert [path.name for path in writer.shards] == ["s-000.tar", "s-001.tar", "s-002.tar"]
    dataset = ShardDataset(tmp_path / "s-{000..002}.tar")
    assert len(dataset) == writer.total == 25
    for number in (0, 24, 9, 10, -1):
        sample = dataset[number]
        number %= 25
        assert sample == {"__key__": f"dir/{number:05}", "bin": content(number), "cls": str(number).encode()}
    with pytest.raises(IndexError):
        dataset[25]


def test_a_shard_is_an_archive_that_tar_reads_and_equal_samples_make_equal_shards(tmp_path):
    first = write_samples(tmp_path / "a", 5).shards[0]
    second = write_samples(tmp_path / "b", 5).shards[0]
    with tarfile.open(first) as archive:
        assert archive.extractfile("dir/00003.bin").read() == content(3)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("tar_format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_archives_of_others_are_read_without_an_index(tmp_path, tar_format):
    names = ["a.txt", "a.json", "folder/b.seg.png", "no_dot", "é.txt"]
    if tar_format != tarfile.USTAR_FORMAT:
        names.append("long/" * 40 + "name.txt")
    with tarfile.open(tmp_path / "x.tar", "w", format=tar_format) as archive:
        directory = tarfile.TarInfo("folder")
        directory.type = tarfile.DIRTYPE
        archive.addfile(directory)
        for name in names:
            about = tarfile.TarInfo(name)
            about.size = len(name)
            archive.addfile(about, io.BytesIO(name.encode()[: len(name)]))
    samples = {sample["__key__"]: sample for sample in TarShard(tmp_path / "x.tar")}
    assert samples["a"] == {"__key__": "a", "txt": b"a.txt", "json": b"a.json"}
    assert samples["folder/b"]["seg.png"] == b"folder/b.seg.png"
    assert set(samples) == {name.partition(".")[0] for name in names if "." in name}


def test_an_index_of_another_shard_is_not_believed(tmp_path):
    first = write_samples(tmp_path / "a", 5).shards[0]
    second = write_samples(tmp_path / "b", 9).shards[0]
    index = second.with_name(second.name + ".idx")
    index.write_bytes(first.with_name(first.name + ".idx").read_bytes())
    assert numbers(TarShard(second)) == list(range(9))
    index.write_bytes(b"FBSHIDX\x01 and then nonsense, and more of it, and more")
    assert numbers(TarShard(second)) == list(range(9))


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(), st.integers(0, 2**63), st.integers(0, 2**40)), max_size=20))
def test_an_index_reads_as_it_was_written(rows):
    from flambeau.data.shards import Member

    members = [Member(name, offset, size, offset % 2**32 if offset % 2 else None) for name, offset, size in rows]
    raw = Index.of(members).to_bytes(1234)
    assert list(Index.from_bytes(raw, 1234)) == members
    assert Index.from_bytes(raw, 1235) is None
    assert Index.from_bytes(raw[:-1] + bytes([raw[-1] ^ 1]), 1234) is None


def test_shards_are_limited_in_size(tmp_path):
    with ShardWriter(tmp_path / "%d.tar", maxsize=10_000, start_shard=7) as writer:
        for number in range(12):
            writer.write({"__key__": str(number), "bin": bytes(2000)})
    assert len(writer.shards) > 2
    assert writer.shards[0].name == "7.tar"
    assert all(path.stat().st_size <= 10_240 for path in writer.shards)


def test_values_are_written_as_their_suffix_says(tmp_path):
    array, tensor = np.arange(6).reshape(2, 3), torch.ones(2)
    with ShardWriter(tmp_path / "%d.tar") as writer:
        writer.write({"__key__": "a", "txt": "ä", "json": {"x": [1]}, "npy": array, "pt": tensor, "_x": 1, "no": None})
    (sample,) = TarShard(tmp_path / "0.tar")
    assert sample["txt"].decode() == "ä"
    assert json.loads(sample["json"]) == {"x": [1]}
    assert np.array_equal(np.load(io.BytesIO(sample["npy"])), array)
    assert torch.equal(torch.load(io.BytesIO(sample["pt"])), tensor)
    assert set(sample) == {"__key__", "txt", "json", "npy", "pt"}


@pytest.mark.parametrize(
    ("sample", "error"),
    [
        ({"bin": b""}, ValueError),
        ({"__key__": "a.b", "bin": b""}, ValueError),
        ({"__key__": "a"}, ValueError),
        ({"__key__": "same", "bin": b""}, ValueError),
        ({"__key__": "a", "bin": object()}, TypeError),
    ],
)
def test_samples_that_could_not_be_read_back_are_refused(tmp_path, sample, error):
    with ShardWriter(tmp_path / "%d.tar") as writer:
        writer.write({"__key__": "same", "bin": b"1"})
        with pytest.raises(error):
            writer.write(sample)
    assert len(TarShard(tmp_path / "0.tar")) == 1


def test_a_writer_replaces_no_shard_and_leaves_none_after_an_error(tmp_path):
    write_samples(tmp_path, 3)
    with pytest.raises(ShardError, match="there already"):
        write_samples(tmp_path, 3)
    with pytest.raises(ZeroDivisionError), ShardWriter(tmp_path / "t-%d.tar") as writer:
        writer.write({"__key__": "a", "bin": b""})
        raise ZeroDivisionError
    assert sorted(os.listdir(tmp_path)) == ["s-000.tar", "s-000.tar.idx"]
    with pytest.raises(ValueError, match="one conversion"):
        ShardWriter(tmp_path / "no-number.tar")


def test_a_killed_writer_leaves_no_shard_that_looks_whole(tmp_path):
    code = (
        "import os, signal, sys\nfrom flambeau.data.shards import ShardWriter\n"
        f"writer = ShardWriter({str(tmp_path / '%d.tar')!r}, maxcount=4)\n"
        "for n in range(10):\n    writer.write({'__key__': str(n), 'bin': bytes(100_000)})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    found = open_shards(str(tmp_path / "*.tar"))
    assert [len(shard) for shard in found] == [4, 4]
    assert [sample["__key__"] for shard in found for sample in shard] == [str(n) for n in range(8)]


def damage(path, offset):
    raw = bytearray(path.read_bytes())
    raw[offset] ^= 0xFF
    path.write_bytes(raw)


def test_a_damaged_sample_is_named_with_its_byte_and_left_out_only_on_request(tmp_path):
    path = write_samples(tmp_path, 10).shards[0]
    member = TarShard(path).index[12]  # content of sample 6
    damage(path, member.offset + 3)
    reader = ShardReader(path)
    with pytest.raises(DamagedShardError, match=rf"{path}: damaged at byte {member.offset}: .*00006.bin") as caught:
        list(reader)
    assert (caught.value.shard, caught.value.offset, caught.value.item) == (str(path), member.offset, 6)
    assert pickle.loads(pickle.dumps(caught.value)).offset == member.offset
    assert reader.state_dict()["item"] == 6
    with pytest.raises(DamagedShardError):
        next(reader)
    with pytest.warns(ShardWarning, match=f"damaged at byte {member.offset}"):
        assert numbers(ShardReader(path, on_damaged="skip")) == [0, 1, 2, 3, 4, 5, 7, 8, 9]
    assert numbers(ShardReader(path, verify=False)) == list(range(10))


def test_a_shard_that_was_cut_off_is_named_and_its_intact_part_can_be_read(tmp_path):
    write_samples(tmp_path, 30, maxcount=10)
    path = tmp_path / "s-001.tar"
    path.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(DamagedShardError, match=r"s-001.tar: damaged at byte \d+"):
        ShardDataset(tmp_path / "s-*.tar")
    with pytest.warns(ShardWarning, match=r"s-001.tar"):
        got = numbers(ShardReader(tmp_path / "s-*.tar", on_damaged="skip"))
    lost = sorted(set(range(30)) - set(got))
    assert got == sorted(got)
    assert lost == list(range(lost[0], 20))
    assert lost[0] > 10


def test_a_reader_resumes_at_every_sample_of_every_epoch_and_rank(tmp_path):
    write_samples(tmp_path, 23, maxcount=4)
    shards = str(tmp_path / "s-*.tar")

    def reader(rank):
        return ShardReader(shards, shuffle=True, seed=3, rank=rank, world_size=2)

    epochs = []
    for rank in range(2):
        node, got = reader(rank), []
        for _ in range(2):
            epoch = []
            for sample in node:
                epoch.append(int(sample["cls"]))
                again = reader(rank)
                again.reset(node.state_dict())
                assert again.state_dict() == node.state_dict()
                rest = numbers(again)
                got.append((epoch[:], rest))
            node.reset()
            epochs.append(epoch)
            assert all(seen + rest == epoch for seen, rest in got)
            got = []
    assert sorted(epochs[0] + epochs[2]) == list(range(23))
    assert sorted(epochs[1] + epochs[3]) == list(range(23))
    assert epochs[0] != epochs[1]


def test_the_state_of_another_rank_is_refused(tmp_path):
    write_samples(tmp_path, 8, maxcount=2)
    shards = str(tmp_path / "s-*.tar")
    state = ShardReader(shards, rank=1, world_size=2).state_dict()
    for rank, world_size in ((0, 2), (1, 3)):
        with pytest.raises(ValueError, match="state is of rank 1 of 2"):
            ShardReader(shards, rank=rank, world_size=world_size).reset(state)


def test_shards_are_read_from_threads_after_forks_and_after_pickling(tmp_path):
    write_samples(tmp_path, 40, maxcount=15)
    dataset = ShardDataset(str(tmp_path / "s-*.tar"))
    wrong = []

    def read():
        wrong.extend(n for n in range(40) if int(dataset[n]["cls"]) != n)

    workers = [threading.Thread(target=read) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []
    assert numbers(pickle.loads(pickle.dumps(dataset))) == list(range(40))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(numbers, (dataset,)) == list(range(40))


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip_archives_are_shards(tmp_path, compression):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.mkdir("d")
        for number in range(6):
            archive.writestr(f"d/{number}.bin", content(number + 20))
            archive.writestr(f"d/{number}.cls", str(number))
    shard = open_shard(path)
    assert numbers(shard) == list(range(6))
    assert shard[3]["bin"] == content(23)
    with zipfile.ZipFile(path) as archive:
        damage(path, archive.getinfo("d/2.bin").header_offset + 40)
    with pytest.raises(DamagedShardError, match=r"'d/2.bin'"):
        open_shard(path)[2]
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DamagedShardError, match="no directory"):
        len(open_shard(path))


def tfrecord(contents):
    frames = []
    for one in contents:
        length = struct.pack("<Q", len(one))
        frames.append(length + struct.pack("<I", masked_crc32c(length)) + one + struct.pack("<I", masked_crc32c(one)))
    return b"".join(frames)


def test_tfrecord_files_are_shards(tmp_path):
    path = tmp_path / "x.tfrecord"
    path.write_bytes(tfrecord([content(n + 5) for n in range(4)]))
    shard = open_shard(path)
    assert [sample["record"] for sample in shard] == [content(n + 5) for n in range(4)]
    damage(path, 14)
    with pytest.raises(DamagedShardError, match="byte 12: the checksum of record 0"):
        open_shard(path)[0]
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(DamagedShardError, match="ends inside a record"):
        len(open_shard(path))
    with pytest.warns(ShardWarning):
        assert len(list(ShardReader(path, on_damaged="skip"))) == 2  # the first and the last are damaged


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "arrows"])
def test_columnar_files_are_shards(tmp_path, suffix):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"cls": list(range(10)), "txt": [f"row {n}" for n in range(10)]})
    path = tmp_path / f"x.{suffix}"
    if suffix == "parquet":
        parquet.write_table(table, path, row_group_size=3)
    else:
        new = pa.ipc.new_file if suffix == "arrow" else pa.ipc.new_stream
        with new(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=4)
    shard = pickle.loads(pickle.dumps(open_shard(path)))
    assert len(shard) == 10
    assert [shard[n]["cls"] for n in (7, 0, 9, 3)] == [7, 0, 9, 3]
    assert numbers(ShardReader(path)) == list(range(10))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DamagedShardError, match=str(path)):
        list(open_shard(path))


def write_mds(folder, samples, compression=None):
    rows = []
    for number, text in samples:
        encoded = text.encode()
        rows.append(struct.pack("<I", len(encoded)) + struct.pack("<q", number) + encoded)
    begins = [4 + 4 * (len(rows) + 1)]
    for row in rows:
        begins.append(begins[-1] + len(row))
    raw = struct.pack(f"<{1 + len(begins)}I", len(rows), *begins) + b"".join(rows)
    about = {
        "format": "mds",
        "samples": len(rows),
        "column_names": ["cls", "txt"],
        "column_encodings": ["int", "str"],
        "column_sizes": [8, None],
        "compression": compression,
        "raw_data": {"basename": "shard.00000.mds"},
        "zip_data": {"basename": "shard.00000.mds.gz"} if compression else None,
    }
    (folder / "shard.00000.mds").write_bytes(raw)
    if compression:
        (folder / "shard.00000.mds").unlink()
        (folder / "shard.00000.mds.gz").write_bytes(gzip.compress(raw))
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": [about]}))


@pytest.mark.parametrize("compression", [None, "gz"])
def test_mds_folders_are_shards(tmp_path, compression):
    samples = [(n, f"text {'x' * n}") for n in range(6)]
    write_mds(tmp_path, samples, compression)
    (shard,) = mds_shards(tmp_path)
    assert [(sample["cls"], sample["txt"]) for sample in shard] == samples
    assert numbers(ShardDataset(str(tmp_path))) == list(range(6))
    if compression is None:
        path = tmp_path / "shard.00000.mds"
        path.write_bytes(path.read_bytes()[:-3])
        with pytest.raises(DamagedShardError, match="ends inside sample 5"):
            mds_shards(tmp_path)[0][5]


def test_an_mds_column_that_would_run_code_is_refused(tmp_path):
    write_mds(tmp_path, [(1, "a")])
    index = tmp_path / "index.json"
    index.write_text(index.read_text().replace('"str"', '"pkl"'))
    with pytest.raises(ShardError, match="'pkl' are not read"):
        mds_shards(tmp_path)


def test_patterns_count_and_unknown_suffixes_are_refused(tmp_path):
    assert expand("a-{8..11}.tar") == ["a-8.tar", "a-9.tar", "a-10.tar", "a-11.tar"]
    assert expand("{0..1}/{00..01}") == ["0/00", "0/01", "1/00", "1/01"]
    with pytest.raises(ShardError, match="names none"):
        open_shards(str(tmp_path / "*.tar"))
    with pytest.raises(ShardError, match=r"suffix '\.rar'"):
        open_shard("x.rar")
    with pytest.raises(ShardError, match="no such shard"):
        len(open_shard(tmp_path / "x.tar"))
