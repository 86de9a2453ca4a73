"""Word vectors: the native reader against the reference, odd files, copies, neighbours."""

from __future__ import annotations

import gzip
import hashlib
import io
import logging
import ssl
import struct
import tarfile
import zipfile

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flambeau.core.errors import CheckpointError, DownloadError, HashMismatchError, HubWarning
from flambeau.core.testing.server import FileServer
from flambeau.text._native import LIBRARY
from flambeau.text._vectors import checksums, reading
from flambeau.text.prototype import vectors as prototype
from flambeau.text.vocab import CharNGram, FastText, GloVe, Vectors, pretrained_aliases

NUMBERS = st.one_of(
    st.floats(width=32).map(repr),
    st.floats().map(repr),
    st.integers(-(10**25), 10**25).map(str),
    st.sampled_from(
        ["-0", "+1", "1.", ".5", "1e5", "1E-7", "-1e+3", "1e400", "-1e-400", "0e999999", "1_0", "nan", "Infinity"]
    ),
    st.decimals(allow_nan=False, allow_infinity=False, places=20).map(str),
    st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{0,25})?(e-?[0-9]{1,3})?", fullmatch=True),
)
WORDS = st.one_of(
    st.text(st.characters(exclude_characters=" \n", exclude_categories=["Cs"]), min_size=1, max_size=5),
    st.sampled_from(["\xa0", "é", ".", "\u3000", "a\xa0b"]),
)


def bits(values):
    return [struct.pack("f", value) for value in values.flatten().tolist()]


@pytest.fixture
def reference(monkeypatch):
    """A function that reads without the native library."""

    def read(path, **options):
        with monkeypatch.context() as patch:
            patch.setattr(reading.LIBRARY, "load", lambda: None)
            return reading.read_text(path, **options)

    return read


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(WORDS, st.lists(NUMBERS, min_size=3, max_size=3)), min_size=1, max_size=6), data=st.data()
)
def test_the_native_reader_gives_what_the_reference_gives(tmp_path, reference, rows, data):
    if LIBRARY.load() is None:
        pytest.skip("the native library is not built")
    end = data.draw(st.sampled_from(["\n", "\r\n", " \n", "\t\n"]))
    text = end.join(" ".join([word, *numbers]) for word, numbers in rows) + data.draw(st.sampled_from(["", end]))
    path = tmp_path / "v.vec"
    path.write_bytes(text.encode())
    try:
        wanted = reference(path)
    except (RuntimeError, ValueError) as error:  # a word that ends in blanks, and the like
        with pytest.raises(type(error)):
            reading.read_text(path)
        return
    found = reading.read_text(path)
    assert found.words == wanted.words
    assert bits(found.vectors) == bits(wanted.vectors)


def test_numbers_are_rounded_as_python_rounds_them(tmp_path):
    numbers = [
        "0.1",
        "0.30000000000000004",
        "9007199254740993",
        "1e23",
        "8.41e21",
        "123456789012345678901234567890",
        "5e-324",
        "1.17549435e-38",
    ]
    path = tmp_path / "v.vec"
    path.write_text("word " + " ".join(numbers))
    table = reading.read_text(path)
    assert bits(table.vectors) == bits(torch.tensor([float(number) for number in numbers]))


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_odd_lines_are_left_out_and_said(tmp_path, reference, caplog, engine):
    path = tmp_path / "v.vec"
    path.write_bytes(b"3 2\n\xff\xfe 1 2\na 1 2\nheader 7\n\xc3( 3 4\nb nan -0\n")
    read = reference if engine == "reference" else reading.read_text
    with caplog.at_level(logging.WARNING):
        table = read(path)
    assert reading.split_words(table.words) == ["a", "b"]
    assert str(table.vectors.tolist()) == "[[1.0, 2.0], [nan, -0.0]]"
    assert [record.message.split(":")[1] for record in caplog.records].count(
        " b'\\xff\\xfe' is not UTF-8; it is left out."
    ) == 1
    assert "line 5" in caplog.text


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("a 1 2\nb 1 2 3\n", RuntimeError, "line 2.* b'b' has 3 numbers.* have 2"),
        ("a 1 2\n\nb 1 2\n", RuntimeError, "line 2.* has 0 numbers"),
        ("a 1 x\n", ValueError, "line 1.* holds no numbers"),
        ("a 1 2\nb 1  2\n", RuntimeError, "line 2.* has 3 numbers"),
        ("", RuntimeError, "has no vectors"),
        ("5 3\n", RuntimeError, "has no vectors"),
    ],
)
@pytest.mark.parametrize("engine", ["native", "reference"])
def test_damaged_files_are_refused_by_line(tmp_path, reference, engine, text, error, message):
    path = tmp_path / "v.vec"
    path.write_text(text)
    with pytest.raises(error, match=message):
        (reference if engine == "reference" else reading.read_text)(path)


