"""Frames: making, choosing, computing, functions of users."""

import operator
import pickle
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest

import flambeau.data.frame as ta
from flambeau.data.frame import dtypes as dt
from flambeau.data.frame import me


@pytest.fixture
def frame():
    return ta.dataframe({"a": [1, 2, 3], "b": [11, 22, 33], "c": ["a", "b", "C"], "d": [100, 200, None]})


def test_frames_are_made_of_columns_records_and_types(frame):
    assert frame.columns == ["a", "b", "c", "d"]
    assert frame.dtype.get("d") == dt.Int64(True)
    assert list(frame) == [(1, 11, "a", 100), (2, 22, "b", 200), (3, 33, "C", None)]
    assert list(ta.dataframe([(1, "a"), (2, "b")], columns=["t1", "t2"])["t2"]) == ["a", "b"]
    assert list(ta.dataframe([{"a": 1, "b": "x"}, {"b": "y"}])) == [(1, "x"), (None, "y")]
    empty = ta.dataframe(dt.Struct([dt.Field("a", dt.int64)]))
    assert (len(empty), empty.columns) == (0, ["a"])
    assert (len(ta.dataframe()), ta.dataframe().columns) == (0, [])


def test_a_type_orders_and_types_the_columns():
    dtype = dt.Struct([dt.Field("b", dt.int16), dt.Field("a", dt.int32)])
    frame = ta.dataframe({"a": [1], "b": [2]}, dtype)
    assert frame.dtype == dtype
    with pytest.raises(TypeError, match="data has columns"):
        ta.dataframe({"a": [1]}, dtype)


def test_records_need_names():
    with pytest.raises(TypeError, match="DataFrame construction from tuples requires"):
        ta.dataframe([(1, "a")])


def test_columns_of_different_lengths_are_refused(frame):
    with pytest.raises(ValueError, match="equal length"):
        ta.dataframe({"a": [1], "b": [1, 2]})
    with pytest.raises(ValueError, match="equal length"):
        frame["e"] = [1]


def test_columns_are_added_and_replaced(frame):
    frame["e"] = frame["a"] + frame["b"]
    frame["a"] = frame["c"].str.upper()
    frame["k"] = 7
    frame["m"] = me["b"] * 2
    assert list(frame["e"]) == [12, 24, 36]
    assert list(frame["a"]) == ["A", "B", "C"]
    assert list(frame["k"]) == [7, 7, 7]
    assert list(frame["m"]) == [22, 44, 66]


def test_a_column_taken_before_a_replacement_keeps_its_values(frame):
    before = frame["a"]
    frame["a"] = before * 10
    assert list(before) == [1, 2, 3]
    assert list(before + frame["a"]) == [11, 22, 33]


def test_a_copy_does_not_follow_its_original(frame):
    copy = frame.copy()
    frame["a"] = frame["a"] * 0
    assert list(copy["a"]) == [1, 2, 3]


def test_unknown_columns_are_named_with_near_ones(frame):
    with pytest.raises(KeyError, match=r"no column 'A'.*Close names: a"):
        frame["A"]
    with pytest.raises(KeyError):
        frame.drop(["zz"])


def test_rows_and_columns_are_chosen_by_what_the_index_is(frame):
    assert frame[1] == (2, 22, "b", 200)
    assert frame[-1].a == 3
    assert list(frame[1:]["a"]) == [2, 3]
    assert list(frame[::-2]["a"]) == [3, 1]
    assert list(frame[[2, 0]]["a"]) == [3, 1]
    assert list(frame[[True, False, True]]["a"]) == [1, 3]
    assert list(frame[frame["a"] > 1]["a"]) == [2, 3]
    assert frame[["c", "a"]].columns == ["c", "a"]
    assert frame["b":"d"].columns == ["b", "c"]
    assert frame[:"b"].columns == ["a"]
    assert list(frame.head(1)["a"]) == [1]
    assert list(frame.tail(2)["a"]) == [2, 3]
    with pytest.raises(IndexError, match="row 3 of 3 rows"):
        frame[3]
    with pytest.raises(TypeError, match="index should be"):
        frame[[1, "a"]]


