"""Tables for inference give what was recorded of the reference's."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.ao.quantization.observer import PlaceholderObserver

from flambeau.core.testing.fill import fill_, integers, matches, tensor
from flambeau.core.testing.golden import golden_values
from flambeau.rec.fbgemm_gpu.split_embedding_configs import FP8QuantizationConfig, SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import (
    IntNBitTableBatchedEmbeddingBagsCodegen,
    rounded_row_size_in_bytes,
)
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import EmbeddingLocation, PoolingMode
from flambeau.rec.fbgemm_gpu.tbe.utils.quantize import quantize_embs
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig, EmbeddingConfig, QuantConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from flambeau.rec.quant.embedding_modules import EmbeddingBagCollection as QuantEmbeddingBagCollection
from flambeau.rec.quant.embedding_modules import EmbeddingCollection as QuantEmbeddingCollection
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

GOLDEN = golden_values("rec_quant", __file__)
KINDS = ("fp32", "fp16", "fp8", "int8", "int4", "int2")
ROWS = (9, 6)


def table(at, dim):
    return tensor(f"table{at}", (ROWS[at], dim))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_become_the_recorded_bytes(kind):
    for at, dim in enumerate((16, 32)):
        codes, parameters = quantize_embs(table(at, dim), SparseType(kind), FP8QuantizationConfig(4, 7))
        stored = GOLDEN["quantized"][kind]
        assert matches(codes, stored["weights"][at]) is None
        expected = stored["scale_shift"][at]
        assert parameters is None if expected is None else matches(parameters, expected) is None


SIZES = GOLDEN["quantized"]["rounded_row_size_in_bytes"]


@pytest.mark.parametrize("name", [name for name in SIZES if int(name.split("_")[1]) % 4 == 0])
def test_rows_take_the_recorded_number_of_bytes(name):
    kind, dim, alignment = name.split("_")
    size = rounded_row_size_in_bytes(int(dim), SparseType(kind), int(alignment.removeprefix("align")))
    assert size == SIZES[name]


# Pooled results of eight bits are recorded as upstream leaves them: numbers written over each other.
LOOKUPS = [
    name
    for name in GOLDEN["lookups"]
    if not name.startswith("quant_") and not ("_int8_" in name and "_NONE_" not in name)
]


@pytest.mark.parametrize("name", LOOKUPS)
def test_a_lookup_gives_the_recorded_result(name):
    kind, pooling, output, weighted = name.split("_")
    dims = (16, 16) if pooling == "NONE" else (16, 32)
    weight = SparseType(kind)
    made = IntNBitTableBatchedEmbeddingBagsCodegen(
        [(f"t{at}", ROWS[at], dims[at], weight, EmbeddingLocation.HOST) for at in range(2)],
        pooling_mode=PoolingMode[pooling],
        output_dtype=SparseType(output),
        device="cpu",
        weight_lists=[quantize_embs(table(at, dims[at]), weight, FP8QuantizationConfig(4, 7)) for at in range(2)],
        **({"fp8_exponent_bits": 4, "fp8_exponent_bias": 7} if kind == "fp8" else {}),
    )
    lengths = integers("qlen", (8,), 4)
    counts = [int(lengths[4 * at : 4 * at + 4].sum()) for at in range(2)]
    indices = torch.cat([integers(f"qi{at}", (counts[at],), ROWS[at]) for at in range(2)])
    offsets = torch.tensor([0, *itertools.accumulate(lengths.tolist())])
    weights = tensor("qw", (len(indices),)) if weighted == "w" else None
    found = made(indices, offsets, weights)
    loose = 2e-3 if output in ("fp16", "bf16") else 1e-5
    assert matches(found, GOLDEN["lookups"][name], rtol=loose, atol=loose) is None


MODULES = {"qint8": torch.qint8, "quint4x2": torch.quint4x2, "quint2x4": torch.quint2x4, "float16": torch.float16}


@pytest.mark.parametrize("kind", ["ebc", "ec"])
@pytest.mark.parametrize("dtype", MODULES)
def test_a_quantized_collection_gives_the_recorded_result(kind, dtype):
    tables = [("t1", ["f1", "f3"]), ("t2", ["f2"])]
    config = EmbeddingBagConfig if kind == "ebc" else EmbeddingConfig
    configs = [config(name=name, num_embeddings=10, embedding_dim=16, feature_names=names) for name, names in tables]
    floating = (EmbeddingBagCollection if kind == "ebc" else EmbeddingCollection)(tables=configs)
    with torch.no_grad():
        fill_(floating)
    floating.qconfig = QuantConfig(
        activation=PlaceholderObserver.with_args(dtype=torch.float32),
        weight=PlaceholderObserver.with_args(dtype=MODULES[dtype]),
    )
    made = (QuantEmbeddingBagCollection if kind == "ebc" else QuantEmbeddingCollection).from_float(floating)
    lengths = integers("lens", (12,), 4)
    values = integers("values", (int(lengths.sum()),), 10)
    found = made(KeyedJaggedTensor(keys=["f1", "f2", "f3"], values=values, lengths=lengths))
    stored = GOLDEN["lookups"][f"quant_{kind}_{dtype}"]
    listed = found.values() if kind == "ebc" else {name: one.values() for name, one in found.items()}
    assert matches(listed, stored["output"]) is None
    assert set(made.state_dict()) == set(stored["state_dict"])
