"""What a batch has to offer so that pipelines can copy it to a device while another one is computed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Multistreamable", "Pipelineable"]


class Multistreamable(ABC):
    """Something whose memory is used on several streams of an accelerator."""

    @abstractmethod
    def record_stream(self, stream: torch.Stream) -> None:
        """Keep the memory of all tensors from being used again before `stream` is done with them."""


class Pipelineable(Multistreamable):
    """Something that can be copied to a device."""

    @abstractmethod
    def to(self, device: torch.device, non_blocking: bool) -> Self:
        """The same on another device.

        Args:
            device: where to.
            non_blocking: whether the copy may go on after the call; it does from pinned memory.
        """
