"""Transforms that destroy or mix: erasing, JPEG, MixUp and CutMix."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import one_hot
from torch.utils import _pytree as pytree

from flambeau.vision import tv_tensors
from flambeau.vision.transforms import _random, _random_parameters
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2._transform import RandomApplyTransform, Transform, flatten
from flambeau.vision.transforms.v2._utils import (
    LabelsGetter,
    check_labels_getter,
    check_sequence,
    first,
    get_labels,
    has_any,
    query_chw,
    query_size,
)
from flambeau.vision.transforms.v2.functional._convert import is_pure_tensor
from flambeau.vision.transforms.v2.functional._pil import is_pil


class RandomErasing(RandomApplyTransform):
    """Erase a rectangle, with probability p. Zhong et al. 2017, arXiv:1708.04896.

    Args:
        p: probability.
        scale: limits of the rectangle's area, as a part of the picture's.
        ratio: limits of height / width; its logarithm is uniform.
        value: what is written: a number, one for each channel, or "random" for normally distributed noise.
        inplace: write into the input.
        generator: see `Transform`.

    Raises:
        TypeError: `value`, `scale` or `ratio` is of another type.
        ValueError: limits are out of bounds or in the wrong order, or another word.
    """

    _transformed_types = (is_pure_tensor, tv_tensors.Image, tv_tensors.Video, is_pil)
    get_params = staticmethod(_random_parameters.erased_region)

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0.0,
        inplace: bool = False,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(p, generator=generator)
        self.scale, self.ratio = check_erasing(scale, ratio, value)
        self.value = value if isinstance(value, str) else erased_values(value)
        self.inplace = inplace

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Warn of what stays as it is, although a part of the picture goes."""
        left_out = (tv_tensors.BoundingBoxes, tv_tensors.KeyPoints, tv_tensors.Mask)
        for kind in {type(inpt) for inpt in flat_inputs if isinstance(inpt, left_out)}:
            warnings.warn(f"RandomErasing leaves {kind.__name__} as they are.", stacklevel=2)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the rectangle; "v" is None where none fits."""
        channels, height, width = query_chw(flat_inputs)
        values = None if isinstance(self.value, str) else self.value
        if values is not None and len(values) not in (1, channels):
            raise ValueError(f"value has {len(values)} numbers, expected one, or one for each of {channels} channels.")
        region = _random_parameters.region_to_erase(channels, height, width, self.scale, self.ratio, values)
        return dict(zip("ijhwv", region or (0, 0, height, width, None), strict=True))

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Erase the rectangle of one leaf."""
        if params["v"] is None:
            return inpt
        return self._call_kernel(F.erase, inpt, **params, inplace=self.inplace)


def check_erasing(scale: Any, ratio: Any, value: Any) -> tuple[Sequence[float], Sequence[float]]:
    """The limits of `RandomErasing`; raises what it says there."""
    if not isinstance(value, (int, float, str, tuple, list)):
        raise TypeError(f"value is {value!r}, expected a number, a sequence of numbers, or 'random'.")
    if isinstance(value, str) and value != "random":
        raise ValueError(f"value is {value!r}; the only word it can be is 'random'.")
    check_sequence(scale, "scale", (2,))
    check_sequence(ratio, "ratio", (2,))
    if not 0 <= scale[0] <= scale[1] <= 1:
        raise ValueError(f"scale is {scale}, expected 0 <= scale[0] <= scale[1] <= 1.")
    if not 0 < ratio[0] <= ratio[1]:
        raise ValueError(f"ratio is {ratio}, expected 0 < ratio[0] <= ratio[1].")
    return scale, ratio


def erased_values(value: float | Sequence[float]) -> list[float]:
    """The numbers to write."""
    return [float(value)] if isinstance(value, (int, float)) else [float(v) for v in value]


class JPEG(Transform):
    """Compress as JPEG and decompress again; see `functional.jpeg`.

    Args:
        quality: 1 to 100, or limits of it, both included.
        generator: see `Transform`.

    Raises:
        ValueError: quality is out of bounds, or no integers in order.
    """

    def __init__(self, quality: int | Sequence[int], *, generator: Generator | None = None) -> None:
        super().__init__(generator=generator)
        limits = [quality, quality] if isinstance(quality, int) else quality
        check_sequence(limits, "quality", (2,))
        if not all(isinstance(q, int) for q in limits) or not 1 <= limits[0] <= limits[1] <= 100:
            raise ValueError(f"quality is {quality}, expected 1 <= quality[0] <= quality[1] <= 100, integers.")
        self.quality = limits

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the quality."""
        return {"quality": int(_random.randint(self.quality[0], self.quality[1] + 1))}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Compress one leaf."""
        return self._call_kernel(F.jpeg, inpt, quality=params["quality"])


