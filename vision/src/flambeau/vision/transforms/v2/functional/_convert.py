"""Between PIL images, arrays and tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from flambeau.vision.transforms.v2.functional._pil import is_pil

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

    from flambeau.vision.tv_tensors import Image as ImageTensor

# Pillow's mode by the channels of a uint8 image.
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
# Pillow's mode by the dtype of an image with one channel.
_WIDE_MODES = {"uint8": "L", "uint16": "I;16", "int16": "I;16", "int32": "I", "float32": "F"}


def is_pure_tensor(inpt: Any) -> bool:
    """Whether `inpt` is a tensor that is none of `tv_tensors`."""
    from flambeau.vision.tv_tensors import TVTensor

    return isinstance(inpt, Tensor) and not isinstance(inpt, TVTensor)


def pil_to_tensor(pic: Image.Image) -> Tensor:
    """Copy a PIL image into a tensor, without scaling.

    Returns:
        [C, H, W]: uint8 for most modes, bool for "1", int32 for "I", uint16 for "I;16", float32 for "F". A palette
        image gives its indices. Channels are neighbours in memory, as in Pillow.

    Raises:
        TypeError: `pic` is no PIL image.
    """
    if not is_pil(pic):
        raise TypeError(f"pil_to_tensor: pic is a {type(pic).__name__}, expected a PIL image.")
    import numpy as np

    array = np.array(pic, copy=True)
    return torch.from_numpy(array.reshape(pic.height, pic.width, -1)).permute(2, 0, 1)


def to_image(inpt: Tensor | Image.Image | NDArray[Any]) -> ImageTensor:
    """Make a `tv_tensors.Image` of a tensor [..., C, H, W], a PIL image, an array [H, W, C] or [H, W], or an image that
    is a file still.

    Raises:
        TypeError: `inpt` is none of them.
    """
    import numpy as np

    from flambeau.vision.tv_tensors import EncodedImage
    from flambeau.vision.tv_tensors import Image as ImageTensor

    if isinstance(inpt, EncodedImage):
        return inpt.decode()
    if isinstance(inpt, np.ndarray):
        array = inpt if inpt.ndim > 2 else inpt[..., None]
        return ImageTensor(torch.from_numpy(array).permute(2, 0, 1).contiguous())
    if is_pil(inpt):
        return ImageTensor(pil_to_tensor(inpt))
    if isinstance(inpt, Tensor):
        return ImageTensor(inpt)
    raise TypeError(f"to_image: inpt is a {type(inpt).__name__}, expected a PIL image, an array or a tensor.")


def to_pil_image(pic: Tensor | NDArray[Any], mode: str | None = None) -> Image.Image:
    """Make a PIL image of a tensor [C, H, W] or [H, W], or an array [H, W, C] or [H, W].

    Args:
        pic: 1 to 4 channels of uint8, with a `mode` also 2 to 4 of bool (0 and 1 of 255); or one channel of int16,
            uint16 or int32. Floating point is an image in [0, 1] and becomes uint8; with `mode` "F" one channel stays.
        mode: Pillow's mode of the result; by default what channels and dtype suggest.

    Raises:
        TypeError: `pic` is neither, or has a dtype that Pillow lacks.
        ValueError: a wrong number of dimensions or channels, or a mode that does not fit them.
    """
    import numpy as np
    from PIL import Image

    from flambeau.vision.tv_tensors import EncodedImage

    if isinstance(pic, EncodedImage):
        pic = pic.decode()
    if isinstance(pic, Tensor):
        array = _array_of_tensor(pic, mode)
    elif isinstance(pic, np.ndarray):
        array = pic if pic.ndim != 2 else pic[..., None]
        if np.issubdtype(array.dtype, np.floating) and mode != "F":
            array = (array * 255).astype(np.uint8)
    else:
        raise TypeError(f"to_pil_image: pic is a {type(pic).__name__}, expected a tensor or an array.")
    if array.ndim != 3:
        raise ValueError(f"to_pil_image: pic has {array.ndim} dimensions, expected [H, W] or [H, W, C].")
    return _image_of_array(Image, array, mode)


def _array_of_tensor(pic: Tensor, mode: str | None) -> NDArray[Any]:
    if pic.ndim not in (2, 3):
        raise ValueError(f"to_pil_image: pic has {pic.ndim} dimensions, expected [H, W] or [C, H, W].")
    pic = pic.detach().cpu()
    if pic.is_floating_point() and mode != "F":
        # Upstream: truncation, and values outside [0, 1] wrap around.
        pic = pic.mul(255).to(torch.uint8)
    elif pic.is_floating_point():
        pic = pic.float()
    array: NDArray[Any] = (pic if pic.ndim == 3 else pic.unsqueeze(0)).permute(1, 2, 0).contiguous().numpy()
    return array


def _image_of_array(pillow: Any, array: NDArray[Any], mode: str | None) -> Image.Image:
    fitting: tuple[str, ...]
    channels, dtype = array.shape[-1], array.dtype.name
    if channels == 1:
        if mode is not None and mode != _WIDE_MODES.get(dtype):
            raise ValueError(f"Incorrect mode ({mode}) for one channel of {dtype}, expected {_WIDE_MODES.get(dtype)}.")
        if dtype not in _WIDE_MODES:
            raise TypeError(
                f"Input type {dtype} is not supported with one channel; expected one of {list(_WIDE_MODES)}."
            )
        array, fitting = array[..., 0], (_WIDE_MODES[dtype],)
        if dtype == "int16":
            array = array.astype("uint16")
    elif dtype != "uint8" and not (dtype == "bool" and mode is not None):
        raise TypeError(f"Input type {dtype} is not supported with {channels} channels; expected uint8.")
    elif channels not in _MODES:
        raise ValueError(f"to_pil_image: pic has {channels} channels, expected 1 to 4, which Pillow has modes for.")
    else:
        fitting = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}[channels]
    if mode is not None and mode not in fitting:
        raise ValueError(f"to_pil_image: mode is {mode!r}, and {channels} channel(s) of {dtype} have one of {fitting}.")
    image: Image.Image = pillow.fromarray(array.view("uint8") if dtype == "bool" else array)
    return image if mode in (None, image.mode) else _relabelled(pillow, image, mode)


def _relabelled(pillow: Any, image: Image.Image, mode: str) -> Image.Image:
    """The same bytes under another mode of the same layout, for instance RGB read as YCbCr."""
    return pillow.frombytes(mode, image.size, image.tobytes())  # type: ignore[no-any-return]
