"""How requests of a task become samples, and a model's outputs answers: what a server needs to know of a domain.

A plugin's manifest names the service for a task::

    "services": [{"task": "image-classification", "target": "pkg.services:ImageClassification",
                  "media_types": ["image/jpeg", "image/png"]}]

Several may exist for a task: the one of the model's own plugin serves, else the first by the plugin's name. A task that
has none is served by its predictor (`flambeau.core.predict`), one request at a time, so that every model with a task
and weights can be served on the day it is registered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from flambeau.core.plugins.manager import contributions

if TYPE_CHECKING:
    import torch

    from flambeau.core.weights import WeightsEnum

__all__ = ["Service", "ServiceParameters", "service_target"]


class ServiceParameters(BaseModel):
    """What a request may ask of an answer; subclasses add fields, whose descriptions become documentation."""

    model_config = ConfigDict(extra="ignore")

    top: int = Field(5, ge=1, le=1000, description="the most rows to return")


class Service(ABC):
    """Requests of one task to one model, from bytes to an answer.

    A server calls `decode` and `prepare` for each request, `collate` and `forward` for a batch of them, `split`, and
    `answer` for each; in inference mode. What `decode` or `prepare` raises concerns its request alone.

    Args:
        model: in evaluation mode, on `device`, its floating parameters in `dtype`.
        weights: the member that the model's parameters are from.
        device: where inputs have to be.
        dtype: what floating inputs have to be.
    """

    Parameters: ClassVar[type[ServiceParameters]] = ServiceParameters

    def __init__(
        self, *, model: torch.nn.Module, weights: WeightsEnum, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.model = model
        self.weights = weights
        self.device = device
        self.dtype = dtype
        self._transforms: Any = None

    @abstractmethod
    def decode(self, body: bytes, media_type: str, parameters: Any) -> Any:
        """The sample in a request's body.

        Args:
            body: as it came; hostile until read.
            media_type: in lower case, without parameters; empty where the client named none.
            parameters: an instance of `Parameters`.

        Raises:
            PredictError: it cannot be read as what the task needs; the message goes to the client.
        """

    def prepare(self, sample: Any) -> Any:
        """Tensors of a sample, still without a batch dimension: by default `weights.transforms()`."""
        if self._transforms is None:
            self._transforms = self.weights.transforms()
        return self._transforms(sample)

    def collate(self, prepared: list[Any]) -> Any:
        """A batch of prepared samples, on `device`: by default tensors are stacked."""
        from flambeau.core.tensors.collation import collate

        return _moved(collate(prepared), self.device, self.dtype)

    def forward(self, batch: Any) -> Any:
        """The model's output for a batch."""
        return self.model(batch)

    def split(self, output: Any, count: int) -> list[Any]:
        """The output of each sample: by default along the first dimension of a tensor, or of each tensor in a dict."""
        if isinstance(output, dict):
            return [{key: value[index] for key, value in output.items()} for index in range(count)]
        return [output[index] for index in range(count)]

    @abstractmethod
    def answer(self, output: Any, sample: Any, parameters: Any) -> dict[str, Any]:
        """What is said to the client: plain JSON values, equal to what `flambeau predict --json` prints."""


def service_target(task: str, plugin: str) -> tuple[str, dict[str, Any]] | None:
    """Which service answers for a task: its target "module:Class" and its record; None where there is none.

    Args:
        task: of the model.
        plugin: the model's plugin, whose own service goes before others.
    """
    fitting = [(owner.name != plugin, owner.name, record) for owner, record in contributions("services")]
    fitting = [item for item in fitting if item[2]["task"] == task]
    if not fitting:
        return None
    record = min(fitting, key=lambda item: item[:2])[2]
    return str(record["target"]), record


def _moved(batch: Any, device: torch.device, dtype: torch.dtype) -> Any:
    """Every tensor of a batch where and what the model takes."""
    import torch

    if isinstance(batch, torch.Tensor):
        return batch.to(device, dtype if batch.is_floating_point() else None)
    if isinstance(batch, dict):
        return {key: _moved(value, device, dtype) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch)(_moved(value, device, dtype) for value in batch)
    return batch
