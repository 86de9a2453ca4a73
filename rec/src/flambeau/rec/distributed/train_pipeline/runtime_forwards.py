"""What sharded modules do in place of their forward when their features were sent ahead, or their tables looked up."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import torch
import torch.distributed as dist

from flambeau.rec.distributed.dist_data import KJTAllToAll
from flambeau.rec.distributed.embedding_sharding import KJTSplitsAllToAllMeta
from flambeau.rec.distributed.train_pipeline._streams import keep_for
from flambeau.rec.distributed.train_pipeline.pipeline_context import (
    CPUEmbeddingTrainPipelineContext,
    EmbeddingTrainPipelineContext,
    PrefetchTrainPipelineContext,
    TrainPipelineContext,
)
from flambeau.rec.distributed.train_pipeline.types import CallArgs
from flambeau.rec.distributed.types import LazyAwaitable, ShardedModule
from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor, KeyedTensor

__all__ = [
    "BaseForward",
    "CPUEmbeddingPipelinedForward",
    "EmbeddingPipelinedForward",
    "InSyncEmbeddingPipelinedForward",
    "KJTAllToAllForward",
    "PipelinedForward",
    "PrefetchEmbeddingPipelinedForward",
    "PrefetchPipelinedForward",
    "averages_gradients",
]

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

    def _looked_up(self, context: TForwardContext) -> Any:
        """The module's result of features that were sent, under way."""
        if self._name not in context.input_dist_tensors_requests:
            raise self._missing()
        features = context.input_dist_tensors_requests.pop(self._name).wait()
        return self._module.compute_and_output_dist(context.module_contexts.pop(self._name), features)


class PipelinedForward(BaseForward[TrainPipelineContext]):
    """Waits for the features, then looks up."""

    def __call__(self, *input: Any, **kwargs: Any) -> Any:
        """The module's result; its arguments are those that were sent."""
        return self._looked_up(self._context)


class PrefetchPipelinedForward(BaseForward[PrefetchTrainPipelineContext]):
    """Looks up; features and rows are there."""

    def __init__(
        self,
        name: str,
        args: CallArgs,
        module: ShardedModule[Any, Any, Any, Any],
        context: PrefetchTrainPipelineContext,
        prefetch_stream: torch.Stream | None = None,
    ) -> None:
        super().__init__(name, args, module, context, prefetch_stream)

    def _looked_up(self, context: PrefetchTrainPipelineContext) -> Any:
        if self._name not in context.module_input_post_prefetch:
            raise self._missing()
        features = context.module_input_post_prefetch.pop(self._name)
        return self._module.compute_and_output_dist(context.module_contexts_post_prefetch.pop(self._name), features)

    def __call__(self, *input: Any, **kwargs: Any) -> Any:
        """The module's result; its arguments are those that were sent."""
        return self._looked_up(self._context)


class PrefetchEmbeddingPipelinedForward(PrefetchPipelinedForward):
    """Gives what was looked up ahead, of rows that were fetched before that."""

    _result: Any = None

    def compute_and_output_dist(self) -> None:
        """Look up, and start to send the results back."""
        self._result = self._looked_up(self._context)

    def __call__(self, *input: Any, **kwargs: Any) -> Any:
        """What was looked up."""
        if self._result is None:
            raise self._missing()
        result, self._result = self._result, None
        return result


class EmbeddingPipelinedForward(BaseForward[EmbeddingTrainPipelineContext]):
    """Gives what was looked up ahead, without its history.

    Gradients end at the tensors that the model is given; the pipeline hands them on to the tables when it is time.
    """

    def __call__(self, *input: Any, **kwargs: Any) -> Any:
        """What was looked up; where nothing was, the module looks up now."""
        context = self._context
        if self._name in context.embedding_a2a_requests:
            result = context.embedding_a2a_requests.pop(self._name)
        else:
            result = self._looked_up(context)
        result = LazyAwaitable._wait_async(result)
        return self.detach_embeddings(result, torch.cuda.current_stream() if self._on_gpu() else None)

    def _on_gpu(self) -> bool:
        device = getattr(self._module, "_device", None)
        return device is not None and device.type == "cuda"

    def detach_embeddings(self, embeddings: Any, cur_stream: Any) -> Any:
        """What the model is given for a result.

        Args:
            embeddings: a keyed tensor, or jagged tensors by name, or a tuple whose first entry is one.
            cur_stream: of the model.

        Returns:
            The same, of tensors without history that take gradients; the context keeps both.
        """
        keep_for(embeddings, cur_stream)
        tensors: list[torch.Tensor] = []
        detached: list[torch.Tensor] = []
        names: list[str | list[str]] = []

        def cut(tensor: torch.Tensor, name: str | list[str]) -> torch.Tensor:
            copy = tensor.detach().requires_grad_(tensor.requires_grad)
            if tensor.requires_grad:
                tensors.append(tensor)
                detached.append(copy)
                names.append(name)
            return copy

        found = _replaced(embeddings, cut)
        self._context.embedding_tensors.append(tensors)
        self._context.embedding_features.append(names)
        self._context.detached_embedding_tensors.append(detached)
        return found


