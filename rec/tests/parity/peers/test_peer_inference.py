"""Tables for inference give what FBGEMM's give, whatever their elements, outputs, pooling, weights and pruning."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path

import pytest
import torch
from quant_describing import DTYPES, features, floating, quantized, results

from flambeau.core.testing.differential import Cell, Suite, cross
from flambeau.core.testing.fill import integers, tensor

pytest.importorskip("fbgemm_gpu", reason="needs fbgemm_gpu; `nox -s parity -- peers rec` has it")

pytest.importorskip("torchrec", reason="needs torchrec; `nox -s parity -- peers rec` has it")

# Packages know their modules once they were imported.
for _root in ("fbgemm_gpu", "flambeau.rec.fbgemm_gpu"):
    importlib.import_module(f"{_root}.tbe.utils.quantize")
for _root in ("torchrec", "flambeau.rec"):
    for _module in ("sparse.jagged_tensor", "modules.embedding_configs", "modules.embedding_modules",
                    "quant.embedding_modules", "inference.modules"):  # fmt: skip
        importlib.import_module(f"{_root}.{_module}")
SUITE = Suite(
    "inference",
    ours="flambeau.rec.fbgemm_gpu",
    peer="fbgemm_gpu",
    roots=("flambeau.rec", "fbgemm_gpu"),
    differences=Path(__file__).with_name("differences.toml"),
)
# Sums of few numbers, rounded to sixteen bits: the last one may differ.
ROUNDED = Suite(
    "inference-rounded",
    ours="flambeau.rec.fbgemm_gpu",
    peer="fbgemm_gpu",
    roots=("flambeau.rec", "fbgemm_gpu"),
    differences=Path(__file__).with_name("differences.toml"),
    rtol=8e-3,
    atol=2e-3,
)

WEIGHTS = ("FP32", "FP16", "FP8", "INT8", "INT4", "INT2")
REMAPPING = [
    torch.tensor([0, -1, 1, 2, 3, -1, 4, 5, 6, 7, 8, -1], dtype=torch.int32),
    torch.tensor([5, 4, -1, 3, 2, 1, -1, -1, 0, -1, -1, -1], dtype=torch.int32),
]


def tables(library, kind, *, output="FP32", pooling="SUM", dims=(16, 32), pruning=None, alignment=None, mode="WARNING"):
    """Two tables with the same content on both sides."""
    types = library.split_embedding_configs.SparseType
    common = library.split_table_batched_embeddings_ops_common
    weight = types[kind]
    rows = (9, 6)
    width = (dims[0], dims[0]) if pooling == "NONE" else dims
    config = library.split_embedding_configs.FP8QuantizationConfig(4, 7)
    contents = [
        library.tbe.utils.quantize.quantize_embs(tensor(f"table{at}", (rows[at], width[at])), weight, config)
        for at in range(2)
    ]
    options = {"fp8_exponent_bits": 4, "fp8_exponent_bias": 7} if kind == "FP8" else {}
    if pruning is not None:
        options |= {"index_remapping": REMAPPING, "use_array_for_index_remapping": pruning == "array"}
    return library.split_table_batched_embeddings_ops_inference.IntNBitTableBatchedEmbeddingBagsCodegen(
        [(f"t{at}", rows[at], width[at], weight, common.EmbeddingLocation.HOST) for at in range(2)],
        pooling_mode=common.PoolingMode[pooling],
        output_dtype=types[output],
        device="cpu",
        weight_lists=contents,
        row_alignment=alignment,
        bounds_check_mode=common.BoundsCheckMode[mode],
        **options,
    )


def bags(*, high=6, dtype=torch.int64, batch=4, weighted=False):
    lengths = integers("lengths", (2 * batch,), 4)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    total = int(offsets[-1])
    found = {"indices": integers("indices", (total,), high).to(dtype), "offsets": offsets.to(dtype)}
    return found | ({"per_sample_weights": tensor("weights", (total,))} if weighted else {"per_sample_weights": None})


def looked_up(options, batch):
    def call(library, given):
        found = tables(library, **options)(given["indices"], given["offsets"], given["per_sample_weights"])
        if options.get("output") != "INT8" or options["pooling"] == "NONE":
            return found
        # Codes of sums that were rounded differently may differ by one: what they stand for counts.
        read = torch.ops.fbgemm.Fused8BitRowwiseQuantizedToFloat
        return [read(part.contiguous()) for part in found.split([16 + 8, 32 + 8], 1)]

    return call, lambda library: bags(**batch)


for _kind in WEIGHTS:
    for _output in ("FP32", "FP16", "BF16", "INT8"):
        for _pooling in ("SUM", "MEAN", "NONE"):
            for _weighted in (False, True):
                for _pruning in (None, "array", "hash"):
                    if _pruning and _output in ("FP16", "BF16") and _weighted:
                        continue
                    _call, _given = looked_up(
                        {"kind": _kind, "output": _output, "pooling": _pooling, "pruning": _pruning},
                        {"weighted": _weighted, "high": 12 if _pruning else 6},
                    )
                    _place = f"{'weighted' if _weighted else 'plain'}/{_pruning or 'whole'}"
                    _suite = SUITE if _output == "FP32" else ROUNDED
                    _suite.add(
                        Cell(f"lookup/{_kind}/{_output}/{_pooling}/{_place}", f"lookup-{_output}", _call, _given)
                    )
for _kind in WEIGHTS:
    for _dims in ((8, 16), (24, 104), (136, 256), (40, 1032)):
        for _alignment in (None, 16):
            _call, _given = looked_up({"kind": _kind, "dims": _dims, "alignment": _alignment}, {"weighted": True})
            SUITE.add(Cell(f"widths/{_kind}/{_dims}/{_alignment}", "widths", _call, _given))
    for _dtype in (torch.int32, torch.int64):
        for _batch in (1, 7):
            _call, _given = looked_up({"kind": _kind}, {"dtype": _dtype, "batch": _batch})
            SUITE.add(Cell(f"indices/{_kind}/{_dtype}/{_batch}", "indices", _call, _given))
for _mode in ("FATAL", "WARNING", "IGNORE", "NONE"):
    for _high in (6, 12, 200):
        for _pruning in (None, "array", "hash"):
            _call, _given = looked_up({"kind": "INT8", "mode": _mode, "pruning": _pruning}, {"high": _high})
            SUITE.add(Cell(f"bounds/{_mode}/{_high}/{_pruning or 'whole'}", "bounds", _call, _given))

OBJECTS = {
    f"{kind}-{alignment}": {
        "t": lambda library, kind=kind, alignment=alignment: tables(library, kind, alignment=alignment),
        **{name: lambda library, name=name: bags()[name] for name in ("indices", "offsets")},
    }
    for kind in WEIGHTS
    for alignment in (None, 16)
}
PROGRAMS = [
    "t.split_embedding_weights()",
    "t.split_embedding_weights(False)",
    "t.split_embedding_weights_with_scale_bias(0)",
    "t.split_embedding_weights_with_scale_bias(1)",
    "t.split_embedding_weights_with_scale_bias(2)",
    "{k: v for k, v in t.state_dict().items() if 'cache' not in k}",
    "[t.total_D, t.max_int2_D, t.max_int4_D, t.max_int8_D, t.max_float8_D, t.max_float16_D, t.max_float32_D]",
    "[t.weights_physical_offsets, t.weights_physical_placements, t.host_size, t.dev_size, t.uvm_size]",
    "[t.row_alignment, t.output_dtype, t.feature_table_map, t.use_cpu, str(t.current_device), t.weight_initialized]",
    "t.assign_embedding_weights([(a.clone() // 2, None if b is None else b.clone()) for a, b in "
    "t.split_embedding_weights()]); t(indices, offsets)",
    "t.assign_embedding_weights([])",
    "t.embedding_inplace_update([1, 0], [[0, 2], [1]], [a[:n] + 1 for (a, _), n in "
    "zip(t.split_embedding_weights(False)[::-1], (2, 1))]); t.split_embedding_weights(False)",
    "t.reset_cache_states(); t.update_cache_load_factor(0.5); t.prefetch(indices, offsets); t(indices, offsets)",
    "t.get_cache_miss_counter()",
    "t.get_uvm_cache_stats()",
    "t.set_index_remappings_array([torch.tensor([0, -1, 2, 3, 4, 5, 6, 7, 8], dtype=torch.int32), "
    "torch.tensor([5, 4, 3, 2, 1, 0], dtype=torch.int32)]); t(indices, offsets)",
    "t(indices, offsets, torch.ones(len(indices)))",
    "t(indices[:0], offsets * 0)",
]
# What tables are inside is not the same.
SUITE.add(
    *(dataclasses.replace(cell, effects=False) for cell in cross("objects", OBJECTS, PROGRAMS, names={"torch": torch}))
)
LAYOUTS = [
    f"split_table_batched_embeddings_ops_inference.{name}({dim}, split_embedding_configs.SparseType.{kind}{more})"
    for kind in WEIGHTS
    for dim in (5, 16)
    for name, more in (("rounded_row_size_in_bytes", ", 16"), ("unpadded_row_size_in_bytes", ""))
] + [
    "[split_table_batched_embeddings_ops_inference.align_to_cacheline(n) for n in (0, 1, 128, 129)]",
    *(
        "S, L = split_embedding_configs.SparseType, split_table_batched_embeddings_ops_common.EmbeddingLocation; "
        "state = split_table_batched_embeddings_ops_inference.nbit_construct_split_state([('a', 9, 16, S.INT8, "
        "L.HOST), "
        "('b', 5, 20, S.INT4, L.DEVICE), ('c', 7, 8, S.FP16, L.MANAGED), ('d', 3, 8, S.FP32, L.MANAGED_CACHING)], "
        f"{arguments}); [state.dev_size, state.host_size, state.uvm_size, state.placements, state.offsets]"
        for arguments in ("False, 16", "True, 16", "True, 1, 4, False", "False, 32, 8, False")
    ),
]
SUITE.add(*cross("layout", {"of": {}}, LAYOUTS))


MODULES = Suite(
    "quantized-modules",
    ours="flambeau.rec",
    peer="torchrec",
    roots=("flambeau.rec", "torchrec"),
    differences=Path(__file__).with_name("differences.toml"),
    rtol=1e-4,
    atol=1e-5,
)


def _prepare(name, *arguments):
    return lambda target, module: getattr(target, name)(module, [type(module)], *arguments)


PREPARATIONS = {
    "as-they-are": None,
    "split": _prepare("quant_prep_enable_quant_state_dict_split_scale_bias_for_types"),
    "registered": _prepare("quant_prep_enable_register_tbes"),
    "aligned": _prepare("quant_prep_customize_row_alignment", 1),
    "ordered": _prepare("quant_prep_enable_cache_features_order"),
    "pruned": lambda target, module: setattr(
        module, target.MODULE_ATTR_EMB_CONFIG_NAME_TO_NUM_ROWS_POST_PRUNING_DICT, {"t1": 10, "t2": 10}
    ),
}
FORMS = ("plain", "other-order", "more", "empty", "int32")


def _state(module):
    """Of the tables as bytes: what each library keeps inside of them is its own business, and upstream hides bytes of
    several codes in a tensor class.
    """
    return {name: getattr(value, "elem", value) for name, value in module.state_dict().items() if "tbes." not in name}


def _described(module):
    return {
        "output": str(module.output_dtype()), "device": str(module.device),
        "tables": [
            [one.name, one.embedding_dim, one.num_embeddings, one.feature_names, str(one.data_type),
             one.num_embeddings_post_pruning]
            for one in (module.embedding_bag_configs() if hasattr(module, "embedding_bag_configs")
                        else module.embedding_configs())
        ],
    }  # fmt: skip


for _kind in ("bags", "rows"):
    for _dtype in DTYPES:
        for _form in FORMS:
            MODULES.add(
                Cell(
                    f"forward/{_kind}/{_dtype}/{_form}",
                    "forward",
                    lambda library, given, kind=_kind, dtype=_dtype: results(
                        quantized(library, kind, dtype)(given["features"])
                    ),
                    lambda library, form=_form: {"features": features(library, form=form)},
                    effects=False,
                )
            )
        for _name, _preparation in PREPARATIONS.items():

            def _told(library, given, kind=_kind, dtype=_dtype, prepare=_preparation):
                module = quantized(library, kind, dtype, prepare=prepare)
                return [_state(module), _described(module), results(module(features(library)))]

            MODULES.add(Cell(f"prepared/{_kind}/{_dtype}/{_name}", "prepared", _told))

            def _copied(library, given, kind=_kind, dtype=_dtype, prepare=_preparation):
                module, other = (quantized(library, kind, dtype, prepare=prepare) for _ in range(2))
                with torch.no_grad():
                    for value in _state(module).values():
                        value.zero_()
                module.load_state_dict(other.state_dict())
                return results(module(features(library)))

            MODULES.add(Cell(f"loaded/{_kind}/{_dtype}/{_name}", "loaded", _copied))
    for _output in (torch.float16, torch.bfloat16, torch.uint8):
        MODULES.add(
            Cell(
                f"output/{_kind}/{_output}",
                "output",
                lambda library, given, kind=_kind, output=_output: results(
                    quantized(library, kind, "int8", output)(features(library))
                ),
            )
        )
for _dtype in DTYPES:
    MODULES.add(
        Cell(
            f"weighted/bags/{_dtype}",
            "weighted",
            lambda library, given, dtype=_dtype: results(
                quantized(library, "bags", dtype, weighted=True)(features(library, weighted=True))
            ),
        ),
        Cell(
            f"weighted/bags-without/{_dtype}",
            "weighted",
            lambda library, given, dtype=_dtype: quantized(library, "bags", dtype, weighted=True)(features(library)),
        ),
        Cell(
            f"indices/rows/{_dtype}",
            "indices",
            lambda library, given, dtype=_dtype: results(
                quantized(library, "rows", dtype, need_indices=True)(features(library))
            ),
        ),
    )


class _Model(torch.nn.Module):
    def __init__(self, library):
        super().__init__()
        self.bags, self.rows = floating(library, "bags"), floating(library, "rows")


def _asked(text):
    def call(library, given):
        inference = library.inference.modules
        model = eval(text, {"i": inference, "m": _Model(library), "torch": torch})
        return [_state(model), results(model.bags(features(library))), results(model.rows(features(library)))]

    return call


for _text in (
    "i.quantize_embeddings(m, torch.qint8, inplace=False)",
    "i.quantize_embeddings(m, torch.qint8, inplace=True)",
    "i.quantize_embeddings(m, torch.float16, inplace=True, output_dtype=torch.float16)",
    "i.quantize_embeddings(m, torch.qint8, inplace=True, per_table_weight_dtype={'t1': torch.float16})",
    "i.quantize_embeddings(m, torch.qint8, inplace=True, additional_qconfig_spec_keys=[type(m.rows)], "
    "additional_mapping={type(m.rows): i.QuantEmbeddingCollection})",
    "i.quantize_embeddings(i.set_pruning_data(m, {'t1': 10, 't2': 10}), torch.qint8, inplace=True)",
    "i.quantize_inference_model(m)",
    "i.quantize_inference_model(m, quantization_dtype=torch.float16, output_dtype=torch.float16)",
    "i.quantize_inference_model(m, per_table_weight_dtype={'t1': torch.float16})",
):
    MODULES.add(Cell(f"models/{_text}", "models", _asked(_text)))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


@pytest.mark.parametrize("cell", ROUNDED.cells, ids=str)
def test_both_libraries_do_the_same_up_to_the_last_bit(cell):
    ROUNDED.check(cell)


@pytest.mark.parametrize("cell", MODULES.cells, ids=str)
def test_quantized_modules_do_the_same(cell):
    MODULES.check(cell)


def test_every_intended_difference_is_one():
    for suite in (SUITE, ROUNDED, MODULES):
        suite.check_differences()
