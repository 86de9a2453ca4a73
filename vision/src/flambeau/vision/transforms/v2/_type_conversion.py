"""Transforms from one type of picture to another."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.vision import tv_tensors
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2._transform import Transform
from flambeau.vision.transforms.v2.functional._convert import is_pure_tensor
from flambeau.vision.transforms.v2.functional._pil import is_pil


def is_array(value: object) -> bool:
    """Whether `value` is a NumPy array; where NumPy has not been imported, nothing is."""
    module = sys.modules.get("numpy")
    return module is not None and isinstance(value, module.ndarray)


class ToImage(Transform):
    """Make an `Image` of a tensor, a PIL image, an array, or an image that is a file still; values stay."""

    _transformed_types = (is_pure_tensor, is_pil, is_array, tv_tensors.EncodedImage)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Convert one leaf."""
        return F.to_image(inpt)


class PILToTensor(Transform):
    """Make a tensor of a PIL image; values stay."""

    _transformed_types = (is_pil,)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Convert one leaf."""
        return F.pil_to_tensor(inpt)


class ToPILImage(Transform):
    """Make a PIL image of a tensor or an array; see `functional.to_pil_image`.

    Args:
        mode: Pillow's name of the colour space; None finds one for dtype and channels.
    """

    _transformed_types = (is_pure_tensor, tv_tensors.Image, is_array)

    def __init__(self, mode: str | None = None) -> None:
        super().__init__()
        self.mode = mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Convert one leaf."""
        return F.to_pil_image(inpt, mode=self.mode)


class ToPureTensor(Transform):
    """Take the type off: images, boxes and the like become plain tensors."""

    _transformed_types = (tv_tensors.TVTensor,)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Convert one leaf."""
        return inpt.as_subclass(Tensor)


DtypeArgument = torch.dtype | Mapping[type | str, torch.dtype | None]


class ToDtype(Transform):
    """Change the dtype of pictures; see `functional.to_dtype`.

    Args:
        dtype: a dtype, for images and videos; or a dictionary from types (or "others") to dtypes, in which None leaves
            a type as it is: `{tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}`.
        scale: also map the full range of images and videos to the full range.

    Raises:
        ValueError: `dtype` is neither; or when called: the dictionary knows neither a type nor "others".
    """

    _transformed_types = (Tensor,)

    def __init__(self, dtype: DtypeArgument, scale: bool = False) -> None:
        super().__init__()
        if not isinstance(dtype, (torch.dtype, Mapping)):
            raise ValueError(f"dtype is {dtype!r}, expected a torch.dtype or a dictionary from types to these.")
        if isinstance(dtype, Mapping) and Tensor in dtype and {tv_tensors.Image, tv_tensors.Video} & set(dtype):
            warnings.warn(
                "dtype has both torch.Tensor and Image or Video; plain tensors are left alone in samples with these.",
                stacklevel=2,
            )
        self.dtype = dtype
        self.scale = scale

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Convert one leaf."""
        is_picture = is_pure_tensor(inpt) or isinstance(inpt, (tv_tensors.Image, tv_tensors.Video))
        if isinstance(self.dtype, torch.dtype):
            return F.to_dtype(inpt, dtype=self.dtype, scale=self.scale) if is_picture else inpt
        if type(inpt) not in self.dtype and "others" not in self.dtype:
            raise ValueError(
                f'dtype has no entry for {type(inpt).__name__}; add it, or the key "others" (None: as is).'
            )
        dtype = self.dtype[type(inpt)] if type(inpt) in self.dtype else self.dtype["others"]
        if dtype is None:
            if self.scale and is_picture:
                warnings.warn("scale=True, and no dtype for images or videos: nothing is scaled.", stacklevel=2)
            return inpt
        # Boxes, masks and points have no full range; their numbers are cast as they are.
        return F.to_dtype(inpt, dtype=dtype, scale=self.scale) if is_picture else self._cast(inpt, dtype)

    def _cast(self, inpt: Any, dtype: torch.dtype) -> Any:
        return tv_tensors.wrap(inpt.as_subclass(Tensor).to(dtype), like=inpt)

    def extra_repr(self) -> str:
        """The arguments, for `repr`."""
        return f"dtype={self.dtype}, scale={self.scale}"


class ConvertImageDtype(Transform):
    """Change the dtype of images and scale their values; `ToDtype(dtype, scale=True)` is the newer name.

    Args:
        dtype: the new dtype.
    """

    _transformed_types = (torch.Tensor,)

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.dtype = dtype

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Convert one leaf; of masks, boxes and points only the dtype."""
        return self._call_kernel(F.to_dtype, inpt, dtype=self.dtype, scale=True)

    def extra_repr(self) -> str:
        """The arguments, for `repr`."""
        return f"dtype={self.dtype}"
