"""What the conformance kit needs to check vision: inputs of models, miniature datasets, samples of functions."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.core.registry import MODELS
from flambeau.core.testing import Sample
from flambeau.vision import ops, tv_tensors
from flambeau.vision._miniatures import write_miniature
from flambeau.vision.datasets import CIFAR10, CIFAR100
from flambeau.vision.io import encode_jpeg, encode_png, write_png
from flambeau.vision.ops import batched_nms, nms
from flambeau.vision.ops._heatmaps import heatmap_peaks
from flambeau.vision.ops.box_iou_rotated import box_iou_rotated
from flambeau.vision.transforms import v2
from flambeau.vision.transforms._presets import HandwrittenDigit, ImageClassification
from flambeau.vision.transforms.v2 import functional as F

_NO_CHECKSUM = "its owner states no checksum, and none is on record"
expected_failures = {
    "moves-dtype-and-device:vision/ssdlite320_mobilenet_v3_large": (
        "untrained, its scores differ by less than float32 resolves, and their order decides what is suppressed"
    ),
    "weights-metadata:vision/quantized_mobilenet_v2": _NO_CHECKSUM,
    "weights-metadata:vision/quantized_resnet18": _NO_CHECKSUM,
    "weights-metadata:vision/quantized_resnet50": _NO_CHECKSUM,
    "weights-metadata:vision/quantized_resnext101_32x8d": _NO_CHECKSUM,
    "facts-complete:vision/fgvcaircraft": _NO_CHECKSUM,
    "facts-complete:vision/kitti": _NO_CHECKSUM,
    "facts-complete:vision/middlebury2014stereo": _NO_CHECKSUM,
    "transforms-applied-once:vision/*stereo*": "its transforms take and return pairs, as upstream's do",
    "transforms-applied-once:vision/lfwpairs": "an item has two pictures, and each is transformed",
}
_CIFAR = {"cifar10": CIFAR10, "cifar100": CIFAR100}
_INPUT_SHAPES: dict[str, tuple[int, ...]] = {
    "digit_cnn": (1, 8, 8),
    **dict.fromkeys(("inception_v3", "quantized_inception_v3"), (3, 299, 299)),
    "maxvit_t": (3, 224, 224),
    **dict.fromkeys(("vit_b_16", "vit_b_32", "vit_l_16", "vit_l_32", "vit_h_14"), (3, 224, 224)),
    **dict.fromkeys(("r3d_18", "mc3_18", "r2plus1d_18", "swin3d_t", "swin3d_s", "swin3d_b"), (3, 4, 64, 64)),
    **dict.fromkeys(("mvit_v1_b", "mvit_v2_s"), (3, 16, 224, 224)),
    "s3d": (3, 14, 224, 224),
    **dict.fromkeys(("raft_large", "raft_small"), (3, 128, 128)),
}


def example_inputs(model_name: str, batch: int) -> tuple[Tensor, ...]:
    """A batch of small pictures or clips, two for flow between them; the same each time."""
    shape = _INPUT_SHAPES.get(model_name, (3, 64, 64))
    generator = torch.Generator().manual_seed(0)
    return tuple(
        torch.rand(batch, *shape, generator=generator) for _ in range(2 if model_name.startswith("raft") else 1)
    )


def model_config(model_name: str) -> dict[str, Any]:
    """Detectors take pictures of the size they have, not ten times larger, and look at few proposals."""
    if not _detects(model_name) or "ssd" in model_name:
        return {}
    size = {"min_size": 64, "max_size": 96}
    if "rcnn" not in model_name:
        return size
    return size | {"rpn_post_nms_top_n_train": 20, "rpn_post_nms_top_n_test": 20, "box_detections_per_img": 5}


def training_loss(model_name: str, model: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor | None:
    """The sum of a detector's losses; None for models whose outputs can be differentiated."""
    if not _detects(model_name):
        return None
    (pictures,) = inputs
    masks = torch.zeros(1, *pictures.shape[-2:], dtype=torch.uint8)
    masks[:, 8:48, 8:40] = 1
    target = {
        "boxes": torch.tensor([[8.0, 8.0, 40.0, 48.0]]),
        "labels": torch.tensor([1]),
        "masks": masks,
        "keypoints": torch.tensor([[[20.0, 20.0, 1.0]]]).repeat(1, 17, 1),
    }
    losses: dict[str, Tensor] = model(pictures, [target] * len(pictures))
    return torch.stack(list(losses.values())).sum()


def _detects(model_name: str) -> bool:
    return MODELS.info(f"vision/{model_name}").get("task") == "object-detection"


def raw_input(model_name: str) -> Tensor | tuple[Tensor, ...]:
    """A picture as it comes from a file; for some tasks a clip of 16, or two of them."""
    task = MODELS.info(f"vision/{model_name}").get("task")
    if task == "video-classification":
        return torch.stack([_picture(40, 50)] * 16)
    if task == "optical-flow":
        return _picture(128, 136), _picture(128, 136)
    return _picture(40, 50)


