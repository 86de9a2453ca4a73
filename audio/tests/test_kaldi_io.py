"""Kaldi's archives, written here byte by byte: what is read, and what is refused."""

from __future__ import annotations

import contextlib
import gzip
import io
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.audio import kaldi_io

MATRIX = np.array([[1.0, -2.5, 3.0], [4.0, 5.0, 0.125]], dtype=np.float32)


def size(*numbers: int) -> bytes:
    return b"".join(struct.pack("<bi", 4, number) for number in numbers)


def binary_matrix(key: str, values: np.ndarray) -> bytes:
    kind = b"FM " if values.dtype == np.float32 else b"DM "
    return key.encode() + b" \0B" + kind + size(*values.shape) + values.tobytes()


def binary_vector(key: str, values: np.ndarray) -> bytes:
    kind = b"FV " if values.dtype == np.float32 else b"DV "
    return key.encode() + b" \0B" + kind + size(len(values)) + values.tobytes()


def integers(key: str, *values: int) -> bytes:
    return key.encode() + b" \0B" + size(len(values)) + size(*values)


def read(reader, content: bytes) -> dict[str, list]:
    return {key: value.tolist() for key, value in reader(io.BytesIO(content))}


def test_binary_archives_keep_dtypes_and_order():
    content = binary_matrix("b", MATRIX) + binary_matrix("a", MATRIX.astype(np.float64)[:1])
    found = list(kaldi_io.read_mat_ark(io.BytesIO(content)))
    assert [(key, value.dtype) for key, value in found] == [("b", torch.float32), ("a", torch.float64)]
    assert found[0][1].tolist() == MATRIX.tolist() and found[1][1].tolist() == MATRIX[:1].tolist()


def test_text_archives_are_read():
    assert read(kaldi_io.read_mat_ark, b"one  [\n  1 2 \n  3 4.5 ]\ntwo  [ ]\n") == {
        "one": [[1, 2], [3, 4.5]],
        "two": [],
    }
    assert read(kaldi_io.read_vec_flt_ark, b"one  [ 1 -2e3 ]\ntwo [ ]\n") == {"one": [1, -2000], "two": []}
    assert read(kaldi_io.read_vec_int_ark, b"one 1 2 -3\nnone \nlast 4\n") == {
        "one": [1, 2, -3],
        "none": [],
        "last": [4],
    }


def test_vectors_are_read():
    values = np.array([0.5, 2.0], dtype=np.float64)
    assert read(kaldi_io.read_vec_flt_ark, binary_vector("a", values) + binary_vector("b", values[:0])) == {
        "a": [0.5, 2.0],
        "b": [],
    }
    assert read(kaldi_io.read_vec_int_ark, integers("a", 1, -7) + integers("b")) == {"a": [1, -7], "b": []}


@given(values=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20))
def test_any_integers_survive(values):
    assert read(kaldi_io.read_vec_int_ark, integers("key", *values)) == {"key": values}


def test_compressed_matrices_are_spread_out():
    head = struct.pack("<ffii", -1.0, 4.0, 2, 3)
    two = np.array([[0, 65535, 32768], [1, 2, 3]], dtype="<u2")
    (found,) = (value for _, value in kaldi_io.read_mat_ark(io.BytesIO(b"k \0BCM2 " + head + two.tobytes())))
    torch.testing.assert_close(found, torch.from_numpy(-1 + two.astype(np.float32) * 4 / 65535))
    one = np.array([[0, 255, 128], [1, 2, 3]], dtype=np.uint8)
    (found,) = (value for _, value in kaldi_io.read_mat_ark(io.BytesIO(b"k \0BCM3 " + head + one.tobytes())))
    torch.testing.assert_close(found, torch.from_numpy(-1 + one.astype(np.float32) * 4 / 255))


def test_percentiles_bend_the_scale_of_each_column():
    head = struct.pack("<ffii", 0.0, 65535.0, 5, 1)
    percentiles = np.array([[0, 100, 300, 1000]], dtype="<u2")
    codes = np.array([[0, 64, 128, 192, 255]], dtype=np.uint8)
    content = b"k \0BCM " + head + percentiles.tobytes() + codes.tobytes()
    assert read(kaldi_io.read_mat_ark, content) == {"k": [[0], [100], [200], [300], [1000]]}


def test_a_list_finds_values_by_offset_and_part(tmp_path):
    archive = tmp_path / "feats.ark"
    first = binary_matrix("a", MATRIX)
    archive.write_bytes(first + binary_matrix("b", MATRIX * 2))
    offset = len(first) + len("b ")
    lines = tmp_path / "feats.scp"
    lines.write_text(
        f"a {archive}:2\nb {archive}:{offset}\npart {archive}:{offset}[1:1,0:1]\nrows {archive}:2[0:0]\n\n"
    )
    found = {key: value.tolist() for key, value in kaldi_io.read_mat_scp(f"scp:{lines}")}
    assert found == {
        "a": MATRIX.tolist(),
        "b": (2 * MATRIX).tolist(),
        "part": (2 * MATRIX[1:, :2]).tolist(),
        "rows": MATRIX[:1].tolist(),
    }


