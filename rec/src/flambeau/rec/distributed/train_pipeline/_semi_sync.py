"""The pipeline that looks up a batch before tables have learned from the one before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from flambeau.rec.distributed.train_pipeline._base import In, ModelForward, Out
from flambeau.rec.distributed.train_pipeline._sparse_dist import TrainPipelineSparseDist
from flambeau.rec.distributed.train_pipeline._streams import current_stream, keep_for, new_stream, on_stream, waited
from flambeau.rec.distributed.train_pipeline.pipeline_context import EmbeddingTrainPipelineContext, TrainPipelineContext
from flambeau.rec.distributed.train_pipeline.runtime_forwards import (
    EmbeddingPipelinedForward,
    averages_gradients,
)

__all__ = ["TrainPipelineSemiSync"]


class TrainPipelineSemiSync(TrainPipelineSparseDist[In, Out]):
    """Looks up the next batch's rows while one is computed, so that their exchange overlaps with all computation.

    From batch `start_batch` on, rows are those that the batch before has not changed yet: training is on parameters
    that are one step old. Until then, losses are those of the plain loop. Modules with data-parallel tables are looked
    up in time, always.

    Args:
        model: as in `TrainPipelineSparseDist`, as are those that are not named here.
        optimizer: of parameters that kernels do not train.
        device: where the model is.
        execute_all_batches: whether batches that were taken ahead are computed once there are no further ones.
        apply_jit: no effect.
        start_batch: the first batch whose successor is looked up early.
        stash_gradients: whether the optimizer, too, makes the step of a batch after the next one was computed.
        pipeline_postproc: whether modules between the batch and tables are computed ahead.
        custom_model_fwd: called with the batch in place of the model.
        strict: whether a sharded module whose features cannot be sent ahead is an error.
        dmp_collection_sync_interval_batches: batches between two times that copies of tables are made equal.
        enable_inplace_copy_batch: accepted for upstream's sake.
        free_features_storage_early: whether features give their memory back once they were sent.
        clear_data_dist_inputs: likewise.
    """

    _forward_type = EmbeddingPipelinedForward
    _ahead = 3

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        device: torch.device,
        execute_all_batches: bool = True,
        apply_jit: bool = False,
        start_batch: int = 900,
        stash_gradients: bool = False,
        pipeline_postproc: bool = True,
        custom_model_fwd: ModelForward | None = None,
        strict: bool = False,
        dmp_collection_sync_interval_batches: int | None = 1,
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
            EmbeddingTrainPipelineContext,
            pipeline_postproc,
            custom_model_fwd,
            dmp_collection_sync_interval_batches,
            enable_inplace_copy_batch=enable_inplace_copy_batch,
            free_features_storage_early=free_features_storage_early,
            clear_data_dist_inputs=clear_data_dist_inputs,
        )
        self._start_batch, self._stash_gradients, self._strict = start_batch, stash_gradients, strict
        self._embedding_stream = new_stream(self._device)
        self._stashed: dict[torch.Tensor, torch.Tensor] = {}

    def is_semi_sync(self) -> bool:
        """Whether the batch after the one that is computed is looked up before tables have learned from it."""
        return bool(self.contexts) and self.contexts[0].index >= self._start_batch

    def extract_model_input_from_batch(self, batch: In) -> Any:
        """What the model is called with: the batch, unless a subclass says otherwise."""
        return batch

    # ----- stages -----------------------------------------------------------------------------------------------------

    def _first(self, batch: Any, context: TrainPipelineContext) -> None:
        super()._first(batch, context)
        if self._strict:
            self._model_ahead().check_complete()
        assert isinstance(context, EmbeddingTrainPipelineContext)
        self.start_embedding_lookup(batch, context)

    def fill_pipeline(self, dataloader_iter: Iterator[In]) -> None:
        """Take batches until there are three, look up the first one's rows, and send the second one's features."""
        if not self.batches and self.enqueue_batch(dataloader_iter):
            self._first(self.batches[0], self.contexts[0])
        if len(self.batches) == 1 and self.enqueue_batch(dataloader_iter):
            self.start_sparse_data_dist(self.batches[1], self.contexts[1])
            self.wait_sparse_data_dist(self.contexts[1])
        if len(self.batches) == 2:
            self.enqueue_batch(dataloader_iter)

    def start_embedding_lookup(self, batch: Any, context: EmbeddingTrainPipelineContext) -> None:
        """Look up the rows of a batch whose features were sent, and start to send them back.

        Args:
            batch: which one; nothing is done for None.
            context: of it.
        """
        if batch is None:
            return
        with on_stream(self._embedding_stream), torch.profiler.record_function("## start_embedding_lookup ##"):
            waited(self._embedding_stream, self._data_dist_stream)
            waited(self._embedding_stream, current_stream(self._device))
            keep_for(batch, self._embedding_stream)
            for forward in self._forwards:
                if not averages_gradients(forward):
                    context.embedding_a2a_requests[forward.name] = forward._looked_up(context)

    def embedding_backward(self, context: EmbeddingTrainPipelineContext) -> None:
        """Hand gradients of what the model was given on to the tables.

        Args:
            context: of the batch whose backward pass the model made.
        """
        pairs = zip(context.embedding_tensors, context.detached_embedding_tensors, strict=True)
        for tensors, detached in pairs:
            arrived = [(one, copy.grad) for one, copy in zip(tensors, detached, strict=True) if copy.grad is not None]
            if arrived:
                torch.autograd.backward([one for one, _ in arrived], [grad for _, grad in arrived])
        context.embedding_tensors.clear()
        context.embedding_features.clear()
        context.detached_embedding_tensors.clear()

    # ----- a batch ----------------------------------------------------------------------------------------------------

    def _stashing_step(self) -> None:
        """Make the step of the batch before, and keep this one's gradients for the next time."""
        params = [param for group in self._optimizer.param_groups for param in group["params"]]
        mine = {param: param.grad.clone() for param in params if param.grad is not None}
        for param in mine:
            param.grad = self._stashed.get(param)
        self._step()
        self._stashed = mine

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """Train on the next batch; see `TrainPipeline.progress`."""
        self._begin(dataloader_iter)
        waited(current_stream(self._device), self._embedding_stream)
        early = self.is_semi_sync()
        if len(self.batches) > 2:
            self.start_sparse_data_dist(self.batches[2], self.contexts[2])
        if early and len(self.batches) > 1:
            self.start_embedding_lookup(self.batches[1], self.contexts[1])
        with torch.profiler.record_function("## forward ##"):
            losses, output = self._model_fwd(self.extract_model_input_from_batch(self.batches[0]))
        if len(self.batches) > 2:
            self.wait_sparse_data_dist(self.contexts[2])
        if self._trains:
            self._backward(losses)
            self.embedding_backward(self.contexts[0])
            if early and self._stash_gradients:
                self._stashing_step()
            else:
                self._step()
        if not early and len(self.batches) > 1:
            self.start_embedding_lookup(self.batches[1], self.contexts[1])
        self.dequeue_batch()
        self.enqueue_batch(dataloader_iter)
        return output  # type: ignore[no-any-return]
