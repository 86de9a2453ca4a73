"""Archives are unpacked whole or not at all, and never outside their folder."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import random
import signal
import stat
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.core.errors import DiskFullError, HubError, UnsafeArchiveError
from flambeau.core.hub import archive_rules, archives, extract_archive, read_archive

FILES = {"a.txt": b"first", "deep/er/b.bin": bytes(range(256)) * 40, "deep/c": b""}


def tar_member(name, data=b"", kind=tarfile.REGTYPE, link="", mode=0o644):
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname, info.mode = len(data), kind, link, mode
    return info, data


def make_tar(path, *members, mode="w"):
    with tarfile.open(path, mode, format=tarfile.GNU_FORMAT) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return path


def make_zip(path, *members):
    """Members are (name, data, unix mode); names are written as they are, whatever `zipfile` thinks of them."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, mode in members:
            info = zipfile.ZipInfo("placeholder")
            info.filename = info.orig_filename = name
            info.external_attr, info.compress_type, info.create_system = mode << 16, zipfile.ZIP_DEFLATED, 3
            archive.writestr(info, data)
    return path


def tree(folder):
    """What is below a folder: links as their target, files as their bytes, without our own marks."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_file() and not path.name.startswith(".flambeau"):
            found[name] = path.read_bytes()
    return found


@pytest.fixture
def box(tmp_path):
    """A folder with the archive's place and the target, and something beside them that must not change."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("untouched")
    (tmp_path / "in").mkdir()
    return tmp_path


def refused(box, archive, match, error=UnsafeArchiveError, **options):
    """Extract, expect a refusal that names the archive, and check that nothing of it is left anywhere."""
    before = tree(box)
    with pytest.raises(error, match=match) as caught:
        extract_archive(archive, box / "in" / "target", **options)
    assert str(archive) in str(caught.value)
    assert tree(box) == before
    assert os.listdir(box / "in") == []


# --- what is unpacked ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_in_any_compression_is_unpacked(box, mode):
    archive = make_tar(box / "data", *(tar_member(*item) for item in FILES.items()), mode=mode)
    folder = extract_archive(archive, box / "in" / "target")
    assert folder == box / "in" / "target"
    assert tree(folder) == FILES
    assert os.listdir(box / "in") == ["target"]


def test_a_zip_is_unpacked(box):
    archive = make_zip(box / "data", ("empty/", b"", stat.S_IFDIR | 0o755), *((n, d, 0) for n, d in FILES.items()))
    folder = extract_archive(archive, box / "in" / "target")
    assert tree(folder) == FILES
    assert (folder / "empty").is_dir()


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_a_single_compressed_file_is_unpacked_under_its_own_name(box, suffix, compress):
    archive = box / f"labels.csv.{suffix}"
    archive.write_bytes(compress(b"1,2\n" * 1000))
    assert tree(extract_archive(archive, box / "in" / "target")) == {"labels.csv": b"1,2\n" * 1000}


def test_zstd_is_unpacked_where_a_module_for_it_exists(box):
    zstd = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    plain = make_tar(box / "plain", *(tar_member(*item) for item in FILES.items()))
    archive = box / "data.tar.zst"
    archive.write_bytes(zstd.compress(plain.read_bytes()))
    assert tree(extract_archive(archive, box / "in" / "target")) == FILES


