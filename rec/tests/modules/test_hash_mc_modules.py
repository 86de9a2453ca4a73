"""Rows by hashing: ids keep theirs, leave when their time is over, and share or go without where none are left."""

from __future__ import annotations

import pytest
import torch

from flambeau.rec import EmbeddingBagCollection, EmbeddingBagConfig, JaggedTensor, KeyedJaggedTensor
from flambeau.rec.modules import hash_mc_evictions
from flambeau.rec.modules.hash_mc_evictions import HashZchEvictionConfig, HashZchEvictionPolicyName
from flambeau.rec.modules.hash_mc_modules import HashZchManagedCollisionModule
from flambeau.rec.modules.mc_embedding_modules import ManagedCollisionEmbeddingBagCollection
from flambeau.rec.modules.mc_modules import ManagedCollisionCollection

CPU = torch.device("cpu")


def made(size=16, buckets=4, **options):
    return HashZchManagedCollisionModule(zch_size=size, device=CPU, total_num_buckets=buckets, **options)


def rows(module, ids):
    return module({"f": JaggedTensor(torch.tensor(ids), lengths=torch.tensor([len(ids)]))})["f"].values().tolist()


def test_ids_have_rows_of_their_own_and_keep_them():
    module = made(64, 4)
    first = rows(module, [1, 2, 3, 1000, 10**12])
    assert len(set(first)) == 5
    assert rows(module, [10**12, 3]) == [first[4], first[2]]
    module.eval()
    assert rows(module, [1, 2]) == first[:2]


def test_an_id_lies_in_the_part_that_it_belongs_to():
    module = made(64, 4)
    for number, row in zip(range(20), rows(module, list(range(20))), strict=True):
        assert row // 16 == number % 4


def test_parts_in_several_processes_are_those_of_the_whole():
    whole = made(64, 4)
    parts = [whole.rebuild_with_output_id_range((first, first + 32)) for first in (0, 32)]
    ids = list(range(40))
    expected = rows(whole, ids)
    for number, part in enumerate(parts):
        mine = [one for one in ids if one % 4 // 2 == number]
        assert rows(part, mine) == [expected[one] for one in mine]
        assert part.is_sharded
        assert part.output_size() == 32


def test_ids_without_a_row_are_left_out_where_none_is_shared():
    module = made(disable_fallback=True)
    rows(module, [1, 2])
    module.eval()
    feature = JaggedTensor(torch.tensor([1, 77, 2]), torch.tensor([0.1, 0.2, 0.3]), torch.tensor([2, 1]))
    found = module({"f": feature})["f"]
    assert len(found.values()) == 2
    assert found.lengths().tolist() == [1, 1]
    assert found.weights().tolist() == pytest.approx([0.1, 0.3])


def test_ids_whose_time_is_over_give_their_rows_to_new_ones(monkeypatch):
    hour = 1000
    monkeypatch.setattr(hash_mc_evictions, "_hour", lambda: hour)
    policy = HashZchEvictionPolicyName.SINGLE_TTL_EVICTION
    module = made(4, 1, eviction_policy_name=policy, eviction_config=HashZchEvictionConfig(["f"], single_ttl=2))
    before = rows(module, [1, 2, 3, 4])
    assert sorted(before) == [0, 1, 2, 3]
    assert module.evict() is None
    hour += 5
    after = rows(module, [5])
    assert module.evict().tolist() == after


def test_a_collection_learns_of_ids_without_bound():
    table = EmbeddingBagConfig(16, 4, "t", feature_names=["f"])
    collisions = ManagedCollisionCollection({"t": made()}, [table])
    model = ManagedCollisionEmbeddingBagCollection(EmbeddingBagCollection([table]), collisions, True)
    ids = KeyedJaggedTensor(["f"], torch.tensor([10**15, 7]), lengths=torch.tensor([1, 1]))
    pooled, mapped = model(ids)
    torch.testing.assert_close(pooled.values(), model._embedding_module.embedding_bags["t"].weight[mapped.values()])


def test_what_is_noted_of_a_row_is_found_as_long_as_it_is_the_same_ids():
    module = made(write_runtime_meta_dim=2)
    placed = torch.tensor(rows(module, [1, 2]))
    module.update_runtime_meta(torch.tensor([1, 99]), placed, torch.tensor([[3, 4], [5, 6]]))
    assert module.lookup_runtime_meta(torch.tensor([1, 2]), placed).tolist() == [[3, 4], [0, 0]]


def test_rows_that_are_not_divided_evenly_need_boundaries():
    with pytest.raises(ValueError, match="zch_size is 15 and 4 buckets are here"):
        made(15, 4)


def test_an_eviction_by_time_needs_the_time():
    with pytest.raises(ValueError, match="SINGLE_TTL_EVICTION needs a configuration"):
        made(eviction_policy_name=HashZchEvictionPolicyName.SINGLE_TTL_EVICTION)
