"""Detection: the objects in a picture, and where they are."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flambeau.core.predict import Prediction, PredictOptions
from flambeau.vision._predict.picture import font_of, read_picture, resized, save_picture, to_pillow

if TYPE_CHECKING:
    import torch
    from PIL import Image
    from torch import Tensor, nn

    from flambeau.core.weights import WeightsEnum

__all__ = ["color_of", "detect_objects", "object_rows"]


def detect_objects(
    source: str,
    *,
    model: nn.Module,
    weights: WeightsEnum,
    device: torch.device,
    dtype: torch.dtype,
    options: PredictOptions,
) -> Prediction:
    """Name the objects in a picture, with their boxes; see `flambeau.core.predict.Predictor`.

    Args:
        source: path of a JPEG, PNG, GIF or WebP file; of an animation the first frame is taken.
        model: maps a list of prepared pictures to a list of detections.
        weights: has the preprocessing, and the class names in `meta["categories"]`.
        device: where the model is.
        dtype: of the model's floating parameters.
        options: `top` is the largest number of objects to name.

    Returns:
        Rows of `class`, `probability` and `box`, x1, y1, x2, y2 in pixels, most probable first; none where nothing is
        found. The picture that `draw` writes has boxes, and masks and keypoints where the model finds them.

    Raises:
        PredictError: the file is no picture, or a damaged one.
    """
    picture = read_picture(source)
    (found,) = model([weights.transforms()(picture).to(device, dtype)])
    found = {name: value[: options.top].float().cpu() for name, value in found.items()}
    rows = object_rows(found, weights.meta["categories"])
    title = f"{Path(source).name}, seen by {weights!r}"
    return Prediction(rows, ("class", "probability", "box"), title, partial(_draw, picture, found, rows))


def object_rows(found: Mapping[str, Tensor], names: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of `class`, `probability` and `box` of what a model has found in one picture.

    Args:
        found: `labels` (N,), `scores` (N,) and `boxes` (N, 4).
        names: of the classes.
    """
    return [
        {"class": names[int(label)], "probability": score, "box": [round(value, 1) for value in box]}
        for label, score, box in zip(
            found["labels"].tolist(), found["scores"].tolist(), found["boxes"].tolist(), strict=True
        )
    ]


def _draw(picture: Tensor, found: dict[str, Tensor], rows: list[dict[str, Any]], path: Path) -> None:
    """Write the picture with the objects on it.

    Raises:
        PredictError: the path's suffix names no image format.
    """
    from flambeau.vision.utils import draw_segmentation_masks

    colors = [color_of(index) for index in range(len(rows))]
    if rows and "masks" in found:
        picture = draw_segmentation_masks(picture, found["masks"][:, 0] >= 0.5, alpha=0.5, colors=list(colors))
    image = resized(to_pillow(picture))
    scale = image.width / picture.shape[2]
    save_picture(_with_boxes(image, found, rows, colors, scale), path)


def _with_boxes(
    image: Image.Image,
    found: dict[str, Tensor],
    rows: list[dict[str, Any]],
    colors: list[tuple[int, int, int]],
    scale: float,
) -> Image.Image:
    """The most probable object is drawn last, above the others."""
    import numpy as np
    import torch
    from PIL import Image, ImageDraw

    from flambeau.vision.utils import draw_bounding_boxes, draw_keypoints

    if not rows:
        return image
    order = list(range(len(rows)))[::-1]
    canvas = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    line = max(2, max(image.size) // 250)
    boxes = found["boxes"][order] * scale
    canvas = draw_bounding_boxes(canvas, boxes, colors=[colors[index] for index in order], width=line)
    if "keypoints" in found:
        canvas = draw_keypoints(canvas, found["keypoints"][..., :2] * scale, colors="white", radius=line)
    drawn = Image.fromarray(canvas.permute(1, 2, 0).contiguous().numpy())
    pen, font = ImageDraw.Draw(drawn), font_of(max(12, max(image.size) // 50))
    for index, box in zip(order, boxes.tolist(), strict=True):
        text = f"{rows[index]['class']} {100 * rows[index]['probability']:.0f} %"
        # Above the box, or inside it where there is no room above.
        left, _, right, bottom = pen.textbbox((box[0], 0), text, font=font)
        start = max(0.0, box[1] - bottom)
        pen.rectangle((left, start, right + 2 * line, start + bottom), fill=colors[index])
        pen.text((box[0] + line, start), text, fill="black", font=font)
    return drawn


def color_of(index: int) -> tuple[int, int, int]:
    """A bright colour, RGB; neighbours in number are far apart in hue, by the golden angle."""
    red, green, blue = colorsys.hsv_to_rgb(index * 0.618034 % 1, 0.75, 1.0)
    return round(255 * red), round(255 * green), round(255 * blue)