def test_without_a_module_for_zstd_the_error_says_what_to_install(box, monkeypatch):
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    (box / "data.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(100))
    refused(box, box / "data.zst", "pip install backports.zstd", HubError)


@pytest.mark.parametrize(("name", "folder"), [("set.tar.gz", "set"), ("set.tgz", "set"), ("v1.2.zip", "v1.2")])
def test_without_a_target_the_folder_is_beside_the_archive_and_named_like_it(box, name, folder):
    if name.endswith("zip"):
        archive = make_zip(box / name, ("a", b"1", 0))
    else:
        archive = make_tar(box / name, tar_member("a", b"1"), mode="w:gz")
    assert extract_archive(archive) == box / folder
    assert (box / folder / "a").read_bytes() == b"1"


def test_an_archive_without_a_suffix_gets_a_folder_of_another_name(box):
    archive = make_tar(box / "data", tar_member("a", b"1"))
    assert extract_archive(archive) == box / "data.contents"


def test_an_empty_tar_makes_an_empty_folder(box):
    assert tree(extract_archive(make_tar(box / "none.tar"), box / "in" / "target")) == {}


def test_links_inside_the_target_are_kept(box):
    archive = make_tar(
        box / "links.tar",
        tar_member("deep/up", kind=tarfile.SYMTYPE, link="../a.txt"),  # before what it points to
        tar_member("a.txt", b"first"),
        tar_member("hard", kind=tarfile.LNKTYPE, link="a.txt"),
    )
    folder = extract_archive(archive, box / "in" / "target")
    assert (folder / "deep" / "up").read_bytes() == b"first"
    assert (folder / "hard").samefile(folder / "a.txt")


def test_a_symbolic_link_in_a_zip_is_a_link(box):
    archive = make_zip(box / "l.zip", ("a", b"1", stat.S_IFREG | 0o644), ("l", b"a", stat.S_IFLNK | 0o777))
    assert tree(extract_archive(archive, box / "in" / "target")) == {"a": b"1", "l": ("link", "a")}


def test_the_last_of_several_members_with_one_name_counts(box):
    archive = make_tar(
        box / "t.tar", tar_member("a", b"old"), tar_member("b", kind=tarfile.LNKTYPE, link="a"), tar_member("a", b"new")
    )
    assert tree(extract_archive(archive, box / "in" / "target")) == {"a": b"new", "b": b"old"}


def test_set_uid_bits_are_cleared_and_executables_stay_executable(box):
    archive = make_tar(box / "t.tar", tar_member("run", b"#!", mode=0o6755), tar_member("plain", b"", mode=0o6644))
    umask = os.umask(0o027)
    try:
        folder = extract_archive(archive, box / "in" / "target")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((folder / "run").stat().st_mode) == 0o750
    assert stat.S_IMODE((folder / "plain").stat().st_mode) == 0o640


def test_the_archive_is_removed_when_asked(box):
    archive = make_tar(box / "t.tar", tar_member("a", b"1"))
    extract_archive(archive, box / "in" / "target", remove=True)
    assert not archive.exists()


# --- what is refused ----------------------------------------------------------------------------------------------

EVIL_NAMES = [
    "../evil", "a/../../evil", "..", "/tmp/flambeau-evil", "//host/share/evil", "C:evil", "C:/evil", "a/C:evil",
    "..\\evil", "a\\b", "\\\\host\\share\\evil", "x" * 256, "/".join(["d" * 200] * 21),
]  # fmt: skip


@pytest.mark.parametrize("name", EVIL_NAMES)
@pytest.mark.parametrize("make", [
    lambda path, name: make_tar(path, tar_member("fine", b"1"), tar_member(name, b"2")),
    lambda path, name: make_zip(path, ("fine", b"1", 0), (name, b"2", 0)),
], ids=["tar", "zip"])  # fmt: skip
def test_a_name_that_leads_outside_or_is_ambiguous_is_refused(box, make, name):
    refused(box, make(box / "evil", name), "name|leads")


def test_a_name_with_nul_is_refused(box):
    refused(box, make_zip(box / "evil.zip", ("fine\0/../../evil", b"1", 0)), "name")


@pytest.mark.parametrize("link", ["../outside/precious", "/etc/passwd", "..\\outside", "C:\\x", "a/../../outside", ""])
@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_a_link_that_leads_outside_is_refused(box, kind, link):
    refused(box, make_tar(box / "evil.tar", tar_member("a", b"1"), tar_member("l", kind=kind, link=link)), "link|name")


def test_a_link_that_leads_outside_through_a_later_link_is_refused(box):
    archive = make_tar(
        box / "evil.tar",
        tar_member("escape", kind=tarfile.SYMTYPE, link="d/up/../outside"),
        tar_member("d/up", kind=tarfile.SYMTYPE, link=".."),  # by itself it stays inside
    )
    refused(box, archive, "'escape' links to")


def test_writing_through_an_earlier_link_is_refused(box):
    archive = make_tar(
        box / "evil.tar", tar_member("l", kind=tarfile.SYMTYPE, link="."), tar_member("l/../../evil", b"1")
    )
    refused(box, archive, "leads outside")
    archive = make_tar(box / "evil.tar", tar_member("l", kind=tarfile.SYMTYPE, link="d"), tar_member("l/x", b"1"))
    refused(box, archive, "go through the symlink")


def test_a_file_that_replaces_an_earlier_link_is_refused(box):
    archive = make_tar(box / "evil.tar", tar_member("l", kind=tarfile.SYMTYPE, link="d"), tar_member("l", b"1"))
    refused(box, archive, "would replace")


def test_links_in_a_circle_are_refused(box):
    archive = make_tar(
        box / "t.tar", tar_member("a", kind=tarfile.SYMTYPE, link="b"), tar_member("b", kind=tarfile.SYMTYPE, link="a")
    )
    refused(box, archive, "outside or nowhere")


def test_a_hard_link_to_a_symbolic_link_or_to_nothing_is_refused(box):
    link, hard = tar_member("l", kind=tarfile.SYMTYPE, link="x"), tar_member("h", kind=tarfile.LNKTYPE, link="l")
    refused(box, make_tar(box / "t.tar", link, hard), "no file before it")
    refused(box, make_tar(box / "t.tar", hard), "no file before it")


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"Q"])
def test_devices_pipes_and_unknown_kinds_are_refused_in_a_tar(box, kind):
    refused(box, make_tar(box / "t.tar", tar_member("fine", b"1"), tar_member("dev", kind=kind)), "device")


