"""Pipelines for special cases: memory that is lent out, optimizers within the backward pass, tables on the host."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from flambeau.rec.distributed._data_parallel import get_unwrapped_module
from flambeau.rec.distributed.train_pipeline._base import In, ModelForward, Out
from flambeau.rec.distributed.train_pipeline._host_stash import HostStash
from flambeau.rec.distributed.train_pipeline._sparse_dist import TrainPipelineSparseDist
from flambeau.rec.distributed.train_pipeline._streams import moved, new_stream, on_stream
from flambeau.rec.distributed.train_pipeline.backward_injection import (
    FirstGradTensorFinder,
    InjectionSite,
    OutputDistTensorFinder,
)
from flambeau.rec.distributed.train_pipeline.pipeline_context import (
    CPUEmbeddingTrainPipelineContext,
    TrainPipelineContext,
)
from flambeau.rec.distributed.train_pipeline.runtime_forwards import CPUEmbeddingPipelinedForward
from flambeau.rec.distributed.types import LazyAwaitable, ShardedModule, ShardingType
from flambeau.rec.errors import OptionError

__all__ = [
    "EvalPipelineCPUSparse",
    "TrainEvalHybridPipelineBase",
    "TrainPipelinePrefetchEMS",
    "TrainPipelineSparseDistBwdOpt",
    "TrainPipelineSparseDistEmbStash",
    "TrainPipelineSparseDistOptStash",
    "TrainPipelineSparseDistT",
]


class TrainPipelineSparseDistT(TrainPipelineSparseDist[In, Out]):
    """Copies batches to the device in a thread, so that the loop does not wait for copies to be submitted.

    The arguments are those of `TrainPipelineSparseDist`.
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
        dmp_collection_sync_interval_batches: int | None = 1,
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
            context_type,
            pipeline_postproc,
            custom_model_fwd,
            dmp_collection_sync_interval_batches,
            enable_inplace_copy_batch=enable_inplace_copy_batch,
            free_features_storage_early=free_features_storage_early,
            clear_data_dist_inputs=clear_data_dist_inputs,
        )
        self._copying = ThreadPoolExecutor(max_workers=1, thread_name_prefix="copy_batch_to_gpu")

    def _moved(self, batch: Any) -> Any:
        # Taken out of `batches`, it is waited for.
        return self._copying.submit(super()._moved, batch)


class TrainEvalHybridPipelineBase(TrainPipelineSparseDist[In, Out]):
    """Trains, or computes outputs only, as the model's `training` says at each batch.

    At the end of an iterator, batches that were taken are computed, and another iterator may follow. The arguments are
    those of `TrainPipelineSparseDist`.
    """

    def copy_batch_to_gpu(self, dataloader_iter: Iterator[In]) -> tuple[Any, TrainPipelineContext | None]:
        """Take the next batch and start to copy it; None at the end."""
        return super().copy_batch_to_gpu(dataloader_iter)

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """Train on the next batch, or compute its output; see `TrainPipeline.progress`."""
        try:
            with torch.set_grad_enabled(self._model.training):
                return super().progress(dataloader_iter)
        except StopIteration:
            self.reset()
            raise


# ----- optimizers -----------------------------------------------------------------------------------------------------


