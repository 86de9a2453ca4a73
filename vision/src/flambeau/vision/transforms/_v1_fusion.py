"""Which steps of a `Compose` of the first generation one kernel does together, and doing them.

Runs of the following, in this order, are found: `RandomResizedCrop`, or `Resize` and `CenterCrop`;
`RandomHorizontalFlip`; `ToTensor`, or for tensors `ConvertImageDtype(torch.float32)`; `Normalize`. What is drawn is
drawn in their order and from the same generator. Pictures that the kernel is not made for go through the steps one by
one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flambeau.vision.transforms import _fused, _random, _random_parameters
from flambeau.vision.transforms._interpolation import InterpolationMode
from flambeau.vision.transforms._v1_color import ConvertImageDtype, Normalize, ToTensor
from flambeau.vision.transforms._v1_geometry import CenterCrop, RandomHorizontalFlip, RandomResizedCrop, Resize
from flambeau.vision.transforms.v2.functional._crop import middle
from flambeau.vision.transforms.v2.functional._pil import is_pil
from flambeau.vision.transforms.v2.functional._resize import resized_size

__all__ = ["applied", "planned"]

# Where in a run a transform stands.
_PLACES: dict[type, int] = {
    RandomResizedCrop: 0,
    Resize: 0,
    CenterCrop: 1,
    RandomHorizontalFlip: 2,
    ToTensor: 3,
    ConvertImageDtype: 3,
    Normalize: 4,
}
_NAMES = ("cut", "center", "flip", "scale", "normalize")


@dataclass(frozen=True)
class Run:
    """Transforms that follow each other, and what they are to a picture."""

    steps: tuple[Any, ...]
    cut: RandomResizedCrop | Resize | None = None
    center: CenterCrop | None = None
    flip: RandomHorizontalFlip | None = None
    scale: ToTensor | ConvertImageDtype | None = None
    normalize: Normalize | None = None

    @property
    def is_worth_it(self) -> bool:
        """Whether one pass takes the place of several."""
        if self.scale is None:
            return isinstance(self.cut, RandomResizedCrop) and self.flip is not None
        return self.cut is not None or self.normalize is not None


def planned(transforms: Sequence[Callable[[Any], Any]]) -> list[Any]:
    """The transforms, with a `Run` in place of those that one kernel can do."""
    plan: list[Any] = []
    index = 0
    while index < len(transforms):
        run = _run_at(transforms, index)
        chosen = run is not None and run.is_worth_it
        plan.append(run if chosen else transforms[index])
        index += len(run.steps) if run is not None and chosen else 1
    return plan


def _run_at(transforms: Sequence[Callable[[Any], Any]], start: int) -> Run | None:
    found: dict[str, Any] = {}
    last, index = -1, start
    while index < len(transforms):
        step = transforms[index]
        place = _PLACES.get(type(step), -1)
        if place <= last or not _is_plain(step) or (place == 1 and not isinstance(found.get("cut"), Resize)):
            break
        if place == 4 and "scale" not in found:
            break
        found[_NAMES[place]] = step
        last, index = place, index + 1
    return Run(tuple(transforms[start:index]), **found) if found else None


def _is_plain(step: Any) -> bool:
    """Whether a transform does what its class says, and gives float32 where it converts."""
    if isinstance(step, torch.nn.Module) and (step._forward_hooks or step._forward_pre_hooks):
        return False
    return step.dtype == torch.float32 if isinstance(step, ConvertImageDtype) else True


def applied(plan: Sequence[Any], image: Any) -> Any:
    """Take a picture through a plan."""
    for part in plan:
        if not isinstance(part, Run):
            image = part(image)
        elif (made := _together(part, image)) is not None:
            image = made
        else:
            for step in part.steps:
                image = step(image)
    return _fused.settled(image)


def _together(run: Run, image: Any) -> Any:
    """The picture after all steps; None where they have to be taken one by one."""
    mode = InterpolationMode.BILINEAR if run.cut is None else run.cut.interpolation
    if is_pil(image):
        if isinstance(run.scale, ConvertImageDtype) or not _fused.takes_pil(image, mode):
            return None
        height, width, channels = image.height, image.width, len(image.getbands())
    else:
        if isinstance(run.scale, ToTensor) or type(image) is not Tensor:
            return None
        if not (_fused.takes_tensor(image) and _fused.takes_mode(mode)):
            return None
        channels, height, width = image.shape[-3:]
    if isinstance(run.scale, ToTensor) and torch.get_default_dtype() != torch.float32:
        return None
    mean, std = ((0.0,), (1.0,)) if run.normalize is None else (run.normalize.mean, run.normalize.std)
    if not (_are_numbers(mean) and _are_numbers(std) and _fused.fits(mean, std, channels)):
        return None
    size = (height, width)
    if isinstance(run.cut, Resize):
        if run.cut.size is None and run.cut.max_size is None:
            return None
        size = resized_size(size, run.cut.size, run.cut.max_size)
        if min(size) < 1 or (run.center is not None and any(map(int.__lt__, size, run.center.size))):
            return None  # an error, or a picture that grows by zeros: for the steps themselves
    return _made(run, image, size, mode, mean, std)


def _are_numbers(values: Any) -> bool:
    """Whether statistics are a list of numbers; tensors may hold one for each pixel."""
    return isinstance(values, list | tuple)


def _made(
    run: Run, image: Any, size: tuple[int, int], mode: InterpolationMode, mean: Sequence[float], std: Sequence[float]
) -> Any:
    part = (0, 0, *size)
    place = None
    from_pil = is_pil(image)
    if isinstance(run.cut, RandomResizedCrop):
        place = _random_parameters.resized_crop(image, run.cut.scale, run.cut.ratio)
        size = (run.cut.size[0], run.cut.size[1])
        part = (0, 0, *size)
    elif run.center is not None:
        height, width = run.center.size
        part = (*middle(*size, height, width), height, width)
    flip = run.flip is not None and _random.happens(run.flip.p)
    antialias = True if from_pil or run.cut is None else bool(run.cut.antialias)
    levels = _fused.levels_of(image, place, size)
    if run.scale is None:
        out = _fused.resized(levels, size, mode=mode, antialias=antialias, flip=flip)
        return _fused.picture_of(out) if from_pil else out
    return _fused.normalized(levels, size, part, mean, std, mode=mode, antialias=antialias, flip=flip)
