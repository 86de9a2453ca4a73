"""Questions about the leaves of a sample, and about the arguments of transforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any

from torch import Tensor

from flambeau.vision import tv_tensors
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2.functional._convert import is_pure_tensor
from flambeau.vision.transforms.v2.functional._pil import is_pil

Check = type | Callable[[Any], bool]
Fill = float | Sequence[float] | None
FillArgument = Fill | Mapping[type | str, Fill]


def check_type(obj: Any, types_or_checks: tuple[Check, ...]) -> bool:
    """Whether `obj` is an instance of one of the types, or one of the checks says so of it."""
    return any(isinstance(obj, check) if isinstance(check, type) else check(obj) for check in types_or_checks)


def has_any(flat_inputs: list[Any], *types_or_checks: Check) -> bool:
    """Whether one leaf at least is of one of the types."""
    return any(check_type(inpt, types_or_checks) for inpt in flat_inputs)


def has_all(flat_inputs: list[Any], *types_or_checks: Check) -> bool:
    """Whether there is a leaf of each of the types."""
    return all(has_any(flat_inputs, check) for check in types_or_checks)


def get_bounding_boxes(flat_inputs: list[Any]) -> tv_tensors.BoundingBoxes:
    """The first bounding boxes among the leaves.

    Raises:
        ValueError: there are none.
    """
    for inpt in flat_inputs:
        if isinstance(inpt, tv_tensors.BoundingBoxes):
            return inpt
    raise ValueError("The sample has no bounding boxes; wrap them in tv_tensors.BoundingBoxes.")


def get_keypoints(flat_inputs: list[Any]) -> tv_tensors.KeyPoints:
    """The first key points among the leaves.

    Raises:
        ValueError: there are none.
    """
    for inpt in flat_inputs:
        if isinstance(inpt, tv_tensors.KeyPoints):
            return inpt
    raise ValueError("The sample has no key points; wrap them in tv_tensors.KeyPoints.")


def query_chw(flat_inputs: list[Any]) -> tuple[int, int, int]:
    """(channels, height, width) that all pictures among the leaves share.

    Raises:
        TypeError: there is no picture.
        ValueError: they disagree.
    """
    kinds = (is_pure_tensor, is_pil, tv_tensors.Image, tv_tensors.EncodedImage, tv_tensors.Video)
    found = {tuple(F.get_dimensions(inpt)) for inpt in flat_inputs if check_type(inpt, kinds)}
    return _single_size(found, "dimensions (channels, height, width)")  # type: ignore[return-value]


def query_size(flat_inputs: list[Any]) -> tuple[int, int]:
    """(height, width) that all leaves with a place in the picture share, boxes and key points among them.

    Raises:
        TypeError: there is none.
        ValueError: they disagree.
    """
    kinds = (
        is_pure_tensor,
        is_pil,
        tv_tensors.Image,
        tv_tensors.EncodedImage,
        tv_tensors.Video,
        tv_tensors.Mask,
        tv_tensors.BoundingBoxes,
        tv_tensors.KeyPoints,
    )
    found = {tuple(F.get_size(inpt)) for inpt in flat_inputs if check_type(inpt, kinds)}
    return _single_size(found, "sizes (height, width)")  # type: ignore[return-value]


def _single_size(found: set[tuple[int, ...]], what: str) -> tuple[int, ...]:
    if not found:
        raise TypeError("The sample has no image, video, mask, bounding boxes or key points.")
    if len(found) > 1:
        raise ValueError(f"The sample holds different {what}: {sorted(found)}; bring its parts to one size first.")
    return next(iter(found))


def setup_size(size: int | Sequence[int]) -> list[int]:
    """[height, width], of one number for a square, or of two.

    Raises:
        TypeError: no number and no sequence.
        ValueError: a sequence of another length.
    """
    if isinstance(size, int):
        return [size, size]
    if not isinstance(size, Sequence):
        raise TypeError(f"size is {size!r}, expected an integer or (height, width).")
    if len(size) not in (1, 2):
        raise ValueError(f"size is {size!r}, expected an integer or (height, width).")
    return [int(size[0]), int(size[-1])]


def setup_range(value: float | Sequence[float], name: str, sizes: tuple[int, ...] = (2,)) -> list[float]:
    """Limits: of a number v these are [-v, v]; a sequence has one of the lengths `sizes`.

    Raises:
        ValueError: a negative number, or a sequence of another length.
        TypeError: neither.
    """
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"{name} is {value}; a single number stands for (-{name}, {name}) and must be >= 0.")
        return [-float(value), float(value)]
    check_sequence(value, name, sizes)
    return [float(v) for v in value]


def setup_pair(value: float | Sequence[float], name: str) -> list[float]:
    """Two numbers of one or two.

    Raises:
        TypeError: no number and no sequence of numbers.
        ValueError: a sequence of another length.
    """
    if isinstance(value, (int, float)):
        return [float(value), float(value)]
    check_sequence(value, name, (1, 2))
    if not all(isinstance(v, (int, float)) for v in value):
        raise TypeError(f"{name} is {value!r}, expected numbers.")
    return [float(value[0]), float(value[-1])]


def check_sequence(value: Any, name: str, sizes: tuple[int, ...]) -> None:
    """Raises:
    TypeError: `value` is no sequence.
    ValueError: it has none of the lengths.
    """
    expected = " or ".join(map(str, sizes))
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise TypeError(f"{name} is {value!r}, expected a sequence of {expected} numbers.")
    if len(value) not in sizes:
        raise ValueError(f"{name} is {value!r} with {len(value)} values, expected {expected}.")


def check_probability(p: float) -> float:
    """Raises:
    ValueError: `p` is not in [0, 1].
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p is {p}, expected a probability in [0.0, 1.0].")
    return p


