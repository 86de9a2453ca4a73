"""Videos as files, written by PyAV (`pip install 'flambeau-rl[video]'`)."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

__all__ = ["written"]


def written(path: str | Path, frames: Any, fps: float = 30, codec: str | None = None, **options: Any) -> Path:
    """Write frames as a video; the suffix of the path says in which container.

    Args:
        path: the file, such as "run.mp4".
        frames: (time, height, width, channels), uint8, one channel or three; odd sizes lose a row or column.
        fps: frames a second, > 0.
        codec: as PyAV names it; default: H.264, or MPEG-4 part 2 where PyAV was built without it.
        options: of the encoder, such as crf="20".

    Raises:
        ImportError: PyAV is not installed.
        ValueError: the frames are none, or of another shape.
    """
    try:
        import av
    except ImportError as error:
        raise ImportError("writing videos needs PyAV. Run: pip install 'flambeau-rl[video]'") from error
    frames = as_frames(frames)
    height, width = (size - size % 2 for size in frames.shape[1:3])
    if not height or not width:
        raise ValueError(
            f"frames of {frames.shape[2]} x {frames.shape[1]} are too small for a video; 2 x 2 is the least."
        )
    with av.open(str(path), mode="w") as container:
        stream = _stream(container, codec, fps, {key: str(value) for key, value in options.items()})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for frame in frames[:, :height, :width]:
            for packet in stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return Path(path)


def _stream(container: Any, codec: str | None, fps: float, options: dict[str, str]) -> Any:
    rate = Fraction(fps).limit_denominator(1000)
    if codec is not None:
        return container.add_stream(codec, rate=rate, options=options)
    import av

    try:
        return container.add_stream("libx264", rate=rate, options=options)
    except (av.FFmpegError, ValueError):  # a build of FFmpeg without it
        return container.add_stream("mpeg4", rate=rate, options=options)


def as_frames(frames: Any) -> Any:
    """Frames as an array (time, height, width, 3) of bytes.

    Raises:
        ValueError: they cannot be that.
    """
    if isinstance(frames, torch.Tensor):
        frames = frames.detach().cpu().numpy()
    frames = np.asarray(frames)
    if frames.ndim != 4 or frames.shape[-1] not in (1, 3) or not len(frames):
        raise ValueError(f"a video is (time, height, width, channels), of one channel or three; got {frames.shape}.")
    if frames.dtype != np.uint8:
        raise ValueError(f"frames must be uint8, 0 to 255; got {frames.dtype}.")
    return np.repeat(frames, 3, -1) if frames.shape[-1] == 1 else frames
