"""Videos as animated images, which is how TensorBoard keeps them."""

from __future__ import annotations

import io
from typing import Any

from torch import Tensor

from flambeau.rl.record._video import as_frames

__all__ = ["gif_bytes", "gif_summary"]


def gif_bytes(frames: Any, fps: float) -> bytes:
    """Frames, (time, height, width, channels) in uint8, as an animated GIF.

    Raises:
        ImportError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("animated images need Pillow. Run: pip install 'flambeau-rl[video]'") from error
    images = [Image.fromarray(frame) for frame in as_frames(frames)]
    buffer = io.BytesIO()
    duration = max(20, round(1000 / fps))  # viewers slow down what is faster
    images[0].save(buffer, format="GIF", save_all=True, append_images=images[1:], duration=duration, loop=0)
    return buffer.getvalue()


def gif_summary(name: str, video: Tensor, fps: float) -> Any:
    """A video, (N, T, C, H, W), as TensorBoard's summary; several stand side by side.

    Raises:
        ValueError: it has another shape.
    """
    from tensorboard.compat.proto.summary_pb2 import Summary

    if video.ndim != 5:
        raise ValueError(f"a video is (N, T, C, H, W); got {tuple(video.shape)}.")
    count, time, channels, height, width = video.shape
    frames = video.permute(1, 3, 0, 4, 2).reshape(time, height, count * width, channels)
    image = Summary.Image(
        height=height, width=count * width, colorspace=channels, encoded_image_string=gif_bytes(frames, fps)
    )
    return Summary(value=[Summary.Value(tag=name, image=image)])
