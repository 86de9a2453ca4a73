"""Types of columns: their names, their order, and how they are found."""

import pickle
from typing import NamedTuple, Optional

import numpy as np
import pytest

from flambeau.data.frame import dtypes as dt


class Pair(NamedTuple):
    plus: int
    minus: float


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        (dt.int64, "int64"),
        (dt.Int64(nullable=True), "Int64(nullable=True)"),
        (dt.boolean, "boolean"),
        (dt.List(dt.string), "List(string)"),
        (dt.List(dt.Int64(True), nullable=True), "List(Int64(nullable=True), nullable=True)"),
        (dt.List(dt.float32, fixed_size=3), "List(float32, fixed_size=3)"),
        (dt.Map(dt.string, dt.int8), "Map(string, int8)"),
        (dt.Struct([dt.Field("a", dt.int64)]), "Struct([Field('a', int64)])"),
    ],
)
def test_types_print_as_upstream_prints_them(dtype, text):
    assert str(dtype) == text


def test_types_are_equal_by_structure_hash_and_survive_pickling():
    made = [dt.Struct([dt.Field("a", dt.List(dt.Map(dt.string, dt.int8)))]) for _ in range(2)]
    assert made[0] == made[1]
    assert len(set(made)) == 1
    assert made[0].py_type is made[0].py_type
    assert pickle.loads(pickle.dumps(made[0])) == made[0]


def test_a_nullable_struct_refuses_fields_that_are_not():
    with pytest.raises(TypeError, match=r"nullable structs require each field \(like a\)"):
        dt.Struct([dt.Field("a", dt.int64)], nullable=True)


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        (dt.boolean, dt.int8, dt.int8),
        (dt.int8, dt.int64, dt.int64),
        (dt.int64, dt.float32, dt.float32),
        (dt.float32, dt.float64, dt.float64),
        (dt.Int32(True), dt.int16, dt.Int32(True)),
        (dt.Void(), dt.string, dt.String(True)),
        (dt.List(dt.int8), dt.List(dt.float64), dt.List(dt.float64)),
        (dt.string, dt.int64, None),
        (dt.List(dt.int8), dt.int8, None),
    ],
)
def test_the_common_type_is_the_narrowest_that_holds_both(left, right, common):
    assert dt.common_dtype(left, right) == common
    assert dt.common_dtype(right, left) == common


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, dt.boolean),
        (3, dt.int64),
        (1.5, dt.float32),
        (np.float64(1.5), dt.float64),
        (np.int16(3), dt.int16),
        ("a", dt.string),
        ([1, None], dt.List(dt.Int64(True))),
        ({"a": [1.0]}, dt.Map(dt.string, dt.List(dt.float32))),
        ((1, "a"), dt.Tuple([dt.int64, dt.string])),
        (None, dt.Void()),
    ],
)
def test_values_tell_their_type(value, dtype):
    assert dt.infer_dtype_from_value(value) == dtype


def test_the_whole_of_the_values_is_looked_at():
    assert dt.infer_dtype_from_prefix([1] * 100 + [None, 2.5]) == dt.Float32(True)


def test_values_without_a_common_type_are_refused():
    with pytest.raises(ValueError, match="give `dtype`"):
        dt.infer_dtype_from_prefix([1, "a"])


@pytest.mark.parametrize(
    ("hint", "dtype"),
    [
        (int, dt.int64),
        (float, dt.float32),
        (Optional[int], dt.Int64(True)),  # noqa: UP045 - both spellings are tested
        (str | None, dt.String(True)),
        (list[bool], dt.List(dt.boolean)),
        (dict[str, float], dt.Map(dt.string, dt.float32)),
        (Pair, dt.Struct([dt.Field("plus", dt.int64), dt.Field("minus", dt.float32)])),
    ],
)
def test_annotations_tell_a_type(hint, dtype):
    assert dt.dtype_of_type(hint) == dtype


def test_numpy_types_go_both_ways():
    for dtype in (dt.boolean, dt.int8, dt.int16, dt.int32, dt.int64, dt.float32, dt.float64):
        assert dt.typeof_np_dtype(dt.np_typeof_dtype(dtype)) == dtype
    with pytest.raises(TypeError, match="complex128"):
        dt.typeof_np_dtype(np.dtype("complex128"))
