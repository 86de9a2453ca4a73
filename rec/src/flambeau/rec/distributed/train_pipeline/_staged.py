"""The pipeline of stages that a user names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from flambeau.rec.distributed.train_pipeline._base import In, Source, TrainPipeline
from flambeau.rec.distributed.train_pipeline._streams import keep_for, on_stream, waited
from flambeau.rec.distributed.train_pipeline.pipeline_stage import PipelineStage
from flambeau.rec.errors import OptionError

__all__ = ["StagedTrainPipeline"]

StageOut = TypeVar("StageOut")


class StagedTrainPipeline(TrainPipeline[In, StageOut | None]):
    """Gives batches that went through all stages, while the next ones are in the stages before.

    With three stages, the third one of a batch, the second one of the next, and the first one of the one behind it run
    while the model computes a fourth. The training loop is the user's::

        pipeline = StagedTrainPipeline([PipelineStage("copy", partial(get_h2d_func, device=device), stream)])
        while (batch := pipeline.progress(batches)) is not None:
            optimizer.zero_grad()
            loss, output = model(batch)
            loss.backward()
            optimizer.step()

    Args:
        pipeline_stages: in order; one that sends features (`SparseDataDistUtil`) and those that need them come last.
        debug_mode: whether names of stages show in profiles.
        compute_stream: on which the model is computed; the current one by default.
        on_flush_end: called when all batches were given that were taken before `set_flush(True)`.
    """

    def __init__(
        self,
        pipeline_stages: list[PipelineStage],
        debug_mode: bool = False,
        compute_stream: torch.cuda.streams.Stream | torch.Stream | None = None,
        on_flush_end: Callable[[], None] | None = None,
    ) -> None:
        if not pipeline_stages:
            raise OptionError("pipeline_stages is empty; expected one stage or more.")
        self._stages, self._debug_mode = list(pipeline_stages), debug_mode
        on_gpu = any(isinstance(stage.stream, torch.cuda.Stream) for stage in pipeline_stages)
        self._compute_stream: Any = compute_stream or (torch.cuda.current_stream() if on_gpu else None)
        self._on_flush_end, self._flushing = on_flush_end, False
        # What came of the newest batch that went through each stage; None where there is none.
        self._done: list[Any] = [None] * len(self._stages)
        self._source = Source()
        self._filled = False

    @property
    def num_stages(self) -> int:
        """How many stages there are."""
        return len(self._stages)

    def set_flush(self, flush: bool) -> None:
        """Take no further batches until those that were taken are given; then go on.

        Args:
            flush: whether to do so.
        """
        self._flushing = flush

    def flush_end(self) -> None:
        """Go on taking batches, and tell so."""
        self._flushing = False
        if self._on_flush_end is not None:
            self._on_flush_end()

    def reset(self) -> None:
        """Forget batches that were taken."""
        self._done = [None] * len(self._stages)
        self._source.reset()
        self._filled = False

    def _run(self, at: int, given: Any, *, filling: bool) -> Any:
        """What a stage makes of a batch; None of none, which the stage is told."""
        stage = self._stages[at]
        if given is None:
            if stage.data_exhausted_callback is not None:
                stage.data_exhausted_callback()
            if filling and stage.fill_callback is not None:
                stage.fill_callback()
            return None
        before = self._stages[at - 1].stream if at else self._compute_stream
        with on_stream(stage.stream), torch.profiler.record_function(f"## {stage.name} {at} ##"):
            waited(stage.stream, before)
            keep_for(given, stage.stream)
            found = stage.runnable(given)
            if filling and stage.fill_callback is not None:
                stage.fill_callback()
        return found

    def _take(self, batches: Iterator[In]) -> Any:
        return None if self._flushing else self._source.take(batches)

    def _fill(self, batches: Iterator[In]) -> None:
        """Take as many batches as there are stages: the first one through all of them, the last one through one."""
        for depth in range(self.num_stages, 0, -1):
            batch = self._take(batches)
            for at in range(depth):
                batch = self._run(at, batch, filling=True)
            self._done[depth - 1] = batch
        self._filled = True

    def progress(self, dataloader_iter: Iterator[In]) -> StageOut | None:
        """The next batch, of all stages.

        Args:
            dataloader_iter: batches; the same one in each call.

        Returns:
            What the last stage made of it; None at the end.
        """
        empty = all(one is None for one in self._done) and not self._flushing
        if not self._filled or (empty and self._source.another(dataloader_iter)):
            self._fill(dataloader_iter)
        ready = self._done[-1]
        given = [self._take(dataloader_iter), *self._done[:-1]]
        self._done = [self._run(at, one, filling=False) for at, one in enumerate(given)]
        if ready is None and self._flushing:
            self.flush_end()
            self._filled = False
            return self.progress(dataloader_iter)
        if ready is None:
            return None
        last = self._stages[-1].stream
        waited(self._compute_stream, last)
        keep_for(ready, self._compute_stream)
        return ready  # type: ignore[no-any-return]
