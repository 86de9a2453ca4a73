"""Tables for inference: laid out in bytes, looked up, changed in place, and made of trained ones."""

from __future__ import annotations

import copy

import pytest
import torch

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.split_embedding_inference_converter import SplitEmbInferenceConverter
from flambeau.rec.fbgemm_gpu.split_embedding_utils import quantize_embs
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import (
    IntNBitTableBatchedEmbeddingBagsCodegen,
)
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_training import SplitTableBatchedEmbeddingBagsCodegen
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import (
    BoundsCheckMode,
    ComputeDevice,
    EmbeddingLocation,
    PoolingMode,
)

HOST = EmbeddingLocation.HOST
KINDS = [SparseType.FP32, SparseType.FP16, SparseType.BF16, SparseType.FP8, *map(SparseType, ("int8", "int4", "int2"))]


def made(kind=SparseType.FP32, **options):
    if kind is SparseType.FP8:
        options |= {"fp8_exponent_bits": 4, "fp8_exponent_bias": 7}
    found = IntNBitTableBatchedEmbeddingBagsCodegen(
        [("a", 9, 16, kind, HOST), ("b", 6, 16, kind, HOST)], device="cpu", output_dtype=SparseType.FP32, **options
    )
    torch.manual_seed(0)
    found.fill_random_weights()
    return found


INDICES, OFFSETS = torch.tensor([0, 8, 3, 5, 0]), torch.tensor([0, 2, 3, 4, 5])


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_may_be_read_by_several_features_in_any_order(kind):
    plain = made(kind)
    crossed = made(kind, feature_table_map=[1, 0, 1])
    indices, offsets = torch.tensor([5, 8, 2]), torch.tensor([0, 1, 2, 3])
    found = crossed(indices, offsets).view(3, 16)
    expected = plain(torch.tensor([8, 5]), torch.tensor([0, 1, 2])).view(2, 16)
    torch.testing.assert_close(found[0], expected[1])
    torch.testing.assert_close(found[1], expected[0])


@pytest.mark.parametrize("kind", KINDS)
def test_without_pooling_each_index_gives_its_row(kind):
    rows = made(kind, pooling_mode=PoolingMode.NONE)(INDICES, OFFSETS)
    bags = made(kind)(INDICES, torch.tensor([0, 2, 3, 4, 5]))
    torch.testing.assert_close(rows[0] + rows[1], bags[0, :16])
    assert rows.shape == (5, 16)


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_has_tables_of_its_own(kind):
    one = made(kind)
    other = copy.deepcopy(one)
    expected = one(INDICES, OFFSETS)
    for codes, _ in one.split_embedding_weights():
        codes.zero_()
    torch.testing.assert_close(other(INDICES, OFFSETS), expected)


def test_rows_are_overwritten_by_their_bytes():
    tables = made()
    row = torch.arange(16.0).view(1, 16).view(torch.uint8)
    tables.embedding_inplace_update([0], [[8]], [row])
    torch.testing.assert_close(tables(torch.tensor([8, 0]), torch.tensor([0, 1, 2]))[0, :16], torch.arange(16.0))
    tables.embedding_inplace_update_internal([1, 0], [5, 8], torch.cat([row * 0, row * 0]).view(-1))
    assert not tables(torch.tensor([8, 5]), torch.tensor([0, 1, 2])).any()


@pytest.mark.parametrize("array", [True, False])
def test_pruned_rows_are_nothing(array):
    remapping = [torch.tensor([0, -1, 1, 2, 3, 4, 5, 6, 7, 8]).int(), torch.tensor([5, 4, 3, 2, 1, 0]).int()]
    pruned = made(index_remapping=remapping, use_array_for_index_remapping=array)
    plain = made()
    found = pruned(torch.tensor([0, 1, 2, 0, 1]), torch.tensor([0, 2, 3, 4, 5]))
    expected = plain(torch.tensor([0, 1, 5, 4]), torch.tensor([0, 1, 2, 3, 4]))
    torch.testing.assert_close(found, expected)