@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK])
def test_devices_pipes_and_sockets_are_refused_in_a_zip(box, kind):
    refused(box, make_zip(box / "t.zip", ("fine", b"1", 0), ("dev", b"", kind | 0o666)), "device")


def test_a_hard_link_is_a_copy_where_the_file_system_has_no_links(box, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    archive = make_tar(box / "t.tar", tar_member("a", b"12"), tar_member("h", kind=tarfile.LNKTYPE, link="./a"))
    assert tree(extract_archive(archive, box / "in" / "target")) == {"a": b"12", "h": b"12"}
    with pytest.raises(UnsafeArchiveError, match="max_bytes=3"):
        extract_archive(archive, box / "in" / "other", max_bytes=3)


def test_a_hard_link_takes_the_place_of_a_file_and_not_of_its_own_target(box):
    a, b = tar_member("a", b"12"), tar_member("b", b"34")
    archive = make_tar(box / "t.tar", a, b, tar_member("b", kind=tarfile.LNKTYPE, link="a"))
    assert tree(extract_archive(archive, box / "target")) == {"a": b"12", "b": b"12"}
    refused(box, make_tar(box / "t.tar", a, tar_member("./a", kind=tarfile.LNKTYPE, link="a")), "no file before it")


def test_a_name_below_a_file_is_refused(box):
    refused(box, make_tar(box / "t.tar", tar_member("a", b"1"), tar_member("a/b", b"2")), "go through the file")


def test_names_that_differ_in_case_alone_are_refused_where_the_file_system_ignores_it(box, monkeypatch):
    archive = make_tar(box / "t.tar", tar_member("Train/a", b"1"), tar_member("train/b", b"2"))
    monkeypatch.setattr(archive_rules, "ignores_case", lambda folder: True)
    refused(box, archive, "ignores case")
    monkeypatch.setattr(archive_rules, "ignores_case", lambda folder: False)
    assert len(tree(extract_archive(archive, box / "in" / "target"))) == 2


def test_whether_a_file_system_ignores_case_is_found_out_by_trying(tmp_path):
    (tmp_path / "Probe").touch()
    assert archive_rules.ignores_case(tmp_path) == (tmp_path / "pROBE").exists()
    assert os.listdir(tmp_path) == ["Probe"]


# --- limits -------------------------------------------------------------------------------------------------------


def test_more_bytes_than_allowed_are_refused_before_anything_is_written(box):
    archive = make_tar(box / "t.tar", tar_member("a", bytes(600)), tar_member("b", bytes(600)))
    refused(box, archive, "max_bytes=1,000", max_bytes=1000)
    assert extract_archive(archive, box / "in" / "target", max_bytes=1200)


def test_more_members_than_allowed_are_refused(box):
    archive = make_zip(box / "t.zip", *((f"f{i}", b"", 0) for i in range(5)))
    refused(box, archive, "max_files=4", max_files=4)


def test_a_bomb_is_refused_by_its_ratio(box):
    bomb = box / "bomb.gz"
    with gzip.open(bomb, "wb") as file:
        for _ in range(130):
            file.write(bytes(1 << 20))
    assert bomb.stat().st_size < 200_000
    refused(box, bomb, "200 times")
    assert extract_archive(bomb, box / "in" / "target", max_ratio=2000)


def test_a_tar_bomb_is_refused_before_anything_is_written(box, monkeypatch):
    bomb = box / "bomb.tar.gz"
    with tarfile.open(bomb, "w:gz") as tar:
        info = tarfile.TarInfo("zeros")
        info.size = 130 << 20
        tar.addfile(info, io.BytesIO(bytes(info.size)))
    monkeypatch.setattr(archives, "_write", lambda *arguments: pytest.fail("something was written"))
    refused(box, bomb, "200 times")


def test_a_zip_that_claims_too_little_is_refused(box):
    archive = make_zip(box / "lie.zip", ("a", b"x" * 5000, 0))
    data = bytearray(archive.read_bytes())
    central = data.rindex(b"PK\x01\x02")
    struct.pack_into("<I", data, 22, 10)
    struct.pack_into("<I", data, central + 24, 10)
    archive.write_bytes(data)
    refused(box, archive, "damaged|claims", HubError)


def test_a_zip_that_claims_too_much_is_refused(box):
    archive = make_zip(box / "lie.zip", ("a", b"x" * 5000, 0))
    data = bytearray(archive.read_bytes())
    struct.pack_into("<I", data, data.rindex(b"PK\x01\x02") + 24, 6000)
    archive.write_bytes(data)
    refused(box, archive, "claims 6,000 bytes and has 5,000")


def overlapping_zip(path, count):
    """Many entries of the directory that all lead to the same compressed bytes."""
    kernel = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = kernel.compress(bytes(1 << 20)) + kernel.flush()
    crc = zlib.crc32(bytes(1 << 20))
    fields = (20, 0, 8, 0, 0, crc, len(packed), 1 << 20)
    local = struct.pack("<4s5H3L2H", b"PK\x03\x04", *fields, 1, 0) + b"a" + packed
    entries = [
        struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, *fields, 1, 0, 0, 0, 0, 0, 0) + bytes([97 + i])
        for i in range(count)
    ]
    directory = b"".join(entries)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(directory), len(local), 0)
    path.write_bytes(local + directory + end)
    return path


