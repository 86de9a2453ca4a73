"""Metrics have the recorded values and states after three batches, with a window of two."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from flambeau.core.testing.fill import integers, tensor
from flambeau.core.testing.golden import golden_values
from flambeau.rec.metrics.catalogue import METRICS
from flambeau.rec.metrics.metrics_config import RecComputeMode, RecTaskInfo, SessionMetricDef

CASES = golden_values("rec_metrics", __file__)["cases"]
MODES = {
    "_unfused": RecComputeMode.UNFUSED_TASKS_COMPUTATION,
    "_fused": RecComputeMode.FUSED_TASKS_COMPUTATION,
    "_fused_states": RecComputeMode.FUSED_TASKS_AND_STATES_COMPUTATION,
}
OPTIONS = {
    "recalibrated_ne": {"recalibration_coefficient": 0.2},
    "recalibrated_calibration": {"recalibration_coefficient": 0.2},
    "accuracy_threshold": {"threshold": 0.6},
    "ndcg": {"exponential_gain": False, "k": 3},
    "ndcg_exp": {"exponential_gain": True, "k": -1},
    "segmented_ne": {"num_groups": 3},
    "multiclass_recall": {"number_of_classes": 4},
    "calibration_fused_update": {"fused_update_limit": 2},
    "ne_logloss": {"include_logloss": True},
    "mse_rsquared": {"include_r_squared": True},
    "auprc_grouped": {"grouped_auprc": True},
}
NAMES = {
    "recall_session": "recall_session_level",
    "precision_session": "precision_session_level",
    "accuracy_threshold": "accuracy",
    "ndcg_exp": "ndcg",
    "calibration_fused_update": "calibration",
    "ne_logloss": "ne",
    "mse_rsquared": "mse",
    "auprc_grouped": "auprc",
}


def split(case: str) -> tuple[str, RecComputeMode, int]:
    """The metric, the mode and the number of tasks that a case's name tells."""
    name, two, mode = case.partition("_two_tasks")
    name = NAMES.get(name, name).removesuffix("_regression")
    return name, MODES[mode] if two else MODES["_unfused"], 2 if two else 1


def batch(case: str, step: int, names: list[str]) -> dict[str, Any]:
    real = case.endswith(("_regression", "_rsquared"))
    given: dict[str, Any] = {"predictions": {}, "labels": {}, "weights": {}}
    for task, name in enumerate(names):
        label = (
            tensor(f"label{step}_{task}", (16,), torch.float64)
            if real
            else integers(f"label{step}_{task}", (16,), 2).double()
        )
        given["predictions"][name] = torch.sigmoid(2 * tensor(f"pred{step}_{task}", (16,), torch.float64))
        given["labels"][name] = label
        given["weights"][name] = (tensor(f"weight{step}_{task}", (16,), torch.float64) + 1) / 2
    if case == "multiclass_recall":
        given["predictions"] = {names[0]: tensor(f"mc{step}", (16, 4))}
    given["required_inputs"] = {
        "grouping_keys": integers(f"grp{step}", (16,), 3),
        "session_id": integers(f"ses{step}", (16,), 4),
        "tw": tensor(f"tw{step}", (16,)),
    }
    return given


def run(case: str) -> Any:
    name, mode, count = split(case)
    names = [f"t{at}" for at in range(count)] if count > 1 else ["DefaultTask"]
    session = SessionMetricDef("session_id", 2) if "session" in case else None
    tasks = [RecTaskInfo(name=one, session_metric_def=session, tensor_name="tw") for one in names]
    metric = METRICS.resolve(name)(
        world_size=1,
        my_rank=0,
        batch_size=16,
        tasks=tasks,
        window_size=32,
        compute_mode=mode,
        **OPTIONS.get(case, {}),
    )
    for step in range(3):
        metric.update(**batch(case, step, names))
    return metric


@pytest.mark.parametrize("case", CASES)
def test_a_metric_has_the_recorded_values(case):
    values = run(case).compute()
    recorded = CASES[case]["result"]
    assert set(values) == set(recorded)
    for key, expected in recorded.items():
        if "hindsight_target_pr-" in key and key.endswith("_hindsight_target_pr"):
            # Recorded is uninitialized memory; how much of it is the index of the threshold.
            assert int(values[key]) == len(expected)
            continue
        torch.testing.assert_close(
            values[key].double(), torch.tensor(expected, dtype=torch.float64), rtol=2e-6, atol=1e-9, equal_nan=True
        )


@pytest.mark.parametrize("case", CASES)
def test_a_metric_has_the_recorded_states(case):
    shapes = {key: list(value.shape) for key, value in run(case).state_dict().items()}
    assert {key: math.prod(shape) for key, shape in shapes.items()} == {
        key: math.prod(shape) for key, shape in CASES[case]["state_dict"].items()
    }