def dataset_fixture(name: str, root: Path) -> dict[str, Any]:
    """Write a few items in the dataset's true layout; returns what to build it with."""
    if name == "fakedata":
        return {"size": 4, "image_size": (3, 8, 8)}
    if name == "imagefolder":
        for label in ("cat", "dog"):
            folder = root / label
            folder.mkdir(parents=True)
            for index in range(2):
                write_png(_picture(8 + index, 10), folder / f"{index}.png")
    elif name in _CIFAR:
        write_cifar(_CIFAR[name], root)
    else:
        return write_miniature(name, root)
    return {"root": root}


def write_cifar(dataset: type[CIFAR10], root: Path, *, items: int = 4) -> None:
    """Write batches and class names as the published archive holds them, `items` pictures in each batch."""
    folder = root / dataset.base_folder
    folder.mkdir(parents=True)
    fine = issubclass(dataset, CIFAR100)
    classes = 100 if fine else 10
    for number, (batch, _) in enumerate([*dataset.train_list, *dataset.test_list]):
        data = torch.randint(0, 256, (items, 3072), generator=torch.Generator().manual_seed(number), dtype=torch.uint8)
        labels = [(items * number + index) % classes for index in range(items)]
        content = {"data": data.numpy(), "fine_labels" if fine else "labels": labels}
        (folder / batch).write_bytes(pickle.dumps(content, protocol=2))
    names = {dataset.meta["key"]: [f"class {index}" for index in range(classes)]}
    (folder / dataset.meta["filename"]).write_bytes(pickle.dumps(names, protocol=2))


def tensor_samples(type_name: str) -> list[tv_tensors.TVTensor]:
    """Instances of a tensor type."""
    video = torch.stack([_picture(4, 6), _picture(4, 6).flip(-1)])
    boxes = torch.tensor([[0.0, 1.0, 3.0, 4.0], [2.0, 2.0, 5.0, 4.0]])
    turned = torch.tensor([[3.0, 1.0, 2.0, 2.0, 30.0]])
    samples: dict[str, list[tv_tensors.TVTensor]] = {
        "image": [tv_tensors.Image(_picture(4, 6)), tv_tensors.Image(torch.rand(2, 3, 4, 6))],
        "video": [tv_tensors.Video(video), tv_tensors.Video(torch.rand(1, 2, 3, 4, 6))],
        "mask": [tv_tensors.Mask(torch.zeros(4, 6, dtype=torch.int64)), tv_tensors.Mask(torch.ones(3, 4, 6) > 0)],
        "bounding-boxes": [
            tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(4, 6)),
            tv_tensors.BoundingBoxes(turned, format="XYWHR", canvas_size=(4, 6), clamping_mode="hard"),
        ],
        "encoded-image": [
            tv_tensors.EncodedImage(encode_png(_picture(4, 6))),
            tv_tensors.EncodedImage(encode_jpeg(_picture(20, 30)), mode="gray", draft=True).crop(1, 2, 10, 12),
        ],
        "key-points": [tv_tensors.KeyPoints(torch.rand(2, 5, 2), canvas_size=(4, 6))],
    }
    return samples[type_name]


def op_samples() -> Iterator[Sample]:
    """Samples of the operators, and of the functions behind the transforms."""
    corners = torch.rand(30, 2, generator=torch.Generator().manual_seed(0)) * 20
    boxes = torch.cat([corners, corners + 5 + corners.flip(0) / 4], 1)
    scores = torch.rand(30, generator=torch.Generator().manual_seed(1))
    classes = torch.arange(30) % 4
    yield Sample("nms", nms, (boxes, scores, 0.3), operator="flambeau_vision::nms")
    yield Sample("batched_nms", batched_nms, (boxes, scores, classes, 0.3), operator="flambeau_vision::batched_nms")
    yield from _region_samples(boxes)
    image = torch.rand(3, 12, 17, generator=torch.Generator().manual_seed(2))
    none = image.new_empty(0, 3, 12, 17)
    mean, std = [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]
    smooth = partial(Sample, batched=(0,), differentiable=(0,))
    yield smooth("resize", F.resize, (image, [8, 9]), empty=(none, [8, 9]))
    yield smooth("center_crop", F.center_crop, (image, [8, 9]), reference=_middle, empty=(none, [8, 9]))
    yield smooth(
        "normalize", F.normalize, (image, mean, std), reference=_normalized, empty=(none, mean, std), rejects=("uint8",)
    )
    yield smooth("rgb_to_grayscale", F.rgb_to_grayscale, (image,), reference=_luma, empty=(none,))
    yield Sample(
        "to_dtype",
        F.to_dtype,
        (_picture(5, 6), torch.float32, True),
        reference=lambda picture, dtype, scale: picture.to(dtype) / 255,
        dtypes=("uint8",),
        batched=(0,),
        empty=(none.to(torch.uint8), torch.float32, True),
    )


