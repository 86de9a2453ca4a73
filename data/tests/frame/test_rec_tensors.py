"""Conversions of recommenders, and the jagged contract."""

import pytest
import torch

import flambeau.data.frame as ta
from flambeau.core.registry import TENSOR_TYPES
from flambeau.data.frame import dtypes as dt
from flambeau.data.frame import functional
from flambeau.data.frame.pytorch import WithPresence, rec
from flambeau.data.jagged import Jagged, JaggedValues


@pytest.fixture
def sparse():
    return ta.dataframe({"f1": [[1, 2], [], [3]], "f2": [[4], [5, 6], []]})


@pytest.fixture
def weighted():
    item = dt.List(dt.Struct([dt.Field("id", dt.int64), dt.Field("score", dt.float32)]))
    return ta.dataframe({"f1": ta.column([[(1, 0.5), (2, 1.5)], []], item), "f2": ta.column([[], [(3, 2.5)]], item)})


def test_dense_features_make_one_tensor():
    frame = ta.dataframe({"a": [1.0, None], "b": [3, 4]})
    assert frame.to_tensor(rec.Dense()).tolist() == [[1.0, 0.0], [3.0, 4.0]]
    made = frame.to_tensor(rec.Dense(batch_first=True, with_presence=True))
    assert isinstance(made, WithPresence)
    assert made.values.tolist() == [[1.0, 3.0], [0.0, 4.0]]
    assert made.presence.tolist() == [[True, True], [False, True]]
    with pytest.raises(TypeError, match="'s' is string"):
        ta.dataframe({"s": ["x"]}).to_tensor(rec.Dense())


def test_one_sparse_feature(sparse, weighted):
    offsets, lengths, values = sparse["f1"].to_tensor(rec.IndividualSparse(weighted=False))
    assert (offsets.tolist(), lengths.tolist(), values.tolist()) == ([0, 2, 2, 3], [2, 0, 1], [1, 2, 3])
    assert weighted["f1"].to_tensor(rec.IndividualSparse(weighted=True))[3].tolist() == [0.5, 1.5]
    maps = ta.column([{1: 0.5}, {}])
    assert maps.to_tensor(rec.IndividualSparse(weighted=True))[3].tolist() == [0.5]
    with pytest.raises(TypeError, match="id, score"):
        sparse["f1"].to_tensor(rec.IndividualSparse(weighted=True))


def test_packed_sparse_features(sparse):
    made = sparse.to_tensor(rec.PackedSparse(weighted=False))
    assert [one.tolist() for one in made["f2"]] == [[0, 1, 3, 3], [1, 2, 0], [4, 5, 6]]
    listed = sparse.to_tensor(rec.PackedSparse(weighted=False, pack_option=rec.PackOption.AS_PYLIST))
    assert [one.tolist() for one in listed] == [[2, 0, 1], [1, 2, 3], [1, 2, 0], [4, 5, 6]]


@pytest.fixture
def alone():
    """Without flambeau-rec, which is installed where the whole suite is."""
    held = TENSOR_TYPES.entry(rec.KEYED) if rec.KEYED in TENSOR_TYPES else None
    if held is not None:
        TENSOR_TYPES.unregister(rec.KEYED)
    yield
    if held is not None:
        TENSOR_TYPES.register(held.id, held.target, replace=True)


def test_jagged_sparse_features_in_each_form(sparse, weighted, alone):
    keys, per_key, lengths, values = sparse.to_tensor(rec.JaggedSparse(weighted=False))
    assert (keys, per_key) == (["f1", "f2"], [3, 3])
    assert lengths.tolist() == [2, 0, 1, 1, 2, 0]
    assert values.tolist() == [1, 2, 3, 4, 5, 6]
    combined = sparse.to_tensor(rec.JaggedSparse(weighted=False, combine_option=rec.CombineOption.COMBINED))
    assert combined[0].tolist() == [[2, 0, 1], [1, 2, 0]]
    option = rec.CombineOption.JAGGED_WITH_OFFSET
    made = weighted.to_tensor(rec.JaggedSparse(weighted=True, combine_option=option))
    assert made[2].tolist() == [0.5, 1.5, 2.5]
    assert made[3:] == ([2, 1], [0, 2])


