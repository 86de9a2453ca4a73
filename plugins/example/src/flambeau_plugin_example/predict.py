"""What `flambeau predict` does for the task "point-classification"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau.core.errors import PredictError
from flambeau.core.predict import Prediction, PredictOptions

if TYPE_CHECKING:
    import torch
    from flambeau.core.weights import WeightsEnum
    from torch import nn

__all__ = ["classify_point"]


def classify_point(
    source: str,
    *,
    model: nn.Module,
    weights: WeightsEnum,
    device: torch.device,
    dtype: torch.dtype,
    options: PredictOptions,
) -> Prediction:
    """Say on which spiral a point lies; see `flambeau.core.predict.Predictor`.

    Args:
        source: two numbers, x and y, with a blank or a comma between them.
        model: maps points (N, 2) to logits (N, classes).
        weights: has the preprocessing and, in `meta["categories"]`, the classes.
        device: where the model is.
        dtype: of the model's parameters.
        options: `top` is the number of classes to name.

    Raises:
        PredictError: the text is not two numbers.
    """
    try:
        x, y = map(float, source.replace(",", " ").split())
    except ValueError as error:
        raise PredictError(f"{source.strip()!r} is no point; expected two numbers such as '0.1 -0.5'.") from error
    point = weights.transforms()([x, y]).to(device, dtype)
    probabilities = model(point.unsqueeze(0))[0].softmax(0).tolist()
    rows = [
        {"class": name, "probability": probability}
        for name, probability in zip(weights.meta["categories"], probabilities, strict=True)
    ]
    rows.sort(key=lambda row: -row["probability"])
    return Prediction(rows[: options.top], ("class", "probability"), f"the point ({x:g}, {y:g})")
