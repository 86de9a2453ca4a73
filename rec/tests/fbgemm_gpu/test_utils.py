"""Reports, timers, libraries of operators, and gradients of rows that are written."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest
import torch

from flambeau.rec.fbgemm_gpu.tbe.monitoring import runtime_monitor as monitor
from flambeau.rec.fbgemm_gpu.tbe.monitoring.tbe_input_multiplexer import TBEInputMultiplexerConfig
from flambeau.rec.fbgemm_gpu.tbe.ssd import SSDTableBatchedEmbeddingBags
from flambeau.rec.fbgemm_gpu.utils import writeback_util
from flambeau.rec.fbgemm_gpu.utils.torch_library import TorchLibraryFragment


def test_a_timer_tells_each_block_with_its_context_in_order():
    told = []
    timer = monitor.AsyncSeriesTimer(lambda context, duration_ms: told.append((context, duration_ms)))
    for name in "abc":
        with timer.recording(name):
            sum(range(10000))
    assert [name for name, _ in told] == ["a", "b", "c"] and all(duration > 0 for _, duration in told)
    with pytest.raises(AssertionError, match="before start"):
        timer.stop("d")
    timer.start()
    with pytest.raises(AssertionError, match="twice"):
        timer.start()


def test_reports_of_some_steps_are_in_the_log(caplog):
    reporter = monitor.StdLogStatsReporter(5)
    reporter.register_stats("bytes read", amplifier=2)
    with caplog.at_level(logging.INFO, "flambeau.rec.tbe"):
        for step in range(1, 11):
            reporter.report_data_amount(step, "bytes read", 21, tbe_id="x")
            reporter.report_duration(step, "reading", 1.5, embedding_id="users", time_unit="us")
    assert [record.getMessage() for record in caplog.records[:2]] == [
        "step 5, tables x, table : bytes read 42 bytes", "step 5, tables , table users: reading 1.5 us",
    ]  # fmt: skip
    assert len(caplog.records) == 4


def test_tables_on_disk_report_what_their_cache_does(tmp_path, caplog):
    module = SSDTableBatchedEmbeddingBags(
        [(100, 4)], None, 1, str(tmp_path), gather_ssd_cache_stats=True,
        stats_reporter_config=monitor.StdLogStatsReporterConfig(2),
    )  # fmt: skip
    with caplog.at_level(logging.INFO, "flambeau.rec.tbe"):
        for _ in range(2):
            module(torch.arange(10), torch.arange(11)).sum().backward()
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "ssd_num_lookups 20 bytes", "ssd_num_hits 10 bytes", "ssd_num_writes 0 bytes",
    ]  # fmt: skip
    assert module.get_ssd_cache_stats().tolist() == [2, 20, 20, 10, 0, 0]


def test_what_has_no_implementation_says_who_has():
    with pytest.raises(AssertionError, match="StdLogStatsReporterConfig"):
        monitor.TBEStatsReporterConfig(1).create_reporter()
    with pytest.raises(AssertionError, match="subclass"):
        TBEInputMultiplexerConfig(0, 1).create_tbe_input_multiplexer(None)


def test_an_operator_is_declared_and_implemented_once():
    fragment, again = TorchLibraryFragment("flambeau_test"), TorchLibraryFragment("flambeau_test")
    for one in (fragment, again):
        one.define("more(Tensor x) -> Tensor")
    fragment.register("more", {"CPU": lambda x: x + 1, "Meta": torch.empty_like})
    again.register("more", {"CPU": lambda x: x + 2})
    assert torch.ops.flambeau_test.more(torch.zeros(1)).item() == 1
    assert torch.ops.flambeau_test.more(torch.zeros(3, device="meta")).shape == (3,)
    with pytest.raises(ValueError, match="no schema"):
        fragment.define("more")
    with pytest.raises(AssertionError, match="dispatch_key is 'Nowhere'"):
        fragment.register_dispatch("more", "Nowhere", lambda x: x)
    with pytest.raises(RuntimeError):
        fragment.register_dispatch("less", "CPU", lambda x: x)


@pytest.mark.parametrize("seed", range(5))
def test_the_first_place_of_each_row_counts_whatever_bags_are_like(seed):
    drawn = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 4, (3 * 4,), generator=drawn)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    indices = torch.randint(0, 5, (int(offsets[-1]),), generator=drawn)
    expected = []
    for begin, end in pairwise(offsets[::4].tolist()):
        rows = indices[begin:end].tolist()
        expected += [begin + rows.index(row) for row in sorted(set(rows))]
    assert writeback_util.compute_writeback_indices_nobag(indices, offsets, [0, 0, 1]).tolist() == expected
    gradient = torch.rand(len(indices), 2, generator=drawn)
    kept = writeback_util.writeback_gradient((gradient,), indices, offsets, [0, 0, 1], nobag=True)[0]
    assert torch.equal(kept[expected], gradient[expected]) and int((kept != 0).any(1).sum()) == len(expected)
    with pytest.raises(ValueError, match="2 features"):
        writeback_util.compute_writeback_indices(indices, offsets[:-1], [0, 1])