def test_tables_are_taken_elsewhere_with_their_content():
    tables = made(SparseType.INT4)
    expected = tables(INDICES, OFFSETS)
    tables.move_to_device_with_cache(torch.device("cpu"), 0.5)
    torch.testing.assert_close(tables(INDICES, OFFSETS), expected)
    assert tables.cache_load_factor == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"embedding_specs": [("a", 9, 3, SparseType.INT4, HOST)]}, "3 columns of int4, expected a multiple of 2"),
        ({"embedding_specs": [("a", 9, 4, SparseType.FP8, HOST)]}, "fp8_exponent_bits and fp8_exponent_bias"),
        ({"embedding_specs": [("a", 9, 4, SparseType.FP32, EmbeddingLocation.DEVICE)]}, "at DEVICE, expected HOST"),
        ({"feature_table_map": [2]}, r"feature_table_map is \[2\], expected tables from 0 to 0"),
        ({"index_remapping": []}, "index_remapping has 0 tables, expected 1"),
        ({"weight_lists": []}, "q_weight_list has 0 tables, expected 1"),
        ({"weight_lists": [(torch.zeros(9, 16).byte(), torch.zeros(9, 4).byte())]}, "expected none of them"),
    ],
)  # fmt: skip
def test_tables_that_do_not_fit_are_refused(options, message):
    given = {"embedding_specs": [("a", 9, 4, SparseType.FP32, HOST)], "device": "cpu", **options}
    with pytest.raises(OptionError, match=message):
        IntNBitTableBatchedEmbeddingBagsCodegen(**given)


def test_tables_without_memory_say_what_to_do():
    tables = IntNBitTableBatchedEmbeddingBagsCodegen([("a", 9, 4, SparseType.FP32, HOST)], device="cpu")
    with pytest.raises(OptionError, match="call `initialize_weights`"):
        tables(INDICES, OFFSETS)


def test_stray_indices_are_told_where_nothing_repairs_them():
    tables = made(bounds_check_mode=BoundsCheckMode.NONE)
    with pytest.raises(RuntimeError, match="indices has 900 at 1, for feature 0"):
        tables(torch.tensor([0, 900, 0]), torch.tensor([0, 2, 3]))


@pytest.mark.parametrize("kind", [SparseType.FP16, SparseType.INT8, SparseType.INT4, SparseType.FP8])
def test_trained_tables_become_tables_for_inference(kind):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        SplitTableBatchedEmbeddingBagsCodegen([(9, 16, HOST, ComputeDevice.CPU), (6, 16, HOST, ComputeDevice.CPU)])
    )
    model[0].init_embedding_weights_uniform(-1, 1)
    expected = model[0](INDICES, OFFSETS).detach()
    converted = SplitEmbInferenceConverter(kind, None).convert_model(model)
    found = converted[0](INDICES, OFFSETS).float()
    step = {SparseType.FP16: 2e-3, SparseType.INT8: 0.02, SparseType.INT4: 0.2, SparseType.FP8: 0.15}[kind]
    assert (found - expected).abs().max() < step


def test_pruning_leaves_out_the_rows_of_the_smallest_norm():
    model = torch.nn.Sequential(SplitTableBatchedEmbeddingBagsCodegen([(4, 4, HOST, ComputeDevice.CPU)]))
    with torch.no_grad():
        model[0].split_embedding_weights()[0].copy_(torch.tensor([[4.0], [1.0], [3.0], [2.0]]).expand(4, 4))
    converted = SplitEmbInferenceConverter(SparseType.FP32, 0.5).convert_model(model)[0]
    found = converted(torch.arange(4), torch.arange(5)).float()
    assert found[:, 0].tolist() == [4.0, 0.0, 3.0, 0.0]
    assert converted.embedding_specs[0][1] == 2


def test_one_row_is_quantized_like_many():
    for kind in (SparseType.INT8, SparseType.INT4):
        codes, parameters = quantize_embs(torch.arange(7.0).view(1, 7)[:, :6], kind)
        many, more = quantize_embs(torch.arange(6.0).repeat(3, 1), kind)
        torch.testing.assert_close(codes[0], many[0])
        torch.testing.assert_close(parameters[0], more[0])
