"""Images that are files still, and are decoded when their pixels are needed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from flambeau.core.tensors import Field, tensor_type
from flambeau.core.tensors.wrapping import make, plain
from flambeau.vision.tv_tensors._image import Image
from flambeau.vision.tv_tensors._tv_tensor import TVTensor, wrap

if TYPE_CHECKING:
    from flambeau.vision.io.image import ImageReadMode

_Numbers4 = tuple[int, int, int, int]


@tensor_type(
    name="encoded-image",
    fields={
        "format": str,
        "read_mode": str,
        "channels": int,
        "stored_size": tuple[int, int],
        "orientation": Field(type=int, default=1),
        "region": _Numbers4,
        "draft": Field(type=bool, default=False),
    },
    shape="bytes",
    dtypes=torch.uint8,
    batch="list",
    plot="flambeau.vision.tv_tensors._show:encoded_html",
)
class EncodedImage(TVTensor):
    """An image file in memory, whose pixels are decoded when they are needed.

    Transforms of the second generation and their functionals take it for the `Image` that `decode` gives, with the same
    random numbers and the same results. Those that cut something out (`RandomResizedCrop`, `RandomCrop`, `CenterCrop`,
    `RandomIoUCrop`, `functional.crop`) do so before anything is decoded, and of most JPEG files only that region is
    decoded then; see `region` of `io.decode_image`. All others begin with decoding.

    As a tensor it is the bytes of the file, [bytes], uint8: it pickles, crosses into DataLoader workers and is stored
    as these, which is a tenth of what pixels take.

    Args:
        data: the content of a file, [bytes], uint8, whose memory is shared, or `bytes`. Of any format that
            `io.decode_image` reads.
        mode: the channels, see `io.decode_image`.
        apply_exif_orientation: whether the image is turned the way the camera was held.
        draft: where a resize follows, let JPEG files be decoded at 1/2, 1/4 or 1/8 of the size as long as neither side
            becomes smaller than the result's. That takes less time, and pixel values differ a little.

    Attributes:
        format: "jpeg", "png", "gif", "webp", "avif" or "heic".
        read_mode: name of the `ImageReadMode`.
        channels: of the decoded image.
        stored_size: (height, width) of the file's image, before its orientation is applied.
        orientation: of the camera, 1 to 8, if it is to be applied; else 1.
        region: (top, left, height, width) of what this is of the whole upright image.
        draft: as given.

    Raises:
        ImageError: the format is unknown, or the file's head is damaged; what follows is looked at by `decode` alone.

    Example:
        >>> from flambeau.vision.io import encode_png
        >>> image = EncodedImage(encode_png(torch.zeros(3, 4, 5, dtype=torch.uint8)))
        >>> image.crop(1, 2, 3, 3).decode()
        Image (3, 3, 3) uint8 cpu
    """

    format: str
    read_mode: str
    channels: int
    stored_size: tuple[int, int]
    orientation: int
    region: tuple[int, int, int, int]
    draft: bool

    def __new__(
        cls,
        data: Any,
        *,
        mode: ImageReadMode | str = "RGB",
        apply_exif_orientation: bool = False,
        draft: bool = False,
        **metadata: Any,
    ) -> Self:
        """Make an encoded image; the class says what the arguments mean."""
        from flambeau.vision.io.image import measure_image

        tensor = data if isinstance(data, Tensor) else torch.frombuffer(bytearray(data), dtype=torch.uint8)
        head = measure_image(tensor, mode, apply_exif_orientation)
        found: dict[str, Any] = {
            "format": head.format,
            "read_mode": head.mode.name,
            "channels": head.channels,
            "stored_size": (head.height, head.width),
            "orientation": head.orientation,
            "region": (0, 0, *head.upright_size),
            "draft": bool(draft),
        }
        if metadata or cls is not EncodedImage:
            return super().__new__(cls, tensor, **found, **metadata)
        return make(plain(tensor), cls, found)  # nothing of it is the caller's, so that it need not be checked

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        *,
        mode: ImageReadMode | str = "RGB",
        apply_exif_orientation: bool = False,
        draft: bool = False,
    ) -> Self:
        """Read a file, without decoding it: `ImageFolder(root, transform, loader=EncodedImage.read)`.

        Raises:
            ImageFileNotFoundError: there is no such file.
            ImageError: see the class.
        """
        from flambeau.vision.io.image import read_file

        return cls(read_file(Path(path)), mode=mode, apply_exif_orientation=apply_exif_orientation, draft=draft)

    @property
    def canvas_size(self) -> tuple[int, int]:
        """(height, width) of the image that `decode` gives."""
        return self.region[2:]

    def crop(self, top: int, left: int, height: int, width: int) -> Self:
        """A rectangle of the image, not decoded either.

        Raises:
            ValueError: it is empty or reaches beyond the image; `functional.crop` adds zeros there.
        """
        return wrap(self.as_subclass(Tensor), like=self, region=self._region_of((top, left, height, width)))

    def _region_of(self, place: _Numbers4) -> _Numbers4:
        """A rectangle of this image, in the whole one."""
        top, left, height, width = place
        own_top, own_left, own_height, own_width = self.region
        if not (0 <= top <= own_height - height and 0 <= left <= own_width - width and height > 0 and width > 0):
            raise ValueError(
                f"EncodedImage.crop: ({top}, {left}) + ({height}, {width}) is not inside of the image of {own_height} "
                f"x {own_width}; `functional.crop` adds zeros around it."
            )
        return own_top + top, own_left + left, height, width

    def decode(self) -> Image:
        """The image: [C, H, W], uint8 (uint16 of PNG with 16 bits); [N, C, H, W] of an animation.

        Raises:
            ImageError: the file is damaged, incomplete or too large.
        """
        return Image(self.levels())

    def levels(self, place: tuple[int, int, int, int] | None = None, least: tuple[int, int] | None = None) -> Tensor:
        """`decode`, or `crop` and `decode`, without the type.

        Args:
            place: top, left, height, width of what is wanted, None for all.
            least: the size that it is going to be resized to. With `draft` the result may be smaller than the image is,
                but not than this.
        """
        from flambeau.vision.io import image

        region = self.region if place is None else self._region_of(place)
        min_size = None
        if self.draft and least is not None:
            _, _, height, width = region
            by = next((by for by in (8, 4, 2) if -(-height // by) >= least[0] and -(-width // by) >= least[1]), 1)
            min_size = -(-min(height, width) // by)
        mode = image.ImageReadMode[self.read_mode]
        head = image.ImageHead(self.format, mode, self.channels, *self.stored_size, self.orientation)  # type: ignore[arg-type]
        return image.decode_measured(plain(self), head, region, min_size)
