"""Stages of a `StagedTrainPipeline`, and those that send features and look up tables."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn

from flambeau.rec.distributed.model_parallel import get_unwrapped_module
from flambeau.rec.distributed.train_pipeline._pipelined_model import PipelinedModel
from flambeau.rec.distributed.train_pipeline._streams import current_stream, on_stream, waited
from flambeau.rec.distributed.train_pipeline.pipeline_context import (
    EmbeddingTrainPipelineContext,
    PrefetchTrainPipelineContext,
    TrainPipelineContext,
)
from flambeau.rec.distributed.train_pipeline.runtime_forwards import (
    BaseForward,
    InSyncEmbeddingPipelinedForward,
    PipelinedForward,
    PrefetchEmbeddingPipelinedForward,
    PrefetchPipelinedForward,
)
from flambeau.rec.distributed.train_pipeline.utils import prefetch_embeddings
from flambeau.rec.errors import OptionError

__all__ = ["PipelineStage", "SparseDataDistUtil"]

In = TypeVar("In")
StageOut = TypeVar("StageOut")


@dataclass
class PipelineStage:
    """What is done with a batch before it is computed: a copy, a transformation without gradients.

    Args:
        name: of the stage, for profiles.
        runnable: makes of a batch what the next stage, or the model, is given.
        stream: on which it runs; None on the CPU.
        fill_callback: called after the stage while a pipeline takes its first batches.
        data_exhausted_callback: called once there are no further batches.
    """

    name: str
    runnable: Callable[..., Any]
    stream: Any
    fill_callback: Callable[[], None] | None = None
    data_exhausted_callback: Callable[[], None] | None = None


class SparseDataDistUtil:
    """Stages that send the features of a batch while another one is computed; they are the last ones of a pipeline.

    The model waits for the next batch's features by itself, after each forward pass::

        sending = SparseDataDistUtil(model, data_dist_stream=stream)
        pipeline = StagedTrainPipeline([
            PipelineStage("copy", partial(get_h2d_func, device=device), copy_stream),
            PipelineStage("send", sending.start_sparse_data_dist, stream, fill_callback=sending.wait_sdd_fill_callback),
        ])
        while (batch := pipeline.progress(batches)) is not None:
            optimizer.zero_grad()
            loss, output = model(batch)
            loss.backward()
            optimizer.step()

    A stage `prefetch` may follow, which fetches rows of tables on the host, and a stage `start_embedding_lookup`, by
    which a batch is looked up before tables have learned from the one before it.

    Args:
        model: with sharded modules, in a `DistributedModelParallel` or not.
        data_dist_stream: on which features are sent; None on the CPU.
        apply_jit: no effect.
        prefetch_stream: on which rows are fetched, where there is such a stage.
        pipeline_postproc: whether modules between the batch and tables are computed ahead.
        embedding_lookup_stream: on which tables are looked up, where there is such a stage.
    """

    def __init__(
        self,
        model: nn.Module,
        data_dist_stream: torch.Stream | None,
        apply_jit: bool = False,
        prefetch_stream: torch.Stream | None = None,
        pipeline_postproc: bool = False,
        embedding_lookup_stream: torch.Stream | None = None,
    ) -> None:
        self.model, self.data_dist_stream = model, data_dist_stream
        self.prefetch_stream, self.embedding_lookup_stream = prefetch_stream, embedding_lookup_stream
        self._pipeline_postproc = pipeline_postproc
        self._pipelined: PipelinedModel | None = None
        self._hooks: list[Any] = []
        # Batches on their way, oldest first; and of these, those whose sizes, features and rows are yet to come.
        self._contexts: deque[TrainPipelineContext] = deque()
        self._sizes_sent: deque[TrainPipelineContext] = deque()
        self._features_sent: deque[TrainPipelineContext] = deque()
        self._to_look_up: deque[TrainPipelineContext] = deque()

    # ----- the model --------------------------------------------------------------------------------------------------

    def _kinds(self) -> tuple[type[BaseForward[Any]], type[TrainPipelineContext]]:
        if self.embedding_lookup_stream is not None:
            if self.prefetch_stream is not None:
                return PrefetchEmbeddingPipelinedForward, PrefetchTrainPipelineContext
            return InSyncEmbeddingPipelinedForward, EmbeddingTrainPipelineContext
        if self.prefetch_stream is not None:
            return PrefetchPipelinedForward, PrefetchTrainPipelineContext
        return PipelinedForward, TrainPipelineContext

    def _device(self) -> torch.device:
        return next((param.device for param in self.model.parameters()), torch.device("cpu"))

    def _attached(self) -> PipelinedModel:
        if self._pipelined is None:
            forward, context = self._kinds()
            stream = current_stream(self._device())
            self._pipelined = PipelinedModel(
                self.model, forward, context, self._pipeline_postproc, self.data_dist_stream, stream
            )
        if not self._hooks:
            if not self._pipelined.installed:
                self._pipelined.install()
            inside = get_unwrapped_module(self.model)
            self._hooks = [
                inside.register_forward_pre_hook(self._before_forward),
                inside.register_forward_hook(self._after_forward),
            ]
        return self._pipelined

    def _before_forward(self, *_: Any) -> None:
        if self._contexts and self._pipelined is not None:
            self._pipelined.work_on(self._contexts[0])
            for stream in (self.prefetch_stream, self.embedding_lookup_stream):
                waited(current_stream(self._device()), stream)

    def _after_forward(self, *_: Any) -> None:
        if self._contexts:
            self._contexts.popleft()
        self.wait_sparse_data_dist()

    def should_assert_context_invariants(self, ctx: TrainPipelineContext) -> bool:
        """Whether a batch's features must have been sent before the model is called: not where a stage looks up."""
        return self.embedding_lookup_stream is None

    def detach(self) -> nn.Module:
        """Make the model what it was, and return it; batches on their way are kept until a stage takes it again."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        return self.model if self._pipelined is None else self._pipelined.restore()

    def data_exhausted_callback(self) -> None:
        """Give the model back, once all batches were computed."""
        if not self._contexts:
            self.detach()

    # ----- stages -----------------------------------------------------------------------------------------------------

    def start_sparse_data_dist(self, batch: In) -> In:
        """Send how many features each process will get of a batch; returns the batch."""
        pipelined = self._attached()
        context = self._kinds()[1](version=1)
        with on_stream(self.data_dist_stream):
            pipelined.start(batch, context)
        for queue in (self._contexts, self._sizes_sent):
            queue.append(context)
        return batch

    def wait_sdd_fill_callback(self) -> None:
        """Send the features of the batch that a pipeline just took, before there is a forward pass that does."""
        self.wait_sparse_data_dist()

    def wait_sparse_data_dist(self) -> None:
        """Wait until it is known how many features there will be, and send them."""
        while self._sizes_sent:
            context = self._sizes_sent.popleft()
            with on_stream(self.data_dist_stream):
                self._attached().wait(context)
            self._features_sent.append(context)

    def prefetch(self, batch: In) -> In:
        """Fetch the rows that the oldest batch will need whose features were sent; returns the batch."""
        if self.prefetch_stream is None:
            raise OptionError("there is no prefetch_stream; give SparseDataDistUtil one for this stage.")
        pipelined = self._attached()
        if not self._features_sent:
            self.wait_sparse_data_dist()
        context = self._features_sent.popleft()
        assert isinstance(context, PrefetchTrainPipelineContext)
        device = self._device()
        forward_stream = current_stream(device)
        with on_stream(self.prefetch_stream):
            prefetch_embeddings(context, pipelined.modules, device, on_stream, self.data_dist_stream, forward_stream)
        self._to_look_up.append(context)
        return batch

    def load_prefetch(self) -> None:
        """Nothing is left to do after `prefetch`; upstream's pipelines call this."""

    def start_embedding_lookup(self, batch: In) -> In:
        """Look up the oldest batch whose features, or rows, are there; returns the batch."""
        if self.embedding_lookup_stream is None:
            raise OptionError("there is no embedding_lookup_stream; give SparseDataDistUtil one for this stage.")
        pipelined = self._attached()
        ready = self._features_sent if self.prefetch_stream is None else self._to_look_up
        if not ready:
            self.wait_sparse_data_dist()
        context: Any = ready.popleft()
        with on_stream(self.embedding_lookup_stream):
            waited(self.embedding_lookup_stream, self.prefetch_stream or self.data_dist_stream)
            for forward in pipelined.forwards:
                if isinstance(forward, PrefetchEmbeddingPipelinedForward):
                    forward.set_context(context)
                    forward.compute_and_output_dist()
                else:
                    context.embedding_a2a_requests[forward.name] = forward._looked_up(context)
        return batch

    def start_sparse_data_dist_stage(
        self, name: str = "start_sparse_data_dist", runnable: Callable[..., Any] | None = None
    ) -> PipelineStage:
        """The stage that sends features.

        Args:
            name: of the stage.
            runnable: what it does in place of `start_sparse_data_dist`, which it has to call.
        """
        return PipelineStage(
            name, runnable or self.start_sparse_data_dist, self.data_dist_stream, self.wait_sdd_fill_callback
        )

    def start_embedding_lookup_stage(
        self, name: str = "start_embedding_lookup", runnable: Callable[..., Any] | None = None
    ) -> PipelineStage:
        """The stage that looks up tables.

        Args:
            name: of the stage.
            runnable: what it does in place of `start_embedding_lookup`, which it has to call.
        """
        return PipelineStage(name, runnable or self.start_embedding_lookup, self.embedding_lookup_stream)
