"""Training loops in which different batches are copied, exchanged and computed at the same time.

All of them give, batch for batch, the losses of the plain loop::

    optimizer.zero_grad()
    losses, output = model(batch)
    torch.sum(losses, dim=0).backward()
    optimizer.step()

as what is sent ahead are ids, which do not depend on parameters. On an accelerator each stage has a stream of its own;
on the CPU, exchanges between processes go on while a batch is computed.
"""

from __future__ import annotations

import abc
import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import torch
from torch import nn
from torch.optim import Optimizer

from flambeau.rec.distributed.dist_data import KJTAllToAll
from flambeau.rec.distributed.embedding_sharding import (
    FusedKJTListSplitsAwaitable,
    KJTListSplitsAwaitable,
    KJTSplitsAllToAllMeta,
)
from flambeau.rec.distributed.model_parallel import get_unwrapped_module
from flambeau.rec.distributed.train_pipeline.pipeline_context import (
    PrefetchTrainPipelineContext,
    TrainPipelineContext,
)
from flambeau.rec.distributed.train_pipeline.postproc import PipelinedPostproc
from flambeau.rec.distributed.train_pipeline.runtime_forwards import (
    BaseForward,
    PipelinedForward,
    PrefetchPipelinedForward,
)
from flambeau.rec.distributed.train_pipeline.tracing import NodeArgsHelper, Tracer
from flambeau.rec.distributed.train_pipeline.utils import use_context_for_postprocs
from flambeau.rec.distributed.types import ShardedModule
from flambeau.rec.streamable import Multistreamable

__all__ = [
    "EvalPipelineSparseDist",
    "ModelDetachedException",
    "PrefetchTrainPipelineSparseDist",
    "TrainPipeline",
    "TrainPipelineBase",
    "TrainPipelineSparseDist",
    "TrainPipelineSparseDistLite",
]

In = TypeVar("In")
Out = TypeVar("Out")
ModelForward = Callable[[Any], tuple[torch.Tensor, Any]]


class ModelDetachedException(Exception):
    """A pipeline was asked for a batch after `detach` gave its model back."""


class TrainPipeline(abc.ABC, Generic[In, Out]):
    """Computes batch after batch."""

    _optimizer: Any

    @abc.abstractmethod
    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """Train on the next batch.

        Args:
            dataloader_iter: batches; the same one in each call, as some are taken ahead.

        Returns:
            The model's output of the batch.

        Raises:
            StopIteration: there are no batches left.
        """

    def reset(self) -> None:
        """Forget batches that were taken ahead."""

    def sync_embeddings(
        self, model: nn.Module, interval_batches: int | None, context: TrainPipelineContext | None = None
    ) -> None:
        """Make the copies of tables of a `DMPCollection` equal, after every so many batches.

        Args:
            model: others than a `DMPCollection` are left alone.
            interval_batches: how many; None never does.
            context: of the batch.
        """
        sync = getattr(model, "sync", None)
        if sync is None or interval_batches is None or context is None or context.index is None:
            return
        if (context.index + 1) % interval_batches == 0:
            sync()


def _losses(result: Any) -> tuple[torch.Tensor, Any]:
    losses, output = result
    return losses, output