def test_where_and_select_take_expressions_of_me(frame):
    assert list(frame.where((me["a"] > 1) & (me["b"] == 33))) == [(3, 33, "C", None)]
    assert list(frame.where(me["c"].str.upper() == me["c"])["a"]) == [3]
    assert list(frame.where(me["d"] > 150)["a"]) == [2]
    chosen = frame.select("*", "-c", "-d", e=me["a"] + me["b"], k=1)
    assert chosen.columns == ["a", "b", "e", "k"]
    assert next(iter(chosen)) == (1, 11, 12, 1)


def test_drop_keep_rename_reorder_pipe(frame):
    assert frame.drop(["c", "a"]).columns == ["b", "d"]
    assert frame.keep(["c", "a"]).columns == ["a", "c"]
    assert frame.rename({"a": "x"}).columns == ["x", "b", "c", "d"]
    assert frame.reorder(["d", "c", "b", "a"]).columns == ["d", "c", "b", "a"]
    assert list(frame[["a"]].pipe(operator.add, 13)["a"]) == [14, 15, 16]
    with pytest.raises(ValueError, match="each name may occur once"):
        frame.rename({"a": "b"})


def test_frames_are_sorted_by_columns_with_equal_rows_in_their_order():
    frame = ta.dataframe({"a": [1, 2, 3], "b": [1.0, None, 3.0], "c": [4, 4, 1]})
    assert list(frame.sort(by=["c", "a"], ascending=False)["a"]) == [2, 1, 3]
    assert list(frame.sort(by="c")["a"]) == [3, 1, 2]
    assert list(frame.sort(by="b", na_position="first")["a"]) == [2, 1, 3]


def test_duplicates_and_missing_values_are_dropped():
    frame = ta.dataframe({"a": [None, 2, 17.0, 7, 2], "b": [1, 2, 17, 2, 1]})
    assert list(frame.drop_duplicates("b")["a"]) == [None, 2.0, 17.0]
    assert len(frame.drop_duplicates()) == 5
    dropped = frame.drop_null()
    assert list(dropped["b"]) == [2, 17, 2, 1]
    assert dropped.dtype.get("a") == dt.float32
    assert len(frame.drop_null("all")) == 5
    filled = frame.fill_null({"a": 0.5})
    assert list(filled["a"]) == [0.5, 2.0, 17.0, 7.0, 2.0]


def test_operators_work_column_by_column():
    left, right = ta.dataframe({"a": [0, 1, None]}), ta.dataframe({"a": [5, 5, 6]})
    assert list(left + right) == [(5,), (6,), (None,)]
    assert list(1 - left) == [(1,), (0,), (None,)]
    assert list(left == 1) == [(False,), (True,), (None,)]
    assert list(left + ta.column([1, 2, 3])) == [(1,), (3,), (None,)]
    assert list(-right) == [(-5,), (-5,), (-6,)]
    with pytest.raises(ValueError, match="same columns"):
        left + ta.dataframe({"b": [1, 2, 3]})


def test_statistics_are_frames_of_one_row():
    frame = ta.dataframe({"a": [1, 4, 2, None], "b": [1.0, 2.0, 4.5, 0.5]})
    assert list(frame.min()) == [(1, 0.5)]
    assert list(frame.max()) == [(4, 4.5)]
    assert list(frame.sum()) == [(7, 8.0)]
    assert list(frame.mean()["b"]) == [2.0]
    assert frame.describe().columns == ["metric", "a", "b"]


def test_dictionaries_map_values():
    column = ta.column([1, 2, None])
    assert list(column.map({1: 111})) == [111, None, None]
    assert list(column.map({None: 5, 1: 111})) == [111, None, 5]
    assert list(column.map({None: 5, 1: 111}, na_action="ignore")) == [111, None, None]
    assert list(column.map(defaultdict(lambda: -1, {1: 111}))) == [111, -1, -1]
    assert list(column.map({1: "one"})) == ["one", None, None]


def test_functions_map_rows(frame):
    assert list(frame["a"].map(lambda one: one + 10)) == [11, 12, 13]
    assert list(frame["d"].map(lambda one: one + 1, na_action="ignore")) == [101, 201, None]
    assert list(frame["d"].map(str, dtype=dt.string)) == ["100", "200", "None"]
    assert list(frame.map(operator.add, columns=["a", "b"], dtype=dt.int64)) == [12, 24, 36]
    assert list(frame.map(lambda row: row.a + row[1], dtype=dt.int64)) == [12, 24, 36]


