"""Columns of numbers: operators, missing values, rounding, statistics."""

import math
import operator
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau.data.frame as ta
from flambeau.data.frame import dtypes as dt

quick = settings(max_examples=30, deadline=None)
SMALL = st.lists(st.none() | st.integers(-100, 100), min_size=1, max_size=20)


def test_a_column_prints_its_rows_type_and_missing_values():
    expected = "0  1\n1  2\n2  None\n3  4\ndtype: Int64(nullable=True), length: 4, null_count: 1"
    assert repr(ta.column([1, 2, None, 4])) == expected


def test_the_type_is_found_from_the_values():
    cases = [([1], dt.int64), ([True, None], dt.Boolean(True)), ([True, 1], dt.int64), ([1, 2.0], dt.float32)]
    cases += [([np.float64(1), 2.0], dt.float64), ([np.int32(3)], dt.int32)]
    for values, dtype in cases:
        assert ta.column(values).dtype == dtype


def test_nothing_tells_no_type():
    with pytest.raises(ValueError, match="give `dtype`"):
        ta.column([])
    with pytest.raises(TypeError, match="data or dtype"):
        ta.column()


def test_none_is_refused_where_the_type_is_not_nullable():
    with pytest.raises(ValueError, match=r"None found .* give dtype Int64\(nullable=True\)"):
        ta.column([1, None], dt.int64)


def test_fractions_are_refused_where_whole_numbers_are_wanted():
    with pytest.raises(TypeError, match="without loss"):
        ta.column([1.5], dt.int64)
    with pytest.raises(TypeError):
        ta.column([300], dt.int8)


@pytest.mark.parametrize(
    ("compute", "expected"),
    [
        (lambda c, d: c + 1, [1, 2, 4]),
        (lambda c, d: 1 - c, [1, 0, -2]),
        (lambda c, d: d - c, [5, 4, 3]),
        (lambda c, d: c * d, [0, 5, 18]),
        (lambda c, d: d // 2, [2, 2, 3]),
        (lambda c, d: 2 // d, [0, 0, 0]),
        (lambda c, d: d % 2, [1, 1, 0]),
        (lambda c, d: c**2, [0, 1, 9]),
        (lambda c, d: 2**c, [1, 2, 8]),
        (lambda c, d: c**d, [0, 1, 729]),
        (lambda c, d: -c, [0, -1, -3]),
        (lambda c, d: c & d, [0, 1, 2]),
        (lambda c, d: c | 8, [8, 9, 11]),
        (lambda c, d: c ^ d, [5, 4, 5]),
        (lambda c, d: ~c, [-1, -2, -4]),
        (lambda c, d: c == 1, [False, True, False]),
        (lambda c, d: c != d, [True, True, True]),
        (lambda c, d: c < 2, [True, True, False]),
        (lambda c, d: c >= d, [False, False, False]),
        (lambda c, d: c == 1, [False, True, False]),
        (lambda c, d: c < [1, 1, 1], [True, False, False]),
    ],
)
def test_operators_work_row_by_row(compute, expected):
    assert list(compute(ta.column([0, 1, 3]), ta.column([5, 5, 6]))) == expected


@quick
@given(left=SMALL, right=st.integers(-100, 100))
def test_division_rounds_down_and_the_rest_has_the_divisors_sign(left, right):
    column = ta.column(left, dt.Int64(True))
    for function in (operator.floordiv, operator.mod):
        if right:
            assert list(function(column, right)) == [None if one is None else function(one, right) for one in left]
            floats = function(column.cast(dt.Float64(True)), float(right))
            assert list(floats) == [None if one is None else function(float(one), float(right)) for one in left]
        else:
            with pytest.raises(ZeroDivisionError):
                function(column, right)


def test_whole_division_by_a_column_with_a_zero_raises_when_it_is_computed():
    with pytest.raises(ZeroDivisionError):
        list(ta.column([1, 2]) // ta.column([1, 0]))
    with pytest.raises(ZeroDivisionError):
        list(5 % ta.column([1, 0]))


def test_a_missing_divisor_is_no_zero():
    assert list(ta.column([4, 4]) // ta.column([2, None])) == [2, None]


def test_true_division_is_single_precision_and_follows_ieee():
    result = ta.column([1, -1, 0, 3]) / 0
    assert result.dtype == dt.float32
    values = list(result)
    assert values[:2] == [math.inf, -math.inf]
    assert math.isnan(values[2])
    assert (ta.column(np.array([1.0])) / 3).dtype == dt.float64


def test_a_whole_number_has_no_negative_power():
    with pytest.raises(ValueError, match="negative integer powers"):
        ta.column([2]) ** -1
    with pytest.raises(ValueError, match="negative integer powers"):
        list(ta.column([2, 3]) ** ta.column([1, -1]))
    assert list(ta.column([2.0]) ** -1) == [0.5]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "lt", "ge"])
def test_missing_values_make_missing_results(name):
    function = getattr(operator, name)
    left, right = ta.column([1, None, 3, None]), ta.column([2, 2, None, None])
    result = list(function(left, right))
    assert result[0] is not None
    assert result[1:] == [None, None, None]
    assert function(left, right).is_nullable


def test_logic_with_missing_values_is_missing_even_where_one_side_decides():
    left, right = ta.column([True, False, None]), ta.column([None, None, True])
    assert list(left | right) == [None, None, None]
    assert list(left & right) == [None, None, None]
    assert list(~ta.column([True, None])) == [False, None]


def test_only_unequal_is_true_of_nan_as_in_torch():
    column = ta.column([float("nan"), 1.0, None])
    assert list(column == column) == [False, True, None]
    assert list(column != column) == [True, False, None]
    assert list(column > 0) == [False, True, None]
    assert list(column.isin([float("nan"), 1.0])) == [False, True, False]


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (dt.int32, 1, dt.int32),
        (dt.int8, 1, dt.int8),
        (dt.int8, 1000, dt.int16),
        (dt.int32, 1 << 40, dt.int64),
        (dt.int32, 1.5, dt.float32),
        (dt.float64, 1.5, dt.float64),
        (dt.float32, 1, dt.float32),
        (dt.boolean, 1, dt.int64),
        (dt.int8, np.int64(1), dt.int64),
    ],
)
def test_a_number_takes_the_type_of_the_column_where_it_fits(dtype, value, expected):
    assert (ta.column([1], dtype) + value).dtype == expected


