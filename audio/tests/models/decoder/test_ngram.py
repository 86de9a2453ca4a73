"""N-gram models: their scores, by every kind of file, and files that are damaged."""

import gzip
import math
import random
import threading

import pytest

from flambeau.audio.models.decoder import _ngram
from flambeau.audio.models.decoder._ngram import LanguageModelError, NGramModel
from flambeau.audio.models.decoder._reference_ngram import ReferenceNGramModel

from .conftest import FILES

KINDS = ("probing", "rest", "trie", "array")
QUANTISED = ("quant", "qa")
SENTENCES = [
    "one two three", "oh zero", "one one one two", "zero zero", "", "three two one oh", "nine one two", "two three oh",
]  # fmt: skip


@pytest.fixture(scope="module")
def digits():
    return NGramModel(FILES / "digits.arpa")


def test_a_probability_is_that_of_the_longest_ngram_and_what_backing_off_costs(digits):
    assert digits.order == 3
    assert digits.score(["one", "two"]) == pytest.approx([-0.4, -0.2, -0.2 - 0.2 - 1.0], abs=1e-6)
    assert digits.score(["three", "oh"], begin=False, end=False) == pytest.approx([-1.3, -0.15 - 0.7], abs=1e-6)
    assert digits.score(["nine"], end=False) == pytest.approx([-0.3 - 2.5], abs=1e-6)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_every_kind_of_file_gives_the_same_scores(digits, sentence):
    words = sentence.split()
    expected = digits.score(words)
    assert ReferenceNGramModel(FILES / "digits.arpa").score(words) == pytest.approx(expected, abs=1e-6)
    for kind in KINDS:
        assert NGramModel(FILES / f"digits.{kind}.bin").score(words) == pytest.approx(expected, abs=1e-6), kind
    for kind in QUANTISED:  # to 4 bits, more than there are values
        assert NGramModel(FILES / f"digits.{kind}.bin").score(words) == pytest.approx(expected, abs=1e-5), kind


def test_probabilities_after_a_context_add_up_as_far_as_the_file_says(digits):
    words = ["one", "two", "three", "zero", "oh", "</s>"]
    after_one = [digits.score(["one", word], begin=False, end=False)[1] for word in words]
    assert after_one[1] == pytest.approx(-0.5, abs=1e-6)
    assert all(math.isfinite(score) and score <= 0 for score in after_one)


def test_a_gzipped_file_is_read_too(tmp_path, digits):
    path = tmp_path / "digits.arpa.gz"
    path.write_bytes(gzip.compress((FILES / "digits.arpa").read_bytes()))
    assert NGramModel(path).score(["one", "two"]) == digits.score(["one", "two"])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(LanguageModelError, match="cannot be unpacked"):
        NGramModel(path)


def test_ngrams_that_a_program_left_out_are_put_back(tmp_path):
    path = tmp_path / "pruned.arpa"
    path.write_text(
        "\\data\\\nngram 1=5\nngram 2=1\nngram 3=1\n\n"
        "\\1-grams:\n-1 <s> -0.5\n-1 </s>\n-2 a -0.1\n-3 b -0.2\n-4 c -0.3\n\n"
        "\\2-grams:\n-0.7 a b -0.05\n\n\\3-grams:\n-0.9 c b a\n\n\\end\\\n"
    )
    model = NGramModel(path)
    # Neither "c b" nor "b a" is there, and yet "c b a" is found.
    assert model.score(["c", "b", "a"], begin=False, end=False) == pytest.approx([-4, -3.3, -0.9], abs=1e-5)
    assert model.score(["a", "b", "a"], begin=False, end=False) == pytest.approx([-2, -0.7, -2.25], abs=1e-5)


