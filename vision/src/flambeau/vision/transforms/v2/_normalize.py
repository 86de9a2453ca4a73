"""Transforms that are linear in the values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.vision import tv_tensors
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2._transform import Transform
from flambeau.vision.transforms.v2._utils import has_any
from flambeau.vision.transforms.v2.functional._convert import is_pure_tensor
from flambeau.vision.transforms.v2.functional._pil import is_pil


def _refuse_pil(transform: Transform, sample: Any) -> None:
    if has_any(sample, is_pil):
        raise TypeError(f"{type(transform).__name__} takes tensors, not PIL images; put ToImage before it.")


class Normalize(Transform):
    """Subtract a mean and divide by a standard deviation, channel by channel; see `functional.normalize`.

    Args:
        mean: one number for each channel.
        std: likewise; not 0.
        inplace: write into the input.
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        super().__init__()
        self.mean = list(mean)
        self.std = list(std)
        self.inplace = inplace

    def check_inputs(self, sample: Any) -> Any:
        """Refuse PIL images."""
        _refuse_pil(self, sample)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Normalize one leaf."""
        return self._call_kernel(F.normalize, inpt, mean=self.mean, std=self.std, inplace=self.inplace)


class LinearTransformation(Transform):
    """Subtract a vector from an image's values and multiply by a matrix, as for whitening.

    Args:
        transformation_matrix: [D, D], D = C * H * W.
        mean_vector: [D].

    Raises:
        ValueError: shapes, devices or, when called, the image's number of values do not fit.
    """

    _transformed_types = (is_pure_tensor, tv_tensors.Image, tv_tensors.Video)

    def __init__(self, transformation_matrix: Tensor, mean_vector: Tensor) -> None:
        super().__init__()
        check_linear(transformation_matrix, mean_vector)
        self.transformation_matrix = transformation_matrix
        self.mean_vector = mean_vector

    def check_inputs(self, sample: Any) -> Any:
        """Refuse PIL images."""
        _refuse_pil(self, sample)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Transform one leaf."""
        output = linear(inpt.as_subclass(Tensor), self.transformation_matrix, self.mean_vector)
        return tv_tensors.wrap(output, like=inpt) if isinstance(inpt, tv_tensors.TVTensor) else output


def check_linear(matrix: Tensor, mean: Tensor) -> None:
    """Raises:
    ValueError: the matrix is not square, or the vector does not fit it.
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"transformation_matrix is {list(matrix.shape)}, expected a square matrix.")
    if mean.shape[0] != matrix.shape[0]:
        raise ValueError(
            f"mean_vector has {mean.shape[0]} values, the matrix {matrix.shape[0]} rows; expected as many."
        )
    if matrix.device != mean.device:
        raise ValueError(f"transformation_matrix is on {matrix.device}, mean_vector on {mean.device}; move one.")


def linear(image: Tensor, matrix: Tensor, mean: Tensor) -> Tensor:
    """(values - mean) @ matrix for each image [..., C, H, W]."""
    values = image.shape[-3:].numel()
    if values != matrix.shape[0]:
        raise ValueError(
            f"The image {list(image.shape[-3:])} has {values} values, transformation_matrix {matrix.shape[0]} rows; "
            "expected as many."
        )
    if image.device.type != matrix.device.type:
        raise ValueError(f"The image is on {image.device}, the matrix on {matrix.device}; move one of them.")
    flat = image.reshape(-1, values) - mean
    return torch.mm(flat, matrix.to(flat.dtype)).reshape(image.shape)