class TrainPipelineBase(TrainPipeline[In, Out]):
    """Copies the next batch to the device while one is computed.

    Args:
        model: gives losses, and an output that is given back.
        optimizer: of the model.
        device: where the model is.
        custom_model_fwd: called with the batch in place of the model.
        enable_inplace_copy_batch: accepted for upstream's sake; batches are copied as `to` copies them.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        device: torch.device,
        custom_model_fwd: ModelForward | None = None,
        enable_inplace_copy_batch: bool = False,
    ) -> None:
        self._model, self._optimizer, self._device = model, optimizer, torch.device(device)
        self._model_fwd: Any = custom_model_fwd or model
        self._stream = torch.cuda.Stream(self._device, priority=-1) if self._device.type == "cuda" else None
        self._next: Any = None
        self._exhausted = False

    def _take(self, batches: Iterator[In]) -> Any:
        batch: Any = None if self._exhausted else next(batches, None)
        if batch is None:
            self._exhausted = True
            return None
        with torch.cuda.stream(self._stream) if self._stream is not None else contextlib.nullcontext():
            return _moved(batch, self._device)

    def reset(self) -> None:
        """Forget the batch that was taken ahead."""
        self._next, self._exhausted = None, False

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """Train on the next batch; see `TrainPipeline.progress`."""
        batch = self._take(dataloader_iter) if self._next is None else self._next
        if batch is None:
            raise StopIteration
        if self._model.training:
            self._optimizer.zero_grad()
        if self._stream is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_stream(self._stream)
            _recorded(batch, current)
        losses, output = _losses(self._model_fwd(batch))
        self._next = self._take(dataloader_iter)
        if self._model.training:
            torch.sum(losses, dim=0).backward()
            self._optimizer.step()
        return output  # type: ignore[no-any-return]


def _moved(batch: Any, device: torch.device) -> Any:
    return batch.to(device, non_blocking=True) if hasattr(batch, "to") else batch


def _recorded(batch: Any, stream: Any) -> None:
    if isinstance(batch, (torch.Tensor, Multistreamable)):
        batch.record_stream(stream)


# ----- features sent ahead --------------------------------------------------------------------------------------------


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
        free_features_storage_early: whether features give their memory back once they were sent.
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
        on_gpu = self._device.type == "cuda"
        self._memcpy_stream = torch.cuda.Stream(self._device, priority=-1) if on_gpu else None
        self._data_dist_stream = torch.cuda.Stream(self._device, priority=-1) if on_gpu else None
        self.batches: deque[Any] = deque()
        self.contexts: deque[TrainPipelineContext] = deque()
        self._pipelined_modules: list[ShardedModule[Any, Any, Any, Any]] = []
        self._pipelined_postprocs: list[PipelinedPostproc] = []
        self._forwards: list[BaseForward[Any]] = []
        self._originals: list[tuple[Any, Any]] = []
        self._exhausted = False
        self._attached = True
        self._count = 0
        self._hooks: list[Any] = []

    # ----- the model --------------------------------------------------------------------------------------------------

    def _rewrite(self) -> None:
        """Let sharded modules whose features can be sent ahead take what was sent."""
        model = get_unwrapped_module(self._model)
        context = self._context_type()
        if isinstance(model, ShardedModule):
            return
        helper = NodeArgsHelper(model, context, self._pipeline_postproc, None, self._data_dist_stream)
        graph = Tracer(leaf_modules=_unsharded_leaves(model)).trace(model)
        modules = dict(model.named_modules())
        for node in graph.nodes:
            if node.op != "call_module":
                continue
            module = modules.get(str(node.target))
            if not isinstance(module, ShardedModule):
                continue
            args, found = helper.get_node_args(node)
            called_once = sum(1 for other in graph.nodes if other.target == node.target) == 1
            if found != len(node.args) + len(node.kwargs) or not called_once:
                continue
            forward = self._forward_type(str(node.target), args, module, context, self._data_dist_stream)
            self._forwards.append(forward)
            self._pipelined_modules.append(module)
        self._pipelined_postprocs = list(helper.pipelined_postprocs)
        self._install()

    def _install(self) -> None:
        for module, forward in zip(self._pipelined_modules, self._forwards, strict=True):
            self._originals.append((module, module.forward))
            module.forward = forward  # type: ignore[method-assign, assignment]
            for dist in module._input_dists:
                self._fuse(dist)

    def _fuse(self, dist: nn.Module) -> None:
        """Have a module's sizes sent with those of all others."""
        for part in dist.modules():
            if isinstance(part, KJTAllToAll) and not isinstance(part.forward, _SizesLater):
                self._originals.append((part, part.forward))
                part.forward = _SizesLater(part)  # type: ignore[method-assign]

    def detach(self) -> nn.Module:
        """Give the model back as it was; batches that were taken ahead stay, and are computed after `attach`."""
        for module, forward in self._originals:
            module.forward = forward
        self._originals.clear()
        self._attached = False
        return self._model

    def attach(self, model: nn.Module | None = None, sparse_dist: bool = True) -> None:
        """Take the model again, or another one.

        Args:
            model: the other one.
            sparse_dist: whether features of batches that were taken ahead are sent again.
        """
        self._attached = True
        if model is not None:
            if self._model_fwd is self._model:
                self._model_fwd = model
            self._model = model
            self._pipelined_modules, self._forwards, self._pipelined_postprocs = [], [], []
            self._rewrite()
        else:
            self._install()
        if not sparse_dist:
            self.batches.clear()
            self.contexts.clear()
            return
        for context in self.contexts:
            context.input_dist_tensors_requests.clear()
            context.module_contexts.clear()
        if self.batches:
            self.start_sparse_data_dist(self.batches[0], self.contexts[0])
            self.wait_sparse_data_dist(self.contexts[0])

    def reset(self) -> None:
        """Forget batches that were taken ahead."""
        self.batches.clear()
        self.contexts.clear()
        self._exhausted = False

    def register_backward_hook(self, site: Any, work: Callable[[TrainPipeline[Any, Any]], None]) -> None:
        """Do some work when the gradient of a module's output arrives.

        Args:
            site: with `fqn`, the module's path.
            work: called with this pipeline.
        """
        module = get_unwrapped_module(self._model).get_submodule(site.fqn)
        self._hooks.append(module.register_full_backward_hook(lambda *_: work(self)))

    # ----- stages -----------------------------------------------------------------------------------------------------

    def copy_batch_to_gpu(self, dataloader_iter: Iterator[In]) -> tuple[Any, TrainPipelineContext | None]:
        """Take the next batch and start to copy it; None at the end."""
        batch: Any = None if self._exhausted else next(dataloader_iter, None)
        if batch is None:
            self._exhausted = True
            return None, None
        context = self._context_type(index=self._count, version=1)
        self._count += 1
        with torch.cuda.stream(self._memcpy_stream) if self._memcpy_stream is not None else contextlib.nullcontext():
            return _moved(batch, self._device), context

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
            self._work_on(self.contexts[0])

    def _work_on(self, context: TrainPipelineContext) -> None:
        for forward in self._forwards:
            forward.set_context(context)
        for postproc in self._pipelined_postprocs:
            postproc.set_context(context)

    def fill_pipeline(self, dataloader_iter: Iterator[In]) -> None:
        """Take batches until there are as many as go on at a time, and send the first one's features."""
        if len(self.batches) >= self._ahead or (self.batches and self._execute_all_batches and self._exhausted):
            return
        if not self.batches:
            if not self.enqueue_batch(dataloader_iter):
                return
            if not self._forwards and not self._pipelined_modules:
                self._rewrite()
            self._work_on(self.contexts[0])
            self.start_sparse_data_dist(self.batches[0], self.contexts[0])
            self.wait_sparse_data_dist(self.contexts[0])
        self.enqueue_batch(dataloader_iter)

    def _streaming(self, stream: Any) -> Any:
        return torch.cuda.stream(stream) if stream is not None else contextlib.nullcontext()

    def start_sparse_data_dist(self, batch: Any, context: TrainPipelineContext) -> None:
        """Send how many features each process will get of a batch.

        Args:
            batch: which one.
            context: of it.
        """
        if batch is None:
            return
        with self._streaming(self._data_dist_stream):
            if self._data_dist_stream is not None:
                self._data_dist_stream.wait_stream(self._memcpy_stream)  # type: ignore[arg-type]
                _recorded(batch, self._data_dist_stream)
            with use_context_for_postprocs(self._pipelined_postprocs, context):
                for postproc in self._pipelined_postprocs:
                    postproc.compute(batch)
                for forward, module in zip(self._forwards, self._pipelined_modules, strict=True):
                    args, kwargs = forward.args.build_args_kwargs(batch)
                    args, kwargs = module.preprocess_input(args, kwargs)  # type: ignore[assignment]
                    module_context = module.create_context()
                    context.module_contexts[forward.name] = module_context
                    request = module.input_dist(module_context, *args, **kwargs)
                    context.input_dist_splits_requests[forward.name] = request
                    for dist in module._input_dists:
                        self._fuse(dist)
            self._send_sizes(context)

    def _send_sizes(self, context: TrainPipelineContext) -> None:
        """Send the sizes of all modules at once."""
        together = {
            name: request
            for name, request in context.input_dist_splits_requests.items()
            if isinstance(request, KJTListSplitsAwaitable)
        }
        if not together:
            return
        later = [one for request in together.values() for one in request.awaitables]
        pgs = [one.pg for one in later if isinstance(one, KJTSplitsAllToAllMeta)]
        fused = FusedKJTListSplitsAwaitable(
            requests=list(together.values()),
            contexts=[request.ctx for request in together.values()],
            pg=pgs[0] if pgs else None,
        )
        context.fused_splits_awaitables.append((list(together), fused))

    def wait_sparse_data_dist(self, context: TrainPipelineContext) -> None:
        """Wait until it is known how many features there will be, and send them.

        Args:
            context: of the batch.
        """
        with self._streaming(self._data_dist_stream):
            for names, fused in context.fused_splits_awaitables:
                for name, request in zip(names, fused.wait(), strict=True):
                    context.input_dist_tensors_requests[name] = request
                    del context.input_dist_splits_requests[name]
            context.fused_splits_awaitables.clear()
            for name, splits in context.input_dist_splits_requests.items():
                context.input_dist_tensors_requests[name] = splits.wait()
            context.input_dist_splits_requests.clear()

    def clear_sparse_data_dist_inputs(self, context: TrainPipelineContext) -> None:
        """Give the memory of features back that have arrived where they were sent."""
        for request in context.input_dist_tensors_requests.values():
            for awaitable in getattr(request, "awaitables", []):
                pending = getattr(awaitable, "_pending", None)
                if pending is not None and getattr(awaitable, "_workers", 1) > 1:
                    for one in pending:
                        one.wait()
                    awaitable.clear_inputs()

    def _prepared(self, batch: Any) -> None:
        if self._memcpy_stream is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_stream(self._memcpy_stream)
            _recorded(batch, current)

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """Train on the next batch; see `TrainPipeline.progress`.

        Raises:
            ModelDetachedException: `detach` gave the model back.
            StopIteration: there are no batches left.
        """
        if not self._attached:
            raise ModelDetachedException("the model was given back by detach(); call attach() first.")
        self.fill_pipeline(dataloader_iter)
        if not self.batches or (self._exhausted and not self._execute_all_batches and len(self.batches) < self._ahead):
            raise StopIteration
        self._work_on(self.contexts[0])
        training = self._model.training
        if training:
            self._optimizer.zero_grad()
        self._prepared(self.batches[0])
        if len(self.batches) > 1:
            self.start_sparse_data_dist(self.batches[1], self.contexts[1])
        if not self._enqueue_batch_after_forward:
            self.enqueue_batch(dataloader_iter)
        losses, output = _losses(self._model_fwd(self.batches[0]))
        if self._enqueue_batch_after_forward:
            self.enqueue_batch(dataloader_iter)
        if len(self.batches) > 1:
            self.wait_sparse_data_dist(self.contexts[1])
        if training:
            torch.sum(losses, dim=0).backward()
            self.sync_embeddings(self._model, self._sync_interval, self.contexts[0])
            self._optimizer.step()
        self.dequeue_batch()
        return output  # type: ignore[no-any-return]


