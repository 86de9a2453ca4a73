"""Training loops that copy, exchange and compute different batches at the same time."""

from __future__ import annotations

from flambeau.rec.distributed.train_pipeline._base import In, Out
from flambeau.rec.distributed.train_pipeline.gradient_accumulation import (
    GradientAccumulationConfig,
    GradientAccumulationWrapper,
)
from flambeau.rec.distributed.train_pipeline.pipeline_context import TrainPipelineContext
from flambeau.rec.distributed.train_pipeline.pipeline_stage import PipelineStage, SparseDataDistUtil, StageOut
from flambeau.rec.distributed.train_pipeline.tracing import ArgInfoStepFactory, Tracer
from flambeau.rec.distributed.train_pipeline.train_pipelines import (
    EvalPipelineSparseDist,
    PrefetchTrainPipelineSparseDist,
    StagedTrainPipeline,
    TorchCompileConfig,
    TrainPipeline,
    TrainPipelineBase,
    TrainPipelineFusedSparseDist,
    TrainPipelinePT2,
    TrainPipelineSemiSync,
    TrainPipelineSparseDist,
    TrainPipelineSparseDistCompAutograd,
    TrainPipelineSparseDistLite,
)
from flambeau.rec.distributed.train_pipeline.types import ArgInfo, CallArgs
from flambeau.rec.distributed.train_pipeline.utils import DataLoadingThread

__all__ = [
    "ArgInfo",
    "ArgInfoStepFactory",
    "CallArgs",
    "DataLoadingThread",
    "EvalPipelineSparseDist",
    "GradientAccumulationConfig",
    "GradientAccumulationWrapper",
    "In",
    "Out",
    "PipelineStage",
    "PrefetchTrainPipelineSparseDist",
    "SparseDataDistUtil",
    "StageOut",
    "StagedTrainPipeline",
    "TorchCompileConfig",
    "Tracer",
    "TrainPipeline",
    "TrainPipelineBase",
    "TrainPipelineContext",
    "TrainPipelineFusedSparseDist",
    "TrainPipelinePT2",
    "TrainPipelineSemiSync",
    "TrainPipelineSparseDist",
    "TrainPipelineSparseDistCompAutograd",
    "TrainPipelineSparseDistLite",
]