def test_sums_wrap_around_as_with_tensors():
    assert list(ta.column([127], dt.int8) + 1) == [-128]


def test_operators_between_types_that_have_none_are_refused():
    with pytest.raises(TypeError, match=r"int64 \+ string is not defined"):
        ta.column([1]) + ta.column(["a"])
    with pytest.raises(TypeError, match=r"float32 & float32"):
        ta.column([1.0]) & 1
    with pytest.raises(TypeError, match="cast"):
        ta.column([True]) - True


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="equal length, got 2 and 3 rows"):
        ta.column([1, 2]) + ta.column([1, 2, 3])


def test_the_truth_of_a_column_is_not_defined():
    with pytest.raises(TypeError, match=r"\.all\(\) or \.any\(\)"):
        bool(ta.column([True]))


def test_halves_round_to_the_even_neighbour():
    assert list(ta.column([0.5, 1.5, 2.5, -2.5, None]).round()) == [0.0, 2.0, 2.0, -2.0, None]
    assert list(ta.column([15, 25, -35, 1234, None]).round(-1)) == [20, 20, -40, 1230, None]
    assert list(ta.column([1234.5]).round(-2)) == [1200.0]
    assert list(ta.column(np.array([2.675, 1.25])).round(1)) == [2.7, 1.2]


@quick
@given(values=SMALL, decimals=st.integers(-3, 2))
def test_rounding_whole_numbers_is_pythons(values, decimals):
    expected = [None if one is None else round(one, decimals) for one in values]
    assert list(ta.column(values, dt.Int64(True)).round(decimals)) == expected


def test_abs_ceil_floor_and_log_keep_or_widen_the_type():
    column = ta.column([1.0, 4.2, -2.5, None])
    assert list(column.abs())[2:] == [2.5, None]
    assert list(column.ceil()) == [1.0, 5.0, -2.0, None]
    assert list(column.floor()) == [1.0, 4.0, -3.0, None]
    logs = ta.column([1, 2, 0]).log()
    assert logs.dtype == dt.float32
    assert list(logs) == pytest.approx([0.0, math.log(2), -math.inf], rel=1e-6)


