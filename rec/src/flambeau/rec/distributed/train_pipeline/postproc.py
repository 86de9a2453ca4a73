"""Modules between a batch and the tables, computed once for each batch, ahead of the model."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flambeau.rec.distributed.train_pipeline._streams import keep_for
from flambeau.rec.distributed.train_pipeline.pipeline_context import TrainPipelineContext
from flambeau.rec.distributed.train_pipeline.types import CallArgs

__all__ = ["NoOpStream", "PipelinedPostproc"]

_INSIDE = "_postproc_module."


def _without_wrapper(module: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    """Call what is in a module that stands for another one as if that were there."""
    for name in [name for name in state if name.startswith(prefix + _INSIDE)]:
        state[prefix + name[len(prefix + _INSIDE) :]] = state.pop(name)


def _with_wrapper(state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Find what is in a module that stands for another one by the names of that one."""
    for name in [name for name in state if name.startswith(prefix) and not name.startswith(prefix + _INSIDE)]:
        state[prefix + _INSIDE + name[len(prefix) :]] = state.pop(name)


class NoOpStream:
    """A context that changes no stream.

    Args:
        stream: None.
    """

    def __init__(self, stream: torch.Stream | None) -> None:
        self._stream = stream

    def __enter__(self) -> NoOpStream:
        return self

    def __exit__(self, *args: Any) -> None:
        """Nothing changes back."""


class PipelinedPostproc(nn.Module):
    """Stands for a module of the model that comes between a batch and tables.

    Its result is computed when the batch's features are sent, and given again when the model calls it.

    Args:
        postproc_module: the module.
        fqn: its path in the model.
        args: its arguments, from the batch.
        context: of the batch.
        default_stream: on which the model is computed.
        dist_stream: on which features are sent.
    """

    def __init__(
        self,
        postproc_module: nn.Module,
        fqn: str,
        args: CallArgs,
        context: TrainPipelineContext,
        default_stream: torch.Stream | None,
        dist_stream: torch.Stream | None,
    ) -> None:
        super().__init__()
        self._postproc_module, self._fqn, self._args = postproc_module, fqn, args
        self._default_stream, self._dist_stream = default_stream, dist_stream
        self._context = context
        # States keep the names of the model.
        self._register_state_dict_hook(_without_wrapper)  # type: ignore[no-untyped-call]
        self._register_load_state_dict_pre_hook(_with_wrapper)  # type: ignore[no-untyped-call]

    @property
    def postproc_module(self) -> nn.Module:
        """The module."""
        return self._postproc_module

    @property
    def fqn(self) -> str:
        """Its path in the model."""
        return self._fqn

    @property
    def args(self) -> CallArgs:
        """Its arguments, from the batch."""
        return self._args

    def set_context(self, context: TrainPipelineContext) -> None:
        """Work on another batch."""
        self._context = context

    def get_context(self) -> TrainPipelineContext:
        """The batch it works on."""
        return self._context

    def compute(self, batch: Any) -> Any:
        """The module's result of a batch, computed once."""
        results = self._context.postproc_fwd_results
        if self._fqn not in results:
            args, kwargs = self._args.build_args_kwargs(batch)
            results[self._fqn] = self._postproc_module(*args, **kwargs)
        return results[self._fqn]

    @staticmethod
    def recursive_record_stream(res: Any, stream: torch.Stream) -> None:
        """Keep the memory of a result until a stream is done with it.

        Args:
            res: tensors, what has `record_stream`, and lists, tuples and dictionaries of them.
            stream: of an accelerator; on the CPU nothing has to be done.
        """
        keep_for(res, stream)

    def forward(self, *input: Any, **kwargs: Any) -> Any:
        """What was computed ahead; the module itself where nothing was."""
        results = self._context.postproc_fwd_results
        if self._fqn in results:
            return results.pop(self._fqn)
        return self._postproc_module(*input, **kwargs)