def test_a_zip_whose_entries_share_bytes_is_refused(box):
    refused(box, overlapping_zip(box / "fifield.zip", 5), "overlaps")
    assert len(tree(extract_archive(overlapping_zip(box / "one.zip", 1), box / "in" / "target"))) == 1


def test_a_header_that_would_fill_the_memory_is_refused(box):
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 64 << 20
    bomb = box / "header.tar.gz"
    bomb.write_bytes(gzip.compress(info.tobuf(tarfile.USTAR_FORMAT) + bytes(info.size)))
    refused(box, bomb, "header")


def test_what_does_not_fit_on_the_disk_is_said_before_writing(box, monkeypatch):
    usage = archive_rules.shutil.disk_usage(box)
    monkeypatch.setattr(archive_rules.shutil, "disk_usage", lambda path: usage._replace(free=(1 << 30) + 100))
    archive = make_tar(box / "t.tar", tar_member("a", bytes(101)))
    refused(box, archive, "make room", DiskFullError)


# --- damage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("keep", [0.3, 0.6, 0.97])
def test_a_truncated_tar_is_refused(box, mode, keep):
    noise = random.Random(1).randbytes(40_000)
    archive = make_tar(box / "t.tar", tar_member("a", noise), tar_member("b", noise), mode=mode)
    data = archive.read_bytes()
    # Plain tars are padded to 10 kB with zeros, which nobody misses.
    end = int(keep * (len(data) if mode != "w" else 2 * (512 + 40_448)))
    archive.write_bytes(data[:end])
    refused(box, archive, "damaged|truncated", HubError)


