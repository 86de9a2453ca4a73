"""Tables that are looked up and trained together do, step after step, what FBGEMM's do on the CPU."""

from __future__ import annotations

import dataclasses
import importlib
import warnings
from pathlib import Path

import numpy
import pytest
import torch

from flambeau.core.testing.differential import Cell, Suite, cross
from flambeau.core.testing.fill import integers, tensor

pytest.importorskip("fbgemm_gpu", reason="needs fbgemm_gpu; `nox -s parity -- peers rec` has it")

with warnings.catch_warnings():
    # The build for the CPU tells of each module that it lacks.
    warnings.simplefilter("ignore", DeprecationWarning)
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

# The operators behind them.
PT2 = "split_embedding_codegen_lookup_{}_function_pt2"
NAMED = "split_embedding_codegen_lookup_{}_function_cpu"
BEHIND = {
    "sgd": ((), [], []),
    "adagrad": (("momentum1",), [], [0.01]),
    "rowwise_adagrad": (("momentum1",), [0], [0.01, 0.0, 0.0]),
    "rowwise_adagrad_with_counter": (
        ("momentum1", "prev_iter", "row_counter"), [3, -1, 1, 2, -1, 0, 3], [0.01, 0.1, 0.5, 2.0, 0.5, 0.0, 0.0],
    ),
}  # fmt: skip


def _memory(optimizer):
    by_element = optimizer == "adagrad"
    places = torch.tensor([3, 3, 3], dtype=torch.int32)
    starts = torch.tensor([0, 28, 68])
    rows = torch.tensor([0, 7, 12])
    kept = [
        [torch.zeros(140 if by_element else 18), places, starts if by_element else rows] for _ in BEHIND[optimizer][0]
    ]
    return [tensor("tables", (140,)), places, starts], kept


def _by_lists(library, optimizer, *, pooling=0, weighted=False, sizes=None):
    operators = torch.ops.flambeau_rec if library.ours else torch.ops.fbgemm
    weights, kept = _memory(optimizer)
    weights[0].requires_grad_()
    names, integers_, floats = BEHIND[optimizer]
    facts = [None] * 7
    largest, size = (-1, -1), -1
    if sizes is not None:
        facts[:3] = [
            torch.tensor([0, 3, 6, 10], dtype=torch.int32), torch.tensor([0, 4, 28, 52, 60, 60, 84]),
            torch.tensor([[0, 1, 3], [0, 3, 3], [0, 2, 4]], dtype=torch.int32),
        ]  # fmt: skip
        largest, size = (4, 3), 84
    facts[3] = torch.empty(0, dtype=torch.int32)
    outputs = []
    for step in range(2):
        given = bags(step, weighted=weighted, sizes=sizes)
        output = getattr(operators, PT2.format(optimizer))(
            placeholder_autograd_tensor=torch.zeros(0, requires_grad=True), weights=weights,
            D_offsets=torch.tensor([0, 4, 12, 24], dtype=torch.int32), total_D=24, max_D=12,
            hash_size_cumsum=torch.tensor([0, 7, 12, 18]), total_hash_size_bits=5, indices=given["indices"],
            offsets=given["offsets"], pooling_mode=pooling, indice_weights=given["per_sample_weights"],
            feature_requires_grad=None, output_dtype=0, max_B=largest[0], max_B_feature_rank=largest[1],
            vbe_output_size=size, aux_tensor=facts, aux_int=[step + 1, 30, (1 << 30) - 1], aux_float=[0.0, 0.3],
            aux_bool=[False, False, True, False, step == 1, False, True], learning_rate_tensor=torch.tensor(0.1),
            **dict(zip(names, kept, strict=True)), **({"optim_int": integers_} if integers_ else {}),
            **({"optim_float": floats} if floats else {}),
        )  # fmt: skip
        output.backward(tensor(f"above{step}", tuple(output.shape)))
        outputs.append(output.detach())
    return outputs, weights[0].detach(), [one[0] for one in kept]


def _by_names(library, optimizer):
    operators = torch.ops.flambeau_rec if library.ours else torch.ops.fbgemm
    weights, kept = _memory(optimizer)
    weights[0].requires_grad_()
    given = bags(0)
    options = {"eps": 0.01, "learning_rate": 0.1} if optimizer == "adagrad" else {"learning_rate": 0.1}
    output = getattr(operators, NAMED.format(optimizer))(
        *weights, torch.tensor([0, 4, 12, 24], dtype=torch.int32), 24, 12, torch.tensor([0, 7, 12, 18]), 5,
        given["indices"], given["offsets"], 0, None, None, True, 0.3, False, *(part for one in kept for part in one),
        **options,
    )  # fmt: skip
    output.backward(tensor("above", tuple(output.shape)))
    return output.detach(), weights[0].detach(), [one[0] for one in kept]


