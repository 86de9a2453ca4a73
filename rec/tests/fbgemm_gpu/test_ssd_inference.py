"""Tables of bytes on disk give what those in memory give, take updates, and go over to other folders."""

from __future__ import annotations

import pytest
import torch

from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import IntNBitTableBatchedEmbeddingBagsCodegen
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import EmbeddingLocation, PoolingMode
from flambeau.rec.fbgemm_gpu.tbe.ssd import SSDIntNBitTableBatchedEmbeddingBags, TurboSSDInferenceModule

KINDS = [SparseType.FP32, SparseType.FP16, SparseType.INT8, SparseType.INT4, SparseType.INT2]


def specs(kind, dim=8):
    return [("first", 300, dim, kind), ("second", 40, dim * 2, kind)]


def in_memory(kind, **options):
    torch.manual_seed(0)
    made = IntNBitTableBatchedEmbeddingBagsCodegen(
        [(*spec, EmbeddingLocation.HOST) for spec in specs(kind)], [0, 1, 0], device="cpu", row_alignment=16, **options
    )
    made.fill_random_weights()
    if kind in (SparseType.FP32, SparseType.FP16):
        for codes, _ in made.split_embedding_weights():
            codes.view(torch.float32 if kind == SparseType.FP32 else torch.float16).uniform_(-1, 1)
    else:
        for _, scales in made.split_embedding_weights():
            scales.copy_(torch.rand(len(scales), 2).half().view(torch.uint8))
    return made


def on_disk(folder, kind, held=None, **options):
    made = SSDIntNBitTableBatchedEmbeddingBags(
        specs(kind), [0, 1, 0], ssd_storage_directory=str(folder), cache_sets=1, **options
    )
    if held is not None:
        made.assign_embedding_weights(held.split_embedding_weights())
    return made


def batch(step=0, size=6):
    torch.manual_seed(step)
    lengths = torch.randint(0, 4, (3 * size,))
    of_feature = torch.repeat_interleave(torch.arange(3 * size) // size, lengths)
    rows = torch.tensor([300, 40, 300])[of_feature]
    return (torch.rand(len(rows)) * rows).int(), torch.cat([torch.zeros(1), lengths.cumsum(0)]).int()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("mode", [PoolingMode.SUM, PoolingMode.MEAN])
@pytest.mark.parametrize("output", [SparseType.FP32, SparseType.FP16])
def test_look_ups_are_those_of_tables_in_memory(tmp_path, kind, mode, output):
    held = in_memory(kind, pooling_mode=mode, output_dtype=output)
    stored = on_disk(tmp_path, kind, held, pooling_mode=mode, output_dtype=output)
    for step in range(8):
        indices, offsets = batch(step)
        weights = torch.rand(len(indices))
        assert torch.equal(stored(indices, offsets), held(indices.clone(), offsets.clone()))
        assert torch.equal(
            stored(indices, offsets, weights), held(indices.clone(), offsets.clone(), per_sample_weights=weights)
        )
    assert stored.tables.counts.evicted
    for mine, theirs in zip(stored.split_embedding_weights(), held.split_embedding_weights(), strict=True):
        assert all(torch.equal(one, other) for one, other in zip(mine, theirs, strict=True) if one is not None)


def test_strays_and_pruned_rows_are_looked_up_as_in_memory(tmp_path, caplog):
    held = in_memory(SparseType.INT8)
    stored = on_disk(tmp_path, SparseType.INT8, held)
    indices, offsets = torch.tensor([1, 400, -1, 39, 5]), torch.tensor([0, 2, 4, 5])
    assert torch.equal(stored(indices, offsets), held(indices.clone(), offsets.clone()))
    with pytest.raises(RuntimeError, match="3 features"):
        stored(indices, torch.tensor([0, 5]))


def test_rows_are_updated_while_they_are_looked_up(tmp_path):
    stored = TurboSSDInferenceModule(on_disk(tmp_path, SparseType.FP32, output_dtype=SparseType.FP32))
    indices, offsets = torch.tensor([7, 3, 7]), torch.arange(4)
    assert not stored(indices, offsets).any()
    rows = torch.arange(16.0).repeat(2, 1)
    stored.streaming_update(torch.tensor([7, 303]), rows.view(torch.uint8))
    found = stored(indices, offsets)
    assert found[0, :8].tolist() == list(range(8)) and found[0, 8:24].tolist() == list(range(16))
    with pytest.raises(ValueError, match="340 rows"):
        stored.streaming_update(torch.tensor([340]), rows[:1].view(torch.uint8))


def test_a_module_goes_over_to_a_snapshot_and_refuses_other_tables(tmp_path):
    held = in_memory(SparseType.INT4)
    writer = on_disk(tmp_path / "writer", SparseType.INT4, held, tbe_unique_id=0)
    writer.checkpoint()
    folder = writer.folder
    writer.close()
    reader = TurboSSDInferenceModule(on_disk(tmp_path / "reader", SparseType.INT4))
    assert not reader(*batch()).any()
    reader.load_snapshot(str(folder))
    assert torch.equal(reader(*batch()), held(*batch()))
    assert not list((tmp_path / "reader").iterdir()), "the tables that it had before are gone"
    with pytest.raises(ValueError, match="no checkpoint"):
        reader.load_snapshot(str(tmp_path))
    with pytest.raises(ValueError, match="Choose another folder"):
        reader.tbe.close()
        on_disk(tmp_path / "wrong", SparseType.INT8).load_snapshot(str(folder))
