"""Tokenizers: input, output, copies, special tokens, files."""

from __future__ import annotations

import copy
import json
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flambeau.text import transforms
from flambeau.text._tokenizers import native

TEXT = "hello world, unbelievable é 中文 don't <|endoftext|> aaaa"


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
@pytest.mark.parametrize("tokenizer", ["gpt2"], indirect=True)
def test_gpt2_decodes_any_text_to_itself(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)) == text
    assert tokenizer.decode(tokenizer.encode_ids(text)) == text


@pytest.mark.parametrize("without", [False, True], ids=["native", "reference"])
def test_ids_come_as_strings_and_as_numbers(tokenizer, without, monkeypatch):
    if without:
        monkeypatch.setattr(native, "available", lambda: False)
    ids = tokenizer.encode_ids(TEXT)
    numbers = isinstance(tokenizer, transforms.CharBPETokenizer)  # alone among upstream's
    assert tokenizer(TEXT) == (ids if numbers else [str(identity) for identity in ids])
    assert tokenizer([TEXT, ""]) == [tokenizer(TEXT), []]
    assert tokenizer.encode_ids([TEXT, "", "hello"]) == [ids, [], tokenizer.encode_ids("hello")]
    assert tokenizer.to_tensor(TEXT).tolist() == ids
    padded = tokenizer.to_tensor([TEXT, "hello"], padding_value=-7)
    assert padded.dtype == torch.int64 and padded.shape == (2, len(ids))
    assert padded[0].tolist() == ids
    short = tokenizer.encode_ids("hello")
    assert padded[1].tolist() == short + [-7] * (len(ids) - len(short))
    assert tokenizer.to_tensor([]).shape == (0, 0)
    with pytest.raises(ValueError, match="padding_value"):
        tokenizer.to_tensor([TEXT, "hello"])


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_a_lone_surrogate_is_named_with_its_place(tokenizer, text):
    with pytest.raises(TypeError, match="lone surrogate"):
        tokenizer(text)
    with pytest.raises(TypeError, match="lone surrogate"):
        tokenizer.encode_offsets([text])


def test_spans_are_places_in_the_text_given(tokenizer):
    text = "  hello 中 é hello  "
    data = text.encode()
    encoding = tokenizer.encode_offsets(text)
    assert encoding.ids == tokenizer.encode_ids(text)
    words = [text[begin:end].strip() for begin, end in encoding.spans]
    assert "hello" in words and words.count("中") >= 1
    by_bytes = tokenizer.encode_offsets(text, unit="byte")
    assert b"hello" in [data[begin:end].strip() for begin, end in by_bytes.spans]
    with pytest.raises(ValueError, match="'word'"):
        tokenizer.encode_offsets(text, unit="word")


@pytest.mark.parametrize("tokenizer", ["clip"], indirect=True)
def test_spans_of_clip_survive_characters_that_lower_case_makes_longer(tokenizer):
    text = " \u0130hello HELLO"
    assert [text[begin:end] for begin, end in tokenizer.encode_offsets(text).spans][-1] == "HELLO"
    assert [text.encode()[begin:end] for begin, end in tokenizer.encode_offsets(text, "byte").spans][-1] == b"HELLO"


def test_copies_and_pickles_are_whole(tokenizer):
    wanted = tokenizer(TEXT)
    for twin in (copy.deepcopy(tokenizer), pickle.loads(pickle.dumps(tokenizer))):
        assert twin(TEXT) == wanted
        assert twin.vocab_size == tokenizer.vocab_size
    with get_context("spawn").Pool(1) as pool:
        assert pool.map(tokenizer, [TEXT]) == [wanted]


def test_threads_may_share_a_tokenizer(tokenizer):
    texts = [f"{TEXT} {number} hello{number}" for number in range(200)]
    wanted = [tokenizer._reference(tokenizer._prepared(text)) for text in texts]
    start = threading.Barrier(8)

    def work(_):
        start.wait()
        return [tokenizer.encode_ids(text) for text in texts]

    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(work, range(8)):
            assert result == [[piece.id for piece in pieces] for pieces in wanted]


def test_large_batches_on_threads_give_the_same_as_one_by_one(tokenizer):
    texts = [TEXT * (number % 7) for number in range(600)]
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        assert tokenizer.encode_ids(texts) == [tokenizer.encode_ids(text) for text in texts]
    finally:
        torch.set_num_threads(before)


