"""A null given to a column makes it nullable, unless its type was given."""

import pytest

import flambeau.data.frame as ta
from flambeau.data.frame import dtypes as dt

NULLABLE = dt.Int64(nullable=True)


def nothing(value):
    return None


def odd(value):
    return value if value % 2 else None


@pytest.mark.parametrize(
    ("made", "expected", "dtype"),
    [
        (lambda: ta.column([1]).append([None]), [1, None], NULLABLE),
        (lambda: ta.column([1]).append([2]), [1, 2], dt.int64),
        (lambda: ta.column(["a"]).append([None, "b"]), ["a", None, "b"], dt.String(nullable=True)),
        (lambda: ta.column([[1]]).append([[2, None], None]), [[1], [2, None], None], dt.List(NULLABLE, True)),
        (lambda: ta.column([[1]]).append([[2, None]]), [[1], [2, None]], dt.List(NULLABLE)),
        (lambda: ta.column([{1: 2}]).append([{3: None}]), [{1: 2}, {3: None}], dt.Map(dt.int64, NULLABLE)),
        (lambda: ta.column([1, 2, 3]).map(odd), [1, None, 3], NULLABLE),
        (lambda: ta.column([1, 3]).map(odd), [1, 3], dt.int64),
        (lambda: ta.column([1]).map({1: None}), [None], NULLABLE),
        (lambda: ta.column([1, 2]).transform(lambda rows: [None, *rows[1:]], format="python"), [None, 2], NULLABLE),
        (lambda: ta.column([[1, 2]]).list.map(odd), [[1, None]], dt.List(NULLABLE)),
        (lambda: ta.column([[1, 3]]).list.map(odd), [[1, 3]], dt.List(dt.int64)),
    ],
)
def test_a_column_becomes_nullable_where_it_must(made, expected, dtype):
    column = made()
    assert (list(column), column.dtype) == (expected, dtype)


def test_fields_of_a_frame_become_nullable_where_a_row_lacks_them():
    frame = ta.dataframe({"a": [1], "c": ["x"]}).append([(2, None)])
    assert [tuple(row) for row in frame] == [(1, "x"), (2, None)]
    assert frame.dtype == dt.Struct([dt.Field("a", dt.int64), dt.Field("c", dt.String(nullable=True))])


def test_a_frame_to_which_a_missing_row_is_added_has_missing_rows():
    frame = ta.dataframe({"a": [1]}).append([None])
    assert ([row and tuple(row) for row in frame], frame.null_count) == ([(1,), None], 1)


def test_a_type_that_was_given_refuses_null():
    with pytest.raises(ValueError, match="non-nullable type int64"):
        list(ta.column([1]).map(nothing, dtype=dt.int64))
    with pytest.raises(ValueError, match="non-nullable type int64"):
        ta.column([1, None], dt.int64)


def test_a_column_of_null_alone_asks_for_its_type():
    frame = ta.dataframe({"a": [1]})
    with pytest.raises(TypeError, match="no type"):
        frame["b"] = None
