"""Columns of lists, maps and records."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau.data.frame as ta
from flambeau.data.frame import dtypes as dt

ROWS = st.lists(st.none() | st.lists(st.integers(-9, 9), max_size=5), min_size=1, max_size=8)
quick = settings(max_examples=30, deadline=None)
LISTS = dt.List(dt.int64, nullable=True)


def test_lists_have_lengths_items_and_parts():
    lists = ta.column([[1, 2, 3], [4], None])
    assert lists.dtype == LISTS
    assert list(lists.list.length()) == [3, 1, None]
    assert list(lists.list.get(-1)) == [3, 4, None]
    assert list(lists[:2]) == [[1, 2, 3], [4]]
    with pytest.raises(Exception, match="out of bounds"):
        list(lists.list.get(1))


@quick
@given(rows=ROWS, start=st.none() | st.integers(-7, 7), stop=st.none() | st.integers(-7, 7))
def test_slices_of_lists_are_pythons(rows, start, stop):
    expected = [None if row is None else row[start:stop] for row in rows]
    assert list(ta.column(rows, LISTS).list.slice(start, stop)) == expected


def test_lists_of_text_are_joined():
    texts = ta.column(["what a wonderful world!", "really?"])
    assert list(texts.str.split(" ").list.join("-")) == ["what-a-wonderful-world!", "really?"]
    assert list(ta.column([["a", None]]).list.join("-")) == [None]
    with pytest.raises(TypeError, match="lists of text"):
        ta.column([[1]]).list.join("-")


@quick
@given(rows=ROWS)
def test_vmap_gets_all_items_at_once(rows):
    calls = []

    def add_one(items):
        calls.append(len(items))
        return items + 1

    result = list(ta.column(rows, LISTS).list.vmap(add_one))
    assert result == [None if row is None else [one + 1 for one in row] for row in rows]
    assert calls[-1] == sum(len(row or []) for row in rows)


def test_vmap_keeps_missing_items_and_nested_types():
    assert list(ta.column([[1, None], [3]]).list.vmap(lambda items: items * 2)) == [[2, None], [6]]
    records = dt.List(dt.Struct([dt.Field("f1", dt.int64), dt.Field("f2", dt.string)]))
    named = ta.column([[(1, "a"), (2, "b")], [(3, "c")]], records)
    assert list(named.list.vmap(lambda frame: frame["f2"])) == [["a", "b"], ["c"]]


def test_functions_of_items():
    lists = ta.column([[1, 2, 3], [], None])
    assert list(lists.list.map(lambda one: one * 10)) == [[10, 20, 30], [], None]
    assert list(lists.list.map(str, dt.List(dt.string))) == [["1", "2", "3"], [], None]
    assert list(lists.list.filter(lambda one: one % 2)) == [[1, 3], [], None]
    assert list(lists.list.flatmap(lambda one: [one] * one)) == [[1, 2, 2, 3, 3, 3], [], None]
    assert list(ta.column([[1, 2], [3]]).list.reduce(lambda total, one: total + one)) == [3, 3]
    assert list(lists.list.reduce(lambda total, one: total + one, 10)) == [16, 10, None]


def test_missing_lists_are_filled_with_a_list():
    filled = ta.column([[1], None]).fill_null([7, 8])
    assert list(filled) == [[1], [7, 8]]
    assert not filled.is_nullable


def test_lists_of_a_fixed_size_are_held_to_it():
    dtype = dt.List(dt.float32, fixed_size=2)
    pairs = ta.column([[1.0, 2.0], [3.0, 4.0]], dtype)
    assert pairs.to_arrow().type.list_size == 2
    assert ta.from_arrow(pairs.to_arrow()).dtype.fixed_size == 2
    with pytest.raises(ValueError, match="fixed size"):
        ta.column([[1.0]], dtype)


def test_maps_have_keys_values_and_entries():
    maps = ta.column([{"a": 1, "b": 2}, {}, None])
    assert maps.dtype == dt.Map(dt.string, dt.int64, nullable=True)
    assert list(maps) == [{"a": 1, "b": 2}, {}, None]
    assert list(maps.maps.keys()) == [["a", "b"], [], None]
    assert list(maps.maps.values()) == [[1, 2], [], None]
    assert list(maps.maps.get("b", -1)) == [2, -1, None]
    assert list(maps.maps.get("b")) == [2, None, None]


def test_maps_nest():
    climate = [{"helsinki": [-1.5, 21.5]}, {"algiers": [11.5, 25.0], "kinshasa": [22.0, 26.5]}]
    assert list(ta.column(climate)) == climate
    assert ta.column(climate).dtype == dt.Map(dt.string, dt.List(dt.float32))


def test_lists_compare_as_python_lists_do():
    left, right = ta.column([[1, 2], [3, 4], None]), ta.column([[0, 9], [3, 4], [1]])
    assert list(left == right) == [False, True, None]
    assert list(left > right) == [True, False, None]
    assert list(left == [3, 4]) == [False, True, None]


def test_records_without_names_are_refused_and_with_names_make_a_frame():
    with pytest.raises(TypeError, match="Cannot infer type from Python tuple"):
        ta.column([[(1, "a")]])
    frame = ta.column([(1, "a"), (2, "b")], dt.Struct([dt.Field("n", dt.int64), dt.Field("s", dt.string)]))
    assert isinstance(frame, ta.DataFrame)
    assert list(frame["s"]) == ["a", "b"]
