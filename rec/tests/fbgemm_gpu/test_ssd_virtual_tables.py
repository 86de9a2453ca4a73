"""Virtual tables: rows are made when their ids first come up, stay in checkpoints, and leave by a policy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType
from flambeau.rec.fbgemm_gpu.tbe.ssd import EnrichmentPolicy, EvictionPolicy, KVZCHParams, SSDTableBatchedEmbeddingBags
from flambeau.rec.fbgemm_gpu.tbe.ssd import _eviction as eviction
from flambeau.rec.fbgemm_gpu.tbe.ssd._enrichment import register_enrichment_provider
from flambeau.rec.fbgemm_gpu.tbe.ssd._ids import RECORD, IdTable

MANY = 2**62


def virtual(folder, specs=((MANY, 4),), cache_sets=2, unique_id=-1, seed=0, **params):
    torch.manual_seed(seed)
    return SSDTableBatchedEmbeddingBags(
        list(specs), None, cache_sets, str(folder), kv_zch_params=KVZCHParams(**params), tbe_unique_id=unique_id,
        optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD, learning_rate=0.1,
    )  # fmt: skip


def train(module, ids):
    ids = torch.tensor(ids)
    module(ids, torch.arange(len(ids) + 1)).square().sum().backward()


def ids_of(module, table=0):
    return module.split_embedding_weights()[1][table].view(-1).tolist()


class Counted:
    """A file of blocks, in memory, for a table of ids."""

    def __init__(self):
        self.rows, self.content = 1024, np.zeros((1024, RECORD.itemsize), np.uint8)

    def written(self):
        yield np.arange(self.rows)

    def read(self, rows):
        return self.content[rows]

    def write(self, rows, records):
        self.content[rows] = records

    def grow(self, rows):
        more = max(rows, 2 * self.rows) - self.rows
        self.content = np.concatenate([self.content, np.zeros((more, RECORD.itemsize), np.uint8)])
        self.rows += more


@settings(max_examples=40)
@given(st.lists(st.tuples(st.booleans(), st.sets(st.integers(-50, 50) | st.integers(-(2**63), 2**63 - 1)))))
def test_ids_have_rows_of_their_own_as_in_a_dictionary(steps):
    file = Counted()
    table, model = IdTable(file), {}
    for adding, chosen in steps:
        ids = np.array(sorted(chosen), np.int64)
        if adding:
            rows, new = table.add(ids)
            assert [bool(one) for one in new] == [one not in model for one in ids.tolist()]
            model |= dict(zip(ids.tolist(), rows.tolist(), strict=True))
        else:
            rows = table.find(ids)
            table.remove(rows[rows >= 0])
            for one in ids.tolist():
                model.pop(one, None)
        assert len(set(model.values())) == len(model) == len(table)
        assert table.find(ids).tolist() == [model.get(one, -1) for one in ids.tolist()]
    table.flush()
    again = IdTable(file)
    known = np.array(sorted(model), np.int64)
    assert again.find(known).tolist() == [model[one] for one in known.tolist()]


def test_a_thousand_ids_at_once_find_their_rows_while_the_table_grows():
    table, ids = IdTable(Counted()), np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 20000)
    for part in np.split(ids, 20):
        table.add(part)
    assert len(set(table.find(ids).tolist())) == len(set(ids.tolist())) == len(table)


def test_only_training_gives_ids_rows(tmp_path):
    module = virtual(tmp_path)
    ids = torch.tensor([5, MANY - 1, 5])
    module.eval()
    with torch.no_grad():
        seen = module(ids, torch.arange(4))
    assert ids_of(module) == []
    module.train()
    assert torch.equal(module(ids, torch.arange(4)), seen), "a row begins as it was looked up before it was one"
    assert ids_of(module) == [5, MANY - 1]


def test_rows_are_trained_as_those_of_a_table_with_fixed_rows(tmp_path):
    module = virtual(tmp_path / "virtual", [(100, 4)])
    fixed = SSDTableBatchedEmbeddingBags(
        [(100, 4)], None, 2, str(tmp_path / "fixed"), learning_rate=0.1,
        ssd_uniform_init_lower=0.0, ssd_uniform_init_upper=0.0,
    )  # fmt: skip
    rows = torch.from_numpy(module.tables.initial_rows(0, np.arange(100)))
    fixed.split_embedding_weights()[0][0].copy_(rows)
    for step in range(20):
        ids = torch.randint(0, 100, (30,), generator=torch.Generator().manual_seed(step)).tolist()
        train(module, ids)
        train(fixed, ids)
    seen = ids_of(module)
    assert torch.equal(module.debug_split_embedding_weights()[0], fixed.debug_split_embedding_weights()[0][seen])
    assert torch.equal(module.split_optimizer_states()[0][0], fixed.split_optimizer_states()[0][0][seen])


def test_a_checkpoint_holds_ids_rows_and_what_is_known_of_them(tmp_path):
    module = virtual(tmp_path, unique_id=4)
    for step in range(5):
        train(module, [step, step + 1, MANY - 1 - step])
    module.checkpoint()
    weights, facts = module.debug_split_embedding_weights()[0], module.split_embedding_weights()[3][0]
    seen = ids_of(module)
    train(module, [77, 78])  # is lost
    module.close()
    again = virtual(tmp_path, unique_id=4, seed=9)
    assert ids_of(again) == seen
    assert torch.equal(again.debug_split_embedding_weights()[0], weights)
    assert torch.equal(again.split_embedding_weights()[3][0], facts)
    train(again, [99])
    assert set(ids_of(again)) == {*seen, 99}


def test_ids_are_counted_by_bucket(tmp_path):
    module = virtual(tmp_path, [(1000, 4)], bucket_offsets=[(2, 5)], bucket_sizes=[100])
    train(module, [200, 201, 450, 499])
    weights, ids, buckets, _ = module.split_embedding_weights()
    assert weights[0].is_virtual and weights[0].shape == (4, 4)
    assert ids[0].view(-1).tolist() == [200, 201, 450, 499] and buckets[0].view(-1).tolist() == [2, 0, 2]


def test_a_state_is_loaded_through_tensors_in_memory(tmp_path):
    module, other = virtual(tmp_path / "a"), virtual(tmp_path / "b", seed=5)
    train(module, [3, 1, 4, 1, 5])
    train(other, [9, 2, 6])
    weights, ids, _, _ = module.split_embedding_weights()
    states = module.split_optimizer_states()
    other.set_local_weight_counts_for_table(0, 4)
    other.enable_load_state_dict_mode()
    into_weights, into_ids, _, _ = other.split_embedding_weights()
    into_weights[0].copy_(weights[0].full_tensor())
    into_ids[0].copy_(ids[0])
    other.split_optimizer_states()[0][0].copy_(states[0][0])
    other.apply_state_dict()
    assert ids_of(other) == [1, 3, 4, 5]
    for one in (module, other):
        train(one, [3, 5, 5])
    assert torch.equal(*(one.debug_split_embedding_weights()[0] for one in (module, other)))


def test_rows_are_written_and_read_by_id(tmp_path):
    module = virtual(tmp_path)
    module.streaming_write_weight_and_id_per_table(torch.ones(2, 4), [torch.full((2,), 3.0)], torch.tensor([7, 9]), 0)
    weights = module.split_embedding_weights()[0][0]
    assert torch.equal(weights.get_weights_by_ids(torch.tensor([9])), torch.ones(1, 4))
    assert module.split_optimizer_states()[0][0].tolist() == [3, 3]
    begins = torch.from_numpy(module.tables.initial_rows(0, np.array([8])))
    assert torch.equal(weights.get_weights_by_ids(torch.tensor([8])), begins)
    weights.set_weights_and_ids(torch.zeros(1, 4), torch.tensor([8]))
    assert ids_of(module) == [7, 8, 9]
    with pytest.raises(ValueError, match="row_offset is 5"):
        module.streaming_write_weight_and_id_per_table(torch.ones(1, 4), [], torch.tensor([7]), 5)


def policy(strategy, **options):
    wanted = {
        "ttls_in_mins": [10], "counter_thresholds": [3], "counter_decay_rates": [0.5], "l2_weight_thresholds": [0.5],
        "feature_score_counter_decay_rates": [0.5], "training_id_eviction_trigger_count": [3],
        "training_id_keep_count": [2], "enable_eviction_for_feature_score_eviction_policy": [True],
    }  # fmt: skip
    return EvictionPolicy(eviction_trigger_mode=3, eviction_strategy=strategy, **(wanted | options))


@pytest.mark.parametrize(
    ("strategy", "left"),
    [(0, [1, 2, 3]), (1, [1, 4]), (2, [1, 2, 3, 4]), (3, [2, 4]), (4, [1, 2, 3]), (5, [3, 4])],
    ids=["age", "count", "count and age", "length", "stamp", "score"],
)
def test_rows_leave_by_the_strategy_of_the_policy(tmp_path, strategy, left, monkeypatch):
    module = virtual(tmp_path, eviction_policy=policy(strategy))
    monkeypatch.setattr(eviction.time, "time", lambda: 1000 * 60.0)
    train(module, [1, 2, 3, 4])
    facts = module.tables.ids[0].facts
    rows = module.tables.ids[0].find(np.array([1, 2, 3, 4]))
    facts["count"][rows] = [5, 2, 1, 3]
    facts["minute"][rows] = [995, 1000, 991, 900]
    facts["score"][rows] = [0.1, 0.2, 3, 4]
    lengths = torch.tensor([0.1, 2.0, 0.3, 4.0]).view(-1, 1)
    module.split_embedding_weights()[0][0].copy_(lengths.expand(4, 4) / 2)
    count = module.evict_rows()
    assert ids_of(module) == left and count == [4 - len(left)]
    # A row that left begins anew when its id comes up again.
    gone = [one for one in (1, 2, 3, 4) if one not in left]
    if gone:
        begins = module.tables.initial_rows(0, np.array(gone[:1]))
        with torch.no_grad():
            assert torch.equal(module(torch.tensor(gone[:1]), torch.tensor([0, 1])), torch.from_numpy(begins))


@pytest.mark.parametrize(
    ("options", "due"),
    [
        ({"eviction_trigger_mode": 1, "eviction_step_intervals": 3}, [3, 6]),
        ({"eviction_trigger_mode": 2, "eviction_mem_threshold_gb": 0}, [1, 2, 3, 4, 5, 6]),
        ({"eviction_trigger_mode": 3}, []),
        ({"eviction_trigger_mode": 4, "training_id_eviction_trigger_count": [4]}, [5, 6]),
        (
            {
                "eviction_trigger_mode": 5,
                "eviction_free_mem_threshold_gb": 10**6,
                "eviction_free_mem_check_interval_batch": 2,
            },
            [2, 4, 6],
        ),
    ],
    ids=["steps", "memory", "asked", "count", "free memory"],
)
def test_rows_leave_when_the_mode_of_the_policy_says_so(tmp_path, options, due, monkeypatch):
    module = virtual(tmp_path, eviction_policy=EvictionPolicy(eviction_strategy=0, ttls_in_mins=[10], **options))
    seen = []
    monkeypatch.setattr(module, "evict_rows", lambda: seen.append(module.step))
    for step in range(6):
        train(module, [step])
    assert seen == due


def test_rows_that_leave_between_the_passes_are_trained_as_new_ones(tmp_path):
    module = virtual(tmp_path, eviction_policy=policy(1))
    output = module(torch.tensor([1, 2]), torch.arange(3))
    module.evict_rows()
    assert ids_of(module) == []
    output.sum().backward()
    assert ids_of(module) == [1, 2]


def test_new_rows_are_asked_of_their_provider(tmp_path):
    asked = []

    def provider(ids):
        asked.append(ids.tolist())
        return ids.view(-1, 1).float().expand(-1, 4)

    register_enrichment_provider("test", provider)
    module = virtual(tmp_path, enrichment_policy=EnrichmentPolicy(provider_name="test"))
    train(module, [2])
    module.enrichment_query_id(torch.tensor([2, 6, 6, 3]), torch.arange(5), torch.ones(4))
    assert asked == [[3, 6]]
    with torch.no_grad():
        assert torch.equal(module(torch.tensor([6]), torch.tensor([0, 1])), torch.full((1, 4), 6.0))
    with pytest.raises(ValueError, match="no provider 'other'"):
        virtual(tmp_path, enrichment_policy=EnrichmentPolicy(provider_name="other")).fetch_sids_sync(
            torch.tensor([1]), torch.tensor([1])
        )
