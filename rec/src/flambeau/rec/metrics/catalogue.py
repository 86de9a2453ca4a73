"""The metrics that there are, by kind; `register_metric` adds to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flambeau.core.registry import Registry
from flambeau.rec.metrics.accuracy import AccuracyMetric
from flambeau.rec.metrics.auc import AUCMetric
from flambeau.rec.metrics.auprc import AUPRCMetric
from flambeau.rec.metrics.average import AverageMetric
from flambeau.rec.metrics.cali_free_ne import CaliFreeNEMetric
from flambeau.rec.metrics.calibration import CalibrationMetric
from flambeau.rec.metrics.calibration_with_recalibration import RecalibratedCalibrationMetric
from flambeau.rec.metrics.ctr import CTRMetric
from flambeau.rec.metrics.gauc import GAUCMetric
from flambeau.rec.metrics.hindsight_target_pr import HindsightTargetPRMetric
from flambeau.rec.metrics.mae import MAEMetric
from flambeau.rec.metrics.metrics_config import RecMetricEnum, RecMetricEnumBase
from flambeau.rec.metrics.mse import MSEMetric
from flambeau.rec.metrics.multi_label_precision import MultiLabelPrecisionMetric
from flambeau.rec.metrics.multiclass_recall import MulticlassRecallMetric
from flambeau.rec.metrics.ndcg import NDCGMetric
from flambeau.rec.metrics.ne import NEMetric
from flambeau.rec.metrics.ne_positive import NEPositiveMetric
from flambeau.rec.metrics.ne_with_recalibration import RecalibratedNEMetric
from flambeau.rec.metrics.nmse import NMSEMetric
from flambeau.rec.metrics.num_missing_labels import NumMissingLabelsMetric
from flambeau.rec.metrics.num_positive_samples import NumPositiveSamplesMetric
from flambeau.rec.metrics.output import OutputMetric
from flambeau.rec.metrics.precision import PrecisionMetric
from flambeau.rec.metrics.precision_session import PrecisionSessionMetric
from flambeau.rec.metrics.rauc import RAUCMetric
from flambeau.rec.metrics.rec_metric import RecMetric
from flambeau.rec.metrics.recall import RecallMetric
from flambeau.rec.metrics.recall_session import RecallSessionMetric
from flambeau.rec.metrics.scalar import ScalarMetric
from flambeau.rec.metrics.segmented_ne import SegmentedNEMetric
from flambeau.rec.metrics.serving_calibration import ServingCalibrationMetric
from flambeau.rec.metrics.serving_ne import ServingNEMetric
from flambeau.rec.metrics.sum_weights import SumWeightsMetric
from flambeau.rec.metrics.tensor_weighted_avg import TensorWeightedAvgMetric
from flambeau.rec.metrics.tower_qps import TowerQPSMetric
from flambeau.rec.metrics.unweighted_ne import UnweightedNEMetric
from flambeau.rec.metrics.weighted_avg import WeightedAvgMetric
from flambeau.rec.metrics.weighted_sum_predictions import WeightedSumPredictionsMetric
from flambeau.rec.metrics.xauc import XAUCMetric

__all__ = ["METRICS", "REC_METRICS_MAPPING", "register_metric"]

MetricClass = TypeVar("MetricClass", bound=type[RecMetric])

METRICS = Registry("metrics")
"""All metrics by name, `rec/ne` and so on."""

REC_METRICS_MAPPING: dict[RecMetricEnumBase, type[RecMetric]] = {
    RecMetricEnum.NE: NEMetric,
    RecMetricEnum.NE_POSITIVE: NEPositiveMetric,
    RecMetricEnum.SEGMENTED_NE: SegmentedNEMetric,
    RecMetricEnum.RECALIBRATED_NE: RecalibratedNEMetric,
    RecMetricEnum.RECALIBRATED_CALIBRATION: RecalibratedCalibrationMetric,
    RecMetricEnum.CTR: CTRMetric,
    RecMetricEnum.CALIBRATION: CalibrationMetric,
    RecMetricEnum.AUC: AUCMetric,
    RecMetricEnum.AUPRC: AUPRCMetric,
    RecMetricEnum.RAUC: RAUCMetric,
    RecMetricEnum.MSE: MSEMetric,
    RecMetricEnum.MAE: MAEMetric,
    RecMetricEnum.MULTICLASS_RECALL: MulticlassRecallMetric,
    RecMetricEnum.WEIGHTED_AVG: WeightedAvgMetric,
    RecMetricEnum.TOWER_QPS: TowerQPSMetric,
    RecMetricEnum.RECALL_SESSION_LEVEL: RecallSessionMetric,
    RecMetricEnum.PRECISION_SESSION_LEVEL: PrecisionSessionMetric,
    RecMetricEnum.ACCURACY: AccuracyMetric,
    RecMetricEnum.NDCG: NDCGMetric,
    RecMetricEnum.XAUC: XAUCMetric,
    RecMetricEnum.SCALAR: ScalarMetric,
    RecMetricEnum.PRECISION: PrecisionMetric,
    RecMetricEnum.RECALL: RecallMetric,
    RecMetricEnum.SERVING_NE: ServingNEMetric,
    RecMetricEnum.SERVING_CALIBRATION: ServingCalibrationMetric,
    RecMetricEnum.OUTPUT: OutputMetric,
    RecMetricEnum.TENSOR_WEIGHTED_AVG: TensorWeightedAvgMetric,
    RecMetricEnum.CALI_FREE_NE: CaliFreeNEMetric,
    RecMetricEnum.UNWEIGHTED_NE: UnweightedNEMetric,
    RecMetricEnum.HINDSIGHT_TARGET_PR: HindsightTargetPRMetric,
    RecMetricEnum.NMSE: NMSEMetric,
    RecMetricEnum.AVERAGE: AverageMetric,
    RecMetricEnum.MULTI_LABEL_PRECISION: MultiLabelPrecisionMetric,
    RecMetricEnum.NUM_MISSING_LABELS: NumMissingLabelsMetric,
    RecMetricEnum.WEIGHTED_SUM_PREDICTIONS: WeightedSumPredictionsMetric,
    RecMetricEnum.NUM_POSITIVE_SAMPLES: NumPositiveSamplesMetric,
    RecMetricEnum.SUM_WEIGHTS: SumWeightsMetric,
}
"""The metrics by kind, as `MetricsConfig.rec_metrics` names them."""


def register_metric(kind: RecMetricEnumBase) -> Callable[[MetricClass], MetricClass]:
    """Add a metric of one's own, so that a `MetricsConfig` can name it.

    Args:
        kind: a member of an enum derived from `RecMetricEnumBase`.

    Returns:
        A decorator of a class derived from `RecMetric`, which it returns.

    Raises:
        DuplicateNameError: there is another metric of this name.

    Example:
        >>> class MyKinds(RecMetricEnumBase):
        ...     CLICKS = "clicks"
        >>> @register_metric(MyKinds.CLICKS)
        ... class Clicks(NEMetric):
        ...     pass
        >>> METRICS.resolve("clicks") is REC_METRICS_MAPPING[MyKinds.CLICKS]
        True
    """

    def add(metric: MetricClass) -> MetricClass:
        METRICS.register(str(kind), metric)
        REC_METRICS_MAPPING[kind] = metric
        return metric

    return add


for _kind, _metric in REC_METRICS_MAPPING.items():
    METRICS.register(str(_kind), _metric, plugin="rec")
METRICS.register("gauc", GAUCMetric, plugin="rec")
