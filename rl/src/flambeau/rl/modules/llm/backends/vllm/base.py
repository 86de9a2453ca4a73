"""What training asks of an engine of vLLM that gets new weights while it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

__all__ = ["RLvLLMEngine"]


class RLvLLMEngine(ABC):
    """An engine of vLLM whose weights are replaced by those of a training process.

    Weights come over a process group of the trainer (rank 0) and all workers of the engine, one tensor after the other.
    """

    @abstractmethod
    def get_tp_size(self) -> int:
        """How many workers share a model's tensors."""

    @abstractmethod
    def get_model_metadata(self) -> dict[str, tuple[torch.dtype, torch.Size]]:
        """The names, dtypes and shapes of the weights."""

    @abstractmethod
    def get_master_address(self) -> str:
        """The host of the process group."""

    @abstractmethod
    def get_master_port(self) -> int:
        """The port of the process group."""

    @abstractmethod
    def init_weight_update_group(self) -> None:
        """Join the process group with all workers."""

    @abstractmethod
    def update_weights(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        """Replace weights.

        Args:
            weights: names and tensors, as the model's `load_weights` takes them.
        """

    @abstractmethod
    def reset_prefix_cache(self) -> None:
        """Forget what was computed of prompts with former weights."""


def imported_vllm() -> Any:
    """The library.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import vllm
    except ImportError as error:
        raise ImportError("this engine is vLLM's, which is not installed. Run: pip install vllm") from error
    return vllm