@quick
@given(values=SMALL)
def test_statistics_leave_missing_values_out(values):
    column, known = ta.column(values, dt.Int64(True)), [one for one in values if one is not None]
    assert column.sum() == sum(known)
    assert column.null_count == len(values) - len(known)
    if not known:
        assert column.min() is column.max() is column.mean() is column.mode() is None
        return
    assert (column.min(), column.max()) == (min(known), max(known))
    assert column.mean() == pytest.approx(statistics.mean(known))
    assert column.median() == statistics.median(known)
    assert column.mode() == statistics.mode(known)
    if len(known) > 1:
        assert column.std() == pytest.approx(statistics.stdev(map(float, known)))


def test_small_types_are_summed_in_64_bits():
    assert ta.column([100] * 1000, dt.int8).sum() == 100_000
    assert ta.column([100] * 10, dt.int8).cumsum().dtype == dt.int64


def test_running_totals_pass_over_missing_values():
    column = ta.column([1, None, 4, 2])
    assert list(column.cumsum()) == [1, None, 5, 7]
    assert list(column.cumprod()) == [1, None, 4, 8]
    assert list(column.cummin()) == [1, None, 1, 1]
    assert list(column.cummax()) == [1, None, 4, 4]


def test_percentiles_lie_on_the_line_between_neighbours():
    assert ta.column([1, 2, 999, 4, None]).quantile([25, 50, 75, 100]) == [1.75, 3.0, 252.75, 999.0]
    assert ta.column([], dt.int64).quantile([50]) == []
    with pytest.raises(ValueError, match="between 0 and 100"):
        ta.column([1]).quantile([101])


def test_describe_gives_upstreams_table():
    expected = [("count", 3.0), ("mean", 2.0), ("std", 1.0), ("min", 1.0)]
    expected += [("25%", 1.5), ("50%", 2.0), ("75%", 2.5), ("max", 3.0)]
    assert list(ta.column([1, 2, 3]).describe()) == expected


def test_fill_null_makes_a_column_that_cannot_miss_values():
    filled = ta.column([None, 2, 17.0]).fill_null(99)
    assert list(filled) == [99.0, 2.0, 17.0]
    assert filled.dtype == dt.float32
    with pytest.raises(TypeError, match="fill_null"):
        filled.fill_null("a")


def test_drop_null_and_isin_and_uniqueness():
    column = ta.column([1, 4, 2, 4, None])
    assert list(column.drop_null()) == [1, 4, 2, 4]
    assert column.drop_null().dtype == dt.int64
    assert list(column.isin([1, 2, None])) == [True, False, True, False, False]
    assert list(column.drop_duplicates()) == [1, 4, 2, None]
    assert list(column.drop_duplicates(keep="last")) == [1, 2, 4, None]
    assert list(column.drop_duplicates(keep=False)) == [1, 2, None]
    assert not column.is_unique
    assert ta.column([1, 2, 3]).is_unique
    assert ta.column([1, None, 1, 3]).is_monotonic_increasing
    assert not column.is_monotonic_decreasing


def test_casts_check_what_they_cast():
    assert list(ta.column([1.9, -1.9]).cast(dt.int32)) == [1, -1]
    assert list(ta.column([1, 0]).cast(dt.boolean)) == [True, False]
    assert list(ta.column(["1", "22"]).cast(dt.int64)) == [1, 22]
    assert list(ta.column([True, False]).cast(dt.string)) == ["True", "False"]
    with pytest.raises(ValueError, match="fill_null first"):
        ta.column([1, None]).cast(dt.int32)
    with pytest.raises(Exception, match="conversion"):
        list(ta.column([300]).cast(dt.int8))


def test_if_else_chooses_by_row_and_takes_single_values():
    chosen = ta.if_else(ta.column([True, False, None]), ta.column([1, 2, 3]), 0.5)
    assert list(chosen) == [1.0, 0.5, None]
    assert chosen.dtype == dt.Float32(True)
    with pytest.raises(TypeError, match="boolean"):
        ta.if_else(ta.column([1]), 1, 2)


@pytest.mark.parametrize("operate", [lambda c: c**2, lambda c: 2**c, lambda c: c // 2.0, lambda c: c % 2.0])
def test_a_column_of_no_rows_and_a_constant_make_a_column_of_no_rows(operate):
    assert list(operate(ta.column([], dt.float32))) == []
