"""Classification: names for what a picture shows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flambeau.core.predict import Prediction, PredictOptions
from flambeau.vision._predict.picture import (
    SMALLEST,
    font_of,
    read_picture,
    resized,
    save_picture,
    shortened,
    to_pillow,
)

if TYPE_CHECKING:
    import torch
    from PIL import ImageDraw
    from torch import Tensor, nn

    from flambeau.core.weights import WeightsEnum

__all__ = ["class_rows", "classify_image", "draw_classes"]


def classify_image(
    source: str,
    *,
    model: nn.Module,
    weights: WeightsEnum,
    device: torch.device,
    dtype: torch.dtype,
    options: PredictOptions,
) -> Prediction:
    """Name what is in a picture; see `flambeau.core.predict.Predictor`.

    Args:
        source: path of a JPEG, PNG, GIF or WebP file; of an animation the first frame is taken.
        model: maps a batch of prepared pictures to logits (N, classes).
        weights: has the preprocessing, and the class names in `meta["categories"]`.
        device: where the model is.
        dtype: of the model's floating parameters.
        options: `top` is the number of classes to name.

    Returns:
        Rows of `class` and `probability`, most probable first. The picture that `draw` writes has them below it.

    Raises:
        PredictError: the file is no picture, or a damaged one.
    """
    picture = read_picture(source)
    batch = weights.transforms()(picture).unsqueeze(0).to(device, dtype)
    rows = class_rows(model(batch)[0], weights.meta["categories"], options.top)
    title = f"{Path(source).name}, seen by {weights!r}"
    return Prediction(rows, ("class", "probability"), title, partial(draw_classes, picture, rows))


def class_rows(logits: Tensor, names: Sequence[str], top: int) -> list[dict[str, Any]]:
    """The most probable classes of one picture: rows of `class` and `probability`.

    Args:
        logits: (classes,).
        names: of the classes.
        top: the most rows.
    """
    probabilities = logits.float().softmax(0)
    best = probabilities.topk(min(top, len(probabilities)))
    return [
        {"class": names[index], "probability": probability}
        for probability, index in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]


# --- the picture of an answer -------------------------------------------------------------------------------------

_PAPER, _TEXT, _FAINT, _BAR = "#16181d", "#ffffff", "#9aa3b2", "#f59f3a"


def draw_classes(picture: Tensor, rows: list[dict[str, Any]], path: Path) -> None:
    """Write the picture with the rows below it: name, bar, percentage.

    Raises:
        PredictError: the path's suffix names no image format.
    """
    from PIL import Image, ImageDraw

    image = resized(to_pillow(picture))
    width = max(image.width, SMALLEST)
    text_height = max(16, width // 20)
    line = text_height * 2
    canvas = Image.new("RGB", (width, image.height + line * len(rows) + text_height // 2), _PAPER)
    canvas.paste(image, ((width - image.width) // 2, 0))
    draw = ImageDraw.Draw(canvas)
    for number, row in enumerate(rows):
        top = image.height + text_height // 2 + number * line
        _draw_row(draw, row, top, width, text_height, _TEXT if number == 0 else _FAINT)
    save_picture(canvas, path)


def _draw_row(
    draw: ImageDraw.ImageDraw, row: dict[str, Any], top: int, width: int, text_height: int, colour: str
) -> None:
    font, margin = font_of(text_height), text_height // 2
    percentage = f"{100 * row['probability']:.1f} %"
    room = width - 3 * margin - font.getlength(percentage)
    draw.text((margin, top), shortened(row["class"], room, font.getlength), fill=colour, font=font)
    draw.text((width - margin, top), percentage, fill=colour, font=font, anchor="ra")
    bar_top, bar_height = top + round(text_height * 1.35), max(2, text_height // 6)
    length = round((width - 2 * margin) * row["probability"])
    draw.rectangle((margin, bar_top, margin + length, bar_top + bar_height), fill=_BAR)