class _SizesLater:
    """Stands for the forward of a `KJTAllToAll`: hands out what it would send, for one exchange with all others."""

    def __init__(self, dist: KJTAllToAll) -> None:
        self._dist = dist

    def __call__(self, input: Any) -> Any:
        dist = self._dist
        awaitable: Any = KJTAllToAll.forward(dist, input)
        if awaitable._workers == 1:
            return awaitable
        sizes = [torch.tensor(of_tensor, device=input.device()) for of_tensor in awaitable._input_splits]
        if not input.variable_stride_per_key():
            sizes.append(torch.tensor([input.stride()] * awaitable._workers, device=input.device()))
        return KJTSplitsAllToAllMeta(
            pg=dist._pg,
            _input=input,
            splits=dist._splits,
            splits_tensors=sizes,
            input_splits=awaitable._input_splits,
            input_tensors=awaitable._input_tensors,
            labels=awaitable._labels,
            keys=awaitable._keys,
            device=input.device(),
            stagger=dist._stagger,
        )


def _unsharded_leaves(model: nn.Module) -> list[str]:
    """Paths of modules in which nothing is sharded, which are not read."""
    found: list[str] = []

    def visit(module: nn.Module, path: str) -> bool:
        if isinstance(module, ShardedModule):
            return True
        below = [(name, visit(child, f"{path}.{name}" if path else name)) for name, child in module.named_children()]
        holds = any(one for _, one in below)
        if holds:
            found.extend(f"{path}.{name}" if path else name for name, one in below if not one)
        return holds

    visit(model, "")
    return found


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
        if self.batches or not self.enqueue_batch(dataloader_iter):
            return
        if not self._forwards and not self._pipelined_modules:
            self._rewrite()
        self._work_on(self.contexts[0])
        self.start_sparse_data_dist(self.batches[0], self.contexts[0])
        self.wait_sparse_data_dist(self.contexts[0])

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """Train on the next batch; see `TrainPipeline.progress`."""
        if not self._attached:
            raise ModelDetachedException("the model was given back by detach(); call attach() first.")
        self.fill_pipeline(dataloader_iter)
        if not self.batches:
            raise StopIteration
        training = self._model.training
        if training:
            self._optimizer.zero_grad()
        self._prepared(self.batches[0])
        losses, output = _losses(self._model_fwd(self.batches[0]))
        if self.enqueue_batch(dataloader_iter):
            self.start_sparse_data_dist(self.batches[1], self.contexts[1])
        if training:
            torch.sum(losses, dim=0).backward()
            self._optimizer.step()
        if len(self.batches) > 1:
            self.wait_sparse_data_dist(self.contexts[1])
        self.dequeue_batch()
        return output  # type: ignore[no-any-return]


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
        on_gpu = self._device.type == "cuda"
        self._prefetch_stream = torch.cuda.Stream(self._device) if on_gpu else None

    def wait_sparse_data_dist(self, context: TrainPipelineContext) -> None:
        """Wait for features as well, and fetch their rows."""
        super().wait_sparse_data_dist(context)
        assert isinstance(context, PrefetchTrainPipelineContext)
        current = torch.cuda.current_stream(self._device) if self._device.type == "cuda" else None
        with self._streaming(self._prefetch_stream):
            for forward, module in zip(self._forwards, self._pipelined_modules, strict=True):
                features = context.input_dist_tensors_requests.pop(forward.name).wait()
                module_context = context.module_contexts.pop(forward.name)
                module.prefetch(features, forward_stream=current, ctx=module_context)
                context.module_input_post_prefetch[forward.name] = features
                context.module_contexts_post_prefetch[forward.name] = module_context


class EvalPipelineSparseDist(TrainPipelineSparseDist[In, Out]):
    """Computes outputs without training; features of the next batch are sent meanwhile.

    The arguments are those of `TrainPipelineSparseDist`; the optimizer is not used.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        device: torch.device,
        apply_jit: bool = False,
        pipeline_postproc: bool = False,
        enable_inplace_copy_batch: bool = False,
        free_features_storage_early: bool = False,
        clear_data_dist_inputs: bool = False,
    ) -> None:
        super().__init__(
            model,
            optimizer,
            device,
            True,
            apply_jit,
            pipeline_postproc=pipeline_postproc,
            enable_inplace_copy_batch=enable_inplace_copy_batch,
            free_features_storage_early=free_features_storage_early,
            clear_data_dist_inputs=clear_data_dist_inputs,
        )

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """The output of the next batch; see `TrainPipeline.progress`."""
        before = self._model.training
        self._model.training = False
        try:
            with torch.no_grad():
                return super().progress(dataloader_iter)
        finally:
            self._model.training = before
