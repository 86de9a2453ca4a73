"""PIL images whose pixels are not there yet: files that have not been decoded, and tensors between steps of a pipeline.

A loader that is going to hand its picture to a transform opens it as one of these. To everybody it is a PIL image: the
first to ask for pixels has them decoded, and what he holds is a plain image from then on. A fused pipeline does not ask
for all of them: it has its crop decoded alone, straight into a tensor.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from flambeau.vision.io._codec import ImageError, ImageReadMode, Region
from flambeau.vision.io._native import objection
from flambeau.vision.io.image import contents_of, decode_image, measure_image


def open_picture(path: str | Path) -> Image.Image:
    """Open a file as a PIL image in RGB; JPEG is decoded when it is looked at.

    Raises:
        OSError: it cannot be read, or is no image.
    """
    with Path(path).open("rb", buffering=0) as file:
        data = contents_of(file)
    return _jpeg(data) or _by_pillow(data)


def _jpeg(data: Tensor) -> Image.Image | None:
    """The picture of a JPEG file that our codec reads as Pillow does; None of another file."""
    if objection():
        return None
    try:
        head = measure_image(data, ImageReadMode.UNCHANGED, apply_exif_orientation=False)
    except ImageError:
        return None  # Pillow says why
    bound = Image.MAX_IMAGE_PIXELS
    if head.format != "jpeg" or head.channels == 4 or (bound is not None and head.height * head.width > bound):
        return None
    return FilePicture(data, (head.width, head.height))


def _by_pillow(data: Tensor) -> Image.Image:
    return Image.open(io.BytesIO(data.numpy().data)).convert("RGB")


class WaitingPicture(Image.Image):
    """A PIL image whose pixels are in no memory of Pillow's yet. Once they are, it is a plain image.

    Args:
        mode: "RGB" or "L".
        size: (width, height).
    """

    def __init__(self, mode: str, size: tuple[int, int]) -> None:
        self._mode = mode
        self._size = size
        self.palette = None
        self.readonly = 0
        self._exif = None

    def levels(self, region: Region | None) -> Tensor:
        """The pixels of a region, None for all, as [1 or 3, H, W], uint8, channels last in memory."""
        raise NotImplementedError(f"{type(self).__name__} has to define levels(region).")

    def _found_info(self) -> dict[Any, Any]:
        raise NotImplementedError(f"{type(self).__name__} has to define _found_info().")

    def _become(self, image: Image.Image) -> None:
        """Be a plain image from now on."""
        info = vars(self).get("_info")
        vars(self).clear()
        self.__class__ = Image.Image  # type: ignore[assignment]
        vars(self).update(vars(image))
        if info is not None:
            self.info = info

    @property
    def _im(self) -> Any:
        levels = self.levels(None)
        if type(self) is not Image.Image:  # it became one if Pillow had to read the file
            image = Image.frombytes(self._mode, self._size, levels.permute(1, 2, 0).contiguous().numpy().data)
            image.info = self.info
            image._exif = self._exif
            self._become(image)
        return self._im

    @_im.setter
    def _im(self, image: Any) -> None:
        self.load()
        self._im = image

    @property
    def info(self) -> dict[Any, Any]:
        """What is known besides the pixels."""
        if "_info" not in vars(self):
            self._info: dict[Any, Any] = self._found_info()
        return self._info

    @info.setter
    def info(self, info: dict[Any, Any]) -> None:
        self._info = info

    def __eq__(self, other: object) -> bool:
        self.load()
        return self == other

    __hash__ = None  # type: ignore[assignment]

    def __reduce_ex__(self, protocol: Any) -> Any:
        self.load()
        return self.__reduce_ex__(protocol)


class FilePicture(WaitingPicture):
    """An RGB image of a JPEG file.

    Args:
        data: the file, [bytes], uint8.
        size: (width, height).
    """

    def __init__(self, data: Tensor, size: tuple[int, int]) -> None:
        super().__init__("RGB", size)
        self._data = data

    def levels(self, region: Region | None) -> Tensor:
        """The pixels of a region; nothing else of the file is decoded."""
        try:
            return decode_image(self._data, ImageReadMode.RGB, region=region)
        except ImageError:
            pass
        self._become(_by_pillow(self._data))  # which says what is wrong, or was told to accept it
        levels = torch.frombuffer(bytearray(self.tobytes()), dtype=torch.uint8).view(self.height, self.width, 3)
        top, left, height, width = region or (0, 0, self.height, self.width)
        return levels[top : top + height, left : left + width].permute(2, 0, 1)

    def _found_info(self) -> dict[Any, Any]:
        return dict(Image.open(io.BytesIO(self._data.numpy().data)).info)


class LevelsPicture(WaitingPicture):
    """An image that is a tensor still, between two steps of a pipeline.

    Args:
        levels: [1 or 3, H, W], uint8; nobody else's.
        origin: whose `info` it has; None for none.
    """

    def __init__(self, levels: Tensor, origin: Image.Image | None = None) -> None:
        super().__init__("RGB" if levels.shape[0] == 3 else "L", (levels.shape[2], levels.shape[1]))
        self._levels = levels
        self._origin = origin

    def levels(self, region: Region | None) -> Tensor:
        """The pixels of a region; a view."""
        top, left, height, width = region or (0, 0, self.height, self.width)
        return self._levels[:, top : top + height, left : left + width]

    def _found_info(self) -> dict[Any, Any]:
        return {} if self._origin is None else dict(self._origin.info)


def settled(picture: Any) -> Any:
    """A picture that leaves a pipeline: a plain image of one that waits."""
    if isinstance(picture, WaitingPicture):
        picture.load()
    return picture
