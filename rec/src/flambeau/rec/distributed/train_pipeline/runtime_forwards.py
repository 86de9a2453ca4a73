"""What sharded modules do in place of their forward when their features were sent ahead."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import torch

from flambeau.rec.distributed.train_pipeline.pipeline_context import (
    PrefetchTrainPipelineContext,
    TrainPipelineContext,
)
from flambeau.rec.distributed.train_pipeline.types import CallArgs
from flambeau.rec.distributed.types import ShardedModule
from flambeau.rec.errors import OptionError

__all__ = ["BaseForward", "PipelinedForward", "PrefetchPipelinedForward"]

TForwardContext = TypeVar("TForwardContext", bound=TrainPipelineContext)


class BaseForward(Generic[TForwardContext]):
    """Stands for the forward of a sharded module.

    Args:
        name: path of the module in the model.
        args: its arguments, from the batch.
        module: it.
        context: of the batch that is computed.
        stream: on which features are sent.
    """

    def __init__(
        self,
        name: str,
        args: CallArgs,
        module: ShardedModule[Any, Any, Any, Any],
        context: TForwardContext,
        stream: torch.Stream | None = None,
    ) -> None:
        self._name, self._args, self._module = name, args, module
        self._context, self._stream = context, stream

    @property
    def name(self) -> str:
        """Path of the module in the model."""
        return self._name

    @property
    def args(self) -> CallArgs:
        """Its arguments, from the batch."""
        return self._args

    def set_context(self, context: TForwardContext) -> None:
        """Work on another batch."""
        self._context = context

    def get_context(self) -> TForwardContext:
        """The batch it works on."""
        return self._context

    def _missing(self) -> OptionError:
        return OptionError(
            f"{self._name!r} is called, and its features were not sent: it is called twice in a step, or outside of "
            "its pipeline; detach() the pipeline for that."
        )


class PipelinedForward(BaseForward[TrainPipelineContext]):
    """Waits for the features, then looks up."""

    def __call__(self, *input: Any, **kwargs: Any) -> Any:
        """The module's result; its arguments are those that were sent."""
        context = self._context
        if self._name not in context.input_dist_tensors_requests:
            raise self._missing()
        features = context.input_dist_tensors_requests.pop(self._name).wait()
        return self._module.compute_and_output_dist(context.module_contexts.pop(self._name), features)


class PrefetchPipelinedForward(BaseForward[PrefetchTrainPipelineContext]):
    """Looks up; features and rows are there."""

    def __call__(self, *input: Any, **kwargs: Any) -> Any:
        """The module's result; its arguments are those that were sent."""
        context = self._context
        if self._name not in context.module_input_post_prefetch:
            raise self._missing()
        features = context.module_input_post_prefetch.pop(self._name)
        return self._module.compute_and_output_dist(context.module_contexts_post_prefetch.pop(self._name), features)
