"""What of FBGEMM's tables on disk runs without an accelerator: options, tables as tensors, reports, and its helpers."""

from __future__ import annotations

import dataclasses
import importlib
import io
import os
import pathlib
import tempfile
import warnings
from pathlib import Path

import pytest
import torch

from flambeau.core.testing.differential import Suite, cross

pytest.importorskip("fbgemm_gpu", reason="needs fbgemm_gpu; `nox -s parity -- peers rec` has it")

with warnings.catch_warnings():
    # The build for the CPU tells of each module that it lacks.
    warnings.simplefilter("ignore", DeprecationWarning)
    for _root in ("fbgemm_gpu", "flambeau.rec.fbgemm_gpu"):
        for _module in (
            "tbe.ssd", "tbe.ssd.common", "tbe.ssd.ssd_config", "tbe.ssd.utils.partially_materialized_tensor",
            "tbe.monitoring.runtime_monitor", "tbe.monitoring.tbe_input_multiplexer", "utils.context",
            "utils.filestore", "utils.loader", "utils.torch_library", "utils.writeback_util",
        ):  # fmt: skip
            importlib.import_module(f"{_root}.{_module}")

SUITE = Suite(
    "ssd",
    ours="flambeau.rec.fbgemm_gpu",
    peer="fbgemm_gpu",
    roots=("flambeau.rec", "fbgemm_gpu"),
    differences=Path(__file__).with_name("differences.toml"),
)


class Stored:
    """A table as both libraries wrap it, kept in memory."""

    def __init__(self, rows=6, columns=3):
        self.table = torch.arange(float(rows * columns)).view(rows, columns)
        self.shape, self.strides, self.dtype_str = [rows, columns], [columns, 1], "float"
        self.device_str, self.layout_str = "cpu", "Strided"

    def narrow(self, dim, start, length):
        return self.table.narrow(dim, start, length)

    def set_range(self, dim, start, length, values):
        self.table.narrow(dim, start, length).copy_(values)

    def set_weights_and_ids(self, weights, ids):
        self.table[ids] = weights

    def get_weights_by_ids(self, ids):
        return self.table[ids]

    def get_kvtensor_serializable_metadata(self):
        return ["a", "b"]


