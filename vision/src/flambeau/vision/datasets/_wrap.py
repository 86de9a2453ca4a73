"""Datasets whose items transforms v2 understands: boxes, masks and videos become typed tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.vision.datasets._segmentations import segmentation_to_mask
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.tv_tensors import BoundingBoxes, Mask, Video

__all__ = ["wrap_dataset_for_transforms_v2"]

_Sample = Any
_Wrap = Callable[[VisionDataset, Any, int, _Sample], _Sample]
_VOC = (
    "__background__", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
_COCO = ("area", "bbox", "category_id", "id", "iscrowd", "segmentation")
_KITTI = ("Car", "Van", "Truck", "Pedestrian", "Person_sitting", "Cyclist", "Tram", "Misc", "DontCare")


def wrap_dataset_for_transforms_v2(dataset: Any, target_keys: Any = None) -> Any:
    """Let a dataset give boxes, masks and videos as typed tensors, which transforms v2 treat as what they are.

    ==================  ==========================================================================================
    `CocoDetection`     dict with `image_id`, `boxes` (XYXY), `labels`; also `masks` and COCO's own keys, as lists.
                        A picture without annotations has no boxes, labels and masks: zero of each.
    `VOCDetection`      dict with `boxes` and `labels` (0 is the background); also `annotation`
    `Kitti`             dict with `boxes` and `labels`; also KITTI's own keys, as lists
    `WIDERFace`         dict with `bbox` (XYXY) and all its other keys
    `Cityscapes`        "instance": dict with `masks` (one per instance) and `labels`; "semantic": a mask
    `VOCSegmentation`, `SBDataset`, `OxfordIIITPet`: the mask, [1, H, W]; boundaries [20, H, W]
    `CelebA`            "bbox": boxes (XYXY)
    video datasets      the video
    classification      as it is
    ==================  ==========================================================================================

    Pictures stay PIL images. The dataset's transforms are applied after this, to the new items; the dataset itself is
    left as it is.

    Args:
        dataset: one of the datasets here, or of a class derived from one.
        target_keys: for targets that are dicts: the keys to keep, "all", or None for those named first above.

    Returns:
        A dataset of a class derived from that of `dataset`.

    Raises:
        TypeError: it is another dataset; wrap its items in a class of your own.
        ValueError: `target_keys` is none of these, or is given for targets that are no dicts, or names a key that there
            is not (raised by the item).

    Example:
        `wrap_dataset_for_transforms_v2(CocoDetection(root, annFile, transforms=transforms), ["boxes", "labels"])`
    """
    keys = target_keys
    named = isinstance(keys, Collection) and not isinstance(keys, str) and all(isinstance(key, str) for key in keys)
    if not (keys is None or keys == "all" or named):
        raise ValueError(f"target_keys is {keys!r}, expected None, 'all' or a collection of keys.")
    wrap = _wrap_of(dataset)
    if keys is not None and wrap not in (_coco, _voc_detection, _kitti, _wider_face):
        raise ValueError(
            f"target_keys chooses among the keys of CocoDetection, VOCDetection, Kitti and WIDERFace; the targets of "
            f"{type(dataset).__name__} have none."
        )
    name = f"Wrapped{type(dataset).__name__}"
    wrapped = type(name, (_Wrapped, type(dataset)), {"__module__": type(dataset).__module__})
    return wrapped(dataset, wrap, keys)


def _wrap_of(dataset: Any) -> _Wrap:
    if isinstance(dataset, VisionDataset):
        for kind in type(dataset).__mro__:
            if kind.__module__.startswith("flambeau.vision.datasets.") and kind.__name__ in _WRAPS:
                return _WRAPS[kind.__name__]
    raise TypeError(
        f"wrap_dataset_for_transforms_v2 knows no {type(dataset).__name__}. Make its items in a class of your own: put "
        "boxes into tv_tensors.BoundingBoxes and masks into tv_tensors.Mask."
    )


class _Wrapped(VisionDataset):
    """Stands before a dataset: asks it for an item without transforms, wraps the item, then transforms it."""

    def __init__(self, dataset: VisionDataset, wrap: _Wrap, target_keys: Any) -> None:
        self._original = dataset
        self._bare = copy.copy(dataset)
        self._wrap, self._target_keys = wrap, target_keys
        self.transform, self.target_transform = dataset.transform, dataset.target_transform
        self.transforms = dataset.transforms
        self._bare._stands_behind_a_transform = dataset._transforms_pictures
        self._bare.transform = self._bare.target_transform = self._bare.transforms = None

    def __getattr__(self, name: str) -> Any:
        if name in ("_original", "_bare"):  # not there yet
            raise AttributeError(name)
        return getattr(self._bare, name)

    def __getitem__(self, index: int) -> Any:
        """Item `index`, wrapped and transformed."""
        item = self._wrap(self._bare, self._target_keys, range(len(self))[index], self._bare[index])
        if isinstance(item, tuple):
            return item if self.transforms is None else self.transforms(*item)
        return item if self.transform is None else self.transform(item)

    def __len__(self) -> int:
        return len(self._bare)

    def __reduce__(self) -> Any:
        return wrap_dataset_for_transforms_v2, (self._original, self._target_keys)


def _chosen(target: Mapping[str, Callable[[], Any]], keys: Any, default: Sequence[str]) -> dict[str, Any]:
    """The parts of a target that are wanted; only those are made."""
    wanted = default if keys is None else list(target) if keys == "all" else list(keys)
    if unknown := sorted(set(wanted) - set(target)):
        raise ValueError(f"target_keys has {unknown}, but the target's keys are {sorted(target)}.")
    return {key: target[key]() for key in wanted}


def _size(image: Any) -> tuple[int, int]:
    """(height, width) of a PIL image or a tensor."""
    if isinstance(image, Tensor):
        return int(image.shape[-2]), int(image.shape[-1])
    return int(image.height), int(image.width)


def _boxes(boxes: Any, size: tuple[int, int], *, from_xywh: bool = False) -> BoundingBoxes:
    corners = torch.as_tensor(boxes)
    corners = (corners if corners.is_floating_point() or corners.numel() else corners.float()).reshape(-1, 4)
    if from_xywh:
        corners = torch.cat([corners[:, :2], corners[:, :2] + corners[:, 2:]], 1)
    return BoundingBoxes(corners, format="XYXY", canvas_size=size)


def _mask(picture: Any) -> Mask:
    pixels = torch.from_numpy(np.array(picture))
    return Mask(pixels if pixels.ndim == 3 else pixels[None])


def _as_it_is(dataset: Any, keys: Any, index: int, sample: _Sample) -> _Sample:
    return sample


def _coco(dataset: Any, keys: Any, index: int, sample: _Sample) -> _Sample:
    image, annotations = sample
    size = _size(image)
    # A picture without annotations has none of COCO's keys, and whoever asked for one gets an empty list.
    own = {key for annotation in annotations for key in annotation} or set(_COCO)
    own -= {"image_id"}
    target: dict[str, Callable[[], Any]] = {key: partial(_column, annotations, key) for key in sorted(own)}
    target["image_id"] = lambda: dataset.ids[index]
    target["boxes"] = lambda: _boxes([annotation["bbox"] for annotation in annotations], size, from_xywh=True)
    target["labels"] = lambda: torch.tensor(
        [annotation["category_id"] for annotation in annotations], dtype=torch.int64
    )
    target["masks"] = lambda: _coco_masks(annotations, size)
    return image, _chosen(target, keys, ("image_id", "boxes", "labels"))


def _column(records: list[dict[str, Any]], key: str) -> list[Any]:
    return [record.get(key) for record in records]


def _coco_masks(annotations: list[dict[str, Any]], size: tuple[int, int]) -> Mask:
    masks = np.zeros((len(annotations), *size), np.uint8)
    for mask, annotation in zip(masks, annotations, strict=True):
        mask[:] = segmentation_to_mask(annotation["segmentation"], *size)
    return Mask(torch.from_numpy(masks))


def _voc_detection(dataset: Any, keys: Any, index: int, sample: _Sample) -> _Sample:
    image, target = sample
    things = target["annotation"]["object"]
    sides = ("xmin", "ymin", "xmax", "ymax")

    def boxes() -> BoundingBoxes:
        return _boxes([[round(float(thing["bndbox"][side])) for side in sides] for thing in things], _size(image))

    def labels() -> Tensor:
        return torch.tensor([_VOC.index(thing["name"]) for thing in things], dtype=torch.int64)

    parts = {"annotation": lambda: target["annotation"], "boxes": boxes, "labels": labels}
    return image, _chosen(parts, keys, ("boxes", "labels"))


def _kitti(dataset: Any, keys: Any, index: int, sample: _Sample) -> _Sample:
    image, things = sample
    if things is None:
        return sample
    own = ("type", "truncated", "occluded", "alpha", "bbox", "dimensions", "location", "rotation_y")
    target: dict[str, Callable[[], Any]] = {key: partial(_column, things, key) for key in own}
    target["boxes"] = lambda: _boxes([thing["bbox"] for thing in things], _size(image))
    target["labels"] = lambda: torch.tensor([_KITTI.index(thing["type"]) for thing in things], dtype=torch.int64)
    return image, _chosen(target, keys, ("boxes", "labels"))


def _wider_face(dataset: Any, keys: Any, index: int, sample: _Sample) -> _Sample:
    image, faces = sample
    if faces is None:
        return sample
    target: dict[str, Callable[[], Any]] = {key: partial(faces.__getitem__, key) for key in faces}
    target["bbox"] = lambda: _boxes(faces["bbox"], _size(image), from_xywh=True)
    return image, _chosen(target, keys, tuple(faces))


def _second_is_mask(dataset: Any, keys: Any, index: int, sample: _Sample) -> _Sample:
    image, target = sample
    return image, _mask(target)


def _of_types(kinds: Sequence[str], target: Any, wraps: Mapping[str, Callable[[Any], Any]]) -> Any:
    """Wrap each of the targets that were asked for by its kind."""
    if target is None:
        return None
    parts = target if len(kinds) > 1 else (target,)
    made = tuple(wraps.get(kind, lambda part: part)(part) for kind, part in zip(kinds, parts, strict=True))
    return made if len(kinds) > 1 else made[0]


def _pets(dataset: Any, keys: Any, index: int, sample: _Sample) -> _Sample:
    image, target = sample
    return image, _of_types(dataset._target_types, target, {"segmentation": _mask})


def _celeba(dataset: Any, keys: Any, index: int, sample: _Sample) -> _Sample:
    image, target = sample
    wraps = {"bbox": lambda box: _boxes(box, _size(image), from_xywh=True)}
    return image, _of_types(dataset.target_type, target, wraps)


def _cityscapes(dataset: Any, keys: Any, index: int, sample: _Sample) -> _Sample:
    image, target = sample

    def instances(picture: Any) -> dict[str, Any]:
        # An instance's number is its class's number times a thousand plus a count; areas have their class's number.
        numbers = np.array(picture, dtype=np.int64)
        found = torch.from_numpy(np.unique(numbers))
        return {
            "masks": Mask(torch.from_numpy(numbers) == found[:, None, None]),
            "labels": torch.where(found >= 1000, found // 1000, found),
        }

    return image, _of_types(dataset.target_type, target, {"instance": instances, "semantic": _mask})


def _first_is_video(dataset: Any, keys: Any, index: int, sample: _Sample) -> _Sample:
    video, *others = sample
    if getattr(dataset, "output_format", "TCHW") == "THWC":
        video = video.permute(0, 3, 1, 2)
    return (Video(video), *others)


def _is_video(dataset: Any, keys: Any, index: int, sample: _Sample) -> _Sample:
    return Video(sample)


# By the name of a class, so that no dataset loads that is not used. The bases stand for what derives from them.
_WRAPS: dict[str, _Wrap] = {
    **dict.fromkeys(
        ("CIFAR10", "Caltech101", "CocoCaptions", "DatasetFolder", "FER2013", "FakeData", "INaturalist", "LSUN",
         "MNIST", "PCAM", "PictureDataset", "SEMEION", "STL10", "SVHN", "USPS"),
        _as_it_is,
    ),
    **dict.fromkeys(("HMDB51", "Kinetics", "UCF101"), _first_is_video),
    "CelebA": _celeba,
    "Cityscapes": _cityscapes,
    "CocoDetection": _coco,
    "Kitti": _kitti,
    "MovingMNIST": _is_video,
    "OxfordIIITPet": _pets,
    "SBDataset": _second_is_mask,
    "VOCDetection": _voc_detection,
    "VOCSegmentation": _second_is_mask,
    "WIDERFace": _wider_face,
}  # fmt: skip
