"""The base of the image types, and wrapping."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, TypeVar

import torch
from torch import Tensor

from flambeau.core import tensors
from flambeau.core.errors import TensorTypeError
from flambeau.core.tensors import TypedTensor

Kind = TypeVar("Kind", bound="TVTensor")


class TVTensor(TypedTensor, tree="leaf"):
    """What images, videos, masks, boxes and key points have in common.

    A class of your own derives from one of them, or from this one with `flambeau.core.tensor_type`; either way it is
    kept wherever the kind it derives from is kept.
    """

    @classmethod
    def wrap(cls, tensor: Tensor, like: TVTensor, **kwargs: Any) -> TVTensor:
        """Give a tensor the type and metadata of `like`; `wrap` and transforms call it on `type(like)`.

        Args:
            tensor: shares its memory with the result.
            like: of this class.
            **kwargs: metadata to change.
        """
        return tensors.wrap(tensor, like=like, **kwargs)


def set_return_type(return_type: str) -> AbstractContextManager[object]:
    """Choose what operations without a rule of their own return: "Tensor" (the default) or "TVTensor".

    Takes effect at once, and as a context manager until the block ends; see `flambeau.core.tensors.set_return_type`.

    Raises:
        ValueError: another word.
    """
    return tensors.set_return_type(return_type)


def wrap(wrappee: Tensor, *, like: Kind, **kwargs: Any) -> Kind:
    """Give a tensor the type and metadata of another.

    Args:
        wrappee: any tensor; shares its memory with the result.
        like: the example. Classes derived from ours are kept.
        **kwargs: metadata to change.

    Raises:
        TensorTypeError: `like` is no `TVTensor`, or has no such metadata.
    """
    if not isinstance(like, TVTensor):
        raise TensorTypeError(f"wrap: like={type(like).__name__} is no TVTensor; give a tensor that has a type.")
    return type(like).wrap(wrappee, like, **kwargs)  # type: ignore[return-value]


def tensor_of(data: Any) -> Tensor:
    """A tensor of picture data: tensors as they are, PIL images without scaling, whatever `torch.as_tensor` takes."""
    if isinstance(data, Tensor):
        return data
    from flambeau.vision.transforms.v2.functional import _convert, _pil

    return _convert.pil_to_tensor(data) if _pil.is_pil(data) else torch.as_tensor(data)


def size_of_canvas(owner: str, canvas_size: Any) -> tuple[int, int]:
    """(height, width) of what may be a list, or hold NumPy's integers.

    Raises:
        ValueError: it has not two numbers.
    """
    if not isinstance(canvas_size, (tuple, list)) or len(canvas_size) != 2:
        raise ValueError(f"{owner}: canvas_size={canvas_size!r}, expected (height, width), two integers.")
    # Sizes stay symbolic while a model is exported.
    height, width = (side if isinstance(side, (int, torch.SymInt)) else int(side) for side in canvas_size)
    return height, width  # type: ignore[return-value]
