"""Groups of rows: what upstream documents, missing keys and values, order, and what is refused."""

import pytest

import flambeau.data.frame as ta
from flambeau.data.frame import dtypes as dt
from flambeau.data.frame import me


def rows(frame):
    return [tuple(row) for row in frame]


@pytest.fixture
def frame():
    return ta.dataframe({"a": [1, 1, 2], "b": [1, 2, 3], "c": [2, 2, 1]})


def test_one_operation_is_applied_to_every_other_column(frame):
    made = frame.groupby("a").agg("sum")
    assert (made.columns, rows(made)) == (["a", "b.sum", "c.sum"], [(1, 3, 4), (2, 3, 1)])
    assert rows(frame.groupby(["a"]).sum()) == rows(made)


def test_several_operations_are_applied_one_after_another(frame):
    assert rows(frame.groupby("a").agg(["sum", "min"])) == [(1, 3, 4, 1, 2), (2, 3, 1, 3, 1)]


def test_operations_may_be_given_by_column(frame):
    made = frame.groupby("a").aggregate({"c": "max", "b": ["min", "mean"]})
    assert (made.columns, rows(made)) == (["a", "c.max", "b.min", "b.mean"], [(1, 2, 1, 1.5), (2, 1, 3, 3.0)])


@pytest.mark.parametrize(
    ("name", "expected", "dtype"),
    [
        ("min", [1, 3], dt.int64),
        ("max", [2, 3], dt.int64),
        ("all", [True, True], dt.boolean),
        ("any", [True, True], dt.boolean),
        ("sum", [3, 3], dt.int64),
        ("prod", [2, 3], dt.int64),
        ("mean", [1.5, 3.0], dt.float64),
        ("median", [1.5, 3.0], dt.float64),
        ("mode", [1, 3], dt.int64),
        ("std", [0.5**0.5, None], dt.Float64(nullable=True)),
        ("count", [2, 1], dt.int64),
    ],
)
def test_numbers_about_one_column_come_as_a_column(frame, name, expected, dtype):
    made = getattr(frame.groupby("a")["b"], name)()
    assert made.dtype == dtype
    assert list(made) == pytest.approx(expected)


def test_size_counts_rows_and_count_counts_values():
    groups = ta.dataframe({"a": ["x", "y", "x"], "b": [1, None, None]}).groupby("a")
    assert rows(groups.size) == [("x", 2), ("y", 1)]
    assert rows(groups.count()) == [("x", 1), ("y", 0)]


def test_missing_values_are_left_out_and_nothing_sums_to_zero():
    groups = ta.dataframe({"a": [1, 1, 2], "b": [5, None, None]}).groupby("a")
    assert rows(groups.agg(["sum", "max"])) == [(1, 5, 5), (2, 0, None)]


def test_rows_of_missing_keys_are_dropped_unless_told_otherwise():
    frame = ta.dataframe({"a": [None, 1, None], "b": [1, 2, 3]})
    assert rows(frame.groupby("a").sum()) == [(1, 2)]
    assert rows(frame.groupby("a", drop_null=False).sum()) == [(None, 4), (1, 2)]
    assert rows(frame.groupby("a", dropna=False).sum()) == [(None, 4), (1, 2)]


def test_groups_come_as_they_first_occur_or_sorted():
    frame = ta.dataframe({"a": [2, 1, 2], "b": [1, 2, 3]})
    assert rows(frame.groupby("a").sum()) == [(2, 4), (1, 2)]
    assert rows(frame.groupby("a", sort=True).sum()) == [(1, 2), (2, 4)]
    assert [key for key, _ in frame.groupby("a", sort=True)] == [(1,), (2,)]


def test_groups_are_iterated_as_keys_and_frames_of_the_other_columns():
    frame = ta.dataframe({"A": ["a", "b", "a", "b"], "B": [1, 2, 3, 4]})
    assert [(key, rows(group)) for key, group in frame.groupby("A")] == [(("a",), [(1,), (3,)]), (("b",), [(2,), (4,)])]


def test_keys_and_numbers_are_put_together_as_upstream_documents():
    grouped = ta.dataframe({"A": ["a", "b", "a", "b"], "B": [1, 2, 3, 4]}).groupby(["A"])
    made = ta.dataframe()
    made["A"] = grouped["A"]
    made["B.sum"] = grouped["B"].sum()
    assert rows(made) == [("a", 4), ("b", 6)]


def test_select_computes_columns_of_groups():
    frame = ta.dataframe({"A": ["a", "b", "a", "b"], "B": [1, 2, 3, 4], "C": [10, 11, 12, 13]})
    made = frame.groupby(["A"]).select(b_sum=me["B"].sum(), c_count=me["C"].count(), wide=me["B"].max() - me["B"].min())
    assert (made.columns, rows(made)) == (["A", "b_sum", "c_count", "wide"], [("a", 4, 2, 2), ("b", 6, 2, 2)])


def test_several_keys_group_by_all_of_them():
    frame = ta.dataframe({"a": [1, 1, 1], "b": ["x", "y", "x"], "c": [1, 2, 3]})
    assert rows(frame.groupby(["a", "b"]).sum()) == [(1, "x", 4), (1, "y", 2)]


def test_what_cannot_be_grouped_is_refused(frame):
    with pytest.raises(KeyError, match="'z'"):
        frame.groupby("z")
    with pytest.raises(TypeError, match="at least one column"):
        frame.groupby([])
    with pytest.raises(TypeError, match="expected numbers or text"):
        ta.dataframe({"a": [[1]]}).groupby("a")
    with pytest.raises(ValueError, match=r"'q0\.5' is no number about groups"):
        frame.groupby("a").agg("q0.5")
    with pytest.raises(ValueError, match="'a' is none of"):
        frame.groupby("a").agg({"a": "sum"})
    with pytest.raises(TypeError, match="sum is not defined for column 'b' of string"):
        ta.dataframe({"a": [1], "b": ["x"]}).groupby("a").sum()
    with pytest.raises(KeyError, match="'z'"):
        frame.groupby("a")["z"]
