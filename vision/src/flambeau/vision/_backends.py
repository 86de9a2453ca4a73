"""Process-wide choice of the libraries that open images and videos for the datasets."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = [
    "disable_beta_transforms_warning",
    "get_image_backend",
    "get_video_backend",
    "set_image_backend",
    "set_video_backend",
]

ImageBackend = Literal["PIL", "accimage"]
VideoBackend = Literal["pyav", "video_reader", "cuda"]

_image: ImageBackend = "PIL"
_video: VideoBackend = "pyav"


def set_image_backend(backend: ImageBackend) -> None:
    """Choose the library with which `datasets.folder.default_loader` opens images.

    Args:
        backend: "PIL", or "accimage" (faster, must be installed, reads fewer formats).

    Raises:
        ValueError: `backend` is neither.
    """
    global _image
    if backend not in get_args(ImageBackend):
        raise ValueError(f"Invalid image backend {backend!r}; expected 'PIL' or 'accimage'.")
    _image = backend


def get_image_backend() -> ImageBackend:
    """The library with which images are opened."""
    return _image


def set_video_backend(backend: VideoBackend) -> None:
    """Choose the library with which videos are decoded.

    Args:
        backend: "pyav"; "video_reader" for the native reader; "cuda" for decoding on the GPU.

    Raises:
        ValueError: `backend` is none of them.
    """
    global _video
    if backend not in get_args(VideoBackend):
        raise ValueError(f"Invalid video backend {backend!r}; expected 'pyav', 'video_reader' or 'cuda'.")
    _video = backend


def get_video_backend() -> VideoBackend:
    """The library with which videos are decoded."""
    return _video


def disable_beta_transforms_warning() -> None:
    """Do nothing: `transforms.v2` is stable here and warns of nothing. Code written for upstream may call it."""
