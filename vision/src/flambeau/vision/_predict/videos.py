"""Videos in predictors: frames by time, and errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flambeau.core.errors import PredictError

if TYPE_CHECKING:
    from flambeau.vision.io import VideoDecoder

__all__ = ["opened"]


@contextmanager
def opened(source: str) -> Iterator[VideoDecoder]:
    """A video with at least one frame.

    Raises:
        PredictError: the file is no video, or damaged, now or while the context lasts; or PyAV is not installed.
    """
    from flambeau.vision.io import VideoDecoder, VideoError

    try:
        video = VideoDecoder(source)
        if not len(video):
            raise PredictError(f"{source}: the video has no frames.")
        yield video
    except VideoError as error:
        raise PredictError(f"{source}: {error}") from error
