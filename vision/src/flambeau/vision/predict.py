"""Predictors: what `flambeau predict` does with a picture."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flambeau.core.errors import PredictError
from flambeau.core.predict import Prediction, PredictOptions

if TYPE_CHECKING:
    import torch
    from PIL import Image, ImageDraw, ImageFont
    from torch import Tensor, nn

    from flambeau.core.weights import WeightsEnum

__all__ = ["classify_image"]


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
    picture = _read(source)
    batch = weights.transforms()(picture).unsqueeze(0).to(device, dtype)
    probabilities = model(batch)[0].float().softmax(0)
    best = probabilities.topk(min(options.top, len(probabilities)))
    names = weights.meta["categories"]
    rows = [
        {"class": names[index], "probability": probability}
        for probability, index in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]
    title = f"{Path(source).name}, seen by {weights!r}"
    return Prediction(rows, ("class", "probability"), title, partial(_draw, picture, rows))


def _read(source: str) -> Tensor:
    """A picture as uint8 [3, H, W], upright, with white where it is transparent."""
    from flambeau.vision.io import ImageError, decode_image
    from flambeau.vision.transforms.functional import convert_image_dtype

    try:
        picture = decode_image(source, mode="RGB_ALPHA", apply_exif_orientation=True)
    except ImageError as error:
        raise PredictError(f"{source}: {error}") from error
    import torch

    first = picture if picture.ndim == 3 else picture[0]
    colour, alpha = convert_image_dtype(first, torch.float).tensor_split((3,))
    return convert_image_dtype(colour * alpha + (1 - alpha), torch.uint8)


# --- the picture of an answer -------------------------------------------------------------------------------------

_SMALLEST, _LARGEST = 360, 1600  # of the longer side of the picture, in pixels
_PAPER, _TEXT, _FAINT, _BAR = "#16181d", "#ffffff", "#9aa3b2", "#f59f3a"


def _draw(picture: Tensor, rows: list[dict[str, Any]], path: Path) -> None:
    """Write the picture with the rows below it: name, bar, percentage.

    Raises:
        PredictError: the path's suffix names no image format.
    """
    from PIL import Image, ImageDraw

    image = _resized(Image.fromarray(picture.permute(1, 2, 0).numpy()))
    width = max(image.width, _SMALLEST)
    text_height = max(16, width // 20)
    line = text_height * 2
    canvas = Image.new("RGB", (width, image.height + line * len(rows) + text_height // 2), _PAPER)
    canvas.paste(image, ((width - image.width) // 2, 0))
    draw = ImageDraw.Draw(canvas)
    for number, row in enumerate(rows):
        top = image.height + text_height // 2 + number * line
        _draw_row(draw, row, top, width, text_height, _TEXT if number == 0 else _FAINT)
    try:
        canvas.save(path)
    except ValueError as error:
        raise PredictError(f"--out: {path.name!r} names no image format; use .png, .jpg or .webp.") from error


def _draw_row(
    draw: ImageDraw.ImageDraw, row: dict[str, Any], top: int, width: int, text_height: int, colour: str
) -> None:
    font, margin = _font(text_height), text_height // 2
    percentage = f"{100 * row['probability']:.1f} %"
    room = width - 3 * margin - font.getlength(percentage)
    draw.text((margin, top), _shortened(row["class"], room, font.getlength), fill=colour, font=font)
    draw.text((width - margin, top), percentage, fill=colour, font=font, anchor="ra")
    bar_top, bar_height = top + round(text_height * 1.35), max(2, text_height // 6)
    length = round((width - 2 * margin) * row["probability"])
    draw.rectangle((margin, bar_top, margin + length, bar_top + bar_height), fill=_BAR)


def _resized(image: Image.Image) -> Image.Image:
    """Shrink what is large, and enlarge what is tiny by a whole factor, so that its pixels stay crisp."""
    from PIL import Image

    longer = max(image.size)
    if longer > _LARGEST:
        scale = _LARGEST / longer
        size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
        return image.resize(size, Image.Resampling.LANCZOS)
    factor = max(1, _SMALLEST // longer)
    return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _shortened(text: str, room: float, length: Callable[[str], float]) -> str:
    """The text, or as much of its beginning as fits, with an ellipsis."""
    if length(text) <= room:
        return text
    while text and length(text + "…") > room:
        text = text[:-1]
    return text.rstrip() + "…"
