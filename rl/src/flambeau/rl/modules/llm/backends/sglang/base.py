"""What training asks of a server of SGLang that gets new weights while it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

__all__ = ["RLSGLangEngine"]


class RLSGLangEngine(ABC):
    """A server of SGLang whose weights are replaced by those of a training process."""

    @abstractmethod
    def get_tp_size(self) -> int:
        """How many workers share a model's tensors."""

    @abstractmethod
    def get_dp_size(self) -> int:
        """How many replicas there are."""

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
    def init_weight_update_group(self, master_address: str | None = None, master_port: int | None = None) -> None:
        """Join a process group with the trainer, which is rank 0.

        Args:
            master_address: its host.
            master_port: its port.
        """

    @abstractmethod
    def update_weights(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        """Replace weights.

        Args:
            weights: names and tensors.
        """

    @abstractmethod
    def update_weights_from_distributed(self, name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        """Have the server receive one tensor that the trainer broadcasts.

        Args:
            name: of the weight.
            dtype: of the tensor.
            shape: of the tensor.
        """