class _AtOutputDist(TrainPipelineSparseDist[In, Out]):
    """Does something in the backward pass, when the gradient of a module's results is there.

    Args:
        site_fqn: path of a sharded module.
        sharding_type: of its tables.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        device: torch.device,
        site_fqn: str,
        sharding_type: ShardingType = ShardingType.TABLE_WISE,
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
        super().__init__(
            model,
            optimizer,
            device,
            execute_all_batches,
            apply_jit,
            context_type,
            pipeline_postproc,
            custom_model_fwd,
            dmp_collection_sync_interval_batches,
            enqueue_batch_after_forward,
            enable_inplace_copy_batch,
            free_features_storage_early,
            clear_data_dist_inputs,
        )
        site = InjectionSite(site_fqn, OutputDistTensorFinder(sharding_type))
        self.register_backward_hook(site, lambda _: self._arrived())

    @abc.abstractmethod
    def _arrived(self) -> None:
        """What it does."""


class TrainPipelineSparseDistBwdOpt(_AtOutputDist[In, Out]):
    """Makes the optimizer's step within the backward pass, while gradients of embeddings are exchanged.

    Where `DistributedDataParallel` averages gradients, which ends with the backward pass, the step follows it. Losses
    are those of the plain loop.

    Args:
        model: as in `TrainPipelineSparseDist`, as are those that are not named here.
        optimizer: of parameters that take part before the module.
        device: where the model is.
        site_fqn: path of a sharded module.
        sharding_type: of tables of it; the step is made when the gradients of their results are there.
        execute_all_batches: whether batches that were taken ahead are computed once there are no further ones.
        apply_jit: no effect.
        context_type: of batches on their way.
        pipeline_postproc: whether modules between the batch and tables are computed ahead.
        custom_model_fwd: called with the batch in place of the model.
        dmp_collection_sync_interval_batches: batches between two times that copies of tables are made equal.
        enqueue_batch_after_forward: whether the next batch is taken after the forward pass, and not before.
        enable_inplace_copy_batch: accepted for upstream's sake.
        free_features_storage_early: whether features give their memory back once they were sent.
        clear_data_dist_inputs: likewise.
    """

    _stepped = False

    def _averages(self) -> bool:
        return any(isinstance(one, DistributedDataParallel) for one in self._model.modules()) or any(
            isinstance(lookup, DistributedDataParallel)
            for one in self._model.modules()
            if isinstance(one, ShardedModule)
            for lookup in one._lookups
        )

    def _arrived(self) -> None:
        if not self._averages():
            self._optimizer.step()
            self._stepped = True

    def _step(self) -> None:
        self.sync_embeddings(self._model, self._sync_interval, self.contexts[0])
        if not self._stepped:
            self._optimizer.step()
        self._stepped = False

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """Train on the next batch; see `TrainPipeline.progress`."""
        return super().progress(dataloader_iter)


class TrainPipelineSparseDistOptStash(_AtOutputDist[In, Out]):
    """Keeps what the optimizer knows on the host but for the time of its step.

    The arguments are those of `TrainPipelineSparseDistBwdOpt`. What is on the host anyway stays where it is.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stash = HostStash(new_stream(self._device))

    def _states(self) -> Iterator[Tensor]:
        for kept in self._optimizer.state.values():
            values = kept.values() if isinstance(kept, dict) else [kept]
            yield from (one for one in values if type(one) is Tensor and one.device.type != "cpu")

    def _arrived(self) -> None:
        self._stash.restore()

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """Train on the next batch; see `TrainPipeline.progress`."""
        return super().progress(dataloader_iter)

    def _step(self) -> None:
        self._stash.restore()
        super()._step()
        self._stash.stash(self._states())


# ----- tables ---------------------------------------------------------------------------------------------------------