def test_clip_mends_what_its_own_code_mends(tmp_path, monkeypatch):
    pytest.importorskip("ftfy")
    merges = tmp_path / "clip.bpe"
    merges.write_text("#\nh e\nl l\nhe ll\nhell o</w>", "utf-8")
    plain, mending = transforms.CLIPTokenizer(merges), transforms.CLIPTokenizer(merges, normalize="openai")
    for text, mended in (
        ("Hello &amp;amp; World", "hello & world"),
        ("\u00c3\u00a9", "\u00e9"),
        ("\u201cHello\u201d", '"hello"'),
        ("hello\u3000\u00a0world", "hello world"),
        ("e\u0301", "\u00e9"),
    ):
        assert mending.encode_ids(text) == plain.encode_ids(mended) != plain.encode_ids(text)
        with pytest.raises(ValueError, match="no places in it"):
            mending.encode_offsets(text)
    assert mending.encode_offsets(" Hello world ") == plain.encode_offsets(" Hello world ")
    assert pickle.loads(pickle.dumps(mending))("&lt;") == plain("<")
    assert len(mending.to_tokenizer_json(tmp_path / "tokenizer.json")) == 3
    twin = transforms.CLIPTokenizer.from_tokenizer_json(tmp_path / "tokenizer.json")
    assert twin("&lt;") == plain("<")
    with pytest.raises(ValueError, match="'ftfy'"):
        transforms.CLIPTokenizer(merges, normalize="ftfy")
    monkeypatch.setitem(sys.modules, "ftfy", None)
    with pytest.raises(ImportError, match="pip install ftfy"):
        transforms.CLIPTokenizer(merges, normalize="openai")


@pytest.mark.parametrize("unit", ["a", "ab ", "é", "中", " ", "\n", "'", "1", "!"])
def test_megabytes_without_a_break_are_tokenized(tokenizer, unit):
    text = unit * 300_000
    ids = tokenizer.encode_ids(text)
    assert len(ids) <= len(text.encode())
    if isinstance(tokenizer, transforms.GPT2BPETokenizer):
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("tokenizer", ["gpt2"], indirect=True)
def test_special_tokens_belong_to_one_tokenizer_and_are_literal(tokenizer, folder):
    other = copy.deepcopy(tokenizer)
    size = tokenizer.vocab_size
    assert tokenizer.add_special_tokens({"additional_special_tokens": ["<s>", "<s>x", "a.b", "(y"]}) == 4
    assert tokenizer("aXb<s>x(y a.b <s>")[-4:] == [str(size + 1), str(size + 3), str(size + 2), str(size)]
    assert tokenizer.decode([size + 1, size]) == "<s>x <s>"
    assert len(other("<s>")) == 3 and other.vocab_size == size
    with pytest.raises(ValueError, match="empty"):
        tokenizer.add_special_tokens({"pad_token": ""})
    assert pickle.loads(pickle.dumps(tokenizer))("<s>") == [str(size)]


@pytest.mark.parametrize("tokenizer", ["gpt2", "clip", "bert", "char_bpe"], indirect=True)
def test_decoding_an_unknown_id_is_an_index_error_that_names_it(tokenizer):
    for ids in ([0, 99999], ["0", "99999"]):
        with pytest.raises(IndexError, match="99999 at place 1"):
            tokenizer.decode(ids)
    with pytest.raises(TypeError, match="list of ids"):
        tokenizer.decode("12")
    with pytest.raises(TypeError, match="list of ids"):
        tokenizer.decode(12)


@pytest.mark.parametrize("tokenizer", ["gpt2"], indirect=True)
def test_parts_of_characters_are_dropped_replaced_or_refused(tokenizer):
    ids = tokenizer.encode_ids("a中")[:-1]
    assert tokenizer.decode(ids) == "a"
    assert tokenizer.decode(ids, errors="replace") == "a\ufffd"
    with pytest.raises(UnicodeDecodeError):
        tokenizer.decode(ids, errors="strict")


