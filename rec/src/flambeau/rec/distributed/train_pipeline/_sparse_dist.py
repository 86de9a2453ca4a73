"""Pipelines that send features of the next batch while one is computed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from flambeau.rec.distributed.train_pipeline._base import (
    In,
    ModelDetachedException,
    ModelForward,
    Out,
    Source,
    TrainPipeline,
)
from flambeau.rec.distributed.train_pipeline._pipelined_model import PipelinedModel
from flambeau.rec.distributed.train_pipeline._streams import (
    current_stream,
    keep_for,
    moved,
    new_stream,
    on_stream,
    waited,
)
from flambeau.rec.distributed.train_pipeline.backward_injection import InjectionSite, register_backward_hook
from flambeau.rec.distributed.train_pipeline.pipeline_context import TrainPipelineContext
from flambeau.rec.distributed.train_pipeline.postproc import PipelinedPostproc
from flambeau.rec.distributed.train_pipeline.runtime_forwards import BaseForward, PipelinedForward
from flambeau.rec.distributed.train_pipeline.utils import FutureDeque
from flambeau.rec.distributed.types import ShardedModule

__all__ = ["TrainPipelineSparseDist", "TrainPipelineSparseDistLite"]


class TrainPipelineSparseDist(TrainPipeline[In, Out]):
    """Copies a batch, sends another one's features, and computes a third one at the same time.

    The model's program is read (by `torch.fx`) to find out how the features of each sharded module come from the batch:
    by attributes and entries of it, and, with `pipeline_postproc`, by modules without parameters. Sharded modules that
    get theirs otherwise are computed as always, when the model calls them.

    Args:
        model: gives losses, and an output that is given back; with sharded modules, in a `DistributedModelParallel` or
            not.
        optimizer: of the model.
        device: where the model is.
        execute_all_batches: whether batches that were taken ahead are computed once there are no further ones.
        apply_jit: no effect; upstream compiled the rest of the model by TorchScript.
        context_type: of batches on their way.
        pipeline_postproc: whether modules between the batch and tables are computed ahead.
        custom_model_fwd: called with the batch in place of the model.
        dmp_collection_sync_interval_batches: batches between two times that copies of tables are made equal.
        enqueue_batch_after_forward: whether the next batch is taken after the forward pass, and not before.
        enable_inplace_copy_batch: accepted for upstream's sake; batches are copied as `to` copies them.
        free_features_storage_early: whether features give their memory back once they were sent, where all of them are;
            a batch cannot be used again then.
        clear_data_dist_inputs: likewise.
    """

    _forward_type: type[BaseForward[Any]] = PipelinedForward
    _ahead = 2

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        device: torch.device,
        execute_all_batches: bool = True,
        apply_jit: bool = False,
        context_type: type[TrainPipelineContext] = TrainPipelineContext,
        pipeline_postproc: bool = False,
        custom_model_fwd: ModelForward | None = None,
        dmp_collection_sync_interval_batches: int | None = 1,
        enqueue_batch_after_forward: bool = False,
        enable_inplace_copy_batch: bool = False,
        free_features_storage_early: bool = False,
        clear_data_dist_inputs: bool = False,
    ) -> None:
        self._model, self._optimizer, self._device = model, optimizer, torch.device(device)
        self._execute_all_batches = execute_all_batches
        self._context_type, self._pipeline_postproc = context_type, pipeline_postproc
        self._model_fwd: Any = custom_model_fwd or model
        self._sync_interval = dmp_collection_sync_interval_batches
        self._enqueue_batch_after_forward = enqueue_batch_after_forward
        self._clear_inputs = free_features_storage_early or clear_data_dist_inputs
        self._memcpy_stream = new_stream(self._device)
        self._data_dist_stream = new_stream(self._device)
        self.batches: deque[Any] = FutureDeque()
        self.contexts: deque[Any] = deque()
        self._pipelined: PipelinedModel | None = None
        self._source = Source()
        self._attached = True
        self._count = 0

    # ----- the model --------------------------------------------------------------------------------------------------

    @property
    def _forwards(self) -> list[BaseForward[Any]]:
        return [] if self._pipelined is None else self._pipelined.forwards

    @property
    def _pipelined_modules(self) -> list[ShardedModule[Any, Any, Any, Any]]:
        return [] if self._pipelined is None else self._pipelined.modules

    @property
    def _pipelined_postprocs(self) -> list[PipelinedPostproc]:
        return [] if self._pipelined is None else self._pipelined.postprocs

    def _model_ahead(self) -> PipelinedModel:
        """The model; its program is read when the first batch comes."""
        if self._pipelined is None:
            self._pipelined = PipelinedModel(
                self._model,
                self._forward_type,
                self._context_type,
                self._pipeline_postproc,
                self._data_dist_stream,
                current_stream(self._device),
            )
        return self._pipelined

    def detach(self) -> nn.Module:
        """Give the model back as it was; batches that were taken ahead stay, and are computed after `attach`."""
        if self._pipelined is not None:
            self._pipelined.restore()
        self._attached = False
        return self._model

    def attach(self, model: nn.Module | None = None, sparse_dist: bool = True) -> None:
        """Take the model again, or another one.

        Args:
            model: the other one.
            sparse_dist: whether features of batches that were taken ahead are sent again; else batches are forgotten.
        """
        self._attached = True
        if model is not None:
            if self._model_fwd is self._model:
                self._model_fwd = model
            self._model, self._pipelined = model, None
        elif self._pipelined is not None:
            self._pipelined.install()
        if not sparse_dist:
            self.batches.clear()
            self.contexts.clear()
            return
        for at, context in enumerate(self.contexts):
            self.contexts[at] = self._context_type(index=context.index, version=1)
        if self.batches:
            self._first(self.batches[0], self.contexts[0])

    def _check_attached(self) -> None:
        if not self._attached:
            raise ModelDetachedException("the model was given back by detach(); call attach() first.")

    def reset(self) -> None:
        """Forget batches that were taken ahead."""
        self.batches.clear()
        self.contexts.clear()
        self._source.reset()

    def register_backward_hook(self, site: InjectionSite, work: Callable[[TrainPipeline[Any, Any]], None]) -> None:
        """Do some work during the backward pass, when a gradient arrives.

        Args:
            site: whose gradient; see `backward_injection`.
            work: called with this pipeline.
        """
        register_backward_hook(site, self._model, lambda gradient: work(self))

    # ----- stages -----------------------------------------------------------------------------------------------------

    def _moved(self, batch: Any) -> Any:
        with on_stream(self._memcpy_stream):
            return moved(batch, self._device)

    def copy_batch_to_gpu(self, dataloader_iter: Iterator[In]) -> tuple[Any, TrainPipelineContext | None]:
        """Take the next batch and start to copy it; None at the end."""
        batch: Any = self._source.take(dataloader_iter)
        if batch is None:
            return None, None
        context = self._context_type(index=self._count, version=1)
        self._count += 1
        return self._moved(batch), context

    def inplace_copy_batch_to_gpu(self, dataloader_iter: Iterator[In]) -> tuple[Any, TrainPipelineContext | None]:
        """The same; batches are copied as `to` copies them."""
        return self.copy_batch_to_gpu(dataloader_iter)

    def enqueue_batch(self, dataloader_iter: Iterator[In]) -> bool:
        """Take the next batch; whether there was one."""
        batch, context = self.copy_batch_to_gpu(dataloader_iter)
        if batch is None or context is None:
            return False
        self.batches.append(batch)
        self.contexts.append(context)
        return True

    def dequeue_batch(self) -> None:
        """Forget the batch that was computed."""
        self.batches.popleft()
        self.contexts.popleft()
        if self.contexts:
            self._model_ahead().work_on(self.contexts[0])

    def _first(self, batch: Any, context: TrainPipelineContext) -> None:
        """Send the features of a batch that none is computed before."""
        self._model_ahead().work_on(context)
        self.start_sparse_data_dist(batch, context)
        self.wait_sparse_data_dist(context)

    def fill_pipeline(self, dataloader_iter: Iterator[In]) -> None:
        """Take batches until there are as many as go on at a time, and send the first one's features."""
        if len(self.batches) >= self._ahead or (self.batches and self._execute_all_batches and self._source.exhausted):
            return
        if not self.batches:
            if not self.enqueue_batch(dataloader_iter):
                return
            self._first(self.batches[0], self.contexts[0])
        self.enqueue_batch(dataloader_iter)

    def start_sparse_data_dist(self, batch: Any, context: TrainPipelineContext) -> None:
        """Send how many features each process will get of a batch.

        Args:
            batch: which one; nothing is sent for None.
            context: of it.
        """
        if batch is None:
            return
        with on_stream(self._data_dist_stream):
            waited(self._data_dist_stream, self._memcpy_stream)
            keep_for(batch, self._data_dist_stream)
            self._model_ahead().start(batch, context)

    def wait_sparse_data_dist(self, context: TrainPipelineContext) -> None:
        """Wait until it is known how many features there will be, and send them.

        Args:
            context: of the batch.
        """
        with on_stream(self._data_dist_stream):
            self._model_ahead().wait(context)

    def clear_sparse_data_dist_inputs(self, context: TrainPipelineContext) -> None:
        """Give the memory of features back that have arrived where they were sent."""
        self._model_ahead().clear_inputs(context)

    # ----- a batch ----------------------------------------------------------------------------------------------------

    def _prepared(self, batch: Any) -> None:
        current = current_stream(self._device)
        waited(current, self._memcpy_stream)
        keep_for(batch, current)

    @property
    def _trains(self) -> bool:
        return self._model.training

    def _begin(self, dataloader_iter: Iterator[In]) -> None:
        """Fill the pipeline, let the model compute the first batch, and forget gradients."""
        self._check_attached()
        self.fill_pipeline(dataloader_iter)
        if not self.batches or not self._another_at_hand(dataloader_iter):
            raise StopIteration
        self._model_ahead().work_on(self.contexts[0])
        if self._trains:
            self._optimizer.zero_grad()
        self._prepared(self.batches[0])

    def _another_at_hand(self, dataloader_iter: Iterator[In]) -> bool:
        """Unless batches that are left over are computed, whether two further ones were taken."""
        while not self._execute_all_batches and len(self.batches) < 3:
            if not self.enqueue_batch(dataloader_iter):
                return False
        return True

    def _start_next(self) -> None:
        if len(self.batches) > 1:
            self.start_sparse_data_dist(self.batches[1], self.contexts[1])

    def _wait_next(self) -> None:
        if len(self.batches) > 1:
            self.wait_sparse_data_dist(self.contexts[1])
            if self._clear_inputs:
                self.clear_sparse_data_dist_inputs(self.contexts[1])

    def _forward(self, dataloader_iter: Iterator[In]) -> tuple[torch.Tensor, Any]:
        """The losses and the output of the first batch; the next one is taken meanwhile."""
        if not self._enqueue_batch_after_forward and len(self.batches) < 3:
            self.enqueue_batch(dataloader_iter)
        with torch.profiler.record_function("## forward ##"):
            losses, output = self._model_fwd(self.batches[0])
        if self._enqueue_batch_after_forward and len(self.batches) < 3:
            self.enqueue_batch(dataloader_iter)
        return losses, output

    def _backward(self, losses: torch.Tensor) -> None:
        with torch.profiler.record_function("## backward ##"):
            torch.sum(losses, dim=0).backward()

    def _step(self) -> None:
        self.sync_embeddings(self._model, self._sync_interval, self.contexts[0])
        with torch.profiler.record_function("## optimizer ##"):
            self._optimizer.step()

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """Train on the next batch; see `TrainPipeline.progress`.

        Raises:
            ModelDetachedException: `detach` gave the model back.
            StopIteration: there are no batches left.
        """
        self._begin(dataloader_iter)
        self._start_next()
        losses, output = self._forward(dataloader_iter)
        self._wait_next()
        if self._trains:
            self._backward(losses)
            self._step()
        self.dequeue_batch()
        return output  # type: ignore[no-any-return]


