"""Pipelines of compiled models."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from flambeau.rec.distributed.train_pipeline._base import In, ModelForward, Out, TrainPipelineBase
from flambeau.rec.distributed.train_pipeline._sparse_dist import TrainPipelineSparseDist
from flambeau.rec.distributed.train_pipeline._streams import moved
from flambeau.rec.distributed.train_pipeline.pipeline_context import TrainPipelineContext
from flambeau.rec.errors import OptionError

__all__ = ["TorchCompileConfig", "TrainPipelinePT2", "TrainPipelineSparseDistCompAutograd"]


@dataclass
class TorchCompileConfig:
    """How a model is compiled.

    Args:
        fullgraph: whether a break of the graph is an error.
        dynamic: whether sizes are variables; None lets the compiler find out.
        backend: of `torch.compile`.
        compile_on_iter: batches before that are computed without.
    """

    fullgraph: bool = False
    dynamic: bool | None = None
    backend: str = "inductor"
    compile_on_iter: int = 3

    def __post_init__(self) -> None:
        if self.compile_on_iter < 0:
            raise OptionError(f"compile_on_iter is {self.compile_on_iter}; expected 0 or more.")


class TrainPipelinePT2(TrainPipelineBase[In, Out]):
    """Compiles the model by `torch.compile` after some batches; batches are copied and computed one after another.

    Args:
        model: gives losses, and an output that is given back; it is compiled in place.
        optimizer: of the model.
        device: where the model is.
        compile_configs: how it is compiled; it is not without.
        pre_compile_fn: called with the model before that.
        post_compile_fn: called with the model after that.
        input_transformer: makes of a batch what the model is called with, such as features whose sizes are variables.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        device: torch.device,
        compile_configs: TorchCompileConfig | None = None,
        pre_compile_fn: Callable[[nn.Module], None] | None = None,
        post_compile_fn: Callable[[nn.Module], None] | None = None,
        input_transformer: Callable[[In], In] | None = None,
    ) -> None:
        super().__init__(model, optimizer, device)
        self._configs, self._transformer = compile_configs, input_transformer
        self._before, self._after = pre_compile_fn, post_compile_fn
        self._count = 0

    def _compile(self) -> None:
        configs = self._configs
        if configs is None or self._count != configs.compile_on_iter:
            return
        if self._before is not None:
            self._before(self._model)
        self._model.compile(backend=configs.backend, fullgraph=configs.fullgraph, dynamic=configs.dynamic)
        if self._after is not None:
            self._after(self._model)

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """Train on the next batch; see `TrainPipeline.progress`."""
        batch: Any = self._source.take(dataloader_iter)
        if batch is None:
            raise StopIteration
        batch = moved(batch, self._device)
        if self._transformer is not None:
            batch = self._transformer(batch)
        if self._model.training:
            self._optimizer.zero_grad()
        self._compile()
        self._count += 1
        losses, output = self._model(batch)
        if self._model.training:
            torch.sum(losses, dim=0).backward()
            self._optimizer.step()
        return output  # type: ignore[no-any-return]


class TrainPipelineSparseDistCompAutograd(TrainPipelineSparseDist[In, Out]):
    """Compiles the backward pass as well, by compiled autograd, from the second batch on.

    How is what the model's `_compiled_autograd_options` say, options of `torch.compile`; {"backend": "eager",
    "dynamic": True, "fullgraph": True} by default. A model in `DistributedDataParallel` needs
    `torch._dynamo.config.optimize_ddp = "python_reducer"`. The arguments are those of `TrainPipelineSparseDist`.
    """

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
        free_features_storage_early: bool = False,
        clear_data_dist_inputs: bool = False,
    ) -> None:
        super().__init__(
            model,
            optimizer,
            device,
            execute_all_batches,
            apply_jit,
            context_type,
            pipeline_postproc,
            custom_model_fwd,
            free_features_storage_early=free_features_storage_early,
            clear_data_dist_inputs=clear_data_dist_inputs,
        )
        default = {"backend": "eager", "dynamic": True, "fullgraph": True}
        self.compiled_autograd_options: dict[str, Any] = getattr(model, "_compiled_autograd_options", default)
        self._warm = False

    def get_compiled_autograd_ctx(self) -> contextlib.AbstractContextManager[Any]:
        """Within it, backward passes are compiled; not so the first time, when there is nothing to compile yet."""
        if not self._warm:
            self._warm = True
            return contextlib.nullcontext()
        from torch._dynamo import compiled_autograd

        return compiled_autograd._enable(torch.compile(**self.compiled_autograd_options))

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """Train on the next batch; see `TrainPipeline.progress`."""
        with self.get_compiled_autograd_ctx():
            return super().progress(dataloader_iter)
