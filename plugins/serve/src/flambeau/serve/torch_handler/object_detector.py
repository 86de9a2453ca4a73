"""The handler `object_detector`."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.serve.torch_handler.vision_handler import VisionHandler
from flambeau.serve.utils.util import map_class_to_label

__all__ = ["ObjectDetector"]


class ObjectDetector(VisionHandler):
    """Boxes whose score is at least `threshold`: `[{label: [x1, y1, x2, y2], "score": s}]`."""

    threshold = 0.5

    def preprocess(self, data: list[dict[str, Any]]) -> Any:
        """Pictures of a batch, each in its own size."""
        return [self._prepared(row).to(self.device) for row in data]

    def inference(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """A dict of `boxes`, `labels` and `scores` for each picture."""
        with torch.inference_mode():
            return self.model(data, *args, **kwargs)

    def postprocess(self, data: Any) -> list[Any]:
        """Labels, boxes and scores, best first."""
        found = []
        for one in data:
            chosen = one["scores"] >= self.threshold
            boxes, labels = one["boxes"][chosen].tolist(), one["labels"][chosen].tolist()
            named = map_class_to_label([[box] for box in boxes], self.mapping, [[label] for label in labels])
            found.append(
                [{**row, "score": score} for row, score in zip(named, one["scores"][chosen].tolist(), strict=True)]
            )
        return found
