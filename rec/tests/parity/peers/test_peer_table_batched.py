"""Tables that are looked up and trained together do, step after step, what FBGEMM's do on the CPU."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path

import pytest
import torch

from flambeau.core.testing.differential import Cell, Suite, cross
from flambeau.core.testing.fill import integers, tensor

pytest.importorskip("fbgemm_gpu", reason="needs fbgemm_gpu; `nox -s parity -- peers rec` has it")

# Packages know their modules once they were imported.
for _root in ("fbgemm_gpu", "flambeau.rec.fbgemm_gpu"):
    for _module in (
        "split_table_batched_embeddings_ops_training", "split_table_batched_embeddings_ops_training_common",
        "split_table_batched_embeddings_ops_common", "split_embedding_configs", "tbe.config.optimizer_config",
        "tbe.cache.cache_config", "tbe.utils.common", "tbe.utils.offsets", "tbe.utils.requests",
    ):  # fmt: skip
        importlib.import_module(f"{_root}.{_module}")

_OPTIONS = {
    "ours": "flambeau.rec.fbgemm_gpu",
    "peer": "fbgemm_gpu",
    "roots": ("flambeau.rec", "fbgemm_gpu"),
    "differences": Path(__file__).with_name("differences.toml"),
}
SUITE = Suite("table-batched", **_OPTIONS)
# Sums of few numbers, rounded to sixteen bits: the last one may differ.
ROUNDED = Suite("table-batched-rounded", **_OPTIONS, rtol=4e-3, atol=2e-3)

ROWS = (7, 5, 6)
WIDTHS = {"OWN": (4, 8, 12), "EQUAL": (8, 8, 8), "WIDE": (16, 132, 64)}


def table_options(library, options):
    """Options by name, with enums by the names of their members."""
    common = library.split_table_batched_embeddings_ops_common
    configs = library.split_embedding_configs
    optimizers = library.tbe.config.optimizer_config
    kinds = {
        "optimizer": configs.EmbOptimType, "weights_precision": configs.SparseType,
        "output_dtype": configs.SparseType, "pooling_mode": common.PoolingMode,
        "bounds_check_mode": common.BoundsCheckMode, "weight_decay_mode": optimizers.WeightDecayMode,
    }  # fmt: skip
    made = {name: kinds[name][value] if name in kinds else value for name, value in options.items()}
    for name, kind in (("counter_based_regularization", "CounterBasedRegularizationDefinition"),
                       ("cowclip_regularization", "CowClipDefinition"),
                       ("global_weight_decay", "GlobalWeightDecayDefinition"),
                       ("emainplace_mode", "EmainplaceModeDefinition")):  # fmt: skip
        if name in made:
            fields = {
                key: getattr(optimizers, value[0])[value[1]] if isinstance(value, tuple) else value
                for key, value in made[name].items()
            }
            if "tail_id_threshold" in fields:
                fields["tail_id_threshold"] = optimizers.TailIdThreshold(*fields["tail_id_threshold"])
            made[name] = getattr(optimizers, kind)(**fields)
    if "optimizer_state_dtypes" in made:
        made["optimizer_state_dtypes"] = {
            name: configs.SparseType[value] for name, value in made["optimizer_state_dtypes"].items()
        }
    return made


def tables(library, *, dims="OWN", features=None, rows=ROWS, **options):
    """Three tables with the same content on both sides."""
    training = library.split_table_batched_embeddings_ops_training
    place = training.EmbeddingLocation.HOST, training.ComputeDevice.CPU
    made = training.SplitTableBatchedEmbeddingBagsCodegen(
        [(row, dim, *place) for row, dim in zip(rows, WIDTHS[dims], strict=True)],
        features,
        **table_options(library, {"stochastic_rounding": False, "learning_rate": 0.1} | options),
    )
    for at, table in enumerate(made.split_embedding_weights()):
        table.copy_(tensor(f"table{at}", tuple(table.shape)))
    return made


def bags(step, *, features=3, batch=4, high=5, dtype=torch.int64, weighted=False, sizes=None):
    """What is looked up in one step; every step has other indices, in bags of 0 to 3."""
    count = features * batch if sizes is None else sum(map(sum, sizes))
    lengths = integers(f"lengths{step}", (count,), 4)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    total = int(offsets[-1])
    return {
        "indices": integers(f"indices{step}", (total,), high).to(dtype),
        "offsets": offsets.to(dtype),
        "per_sample_weights": tensor(f"weights{step}", (total,)) if weighted else None,
        "batch_size_per_feature_per_rank": sizes,
    }


def trained(options, batch, *, steps=4, wanted=None, afterwards=None):
    """Some steps: what is looked up, what becomes of tables and of what the optimizer keeps."""

    def call(library, given):
        made = tables(library, **options)
        outputs, factors = [], []
        for step in range(steps):
            given = bags(step, **batch)
            factor = given["per_sample_weights"]
            if factor is not None:
                factor.requires_grad_()
            output = made(given.pop("indices"), given.pop("offsets"), feature_requires_grad=wanted, **given)
            output.backward(tensor(f"above{step}", tuple(output.shape)).to(output.dtype))
            outputs.append(output.detach())
            factors.append(None if factor is None else factor.grad)
        found = [outputs, factors, made.split_embedding_weights(), made.split_optimizer_states(),
                 [dict(state) for state in made.get_optimizer_state()]]  # fmt: skip
        return found if afterwards is None else [*found, afterwards(library, made)]

    return call


def add(place, area, options, batch, *, suite=None, **more):
    rounded = "FP16" in (options.get("weights_precision"), options.get("output_dtype"))
    suite = suite or (ROUNDED if rounded else SUITE)
    suite.add(Cell(place, area, trained(options, batch, **more)))


OPTIMIZERS = {
    "sgd": {"optimizer": "EXACT_SGD"},
    "adagrad": {"optimizer": "EXACT_ADAGRAD"},
    "rowwise": {"optimizer": "EXACT_ROWWISE_ADAGRAD"},
    "counter": {
        "optimizer": "EXACT_ROWWISE_ADAGRAD", "weight_decay_mode": "COUNTER", "weight_decay": 0.1,
        "counter_based_regularization": {"counter_weight_decay_mode": ("CounterWeightDecayMode", "DECOUPLE"),
                                         "counter_halflife": 3},
    },
}  # fmt: skip
VBE = [[1, 2], [3, 0], [2, 2]]
for _name, _optimizer in OPTIMIZERS.items():
    for _pooling in ("SUM", "MEAN", "NONE"):
        for _weighted in (False, True):
            for _weights, _output in (("FP32", "FP32"), ("FP16", "FP32"), ("FP16", "FP16"), ("FP32", "FP16")):
                _options = {**_optimizer, "pooling_mode": _pooling, "weights_precision": _weights,
                            "output_dtype": _output, "dims": "EQUAL" if _pooling == "NONE" else "OWN"}  # fmt: skip
                add(
                    f"train/{_name}/{_pooling}/{'weighted' if _weighted else 'plain'}/{_weights}-{_output}",
                    f"train-{_name}", _options, {"weighted": _weighted},
                )  # fmt: skip
        if _pooling != "NONE":
            for _dims in ("WIDE", "EQUAL"):
                add(f"widths/{_name}/{_pooling}/{_dims}", "widths", {**_optimizer, "pooling_mode": _pooling,
                    "dims": _dims}, {"weighted": True})  # fmt: skip
            for _weighted in (False, True):
                add(f"vbe/{_name}/{_pooling}/{_weighted}", "variable-batches",
                    {**_optimizer, "pooling_mode": _pooling}, {"sizes": VBE, "weighted": _weighted})  # fmt: skip
    for _dtype in (torch.int32, torch.int64):
        for _batch in (1, 9):
            add(f"indices/{_name}/{_dtype}/{_batch}", "indices", _optimizer, {"dtype": _dtype, "batch": _batch})
    for _features in ([0, 0, 1, 2], [0, 1, 1, 2, 2], [0, 0, 0, 1, 2]):
        add(f"features/{_name}/{_features}", "features", {**_optimizer, "features": _features},
            {"features": len(_features)})  # fmt: skip
    for _wanted in ([1, 0, 1], [0, 0, 0], [1, 1, 1]):
        add(f"wanted/{_name}/{_wanted}", "wanted", _optimizer, {}, wanted=torch.tensor(_wanted))
    add(f"clipped/{_name}", "clipped", {**_optimizer, "gradient_clipping": True, "max_gradient": 0.3}, {})
    add(f"empty/{_name}", "indices", _optimizer, {"batch": 0})

# The optimizers' own options.
for _mode in ("NONE", "L2", "DECOUPLE"):
    for _eps in (1e-8, 1e-2):
        add(f"options/decay/{_mode}/{_eps}", "options", {"optimizer": "EXACT_ROWWISE_ADAGRAD",
            "weight_decay_mode": _mode, "weight_decay": 0.1, "eps": _eps}, {})  # fmt: skip
for _optimizer in ("EXACT_SGD", "EXACT_ADAGRAD", "EXACT_ROWWISE_ADAGRAD"):
    add(f"options/rate/{_optimizer}", "options", {"optimizer": _optimizer, "learning_rate": 2.0, "eps": 0.5}, {})
    add(f"options/ignored/{_optimizer}", "options", {"optimizer": _optimizer, "momentum": 0.1, "beta1": 0.2,
        "beta2": 0.3, "eta": 5.0, "table_names": ["a", "b", "c"], "use_experimental_tbe": True,
        "prefetch_pipeline": False, "cache_load_factor": 0.5, "cache_sets": 3, "enforce_hbm": True}, {})  # fmt: skip
for _decay in ("NONE", "L2", "DECOUPLE", "ADAGRADW"):
    for _halflife in (-2, -1, 0, 3):
        for _rate in ("EQUAL", "TAIL_ID_LR_INCREASE", "TAIL_ID_LR_DECREASE", "COUNTER_SGD"):
            for _iteration in (-1, 2):
                _definition = {
                    "counter_weight_decay_mode": ("CounterWeightDecayMode", _decay), "counter_halflife": _halflife,
                    "learning_rate_mode": ("LearningRateMode", _rate), "adjustment_iter": _iteration,
                    "adjustment_ub": 0.5, "tail_id_threshold": (1, False),
                }  # fmt: skip
                add(f"counter/{_decay}/{_halflife}/{_rate}/{_iteration}", "counter",
                    {"optimizer": "EXACT_ROWWISE_ADAGRAD", "weight_decay_mode": "COUNTER", "weight_decay": 0.1,
                     "counter_based_regularization": _definition}, {}, steps=3)  # fmt: skip
    for _halflife in (-1, 3):
        add(f"cowclip/{_decay}/{_halflife}", "counter", {"optimizer": "EXACT_ROWWISE_ADAGRAD",
            "weight_decay_mode": "COWCLIP", "weight_decay": 0.1, "cowclip_regularization": {
                "counter_weight_decay_mode": ("CounterWeightDecayMode", _decay), "counter_halflife": _halflife,
                "weight_norm_coefficient": 0.3, "lower_bound": 0.1}}, {})  # fmt: skip
for _ema, _start, _coefficient in ((1, 0, 0.5), (2, 0, 0.6), (2, 1, 0.9), (10, 0, 0.6)):
    add(f"ema/{_ema}/{_start}", "ensembles", {"optimizer": "EMAINPLACE_ROWWISE_ADAGRAD", "dims": "EQUAL",
        "emainplace_mode": {"step_ema": _ema, "step_start": _start, "step_ema_coef": _coefficient}}, {},
        steps=5)  # fmt: skip

# Indices and offsets that do not fit.
STRAY = {
    "high": {"indices": [0, 9, 2, 1, 5, 3], "offsets": [0, 2, 3, 4, 4, 5, 6]},
    "negative": {"indices": [0, -3, 2, 1, -1, 3], "offsets": [0, 2, 3, 4, 4, 5, 6]},
    "minus-one": {"indices": [0, -1, 2, 1, -1, 3], "offsets": [0, 2, 3, 4, 4, 5, 6]},
    "falling": {"indices": [0, 1, 2, 1, 2, 3], "offsets": [0, 2, 1, 4, 4, 5, 6]},
    "beyond": {"indices": [0, 1, 2, 1, 2, 3], "offsets": [0, 2, 3, 4, 4, 5, 9]},
    "short": {"indices": [0, 1, 2, 1, 2, 3], "offsets": [0, 2, 3, 4, 4, 5, 5]},
    "late": {"indices": [0, 1, 2, 1, 2, 3], "offsets": [1, 2, 3, 4, 4, 5, 6]},
    "good": {"indices": [0, 1, 2, 1, 2, 3], "offsets": [0, 2, 3, 4, 4, 5, 6]},
}


def bounded(mode, kind):
    def call(library, indices, offsets):
        made = tables(library, bounds_check_mode=mode)
        output = made(indices, offsets)
        output.sum().backward()
        return output.detach(), made.split_embedding_weights()

    return call, lambda library: {name: torch.tensor(one) for name, one in STRAY[kind].items()}


for _mode in ("FATAL", "WARNING", "IGNORE", "V2_IGNORE", "V2_WARNING", "V2_FATAL"):
    for _kind in STRAY:
        _call, _given = bounded(_mode, _kind)
        SUITE.add(
            Cell(f"bounds/{_mode}/{_kind}", "bounds", lambda library, given, _call=_call: _call(library, **given),
                 _given, effects=False)
        )  # fmt: skip

# What else an object can do.
OBJECTS = {
    f"{name}-{pooling}": {
        "t": lambda library, options=options, pooling=pooling: tables(
            library, dims="EQUAL" if pooling == "NONE" else "OWN", pooling_mode=pooling, **options
        ),
        "indices": lambda library: bags(0)["indices"],
        "offsets": lambda library: bags(0)["offsets"],
        "buffers": lambda library: library.split_table_batched_embeddings_ops_training,
    }
    for name, options in (*OPTIMIZERS.items(), ("shared", {"optimizer": "EXACT_ADAGRAD", "features": [0, 1, 1, 2]}))
    for pooling in ("SUM", "NONE")
}
for _inputs in (OBJECTS["shared-SUM"], OBJECTS["shared-NONE"]):
    for _name in ("indices", "offsets"):
        _inputs[_name] = lambda library, name=_name: bags(0, features=4)[name]
STEP = "t(indices, offsets).sum().backward()"
PROGRAMS = [
    f"t.set_learning_rate(0.5); {STEP}; [t.get_learning_rate(), t.split_embedding_weights()]",
    f"t.set_optimizer_step(7); {STEP}; [t.split_embedding_weights(), t.split_optimizer_states(), "
    "t.get_optimizer_buffer('iter')]",
    f"{STEP}; {STEP}; t.get_optimizer_buffer('iter')",
    "t.get_optimizer_buffer('momentum1')",
    "t.get_optimizer_buffer('sum')",
    f"t.update_hyper_parameters({{'lr': 0.5, 'eps': 0.1, 'weight_decay': 0.2}}); {STEP}; "
    "[t.get_learning_rate(), t.split_embedding_weights()]",
    f"t.update_hyper_parameters({{'beta1': 0.5, 'beta2': 0.1, 'lower_bound': 0.2}}); {STEP}; "
    "t.split_embedding_weights()",
    "t.update_hyper_parameters({'speed': 0.5})",
    "t.init_embedding_weights_uniform(0.5, 0.5); t.split_embedding_weights()",
    "t.init_embedding_weights_uniform(-1, 1); [(w.min() >= -1, w.max() <= 1, w.unique().numel() > 5) for w in "
    "t.split_embedding_weights()]",
    "t.init_embedding_weights_uniform(1, -1)",
    "t.split_embedding_weights()[1].fill_(2.0); t(indices, offsets).detach()",
    "[[s.fill_(3.0) for s in one] for one in t.split_optimizer_states()]; " + STEP + "; t.split_embedding_weights()",
    f"{STEP}; t.flush(); t.reset_cache_states(); t.split_embedding_weights()",
    "t.get_states('weights')",
    "t.get_states('momentum1')",
    "t.get_states('momentum7')",
    "t.get_all_states()",
    f"{STEP}; [t.get_cache_miss_counter(), t.get_table_wise_cache_miss()]",
    "t.get_uvm_cache_stats()",
    "t.print_uvm_cache_stats()",
    "t.reset_uvm_cache_stats()",
    "t.should_log()",
    "t.log('word')",
    "t.raw_embedding_stream()",
    "t.prepare_inputs(indices, offsets)",
    "t.prepare_inputs(indices.int(), offsets, torch.ones(len(indices), dtype=torch.float64))",
    "t.prepare_inputs(indices, offsets.int(), force_cast_input_types=False)",
    "t.prepare_inputs(indices.int(), offsets, force_cast_input_types=False)",
    "t.prepare_inputs(indices, offsets, None, [[2, 2], [3, 1], [4, 0]])",
    "t.reset_embedding_weight_momentum(torch.tensor([1, 2, 0]), torch.tensor([0, 2, 3]), torch.tensor([0, 1]), "
    "torch.tensor([0, 1])); [t.split_embedding_weights(), t.split_optimizer_states()]",
    "t.ema_inplace({'step_ema': 1.0, 'step_start': 0.0, 'step_ema_coef': 0.5})",
    "t.writeback_hook(t, (torch.ones(4, 24),))",
    "{name: value for name, value in t.state_dict().items() if name.endswith('_host')}",
    f"{STEP}; kept = t.state_dict(); kept = {{name: value.clone() for name, value in kept.items()}}; {STEP}; "
    "t.load_state_dict(kept); [t.split_embedding_weights(), t.split_optimizer_states()]",
    "sorted(t.state_dict())",
    "{name: value for name, value in sorted(t.state_dict().items()) if 'placeholder' not in name}",
    "{name: (value.shape, value.dtype) for name, value in t.named_parameters() if 'placeholder' not in name}",
    "t.eval(); t(indices, offsets).detach()",
    "with torch.no_grad():\n    first = t(indices, offsets)\n[first, t.get_optimizer_buffer('iter')]",
    "t(indices[:0], offsets * 0).detach()",
    "t(indices, offsets.int()).detach()",
    "t(indices.int(), offsets).detach()",
    "t(indices, offsets, torch.ones(3))",
    "t(indices, offsets[:-1])",
    "t(indices.float(), offsets)",
    "t(indices, offsets, None, None, [[2, 2], [4, 0]])",
    "t(indices, offsets, None, None, [[2, 2], [3, 1], [4]])",
    "[t.total_D, t.max_D, t.dims, t.mixed_D, t.feature_table_map, t.embedding_specs, t.total_hash_size]",
    "[t.pooling_mode, t.is_nobag, t.bounds_check_mode_int, t.bounds_check_version, t.optimizer, t.output_dtype, "
    "t.weights_precision, t.weight_decay_mode]",
    "[t.D_offsets, t.hash_size_cumsum, t.rows_per_table, t.feature_dims, t.weights_offsets, t.weights_placements, "
    "t.weights_physical_offsets, t.weights_physical_placements, t.total_hash_size_bits]",
    "[t.use_cpu, str(t.current_device), t.use_mtia, t.step, t.timestep, t.prefetch_pipeline, t.lock_cache_line, "
    "t.cache_algorithm, t.gather_uvm_cache_stats, t.stochastic_rounding, t.gwd_start_iter, t.gwd_lower_bound]",
    "[t.embedding_table_index_type, t.embedding_table_offset_type, t.int8_emb_row_dim_offset, t.uvm_host_mapped, "
    "t.is_experimental, t.record_cache_metrics, t.enable_raw_embedding_streaming, t.is_qr_tbe, t.table_names]",
    "[t.lxu_cache_weights, t.lxu_cache_locations_list, t.prefetched_info_list, t.timesteps_prefetched]",
    "t.optimizer_args",
    "t.learning_rate_tensor",
    "[t.iter, t.iter_cpu]",
    "t.get_prefetch_passes(None, indices, torch.zeros_like(indices))",
]
SUITE.add(
    *(
        dataclasses.replace(cell, effects=False, printed=False)
        for cell in cross("objects", OBJECTS, PROGRAMS, names={"torch": torch})
    )
)

# What construction refuses.
CONSTRUCTIONS = {
    "unpooled-widths": {"pooling_mode": "NONE"},
    "counter-without-definition": {"optimizer": "EXACT_ROWWISE_ADAGRAD", "weight_decay_mode": "COUNTER"},
    "definition-without-counter": {"optimizer": "EXACT_ROWWISE_ADAGRAD", "counter_based_regularization": {}},
    "cowclip-without-definition": {"optimizer": "EXACT_ROWWISE_ADAGRAD", "weight_decay_mode": "COWCLIP"},
    "definition-without-cowclip": {"optimizer": "EXACT_ROWWISE_ADAGRAD", "cowclip_regularization": {}},
    "features-beyond": {"features": [0, 1, 7]},
    "features-negative": {"features": [-1, 0]},
    "no-features": {"features": []},
    "deprecated-sgd": {"optimizer": "SGD"},
    "deprecated-rowwise": {"optimizer": "ROWWISE_ADAGRAD"},
    "shampoo": {"optimizer": "SHAMPOO"},
    "madgrad": {"optimizer": "MADGRAD"},
    "counter-with-sgd": {"optimizer": "EXACT_SGD", "weight_decay_mode": "COUNTER", "counter_based_regularization": {}},
    "global-decay-with-sgd": {"optimizer": "EXACT_SGD", "weight_decay_mode": "DECOUPLE_GLOBAL"},
    "ema-of-unequal": {"optimizer": "EMAINPLACE_ROWWISE_ADAGRAD", "emainplace_mode": {}},
    "names": {"table_names": ["a"]},
}
CONSTRUCTIONS["a-table-without-features"] = {"features": [0, 1]}
CONSTRUCTIONS["states-of-sixteen-bits"] = {
    "optimizer": "EXACT_ADAGRAD",
    "optimizer_state_dtypes": {"momentum1": "FP16"},
}
for _name, _options in CONSTRUCTIONS.items():
    SUITE.add(
        Cell(f"construction/{_name}", "construction",
             lambda library, given, _options=_options: bool(tables(library, **_options)), effects=False, printed=False)
    )  # fmt: skip
PLACED = [
    "training = split_table_batched_embeddings_ops_training; L, D = training.EmbeddingLocation, "
    f"training.ComputeDevice; bool(training.SplitTableBatchedEmbeddingBagsCodegen([(4, 4, L.{location}, D.{device})]))"
    for location in ("HOST", "DEVICE", "MANAGED", "MANAGED_CACHING", "MTIA")
    for device in ("CPU", "CUDA")
    if (location, device) != ("HOST", "CPU")
]
SUITE.add(
    *(dataclasses.replace(cell, effects=False, printed=False) for cell in cross("construction", {"placed": {}}, PLACED))
)


def test_its_cells_are_many():
    assert len(SUITE.cells) + len(ROUNDED.cells) >= 250


@pytest.mark.parametrize("cell", SUITE.cells, ids=lambda cell: cell.id)
def test_tables_are_what_fbgemms_are(cell):
    SUITE.check(cell)


@pytest.mark.parametrize("cell", ROUNDED.cells, ids=lambda cell: cell.id)
def test_tables_of_sixteen_bits_are_what_fbgemms_are(cell):
    ROUNDED.check(cell)


def test_every_intended_difference_of_tables_is_one():
    SUITE.check_differences()
    ROUNDED.check_differences()