def test_annotations_type_what_functions_make(frame):
    def text(a: int, b: int) -> str:
        return f"{a}_{b}"

    def odd(a: int) -> int | None:
        return a if a % 2 else None

    class Both(NamedTuple):
        plus: int
        minus: int

    def both(a: int, b: int) -> Both:
        return Both(a + b, a - b)

    both.__annotations__["return"] = Both
    assert list(frame.map(text, columns=["a", "b"])) == ["1_11", "2_22", "3_33"]
    assert frame["a"].map(odd).dtype == dt.Int64(True)
    made = frame.map(both, columns=["a", "b"])
    assert isinstance(made, ta.DataFrame)
    assert list(made) == [(12, -10), (24, -20), (36, -30)]
    quotients = dt.Struct([dt.Field("quotient", dt.int64), dt.Field("remainder", dt.int64)])
    assert list(frame.map(divmod, columns=["b", "a"], dtype=quotients)) == [(11, 0), (11, 0), (11, 0)]


def test_what_a_function_raises_comes_through(frame):
    class Odd(Exception):
        pass

    def refuse(value):
        raise Odd(value)

    with pytest.raises(Odd):
        frame["a"].map(refuse)


def test_functions_run_once_and_at_once_on_rows_in_memory(frame):
    calls = []
    mapped = frame["a"].map(lambda one: calls.append(one) or one)
    assert calls == [1, 2, 3]
    assert list(mapped + 1) == [2, 3, 4]
    frame["e"] = mapped
    assert list(frame["e"]) == [1, 2, 3]
    assert calls == [1, 2, 3]


def test_batch_functions_get_and_give_many_forms(frame):
    column = frame["a"]
    assert list(column.transform(lambda one: one + 1)) == [2, 3, 4]
    assert list(column.transform(lambda one: [x + 1 for x in one])) == [2, 3, 4]
    assert list(column.transform(np.cumsum, format="numpy")) == [1, 3, 6]
    assert list(column.transform(lambda one: one.cumsum(0), format="torch")) == [1, 3, 6]
    assert list(column.transform(lambda one: one, format="arrow")) == [1, 2, 3]

    def repeated(values) -> list[list[str]]:
        assert isinstance(values, list)
        return [[str(one)] * one for one in values]

    assert list(column.transform(repeated, format="python"))[1] == ["2", "2"]
    assert list(frame.transform(lambda a, b: a + b, columns=["a", "b"], dtype=dt.int64)) == [12, 24, 36]
    with pytest.raises(ValueError, match="made 4 rows of 3"):
        column.transform(lambda one: [0, *one])
    with pytest.raises(ValueError, match="format is one of"):
        column.transform(len, format="json")


def test_flatmap_filter_and_reduce(frame):
    assert list(frame["a"].flatmap(lambda one: [one] * (one - 1))) == [2, 3, 3]
    assert list(frame["d"].flatmap(lambda one: [one], na_action="ignore")) == [100, 200, None]
    assert list(frame["a"].filter(lambda one: one != 2)) == [1, 3]
    assert list(frame.filter(str.islower, columns=["c"])["a"]) == [1, 2]
    assert frame["a"].reduce(operator.mul) == 6
    assert frame["a"].reduce(operator.add, 10, str) == "16"
    with pytest.raises(TypeError, match="no initial value"):
        ta.column([], dt.int64).reduce(operator.add)


def test_frames_nest_and_their_parts_are_frames_of_the_same_rows():
    inner = ta.dataframe({"x": [1, None, 3], "y": [4, 5, 6]})
    outer = ta.dataframe({"k": [1, 2, 3], "inner": inner})
    outer["inner"] = (outer["inner"].fill_null(0) + 3).log()
    assert isinstance(outer["inner"], ta.DataFrame)
    outer["sum"] = outer["inner"]["x"] + outer["k"]
    assert list(outer.where(me["k"] == 2)["inner"]["x"]) == pytest.approx([np.log(3.0)])
    assert outer[0].inner == pytest.approx((np.log(4.0), np.log(7.0)))


