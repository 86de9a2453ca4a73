"""Predictors: what `flambeau predict` does with texts."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flambeau.core.errors import PredictError
from flambeau.core.predict import Prediction, PredictOptions

if TYPE_CHECKING:
    import torch
    from torch import nn

    from flambeau.core.weights import WeightsEnum

__all__ = ["classify_text"]

_SHOWN = 40


def classify_text(
    source: str,
    *,
    model: nn.Module,
    weights: WeightsEnum,
    device: torch.device,
    dtype: torch.dtype,
    options: PredictOptions,
) -> Prediction:
    """Name the class of a text; see `flambeau.core.predict.Predictor`.

    Args:
        source: the text.
        model: maps token ids (N, tokens) to logits (N, classes).
        weights: has the preprocessing, from a text to the ids of its windows (N, tokens), and the class names in
            `meta["categories"]`.
        device: where the model is.
        dtype: of the model's floating parameters; ids are integers.
        options: `top` is the number of classes to name.

    Returns:
        Rows of `class` and `probability`, most probable first; of a text with several windows the mean of their logits
        decides. The picture has a bar for each row; `.svg` needs nothing, other formats need Pillow.

    Raises:
        PredictError: the text is empty.
    """
    if not source.strip():
        raise PredictError("the text is empty; give at least a word.")
    logits = model(weights.transforms()(source).to(device)).float().mean(0)
    probabilities = logits.softmax(0)
    best = probabilities.topk(min(options.top, len(probabilities)))
    names = weights.meta["categories"]
    rows: list[dict[str, Any]] = [
        {"class": names[index], "probability": probability}
        for probability, index in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]
    shown = " ".join(source.split())
    title = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"
    return Prediction(
        rows, ("class", "probability"), f"{title!r}, read by {weights!r}", draw=functools.partial(_draw, title, rows)
    )


def _draw(title: str, rows: list[dict[str, Any]], path: Path) -> None:
    from flambeau.text._answer_picture import draw_classes

    draw_classes(title, [(row["class"], row["probability"]) for row in rows], path)
