"""Programs on the module that holds all metrics of a training loop."""

# ruff: noqa: E501

from __future__ import annotations

import copy
import time
from typing import Any
from unittest import mock

import torch
from metric_programs import apart

from flambeau.core.testing.fill import integers, tensor

CONFIGURED = {
    "default": {"rec_tasks": 1, "rec_metrics": {"NE": {}}},
    "several": {"rec_tasks": 2, "rec_metrics": {"NE": {}, "MSE": {"arguments": {"include_r_squared": True}}, "AUC": {}}},
    "throughput": {"rec_tasks": 1, "rec_metrics": {"CTR": {}}, "throughput": True},
    "throughput-alone": {"rec_tasks": 0, "rec_metrics": {}, "throughput": True},
    "nothing": {"rec_tasks": 0, "rec_metrics": {}},
    "fused": {"rec_tasks": 2, "rec_metrics": {"NE": {}, "CALIBRATION": {}}, "mode": "FUSED_TASKS_COMPUTATION"},
    "fused-states": {"rec_tasks": 2, "rec_metrics": {"NE": {}}, "mode": "FUSED_TASKS_AND_STATES_COMPUTATION"},
    "joined": {"rec_tasks": 1, "rec_metrics": {"NE": {}, "MAE": {}}, "options": {"fused_update_limit": 3}},
    "validated": {"rec_tasks": 1, "rec_metrics": {"NE": {}}, "options": {"should_validate_update": True}},
    "cloned": {"rec_tasks": 1, "rec_metrics": {"NE": {}}, "options": {"should_clone_update_inputs": True}},
    "steps": {"rec_tasks": 1, "rec_metrics": {"NE": {}}, "options": {"compute_interval_steps": 2}},
    "seconds": {"rec_tasks": 1, "rec_metrics": {"NE": {}}, "options": {"min_compute_interval": 30.0, "max_compute_interval": 60.0}},
    "state-metrics": {"rec_tasks": 1, "rec_metrics": {"NE": {}}, "state_metrics": True},
    "tower": {"rec_tasks": 1, "rec_metrics": {"TOWER_QPS": {"arguments": {"warmup_steps": 1}}}},
    "stages": {"rec_tasks": 1, "rec_metrics": {"TOWER_QPS": {"arguments": {"warmup_steps": 1}}}, "throughput": True, "stages": True},
    "sessions": {"rec_tasks": 1, "rec_metrics": {"NDCG": {}, "SEGMENTED_NE": {"arguments": {"num_groups": 2}}}},
    "all-sums": {"rec_tasks": 1, "rec_metrics": {name: {} for name in (
        "NE", "NE_POSITIVE", "CTR", "CALIBRATION", "MSE", "MAE", "WEIGHTED_AVG", "ACCURACY", "XAUC", "PRECISION",
        "SERVING_NE", "SERVING_CALIBRATION", "CALI_FREE_NE", "UNWEIGHTED_NE", "NMSE", "AVERAGE", "SUM_WEIGHTS",
        "NUM_POSITIVE_SAMPLES", "NUM_MISSING_LABELS", "WEIGHTED_SUM_PREDICTIONS", "SCALAR")}},
    "bad-kind": {"rec_tasks": 1, "rec_metrics": {"LOG_LOSS": {}}},
    "bad-tasks": {"rec_tasks": 1, "rec_metrics": {"NE": {"rec_task_indices": []}}},
    "bad-window": {"rec_tasks": 1, "rec_metrics": {"NE": {"window_size": 1}}},
}  # fmt: skip


def configured(library: Any, name: str) -> Any:
    """The module of a configuration."""
    config, module = library.metrics_config, library.metric_module
    about = copy.deepcopy(CONFIGURED[name])  # the peer writes into arguments
    tasks = [config.RecTaskInfo(f"t{at}", f"y{at}", f"p{at}", f"w{at}") for at in range(about["rec_tasks"])]
    definitions = {
        getattr(config.RecMetricEnum, kind): config.RecMetricDef(
            **{"window_size": 12, "rec_task_indices": list(range(len(tasks))), **definition}
        )
        for kind, definition in about["rec_metrics"].items()
    }

    class Optimizers(module.StateMetric):
        def get_metrics(self):
            return {"lr": 0.5}

    return module.generate_metric_module(
        module.RecMetricModule,
        metrics_config=config.MetricsConfig(
            rec_tasks=tasks,
            rec_metrics=definitions,
            throughput_metric=config.ThroughputDef(window_size=4, warmup_steps=2) if about.get("throughput") else None,
            rec_compute_mode=getattr(config.RecComputeMode, about.get("mode", "UNFUSED_TASKS_COMPUTATION")),
            state_metrics=[config.StateMetricEnum.OPTIMIZERS] if about.get("state_metrics") else [],
            **about.get("options", {}),
        ),
        batch_size=4,
        world_size=1,
        my_rank=0,
        state_metrics_mapping={config.StateMetricEnum.OPTIMIZERS: Optimizers()},
        device=torch.device("cpu"),
        batch_size_stages=[config.BatchSizeStage(4, 2), config.BatchSizeStage(6, None)]
        if about.get("stages")
        else None,
    )


def outputs(step: int) -> dict[str, Any]:
    """What a model gives for a batch."""
    found: dict[str, Any] = {"session_id": torch.tensor([1, 1, 2, 2]), "grouping_keys": integers(f"g{step}", (4,), 2)}
    for at in range(2):
        found[f"y{at}"] = integers(f"y{step}{at}", (4, 1), 2).float()
        found[f"p{at}"] = torch.sigmoid(tensor(f"p{step}{at}", (4, 1)))
        found[f"w{at}"] = (tensor(f"w{step}{at}", (4, 1)) + 1) / 2 * (step != 1)
    return found


def train(library: Any, name: str, seconds: float) -> dict[str, Any]:
    """A loop of five batches, each of so many seconds, and a second one from its checkpoint."""
    clock = [1000.0]
    with mock.patch.object(time, "monotonic", lambda: clock[0]), mock.patch.object(time, "time", lambda: clock[0]):
        module = configured(library, name)
        seen: dict[str, Any] = {"inputs": sorted(module.get_required_inputs() or ()), "steps": []}
        for step in range(5):
            clock[0] += seconds
            module.update(outputs(step))
            due = module.should_compute()
            values = apart(dict(module.compute())) if step != 2 else None
            seen["steps"].append([due, values, module.compute_interval_steps])
        seen["local"] = apart(dict(module.local_compute()))
        seen["state"] = apart(dict(module.state_dict()))
        again = configured(library, name)
        again.load_state_dict(module.state_dict())
        again.update(outputs(7))
        seen["again"] = apart(dict(again.compute()))
        seen["counts"] = [module.trained_batches, module.compute_count, len(module.rec_metrics)]
        module.reset()
        seen["reset"] = apart(dict(module.state_dict()))
    return seen