def test_a_tar_that_ends_between_two_members_is_refused(box):
    archive = make_tar(box / "t.tar", tar_member("a", bytes(512)), tar_member("b", bytes(512)))
    archive.write_bytes(archive.read_bytes()[:1024])
    refused(box, archive, "end mark", HubError)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.99])
def test_a_truncated_zip_is_refused(box, keep):
    archive = make_zip(box / "t.zip", ("a", random.Random(1).randbytes(5000), 0), ("b", b"1", 0))
    archive.write_bytes(archive.read_bytes()[: int(keep * archive.stat().st_size)])
    refused(box, archive, "damaged|truncated", HubError)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_truncated_single_file_is_refused(box, compress):
    archive = box / "x.bin.z"
    archive.write_bytes(compress(random.Random(1).randbytes(5000))[:-20])
    refused(box, archive, "damaged|truncated", HubError)


def test_a_flipped_byte_in_a_zip_is_refused(box):
    archive = make_zip(box / "t.zip", ("a", random.Random(1).randbytes(5000), 0))
    data = bytearray(archive.read_bytes())
    data[2500] ^= 1
    archive.write_bytes(data)
    refused(box, archive, "damaged", HubError)


def test_an_encrypted_zip_is_refused_with_advice(box):
    archive = make_zip(box / "t.zip", ("a", b"1", 0))
    data = bytearray(archive.read_bytes())
    data[6] |= 1
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(data)
    refused(box, archive, "encrypted", HubError)


def test_something_that_is_no_archive_is_refused(box):
    (box / "page.html").write_text("<html>" + "not found " * 100)
    refused(box, box / "page.html", "not an archive", HubError)


def test_a_missing_archive_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        extract_archive(tmp_path / "none.tar", tmp_path / "target")


# --- again, together, interrupted ---------------------------------------------------------------------------------


def test_an_archive_is_unpacked_once(box, monkeypatch):
    archive = make_tar(box / "t.tar", tar_member("a", b"1"))
    folder = extract_archive(archive, box / "in" / "target")
    monkeypatch.setattr(archives, "_extract", lambda *arguments: pytest.fail("unpacked again"))
    assert extract_archive(archive, folder) == folder


def test_it_is_unpacked_again_when_it_changed_or_what_it_made_is_gone(box):
    archive = make_tar(box / "t.tar", tar_member("a", b"1"))
    folder = extract_archive(archive, box / "in" / "target")
    (folder / "a").unlink()
    assert tree(extract_archive(archive, folder)) == {"a": b"1"}
    make_tar(box / "t.tar", tar_member("a", b"2"), tar_member("b", b"3"))
    assert tree(extract_archive(archive, folder)) == {"a": b"2", "b": b"3"}


def test_a_mark_inside_an_archive_proves_nothing(box):
    second = make_tar(box / "second.tar", tar_member("b", b"2"))
    digest = hashlib.sha256(second.read_bytes()).hexdigest()
    forged = json.dumps({"archive": "second.tar", "sha256": digest, "size": second.stat().st_size,
                         "mtime_ns": second.stat().st_mtime_ns, "entries": []})  # fmt: skip
    first = make_tar(box / "first.tar", tar_member(f".flambeau-{digest[:16]}.extracted", forged.encode()))
    folder = extract_archive(first, box / "in" / "target")
    assert tree(extract_archive(second, folder)) == {"b": b"2"}