@pytest.mark.parametrize("tokenizer", ["clip", "bert", "char_bpe"], indirect=True)
def test_words_of_the_vocabulary_come_back(tokenizer):
    assert tokenizer.decode(tokenizer("hello hello")).rstrip() == "hello hello"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "holds a list"),
        ('{"a": 0, "b": "1"}', "id of 'b' is '1'"),
        ('{"a": 0, "b": 0}', "share ids"),
        ('{"a": -1}', "id of 'a' is -1"),
        ('{"a": 0', "is not JSON"),
    ],
)
def test_a_damaged_vocabulary_is_refused_by_name(tmp_path, content, message):
    (tmp_path / "encoder.json").write_text(content)
    (tmp_path / "vocab.bpe").write_text("#\n")
    with pytest.raises(ValueError, match=message):
        transforms.GPT2BPETokenizer(str(tmp_path / "encoder.json"), str(tmp_path / "vocab.bpe"))


def test_damaged_merges_are_refused_by_line(tmp_path):
    (tmp_path / "encoder.json").write_text("{}")
    (tmp_path / "vocab.bpe").write_text("#\na b\na b c\n")
    with pytest.raises(ValueError, match="merge 2: 'a b c'"):
        transforms.GPT2BPETokenizer(tmp_path / "encoder.json", tmp_path / "vocab.bpe")
    (tmp_path / "vocab.bpe").write_bytes(b"#\n\xff\xfe\n")
    with pytest.raises(ValueError, match="not UTF-8 at byte 2"):
        transforms.CLIPTokenizer(tmp_path / "vocab.bpe")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        transforms.BERTTokenizer(tmp_path / "nowhere.txt")


def test_a_merge_without_a_line_feed_is_lost_with_a_warning(tmp_path):
    (tmp_path / "encoder.json").write_text(json.dumps({"a": 0, "b": 1, "ab": 2}))
    (tmp_path / "vocab.bpe").write_text("#\na b")
    with pytest.warns(UserWarning, match="'a b'"):
        tokenizer = transforms.GPT2BPETokenizer(tmp_path / "encoder.json", tmp_path / "vocab.bpe")
    assert tokenizer("ab") == ["0", "1"]
    with pytest.raises(KeyError, match="'c' is not in the vocabulary of 3"):
        tokenizer("c")
    with pytest.raises(KeyError, match="'c' is not in the vocabulary"):
        tokenizer(["ab", "c"])


def test_a_vocabulary_without_unknown_token_raises_where_it_is_needed(tmp_path):
    (tmp_path / "vocab.txt").write_text("hello\n\nhello\nworld\n")
    tokenizer = transforms.BERTTokenizer(tmp_path / "vocab.txt", return_tokens=True)
    assert tokenizer.vocab_size == 3  # an empty line is a token, a repeated one is not
    assert tokenizer("hello world") == ["hello", "world"]
    assert tokenizer.encode_ids("world") == [2]
    with pytest.raises(RuntimeError, match=r"\[UNK\]"):
        tokenizer("other")


def test_tokenizers_say_why_they_cannot_be_scripted(tokenizer):
    assert not tokenizer.is_jitable
    with pytest.raises(RuntimeError, match="to_tokenizer_json"):
        tokenizer.__prepare_scriptable__()


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [("(", ""), ("[", ""), ("a", r"\1"), ("*", "")],
    ids=["group", "class", "reference", "repeat"],
)
def test_an_invalid_substitution_is_refused_at_construction(pattern, replacement):
    with pytest.raises(ValueError, match="no valid substitution"):
        transforms.RegexTokenizer([(pattern, replacement)])


def test_regex_classes_are_ascii_and_copies_are_whole():
    tokenizer = transforms.RegexTokenizer([(r"\s", "_"), (r"[\d]+", "#"), (r"\bé\b", "B"), (r"[^\w #_]", " ")])
    assert tokenizer("a\xa0b\tc 12 ٣ d") == ["a", "b_c_#_", "_d"]
    assert pickle.loads(pickle.dumps(tokenizer))("a 1") == copy.deepcopy(tokenizer)("a 1") == ["a_#"]
    assert transforms.RegexTokenizer([(r"([a-z])(\d)", r"\2\1 \\\0 \10")])("a1") == ["1a", "\\a1", "a0"]
    with pytest.raises(TypeError, match="takes a str"):
        tokenizer(["a"])
