"""Which steps of a `Compose` one kernel does together, and doing them.

Runs of the following, in this order and each of them optional, are found: `RandomResizedCrop` or `Resize` and
`CenterCrop`; `RandomHorizontalFlip`; `ToImage` or `PILToTensor`; `ToDtype(torch.float32, scale=True)`; `Normalize`.
What is drawn is drawn by the transforms themselves, in their order. Samples that the kernel is not made for, and calls
whose parameters are recorded or replayed, go through the steps one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from flambeau.vision import tv_tensors
from flambeau.vision.transforms import _fused, _random, _random_parameters
from flambeau.vision.transforms._interpolation import InterpolationMode, interpolation_mode
from flambeau.vision.transforms.v2._crop import CenterCrop, RandomResizedCrop
from flambeau.vision.transforms.v2._geometry import RandomHorizontalFlip
from flambeau.vision.transforms.v2._normalize import Normalize
from flambeau.vision.transforms.v2._size import Resize
from flambeau.vision.transforms.v2._transform import Transform, flatten
from flambeau.vision.transforms.v2._type_conversion import ConvertImageDtype, PILToTensor, ToDtype, ToImage, is_array
from flambeau.vision.transforms.v2._utils import first
from flambeau.vision.transforms.v2.functional._convert import is_pure_tensor
from flambeau.vision.transforms.v2.functional._crop import middle
from flambeau.vision.transforms.v2.functional._pil import is_pil
from flambeau.vision.transforms.v2.functional._resize import resized_size

# Where in a run a transform stands.
_PLACES: dict[type, int] = {
    RandomResizedCrop: 0,
    Resize: 0,
    CenterCrop: 1,
    RandomHorizontalFlip: 2,
    ToImage: 3,
    PILToTensor: 3,
    ConvertImageDtype: 4,
    ToDtype: 4,
    Normalize: 5,
}


@dataclass(frozen=True)
class Run:
    """Transforms that follow each other, and what they are to a picture."""

    steps: tuple[Any, ...]
    cut: RandomResizedCrop | Resize | None = None
    center: CenterCrop | None = None
    flip: RandomHorizontalFlip | None = None
    kind: ToImage | PILToTensor | None = None
    scale: ToDtype | ConvertImageDtype | None = None
    normalize: Normalize | None = None

    @property
    def is_worth_it(self) -> bool:
        """Whether one pass takes the place of several."""
        if self.scale is None:
            return isinstance(self.cut, RandomResizedCrop) and self.flip is not None and self.kind is None
        return self.cut is not None or self.normalize is not None


_NAMES = ("cut", "center", "flip", "kind", "scale", "normalize")


def planned(transforms: Sequence[Callable[..., Any]]) -> list[Any]:
    """The transforms, with a `Run` in place of those that one kernel can do."""
    plan: list[Any] = []
    index = 0
    while index < len(transforms):
        run, count = _run_at(transforms, index)
        plan.append(run if run is not None and run.is_worth_it else transforms[index])
        index += count if plan[-1] is run else 1
    return plan


def _run_at(transforms: Sequence[Callable[..., Any]], start: int) -> tuple[Run | None, int]:
    found: dict[str, Any] = {}
    last, index = -1, start
    while index < len(transforms):
        step = transforms[index]
        place = _PLACES.get(type(step), -1)
        if place <= last or not _is_plain(step) or (place == 1 and not isinstance(found.get("cut"), Resize)):
            break
        found[_NAMES[place]] = step
        last, index = place, index + 1
    if "normalize" in found and "scale" not in found:
        del found["normalize"]
        index -= 1
    return (Run(tuple(transforms[start:index]), **found), index - start) if found else (None, 1)


def _is_plain(step: Any) -> bool:
    """Whether a transform does what its class says, to float32 where it converts."""
    if step._forward_hooks or step._forward_pre_hooks:
        return False
    if isinstance(step, ToDtype):
        return step.dtype == torch.float32 and step.scale
    return step.dtype == torch.float32 if isinstance(step, ConvertImageDtype) else True


def applied(plan: Sequence[Any], inputs: tuple[Any, ...]) -> Any:
    """Take a sample through a plan."""
    several = len(inputs) > 1
    for part in plan:
        if isinstance(part, Run):
            inputs = _together(part, inputs)
        else:
            outputs = part(*inputs)
            inputs = outputs if several else (outputs,)
    if any(map(is_pil, inputs)):
        inputs = tuple(map(_fused.settled, inputs))
    return inputs if several else inputs[0]


def _together(run: Run, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    several = len(inputs) > 1
    alone = not several and inputs and type(inputs[0]) in _PICTURES
    if alone and (treat := _treatment(run, _file_or_levels(inputs[0]))) is not None:
        return (treat(),)
    flat, structure = flatten(first(inputs))
    index = _only_picture(flat)
    if index is not None and flat[index] is not (picture := _file_or_levels(flat[index])):
        flat[index] = picture
        whole = pytree.tree_unflatten(flat, structure)
        inputs = whole if several else (whole,)
    if index is not None and len(flat) > 1 and not _leaves_alone(run, flat, index):
        index = None
    treat = None if index is None else _treatment(run, flat[index])
    if index is None or treat is None:
        for step in run.steps:
            outputs = step(*inputs)
            inputs = outputs if several else (outputs,)
        return inputs
    flat[index] = treat()
    outputs = pytree.tree_unflatten(flat, structure)
    return outputs if several else (outputs,)


# A sample that is one of these is its only picture; so is a PIL image, of whatever class.
_PICTURES = (Tensor, tv_tensors.Image, tv_tensors.EncodedImage)


def _file_or_levels(picture: Any) -> Any:
    """A picture, decoded if it is a file that the kernel may not take."""
    if type(picture) is tv_tensors.EncodedImage and not _fused.takes_file(picture):
        return picture.decode()
    return picture


def _only_picture(flat: list[Any]) -> int | None:
    """Where the sample's picture is, if nothing else in it would be transformed."""
    tensors = [index for index, leaf in enumerate(flat) if isinstance(leaf, Tensor)]
    pictures = [index for index in tensors if type(flat[index]) in (tv_tensors.Image, tv_tensors.EncodedImage)]
    pictures += [index for index, leaf in enumerate(flat) if is_pil(leaf)]
    others = [index for index in tensors if index not in pictures]
    if not pictures and others and is_pure_tensor(flat[others[0]]):
        pictures = [others.pop(0)]  # the first plain tensor is the picture where there is no other
    if len(pictures) != 1 or not all(is_pure_tensor(flat[index]) for index in others):
        return None
    return pictures[0]