def test_two_archives_share_a_target(box):
    folder = box / "in" / "target"
    extract_archive(make_tar(box / "1.tar", tar_member("train/a", b"1"), tar_member("x", b"old")), folder)
    (folder / "mine").write_text("kept")
    extract_archive(make_tar(box / "2.tar", tar_member("train/b", b"2"), tar_member("x", b"new")), folder)
    assert tree(folder) == {"train/a": b"1", "train/b": b"2", "x": b"new", "mine": b"kept"}


def test_nothing_is_moved_when_one_thing_is_in_the_way(box):
    folder = box / "in" / "target"
    (folder / "b").mkdir(parents=True)
    archive = make_tar(box / "t.tar", tar_member("a", b"1"), tar_member("b", b"2"))
    with pytest.raises(HubError, match="in the way"):
        extract_archive(archive, folder)
    assert os.listdir(folder) == ["b"]


def test_a_link_in_the_target_that_leads_outside_is_not_written_through(box):
    folder = box / "in" / "target"
    folder.mkdir()
    (folder / "out").symlink_to(box / "outside")
    for member in (tar_member("out/precious", b"evil"), tar_member("l", kind=tarfile.SYMTYPE, link="out/precious")):
        with pytest.raises(UnsafeArchiveError):
            extract_archive(make_tar(box / "t.tar", member), folder)
    assert (box / "outside" / "precious").read_text() == "untouched"
    assert os.listdir(folder) == ["out"]


def test_a_file_over_a_link_in_the_target_replaces_the_link(box):
    folder = box / "in" / "target"
    folder.mkdir()
    (folder / "precious").symlink_to(box / "outside" / "precious")
    extract_archive(make_tar(box / "t.tar", tar_member("precious", b"new")), folder)
    assert tree(folder) == {"precious": b"new"}
    assert (box / "outside" / "precious").read_text() == "untouched"


