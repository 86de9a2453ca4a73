"""Training loops in which different batches are copied, exchanged and computed at the same time.

All of them give, batch for batch, the losses of the plain loop::

    optimizer.zero_grad()
    losses, output = model(batch)
    torch.sum(losses, dim=0).backward()
    optimizer.step()

as what is sent ahead are ids, which do not depend on parameters; `TrainPipelineSemiSync` says when it differs. On an
accelerator each stage has a stream of its own; on the CPU, exchanges between processes go on while a batch is computed.
"""

from __future__ import annotations

from flambeau.rec.distributed.train_pipeline._base import ModelDetachedException, TrainPipeline, TrainPipelineBase
from flambeau.rec.distributed.train_pipeline._compiled import (
    TorchCompileConfig,
    TrainPipelinePT2,
    TrainPipelineSparseDistCompAutograd,
)
from flambeau.rec.distributed.train_pipeline._evaluation import EvalPipelineSparseDist
from flambeau.rec.distributed.train_pipeline._fused_lookup import (
    EvalPipelineFusedSparseDist,
    TrainPipelineFusedSparseDist,
)
from flambeau.rec.distributed.train_pipeline._prefetch import PrefetchTrainPipelineSparseDist
from flambeau.rec.distributed.train_pipeline._semi_sync import TrainPipelineSemiSync
from flambeau.rec.distributed.train_pipeline._sparse_dist import TrainPipelineSparseDist, TrainPipelineSparseDistLite
from flambeau.rec.distributed.train_pipeline._staged import StagedTrainPipeline

TYPE_CHECKING = False

__all__ = [
    "EvalPipelineFusedSparseDist",
    "EvalPipelineSparseDist",
    "ModelDetachedException",
    "PrefetchTrainPipelineSparseDist",
    "StagedTrainPipeline",
    "TorchCompileConfig",
    "TrainPipeline",
    "TrainPipelineBase",
    "TrainPipelineFusedSparseDist",
    "TrainPipelinePT2",
    "TrainPipelineSemiSync",
    "TrainPipelineSparseDist",
    "TrainPipelineSparseDistCompAutograd",
    "TrainPipelineSparseDistLite",
]