for _optimizer in BEHIND:
    for _pooling in (0, 1):
        for _weighted in (False, True):
            if _pooling and _weighted:
                continue
            SUITE.add(
                Cell(f"behind/{_optimizer}/{_pooling}/{_weighted}", "operators",
                     lambda library, given, o=_optimizer, p=_pooling, w=_weighted: _by_lists(
                         library, o, pooling=p, weighted=w))
            )  # fmt: skip
    if _optimizer != "adagrad":
        SUITE.add(
            Cell(f"behind/{_optimizer}/vbe", "operators",
                 lambda library, given, o=_optimizer: _by_lists(library, o, sizes=[[1, 2], [3, 0], [2, 2]]))
        )  # fmt: skip
for _optimizer in ("sgd", "adagrad"):
    SUITE.add(
        Cell(f"behind/{_optimizer}/by-names", "operators", lambda library, given, o=_optimizer: _by_names(library, o))
    )
for _optimizer in ("approx_sgd", "approx_rowwise_adagrad_with_counter", "rowwise_weighted_adagrad"):
    SUITE.add(
        Cell(f"behind/{_optimizer}/given-up", "operators", lambda library, given, o=_optimizer: _given_up(library, o))
    )


def _given_up(library, optimizer):
    operators = torch.ops.flambeau_rec if library.ours else torch.ops.fbgemm
    operator = getattr(operators, NAMED.format(optimizer)).default
    one = torch.zeros(1, dtype=torch.int64)
    made = {"Tensor": one, "int": 0, "float": 0.0, "bool": False}
    kinds = [str(argument.type) for argument in operator._schema.arguments]
    return operator(*(made.get(kind, None if "Optional" in kind else 0) for kind in kinds))


FACTS = [
    f"o.generate_vbe_metadata(i([0, 3, 6]).int(), i([[0, 1, 3], [0, 2, 3]]).int(), i([0, 4, 16, 32, 36]), "
    f"i([0, 4, 12]).int(), {width}, {nobag}, 2, {bits}, 6)"
    for width, nobag in ((-1, False), (8, True))
    for bits in (26, 28)
] + [
    "[o.get_infos_metadata(i([0]), B, T) for B, T in ((3, 1), (3, 2), (3, 3), (3, 4), (99, 63), (99, 64), (9, 1000))]",
    "o.get_infos_metadata(i([0]), 1 << 30, 4)",
    "o.check_feature_gate_key('TBE_V2')",
    "[o.is_uvm_tensor(i([0])), o.is_uvm_tensor(torch.zeros(3))]",
    "o.uvm_to_cpu(i([0]))",
    "o.uvm_to_cpu_clone(i([0]))",
    "o.tbe_estimate_indices_distribution(torch.arange(500) // 3)[::3]",
    "o.tbe_estimate_indices_distribution(torch.arange(3000) ** 2 // 90000)[0]",
    "o.tbe_estimate_indices_distribution(i([]).long())",
    "(lambda x: (x.dtype, x.shape, x.min() >= 0, x.max() <= 100))(o.tbe_generate_indices_from_distribution("
    "torch.tensor([0.5, 0.2], dtype=torch.float64), 1.0, 1.5, 100, 1000))",
]
SUITE.add(
    *(
        dataclasses.replace(cell, effects=False, printed=False)
        for cell in cross(
            "facts",
            {"of": {"o": lambda library: torch.ops.flambeau_rec if library.ours else torch.ops.fbgemm,
                    "i": lambda library: torch.tensor}},
            FACTS, names={"torch": torch},
        )
    )
)  # fmt: skip