def test_a_file_in_place_of_the_target_is_in_the_way(box):
    (box / "in" / "target").write_text("mine")
    with pytest.raises(HubError, match="in the way"):
        extract_archive(make_tar(box / "t.tar", tar_member("a", b"1")), box / "in" / "target")
    assert (box / "in" / "target").read_text() == "mine"


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
@pytest.mark.parametrize("existing", [False, True])
def test_an_extraction_that_was_killed_is_redone_and_leaves_nothing_behind(box, existing):
    folder = box / "in" / "target"
    if existing:
        folder.mkdir()
    archive = make_tar(box / "t.tar", *(tar_member(f"f{i}", b"1") for i in range(50)))
    # The process stops in the middle of writing and waits to be killed.
    program = """
import sys, time
from flambeau.core.hub import archives
count, real = 0, archives._write_file
def slow(*arguments):
    global count
    count += 1
    if count == 20:
        print("half", flush=True)
        time.sleep(600)
    return real(*arguments)
archives._write_file = slow
archives.extract_archive(sys.argv[1], sys.argv[2])
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(archive), str(folder)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"half\n"
        process.send_signal(signal.SIGKILL)
    assert tree(folder) == {} or "f49" not in os.listdir(folder)
    extract_archive(archive, folder)
    assert len(tree(folder)) == 50
    assert os.listdir(box / "in") == ["target"]
    assert [name for name in os.listdir(folder) if name.endswith((".tmp", ".lock"))] == []


def test_an_interrupt_leaves_nothing(box, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(archives, "_write_file", interrupt)
    with pytest.raises(KeyboardInterrupt):
        extract_archive(make_tar(box / "t.tar", tar_member("a", b"1")), box / "in" / "target")
    assert os.listdir(box / "in") == []


# --- property -----------------------------------------------------------------------------------------------------

PART = st.sampled_from(["..", ".", "", "a", "b", "c", "A", "C:", "d\\e", "outside", "precious", "x" * 300, "é\n"])
NAME = st.builds(lambda root, parts: root + "/".join(parts), st.sampled_from(["", "", "/"]), st.lists(PART, max_size=5))
MEMBER = st.tuples(
    NAME.filter(bool),
    st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE]),
    NAME,
)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.lists(MEMBER, max_size=6), min_size=1, max_size=2))
def test_whatever_names_and_links_archives_have_nothing_outside_the_target_changes(tmp_path_factory, contents):
    box = tmp_path_factory.mktemp("box")
    (box / "outside").mkdir()
    (box / "outside" / "precious").write_text("untouched")
    target = box / "in" / "target"
    target.mkdir(parents=True)
    for number, members in enumerate(contents):
        archive = make_tar(
            box / f"{number}.tar",
            *(tar_member(n, b"evil" if k == tarfile.REGTYPE else b"", k, link) for n, k, link in members),
        )
        before = {name: data for name, data in tree(box).items() if not name.startswith("in/target/")}
        whole = tree(target)
        try:
            extract_archive(archive, target)
        except HubError:
            assert tree(target) == whole
        assert {name: data for name, data in tree(box).items() if not name.startswith("in/target/")} == before
    for path in target.rglob("*"):
        assert path.resolve().is_relative_to(target.resolve())


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_damage_anywhere_is_an_error_of_ours_or_harmless(tmp_path_factory, data):
    box = tmp_path_factory.mktemp("box")
    maker = data.draw(st.sampled_from(["tar", "tgz", "zip"]))
    if maker == "zip":
        archive = make_zip(box / "t", *((n, d, 0) for n, d in FILES.items()))
    else:
        archive = make_tar(
            box / "t", *(tar_member(*item) for item in FILES.items()), mode="w:gz" * (maker == "tgz") or "w"
        )
    content = bytearray(archive.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    archive.write_bytes(content)
    try:
        extract_archive(archive, box / "in" / "target")
    except HubError:
        assert not (box / "in" / "target").exists()
    assert sorted(os.listdir(box)) == ["in", "t"]


# --- what is read without unpacking -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_the_files_of_a_tar_are_read_in_its_order(box, mode):
    archive = make_tar(box / "data", *(tar_member(*item) for item in FILES.items()), mode=mode)
    assert {name: stream.read() for name, stream in read_archive(archive)} == FILES
    assert sorted(os.listdir(box)) == ["data", "in", "outside"]


def test_the_files_of_a_zip_are_read_and_folders_and_links_left_out(box):
    link = ("link", b"a.txt", stat.S_IFLNK | 0o777)
    folder = ("deep/", b"", stat.S_IFDIR | 0o755)
    archive = make_zip(box / "data", folder, link, *((n, d, 0) for n, d in FILES.items()))
    assert {name: b"".join(stream) for name, stream in read_archive(archive)} == FILES


def test_a_single_compressed_file_is_read_under_its_own_name(box):
    (box / "notes.txt.xz").write_bytes(lzma.compress(b"one\ntwo\n"))
    assert [(name, stream.readlines()) for name, stream in read_archive(box / "notes.txt.xz")] == [
        ("notes.txt", [b"one\n", b"two\n"])
    ]


def test_reading_refuses_names_that_lead_outside_and_too_much_content(box):
    outside = make_tar(box / "outside.tar", tar_member("../precious", b"x"))
    with pytest.raises(UnsafeArchiveError, match="leads outside"):
        list(read_archive(outside))
    large = make_zip(box / "large.zip", ("zeros", bytes(10_000), 0))
    with pytest.raises(UnsafeArchiveError, match="max_bytes=5,000"):
        [stream.read() for _, stream in read_archive(large, max_bytes=5_000)]
    many = make_zip(box / "many.zip", *((f"{number}", b"", 0) for number in range(4)))
    with pytest.raises(UnsafeArchiveError, match="max_files=3"):
        list(read_archive(many, max_files=3))


def test_reading_a_damaged_archive_names_it(box):
    archive = make_tar(box / "data.tar.gz", tar_member("a", random.Random(0).randbytes(50_000)), mode="w:gz")
    archive.write_bytes(archive.read_bytes()[:20_000])
    with pytest.raises(HubError, match=r"data\.tar\.gz is damaged"):
        [stream.read() for _, stream in read_archive(archive)]
