"""Services: what a server does with the requests of models of pictures; see `flambeau.core.services`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.core.services import Service, ServiceParameters
from flambeau.vision._predict.classes import class_rows
from flambeau.vision._predict.objects import object_rows
from flambeau.vision._predict.picture import read_picture

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ImageClassification", "ObjectDetection"]


class ImageClassification(Service):
    """What a picture shows: rows of `class` and `probability`, most probable first.

    Its model maps a batch of prepared pictures to logits (N, classes); `weights.meta["categories"]` has their names.
    """

    def decode(self, body: bytes, media_type: str, parameters: Any) -> Tensor:
        """A picture, uint8 (3, H, W).

        Raises:
            PredictError: it is none, or a damaged one.
        """
        return read_picture(body)

    def answer(self, output: Tensor, sample: Tensor, parameters: ServiceParameters) -> dict[str, Any]:
        """Title, columns and rows, as `flambeau predict --json` has them."""
        rows = class_rows(output, self.weights.meta["categories"], parameters.top)
        return {"title": f"seen by {self.weights!r}", "columns": ["class", "probability"], "rows": rows}


class ObjectDetection(Service):
    """The objects in a picture: rows of `class`, `probability` and `box`, most probable first.

    Its model maps a list of prepared pictures, which may differ in size, to a list of detections.
    """

    def decode(self, body: bytes, media_type: str, parameters: Any) -> Tensor:
        """A picture, uint8 (3, H, W).

        Raises:
            PredictError: it is none, or a damaged one.
        """
        return read_picture(body)

    def collate(self, prepared: list[Tensor]) -> list[Tensor]:
        """Pictures of any sizes, where the model is."""
        return [one.to(self.device, self.dtype) for one in prepared]

    def split(self, output: Any, count: int) -> list[Any]:
        """What was found in each picture."""
        return list(output)

    def answer(self, output: dict[str, Tensor], sample: Tensor, parameters: ServiceParameters) -> dict[str, Any]:
        """Title, columns and rows, as `flambeau predict --json` has them."""
        found = {name: output[name][: parameters.top].float().cpu() for name in ("labels", "scores", "boxes")}
        rows = object_rows(found, self.weights.meta["categories"])
        return {"title": f"seen by {self.weights!r}", "columns": ["class", "probability", "box"], "rows": rows}