def test_records_may_be_missing():
    dtype = dt.Struct([dt.Field("a", dt.Int64(True)), dt.Field("b", dt.Int64(True))], nullable=True)
    frame = ta.dataframe(dtype)
    frame = frame.append([None, (3, 9)])
    assert list(frame) == [None, (3, 9)]
    assert frame.null_count == 1
    assert not frame.is_valid_at(0)
    assert list(frame["a"]) == [None, 3]
    assert list(frame[1:]) == [(3, 9)]


def test_rows_are_batched_put_together_and_appended():
    column = ta.column([1, 2, 3, 4, 5, 6, 7])
    assert [list(one) for one in column.batch(3)] == [[1, 2, 3], [4, 5, 6], [7]]
    assert list(ta.Column.unbatch(column.batch(2))) == [1, 2, 3, 4, 5, 6, 7]
    assert list(column.append([8])) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert list(ta.concat([ta.column([1]), ta.column([2.5])])) == [1.0, 2.5]
    assert len(ta.concat([ta.dataframe({"a": [1]})] * 3)) == 3
    with pytest.raises(TypeError, match="no type in common"):
        ta.concat([ta.column([1]), ta.column(["a"])])


def test_a_frame_prints_as_a_table():
    lines = repr(ta.dataframe({"a": [1, None], "b": ["x", "y"]})).splitlines()
    assert lines[0].split() == ["index", "a", "b"]
    assert lines[3].split() == ["1", "None", "y"]
    assert lines[-1].endswith("count: 2, null_count: 0")
    assert "..." in repr(ta.column(list(range(100))))


def test_the_plan_says_what_is_computed(frame):
    text = (frame.where(me["a"] > 1)["b"] * 2).plan()
    assert text.splitlines()[0] == "3 rows in memory"
    assert "keep(" in text
    assert text.splitlines()[-1] == "value = mul(me['b'], 2)"


def test_frames_their_plans_and_their_rows_survive_pickling(frame):
    frame["e"] = frame["a"] + frame["b"]
    again = pickle.loads(pickle.dumps(frame.where(me["a"] > 1)))
    assert list(again) == [(2, 22, "b", 200, 24), (3, 33, "C", None, 36)]
    row = pickle.loads(pickle.dumps(frame[0]))
    assert (row.a, row.e, type(row)) == (1, 12, type(frame[0]))


def test_threads_may_share_a_frame():
    frame = ta.dataframe({"a": list(range(1000))})

    def work(number):
        mine = frame.copy()
        mine["b"] = [number] * 1000
        mine["c"] = (mine["a"] + mine["b"]).map(lambda one: one * 2)
        return mine["c"].sum()

    with ThreadPoolExecutor(4) as pool:
        sums = list(pool.map(work, range(20)))
    assert sums == [2 * (999 * 500 + 1000 * number) for number in range(20)]


def test_names_in_a_frame():
    frame = ta.dataframe({"A": [1]})
    assert "A" in frame
    assert "X" not in frame


def test_the_device_is_the_cpu():
    assert ta.column([1]).device == "cpu"
    with pytest.raises(TypeError, match="'gpu'"):
        ta.column([1], device="gpu")
    assert ta.Scope.default.device == "cpu"


def test_describe_takes_types_to_include_and_to_exclude_under_either_name():
    frame = ta.dataframe({"a": [1, 2, 3], "b": [1.0, 2.0, None], "c": ["x", "y", "z"]})
    assert frame.describe().columns == ["metric", "a", "b"]
    assert frame.describe(include=[dt.int64]).columns == ["metric", "a"]
    assert frame.describe(include_columns=[dt.float32]).columns == ["metric", "b"]
    assert frame.describe(exclude=[dt.int64]).columns == ["metric", "b"]
    assert list(frame.describe(percentiles=[10], include=[dt.int64])["metric"]) == [
        "count",
        "mean",
        "std",
        "min",
        "10%",
        "max",
    ]
    assert list(frame["a"].describe(percentiles=[10])["statistic"]) == ["count", "mean", "std", "min", "10%", "max"]


def test_describe_refuses_types_without_a_mean_and_what_is_no_list_of_types():
    frame = ta.dataframe({"a": [1], "c": ["x"]})
    with pytest.raises(TypeError, match="include_columns has string"):
        frame.describe(include=[dt.string])
    with pytest.raises(TypeError, match="is a list of column types"):
        frame.describe(include="int64")