class _Mixing(Transform):
    """Base of those that mix each sample of a batch with the one before it."""

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        num_classes: int | None = None,
        labels_getter: LabelsGetter = "default",
        generator: Generator | None = None,
    ) -> None:
        super().__init__(generator=generator)
        if not alpha > 0:
            raise ValueError(f"alpha is {alpha}, expected a positive number.")
        self.alpha = float(alpha)
        self.num_classes = num_classes
        self.labels_getter = check_labels_getter(labels_getter)

    def forward(self, *inputs: Any) -> Any:
        """Mix a batch."""
        sample = first(inputs)
        flat, structure = flatten(sample)
        needed = self._needs_transform_list(flat)
        if has_any(flat, is_pil, tv_tensors.BoundingBoxes, tv_tensors.Mask, tv_tensors.KeyPoints):
            raise ValueError(f"{type(self).__name__} does not mix PIL images, bounding boxes, masks and key points.")
        labels = self._checked_labels(get_labels(self.labels_getter, sample))
        drawn = self._decided(lambda: self.make_params([x for x, needs in zip(flat, needed, strict=True) if needs]))
        params = {"labels": labels, "batch_size": labels.shape[0], **drawn}
        place = next((index for index, inpt in enumerate(flat) if inpt is labels), None)
        if place is None:
            raise ValueError("labels_getter returned a tensor that is no part of the sample; it cannot be replaced.")
        needed[place] = True
        out = [self.transform(inpt, params) if needs else inpt for inpt, needs in zip(flat, needed, strict=True)]
        return pytree.tree_unflatten(out, structure)

    def _checked_labels(self, labels: Any) -> Tensor:
        if not isinstance(labels, Tensor):
            raise ValueError(f"labels is a {type(labels).__name__}, expected a tensor [B] or [B, classes].")
        if labels.ndim not in (1, 2):
            raise ValueError(f"labels have the shape {list(labels.shape)}, expected [B] or [B, classes].")
        if labels.ndim == 2 and self.num_classes is not None and labels.shape[-1] != self.num_classes:
            raise ValueError(f"labels have {labels.shape[-1]} classes, and num_classes is {self.num_classes}.")
        if labels.ndim == 1 and self.num_classes is None:
            raise ValueError("labels are indices [B]; pass num_classes.")
        return labels

    def _ratio(self) -> float:
        return float(_random.dirichlet(torch.tensor([[self.alpha, self.alpha]]))[0, 0])

    def _mixed_labels(self, labels: Tensor, ratio: float) -> Tensor:
        if labels.ndim == 1:
            labels = one_hot(labels, num_classes=self.num_classes or -1)
        if not labels.dtype.is_floating_point:
            labels = labels.float()
        return labels.roll(1, 0).mul_(1.0 - ratio).add_(labels.mul(ratio))

    def _is_batch(self, inpt: Any, params: dict[str, Any]) -> bool:
        """Whether a leaf is to be mixed.

        Raises:
            ValueError: it is, and has no batch dimension or another size.
        """
        if not (isinstance(inpt, (tv_tensors.Image, tv_tensors.Video)) or is_pure_tensor(inpt)):
            return False
        dimensions = 5 if isinstance(inpt, tv_tensors.Video) else 4
        if inpt.ndim != dimensions or inpt.shape[0] != params["batch_size"]:
            raise ValueError(
                f"{type(self).__name__}: expected a batch of {params['batch_size']} (as there are labels) with "
                f"{dimensions} dimensions, got {list(inpt.shape)}; apply it to batches, after collation."
            )
        return True


class MixUp(_Mixing):
    """Mix pictures and labels of a batch linearly. Zhang et al. 2018, arXiv:1710.09412.

    Each sample becomes lam times itself and 1 - lam times the one before it, one lam for the batch.

    Args:
        alpha: both parameters of the beta distribution of lam; > 0.
        num_classes: needed for labels that are indices [B]; labels [B, C] are mixed as they are.
        labels_getter: a function of the sample, or "default": the second input, or the entry "labels" of a
            dictionary, else the first with "label" in its name.
        generator: see `Transform`.

    Raises:
        ValueError: an alpha that is not positive, or when called: the sample has no labels or no batch.
    """

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the mixing ratio."""
        return {"lam": self._ratio()}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Mix pictures, or labels."""
        lam = params["lam"]
        if inpt is params["labels"]:
            return self._mixed_labels(inpt, lam)
        if not self._is_batch(inpt, params):
            return inpt
        output = inpt.roll(1, 0).mul_(1.0 - lam).add_(inpt.mul(lam))
        return tv_tensors.wrap(output, like=inpt) if isinstance(inpt, tv_tensors.TVTensor) else output


class CutMix(_Mixing):
    """Paste a part of another picture of the batch, and mix labels by area. Yun et al. 2019, arXiv:1905.04899.

    One rectangle for the batch, cut at the edges; the ratio of labels is that of the areas afterwards.

    Args:
        alpha: both parameters of the beta distribution of lam; > 0.
        num_classes: needed for labels that are indices [B]; labels [B, C] are mixed as they are.
        labels_getter: a function of the sample, or "default": the second input, or the entry "labels" of a
            dictionary, else the first with "label" in its name.
        generator: see `Transform`.

    Raises:
        ValueError: an alpha that is not positive, or when called: the sample has no labels or no batch.
    """

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the rectangle."""
        ratio = self._ratio()
        height, width = query_size(flat_inputs)
        x, y = _random.integer(0, width), _random.integer(0, height)
        half = 0.5 * math.sqrt(1.0 - ratio)
        half_width, half_height = int(half * width), int(half * height)
        x1, y1 = max(x - half_width, 0), max(y - half_height, 0)
        x2, y2 = min(x + half_width, width), min(y + half_height, height)
        return {"box": (x1, y1, x2, y2), "lam_adjusted": 1.0 - (x2 - x1) * (y2 - y1) / (width * height)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Mix pictures, or labels."""
        if inpt is params["labels"]:
            return self._mixed_labels(inpt, params["lam_adjusted"])
        if not self._is_batch(inpt, params):
            return inpt
        x1, y1, x2, y2 = params["box"]
        output = inpt.clone()
        output[..., y1:y2, x1:x2] = inpt.roll(1, 0)[..., y1:y2, x1:x2]
        return tv_tensors.wrap(output, like=inpt) if isinstance(inpt, tv_tensors.TVTensor) else output
