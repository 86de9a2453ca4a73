"""Ids without bound: which have rows, which lose them, and what becomes of the rows."""

from __future__ import annotations

import pytest
import torch

from flambeau.rec import EmbeddingBagConfig, EmbeddingConfig, JaggedTensor, KeyedJaggedTensor
from flambeau.rec.modules.mc_adapter import McEmbeddingBagCollectionAdapter, McEmbeddingCollectionAdapter
from flambeau.rec.modules.mc_modules import LFU_EvictionPolicy, LRU_EvictionPolicy, MCHManagedCollisionModule

CPU = torch.device("cpu")


def made(policy, size=3, interval=1):
    return MCHManagedCollisionModule(size, CPU, policy, interval)


def rows(module, ids):
    return module({"f": JaggedTensor(torch.tensor(ids), lengths=torch.tensor([len(ids)]))})["f"].values().tolist()


def test_ids_that_came_most_often_have_rows_and_the_others_share_the_last():
    module = made(LFU_EvictionPolicy())
    assert rows(module, [7, 7, 8, 8, 9]) == [0, 0, 1, 1, 2]
    assert rows(module, [9, 9, 9]) == [1, 1, 1]
    assert module.evict().tolist() == [0, 1]


def test_ids_that_came_last_have_rows():
    module = made(LRU_EvictionPolicy())
    rows(module, [7, 8])
    found = rows(module, [9, 10])
    assert sorted(found) == [0, 1]
    assert rows(module.eval(), [7, 8, 9]) == [2, 2, found[0]]


def test_nothing_is_learned_in_evaluation():
    module = made(LFU_EvictionPolicy()).eval()
    assert rows(module, [7, 7]) == [2, 2]
    assert module.evict() is None
    assert module.open_slots().tolist() == [2]


def ids(values):
    return KeyedJaggedTensor(["f"], torch.tensor(values), lengths=torch.tensor([len(values)]))


@pytest.mark.parametrize("method", ["sort_zch", "mpzch"])
def test_collections_are_made_of_their_tables_alone(method):
    options = {"input_hash_size": 10**6, "device": CPU, "world_size": 1, "zch_method": method, "mpzch_num_buckets": 4}
    bags = McEmbeddingBagCollectionAdapter([EmbeddingBagConfig(16, 4, "t", feature_names=["f"])], **options)
    assert bags(ids([5, 999_999])).values().shape == (1, 4)
    assert [tuple(param.shape) for param in bags.parameters()] == [(16, 4)]
    sequences = McEmbeddingCollectionAdapter([EmbeddingConfig(16, 4, "t", feature_names=["f"])], **options)
    assert sequences(ids([5, 999_999]))["f"].values().shape == (2, 4)
    assert [table.name for table in sequences.embedding_bag_configs()] == ["t"]


def test_a_row_that_changes_hands_begins_anew_where_that_is_allowed():
    table = EmbeddingBagConfig(3, 2, "t", feature_names=["f"], init_fn=torch.nn.init.ones_)
    model = McEmbeddingBagCollectionAdapter(
        [table], 100, CPU, 1, zch_method="sort_zch", allow_in_place_embed_weight_update=True
    )
    model(ids([7, 7, 8, 8]))
    (weight,) = model.parameters()
    with torch.no_grad():
        weight.zero_()
    model(ids([9, 9, 9, 9, 9]))
    assert weight.sum(1).tolist() == [0.0, 2.0, 0.0]


def test_a_method_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match="zch_method is 'other', expected one of 'sort_zch', 'mpzch'"):
        McEmbeddingBagCollectionAdapter([], 100, CPU, 1, zch_method="other")