LENT = {"torch": torch, "io": io, "os": os, "pathlib": pathlib, "tempfile": tempfile, "Stored": Stored, "Path": Path}
CONFIG = [
    "[one.value for one in c.BackendType]",
    "[c.BackendType.from_str(name) for name in ('ssd', 'dram')]",
    "c.BackendType.from_str('disk')",
    "[(one.name, one.value) for one in c.EnrichmentType]",
    "[(one.name, one.value) for one in c.EnrichmentResponseFormat]",
    "tuple(c.EvictionPolicy())",
    "c.EvictionPolicy()._fields",
    "tuple(c.KVZCHTBEConfig())",
    "c.KVZCHTBEConfig()._fields",
    "tuple(c.KVZCHParams()._replace(eviction_policy=None))",
    "c.KVZCHParams()._fields",
    "c.EnrichmentPolicy()._fields",
    "tuple(c.EnrichmentPolicy())",
    "c.KVZCHParams().validate()",
    "c.KVZCHParams(bucket_offsets=[(0, 1)]).validate()",
    "c.KVZCHParams(bucket_offsets=[(0, 1)], bucket_sizes=[3]).validate()",
    "c.KVZCHParams(eviction_policy=c.EvictionPolicy(eviction_trigger_mode=1)).validate()",
]
GIVEN = (
    "eviction_step_intervals=1", "eviction_mem_threshold_gb=1", "ttls_in_mins=[1]", "counter_thresholds=[1]",
    "counter_decay_rates=[0.5]", "l2_weight_thresholds=[0.5]", "training_id_eviction_trigger_count=[3]",
    "training_id_keep_count=[3]", "feature_score_counter_decay_rates=[0.5]", "eviction_free_mem_threshold_gb=1",
    "eviction_free_mem_check_interval_batch=1", "enable_eviction_for_feature_score_eviction_policy=[True]",
)  # fmt: skip
CONFIG += [
    f"c.EvictionPolicy({mode}, {strategy}, {', '.join(GIVEN[:at] + GIVEN[at + 1 :])}).validate()"
    for mode in range(7)
    for strategy in range(7)
    for at in range(0, len(GIVEN), 1 + strategy % 2)
]
CONFIG += [
    "c.EvictionPolicy(3, 2, ttls_in_mins=[1, 2], counter_thresholds=[1], counter_decay_rates=[0.5]).validate()",
    "c.EvictionPolicy(1, 0, eviction_step_intervals=0, ttls_in_mins=[1]).validate()",
]
TENSOR = [
    "t.shape", "t.size()", "t.size(0)", "t.size(1)", "t.numel()", "t.nelement()", "t.dtype", "t.device", "t.layout",
    "t.element_size()", "t.is_contiguous()", "t.is_pinned()", "t.is_floating_point()", "t.requires_grad", "t.grad",
    "t.is_leaf", "t.grad_fn", "t.is_quantized", "t.is_sparse", "t.is_mps", "t.is_virtual", "t.narrow(0, 1, 3)",
    "torch.narrow(t, 0, 2, 2)", "t.full_tensor()", "t.get_weights_by_ids(torch.tensor([5, 1]))",
    "t.set_weights_and_ids(torch.ones(2, 3), torch.tensor([0, 4])); t.full_tensor()",
    "t.detach().full_tensor()", "torch.detach(t).full_tensor()", "t.to('cpu').full_tensor()",
    "t.requires_grad_(False).shape", "torch.isclose(t, t)", "t.get_kvtensor_serializable_metadata()",
    "t.wrapped.shape", "isinstance(t, torch.Tensor), isinstance(t, torch.nn.Parameter)", "t.__class__ is type(t)",
]  # fmt: skip
WRITTEN = [
    "w.compute_writeback_indices(i, o, m)",
    "w.compute_writeback_indices_first_feature_only(i, o, m)",
    "w.compute_writeback_indices_nobag(i, o, m)",
    "w.compute_writeback_indices_dispatch(i, o, m)",
    "w.compute_writeback_indices_dispatch(i, o, m, True)",
    "w.compute_writeback_indices_dispatch(i, o, m, nobag=True)",
    "w.writeback_update_gradient(i, o, (g,), m)",
    "w.writeback_update_gradient(i, o, (g,), m, torch.tensor([0, 2]))",
    "w.writeback_update_gradient_first_feature_only(i, o, (g,), m)",
    "w.writeback_update_gradient_nobag(i, o, (g,), m)",
    "w.writeback_gradient((g,), i, o, m)",
    "w.writeback_gradient((g,), i, o, m, True)",
    "w.writeback_gradient((g,), i, o, m, nobag=True)",
    "w.writeback_gradient((g,), i, o, m, precomputed_indices=torch.tensor([1]))",
    "w.writeback_apply_mask((g,), torch.tensor([0, 2]))",
    "w.writeback_apply_mask((g,), torch.arange(len(g)) % 2 == 0)",
]
FILES = [
    "s.exists('x')", "s.read('x')", "s.remove('x').exists('x')", "s.remove_directory('x').exists('x')",
    "s.write('x', io.BytesIO(b'hi')).read('x').read()", "torch.load(s.write('t', torch.ones(2)).read('t'))",
    "s.write('x', io.BytesIO(b'hi')).write('y', Path(s.bucket) / 'x').read('y').read()",
    "s.write('x', b'bytes')", "s.write('x', 'text')", "s.write('x', Path('/nowhere'))",
    "s.write('a/x', io.BytesIO(b'hi'))", "s.create_directory('a/b').write('a/b/x', io.BytesIO(b'hi')).exists('a/b/x')",
    "s.create_directory('a').create_directory('a').exists('a')",
    "s.create_directory('a').remove_directory('a').exists('a')", "s.create_directory('a/b').remove_directory('a')",
    "s.write('x', io.BytesIO(b'hi')).remove('x').exists('x')",
    "s.write('x', io.BytesIO(b'hi')).write('x', io.BytesIO(b'ho')).read('x').read()",
]  # fmt: skip
OTHERS = [
    "tbe.ssd.common.tensor_pad4(torch.tensor([0, 1, 4, 5]))",
    "tbe.ssd.common.tensor_pad4(torch.tensor([0, 1, 4, 5], dtype=torch.int32))",
    "[tbe.ssd.common.pad4(n) for n in range(9)]",
    "tbe.ssd.ASSOC",
    "[(one.name, one.value) for one in tbe.ssd.training.DramKvPerfStat]",
    "[(one.name, one.value) for one in tbe.ssd.training.DramSsdPerfStat]",
    "r = tbe.monitoring.runtime_monitor; r.StdLogStatsReporter(0)",
    "r = tbe.monitoring.runtime_monitor; [r.StdLogStatsReporter(3).should_report(n) for n in range(7)]",
    "r = tbe.monitoring.runtime_monitor; r.TBEStatsReporterConfig().create_reporter()",
    "r = tbe.monitoring.runtime_monitor; r.TBEStatsReporterConfig(3).create_reporter()",
    "r = tbe.monitoring.runtime_monitor; r.StdLogStatsReporterConfig(3).create_reporter().report_interval",
    "r = tbe.monitoring.runtime_monitor; r.StdLogStatsReporterConfig(0).create_reporter()",
    "r = tbe.monitoring.runtime_monitor; r.StdLogStatsReporterConfig(2) == r.StdLogStatsReporterConfig(2)",
    "m = tbe.monitoring.tbe_input_multiplexer; m.TBEInputMultiplexerConfig().create_tbe_input_multiplexer(None)",
    "m = tbe.monitoring.tbe_input_multiplexer; m.TBEInputMultiplexerConfig(0, 5).create_tbe_input_multiplexer(None)",
    "utils.loader.load_torch_module('//nope')",
    "utils.loader.load_torch_module_bc('//nope', '//neither')",
    "utils.filestore.FileStore('/nowhere')",
    "os.environ['FB_A'] = '1'\nwith utils.context.updated_env({'FB_A': '2', 'FB_B': '3'}):\n"
    "    inside = os.environ['FB_A'], os.environ['FB_B']\n(inside, os.environ['FB_A'], 'FB_B' in os.environ)",
]
INDICES = {
    "one": {"i": "torch.tensor([3, 1, 3])", "o": "torch.arange(4)", "m": "[0]", "g": "torch.arange(6.0).view(3, 2)"},
    "three": {
        "i": "torch.tensor([3, 1, 3, 5, 3, 1, 3, 3, 0])", "o": "torch.arange(10)", "m": "[0, 0, 1]",
        "g": "torch.arange(18.0).view(9, 2)",
    },
}  # fmt: skip
STORED = "tbe.ssd.utils.partially_materialized_tensor.PartiallyMaterializedTensor(Stored()"
CELLS = [
    *cross("config", {"c": {"c": "tbe.ssd.ssd_config"}}, CONFIG, names=LENT),
    # They say that they are parameters, so that they are made where nobody looks at them as such.
    *cross("tensor", {"plain": {}}, [f"t = {STORED}); {program}" for program in TENSOR], names=LENT),
    *cross("tensor", {"virtual": {}}, [f"t = {STORED}, True); {program}" for program in TENSOR], names=LENT),
    *cross(
        "written",
        {name: {"w": "utils.writeback_util", **given} for name, given in INDICES.items()},
        WRITTEN,
        names=LENT,
    ),
    *cross("files", {"s": {"s": "utils.filestore.FileStore(tempfile.mkdtemp())"}}, FILES, names=LENT),
    *cross("others", {"library": {}}, OTHERS, names=LENT),
]
SUITE.add(*(dataclasses.replace(cell, effects=False, printed=False) for cell in CELLS))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
