"""Tables in a key-value store give what those in memory give, take rows in use, and let old ones leave."""

from __future__ import annotations

import logging
import threading

import pytest
import torch

from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import IntNBitTableBatchedEmbeddingBagsCodegen
from flambeau.rec.fbgemm_gpu.tbe.cache._byte_rows import ByteRows
from flambeau.rec.fbgemm_gpu.tbe.cache.kv_embedding_ops_inference import KVEmbeddingInference
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import EmbeddingLocation, PoolingMode

HOST = EmbeddingLocation.HOST
SPECS = [("a", 40, 8, SparseType.INT8, HOST), ("b", 30, 12, SparseType.FP16, HOST), ("c", 20, 4, SparseType.INT4, HOST)]
FEATURES = [2, 0, 1, 0]


def in_memory(specs=SPECS, features=FEATURES, **options):
    torch.manual_seed(0)
    made = IntNBitTableBatchedEmbeddingBagsCodegen(
        specs, features, device="cpu", output_dtype=SparseType.FP32, **options
    )
    made.fill_random_weights()
    return made


def stored(specs=SPECS, features=FEATURES, **options):
    return KVEmbeddingInference(specs, features, device="cpu", output_dtype=SparseType.FP32, **options)


def batch(rows=(20, 40, 30, 40), size=5, dtype=torch.int64):
    torch.manual_seed(1)
    lengths = torch.randint(0, 4, (len(rows) * size,))
    of_feature = torch.repeat_interleave(torch.arange(len(rows)).repeat_interleave(size), lengths)
    indices = (torch.rand(len(of_feature)) * torch.tensor(rows)[of_feature]).to(dtype)
    return indices, torch.cat([torch.zeros(1), lengths.cumsum(0)]).to(dtype)


@pytest.mark.parametrize("mode", [PoolingMode.SUM, PoolingMode.MEAN])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alignment", [None, 16])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_look_ups_are_those_of_tables_in_memory(mode, weighted, alignment, dtype):
    memory = in_memory(pooling_mode=mode, row_alignment=alignment)
    store = stored(pooling_mode=mode, row_alignment=alignment, weight_lists=memory.split_embedding_weights())
    indices, offsets = batch(dtype=dtype)
    weights = torch.rand(len(indices)) if weighted else None
    expected = memory(indices.clone(), offsets.clone(), weights)
    torch.testing.assert_close(store(indices, offsets, weights), expected, rtol=0, atol=0)


def test_rows_that_are_not_pooled_and_batches_without_ids_work():
    specs = [("a", 9, 8, SparseType.INT8, HOST), ("b", 5, 8, SparseType.INT8, HOST)]
    memory = in_memory(specs, [0, 1], pooling_mode=PoolingMode.NONE)
    store = stored(specs, [0, 1], pooling_mode=PoolingMode.NONE, weight_lists=memory.split_embedding_weights())
    indices, offsets = batch((9, 5))
    assert torch.equal(store(indices, offsets), memory(indices, offsets))
    nothing = torch.zeros(0, dtype=torch.int64), torch.zeros(5, dtype=torch.int64)
    assert store(*nothing).shape == (0, 8)


def test_pruned_rows_are_no_rows():
    remapping = [torch.tensor([0, -1, 1, -1, 2], dtype=torch.int32)]
    specs = [("a", 3, 8, SparseType.INT8, HOST)]
    memory = in_memory(specs, [0], index_remapping=remapping)
    store = stored(specs, [0], index_remapping=remapping, weight_lists=memory.split_embedding_weights())
    indices, offsets = torch.tensor([0, 1, 2, 3, 4]), torch.tensor([0, 2, 4, 5])
    assert torch.equal(store(indices.clone(), offsets), memory(indices.clone(), offsets))


def test_rows_that_were_never_written_are_small_and_the_same_every_time_or_zeros_in_a_cache():
    indices, offsets = batch()
    store = stored()
    first = store(indices, offsets)
    assert torch.equal(store(indices, offsets), first)
    assert 0 < first.abs().max() <= 0.011 * 3
    assert len(store.kv_embedding_cache) == 0
    assert not stored(embedding_cache_mode=True)(indices, offsets).any()


def test_rows_are_overwritten_by_their_numbers_in_the_whole_table():
    store = stored()
    store.init_tbe_config([100, 0, 0])
    row = torch.cat([torch.tensor([2.0, 1.0]).half().view(torch.uint8), torch.arange(8, dtype=torch.uint8)])
    store.embedding_inplace_update([0, 1], [[103], [2]], [row[None], torch.ones(1, 12).half().view(torch.uint8)])
    found = store(torch.tensor([3, 2]), torch.tensor([0, 0, 1, 2, 2]))
    assert found[0].tolist() == [0.0] * 4 + [2.0 * code + 1 for code in range(8)] + [1.0] * 12 + [0.0] * 8


