"""Frames as pictures and films."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from flambeau.core.files import write_atomic
from flambeau.rl.record._video import written
from flambeau.rl.record.loggers._gif import gif_bytes

__all__ = [
    "compose_frame_grid",
    "encode_gif",
    "encode_video",
    "normalize_frame",
    "normalize_frame_output",
    "write_png",
]

Frame = Any  # an array (height, width, channels)


def normalize_frame(frame: Any) -> Frame:
    """A frame as (height, width, 3) in uint8.

    Args:
        frame: a tensor or array (H, W), (H, W, C) or (C, H, W), C being 1, 3 or 4; numbers of floating point from 0 to
            1 are scaled, and how transparent it is does not count.

    Raises:
        ValueError: it is none of these.
    """
    array = frame.detach().cpu().numpy() if isinstance(frame, torch.Tensor) else np.asarray(frame)
    if array.ndim == 4 and len(array) == 1:
        array = array[0]
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim == 3 and array.shape[-1] not in (1, 3, 4) and array.shape[0] in (1, 3, 4):
        array = np.moveaxis(array, 0, -1)
    if array.ndim != 3 or array.shape[-1] not in (1, 3, 4):
        raise ValueError(f"a frame is (H, W), (H, W, C) or (C, H, W), with 1, 3 or 4 channels; got {array.shape}.")
    if np.issubdtype(array.dtype, np.floating):
        array = np.nan_to_num(array)
        # Numbers above 1 are bytes already, whatever their type.
        array = array * 255 if array.size and array.max() <= 1 else array
        array = array.round()
    array = array.clip(0, 255).astype(np.uint8)
    return np.ascontiguousarray(np.repeat(array, 3, -1) if array.shape[-1] == 1 else array[..., :3])


def normalize_frame_output(output: Any) -> dict[str, Frame]:
    """What an environment renders as frames by name: a mapping, a list of them, or one, named "camera".

    Raises:
        ValueError: there is nothing.
    """
    if output is None:
        raise ValueError("nothing was rendered; gymnasium's environments want render_mode='rgb_array'.")
    if isinstance(output, Mapping):
        return {str(name): normalize_frame(frame) for name, frame in output.items()}
    if isinstance(output, (list, tuple)):
        return {f"camera_{index}": normalize_frame(frame) for index, frame in enumerate(output)}
    return {"camera": normalize_frame(output)}


def compose_frame_grid(
    frames: Sequence[Frame], layout: Literal["single", "grid", "horizontal", "vertical"] = "grid"
) -> Frame:
    """Frames side by side; smaller ones lie on black, in the upper left corner.

    Args:
        frames: (height, width, 3) each.
        layout: "single" for the first alone, "horizontal", "vertical", or "grid", about as high as wide.

    Raises:
        ValueError: there are no frames, or the layout is another one.
    """
    if layout not in ("single", "grid", "horizontal", "vertical"):
        raise ValueError(f"layout must be single, grid, horizontal or vertical; got {layout!r}.")
    if not frames:
        raise ValueError("there are no frames to put side by side.")
    arrays = [normalize_frame(frame) for frame in frames]
    if layout == "single" or len(arrays) == 1:
        return arrays[0]
    columns = {"horizontal": len(arrays), "vertical": 1}.get(layout, math.ceil(math.sqrt(len(arrays))))
    rows = math.ceil(len(arrays) / columns)
    height, width = (max(array.shape[axis] for array in arrays) for axis in (0, 1))
    grid = np.zeros((rows * height, columns * width, 3), np.uint8)
    for index, array in enumerate(arrays):
        top, left = index // columns * height, index % columns * width
        grid[top : top + array.shape[0], left : left + array.shape[1]] = array
    return grid


def _stacked(frames: Sequence[Frame]) -> Frame:
    if not len(frames):
        raise ValueError("a film needs a frame at least.")
    arrays = [normalize_frame(frame) for frame in frames]
    if len({array.shape for array in arrays}) > 1:
        raise ValueError(f"the frames of a film are of one size; got {sorted({array.shape[:2] for array in arrays})}.")
    return np.stack(arrays)


def encode_video(frames: Sequence[Frame], path: str | Path, fps: float, *, video_codec: str | None = None) -> Path:
    """Write a film with PyAV.

    Args:
        frames: see `normalize_frame`, all of one size.
        path: the file, whose suffix says in which container, such as .mp4.
        fps: frames a second, > 0.
        video_codec: as PyAV names it; default: H.264.

    Raises:
        ValueError: there are no frames, or they differ in size.
        ImportError: PyAV is not installed.
    """
    return written(path, _stacked(frames), fps, video_codec)


def encode_gif(frames: Sequence[Frame], path: str | Path, fps: float) -> Path:
    """Write an animated image with Pillow.

    Args:
        frames: see `normalize_frame`, all of one size.
        path: the file.
        fps: frames a second, 50 at most.

    Raises:
        ValueError: there are no frames, or they differ in size.
        ImportError: Pillow is not installed.
    """
    target = Path(path)
    write_atomic(target, gif_bytes(_stacked(frames), fps))
    return target


def write_png(frame: Any, path: str | Path) -> Path:
    """Write a frame as a picture, with Pillow.

    Args:
        frame: see `normalize_frame`.
        path: the file.
    """
    from PIL import Image

    target = Path(path)
    Image.fromarray(normalize_frame(frame)).save(target, format="PNG")
    return target
