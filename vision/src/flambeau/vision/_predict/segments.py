"""Segmentation: which parts of a picture show what."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flambeau.core.predict import Prediction, PredictOptions
from flambeau.vision._predict.objects import color_of
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
    from torch import Tensor, nn

    from flambeau.core.weights import WeightsEnum

__all__ = ["segment_image"]

_PAPER, _TEXT = "#16181d", "#ffffff"


def segment_image(
    source: str,
    *,
    model: nn.Module,
    weights: WeightsEnum,
    device: torch.device,
    dtype: torch.dtype,
    options: PredictOptions,
) -> Prediction:
    """Name what the parts of a picture show; see `flambeau.core.predict.Predictor`.

    Args:
        source: path of a JPEG, PNG, GIF or WebP file; of an animation the first frame is taken.
        model: maps a batch of prepared pictures to `{"out": logits (N, classes, H, W)}`.
        weights: has the preprocessing, and the class names in `meta["categories"]`.
        device: where the model is.
        dtype: of the model's floating parameters.
        options: `top` is the largest number of classes to name.

    Returns:
        Rows of `class`, `share` (of the picture, from 0 to 1) and `pixels`, largest first, only of classes that are
        there. The picture that `draw` writes has the parts coloured, and their names below.

    Raises:
        PredictError: the file is no picture, or a damaged one.
    """
    from torch.nn.functional import interpolate

    picture = read_picture(source)
    batch = weights.transforms()(picture).unsqueeze(0).to(device, dtype)
    classes = model(batch)["out"].argmax(1, keepdim=True)
    # Classes are resized, not logits: of a large photograph those would not fit into memory.
    classes = interpolate(classes.float(), size=picture.shape[-2:], mode="nearest")[0, 0].long().cpu()
    names = weights.meta["categories"]
    counts = classes.flatten().bincount(minlength=len(names))
    rows = [
        {"class": names[index], "share": round(int(counts[index]) / classes.numel(), 4), "pixels": int(counts[index])}
        for index in counts.argsort(descending=True, stable=True).tolist()
        if counts[index] > 0
    ][: options.top]
    title = f"{Path(source).name}, seen by {weights!r}"
    parts = [classes == names.index(row["class"]) for row in rows]
    return Prediction(rows, ("class", "share", "pixels"), title, partial(_draw, picture, parts, rows))


def _draw(picture: Tensor, parts: list[Tensor], rows: list[dict[str, Any]], path: Path) -> None:
    """Write the picture with its parts coloured, and a legend below it; background keeps its look.

    Raises:
        PredictError: the path's suffix names no image format.
    """
    import torch
    from PIL import Image, ImageDraw

    from flambeau.vision.utils import draw_segmentation_masks

    shown = [index for index, row in enumerate(rows) if row["class"] != "__background__"]
    if shown:
        masks = torch.stack([parts[index] for index in shown])
        colors = [color_of(index) for index in shown]
        picture = draw_segmentation_masks(picture, masks, alpha=0.6, colors=list(colors))
    image = resized(to_pillow(picture))
    width = max(image.width, SMALLEST)
    text_height = max(16, width // 30)
    line = round(text_height * 1.5)
    canvas = Image.new("RGB", (width, image.height + line * len(rows) + text_height // 2), _PAPER)
    canvas.paste(image, ((width - image.width) // 2, 0))
    pen, font = ImageDraw.Draw(canvas), font_of(text_height)
    for number, row in enumerate(rows):
        top, margin = image.height + text_height // 2 + number * line, text_height // 2
        if number in shown:
            pen.rectangle((margin, top, margin + text_height, top + text_height), fill=color_of(number))
        percentage = f"{100 * row['share']:.1f} %"
        start = text_height + 2 * margin
        room = width - start - 2 * margin - font.getlength(percentage)
        pen.text((start, top), shortened(row["class"], room, font.getlength), fill=_TEXT, font=font)
        pen.text((width - margin, top), percentage, fill=_TEXT, font=font, anchor="ra")
    save_picture(canvas, path)
