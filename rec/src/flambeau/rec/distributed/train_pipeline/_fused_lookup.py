"""Pipelines that look up a batch on a stream of its own, while an optimizer trains the rest of the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from flambeau.rec.distributed.train_pipeline._base import In, ModelForward, Out
from flambeau.rec.distributed.train_pipeline._sparse_dist import TrainPipelineSparseDist
from flambeau.rec.distributed.train_pipeline._streams import current_stream, keep_for, new_stream, on_stream, waited
from flambeau.rec.distributed.train_pipeline.pipeline_context import EmbeddingTrainPipelineContext
from flambeau.rec.distributed.train_pipeline.runtime_forwards import (
    InSyncEmbeddingPipelinedForward,
    averages_gradients,
)
from flambeau.rec.errors import OptionError

__all__ = ["EvalPipelineFusedSparseDist", "TrainPipelineFusedSparseDist"]

_STREAMS = ("data_dist", "current", "new")


class UnknownStreamError(OptionError, RuntimeError):
    """A stream that a pipeline does not have; a RuntimeError as well, which is what upstream raises."""


class TrainPipelineFusedSparseDist(TrainPipelineSparseDist[In, Out]):
    """Looks up a batch as soon as the backward pass of the one before it has trained the tables.

    On an accelerator this overlaps with the optimizer of other parameters. Losses are those of the plain loop.

    Args:
        model: as in `TrainPipelineSparseDist`, as are those that are not named here.
        optimizer: of parameters that kernels do not train.
        device: where the model is.
        execute_all_batches: whether batches that were taken ahead are computed once there are no further ones.
        apply_jit: no effect.
        pipeline_postproc: whether modules between the batch and tables are computed ahead.
        custom_model_fwd: called with the batch in place of the model.
        strict: whether a sharded module whose features cannot be sent ahead is an error.
        emb_lookup_stream: on which look-ups are made: "data_dist", that of the features; "current", that of the model;
            "new", one of their own.
        embedding_lookup_after_data_dist: whether the next batch's features are sent before this one is looked up.
        enable_inplace_copy_batch: accepted for upstream's sake.
        enqueue_batch_after_forward: whether the next batch is taken after the forward pass, and not before.
        free_features_storage_early: whether features give their memory back once they were sent.
        clear_data_dist_inputs: likewise.
    """

    _forward_type = InSyncEmbeddingPipelinedForward

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        device: torch.device,
        execute_all_batches: bool = True,
        apply_jit: bool = False,
        pipeline_postproc: bool = True,
        custom_model_fwd: ModelForward | None = None,
        strict: bool = False,
        emb_lookup_stream: str = "data_dist",
        embedding_lookup_after_data_dist: bool = False,
        enable_inplace_copy_batch: bool = False,
        enqueue_batch_after_forward: bool = False,
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
            enqueue_batch_after_forward=enqueue_batch_after_forward,
            enable_inplace_copy_batch=enable_inplace_copy_batch,
            free_features_storage_early=free_features_storage_early,
            clear_data_dist_inputs=clear_data_dist_inputs,
        )
        if emb_lookup_stream not in _STREAMS:
            raise UnknownStreamError(f"emb_lookup_stream is {emb_lookup_stream!r}; choose one of {list(_STREAMS)}.")
        self._strict, self._lookup_after_data_dist = strict, embedding_lookup_after_data_dist
        self._emb_lookup_stream = (
            self._data_dist_stream if emb_lookup_stream == "data_dist"
            else current_stream(self._device) if emb_lookup_stream == "current"
            else new_stream(self._device)
        )  # fmt: skip
        self._tables_trained: Any = None

    def _first(self, batch: Any, context: Any) -> None:
        super()._first(batch, context)
        if self._strict:
            self._model_ahead().check_complete()

    def start_embedding_lookup(self, batch: Any, context: EmbeddingTrainPipelineContext) -> None:
        """Look up the rows of a batch whose features were sent, and start to send them back.

        Args:
            batch: which one; nothing is done for None.
            context: of it.
        """
        if batch is None:
            return
        stream = self._emb_lookup_stream
        with on_stream(stream), torch.profiler.record_function("## start_embedding_lookup ##"):
            waited(stream, self._data_dist_stream)
            if self._tables_trained is not None and not any(averages_gradients(one) for one in self._forwards):
                stream.wait_event(self._tables_trained)
            else:
                waited(stream, current_stream(self._device))
            keep_for(batch, stream)
            for forward in self._forwards:
                if forward.name not in context.embedding_a2a_requests:
                    context.embedding_a2a_requests[forward.name] = forward._looked_up(context)

    def wait_embedding_lookup(self) -> None:
        """Have the model wait for what was looked up."""
        waited(current_stream(self._device), self._emb_lookup_stream)

    def _looked_up(self) -> None:
        """Look up the first batch, and send the features of the second one."""
        if self._lookup_after_data_dist:
            self._start_next()
        self.start_embedding_lookup(self.batches[0], self.contexts[0])
        if not self._lookup_after_data_dist:
            self._start_next()
        self.wait_embedding_lookup()

    def _backward(self, losses: torch.Tensor) -> None:
        super()._backward(losses)
        if self._device.type == "cuda":
            self._tables_trained = torch.cuda.current_stream(self._device).record_event()

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """Train on the next batch; see `TrainPipeline.progress`."""
        self._begin(dataloader_iter)
        self._looked_up()
        losses, output = self._forward(dataloader_iter)
        self._wait_next()
        if self._trains:
            self._backward(losses)
            self._step()
        self.dequeue_batch()
        return output  # type: ignore[no-any-return]


class EvalPipelineFusedSparseDist(TrainPipelineFusedSparseDist[In, Out]):
    """Computes outputs without training, with look-ups on a stream of their own.

    Args:
        args: those of `TrainPipelineFusedSparseDist`; the optimizer is not used.
        enable_embedding_lookup_prefetch: whether a batch is looked up while the one before it is computed; results of
            two batches are kept at a time then.
        kwargs: likewise.
    """

    def __init__(self, *args: Any, enable_embedding_lookup_prefetch: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lookup_prefetch = enable_embedding_lookup_prefetch

    @property
    def _trains(self) -> bool:
        return False

    def fill_pipeline(self, dataloader_iter: Iterator[In]) -> None:
        """Take batches until there are as many as go on at a time, and send the first one's features."""
        with torch.no_grad():
            super().fill_pipeline(dataloader_iter)

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """The output of the next batch; see `TrainPipeline.progress`."""
        with torch.no_grad():
            self._begin(dataloader_iter)
            self._looked_up()
            _, output = self._forward(dataloader_iter)
            self._wait_next()
            if self._lookup_prefetch and len(self.batches) > 1:
                self.start_embedding_lookup(self.batches[1], self.contexts[1])
            self.dequeue_batch()
        return output  # type: ignore[no-any-return]
