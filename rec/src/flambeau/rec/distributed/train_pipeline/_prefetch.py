"""The pipeline that fetches rows of tables on the host before a batch is computed."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim import Optimizer

from flambeau.rec.distributed.train_pipeline._base import In, ModelForward, Out
from flambeau.rec.distributed.train_pipeline._sparse_dist import TrainPipelineSparseDist
from flambeau.rec.distributed.train_pipeline._streams import current_stream, new_stream, on_stream, waited
from flambeau.rec.distributed.train_pipeline.pipeline_context import PrefetchTrainPipelineContext, TrainPipelineContext
from flambeau.rec.distributed.train_pipeline.runtime_forwards import PrefetchPipelinedForward
from flambeau.rec.distributed.train_pipeline.utils import prefetch_embeddings

__all__ = ["PrefetchTrainPipelineSparseDist"]


class PrefetchTrainPipelineSparseDist(TrainPipelineSparseDist[In, Out]):
    """Also fetches rows of tables on the host for the next batch while one is computed.

    The arguments are those of `TrainPipelineSparseDist`.
    """

    _forward_type = PrefetchPipelinedForward

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        device: torch.device,
        execute_all_batches: bool = True,
        apply_jit: bool = False,
        pipeline_postproc: bool = True,
        custom_model_fwd: ModelForward | None = None,
        enable_inplace_copy_batch: bool = False,
        free_features_storage_early: bool = False,
        clear_data_dist_inputs: bool = False,
    ) -> None:
        super().__init__(
            model,
            optimizer,
            device,
            execute_all_batches,
            apply_jit,
            context_type=PrefetchTrainPipelineContext,
            pipeline_postproc=pipeline_postproc,
            custom_model_fwd=custom_model_fwd,
            enable_inplace_copy_batch=enable_inplace_copy_batch,
            free_features_storage_early=free_features_storage_early,
            clear_data_dist_inputs=clear_data_dist_inputs,
        )
        self._prefetch_stream = new_stream(self._device)

    def wait_sparse_data_dist(self, context: TrainPipelineContext) -> None:
        """Wait for features as well, and fetch their rows."""
        super().wait_sparse_data_dist(context)
        assert isinstance(context, PrefetchTrainPipelineContext)
        if self._clear_inputs:
            self.clear_sparse_data_dist_inputs(context)
        forward_stream = current_stream(self._device)
        with on_stream(self._prefetch_stream), torch.profiler.record_function("## prefetch ##"):
            prefetch_embeddings(
                context,
                self._pipelined_modules,
                self._device,
                on_stream,
                self._data_dist_stream,
                forward_stream,
            )

    def _wait_next(self) -> None:
        if len(self.batches) > 1:
            self.wait_sparse_data_dist(self.contexts[1])

    def _prepared(self, batch: In) -> None:
        super()._prepared(batch)
        waited(current_stream(self._device), self._prefetch_stream)