def test_rows_leave_by_when_they_were_made():
    store = stored(embedding_cache_mode=True)
    row = torch.full((1, 12), 60, dtype=torch.uint8)
    for number, made in ((0, 10), (1, 20), (2, 30), (0, 40)):
        store.embedding_inplace_update_per_table(0, torch.tensor([number]), row, made)
    store.embedding_trigger_evict(30)
    store.embedding_wait_evict_completion()
    there = store.split_embedding_weights()[0][0][:4].any(1).tolist()
    assert there == [True, False, True, False]
    assert len(store.kv_embedding_cache) == 2


def test_what_does_not_fit_is_refused_by_name():
    store = stored()
    store.init_tbe_config([100, 0, 0])
    row = torch.zeros(1, 12, dtype=torch.uint8)
    with pytest.raises(ValueError, match=r"update_row_indices run from 3 to 3; table 'a' has rows 100 to 139 here"):
        store.embedding_inplace_update_per_table(0, torch.tensor([3]), row)
    with pytest.raises(ValueError, match="table_id is 3, expected 0 to 2"):
        store.embedding_inplace_update_per_table(3, torch.tensor([3]), row)
    with pytest.raises(ValueError, match=r"update_weights has shape \(1, 12\), expected \(2, up to 12\)"):
        store.embedding_inplace_update_per_table(0, torch.tensor([103, 104]), row)
    with pytest.raises(ValueError, match="there are 1 tables, 2 lists of rows"):
        store.embedding_inplace_update([0], [[1], [2]], [row])
    with pytest.raises(ValueError, match="table_sharding_offset has 1 tables, expected 3"):
        store.init_tbe_config([0])
    with pytest.raises(RuntimeError, match=r"table 'a' is given \(2, 8\) bytes, expected \(40, 8\)"):
        store.assign_embedding_weights([(row[:, :8].expand(2, 8), row[:, :4].expand(2, 4))] * 3)


def test_keys_number_the_rows_of_all_tables():
    store = stored()
    assert store.construct_hash_size_cumsum() == [0, 40, 70, 90]
    offsets = torch.tensor([0, 1, 2, 2, 3])
    assert store.linearize_cache_indices(torch.tensor([3, 5, 7]), offsets).tolist() == [73, 5, 7]
    places, begins = store.calculate_indices_and_weights_offsets(torch.tensor([3, 5, 7]), offsets)
    assert (places.tolist(), begins.tolist()) == ([0, 0, 0], [0, 6, 18, 18])


def test_random_rows_fill_all_tables_and_counts_are_logged(caplog):
    store = stored()
    store.fill_random_weights()
    with caplog.at_level(logging.INFO, "flambeau.rec.tbe"):
        store.log_inplace_update_stats()
    assert "90 rows; 90 written, 90 of them new, 0 left" in caplog.text
    assert all(codes.float().std() > 0 for codes, _ in store.split_embedding_weights())


def test_a_store_holds_what_a_dictionary_does_whatever_is_written():
    drawn = torch.Generator().manual_seed(0)
    store, expected = ByteRows(3, lambda keys: torch.zeros(len(keys), 3, dtype=torch.uint8)), {}
    for step in range(60):
        keys = torch.randint(-3000, 3000, (200,), generator=drawn) << 40
        rows = torch.randint(1, 255, (200, 3), generator=drawn, dtype=torch.uint8)
        store.set(keys, rows, step)
        expected |= {key: (row, step) for key, row in zip(keys.tolist(), rows.tolist(), strict=True)}
        if step % 20 == 19:
            store.evict(step - 5)
            expected = {key: (row, made) for key, (row, made) in expected.items() if made >= step - 5}
    assert len(store) == len(expected)
    asked = torch.tensor([*expected, 1, 2])
    assert store.get(asked).tolist() == [row for row, _ in expected.values()] + [[0] * 3] * 2


def test_rows_are_whole_while_other_threads_write_them():
    store = ByteRows(64, lambda keys: torch.zeros(len(keys), 64, dtype=torch.uint8))
    keys, torn = torch.arange(500), []

    def write():
        for value in range(1, 60):
            store.set(keys + value * 7, torch.full((500, 64), value, dtype=torch.uint8))

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        rows = store.get(keys)
        torn += [row for row in rows if len(row.unique()) > 1]
    writer.join()
    assert not torn