def test_jagged_sparse_makes_the_registered_keyed_type(sparse, alone):
    class Keyed:
        def __init__(self, keys, values, weights=None, lengths=None):
            self.keys, self.values, self.weights, self.lengths = keys, values, weights, lengths

    TENSOR_TYPES.register("keyed_jagged", Keyed, plugin="rec", replace=True)
    try:
        made = sparse.to_tensor(rec.JaggedSparse(weighted=False))
    finally:
        TENSOR_TYPES.unregister("rec/keyed_jagged")
    assert isinstance(made, Keyed)
    assert made.keys == ["f1", "f2"]
    assert made.lengths.tolist() == [2, 0, 1, 1, 2, 0]


def test_features_of_different_id_types_do_not_combine():
    frame = ta.dataframe({"a": [[1]], "b": ta.column([[1]], dt.List(dt.int32))})
    with pytest.raises(TypeError, match="of one type"):
        frame.to_tensor(rec.JaggedSparse(weighted=False))


def test_embeddings_and_scalars():
    assert ta.column([[1.0, 2.0], [3.0, 4.0]]).to_tensor(rec.Embedding()).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(ValueError, match="differ in length"):
        ta.column([[1.0], [2.0, 3.0]]).to_tensor(rec.Embedding())
    assert ta.column([1, None]).to_tensor(rec.Scalar()).tolist() == [1, 0]
    assert ta.column([1, None]).to_tensor(rec.Scalar(with_presence=True)).presence.tolist() == [True, False]


def test_any_jagged_tensor_fulfils_the_contract():
    jagged = JaggedValues(torch.tensor([1, 2, 3]), lengths=torch.tensor([2, 0, 1]))
    assert isinstance(jagged, Jagged)
    assert jagged.offsets().tolist() == [0, 2, 2, 3]
    assert [row.tolist() for row in jagged] == [[1, 2], [], [3]]
    assert jagged[-1].tolist() == [3]
    assert jagged.to_padded_dense(padding_value=9).tolist() == [[1, 2], [9, 9], [3, 9]]
    assert jagged.to_padded_dense(1).tolist() == [[1], [0], [3]]
    assert JaggedValues.from_dense(jagged.to_dense()).lengths().tolist() == [2, 0, 1]
    assert "rows=3, items=3" in repr(jagged)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "lengths or offsets"),
        ({"lengths": torch.tensor([1])}, "expected 0 to 3 items"),
        ({"offsets": torch.tensor([0, 4, 3])}, "negative"),
        ({"offsets": torch.tensor([0.0, 3.0])}, "whole numbers"),
        ({"lengths": torch.tensor([3]), "weights": torch.tensor([1.0])}, "1 weights for 3 items"),
    ],
)
def test_jagged_values_check_what_they_are_given(arguments, message):
    with pytest.raises(ValueError, match=message):
        JaggedValues(torch.tensor([1, 2, 3]), **arguments)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kind", [dt.int8, dt.int32, dt.int64])
def test_hashed_columns_come_in_one_pass_as_they_come_one_by_one(batch_first, kind):
    frame = ta.dataframe()
    frame["a"] = ta.column([1, None, 3, -4], kind.with_null())
    frame["b"] = functional.sigrid_hash(ta.column([5, 6, 7, 8], kind), 3, 1000)
    frame["c"] = functional.sigrid_hash(ta.column([None, 1, 2, 9], kind.with_null()), -1, 2**61)
    frame["a"] = functional.sigrid_hash(frame["a"], 0, 7)
    frame["plain"] = ta.column([9, 8, None, 7], dt.Int16(nullable=True))
    for rows in (frame, frame[1:], frame[frame["b"] > 0]):
        expected = torch.tensor([[row and (value or 0) for value in row] for row in rows])
        made = rows.to_tensor(rec.Dense(batch_first=batch_first, with_presence=True))
        assert made.values.is_contiguous() or not batch_first
        assert torch.equal(made.values, expected if batch_first else expected.T)
        known = torch.tensor([[value is not None for value in row] for row in rows])
        assert torch.equal(made.presence, known if batch_first else known.T)


def test_hashed_columns_that_were_computed_before_are_not_hashed_again():
    frame = ta.dataframe({"a": [1, 2, 3]})
    frame["a"] = functional.sigrid_hash(frame["a"], 0, 100)
    assert list(frame["a"]) == [60, 54, 54]
    assert frame.to_tensor(rec.Dense(batch_first=True)).tolist() == [[60], [54], [54]]


def test_hashed_columns_of_no_rows_make_an_empty_tensor():
    frame = ta.dataframe({"a": ta.column([], dt.int64)})
    frame["a"] = functional.sigrid_hash(frame["a"], 0, 100)
    assert frame.to_tensor(rec.Dense(batch_first=True)).shape == (0, 1)
