"""What the dimensions of pictures are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors

if TYPE_CHECKING:
    from PIL import Image


@functional(fallback=False)
def get_dimensions(inpt: Tensor) -> list[int]:
    """[channels, height, width] of an image: [..., C, H, W], [H, W] (one channel), or a PIL image.

    Raises:
        TypeError: a tensor with fewer than two dimensions.
    """
    return get_dimensions_image(inpt)


@functional(fallback=False)
def get_size(inpt: Tensor) -> list[int]:
    """[height, width] of a picture: what `get_dimensions` takes, masks, and the canvas of boxes and key points."""
    return get_size_image(inpt)


@functional(fallback=False)
def get_num_frames(inpt: Tensor) -> int:
    """Frames of a video: [..., T, C, H, W].

    Raises:
        TypeError: a tensor with fewer than four dimensions.
    """
    return get_num_frames_video(inpt)


@functional(fallback=False)
def get_num_channels(inpt: Tensor) -> int:
    """Channels of an image; see `get_dimensions`."""
    return get_num_channels_image(inpt)


@register_kernel(get_dimensions, tv_tensors.Image, wrap=False)
def get_dimensions_image(image: Tensor) -> list[int]:
    """`get_dimensions` of a tensor."""
    shape = image.shape
    if len(shape) < 2:
        raise TypeError(f"An image has at least two dimensions, (..., H, W). Got {list(shape)}.")
    return [1 if len(shape) == 2 else shape[-3], *shape[-2:]]


@register_kernel(get_dimensions, "PIL.Image:Image")
def _get_dimensions_image_pil(image: Image.Image) -> list[int]:
    return [len(image.getbands()), image.height, image.width]


@register_kernel(get_size, tv_tensors.Image, wrap=False)
def get_size_image(image: Tensor) -> list[int]:
    """`get_size` of a tensor."""
    shape = image.shape  # once: asking a tensor with a type takes its time
    if len(shape) < 2:
        raise TypeError(f"An image has at least two dimensions, (..., H, W). Got {list(shape)}.")
    return list(shape[-2:])


@register_kernel(get_size, "PIL.Image:Image")
def _get_size_image_pil(image: Image.Image) -> list[int]:
    return [image.height, image.width]


@register_kernel(get_num_channels, tv_tensors.Image, wrap=False)
def get_num_channels_image(image: Tensor) -> int:
    """`get_num_channels` of a tensor."""
    return get_dimensions_image(image)[0]


@register_kernel(get_num_channels, "PIL.Image:Image")
def _get_num_channels_image_pil(image: Image.Image) -> int:
    return len(image.getbands())


@register_kernel(get_dimensions, tv_tensors.Video, wrap=False)
def get_dimensions_video(video: Tensor) -> list[int]:
    """`get_dimensions` of a video's frames."""
    return get_dimensions_image(video)


@register_kernel(get_size, tv_tensors.Video, wrap=False)
def get_size_video(video: Tensor) -> list[int]:
    """`get_size` of a video's frames."""
    return get_size_image(video)


@register_kernel(get_size, tv_tensors.Mask, wrap=False)
def get_size_mask(mask: Tensor) -> list[int]:
    """`get_size` of a mask [..., H, W]."""
    return get_size_image(mask)


@register_kernel(get_size, tv_tensors.BoundingBoxes, wrap=False)
def get_size_bounding_boxes(bounding_box: tv_tensors.BoundingBoxes) -> list[int]:
    """The size of the picture that boxes belong to."""
    return list(bounding_box.canvas_size)


@register_kernel(get_size, tv_tensors.KeyPoints, wrap=False)
def get_size_keypoints(keypoints: tv_tensors.KeyPoints) -> list[int]:
    """The size of the picture that key points belong to."""
    return list(keypoints.canvas_size)


@register_kernel(get_num_channels, tv_tensors.Video, wrap=False)
def get_num_channels_video(video: Tensor) -> int:
    """`get_num_channels` of a video's frames."""
    return get_num_channels_image(video)


@register_kernel(get_num_frames, tv_tensors.Video, wrap=False)
def get_num_frames_video(video: Tensor) -> int:
    """`get_num_frames` of a tensor."""
    if video.ndim < 4:
        raise TypeError(f"A video has at least four dimensions, (..., T, C, H, W). Got {list(video.shape)}.")
    return video.shape[-4]


def get_image_size(inpt: Tensor) -> list[int]:
    """[width, height] of a picture, in this order, which v1 has; `get_size` has [height, width]."""
    height, width = get_size(inpt)
    return [width, height]


get_image_num_channels = get_num_channels
