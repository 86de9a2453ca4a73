"""Steps of an optimizer after several batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from flambeau.rec.errors import OptionError

if TYPE_CHECKING:
    from flambeau.rec.distributed.train_pipeline.train_pipelines import TrainPipeline

__all__ = ["GradientAccumulationConfig", "GradientAccumulationWrapper"]


@dataclass
class GradientAccumulationConfig:
    """After how many batches an optimizer makes a step.

    Args:
        is_enabled: whether it is not after each.
        num_steps: batches between two steps.
        num_warmup_steps: batches at the beginning with a step after each.
    """

    is_enabled: bool = False
    num_steps: int = 1
    num_warmup_steps: int = 1


class _Seldom:
    """An optimizer whose steps are made when it is time."""

    def __init__(self, optimizer: Optimizer, owner: GradientAccumulationWrapper) -> None:
        self._optimizer, self._owner = optimizer, owner

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        if self._owner.begins:
            self._optimizer.zero_grad(*args, **kwargs)

    def step(self, *args: Any, **kwargs: Any) -> None:
        if self._owner.ends:
            self._optimizer.step(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)


class GradientAccumulationWrapper:
    """A pipeline whose optimizer makes a step after several batches; gradients add up meanwhile.

    Tables that kernels train are trained after each batch.

    Args:
        pipeline: whose `_optimizer` it is.
        optimizer: makes the steps.
        model: whose gradients are averaged over processes when a step is made.
        config: when that is.
    """

    def __init__(
        self,
        pipeline: TrainPipeline[Any, Any],
        optimizer: Optimizer,
        model: nn.Module,
        config: GradientAccumulationConfig,
    ) -> None:
        if config.num_steps < 1:
            raise OptionError(f"num_steps is {config.num_steps}; expected 1 or more.")
        self._pipeline, self._model, self._config = pipeline, model, config
        self._step, self._last = 0, False
        self._optimizer = _Seldom(optimizer, self)
        pipeline._optimizer = self._optimizer

    @property
    def optimizer_wrapper(self) -> Any:
        """The optimizer as the pipeline calls it."""
        return self._optimizer

    @property
    def current_step(self) -> int:
        """Batches so far."""
        return self._step

    def set_step(self, step: int) -> None:
        """Count batches from here."""
        self._step = step

    def reset(self) -> None:
        """Count batches from 0."""
        self._step = 0

    @property
    def _number(self) -> int | None:
        """The place of the batch among those between two steps; None where a step is made after each."""
        warm = self._step >= self._config.num_warmup_steps
        if not self._config.is_enabled or not warm:
            return None
        return (self._step - self._config.num_warmup_steps) % self._config.num_steps

    @property
    def begins(self) -> bool:
        """Whether gradients are forgotten before the batch."""
        return self._number in (None, 0)

    @property
    def ends(self) -> bool:
        """Whether a step is made after the batch."""
        return self._number in (None, self._config.num_steps - 1) or self._last

    def progress(self, dataloader_iter: Iterator[Any], is_last_batch: bool | None = None) -> Any:
        """One batch.

        Args:
            dataloader_iter: batches.
            is_last_batch: whether a step is made after it in any case.
        """
        self._last = bool(is_last_batch)
        wrapped = getattr(self._model, "_dmp_wrapped_module", self._model)
        quiet = isinstance(wrapped, DistributedDataParallel) and not self.ends
        with wrapped.no_sync() if quiet else nullcontext():  # type: ignore[operator]
            result = self._pipeline.progress(dataloader_iter)
        self._step += 1
        return result