def check_fill(fill: FillArgument) -> FillArgument:
    """Raises:
    TypeError: neither a number, a sequence of numbers, None, nor a dictionary of these.
    """
    values: list[Any] = list(fill.values()) if isinstance(fill, Mapping) else [fill]
    for value in values:
        if isinstance(value, str) or not (value is None or isinstance(value, (Number, Sequence))):
            raise TypeError(
                f"fill is {fill!r}, expected a number, a sequence of numbers for the channels, None, or a dictionary "
                'from types (or "others") to these.'
            )
    return fill


def fill_for(fill: FillArgument, inpt: Any) -> Fill:
    """What new pixels of a leaf are filled with.

    Raises:
        ValueError: a dictionary knows neither the leaf's type nor "others".
    """
    if not isinstance(fill, Mapping):
        return fill if fill is None or isinstance(fill, (int, float)) else [float(value) for value in fill]
    for kind in type(inpt).__mro__:
        if kind in fill and (kind is not Tensor or is_pure_tensor(inpt)):
            return fill_for(fill[kind], inpt)
    if "others" in fill:
        return fill_for(fill["others"], inpt)
    if isinstance(inpt, (tv_tensors.BoundingBoxes, tv_tensors.KeyPoints)):
        return None  # they have nothing to fill
    raise ValueError(f'fill has no value for {type(inpt).__name__}; add the type, or the key "others".')


def first(inputs: tuple[Any, ...]) -> Any:
    """The sample: one input as it is, several as a tuple.

    Raises:
        TypeError: there is none.
    """
    if not inputs:
        raise TypeError("The transform was called without a sample; pass an image, or a structure that holds one.")
    return inputs if len(inputs) > 1 else inputs[0]


LabelsGetter = Callable[[Any], Any] | str | None


def get_labels(labels_getter: LabelsGetter, sample: Any) -> Any:
    """The labels of a sample.

    Args:
        labels_getter: None, a function of the sample, or "default": the second of several inputs, or in a dictionary
            (which may be that second input) the value at "labels", else at the first key with "label" in it.
        sample: the input of a transform.

    Raises:
        ValueError: the default finds none.
    """
    if labels_getter is None:
        return None
    if not isinstance(labels_getter, str):
        return labels_getter(sample)
    if isinstance(sample, (tuple, list)):
        if len(sample) < 2:
            raise ValueError("labels_getter='default' looks at the second input, and there is one only.")
        sample = sample[1]
    if is_pure_tensor(sample):
        return sample
    if not isinstance(sample, Mapping):
        raise ValueError(
            f"labels_getter='default' looks for a tensor or a dictionary, found {type(sample).__name__}; pass a "
            "function as labels_getter, or None if the sample has no labels."
        )
    names = [key for key in sample if isinstance(key, str)]
    for key in [key for key in names if key.lower() == "labels"] + [key for key in names if "label" in key.lower()]:
        return sample[key]
    raise ValueError(
        f"labels_getter='default' finds no key with 'label' among {names}; pass a function as labels_getter, or None "
        "if the sample has no labels."
    )


def check_labels_getter(labels_getter: LabelsGetter) -> LabelsGetter:
    """Raises:
    ValueError: neither "default", None nor a function.
    """
    if labels_getter is None or labels_getter == "default" or callable(labels_getter):
        return labels_getter
    raise ValueError(f"labels_getter is {labels_getter!r}, expected 'default', a function or None.")
