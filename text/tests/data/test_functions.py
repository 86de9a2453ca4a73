"""Functions on data: tokenizers by name, scores, SentencePiece, keys."""

from __future__ import annotations

import io
import math
import pickle
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flambeau.text import data, experimental
from flambeau.text.data.utils import RandomShuffler, get_torch_version, ngrams_iterator
from flambeau.text.prototype import transforms

PATTERNS = [
    *((re.escape(mark), f" {mark} ") for mark in ".,()!?"),
    *((mark, " ") for mark in ";:"),
]


@given(text=st.text(st.sampled_from("aBé'\".,()!?;:<>/br \n\t\u3000\xa0İ")) | st.text())
def test_basic_english_is_its_rules_one_after_another(text):
    expected = text.lower().replace("'", " '  ").replace('"', "").replace(".", " . ").replace("<br />", " ")
    for pattern, replacement in PATTERNS[1:]:
        expected = re.sub(pattern, replacement, expected)
    assert data.get_tokenizer("basic_english")(text) == expected.split()


@pytest.mark.parametrize(
    ("name", "package"),
    [("spacy", "spacy"), ("moses", "sacremoses"), ("toktok", "nltk"), ("revtok", "revtok"), ("subword", "revtok")],
)
def test_a_package_that_is_missing_is_named(name, package, monkeypatch):
    import sys

    for module in ("spacy", "sacremoses", "nltk", "nltk.tokenize.toktok", "revtok"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        data.get_tokenizer(name)


def test_tokenizers_by_name_are_picklable():
    for name in (None, "basic_english"):
        assert pickle.loads(pickle.dumps(data.get_tokenizer(name)))("a, b")[0][0] == "a"


@given(a=st.integers(0, 65535), b=st.integers(0, 65535))
def test_interleaved_keys_have_the_bits_of_both(a, b):
    key = data.interleave_keys(a, b)
    assert int(f"{key:032b}"[0::2], 2) == a
    assert int(f"{key:032b}"[1::2], 2) == b


@given(tokens=st.lists(st.sampled_from("abc"), max_size=8), n=st.integers(1, 5))
def test_ngrams_are_all_runs_of_neighbours(tokens, n):
    expected = [" ".join(tokens[i : i + size]) for size in range(1, n + 1) for i in range(len(tokens) - size + 1)]
    assert list(ngrams_iterator(tokens, n)) == expected


def test_a_shuffler_leaves_the_numbers_of_others_alone():
    shuffle = RandomShuffler(random.Random(4).getstate())
    random.seed(1)
    before = random.getstate()
    first = shuffle(range(20))
    assert random.getstate() == before
    again = RandomShuffler(random.Random(4).getstate())
    assert again(iter(range(20))) == first
    state = again.random_state
    assert again(range(20)) == shuffle(range(20))
    again.random_state = state
    copied = pickle.loads(pickle.dumps(again))
    assert copied(range(5)) == again(range(5))


def test_torchs_version_is_two_numbers():
    assert get_torch_version() >= (2, 8)


@given(
    candidates=st.lists(st.lists(st.sampled_from("abcd"), min_size=4, max_size=9), min_size=1, max_size=4),
    data_=st.data(),
)
def test_bleu_is_between_0_and_1_and_1_for_copies(candidates, data_):
    assert data.bleu_score(candidates, [[candidate] for candidate in candidates]) == pytest.approx(1)
    references = [[data_.draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=9))] for _ in candidates]
    plain = data.bleu_score(candidates, references)
    assert 0 <= plain <= 1 + 1e-6
    for smoothing in ("floor", "add-k", "exp"):
        smooth = data.bleu_score(candidates, references, smoothing=smoothing)
        assert 0 <= smooth <= 1 + 1e-6
        if plain > 0 and smoothing != "add-k":
            assert smooth == plain


def test_smoothing_counts_what_does_not_match():
    candidate, reference = ["a", "b", "c"], [["a", "x", "c"]]
    score = {
        name: data.bleu_score([candidate], [reference], 2, [0.5, 0.5], smoothing=name)
        for name in ("floor", "add-k", "exp")
    }
    assert score["floor"] == pytest.approx(math.sqrt(2 / 3 * 0.1 / 2))
    assert score["add-k"] == pytest.approx(math.sqrt(2 / 3 * 1 / 3))
    assert score["exp"] == pytest.approx(math.sqrt(2 / 3 * 0.5 / 2))
    assert data.bleu_score([candidate], [reference], 2, [0.5, 0.5]) == 0
    assert data.bleu_score([["z"]], [[["a"]]], 1, [1.0], smoothing="exp") == 0


def test_bleu_says_what_does_not_fit():
    with pytest.raises(AssertionError, match="Candidate 0 has no references"):
        data.bleu_score([["a"]], [[]])
    with pytest.raises(ValueError, match="expected one of none, floor"):
        data.bleu_score([["a"]], [[["a"]]], smoothing="most")


def test_tokens_with_spaces_are_single_tokens_to_bleu():
    assert data.bleu_score([["a b"]], [[["a", "b"]]], 1, [1.0]) == 0


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    pytest.importorskip("sentencepiece")
    folder = tmp_path_factory.mktemp("model")
    text = folder / "text.txt"
    text.write_text("\n".join(f"the mill by river {i} turns slowly past house {i * 7}" for i in range(60)))
    data.generate_sp_model(text, vocab_size=40, model_type="bpe", model_prefix=str(folder / "m"))
    return folder / "m.model"


def test_a_model_is_trained_loaded_and_applied(model):
    processor = data.load_sp_model(str(model))
    with model.open("rb") as file:
        assert data.load_sp_model(file).GetPieceSize() == processor.GetPieceSize() == 40
    lines = ["the river", "mill"]
    ids = list(data.sentencepiece_numericalizer(processor)(lines))
    pieces = list(data.sentencepiece_tokenizer(processor)(lines))
    assert [processor.DecodeIds(one) for one in ids] == [processor.DecodePieces(one) for one in pieces] == lines
    for wrong in (3, None, io.StringIO("x")):
        with pytest.raises(TypeError, match="load_sp_model takes a path"):
            data.load_sp_model(wrong)


def test_prototypes_of_sentencepiece_go_there_and_back(model):
    tokenizer, processor = transforms.sentencepiece_tokenizer(str(model)), transforms.sentencepiece_processor(model)
    for module in (tokenizer, processor, pickle.loads(pickle.dumps(processor))):
        assert module.decode(module("the river")) == "the river"
    assert isinstance(tokenizer("the")[0], str)
    assert isinstance(processor("the")[0], int)
    assert len(transforms.PRETRAINED_SP_MODEL) == 6


def test_names_that_moved_say_where():
    with pytest.warns(UserWarning, match=r"flambeau\.text\.prototype\.vectors\.build_vectors now"):
        build = experimental.vectors.build_vectors
    from flambeau.text.prototype.vectors import build_vectors

    assert build is build_vectors
    for name in ("absent", "torch", "_check_float"):
        with pytest.raises(AttributeError, match=name):
            getattr(experimental.vectors, name)
