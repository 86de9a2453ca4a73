"""The parts datasets are made of: splits, folders, IWSLT's cleaning, parsers, and items by index."""

import csv
import inspect
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper

from flambeau.data.datapipes.iter import IterableWrapper
from flambeau.text.data import datasets_utils as utils
from flambeau.text.datasets._families import labelled_text
from flambeau.text.datasets._formats import Iob, Lines, Parallel, Rows
from flambeau.text.datasets._records import Records


def test_split_names_are_checked_and_wrapped():
    assert utils._check_default_set("a", ("a", "b"), "D") == ("a",)
    assert utils._check_default_set(("b", "a"), ("a", "b"), "D") == ("b", "a")
    with pytest.raises(TypeError, match="D has no split 'c'; its splits are 'a', 'b'"):
        utils._check_default_set(("a", "c"), ("a", "b"), "D")
    with pytest.raises(ValueError, match="list"):
        utils._check_default_set(["a"], ("a",), "D")
    assert utils._wrap_datasets((1, 2), ("a", "b")) == (1, 2)
    assert utils._wrap_datasets((1,), "a") == 1
    with pytest.raises(ValueError, match="got 2"):
        utils._wrap_datasets((1, 2), "a")


def test_the_decorators_take_roots_and_splits_as_upstream_does(tmp_path, monkeypatch):
    @utils._create_dataset_directory(dataset_name="Toy")
    @utils._wrap_split_argument(("train", "test"))
    def Toy(root, split, extra=3):
        return root, split, extra

    assert str(inspect.signature(Toy)) == "(root='.data', split=('train', 'test'), extra=3)"
    own = str(tmp_path / "datasets" / "Toy")
    assert Toy(str(tmp_path), "test") == (own, "test", 3)
    assert Toy(tmp_path, extra=4) == ((own, "train", 4), (own, "test", 4))
    monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path / "home"))
    assert Toy(split="test")[0].startswith(str(tmp_path / "home"))


def test_functions_of_another_form_are_refused():
    with pytest.raises(ValueError, match="has to take root, split first"):
        utils._wrap_split_argument(("a",))(lambda split, root: None)
    with pytest.raises(ValueError, match="by star"):
        utils._create_dataset_directory("x")(lambda root, **more: None)


def test_iwslt_files_are_named_by_language_and_split():
    clean, raw = utils._generate_iwslt_files_for_lang_and_split(16, "de", "en", "tst2013", "tst2014")
    assert clean["en"] == {
        "train": "train.de-en.en", "valid": "IWSLT16.TED.tst2013.de-en.en", "test": "IWSLT16.TED.tst2014.de-en.en"
    }  # fmt: skip
    assert raw["de"]["train"] == "train.tags.de-en.de"
    assert raw["de"]["test"] == "IWSLT16.TED.tst2014.de-en.de.xml"


def test_files_are_cleaned_by_their_kind(tmp_path):
    def cleaned(name, body):
        path, stream = utils._clean_files(str(tmp_path / "out" / name), name, io.BytesIO(body))
        with stream:
            assert stream.read() == Path(path).read_bytes()
        return Path(path).read_text(encoding="utf-8")

    xml = b'<mteval><srcset><doc><seg id="1"> caf\xc3\xa9 &amp; </seg><seg id="2"/></doc></srcset></mteval>'
    assert cleaned("a.xml", xml) == "café &\n\n"
    assert cleaned("train.tags.a", b"<url>u</url>\n  one \n<title>t</title>\n\n") == "one\n\n"
    assert cleaned("plain", b"one\ntwo") == "one\n\ntwo\n"


@pytest.mark.parametrize(
    "document",
    [
        b'<!DOCTYPE a [<!ENTITY x "y"><!ENTITY z "&x;&x;">]><a><b>&z;</b></a>',
        b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a><b>&x;</b></a>',
        b"<a><b>not closed",
    ],
)
def test_xml_that_declares_entities_or_is_damaged_is_refused(tmp_path, document):
    with pytest.raises(utils.XmlError):
        utils._clean_inner_xml_file(str(tmp_path / "out"), io.BytesIO(document))
    assert list(tmp_path.iterdir()) == []