def _leaves_alone(run: Run, flat: list[Any], picture: int) -> bool:
    """Whether no step takes another leaf for a picture: arrays, and tensors before one that was a PIL image."""
    if isinstance(run.kind, ToImage) and any(map(is_array, flat)):
        return False
    return not (isinstance(run.kind, PILToTensor) and any(isinstance(leaf, Tensor) for leaf in flat[:picture]))


def _treatment(run: Run, picture: Any) -> Callable[[], Any] | None:
    """What to do to a picture; None where the steps have to be taken one by one."""
    mode = InterpolationMode.BILINEAR if run.cut is None else interpolation_mode(run.cut.interpolation)
    if is_pil(picture):
        # A picture stays one, or becomes a tensor between mirroring and scaling.
        if (run.kind is None) != (run.scale is None) or not _fused.takes_pil(picture, mode):
            return None
        height, width, channels = picture.height, picture.width, len(picture.getbands())
    elif isinstance(picture, tv_tensors.EncodedImage):
        if not _fused.takes_mode(mode) or (run.cut is None and run.scale is None):
            return None
        channels, (height, width) = picture.channels, picture.canvas_size
    else:
        if not (_fused.takes_tensor(picture) and _fused.takes_mode(mode)):
            return None
        channels, height, width = picture.shape[-3:]
    if run.normalize is not None and not _fused.fits(run.normalize.mean, run.normalize.std, channels):
        return None
    size = (height, width)
    if isinstance(run.cut, Resize):
        size = resized_size(size, run.cut.size, run.cut.max_size)
        if min(size) < 1 or (run.center is not None and any(map(int.__lt__, size, run.center.size))):
            return None  # an error, or a picture that grows by zeros: for the steps themselves
    return lambda: _treated(run, picture, size, mode)


def _treated(run: Run, picture: Any, size: tuple[int, int], mode: InterpolationMode) -> Any:
    part: tuple[int, int, int, int] = (0, 0, *size)
    place = None
    if isinstance(run.cut, RandomResizedCrop):
        cut = run.cut
        place = _drawn(cut, lambda: _random_parameters.crop_of_area(*size, cut.scale, cut.ratio))
        size = (run.cut.size[0], run.cut.size[1])
        part = (0, 0, *size)
    elif run.center is not None:
        height, width = run.center.size
        part = (*middle(*size, height, width), height, width)
    flip = run.flip is not None and _drawn(run.flip, run.flip.applies)
    image = _fused.levels_of(picture, place, size)
    antialias = True if is_pil(picture) or run.cut is None else bool(run.cut.antialias)
    if run.scale is None:
        out = _fused.resized(image, size, mode=mode, antialias=antialias, flip=flip)
        if is_pil(picture):
            return _fused.picture_of(out)
    else:
        mean, std = ((0.0,), (1.0,)) if run.normalize is None else (run.normalize.mean, run.normalize.std)
        out = _fused.normalized(image, size, part, mean, std, mode=mode, antialias=antialias, flip=flip)
    if isinstance(picture, tv_tensors.TVTensor) or isinstance(run.kind, ToImage):
        return tv_tensors.Image(out)
    return out


def _drawn(step: Transform, draw: Callable[[], Any]) -> Any:
    """What a transform draws, from its own generator where it has one."""
    if step.generator is None:
        return draw()
    with _random.session(own=step.generator):
        return draw()
