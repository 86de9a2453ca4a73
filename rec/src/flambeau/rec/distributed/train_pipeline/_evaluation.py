"""The pipeline that computes outputs only."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.optim import Optimizer

from flambeau.rec.distributed.train_pipeline._base import In, Out
from flambeau.rec.distributed.train_pipeline._sparse_dist import TrainPipelineSparseDist

__all__ = ["EvalPipelineSparseDist"]


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

    @property
    def _trains(self) -> bool:
        return False

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """The output of the next batch; see `TrainPipeline.progress`."""
        with torch.no_grad():
            return super().progress(dataloader_iter)
