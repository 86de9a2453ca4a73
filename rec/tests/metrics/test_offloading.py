"""Metrics that threads compute have the values of those computed at once, and say what failed."""

from __future__ import annotations

import pytest
import torch

from flambeau.rec.metrics._errors import RecMetricException
from flambeau.rec.metrics.cpu_comms_metric_module import CPUCommsRecMetricModule
from flambeau.rec.metrics.cpu_offloaded_metric_module import CPUOffloadedRecMetricModule
from flambeau.rec.metrics.metric_module import RecMetricModule, generate_metric_module
from flambeau.rec.metrics.metric_state_snapshot import MetricStateSnapshot
from flambeau.rec.metrics.metrics_config import MetricsConfig, RecMetricDef, RecMetricEnum, RecTaskInfo, ThroughputDef

KINDS = (RecMetricEnum.NE, RecMetricEnum.AUC, RecMetricEnum.MSE)


def module(kind=RecMetricModule, **options):
    config = MetricsConfig(
        rec_tasks=[RecTaskInfo()],
        rec_metrics={name: RecMetricDef(rec_task_indices=[0], window_size=64) for name in KINDS},
        throughput_metric=ThroughputDef(),
    )
    return generate_metric_module(kind, config, 4, 1, 0, {}, torch.device("cpu"), module_kwargs=options)


def outputs(seed):
    draw = torch.Generator().manual_seed(seed)
    return {
        "label": torch.randint(0, 2, (4,), generator=draw).float(),
        "prediction": torch.rand(4, generator=draw),
        "weight": torch.rand(4, generator=draw),
    }


@pytest.fixture
def offloaded():
    made = module(CPUOffloadedRecMetricModule, model_out_device=torch.device("cpu"), update_batch_size=3)
    yield made
    if not made._stopping.is_set() and made._failure is None:
        made.shutdown()


def test_offloaded_values_are_those_computed_at_once(offloaded):
    plain = module()
    for seed in range(7):
        plain.update(outputs(seed))
        offloaded.update(outputs(seed))
    expected, promised = dict(plain.compute()), offloaded.async_compute()
    torch.testing.assert_close(promised.resolve(), expected)


def test_a_promise_is_of_the_batches_before_it(offloaded):
    plain = module()
    for seed in range(3):
        plain.update(outputs(seed))
        offloaded.update(outputs(seed))
    promised = offloaded.compute()
    for seed in range(3, 6):
        offloaded.update(outputs(seed))
    torch.testing.assert_close(promised.resolve(), dict(plain.compute()))


def test_checkpoints_of_both_modules_are_the_same(offloaded):
    plain = module()
    for seed in range(4):
        plain.update(outputs(seed))
        offloaded.update(outputs(seed))
    state = offloaded.state_dict()
    assert list(state) == list(plain.state_dict())
    again = module()
    again.load_state_dict(state)
    key = "ne-DefaultTask|lifetime_ne"
    # Of AUC a checkpoint holds nothing: its examples are not saved.
    torch.testing.assert_close(again.rec_metrics[0].compute()[key], plain.compute()[key])
    offloaded.load_state_dict(plain.state_dict())


def test_what_fails_in_a_thread_is_raised_by_the_next_call(offloaded):
    offloaded.update({"label": torch.ones(4)})
    with pytest.raises(RecMetricException, match="'prediction'"):
        offloaded.wait_until_queue_is_empty(offloaded.update_queue)
    with pytest.raises(RecMetricException, match="failed in their thread"):
        offloaded.update(outputs(0))


def test_a_module_that_is_shut_down_takes_no_batches(offloaded):
    offloaded.update(outputs(0))
    offloaded.shutdown()
    with pytest.raises(RecMetricException, match="shut down"):
        offloaded.update(outputs(1))


def test_a_snapshot_is_not_changed_by_later_batches():
    plain, reader = module(), module(CPUCommsRecMetricModule)
    plain.update(outputs(0))
    expected = dict(plain.compute())
    snapshot = MetricStateSnapshot.from_metrics(plain.rec_metrics, plain.throughput_metric)
    plain.update(outputs(1))
    for _ in range(2):
        reader.load_local_metric_state_snapshot(snapshot)
        torch.testing.assert_close(dict(reader.compute()), expected)


def test_states_of_all_ranks_can_be_taken_over():
    plain, other = module(), module()
    plain.update(outputs(0))
    other.load_pre_compute_states(plain.get_pre_compute_states())
    torch.testing.assert_close(dict(other.compute()), dict(plain.compute()))


def test_a_module_that_computes_at_once_makes_no_promises():
    with pytest.raises(RecMetricException, match="CPUOffloadedRecMetricModule"):
        module().async_compute()
