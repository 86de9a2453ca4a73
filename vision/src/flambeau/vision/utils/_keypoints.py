"""Key points and the lines of a skeleton, drawn on an image."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.vision.utils._canvas import Canvas, check_image
from flambeau.vision.utils._colors import Color, parse_color


@torch.no_grad()
def draw_keypoints(
    image: Tensor,
    keypoints: Tensor,
    connectivity: list[tuple[int, int]] | None = None,
    colors: Color | None = None,
    radius: int = 2,
    width: int = 3,
    visibility: Tensor | None = None,
) -> Tensor:
    """Draw key points, and lines between them, on a copy of an image.

    Args:
        image: [3, H, W], uint8, or floating point in [0, 1].
        keypoints: [N, K, 2], K points (x, y) for each of N objects, in pixels; fractions are cut off.
        connectivity: pairs of point numbers, each in 0..K-1, between which a white line is drawn.
        colors: of the points, as name, "#rrggbb" or (red, green, blue) in 0..255; white by default.
        radius: of the points, in pixels.
        width: of the lines, in pixels.
        visibility: [N, K] or [N, K, 1]; points where it is 0 or False are left out, and their lines. By default all
            are drawn.

    Returns:
        [3, H, W], dtype and device of `image`.

    Raises:
        TypeError: `image` is no tensor.
        ValueError: dtypes or shapes do not fit.
        IndexError: `connectivity` names a point that is not there.
    """
    check_image(image, (3,))
    if keypoints.ndim != 3 or keypoints.shape[-1] != 2:
        raise ValueError(f"keypoints has the shape {list(keypoints.shape)}, expected [instances, K, 2].")
    shown = _shown(keypoints, visibility)
    count = keypoints.shape[1]
    pairs = connectivity or []
    if any(not -count <= number < count for pair in pairs for number in pair):
        raise IndexError(
            f"connectivity is {pairs}, and there are {count} points; expected numbers from 0 to {count - 1}."
        )
    color = parse_color(colors) if colors is not None else (255, 255, 255)
    canvas = Canvas(image)
    with canvas.draw() as pen:
        for points, seen in zip(keypoints.to(torch.int64).tolist(), shown.tolist(), strict=True):
            for (x, y), visible in zip(points, seen, strict=True):
                if visible:
                    pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color)
            for start, end in pairs:
                if seen[start] and seen[end]:
                    pen.line((*points[start], *points[end]), fill=(255, 255, 255), width=width)
    return canvas.result()


def _shown(keypoints: Tensor, visibility: Tensor | None) -> Tensor:
    """[N, K], bool; a point without finite coordinates is not there to be drawn."""
    finite = keypoints.isfinite().all(-1)
    if visibility is None:
        return finite
    if visibility.ndim == 3 and visibility.shape[-1] == 1:
        visibility = visibility[..., 0]
    if visibility.shape != keypoints.shape[:2]:
        raise ValueError(
            f"visibility has the shape {list(visibility.shape)} for keypoints of {list(keypoints.shape)}; expected "
            "[instances, K], one truth value for each point."
        )
    return finite & visibility.to(keypoints.device).bool()