def test_the_parsers_are_pipes_with_upstreams_names():
    lines = IterableWrapper([("f", line) for line in ("a\tB\n", "c\tD\n", "\n", "\n", "e\tF\n")])
    assert list(lines.read_iob()) == [[["a", "c"], ["B", "D"]], [["e"], ["F"]]]
    document = {"data": [{"paragraphs": [{"context": "c", "qas": [{"question": "q", "answers": []}]}]}]}
    assert list(IterableWrapper([("f", document)]).read_squad()) == [("c", "q", [""], [-1])]
    story = io.BytesIO("One line\nIs done.\n\n@highlight\n\nShort\u201d\n".encode())
    assert list(IterableWrapper([("f", story)]).parse_cnndm_data()) == [("One line . Is done.", "Short\u201d")]


# --- by index as from first to last -------------------------------------------------------------------------------

TEXT = st.text(st.sampled_from("aé\u2028\x85 \t\"',\\\r\n"), max_size=60)


def agree(form, folder, *bodies):
    """Write files, and compare what a format streams with what it indexes."""
    paths = [folder / f"{number}.txt" for number in range(len(bodies))]
    for path, body in zip(paths, bodies, strict=True):
        path.write_bytes(body.encode())
    streamed = list(form.stream(IterableWrapper([str(path) for path in paths])))
    records = Records(form, paths, folder / "index")
    assert [records[number] for number in range(len(records))] == streamed
    return streamed


def keep(row):
    return tuple(row) if len(row) > 1 else None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=TEXT, strip=st.sampled_from([None, "newline", "space"]))
def test_lines_are_the_same_by_index_whatever_their_ends(tmp_path_factory, text, strip):
    agree(Lines(strip=strip), tmp_path_factory.mktemp("lines"), text)
    agree(Lines(strip=strip, tags=(1, 2)), tmp_path_factory.mktemp("tagged"), text, text)
    agree(Parallel(strip=strip), tmp_path_factory.mktemp("parallel"), text, text[::-1])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=TEXT, quoted=st.booleans(), skip=st.integers(0, 2))
def test_rows_are_the_same_by_index_whatever_is_quoted(tmp_path_factory, text, quoted, skip):
    agree(Rows(keep, quoted=quoted, skip=skip), tmp_path_factory.mktemp("rows"), text)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=TEXT)
def test_sentences_are_the_same_by_index(tmp_path_factory, text):
    agree(Iob(), tmp_path_factory.mktemp("sentences"), text)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(texts=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=20), max_size=5))
def test_any_text_survives_the_csv_of_the_classification_sets(tmp_path_factory, texts):
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([[7, text, "end"] for text in texts])
    items = agree(Rows(labelled_text), tmp_path_factory.mktemp("csv"), out.getvalue())
    assert items == [(7, f"{text} end") for text in texts]


def test_a_value_longer_than_the_csv_modules_limit_is_read(tmp_path):
    long = "word " * 100_000
    assert agree(Rows(labelled_text), tmp_path, f'1,"{long}"\n') == [(1, long)]


def test_an_index_is_kept_for_the_file_it_was_made_of(tmp_path):
    agree(Lines(), tmp_path, "one\ntwo\n")
    (kept,) = (tmp_path / "index").iterdir()
    before = kept.stat().st_mtime_ns
    assert agree(Lines(), tmp_path / ".", "one\ntwo\n") == ["one", "two"]
    assert agree(Lines(), tmp_path, "another\nand\nmore\n") == ["another", "and", "more"]
    assert kept.stat().st_mtime_ns == before


def test_where_no_index_can_be_kept_it_stays_in_memory(tmp_path):
    (tmp_path / "index").write_text("a file is in the way")
    assert agree(Lines(), tmp_path, "one\ntwo\n") == ["one", "two"]


def test_pipes_of_torch_have_the_parsers_too():
    lines = TorchIterableWrapper([("f", "a\tNOUN\n"), ("f", "\n"), ("f", "b\tVERB\n")])
    assert list(lines.read_iob()) == [[["a"], ["NOUN"]], [["b"], ["VERB"]]]
    question = {"question": "q", "answers": [{"text": "t", "answer_start": 3}]}
    document = {"data": [{"paragraphs": [{"context": "c", "qas": [question]}]}]}
    assert list(TorchIterableWrapper([("f", document)]).read_squad()) == [("c", "q", ["t"], [3])]
    story = TorchIterableWrapper([("f", io.BytesIO(b"First line\n@highlight\nPoint\n"))])
    assert list(story.parse_cnndm_data()) == [("First line .", "Point .")]