class TrainPipelineSparseDistEmbStash(TrainPipelineSparseDist[In, Out]):
    """Keeps tables on the host while the rest of the model is computed, which has their memory meanwhile.

    Tables are needed by look-ups, and again when gradients reach them. Those that lie on the host anyway stay there.

    Args:
        model: as in `TrainPipelineSparseDist`, as are those that are not named here.
        optimizer: of parameters that kernels do not train.
        device: where the model is.
        site_fqn: path of a module, or a site: tables come back when its gradient is there.
        execute_all_batches: whether batches that were taken ahead are computed once there are no further ones.
        apply_jit: no effect.
        context_type: of batches on their way.
        pipeline_postproc: whether modules between the batch and tables are computed ahead.
        custom_model_fwd: called with the batch in place of the model.
        dmp_collection_sync_interval_batches: batches between two times that copies of tables are made equal.
        enqueue_batch_after_forward: whether the next batch is taken after the forward pass, and not before.
        enable_inplace_copy_batch: accepted for upstream's sake.
        free_features_storage_early: whether features give their memory back once they were sent.
        delay_stash: whether tables go when `stash_site_fqn` begins its forward pass, and not right after the look-up.
        stash_site_fqn: path of that module.
        clear_data_dist_inputs: whether features give their memory back once they were sent.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        device: torch.device,
        site_fqn: str | InjectionSite,
        execute_all_batches: bool = True,
        apply_jit: bool = False,
        context_type: type[TrainPipelineContext] = TrainPipelineContext,
        pipeline_postproc: bool = False,
        custom_model_fwd: ModelForward | None = None,
        dmp_collection_sync_interval_batches: int | None = 1,
        enqueue_batch_after_forward: bool = False,
        enable_inplace_copy_batch: bool = False,
        free_features_storage_early: bool = False,
        delay_stash: bool = False,
        stash_site_fqn: str | None = None,
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
            dmp_collection_sync_interval_batches,
            enqueue_batch_after_forward,
            enable_inplace_copy_batch,
            free_features_storage_early,
            clear_data_dist_inputs,
        )
        if delay_stash and stash_site_fqn is None:
            raise OptionError("delay_stash is True, and stash_site_fqn does not say until when.")
        self._stash = HostStash(new_stream(self._device))
        site = site_fqn if isinstance(site_fqn, InjectionSite) else InjectionSite(site_fqn, FirstGradTensorFinder())
        self.register_backward_hook(site, lambda _: self._stash.restore())
        inside = get_unwrapped_module(model)
        if delay_stash and stash_site_fqn is not None:
            inside.get_submodule(stash_site_fqn).register_forward_pre_hook(lambda *_: self._stash_tables())
        else:
            self._sharded = [one for one in inside.modules() if isinstance(one, ShardedModule)]
            for module in self._sharded:
                module.register_forward_hook(lambda module, *_: self._looked_up(module))

    def _looked_up(self, module: nn.Module) -> None:
        if module is self._sharded[-1]:
            self._stash_tables()

    def _tables(self) -> Iterator[Tensor]:
        """Tables on an accelerator."""
        for kernel in self._kernels():
            yield from (one for one in kernel.split_embedding_weights() if one.device.type != "cpu")

    def _kernels(self) -> Iterator[Any]:
        for module in get_unwrapped_module(self._model).modules():
            kernels: Any = getattr(module, "_kernels", None)
            if isinstance(module, ShardedModule) and kernels is not None:
                yield from kernels()

    def _stash_tables(self) -> None:
        if torch.is_grad_enabled() and not len(self._stash):
            self._stash.stash(self._tables())

    def _step(self) -> None:
        self._stash.restore()  # where no gradient came to the site
        super()._step()


class TrainPipelinePrefetchEMS(TrainPipelineSparseDistEmbStash[In, Out]):
    """The same for the caches of tables on the host: rows that changed are written back first.

    The arguments are those of `TrainPipelineSparseDistEmbStash`.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        device: torch.device,
        site_fqn: str | InjectionSite,
        execute_all_batches: bool = True,
        apply_jit: bool = False,
        context_type: type[TrainPipelineContext] = TrainPipelineContext,
        pipeline_postproc: bool = False,
        custom_model_fwd: ModelForward | None = None,
        dmp_collection_sync_interval_batches: int | None = 1,
        enqueue_batch_after_forward: bool = False,
        enable_inplace_copy_batch: bool = False,
        free_features_storage_early: bool = False,
    ) -> None:
        super().__init__(
            model,
            optimizer,
            device,
            site_fqn,
            execute_all_batches,
            apply_jit,
            context_type,
            pipeline_postproc,
            custom_model_fwd,
            dmp_collection_sync_interval_batches,
            enqueue_batch_after_forward,
            enable_inplace_copy_batch,
            free_features_storage_early,
        )

    def _tables(self) -> Iterator[Tensor]:
        yield from super()._tables()
        for kernel in self._kernels():
            cache = getattr(kernel.emb_module, "lxu_cache_weights", None)
            if isinstance(cache, Tensor) and cache.device.type != "cpu":
                kernel.flush()
                yield cache

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """Train on the next batch; see `TrainPipeline.progress`."""
        return super().progress(dataloader_iter)