def replaced(old, new):
    return (FILES / "digits.arpa").read_text().replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("hello\n", r"does not begin with \\data\\"),
        (replaced("ngram 2=8", "ngram 3=8"), "line 3: expected 'ngram 2=...'"),
        (replaced("ngram 2=8", "ngram 2=9999999999"), "line 3: it claims more n-grams than"),
        (replaced("ngram 2=8", "ngram 2=-1"), "line 3: expected 'ngram 2=...'"),
        (replaced("-0.9\tone", "zzz\tone"), "'zzz' is no number"),
        (replaced("-0.9\tone", "0.9\tone"), "expected at most 0"),
        (replaced("-0.9\tone", "nan\tone"), "'nan' is no number"),
        (replaced("one\t-0.25", "one\tx"), "backoff weight is 'x'"),
        (replaced("-1.1\ttwo", "-1.1\tone"), "the word 'one' is there twice"),
        (replaced("oh zero\t-0.01", "oh nine\t-0.01"), "'nine' is not among the single words"),
        (replaced("-0.8\ttwo three\t-0.35", "-0.8\tone two\t-0.35"), "this n-gram is there twice"),
        (replaced("-0.4\t<s> one\t-0.11", "-0.4\t<s>"), "expected a probability and 2 words"),
        (replaced("\\2-grams:", "\\4-grams:"), r"expected '\\2-grams:'"),
        (replaced("</s>\n-0.9", "x\n-0.9").replace("</s>", "x"), "it has no <s> or no </s>"),
        (replaced("\\end\\", ""), r"expected '\\end\\'"),
    ],
)
def test_a_damaged_text_is_refused_with_the_line(tmp_path, text, words):
    path = tmp_path / "damaged.arpa"
    path.write_text(text)
    with pytest.raises(LanguageModelError, match=words):
        NGramModel(path)


@pytest.mark.parametrize("kind", [*KINDS, *QUANTISED])
def test_a_truncated_binary_file_is_refused(tmp_path, kind):
    data = (FILES / f"digits.{kind}.bin").read_bytes()
    path = tmp_path / "truncated.bin"
    words = sum(len(word) + 1 for word in ["<unk>", "<s>", "</s>", "one", "two", "three", "zero", "oh"])
    for size in range(1, len(data) - words, 7):
        path.write_bytes(data[:size])
        with pytest.raises(LanguageModelError):
            NGramModel(path)


@pytest.mark.parametrize("kind", [*KINDS, *QUANTISED])
def test_a_damaged_binary_file_is_refused_or_gives_some_scores(tmp_path, kind):
    data = (FILES / f"digits.{kind}.bin").read_bytes()
    path = tmp_path / "damaged.bin"
    chance = random.Random(kind)
    opened = 0
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(chance.choice([1, 1, 4, 40])):
            damaged[chance.randrange(56, len(damaged))] = chance.choice([0, 1, 127, 255, chance.randrange(256)])
        path.write_bytes(damaged)
        try:
            model = NGramModel(path)
        except LanguageModelError:
            continue
        opened += 1
        for sentence in SENTENCES:
            assert len(model.score(sentence.split())) == len(sentence.split()) + 1
    assert opened


def test_a_binary_file_says_what_is_wrong_with_it(tmp_path):
    data = bytearray((FILES / "digits.trie.bin").read_bytes())
    path = tmp_path / "other.bin"
    for at, value, words in [(49, ord("4"), "another version"), (88, 1, "up to 1 words"), (96, 9, "its kind is 9")]:
        changed = bytearray(data)
        changed[at] = value
        path.write_bytes(changed)
        with pytest.raises(LanguageModelError, match=words):
            NGramModel(path)


def test_a_model_serves_several_threads(digits):
    expected = [digits.score(sentence.split()) for sentence in SENTENCES]
    wrong = []

    def work():
        for _ in range(50):
            wrong.extend(s for s, e in zip(SENTENCES, expected, strict=True) if digits.score(s.split()) != e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_reader_in_python_refuses_binary_files():
    with pytest.raises(LanguageModelError, match="Without the native library"):
        ReferenceNGramModel(FILES / "digits.trie.bin")


def test_a_model_may_outlive_the_kernels_it_was_read_with(monkeypatch):
    model = NGramModel(FILES / "digits.arpa")
    monkeypatch.setattr(_ngram.LIBRARY, "load", lambda: None)
    freed = []
    monkeypatch.setattr(model, "_free", freed.append)
    handle = model.handle
    model.__del__()
    assert freed == [handle]
