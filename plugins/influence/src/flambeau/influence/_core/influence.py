"""What every method is: something that says how much training data influenced a prediction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import nn
from torch.utils.data import DataLoader, Dataset

__all__ = ["DataInfluence"]


class DataInfluence(ABC):
    """Influence of training data on predictions.

    Args:
        model: the model that was trained.
        train_dataset: what it was trained on; a loader must keep the order.
    """

    def __init__(self, model: nn.Module, train_dataset: Dataset[Any] | DataLoader[Any]) -> None:
        self.model = model
        self.train_dataset = train_dataset

    @abstractmethod
    def influence(self, inputs: Any = None) -> Any:
        """How much training examples influenced what the model says of `inputs`; methods add arguments."""

    @classmethod
    def get_name(cls) -> str:
        """The method's name: its class's."""
        return cls.__name__