def test_more_lines_than_a_block_are_read_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_BLOCK", 7)
    path = tmp_path / "v.vec"
    lines = [f"w{i} {i} {-i}" if i % 5 else f"odd{i} {i}" for i in range(1, 100)]
    path.write_text("\n".join(lines))
    table = reading.read_text(path)
    kept = [i for i in range(1, 100) if i % 5]
    assert reading.split_words(table.words) == [f"w{i}" for i in kept]
    assert table.vectors.tolist() == [[i, -i] for i in kept]
    assert reading.split_words(reading.read_text(path, most=50).words) == [f"w{i}" for i in kept[:50]]


def test_compressed_files_are_read(tmp_path):
    path = tmp_path / "v.vec.gz"
    path.write_bytes(gzip.compress(b"a 1 2\n"))
    assert Vectors(path, cache=tmp_path)["a"].tolist() == [1, 2]


def test_the_copy_is_opened_without_the_text(tmp_path):
    path = tmp_path / "v.vec"
    path.write_text("a 1 2\né 3 4\n", encoding="utf-8")
    Vectors(path, cache=tmp_path)
    path.unlink()
    again = Vectors("v.vec", cache=tmp_path)
    assert (again.itos, again.dim, again["é"].tolist()) == (["a", "é"], 2, [3, 4])


def test_a_text_that_has_changed_is_read_again(tmp_path):
    path = tmp_path / "v.vec"
    path.write_text("a 1 2\n")
    Vectors(path, cache=tmp_path)
    path.write_text("b 1 2 3\n")
    assert (Vectors(path, cache=tmp_path).itos, Vectors(path, cache=tmp_path).dim) == (["b"], 3)


def test_a_damaged_copy_is_made_again_with_a_warning(tmp_path):
    path = tmp_path / "v.vec"
    path.write_text("a 1 2\n")
    Vectors(path, cache=tmp_path)
    copy = tmp_path / "v.vec.safetensors"
    copy.write_bytes(copy.read_bytes()[:-3])
    with pytest.warns(HubWarning, match="made again"):
        assert Vectors(path, cache=tmp_path).itos == ["a"]
    assert Vectors(path, cache=tmp_path)["a"].tolist() == [1, 2]


def test_where_no_copy_can_be_kept_a_warning_says_so(tmp_path):
    path = tmp_path / "v.vec"
    path.write_text("a 1 2\n")
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.warns(HubWarning, match="could not be kept"):
        assert Vectors(path, cache=tmp_path / "cache").itos == ["a"]


def test_copies_that_upstream_made_are_read(tmp_path):
    content = (["a", "b"], {"a": 0, "b": 1}, torch.tensor([[1.0, 2.0], [3.0, 4.0]]), 2)
    torch.save(content, tmp_path / "v.vec.pt")
    assert Vectors("v.vec", cache=tmp_path)["b"].tolist() == [3, 4]


def test_a_copy_that_would_run_code_is_refused(tmp_path):
    torch.save([print], tmp_path / "v.vec.pt")
    with pytest.raises(CheckpointError, match="no copy of word vectors"):
        Vectors("v.vec", cache=tmp_path)


def test_changing_vectors_does_not_change_the_copy(tmp_path):
    path = tmp_path / "v.vec"
    path.write_text("a 1 2\n")
    Vectors(path, cache=tmp_path)
    Vectors(path, cache=tmp_path).vectors.zero_()
    assert Vectors(path, cache=tmp_path)["a"].tolist() == [1, 2]


