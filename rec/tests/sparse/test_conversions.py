"""Features from TensorDicts, and what is checked of features."""

from __future__ import annotations

import logging

import pytest
import torch

from flambeau.data import TensorDict
from flambeau.data.jagged import JaggedValues
from flambeau.rec import EmbeddingBagConfig, KeyedJaggedTensor
from flambeau.rec.sparse.jagged_tensor import SparseError
from flambeau.rec.sparse.jagged_tensor_validator import validate_keyed_jagged_tensor
from flambeau.rec.sparse.tensor_dict import maybe_td_to_kjt


def whole(values):
    return torch.tensor(values)


def nested(*rows):
    return torch.nested.nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)


def features(keys=("a", "b"), values=(1, 2, 3), weights=None, **parts):
    parts = parts or {"lengths": whole([2, 1, 0, 0])}
    return KeyedJaggedTensor(list(keys), whole(list(values)), weights, **parts)


# --- TensorDicts -----------------------------------------------------------------------------------------------------


def test_nested_tensors_become_features():
    given = TensorDict({"a": nested([1, 2], [3]), "b": nested([5], [6, 7])}, batch_size=[2])
    made = maybe_td_to_kjt(given)
    assert made.keys() == ["a", "b"]
    assert made.values().tolist() == [1, 2, 3, 5, 6, 7]
    assert made.lengths().tolist() == [2, 1, 1, 2]
    assert maybe_td_to_kjt(given, ["b", "a"]).values().tolist() == [5, 6, 7, 1, 2, 3]


def test_tensordicts_of_the_library_are_understood():
    tensordict = pytest.importorskip("tensordict")
    given = tensordict.TensorDict({"a": nested([1, 2], [3])}, batch_size=[2])
    assert maybe_td_to_kjt(given)["a"].lengths().tolist() == [2, 1]


def test_what_is_no_tensordict_stays_what_it_is():
    given = features()
    assert maybe_td_to_kjt(given) is given
    assert maybe_td_to_kjt({"a": 1}) == {"a": 1}


def test_entries_that_are_not_jagged_are_refused_by_name():
    with pytest.raises(SparseError, match=r"entry 'a' is a tensor of the layout torch\.strided"):
        maybe_td_to_kjt(TensorDict({"a": torch.ones(2, 2)}, batch_size=[2]))
    with pytest.raises(KeyError):
        maybe_td_to_kjt(TensorDict({"a": nested([1], [2])}, batch_size=[2]), ["z"])
    with pytest.raises(SparseError, match="no entries"):
        maybe_td_to_kjt(TensorDict({}, batch_size=[2]))


def test_jagged_data_of_frames_has_what_features_need():
    jagged = JaggedValues(whole([1, 2, 3]), lengths=whole([2, 1]))
    assert jagged.offsets().diff().tolist() == [2, 1]


# --- the validator ---------------------------------------------------------------------------------------------------

TABLE = EmbeddingBagConfig(num_embeddings=4, embedding_dim=4, name="t", feature_names=["a", "b", "c"])


@pytest.mark.parametrize(
    "given",
    [
        features(),
        features(offsets=whole([0, 2, 3, 3, 3])),
        features(lengths=whole([2, 1, 0, 0]), offsets=whole([0, 2, 3, 3, 3])),
        features(lengths=whole([2, 1, 0, 0]), stride_per_key_per_rank=[[1], [3]]),
        features(values=[], lengths=whole([0, 0])),
        features(weights=torch.ones(3)),
    ],
    ids=["lengths", "offsets", "both", "batches of keys", "empty", "weights"],
)
def test_features_whose_parts_fit_are_valid(given):
    assert validate_keyed_jagged_tensor(given) is True
    assert validate_keyed_jagged_tensor(given, [TABLE]) is True


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"lengths": whole([2, 1, 1, 0])}, "lengths add up to 4, but there are 3 values"),
        ({"lengths": whole([2, 2, 0, -1])}, "at least 0, but got -1"),
        ({"lengths": whole([2, 1, 0])}, "3 entries, which 2 keys cannot share"),
        ({"offsets": whole([1, 2, 3, 3, 3])}, "it must begin with 0"),
        ({"offsets": whole([0, 2, 3, 3, 4])}, "offsets ends with 4, but there are 3 values"),
        ({"offsets": whole([0, 2, 1, 3, 3])}, "must not fall"),
        ({"lengths": whole([2, 1, 0, 0]), "offsets": whole([0, 1, 3, 3, 3])}, "offsets and lengths disagree"),
        ({"keys": ["a", "a"], "lengths": whole([2, 1, 0, 0])}, "keys must be unique, but 'a'"),
        ({"weights": torch.ones(2), "lengths": whole([2, 1, 0, 0])}, "weights has 2 entries for 3 values"),
    ],
)
def test_parts_that_do_not_fit_are_named(parts, message):
    with pytest.raises(ValueError, match=message):
        validate_keyed_jagged_tensor(features(**parts))


def test_ids_outside_of_tables_are_told_by_feature(caplog):
    with caplog.at_level(logging.WARNING):
        assert validate_keyed_jagged_tensor(features(values=[1, 4, 3]), [TABLE]) is False
    assert "feature 'a' has ids from 1 to 4, and table 't' has the rows 0 to 3" in caplog.text
    assert validate_keyed_jagged_tensor(features(values=[1, -2, 3]), [TABLE]) is False


def test_batches_of_keys_that_are_not_as_many_as_lengths_are_told(caplog):
    given = features(lengths=whole([2, 1, 0, 0]), stride_per_key_per_rank=[[1], [2]])
    assert validate_keyed_jagged_tensor(given) is False
    assert "3 bags, expected 4 lengths" in caplog.text