def test_vectors_are_found_by_list_and_paths_may_carry_a_prefix(tmp_path):
    archive = tmp_path / "v.ark"
    archive.write_bytes(binary_vector("a", MATRIX[0]))
    (tmp_path / "v.scp").write_text(f"a {archive}:2\n")
    assert [key for key, _ in kaldi_io.read_vec_flt_scp(tmp_path / "v.scp")] == ["a"]
    assert [key for key, _ in kaldi_io.read_vec_flt_ark(f"ark:{archive}")] == ["a"]


def test_commands_and_compressed_files_need_permission(tmp_path):
    trace = tmp_path / "trace"
    command = f"touch {trace}; printf 'a 1 2\\n' |"
    with pytest.raises(ValueError, match="permit"):
        list(kaldi_io.read_vec_int_ark(command))
    assert not trace.exists()
    packed = tmp_path / "a.ark.gz"
    packed.write_bytes(gzip.compress(integers("a", 3)))
    with pytest.raises(ValueError, match="permit"):
        list(kaldi_io.read_vec_int_ark(packed))
    with kaldi_io.permit(gzip=True, pipes=True):
        assert [(key, value.tolist()) for key, value in kaldi_io.read_vec_int_ark(command)] == [("a", [1, 2])]
        assert [(key, value.tolist()) for key, value in kaldi_io.read_vec_int_ark(packed)] == [("a", [3])]
    with pytest.raises(ValueError, match="permit"):
        list(kaldi_io.read_vec_int_ark(packed))


def test_a_command_that_fails_is_told():
    with kaldi_io.permit(pipes=True), pytest.raises(ValueError, match="status 3"):
        list(kaldi_io.read_vec_int_ark("exit 3 |"))


@pytest.mark.parametrize(
    ("reader", "content", "word"),
    [
        (kaldi_io.read_mat_ark, binary_matrix("a", MATRIX)[:-1], "cut off"),
        (kaldi_io.read_mat_ark, b"a \0BFM " + size(2**30, 2**30), "cut off"),
        (kaldi_io.read_mat_ark, b"a \0BFM " + size(-1, 2), "damaged"),
        (kaldi_io.read_mat_ark, b"a \0BFM \x08\0\0\0\0", "8 bytes"),
        (kaldi_io.read_mat_ark, binary_vector("a", MATRIX[0]), "'FV'"),
        (kaldi_io.read_mat_ark, b"a [ 1 2\n 3 ]\n", "different lengths"),
        (kaldi_io.read_mat_ark, b"a [ 1 x ]\n", "expected numbers"),
        (kaldi_io.read_mat_ark, b"a [ 1 2\n", "no closing bracket"),
        (kaldi_io.read_mat_ark, b"x" * 5000, "white space"),
        (kaldi_io.read_vec_flt_ark, binary_matrix("a", MATRIX), "'FM'"),
        (kaldi_io.read_vec_flt_ark, b"a [ 1 2\n 3 4 ]\n", "read_mat_ark"),
        (kaldi_io.read_vec_int_ark, b"a 1 2.5\n", "expected integers"),
        (kaldi_io.read_vec_int_ark, b"a \0X", "binary mark"),
        (kaldi_io.read_vec_int_ark, b"a \0B" + size(1) + b"\x02\0\0\0\0", "4 bytes"),
    ],
)
def test_damaged_files_are_refused_with_a_reason(reader, content, word):
    with pytest.raises(ValueError, match=word):
        list(reader(io.BytesIO(content)))


@given(content=st.binary(max_size=60))
def test_no_bytes_raise_anything_but_an_error_of_the_reader(content):
    for reader in (kaldi_io.read_mat_ark, kaldi_io.read_vec_flt_ark, kaldi_io.read_vec_int_ark):
        with contextlib.suppress(kaldi_io.KaldiFileError):
            list(reader(io.BytesIO(b"key " + content)))


def test_a_missing_file_is_missing(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        list(kaldi_io.read_mat_ark(tmp_path / "none.ark"))


@pytest.mark.parametrize("part", ["[0:5]", "[1:0]", "[0]", "[0:0,0:0,0:0]"])
def test_parts_that_are_not_there_are_refused(part, tmp_path):
    archive = tmp_path / "a.ark"
    archive.write_bytes(binary_matrix("a", MATRIX))
    (tmp_path / "a.scp").write_text(f"a {archive}:2{part}\n")
    with pytest.raises(ValueError, match="no part"):
        list(kaldi_io.read_mat_scp(tmp_path / "a.scp"))
