"""What all pipelines do, and the one that copies batches ahead."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import torch
from torch import nn
from torch.optim import Optimizer

from flambeau.rec.distributed.train_pipeline._streams import (
    current_stream,
    keep_for,
    moved,
    new_stream,
    on_stream,
    waited,
)
from flambeau.rec.distributed.train_pipeline.pipeline_context import TrainPipelineContext

__all__ = ["In", "ModelDetachedException", "ModelForward", "Out", "Source", "TrainPipeline", "TrainPipelineBase"]

In = TypeVar("In")
Out = TypeVar("Out")
ModelForward = Callable[[Any], tuple[torch.Tensor, Any]]


class ModelDetachedException(Exception):
    """A pipeline was asked for a batch after `detach` gave its model back."""


class Source:
    """Batches, as pipelines take them: until an iterator ends, and then from the next one that is given."""

    def __init__(self) -> None:
        self._iterator: Iterator[Any] | None = None
        self.exhausted = False

    def take(self, batches: Iterator[Any]) -> Any:
        """The next batch; None at the end, and from then on for the same iterator."""
        if batches is not self._iterator:
            self._iterator, self.exhausted = batches, False
        batch = None if self.exhausted else next(batches, None)
        self.exhausted = batch is None
        return batch

    def another(self, batches: Iterator[Any]) -> bool:
        """Whether an iterator is not the one that ended."""
        return batches is not self._iterator or not self.exhausted

    def reset(self) -> None:
        """Forget that an iterator ended."""
        self._iterator, self.exhausted = None, False


class TrainPipeline(abc.ABC, Generic[In, Out]):
    """Computes batch after batch."""

    _optimizer: Any

    @abc.abstractmethod
    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """Train on the next batch.

        Args:
            dataloader_iter: batches; the same one in each call, as some are taken ahead, or another one after its end.

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
        self._stream = new_stream(self._device)
        self._next: Any = None
        self._source = Source()

    def _take(self, batches: Iterator[In]) -> Any:
        batch: Any = self._source.take(batches)
        with on_stream(self._stream):
            return None if batch is None else moved(batch, self._device)

    def reset(self) -> None:
        """Forget the batch that was taken ahead."""
        self._next = None
        self._source.reset()

    def progress(self, dataloader_iter: Iterator[In]) -> Out:
        """Train on the next batch; see `TrainPipeline.progress`."""
        batch = self._take(dataloader_iter) if self._next is None else self._next
        if batch is None:
            raise StopIteration
        if self._model.training:
            self._optimizer.zero_grad()
        current = current_stream(self._device)
        waited(current, self._stream)
        keep_for(batch, current)
        losses, output = self._model_fwd(batch)
        self._next = self._take(dataloader_iter)
        if self._model.training:
            torch.sum(losses, dim=0).backward()
            self._optimizer.step()
        return output  # type: ignore[no-any-return]
