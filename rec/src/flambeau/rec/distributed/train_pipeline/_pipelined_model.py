"""A model whose sharded modules take features that were sent ahead of the batch's computation."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flambeau.rec.distributed.dist_data import KJTAllToAll, KJTAllToAllTensorsAwaitable
from flambeau.rec.distributed.embedding_sharding import (
    FusedKJTListSplitsAwaitable,
    KJTListSplitsAwaitable,
    KJTSplitsAllToAllMeta,
)
from flambeau.rec.distributed.model_parallel import get_unwrapped_module
from flambeau.rec.distributed.train_pipeline.pipeline_context import TrainPipelineContext
from flambeau.rec.distributed.train_pipeline.postproc import PipelinedPostproc
from flambeau.rec.distributed.train_pipeline.runtime_forwards import BaseForward, KJTAllToAllForward
from flambeau.rec.distributed.train_pipeline.tracing import NodeArgsHelper, Tracer
from flambeau.rec.distributed.train_pipeline.utils import use_context_for_postprocs
from flambeau.rec.distributed.types import ShardedModule
from flambeau.rec.distributed.utils import get_unsharded_module_names
from flambeau.rec.errors import OptionError

__all__ = ["PipelinedModel"]


class PipelinedModel:
    """Sends features of batches, and lets the model's sharded modules take them.

    The model's program is read by `torch.fx`, to find out how the features of each sharded module come from the batch.
    Modules that are called twice in a step, or whose features come otherwise, are computed as always.

    Args:
        model: with sharded modules, in a `DistributedModelParallel` or not.
        forward_type: what sharded modules do in place of their forward.
        context_type: of batches on their way.
        pipeline_postproc: whether modules between the batch and tables are computed ahead.
        dist_stream: on which features are sent.
        default_stream: on which the model is computed.
    """

    def __init__(
        self,
        model: nn.Module,
        forward_type: type[BaseForward[Any]],
        context_type: type[TrainPipelineContext],
        pipeline_postproc: bool,
        dist_stream: Any = None,
        default_stream: Any = None,
    ) -> None:
        self.model = model
        self._forward_type, self._context_type = forward_type, context_type
        self._pipeline_postproc = pipeline_postproc
        self._streams = default_stream, dist_stream
        self.modules: list[ShardedModule[Any, Any, Any, Any]] = []
        self.forwards: list[BaseForward[Any]] = []
        self.postprocs: list[PipelinedPostproc] = []
        self._originals: list[tuple[Any, Any]] = []
        self._read()
        self.install()

    # ----- the model's program ----------------------------------------------------------------------------------------

    def _read(self) -> None:
        inside = get_unwrapped_module(self.model)
        if isinstance(inside, ShardedModule):
            return
        context = self._context_type()
        helper = NodeArgsHelper(inside, context, self._pipeline_postproc, *self._streams)
        graph = Tracer(leaf_modules=get_unsharded_module_names(inside)).trace(inside)
        modules = dict(inside.named_modules())
        for node in graph.nodes:
            module = modules.get(str(node.target)) if node.op == "call_module" else None
            if not isinstance(module, ShardedModule):
                continue
            args, found = helper.get_node_args(node)
            called_once = sum(1 for other in graph.nodes if other.target == node.target) == 1
            if found == len(node.args) + len(node.kwargs) and called_once:
                self.forwards.append(self._forward_type(str(node.target), args, module, context, self._streams[1]))
                self.modules.append(module)
        self.postprocs = list(helper.pipelined_postprocs)

    def check_complete(self) -> None:
        """Raise an error if the features of some sharded modules cannot be sent ahead."""
        inside = get_unwrapped_module(self.model)
        left = [
            name for name, one in inside.named_modules() if isinstance(one, ShardedModule) and one not in self.modules
        ]
        left = [name for name in left if not any(name.startswith(f"{forward.name}.") for forward in self.forwards)]
        if left:
            raise OptionError(
                f"features of {left} cannot be sent ahead: they come from the batch by more than attributes, entries "
                "and modules without parameters, or the module is called twice; make them simpler, or leave strict "
                "out."
            )

    def install(self) -> None:
        """Let sharded modules take what was sent, and modules before them what was computed."""
        for postproc in self.postprocs:
            self._put(postproc.fqn, postproc)
        for module, forward in zip(self.modules, self.forwards, strict=True):
            self._originals.append((module, module.forward))
            module.forward = forward  # type: ignore[method-assign, assignment]
            self._fuse(module)

    def _put(self, path: str, module: nn.Module) -> None:
        parent, _, name = path.rpartition(".")
        setattr(get_unwrapped_module(self.model).get_submodule(parent), name, module)

    def _fuse(self, module: ShardedModule[Any, Any, Any, Any]) -> None:
        """Have a module's sizes sent with those of all others."""
        for dist in module._input_dists:
            for part in dist.modules():
                if isinstance(part, KJTAllToAll) and not isinstance(part.forward, KJTAllToAllForward):
                    self._originals.append((part, part.forward))
                    part.forward = KJTAllToAllForward(part._pg, part._splits, part._stagger)  # type: ignore[method-assign]

    @property
    def installed(self) -> bool:
        """Whether sharded modules take what was sent."""
        return bool(self._originals)

    def restore(self) -> nn.Module:
        """Make the model what it was, and return it."""
        for postproc in self.postprocs:
            self._put(postproc.fqn, postproc.postproc_module)
        for module, forward in self._originals:
            module.forward = forward
        self._originals.clear()
        return self.model

    def work_on(self, context: TrainPipelineContext) -> None:
        """Let the model compute the batch of a context."""
        for forward in self.forwards:
            forward.set_context(context)
        for postproc in self.postprocs:
            postproc.set_context(context)

    # ----- features ---------------------------------------------------------------------------------------------------

    def start(self, batch: Any, context: TrainPipelineContext) -> None:
        """Start to send how many features each process will get of a batch.

        Args:
            batch: which one.
            context: of it.
        """
        with (
            use_context_for_postprocs(self.postprocs, context),
            torch.profiler.record_function("## start_sparse_data_dist ##"),
        ):
            for postproc in self.postprocs:
                postproc.compute(batch)
            for forward, module in zip(self.forwards, self.modules, strict=True):
                args, kwargs = forward.args.build_args_kwargs(batch)
                args, kwargs = module.preprocess_input(args, kwargs)  # type: ignore[assignment]
                module_context = module.create_context()
                context.module_contexts[forward.name] = module_context
                request = module.input_dist(module_context, *args, **kwargs)
                context.input_dist_splits_requests[forward.name] = request
                self._fuse(module)
            self._send_sizes(context)

    def _send_sizes(self, context: TrainPipelineContext) -> None:
        """Send the sizes of all modules at once, where they go to the same processes."""
        together: dict[Any, dict[str, KJTListSplitsAwaitable]] = {}
        for name, request in context.input_dist_splits_requests.items():
            if isinstance(request, KJTListSplitsAwaitable):
                pgs = [one.pg for one in request.awaitables if isinstance(one, KJTSplitsAllToAllMeta)]
                together.setdefault(pgs[0] if pgs else None, {})[name] = request
        for pg, requests in together.items():
            contexts = [request.ctx for request in requests.values()]
            fused = FusedKJTListSplitsAwaitable(requests=list(requests.values()), contexts=contexts, pg=pg)
            context.fused_splits_awaitables.append((list(requests), fused))

    def wait(self, context: TrainPipelineContext) -> None:
        """Wait until it is known how many features there will be, and start to send them.

        Args:
            context: of the batch.
        """
        with torch.profiler.record_function("## wait_sparse_data_dist ##"):
            for names, fused in context.fused_splits_awaitables:
                for name, request in zip(names, fused.wait(), strict=True):
                    context.input_dist_tensors_requests[name] = request
                    del context.input_dist_splits_requests[name]
            context.fused_splits_awaitables.clear()
            for name, splits in context.input_dist_splits_requests.items():
                context.input_dist_tensors_requests[name] = splits.wait()
            context.input_dist_splits_requests.clear()

    def clear_inputs(self, context: TrainPipelineContext) -> None:
        """Give the memory of features back that have arrived where they were sent.

        Features of several shardings and modules lie in the same memory; where some of them are looked up here without
        being sent, as those of data-parallel tables are, or make up a result, as lengths of sequences do, all is kept.
        """
        if any(_needs_features(one) for one in context.module_contexts.values()):
            return
        requests = [context.input_dist_tensors_requests.get(forward.name) for forward in self.forwards]
        sent = [one for request in requests for one in getattr(request, "awaitables", [None])]
        if not all(isinstance(one, KJTAllToAllTensorsAwaitable) and one._workers > 1 for one in sent):
            return
        for awaitable in sent:
            for pending in awaitable._pending:
                pending.wait()
        for awaitable in sent:
            awaitable.clear_inputs()


def _needs_features(module_context: Any) -> bool:
    """Whether a module's result is made up of the features that were sent."""
    inside = [module_context, *(getattr(module_context, "sharding_contexts", None) or [])]
    return any(
        getattr(one, "input_features", None) or getattr(one, "features_before_input_dist", None) is not None
        for one in inside
    )