def test_nearest_words_are_those_of_the_smallest_angle(tmp_path):
    path = tmp_path / "v.vec"
    path.write_text("king 1 1\nqueen 2 2.1\nmill -1 0\nriver 0 1\nriver 0 -1\nnothing 0 0\n")
    v = Vectors(path, cache=tmp_path)
    assert [word for word, _ in v.nearest("king", k=2)] == ["queen", "nothing"]
    words = v.nearest(torch.tensor([0.0, -3.0]), k=1)
    assert words == [("river", pytest.approx(1.0))]
    assert len(v.nearest("mill", k=99)) == 4
    with pytest.raises(KeyError, match=r"no vector of 'kink'\. Close words: king"):
        v.nearest("kink")
    with pytest.raises(ValueError, match=r"expected \(2,\)"):
        v.nearest(torch.zeros(3))


def test_looking_up_many_is_looking_up_each(tmp_path):
    path = tmp_path / "v.vec"
    path.write_text("a 1 2\nb 3 4\n")
    v = Vectors(path, cache=tmp_path, unk_init=torch.Tensor.zero_)
    words = ["b", "x", "a", "B"]
    assert torch.equal(v.get_vecs_by_tokens(words), torch.stack([v[word] for word in words]))
    assert v.get_vecs_by_tokens(["B", "X"], lower_case_backup=True).tolist() == [[3, 4], [0, 0]]
    assert v.get_vecs_by_tokens([]).shape == (0, 2)


def zipped(name, content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def tarred(name, content):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_archives_are_fetched_verified_and_unpacked(tmp_path, monkeypatch):
    context = ssl._create_default_https_context
    with FileServer({"glove.6B.zip": zipped("glove.6B.50d.txt", "the 1 2\n")}) as server:
        monkeypatch.setitem(GloVe.url, "6B", server.url("glove.6B.zip"))
        with pytest.raises(HashMismatchError, match=r"glove\.6B\.zip"):
            GloVe("6B", dim=50, cache=tmp_path / "bad")
        monkeypatch.setitem(checksums.GLOVE, "6B", hashlib.sha256(server.files["glove.6B.zip"]).hexdigest())
        assert GloVe("6B", dim=50, cache=tmp_path / "good")["the"].tolist() == [1, 2]
    assert not (tmp_path / "bad" / "glove.6B.50d.txt").exists()
    assert ssl._create_default_https_context is context  # certificates are verified ever after


def test_tar_archives_are_unpacked(tmp_path, monkeypatch):
    with FileServer({"jmt.tar.gz": tarred("charNgram.txt", b"2gram-ab 1 2\n")}) as server:
        monkeypatch.setattr(CharNGram, "url", server.url("jmt.tar.gz"))
        assert CharNGram(cache=tmp_path)["ab"].tolist() == [[1, 2]]


def test_a_page_that_says_404_is_an_error_and_nothing_is_kept(tmp_path, monkeypatch):
    with FileServer() as server:
        monkeypatch.setattr(FastText, "url_base", server.url("wiki.{}.vec"))
        with pytest.raises(DownloadError, match="404"):
            FastText("xx", cache=tmp_path)
    assert not (tmp_path / "wiki.xx.vec").exists()


def test_only_published_vectors_of_glove_can_be_asked_for():
    with pytest.raises(KeyError, match="'7B'"):
        GloVe("7B")
    with pytest.raises(ValueError, match="has no vectors of 7"):
        GloVe("6B", dim=7)


def test_aliases_are_those_of_upstream():
    assert len(pretrained_aliases) == 13
    assert pretrained_aliases["glove.twitter.27B.200d"].keywords == {"name": "twitter.27B", "dim": "200"}
    assert pretrained_aliases["fasttext.simple.300d"].func is FastText


def test_prototypes_read_other_delimiters_and_count_their_tokens(tmp_path):
    path = tmp_path / "v.csv"
    path.write_text("2 3\na b,1 2 3\nc,4  5 6\n")
    v = prototype.load_vectors_from_file_path(path)
    assert (len(v), v["a b"].tolist(), v["c"].tolist()) == (2, [1, 2, 3], [4, 5, 6])
    with pytest.raises(ValueError, match="one character"):
        prototype.load_vectors_from_file_path(path, delimiter="::")


def test_what_a_prototype_gives_is_a_copy(tmp_path):
    v = prototype.build_vectors(["a"], torch.ones(1, 2))
    v["a"].zero_()
    v["zzz"].fill_(9)
    assert (v["a"].tolist(), v["zzz"].tolist()) == ([1, 1], [0, 0])
    with pytest.raises(ValueError, match="expected"):
        v["b"] = torch.zeros(3)