class TrainPipelineSparseDistLite(TrainPipelineSparseDist[In, Out]):
    """Sends the features of the next batch while one is computed, and takes no further one ahead.

    The arguments are those of `TrainPipelineSparseDist`.
    """

    _ahead = 1

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        device: torch.device,
        apply_jit: bool = False,
        context_type: type[TrainPipelineContext] = TrainPipelineContext,
        pipeline_postproc: bool = False,
        custom_model_fwd: ModelForward | None = None,
        enable_inplace_copy_batch: bool = False,
        free_features_storage_early: bool = False,
        clear_data_dist_inputs: bool = False,
    ) -> None:
        super().__init__(
            model,
            optimizer,
            device,
            apply_jit=apply_jit,
            context_type=context_type,
            pipeline_postproc=pipeline_postproc,
            custom_model_fwd=custom_model_fwd,
            enable_inplace_copy_batch=enable_inplace_copy_batch,
            free_features_storage_early=free_features_storage_early,
            clear_data_dist_inputs=clear_data_dist_inputs,
        )

    def fill_pipeline(self, dataloader_iter: Iterator[In]) -> None:
        """Take a batch where there is none, and send its features."""
        if not self.batches and self.enqueue_batch(dataloader_iter):
            self._first(self.batches[0], self.contexts[0])

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """Train on the next batch; see `TrainPipeline.progress`."""
        self._begin(dataloader_iter)
        losses, output = self._model_fwd(self.batches[0])
        self.enqueue_batch(dataloader_iter)
        self._start_next()
        if self._trains:
            self._backward(losses)
            self._step()
        self._wait_next()
        self.dequeue_batch()
        return output  # type: ignore[no-any-return]