# What a batch of its own is made of.
PARTS = [
    "u.offsets.get_table_batched_offsets_from_dense(torch.arange(12).view(2, 2, 3), use_cpu=True)",
    "u.offsets.get_table_batched_offsets_from_dense(torch.arange(12), 3, 4, True)",
    "u.offsets.get_offsets_from_dense(torch.arange(6).view(2, 3))",
    "u.offsets.b_indices(torch.nn.functional.embedding_bag, torch.arange(6).view(2, 3))",
    "torch.manual_seed(0); u.offsets.b_indices(torch.nn.EmbeddingBag(6, 2, mode='sum'), torch.arange(6).view(2, 3), "
    "torch.ones(6), use_cpu=True)",
    "torch.manual_seed(0); u.offsets.b_indices(torch.nn.Embedding(6, 2), torch.arange(6).view(2, 3), use_cpu=True, "
    "do_pooling=False)",
    "str(u.common.get_device())",
    "[u.common.round_up(a, 4) for a in (0, 1, 4, 5)]",
    "u.common.to_device(torch.arange(3), True)",
    "numpy.random.seed(0); u.requests.generate_int_data_from_stats(2, 5, 6, 'uniform')",
    "numpy.random.seed(0); u.requests.generate_int_data_from_stats(5, 2, 6, 'normal').shape",
    "numpy.random.seed(0); [list(p.shape) or int(p) if hasattr(p, 'shape') else p for p in "
    "u.requests.generate_pooling_factors_from_stats(2, [2, 2], 30, 0, 'normal')]",
    "[x for x in u.requests.generate_batch_sizes_from_stats(4, 3, 0, 2, 'normal')]",
    "(lambda x: (x.shape, x.dtype, x.min() >= 0, x.max() < 10))(u.requests.generate_indices_uniform(2, [2, 2], 3, 10, "
    "False, None))",
    "(lambda x: (x.shape, x.dtype))(u.requests.generate_indices_uniform(2, [2, 2], 3, 10, True, "
    "torch.tensor([0, 3, 6, 9, 12, 13, 14, 15, 17])))",
    "(lambda x: (x.shape, x.dtype, x.min() >= 0, x.max() < 10))(u.requests.generate_indices_zipf(2, [2, 2], 3, 10, "
    "1.15, 3, False, None, True))",
    "(lambda x: (x.shape, x.dtype))(u.requests.update_indices_with_random_reuse(2, [2, 2], 3, 0.5, "
    "torch.arange(24).view(2, 12)))",
    "u.requests.update_indices_with_random_reuse(2, [2, 2], 3, 0.0, torch.arange(24).view(2, 12))",
    "u.requests.maybe_to_dtype(torch.arange(3), torch.int32)",
    "u.requests.maybe_to_dtype(torch.arange(3), None)",
    "[part for part in u.requests.TBERequest(torch.arange(3), torch.tensor([0, 3])).unpack_4()]",
    "u.requests.generate_requests(2, 2, 2, 3, 10, use_cpu=True, sigma_B=1)",
    *(
        f"[(r.indices.shape, r.indices.dtype, r.offsets, None if r.per_sample_weights is None else "
        f"r.per_sample_weights.shape, r.Bs_per_feature_per_rank) for r in u.requests.generate_requests(2, 2, 2, 3, 10, "
        f"use_cpu=True{more})]"
        for more in (
            "",
            ", alpha=1.2",
            ", alpha=0.5",
            ", weighted=True",
            ", reuse=0.5",
            ", Ls=[1, 3]",
            ", Es=[3, 50]",
            ", sigma_L=0",
            ", sigma_B=0, vbe_num_ranks=2",
            ", index_dtype=torch.int32, offset_dtype=torch.int32",
        )
    ),
    "list(common.construct_cache_state([5, 6, 7], [L.MANAGED_CACHING, L.HOST, L.MANAGED_CACHING], [0, 1, 1, 2]))",
    "list(common.construct_cache_state([5, 6], [L.HOST, L.HOST], [0, 1]))",
    "list(common.construct_cache_state([], [], []))",
    *(
        f"batches.generate_vbe_metadata(torch.arange(7), {sizes}, common.PoolingMode.{pooling}, torch.tensor([4, 8]), "
        "torch.device('cpu'))"
        for sizes in ("[[1, 2], [2, 1]]", "[[0, 0], [3, 1]]", "None", "[[1, 2], [2]]")
        for pooling in ("SUM", "MEAN", "NONE")
    ),
    *(
        f"batches.check_allocated_vbe_output({number}, {sizes}, {output}, {places})"
        for number, sizes, output, places in (
            (0, "[[1, 2], [2, 1], [0, 0]]", "torch.zeros(24)", "torch.zeros(2, 3).long()"),
            (0, "[[1, 2], [2, 1], [0, 0]]", "torch.zeros(24)", "torch.zeros(3, 2).long()"),
            (0, "[[1, 2], [2, 1]]", "torch.zeros(24)", "None"),
            (0, "[[1, 2], [2, 1]]", "None", "torch.zeros(2, 2)"),
            (0, "None", "torch.zeros(24)", "torch.zeros(2, 2).long()"),
            (1, "[[1, 2], [2, 1]]", "torch.zeros(24)", "torch.zeros(2, 2).long()"),
            (0, "[[1, 2], [2, 1]]", "torch.zeros(2, 24)", "torch.zeros(2, 2).long()"),
            (0, "None", "None", "None"),
        )
    ),
]
SUITE.add(
    *(
        dataclasses.replace(cell, effects=False, printed=False)
        for cell in cross(
            "parts",
            {"of": {
                "u": lambda library: library.tbe.utils,
                "common": lambda library: library.split_table_batched_embeddings_ops_common,
                "L": lambda library: library.split_table_batched_embeddings_ops_common.EmbeddingLocation,
                "batches": lambda library: library.split_table_batched_embeddings_ops_training_common,
            }},
            PARTS, names={"torch": torch, "numpy": numpy},
        )
    )
)  # fmt: skip


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