def _replaced(result: Any, cut: Any) -> Any:
    """A result of other tensors."""
    if isinstance(result, KeyedTensor):
        values = cut(result.values(), result.keys())
        return KeyedTensor(result.keys(), result.length_per_key(), values, result.key_dim())
    if isinstance(result, dict):
        return {
            name: JaggedTensor(cut(one.values(), name), one.weights_or_none(), one.lengths(), one.offsets())
            for name, one in result.items()
        }
    if isinstance(result, tuple):
        # What comes beside embeddings are ids, as managed collisions renamed them.
        return (_replaced(LazyAwaitable._wait_async(result[0]), cut), *result[1:])
    raise OptionError(
        f"a module gives a {type(result).__name__}, whose gradients cannot be handed on later; it gives neither a "
        "KeyedTensor nor jagged tensors by name."
    )


class InSyncEmbeddingPipelinedForward(EmbeddingPipelinedForward):
    """Gives what was looked up ahead, with its history: the model's backward pass reaches the tables."""

    def detach_embeddings(self, embeddings: Any, cur_stream: Any) -> Any:
        """What the model is given for a result: the result."""
        keep_for(embeddings, cur_stream)
        return embeddings


class CPUEmbeddingPipelinedForward(EmbeddingPipelinedForward):
    """Gives what was looked up on the host, and copied to the accelerator since."""

    def __call__(self, *input: Any, **kwargs: Any) -> Any:
        """The copy."""
        context = self._context
        assert isinstance(context, CPUEmbeddingTrainPipelineContext)
        if self._name not in context.gpu_embedding_outputs:
            raise self._missing()
        return context.gpu_embedding_outputs.pop(self._name)


class KJTAllToAllForward:
    """Stands for the forward of a `KJTAllToAll`: hands out what it would send, for one exchange with all others.

    Args:
        pg: who takes part.
        splits: features for each process.
        stagger: groups of processes whose members alternate in the result.
    """

    def __init__(self, pg: dist.ProcessGroup, splits: list[int], stagger: int = 1) -> None:
        self._dist = KJTAllToAll(pg, splits, stagger)

    def __call__(self, input: KeyedJaggedTensor) -> Any:
        """What would be sent; on one process, where nothing is, an awaitable of the features."""
        dist = self._dist
        workers = len(dist._splits)
        if workers == 1:
            return KJTAllToAll.forward(dist, input)
        with torch.no_grad():
            dist._check(input)
            splits = input.dist_splits(dist._splits)
            sizes = [torch.tensor(of_tensor, device=input.device()) for of_tensor in splits]
            if not input.variable_stride_per_key():
                sizes.append(torch.tensor([input.stride()] * workers, device=input.device()))
            return KJTSplitsAllToAllMeta(
                pg=dist._pg,
                _input=input,
                splits=dist._splits,
                splits_tensors=sizes,
                input_splits=splits,
                input_tensors=input.dist_tensors(),
                labels=input.dist_labels(),
                keys=input.keys()[dist._mine],
                device=input.device(),
                stagger=dist._stagger,
            )


def averages_gradients(forward: BaseForward[Any]) -> bool:
    """Whether some tables of a module are data parallel.

    `DistributedDataParallel` averages their gradients, which expects a backward pass after each forward pass, and an
    optimizer changes them in place; they are not looked up before the backward pass of another batch.
    """
    return "data_parallel" in getattr(forward._module, "_sharding_types", [])
