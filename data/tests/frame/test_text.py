"""Columns of text: everything row by row, in characters, with missing values left missing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau.data.frame as ta
from flambeau.data.frame import dtypes as dt

quick = settings(max_examples=30, deadline=None)
TEXT = st.lists(st.none() | st.text(max_size=8), min_size=1, max_size=8)


def column(values):
    return ta.column(values, dt.String(nullable=True))


def by_python(values, function):
    return [None if one is None else function(one) for one in values]


@pytest.mark.parametrize(
    "name", ["isalpha", "isnumeric", "isalnum", "isdigit", "isdecimal", "isspace", "islower", "isupper", "istitle"]
)
@quick
@given(values=TEXT)
def test_predicates_are_pythons(name, values):
    values = [*values, "", "abc", "ABC", "Ab C", "12", "²", "½", "1a", " \t\n", "ä", "\x1c", "a\n"]
    assert list(getattr(column(values).str, name)()) == by_python(values, getattr(str, name))
    ascii_only = [one for one in values if one is None or one.isascii()]
    assert list(getattr(column(ascii_only).str, name)()) == by_python(ascii_only, getattr(str, name))


@quick
@given(values=TEXT, start=st.none() | st.integers(-10, 10), stop=st.none() | st.integers(-10, 10))
def test_slices_are_pythons(values, start, stop):
    assert list(column(values).str.slice(start, stop)) == by_python(values, lambda one: one[start:stop])


@quick
@given(values=TEXT, sub=st.text(max_size=2))
def test_find_counts_characters_as_python_does(values, sub):
    assert list(column(values).str.find(sub)) == by_python(values, lambda one: one.find(sub))
    assert list(column(values).str.length()) == by_python(values, len)


@quick
@given(values=st.lists(st.text("ab ,\t\n", max_size=8), min_size=1), n=st.integers(-1, 3))
def test_split_and_strip_are_pythons(values, n):
    assert list(column(values).str.split(",", n)) == [one.split(",", n) for one in values]
    assert list(column(values).str.split(n=n)) == [one.split(None, n) for one in values]
    assert list(column(values).str.strip()) == [one.strip() for one in values]


def test_letters_change_case():
    assert list(column(["UPPER", "löwer", None]).str.lower()) == ["upper", "löwer", None]
    assert list(column(["UPPER", "löwer", None]).str.upper()) == ["UPPER", "LÖWER", None]


def test_beginnings_and_ends():
    texts = column(["hello.this", "this.is", "h", ""])
    assert list(texts.str.startswith("h")) == [True, False, True, False]
    assert list(texts.str.endswith("this")) == [True, False, False, False]


def test_patterns_and_plain_text_are_told_apart():
    texts = column(["a.c", "abc", None])
    assert list(texts.str.contains("a.c")) == [True, True, None]
    assert list(texts.str.contains("a.c", regex=False)) == [True, False, None]
    assert list(texts.str.replace("a.", "X")) == ["Xc", "Xc", None]
    assert list(texts.str.replace("a.", "X", regex=False)) == ["Xc", "abc", None]
    assert list(texts.str.count("[ac]")) == [2, 2, None]
    assert list(texts.str.match("b|a")) == [True, True, None]
    assert list(texts.str.match("b")) == [False, False, None]
    assert list(texts.str.findall("[ac]")) == [["a", "c"], ["a", "c"], None]


def test_text_is_joined_by_plus_and_cat():
    left, right = column(["a", None, "c"]), column(["x", "y", None])
    assert list(left + right) == ["ax", None, None]
    assert list(left.str.cat(right)) == ["ax", None, None]
    assert list(left + "_end") == ["a_end", None, "c_end"]
    assert list("pre_" + left) == ["pre_a", None, "pre_c"]


def test_text_compares_and_sorts_by_code_point():
    texts = column(["b", None, "a", "é"])
    assert list(texts < "b") == [False, None, True, False]
    assert list(texts.sort()) == ["a", "b", "é", None]
    assert list(texts.sort(ascending=False, na_position="first")) == [None, "é", "b", "a"]


def test_text_has_no_arithmetic():
    with pytest.raises(TypeError, match=r"\* int64 is not defined"):
        column(["a"]).str.lower() * 2
