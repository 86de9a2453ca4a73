"""Metrics need no torchmetrics, and are its metrics where it is there."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from flambeau.rec.metrics._states import Metric


class Total(Metric):
    def __init__(self, **options):
        super().__init__(**options)
        self.add_state("total", torch.zeros(()), dist_reduce_fx="sum", persistent=True)

    def update(self, values):
        self.total += values.sum()

    def compute(self):
        return self.total.clone()


def test_nothing_imports_torchmetrics_or_torchvision():
    code = """
import sys, flambeau.rec.metrics.metric_module, flambeau.rec.metrics.cpu_offloaded_metric_module
print([name for name in ("torchmetrics", "torchvision", "pandas") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_metric_is_one_of_torchmetrics_once_that_is_loaded():
    torchmetrics = pytest.importorskip("torchmetrics", reason="needs torchmetrics; `pip install torchmetrics`")
    together = torchmetrics.MetricCollection({"a": Total(), "b": Total()})
    together.update(torch.ones(3))
    assert {name: value.item() for name, value in together.compute().items()} == {"a": 3.0, "b": 3.0}


def test_a_value_is_kept_until_the_next_update():
    metric = Total()
    metric.update(torch.ones(2))
    first = metric.compute()
    assert metric.compute() is first
    metric.update(torch.ones(1))
    assert metric.compute().item() == 3.0
    assert metric.update_count == 2


def test_computing_before_any_update_warns():
    with pytest.warns(UserWarning, match="before update"):
        Total().compute()


def test_forward_gives_the_value_of_the_batch_alone():
    metric = Total()
    metric.update(torch.ones(2))
    assert metric(torch.ones(5)).item() == 5.0
    assert metric.compute().item() == 7.0


def test_persistent_states_go_through_a_checkpoint():
    metric, other = Total(), Total()
    metric.update(torch.ones(4))
    other.load_state_dict(metric.state_dict())
    assert other.total.item() == 4.0
    assert other.total is not metric.total


def test_a_metric_of_one_process_can_be_synced_by_a_function():
    metric = Total(dist_sync_fn=lambda value, group: [value, value + 1], distributed_available_fn=lambda: True)
    metric.update(torch.ones(3))
    assert metric.compute().item() == 7.0
    assert metric.total.item() == 3.0


def test_states_keep_their_type_when_the_module_changes_its():
    metric = Total()
    metric.update(torch.ones(3))
    assert metric.half().total.dtype == torch.float32


@pytest.mark.parametrize(("default", "reduction"), [([1], "sum"), (torch.zeros(1), "median")])
def test_states_that_cannot_be_are_refused(default, reduction):
    with pytest.raises(ValueError, match=r"expected|give"):
        Total().add_state("other", default, dist_reduce_fx=reduction)