def _region_samples(boxes: Tensor) -> Iterator[Sample]:
    """Samples of the operators that read feature maps, and of that on rotated boxes."""
    maps = torch.rand(2, 8, 12, 15, generator=torch.Generator().manual_seed(3))
    rois = torch.cat([(torch.arange(len(boxes)) % 2)[:, None].to(boxes.dtype), boxes], 1)
    for pool in (ops.roi_align, ops.roi_pool, ops.ps_roi_align, ops.ps_roi_pool):
        yield Sample(pool.__name__, pool, (maps, rois, 2, 0.5))
    offset, weight = torch.rand(2, 18, 10, 13, generator=torch.Generator().manual_seed(4)), torch.ones(1, 8, 3, 3)
    yield Sample("deform_conv2d", ops.deform_conv2d, (maps, offset, weight))
    registered = torch.ops.flambeau_vision
    for name, *more in (("roi_align", 2, False), ("roi_pool",), ("ps_roi_align", 2), ("ps_roi_pool",)):
        arguments = (maps, rois, 0.5, 2, 2, *more)
        yield Sample(f"{name}-schema", getattr(registered, name), arguments, operator=f"flambeau_vision::{name}")
    no_mask, bias = maps.new_zeros(2, 1), maps.new_ones(1)
    arguments = (maps, weight, offset, no_mask, bias, 1, 1, 0, 0, 1, 1, 1, 1, False)
    operator = "flambeau_vision::deform_conv2d"
    yield Sample("deform_conv2d-schema", registered.deform_conv2d, arguments, operator=operator)
    operator = "flambeau_vision::jpeg_there_and_back"
    yield Sample(
        "jpeg-schema", registered.jpeg_there_and_back, (_picture(16, 24), 75), operator=operator, dtypes=("uint8",)
    )
    heat = torch.rand(len(boxes), 2, 5, 5, generator=torch.Generator().manual_seed(5))
    yield Sample("heatmap_peaks", heatmap_peaks, (heat, boxes), operator="flambeau_vision::_heatmap_peaks")
    yield Sample("box_iou", ops.box_iou, (boxes, boxes.flip(0)), operator="flambeau_vision::_box_iou")
    turned = torch.cat([boxes, boxes[:, :1] * 9], 1)
    yield Sample("box_iou_rotated", box_iou_rotated, (turned, turned), operator="flambeau_vision::box_iou_rotated")


def _middle(image: Tensor, size: list[int]) -> Tensor:
    top, left = round((image.shape[-2] - size[0]) / 2), round((image.shape[-1] - size[1]) / 2)
    return image.narrow(-2, top, size[0]).narrow(-1, left, size[1])


def _normalized(image: Tensor, mean: list[float], std: list[float]) -> Tensor:
    return torch.stack([(image[..., c, :, :] - mean[c]) / std[c] for c in range(3)], -3)


def _luma(image: Tensor) -> Tensor:
    weights = torch.tensor([0.2989, 0.587, 0.114], dtype=image.dtype)
    return torch.einsum("...chw,c->...hw", image, weights).unsqueeze(-3)


def transform_cases() -> Iterator[Sample]:
    """Samples of the presets, and of transforms that draw and that do not."""
    image = torch.rand(3, 12, 17, generator=torch.Generator().manual_seed(2))
    preset = ImageClassification(crop_size=8, resize_size=10)
    yield Sample("ImageClassification", preset, (image,), dtypes=("float32",), batched=(0,))
    # It looks for the digit in each picture, so sizes depend on values and no graph holds it.
    yield Sample("HandwrittenDigit", HandwrittenDigit(), (image,), dtypes=("float32",), batched=(0,), compiles=False)
    fixed = {
        "Resize": v2.Resize((8, 9)),
        "CenterCrop": v2.CenterCrop(8),
        "Pad": v2.Pad((1, 2)),
        "Normalize": v2.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]),
        "Grayscale": v2.Grayscale(3),
        "Compose": v2.Compose([v2.Resize((8, 9)), v2.CenterCrop(7), v2.Normalize([0.5] * 3, [0.2] * 3)]),
    }
    for name, transform in fixed.items():
        yield Sample(f"v2.{name}", transform, (image,), batched=(0,), differentiable=(0,))
    drawing = {
        "RandomResizedCrop": v2.RandomResizedCrop(8),
        "RandomAffine": v2.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 5),
        "ColorJitter": v2.ColorJitter(0.2, 0.2, 0.2, 0.1),
        "RandomErasing": v2.RandomErasing(1.0),
        "RandAugment": v2.RandAugment(),
        "AugMix": v2.AugMix(),
        "RandomApply": v2.RandomApply([v2.RandomCrop(8), v2.GaussianBlur(3)], p=1.0),
    }
    for name, transform in drawing.items():
        yield Sample(f"v2.{name}", transform, (image,), dtypes=("float32",), generator=True, compiles=False)


def _picture(height: int, width: int) -> Tensor:
    y, x = torch.meshgrid(torch.linspace(0, 255, height), torch.linspace(0, 255, width), indexing="ij")
    return torch.stack([x, y, (x + y) / 2]).to(torch.uint8)
