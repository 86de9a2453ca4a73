"""Element types of tables by name, and what modules may say about being copied and about caches."""

from __future__ import annotations

import copy
from abc import abstractmethod
from enum import Enum, unique
from typing import cast

import torch
from torch import nn

__all__ = ["CacheMixin", "CopyMixIn", "DataType", "ModuleCopyMixin", "ModuleNoCopyMixin"]


@unique
class DataType(Enum):
    """What the elements of a table are: floating-point numbers, or integers, which may stand for such."""

    FP32 = "FP32"
    FP16 = "FP16"
    BF16 = "BF16"
    INT64 = "INT64"
    INT32 = "INT32"
    INT8 = "INT8"
    UINT8 = "UINT8"
    INT4 = "INT4"
    INT2 = "INT2"
    NFP8 = "NFP8"

    def __str__(self) -> str:
        return self.value


class CacheMixin:
    """Something that keeps what it found out once."""

    @abstractmethod
    def clear_cache(self) -> None:
        """Forget it."""


class CopyMixIn:
    """A module that says how it is copied to a device."""

    @abstractmethod
    def copy(self, device: torch.device) -> nn.Module:
        """The module there."""


class ModuleCopyMixin(CopyMixIn):
    """A module that is copied as a whole."""

    def copy(self, device: torch.device) -> nn.Module:
        """A module of its own there."""
        module = cast("nn.Module", self)
        return copy.deepcopy(module).to(device)


class ModuleNoCopyMixin(CopyMixIn):
    """A module that stays where it is, such as one whose tables are on several devices already."""

    def copy(self, device: torch.device) -> nn.Module:
        """The module itself."""
        return cast("nn.Module", self)
