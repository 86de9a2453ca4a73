"""Into columns and out of them: Arrow, NumPy, Polars, pandas, tensors; memory is shared where it can be."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau.data.frame as ta
from flambeau.data.frame import dtypes as dt
from flambeau.data.frame import pytorch as tap

VALUES = {
    dt.Int64(True): [1, None, -3],
    dt.int8: [1, 2, 3],
    dt.Float32(True): [0.5, None, 1.5],
    dt.Boolean(True): [True, None, False],
    dt.String(True): ["a", None, "é"],
    dt.List(dt.Int64(True), nullable=True): [[1, None], None, []],
    dt.List(dt.string): [["a"], [], ["b", "c"]],
    dt.Map(dt.string, dt.Float32(True), nullable=True): [{"a": 1.5}, None, {"b": None, "c": 2.5}],
    dt.List(dt.List(dt.int32)): [[[1], []], [], [[2, 3]]],
    dt.List(dt.float32, fixed_size=2): [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
}


@pytest.mark.parametrize("dtype", VALUES, ids=str)
def test_every_type_goes_to_arrow_and_back(dtype):
    column = ta.column(VALUES[dtype], dtype)
    array = column.to_arrow()
    array.validate(full=True)
    assert list(ta.from_arrow(array)) == VALUES[dtype]
    table = ta.dataframe({"x": column}).to_arrow()
    assert table.schema.field("x").nullable == dtype.nullable
    assert ta.from_arrow(table).dtype.get("x") == dtype
    assert list(ta.from_arrow(table)["x"]) == VALUES[dtype]


@pytest.mark.parametrize("dtype", VALUES, ids=str)
def test_every_type_goes_to_tensors_and_back(dtype):
    column = ta.column(VALUES[dtype], dtype)
    tensors = column.to_tensor()
    assert list(tap.from_tensor(tensors, dtype.with_null(dtype.nullable))) == VALUES[dtype]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_all_of_arrows_strings_are_taken(kind):
    column = ta.from_arrow(pa.array(["a", None, "long enough not to be inlined"], kind))
    assert column.dtype == dt.String(True)
    assert list(column) == ["a", None, "long enough not to be inlined"]
    assert list(ta.from_arrow(pa.array(["x", "x", "y"]).dictionary_encode())) == ["x", "x", "y"]


def test_types_without_a_column_type_are_refused():
    with pytest.raises(TypeError, match="cast it to a number"):
        ta.from_arrow(pa.array([1], pa.timestamp("us")))
    assert ta.from_arrow(pa.array([200], pa.uint8())).dtype == dt.int16


def test_a_slice_of_arrow_memory_keeps_its_place():
    column = ta.from_arrow(pa.array([[1, 2], None, [3], [4, 5, 6]])[1:])
    assert list(column) == [None, [3], [4, 5, 6]]
    assert column.to_tensor().values.values.values.tolist() == [3, 4, 5, 6]
    assert ta.from_arrow(pa.array([0, 1, 2, 3])[2:]).to_tensor().tolist() == [2, 3]


def test_numbers_share_memory_from_numpy_to_tensor():
    array = np.arange(1000, dtype=np.float32)
    column = ta.column(array)
    assert column.to_numpy().ctypes.data == array.ctypes.data
    assert column.to_tensor().data_ptr() == array.ctypes.data
    assert column.to_arrow().buffers()[1].address == array.ctypes.data
    tensor = torch.arange(1000)
    assert tap.from_tensor(tensor).to_tensor().data_ptr() == tensor.data_ptr()


def test_items_of_lists_share_memory_with_their_tensor():
    array = pa.array([[1, 2], [3]], pa.large_list(pa.int64()))
    tensor = ta.from_arrow(array).cast(dt.List(dt.int64)).to_tensor()
    assert tensor.values.data_ptr() == array.values.buffers()[1].address


def test_shared_memory_outlives_its_column():
    tensor = ta.column(np.arange(100_000)).to_tensor()
    assert int(tensor.sum()) == 4_999_950_000


def test_nullable_whole_numbers_never_become_floats():
    column = ta.column([1, None, 3])
    array = column.to_numpy()
    assert array.dtype == np.int64
    assert array.mask.tolist() == [False, True, False]
    tensors = column.to_tensor()
    assert tensors.values.dtype == torch.int64
    assert tensors.presence.tolist() == [True, False, True]
    assert tensors.values[1] == 0
    with pytest.raises(TypeError, match="fill_null"):
        np.asarray(column)
    assert np.asarray(ta.column([1, 2])).tolist() == [1, 2]


def test_pandas_keeps_whole_numbers_whole():
    pandas = pytest.importorskip("pandas")
    frame = ta.dataframe({"a": [1, None], "s": ["x", "y"]})
    made = frame.to_pandas()
    assert str(made["a"].dtype) == "int64[pyarrow]"
    assert list(ta.from_pandas(made)["a"]) == [1, None]
    assert list(ta.from_pandas(pandas.Series([1.5, 2.5]))) == [1.5, 2.5]
    assert frame["a"].to_pandas().isna().tolist() == [False, True]


def test_polars_goes_both_ways_and_queries_stay_lazy():
    frame = ta.from_polars(pl.DataFrame({"a": [1, 2], "b": ["x", None]}))
    assert frame.dtype.get("a") == dt.int64
    assert frame.dtype.get("b") == dt.String(True)
    frame["c"] = frame["a"] * 2
    assert isinstance(frame.lazy(), pl.LazyFrame)
    assert frame.to_polars()["c"].to_list() == [2, 4]


def test_any_library_that_speaks_arrow_can_take_frames():
    frame = ta.dataframe({"a": [1, 2]})
    assert pa.table(frame).num_rows == 2
    assert pl.DataFrame(frame).shape == (2, 1)
    assert pa.array(frame["a"]).to_pylist() == [1, 2]
    assert list(ta.from_arrow(pl.DataFrame({"a": [3]}))["a"]) == [3]


def test_frames_give_named_tuples_of_tensors():
    frame = ta.dataframe({"a": [1, 2], "l": [[1.0], []], "s": ["x", "y"]})
    tensors = frame.to_tensor()
    assert tensors._fields == ("a", "l", "s")
    assert tensors.s == ["x", "y"]
    assert tensors.l.offsets.dtype == torch.int32
    padded = frame.to_tensor({"l": tap.PadSequence(padding_value=-1)})
    assert padded.l.tolist() == [[1.0], [-1.0]]


def test_padding_fills_shorter_rows():
    lists = ta.column([[1, 2, 3], [], None, [4]])
    assert lists.to_tensor(tap.PadSequence()).tolist() == [[1, 2, 3], [0, 0, 0], [0, 0, 0], [4, 0, 0]]
    assert lists.to_tensor(tap.PadSequence(batch_first=False)).shape == (3, 4)
    assert ta.column([[]], dt.List(dt.int64)).to_tensor(tap.PadSequence()).shape == (1, 0)


def test_tensors_that_do_not_fit_their_type_are_refused():
    with pytest.raises(ValueError, match="expected int32"):
        tap.from_tensor(torch.tensor([1]), dt.int32)
    with pytest.raises(ValueError, match="WithPresence"):
        tap.from_tensor(torch.tensor([1]), dt.Int64(True))
    with pytest.raises(TypeError, match="bfloat16"):
        tap.from_tensor(torch.zeros(2, dtype=torch.bfloat16))
    with pytest.raises(TypeError, match="integer-valued"):
        tap.from_tensor(tap.PackedList(offsets=torch.tensor([0.0]), values=torch.tensor([1])))


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.none() | st.lists(st.none() | st.integers(0, 9), max_size=4), max_size=8), cut=st.integers(0, 8)
)
def test_parts_of_columns_collate_as_whole_columns_do(rows, cut):
    column = ta.column(rows, dt.List(dt.Int64(True), nullable=True))
    parts = [column[:cut], column[cut:]]
    assert [row for part in parts for row in part.to_arrow().to_pylist()] == rows
    lengths = [part.to_tensor().values.offsets.diff().tolist() for part in parts]
    assert [one for part in lengths for one in part] == [len(row or []) for row in rows]