class EvalPipelineCPUSparse(TrainPipelineSparseDist[In, Out]):
    """Computes outputs of a model whose tables are on the host, and whose rest is on an accelerator.

    Tables are looked up for the next batch while the accelerator computes one.

    Args:
        model: as in `TrainPipelineSparseDist`, as are those that are not named here.
        optimizer: not used.
        device: of the rest of the model.
        execute_all_batches: whether batches that were taken ahead are computed once there are no further ones.
        apply_jit: no effect.
        pipeline_postproc: whether modules between the batch and tables are computed ahead.
        enable_inplace_copy_batch: accepted for upstream's sake.
        multi_thread: whether look-ups are made in a thread of their own.
        pipeline_depth: batches that are looked up at a time, with the one that is computed.
        free_features_storage_early: no effect; features are looked up where they are.
        clear_data_dist_inputs: likewise.
    """

    _forward_type = CPUEmbeddingPipelinedForward

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        device: torch.device,
        execute_all_batches: bool = True,
        apply_jit: bool = False,
        pipeline_postproc: bool = False,
        enable_inplace_copy_batch: bool = False,
        multi_thread: bool = False,
        pipeline_depth: int = 2,
        free_features_storage_early: bool = False,
        clear_data_dist_inputs: bool = False,
    ) -> None:
        super().__init__(
            model,
            optimizer,
            device,
            execute_all_batches,
            apply_jit,
            CPUEmbeddingTrainPipelineContext,
            pipeline_postproc,
            enable_inplace_copy_batch=enable_inplace_copy_batch,
        )
        if pipeline_depth < 1:
            raise OptionError(f"pipeline_depth is {pipeline_depth}; expected 1 or more.")
        self._depth = pipeline_depth
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embeddings") if multi_thread else None

    @property
    def _trains(self) -> bool:
        return False

    @torch.no_grad()
    def _looked_up_and_copied(self, batch: Any, context: CPUEmbeddingTrainPipelineContext) -> Any:
        """Look up a batch, and copy it and its results to the accelerator; returns the batch there."""
        pipelined = self._model_ahead()
        pipelined.start(batch, context)
        pipelined.wait(context)
        for forward in pipelined.forwards:
            found = LazyAwaitable._wait_async(forward._looked_up(context))
            context.gpu_embedding_outputs[forward.name] = found
        return self.copy_data_to_gpu(batch, context)

    def copy_data_to_gpu(self, batch: In, context: CPUEmbeddingTrainPipelineContext) -> In:
        """Copy a batch, and what was looked up for it, to the accelerator.

        Args:
            batch: on the host.
            context: of it.

        Returns:
            The batch there.
        """
        with on_stream(self._memcpy_stream):
            outputs = context.gpu_embedding_outputs
            for name, found in outputs.items():
                outputs[name] = (
                    {key: moved(one, self._device) for key, one in found.items()}
                    if isinstance(found, dict)
                    else moved(found, self._device)
                )
            return moved(batch, self._device)  # type: ignore[no-any-return]

    def enqueue_batch(self, dataloader_iter: Iterator[In]) -> bool:
        """Take the next batch, and look it up; whether there was one."""
        batch: Any = self._source.take(dataloader_iter)
        if batch is None:
            return False
        context = CPUEmbeddingTrainPipelineContext(index=self._count, version=1, dense_gpu_device=str(self._device))
        self._count += 1
        self._model_ahead()
        work = self._looked_up_and_copied
        self.batches.append(work(batch, context) if self._thread is None else self._thread.submit(work, batch, context))
        self.contexts.append(context)
        return True

    def fill_pipeline(self, dataloader_iter: Iterator[In]) -> None:
        """Take batches until there are as many as go on at a time."""
        while len(self.batches) < self._depth and self.enqueue_batch(dataloader_iter):
            pass

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """The output of the next batch; see `TrainPipeline.progress`."""
        self._check_attached()
        self.fill_pipeline(dataloader_iter)
        left_over = self._source.exhausted and not self._execute_all_batches and len(self.batches) < self._depth
        if not self.batches or left_over:
            raise StopIteration
        batch = self.batches[0]  # waited for
        self._model_ahead().work_on(self.contexts[0])
        self._prepared(batch)
        with torch.no_grad():
            _, output = self._model_fwd(batch)
        self.dequeue_batch()
        return output  # type: ignore[no-any-return]
