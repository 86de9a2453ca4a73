"""Window values are those of the latest examples alone."""

from __future__ import annotations

import pytest
import torch

from flambeau.rec.metrics._errors import InputError, RecMetricException
from flambeau.rec.metrics.auc import AUCMetric
from flambeau.rec.metrics.catalogue import METRICS, REC_METRICS_MAPPING, register_metric
from flambeau.rec.metrics.metrics_config import RecComputeMode, RecMetricEnum, RecMetricEnumBase, RecTaskInfo
from flambeau.rec.metrics.ne import NEMetric
from flambeau.rec.metrics.rauc import RAUCMetric
from flambeau.rec.metrics.rec_metric import WindowBuffer
from flambeau.rec.metrics.xauc import XAUCMetric

TASK = RecTaskInfo(name="t")


def batch(examples, seed):
    draw = torch.Generator().manual_seed(seed)
    given = {
        "predictions": torch.rand(examples, generator=draw),
        "labels": torch.randint(0, 2, (examples,), generator=draw).float(),
        "weights": torch.rand(examples, generator=draw),
    }
    keys = torch.randint(0, 3, (examples,), generator=draw)
    return {**{name: {"t": value} for name, value in given.items()}, "required_inputs": {"grouping_keys": keys}}


def joined(batches):
    whole = {
        name: {"t": torch.cat([one[name]["t"] for one in batches])} for name in ("predictions", "labels", "weights")
    }
    keys = torch.cat([one["required_inputs"]["grouping_keys"] for one in batches])
    return {**whole, "required_inputs": {"grouping_keys": keys}}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (NEMetric, {}),
        (AUCMetric, {}),
        (AUCMetric, {"grouped_auc": True}),
        (RAUCMetric, {"grouped_rauc": True}),
        (XAUCMetric, {}),
    ],
)
def test_a_window_forgets_the_oldest_batches(kind, options):
    batches = [batch(4, seed) for seed in range(5)]
    metric, fresh = (
        kind(world_size=1, my_rank=0, batch_size=4, tasks=[TASK], window_size=8, **options) for _ in range(2)
    )
    for one in batches:
        metric.update(**one)
    for one in batches[-2:]:
        fresh.update(**one)
    expected = fresh.compute()
    for key, value in metric.compute().items():
        if "window" in key:
            torch.testing.assert_close(value, expected[key])


def test_samples_are_trimmed_within_a_batch():
    batches = [batch(3, seed) for seed in range(4)]
    metric, fresh = (
        AUCMetric(world_size=1, my_rank=0, batch_size=3, tasks=[TASK], window_size=7, grouped_auc=True)
        for _ in range(2)
    )
    for one in batches:
        metric.update(**one)
    whole = joined(batches)
    last = {name: {"t": value["t"][-7:]} for name, value in whole.items() if name != "required_inputs"}
    fresh.update(**last, required_inputs={"grouping_keys": whole["required_inputs"]["grouping_keys"][-7:]})
    for key, value in fresh.compute().items():
        torch.testing.assert_close(metric.compute()[key], value)


def test_joined_batches_count_as_one_by_one():
    metric = NEMetric(world_size=1, my_rank=0, batch_size=4, tasks=[TASK], window_size=100, fused_update_limit=3)
    plain = NEMetric(world_size=1, my_rank=0, batch_size=4, tasks=[TASK], window_size=100)
    for seed in range(5):
        metric.update(**batch(4, seed))
        plain.update(**batch(4, seed))
    torch.testing.assert_close(metric.compute(), plain.compute())


def test_joined_batches_without_weights_have_ones():
    metric = NEMetric(world_size=1, my_rank=0, batch_size=4, tasks=[TASK], window_size=100, fused_update_limit=2)
    plain = NEMetric(world_size=1, my_rank=0, batch_size=4, tasks=[TASK], window_size=100)
    for used in (metric, plain):
        used.update(**{**batch(4, 0), "weights": None})
        used.update(**batch(4, 1))
    torch.testing.assert_close(metric.compute(), plain.compute())


def test_a_buffer_holds_no_more_contributions_than_it_may():
    buffer, total = WindowBuffer(max_size=100, max_buffer_count=2), torch.zeros(1)
    for value in (1.0, 2.0, 4.0):
        buffer.aggregate_state(total, torch.tensor([value]), 1)
    assert total.item() == 6.0
    assert len(buffer.buffers) == 2


def test_memory_is_told_of_everything_that_is_kept():
    metric = NEMetric(world_size=1, my_rank=0, batch_size=4, tasks=[TASK], window_size=8)
    before = sum(metric.get_memory_usage().values())
    metric.update(**batch(4, 0))
    # A contribution to each of four sums, of which only the entropy is float64 before it is added.
    assert sum(metric.get_memory_usage().values()) == before + 8 + 3 * 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"predictions": torch.ones(4)}, "by the tasks' names"),
        ({"predictions": {"t": torch.ones(0)}}, "its predictions are empty"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(change, words):
    metric = NEMetric(world_size=1, my_rank=0, batch_size=4, tasks=[TASK], window_size=8)
    with pytest.raises(InputError, match=words):
        metric.update(**{**batch(4, 0), **change})


def test_fused_tasks_of_different_sizes_are_refused():
    tasks = [RecTaskInfo(name="a"), RecTaskInfo(name="b")]
    mode = RecComputeMode.FUSED_TASKS_COMPUTATION
    metric = NEMetric(world_size=1, my_rank=0, batch_size=4, tasks=tasks, window_size=8, compute_mode=mode)
    sizes = {"a": torch.ones(4), "b": torch.ones(3)}
    with pytest.raises(InputError, match="must be of one shape"):
        metric.update(predictions=sizes, labels=sizes, weights=None)


def test_groups_that_are_missing_are_named():
    metric = AUCMetric(world_size=1, my_rank=0, batch_size=4, tasks=[TASK], window_size=8, grouped_auc=True)
    with pytest.raises(RecMetricException, match="grouping_keys"):
        metric.update(**{**batch(4, 0), "required_inputs": {}})


def test_every_kind_is_registered_by_its_name():
    assert {f"rec/{kind}" for kind in REC_METRICS_MAPPING if isinstance(kind, RecMetricEnum)} <= set(METRICS.names())


def test_a_metric_of_ones_own_is_found_by_its_kind():
    class Kinds(RecMetricEnumBase):
        CLICKS = "clicks_of_a_test"

    @register_metric(Kinds.CLICKS)
    class Clicks(NEMetric):
        pass

    try:
        assert REC_METRICS_MAPPING[Kinds.CLICKS] is Clicks
        assert METRICS.resolve("clicks_of_a_test") is Clicks
    finally:
        del REC_METRICS_MAPPING[Kinds.CLICKS]
        METRICS.unregister("clicks_of_a_test")
