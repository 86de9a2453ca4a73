"""What is to be measured: tasks, metrics, windows, and how often values are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from flambeau.rec.errors import OptionError
from flambeau.rec.metrics.metrics_namespace import StrValueMixin

__all__ = [
    "BatchSizeStage",
    "DefaultMetricsConfig",
    "DefaultTaskInfo",
    "EmptyMetricsConfig",
    "MetricsConfig",
    "RecComputeMode",
    "RecMetricDef",
    "RecMetricEnum",
    "RecMetricEnumBase",
    "RecTaskInfo",
    "SessionMetricDef",
    "StateMetricEnum",
    "ThroughputDef",
    "validate_batch_size_stages",
]


class RecMetricEnumBase(StrValueMixin, Enum):
    """Kinds of metrics; derive from it to add your own."""


class RecMetricEnum(RecMetricEnumBase):
    """Kinds of metrics that there are."""

    NE = "ne"
    NE_POSITIVE = "ne_positive"
    RECALIBRATED_NE = "recalibrated_ne"
    RECALIBRATED_CALIBRATION = "recalibrated_calibration"
    SEGMENTED_NE = "segmented_ne"
    LOG_LOSS = "log_loss"
    CTR = "ctr"
    AUC = "auc"
    AUPRC = "auprc"
    RAUC = "rauc"
    CALIBRATION = "calibration"
    MSE = "mse"
    MAE = "mae"
    MULTICLASS_RECALL = "multiclass_recall"
    RECALL_SESSION_LEVEL = "recall_session_level"
    PRECISION_SESSION_LEVEL = "precision_session_level"
    WEIGHTED_AVG = "weighted_avg"
    TOWER_QPS = "tower_qps"
    ACCURACY = "accuracy"
    NDCG = "ndcg"
    XAUC = "xauc"
    SCALAR = "scalar"
    PRECISION = "precision"
    RECALL = "recall"
    SERVING_NE = "serving_ne"
    SERVING_CALIBRATION = "serving_calibration"
    SERVING_AE_LOSS = "serving_ae_loss"
    OUTPUT = "output"
    TENSOR_WEIGHTED_AVG = "tensor_weighted_avg"
    CALI_FREE_NE = "cali_free_ne"
    UNWEIGHTED_NE = "unweighted_ne"
    HINDSIGHT_TARGET_PR = "hindsight_target_pr"
    NMSE = "nmse"
    AVERAGE = "average"
    MULTI_LABEL_PRECISION = "multi_label_precision"
    NUM_POSITIVE_SAMPLES = "num_positive_samples"
    SUM_WEIGHTS = "sum_weights"
    NUM_MISSING_LABELS = "num_missing_labels"
    WEIGHTED_SUM_PREDICTIONS = "weighted_sum_predictions"


@dataclass(unsafe_hash=True)
class SessionMetricDef:
    """How a metric within sessions is computed.

    Attributes:
        session_var_name: key of the model's outputs that says of each example which session it belongs to; -1 is none.
        top_threshold: how many of a session's examples with the highest predictions count as predicted positive.
        run_ranking_of_labels: the labels are ranked by the same rule first, and the top ones are the positive ones.
    """

    session_var_name: str
    top_threshold: int | None = None
    run_ranking_of_labels: bool = False


@dataclass(unsafe_hash=True)
class RecTaskInfo:
    """A task of the model, and where its labels, predictions and weights stand among the model's outputs.

    Attributes:
        name: of the task, part of its values' keys.
        label_name: key of the labels.
        prediction_name: key of the predictions.
        weight_name: key of the examples' weights; "" is none.
        session_metric_def: for metrics within sessions.
        is_negative_task: lower predictions are better; NDCG ranks by the rest up to 1.
        tensor_name: key of the values that `tensor_weighted_avg` averages.
        weighted: whether that average goes by the weights.
    """

    name: str = "DefaultTask"
    label_name: str = "label"
    prediction_name: str = "prediction"
    weight_name: str = "weight"
    session_metric_def: SessionMetricDef | None = None
    is_negative_task: bool = False
    tensor_name: str | None = None
    weighted: bool = True


class RecComputeMode(Enum):
    """How the tasks of a metric are computed.

    FUSED_TASKS_COMPUTATION: all at once, as rows of one tensor; every task must have as many examples.
    UNFUSED_TASKS_COMPUTATION: one after another.
    FUSED_TASKS_AND_STATES_COMPUTATION: all at once, and their states as rows of one tensor too.
    """

    FUSED_TASKS_COMPUTATION = 1
    UNFUSED_TASKS_COMPUTATION = 2
    FUSED_TASKS_AND_STATES_COMPUTATION = 3


_WINDOW_SIZE = 10_000_000
_THROUGHPUT_WINDOW_SECONDS = 100
_THROUGHPUT_WARMUP_STEPS = 100


@dataclass
class RecMetricDef:
    """How one kind of metric is computed.

    Attributes:
        rec_tasks: its tasks.
        rec_task_indices: or, if that is empty, their places among the tasks of `MetricsConfig`.
        window_size: examples of all ranks together that window values are of.
        arguments: passed to the metric by name.
    """

    rec_tasks: list[RecTaskInfo] = field(default_factory=list)
    rec_task_indices: list[int] = field(default_factory=list)
    window_size: int = _WINDOW_SIZE
    arguments: dict[str, Any] | None = None


class StateMetricEnum(StrValueMixin, Enum):
    """Kinds of values that other parts of a training loop report along with the metrics."""

    OPTIMIZERS = "optimizers"
    MODEL_CONFIGURATOR = "model_configurator"


@dataclass
class ThroughputDef:
    """How throughput is measured.

    Attributes:
        window_size: seconds that the window value is of.
        warmup_steps: steps before the clock starts.
    """

    window_size: int = _THROUGHPUT_WINDOW_SECONDS
    warmup_steps: int = _THROUGHPUT_WARMUP_STEPS


@dataclass
class BatchSizeStage:
    """One stage of a schedule of batch sizes.

    Attributes:
        batch_size: examples of a batch on each rank.
        max_iters: how many batches the stage lasts; None for the last one.
    """

    batch_size: int = 0
    max_iters: int | None = 0


def validate_batch_size_stages(batch_size_stages: Sequence[BatchSizeStage] | None) -> None:
    """Check a schedule of batch sizes; None and an empty one are none.

    Raises:
        ValueError: the last stage ends, or one before it has no end.
    """
    if not batch_size_stages:
        return
    last = batch_size_stages[-1]
    if last.max_iters is not None:
        raise OptionError(
            f"The last of batch_size_stages has max_iters={last.max_iters}; it must be None: it never ends."
        )
    for at, stage in enumerate(batch_size_stages[:-1]):
        if stage.max_iters is None:
            raise OptionError(f"batch_size_stages[{at}] has max_iters=None, which only the last stage may have.")


@dataclass
class MetricsConfig:
    """All that is to be measured.

    Attributes:
        rec_tasks: the model's tasks.
        rec_metrics: the metrics, by kind.
        throughput_metric: measure throughput, if given.
        rec_compute_mode: how the tasks of a metric are computed.
        fused_update_limit: join up to this many batches before the metrics see them; 0 joins none.
        state_metrics: values of other parts to report along.
        compute_interval_steps: batches from one computation to the next.
        min_compute_interval: seconds between two computations at least; the steps are adjusted to it.
        max_compute_interval: at most.
        compute_on_all_ranks: every rank gets the values, not only rank 0.
        should_validate_update: leave out batches whose weights are all zero.
        enable_pt2_compile: compile the updates of states.
        should_clone_update_inputs: copy what an update is given, for inputs whose memory is used again.
        use_cpu_offloaded_rec_metric_module: ask for `CPUOffloadedRecMetricModule`; whoever builds the module reads it.

    Raises:
        ValueError: a metric's task is none of `rec_tasks`, or an interval is negative.
    """

    rec_tasks: list[RecTaskInfo] = field(default_factory=list)
    rec_metrics: dict[RecMetricEnum, RecMetricDef] = field(default_factory=dict)
    throughput_metric: ThroughputDef | None = None
    rec_compute_mode: RecComputeMode = RecComputeMode.UNFUSED_TASKS_COMPUTATION
    fused_update_limit: int = 0
    state_metrics: list[StateMetricEnum] = field(default_factory=list)
    compute_interval_steps: int = 100
    min_compute_interval: float = 0.0
    max_compute_interval: float = float("inf")
    compute_on_all_ranks: bool = False
    should_validate_update: bool = False
    enable_pt2_compile: bool = False
    should_clone_update_inputs: bool = False
    use_cpu_offloaded_rec_metric_module: bool | None = None

    def __post_init__(self) -> None:
        for kind, definition in self.rec_metrics.items():
            for at in definition.rec_task_indices:
                if not 0 <= at < len(self.rec_tasks):
                    raise OptionError(
                        f"rec_task_indices of {kind} has {at}, but there are {len(self.rec_tasks)} rec_tasks; give "
                        f"indices below that."
                    )
        if self.min_compute_interval < 0.0:
            raise OptionError(f"min_compute_interval is {self.min_compute_interval}; expected 0 seconds or more.")
        if self.max_compute_interval < 0.0:
            raise OptionError(f"max_compute_interval is {self.max_compute_interval}; expected 0 seconds or more.")


DefaultTaskInfo = RecTaskInfo(
    name="DefaultTask", label_name="label", prediction_name="prediction", weight_name="weight"
)

DefaultMetricsConfig = MetricsConfig(
    rec_tasks=[DefaultTaskInfo],
    rec_metrics={RecMetricEnum.NE: RecMetricDef(rec_tasks=[DefaultTaskInfo])},
    throughput_metric=ThroughputDef(),
)

EmptyMetricsConfig = MetricsConfig()
