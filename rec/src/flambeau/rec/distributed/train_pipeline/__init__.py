"""Training loops that copy, exchange and compute different batches at the same time."""

from __future__ import annotations

from flambeau.rec.distributed.train_pipeline.gradient_accumulation import (
    GradientAccumulationConfig,
    GradientAccumulationWrapper,
)
from flambeau.rec.distributed.train_pipeline.tracing import Tracer
from flambeau.rec.distributed.train_pipeline.train_pipelines import (
    EvalPipelineSparseDist,
    PrefetchTrainPipelineSparseDist,
    TrainPipeline,
    TrainPipelineBase,
    TrainPipelineSparseDist,
    TrainPipelineSparseDistLite,
)
from flambeau.rec.distributed.train_pipeline.utils import DataLoadingThread

__all__ = [
    "DataLoadingThread",
    "EvalPipelineSparseDist",
    "GradientAccumulationConfig",
    "GradientAccumulationWrapper",
    "PrefetchTrainPipelineSparseDist",
    "Tracer",
    "TrainPipeline",
    "TrainPipelineBase",
    "TrainPipelineSparseDist",
    "TrainPipelineSparseDistLite",
]
