"""What metrics are given, and what is looked at, for either library: kinds of metrics, ways of using them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from flambeau.core.testing.fill import integers, tensor

EXAMPLES = 16


@dataclass(frozen=True)
class Kind:
    """A kind of metric: where it is, its options, and what its examples are."""

    place: str
    options: Mapping[str, Any] = field(default_factory=dict)
    labels: str = "binary"
    inputs: tuple[str, ...] = ()
    predictions: str = "rounded"  # so that some are equal


KINDS = {
    "ne": Kind("ne.NEMetric"),
    "ne-logloss": Kind("ne.NEMetric", {"include_logloss": True}),
    "ne-missing": Kind("ne.NEMetric", {"allow_missing_label_with_zero_weight": True}),
    "ne_positive": Kind("ne_positive.NEPositiveMetric"),
    "recalibrated_ne": Kind("ne_with_recalibration.RecalibratedNEMetric", {"recalibration_coefficient": 0.2}),
    "recalibrated_calibration": Kind(
        "calibration_with_recalibration.RecalibratedCalibrationMetric", {"recalibration_coefficient": 0.2}
    ),
    "ctr": Kind("ctr.CTRMetric"),
    "calibration": Kind("calibration.CalibrationMetric"),
    "mse": Kind("mse.MSEMetric"),
    "mse-real": Kind("mse.MSEMetric", labels="real"),
    "mse-r_squared": Kind("mse.MSEMetric", {"include_r_squared": True}, labels="real"),
    "nmse": Kind("nmse.NMSEMetric"),
    "mae": Kind("mae.MAEMetric"),
    "auc": Kind("auc.AUCMetric", predictions="apart"),
    "auc-bin": Kind("auc.AUCMetric", {"apply_bin": True}, labels="real", predictions="apart"),
    "auc-grouped": Kind("auc.AUCMetric", {"grouped_auc": True}, inputs=("grouping_keys",), predictions="apart"),
    "auprc": Kind("auprc.AUPRCMetric"),
    "auprc-grouped": Kind("auprc.AUPRCMetric", {"grouped_auprc": True}, inputs=("grouping_keys",)),
    "rauc": Kind("rauc.RAUCMetric", labels="real"),
    "rauc-binary": Kind("rauc.RAUCMetric"),
    "rauc-grouped": Kind("rauc.RAUCMetric", {"grouped_rauc": True}, labels="real", inputs=("grouping_keys",)),
    "gauc": Kind("gauc.GAUCMetric", inputs=("num_candidates",), predictions="apart"),
    "accuracy": Kind("accuracy.AccuracyMetric"),
    "accuracy-threshold": Kind("accuracy.AccuracyMetric", {"threshold": 0.6}),
    "precision": Kind("precision.PrecisionMetric"),
    "precision-threshold": Kind("precision.PrecisionMetric", {"threshold": 0.7}),
    "recall": Kind("recall.RecallMetric"),
    "xauc": Kind("xauc.XAUCMetric", labels="real"),
    "xauc-binary": Kind("xauc.XAUCMetric"),
    "scalar": Kind("scalar.ScalarMetric"),
    "output": Kind("output.OutputMetric", inputs=("latest_imp", "total_latest_imp")),
    "weighted_avg": Kind("weighted_avg.WeightedAvgMetric"),
    "average": Kind("average.AverageMetric"),
    "serving_ne": Kind("serving_ne.ServingNEMetric"),
    "serving_calibration": Kind("serving_calibration.ServingCalibrationMetric"),
    "cali_free_ne": Kind("cali_free_ne.CaliFreeNEMetric"),
    "unweighted_ne": Kind("unweighted_ne.UnweightedNEMetric"),
    "hindsight_target_pr": Kind("hindsight_target_pr.HindsightTargetPRMetric"),
    "num_missing_labels": Kind("num_missing_labels.NumMissingLabelsMetric", labels="real"),
    "num_positive_samples": Kind("num_positive_samples.NumPositiveSamplesMetric"),
    "sum_weights": Kind("sum_weights.SumWeightsMetric"),
    "weighted_sum_predictions": Kind("weighted_sum_predictions.WeightedSumPredictionsMetric"),
    "segmented_ne": Kind("segmented_ne.SegmentedNEMetric", {"num_groups": 3}, inputs=("grouping_keys",)),
    "segmented_ne-logloss": Kind(
        "segmented_ne.SegmentedNEMetric", {"num_groups": 3, "include_logloss": True}, inputs=("grouping_keys",)
    ),
    "segmented_ne-named": Kind(
        "segmented_ne.SegmentedNEMetric",
        {"grouping_keys": [{"name": "region", "num_groups": 3}, {"name": "device", "num_groups": 2}]},
        inputs=("region", "device"),
    ),
    "ndcg": Kind("ndcg.NDCGMetric", {"k": 3}, inputs=("session_id",)),
    "ndcg-exponential": Kind("ndcg.NDCGMetric", {"exponential_gain": True}, inputs=("session_id",)),
    "ndcg-increasing": Kind("ndcg.NDCGMetric", {"report_ndcg_as_decreasing_curve": False}, inputs=("session_id",)),
    "ndcg-long": Kind("ndcg.NDCGMetric", {"remove_single_length_sessions": True}, inputs=("session_id",)),
    "ndcg-key": Kind("ndcg.NDCGMetric", {"session_key": "session"}, inputs=("session",)),
    "multiclass_recall": Kind(
        "multiclass_recall.MulticlassRecallMetric", {"number_of_classes": 4}, labels="class", predictions="classes"
    ),
    "tensor_weighted_avg": Kind("tensor_weighted_avg.TensorWeightedAvgMetric", inputs=("target",)),
    "precision_session": Kind("precision_session.PrecisionSessionMetric", inputs=("session",)),
    "multi_label_precision": Kind(
        "multi_label_precision.MultiLabelPrecisionMetric", {"num_labels": 2}, labels="class", predictions="bits"
    ),
    "multi_label_precision-named": Kind(
        "multi_label_precision.MultiLabelPrecisionMetric",
        {"num_labels": 2, "label_names": ["click", "buy"]},
        labels="class",
        predictions="bits",
    ),
    "recall_session": Kind("recall_session.RecallSessionMetric", inputs=("session",)),
}


@dataclass(frozen=True)
class Way:
    """A way of using a metric."""

    tasks: int = 1
    mode: str = "UNFUSED_TASKS_COMPUTATION"
    batches: int = 3
    examples: tuple[int, ...] = (EXAMPLES,)
    window_size: int = 32
    weights: str = "uniform"
    dtype: torch.dtype = torch.float64
    stacked: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


WAYS = {
    "plain": Way(),
    "two-tasks": Way(tasks=2),
    "fused": Way(tasks=2, mode="FUSED_TASKS_COMPUTATION"),
    "fused-stacked": Way(tasks=2, mode="FUSED_TASKS_COMPUTATION", stacked=True),
    "fused-states": Way(tasks=2, mode="FUSED_TASKS_AND_STATES_COMPUTATION"),
    "no-weights": Way(weights="none"),
    "zero-weights": Way(weights="zero"),
    "some-zero-weights": Way(weights="some-zero"),
    "validated": Way(weights="first-zero", options={"should_validate_update": True}),
    "validated-fused": Way(
        tasks=2, mode="FUSED_TASKS_COMPUTATION", weights="first-zero", options={"should_validate_update": True}
    ),
    "joined": Way(options={"fused_update_limit": 2}),
    "joined-fused": Way(tasks=2, mode="FUSED_TASKS_COMPUTATION", options={"fused_update_limit": 2}),
    "long": Way(batches=7, examples=(16, 5, 1)),
    "window-of-one": Way(window_size=1),
    "float32": Way(dtype=torch.float32),
    "many": Way(batches=40, examples=(1, 2)),
    "untouched": Way(batches=0),
    "empty": Way(examples=(0,)),
    "other-rank": Way(options={"my_rank": 1, "world_size": 2}),
    "every-rank": Way(options={"my_rank": 1, "world_size": 2, "compute_on_all_ranks": True}),
}


def tasks_of(library: Any, kind: Kind, count: int) -> list[Any]:
    """The tasks of a metric, named t0, t1, ..."""
    config = library.metrics_config
    session = config.SessionMetricDef("session", 2) if "session" in kind.place else None
    return [
        config.RecTaskInfo(
            name=f"t{at}",
            label_name=f"label{at}",
            prediction_name=f"prediction{at}",
            weight_name=f"weight{at}",
            session_metric_def=session,
            tensor_name="target" if "target" in kind.inputs else None,
        )
        for at in range(count)
    ]


def batch(kind: Kind, way: Way, step: int, salt: str = "") -> dict[str, Any]:
    """The arguments of one update."""
    size = way.examples[step % len(way.examples)]
    names = [f"t{at}" for at in range(way.tasks)]
    given: dict[str, Any] = {
        "predictions": {name: _predictions(kind, f"{salt}{step}{name}", size).to(way.dtype) for name in names},
        "labels": {name: _labels(kind, f"{salt}{step}{name}", size).to(way.dtype) for name in names},
        "weights": {name: _weights(way, step, f"{salt}{step}{name}", size).to(way.dtype) for name in names},
    }
    if way.weights == "none":
        given["weights"] = None
    if way.stacked:
        given = {key: value and torch.stack(list(value.values())) for key, value in given.items()}
    inputs = {name: _input(name, f"{salt}{step}", size, way.dtype) for name in kind.inputs}
    if "num_candidates" in inputs:
        given["num_candidates"] = inputs.pop("num_candidates")
    if inputs:
        given["required_inputs"] = inputs
    return given


def _predictions(kind: Kind, name: str, size: int) -> Tensor:
    if kind.predictions in ("rounded", "apart"):
        values = torch.sigmoid(2 * tensor(f"pred{name}", (size,), torch.float64))
        return values if kind.predictions == "apart" else values.mul(40).round().div(40)
    if kind.predictions == "bits":
        return integers(f"pred{name}", (size,), 4)
    return torch.sigmoid(tensor(f"pred{name}", (size, 4), torch.float64))


def _labels(kind: Kind, name: str, size: int) -> Tensor:
    if kind.labels == "binary":
        return integers(f"label{name}", (size,), 2)
    if kind.labels == "class":
        return integers(f"label{name}", (size,), 4)
    return tensor(f"label{name}", (size,), torch.float64).mul(10).round().div(10)


def _weights(way: Way, step: int, name: str, size: int) -> Tensor:
    weights = (tensor(f"weight{name}", (size,), torch.float64) + 1) / 2
    if way.weights == "zero" or (way.weights == "first-zero" and step == 0):
        return torch.zeros_like(weights)
    return weights * (integers(f"kept{name}", (size,), 2) if way.weights == "some-zero" else 1)


def _input(name: str, salt: str, size: int, dtype: torch.dtype) -> Tensor:
    if name in ("target", "latest_imp", "total_latest_imp"):
        return tensor(f"{name}{salt}", (size,)).to(dtype)
    if name == "num_candidates":
        return torch.tensor([size // 2, size - size // 2])
    return integers(f"{name}{salt}", (size,), {"grouping_keys": 3, "region": 3, "device": 2}.get(name, 4))


def build(library: Any, kind: Kind, way: Way) -> Any:
    """The metric."""
    module, _, name = kind.place.partition(".")
    chosen = {"world_size": 1, "my_rank": 0, "batch_size": EXAMPLES} | kind.options | way.options
    return getattr(getattr(library, module), name)(
        tasks=tasks_of(library, kind, way.tasks),
        compute_mode=getattr(library.metrics_config.RecComputeMode, way.mode),
        window_size=way.window_size,
        **chosen,
    )


def apart(value: Any) -> Any:
    """Values with memory of their own."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, Mapping):
        return {key: apart(one) for key, one in value.items()}
    return [apart(one) for one in value] if isinstance(value, list) else value


def use(library: Any, kind: Kind, way: Way) -> dict[str, Any]:
    """Everything that can be seen of a metric that is used in a way."""
    metric = build(library, kind, way)
    steps = []
    for step in range(way.batches):
        metric.update(**batch(kind, way, step))
        if step != 1:  # of the states before, nothing may be kept
            steps.append(apart(metric.compute()))
    seen = {
        "steps": steps,
        "values": apart(metric.compute()),
        "local": apart(metric.local_compute()),
        "state": apart(dict(metric.state_dict())),
        "inputs": sorted(metric.get_required_inputs()),
    }
    if metric.state_dict():
        again = build(library, kind, way)
        again.load_state_dict(metric.state_dict())
        seen["loaded"] = apart(again.compute())
    metric.reset()
    seen["reset"] = apart(dict(metric.state_dict()))
    if way.batches:
        metric.update(**batch(kind, way, 0))
        seen["anew"] = apart(metric.compute())
    return seen
