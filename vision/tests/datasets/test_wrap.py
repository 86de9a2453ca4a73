"""Datasets wrapped for transforms v2: boxes, masks and videos are typed."""

import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset

from flambeau.vision.datasets import CocoDetection, wrap_dataset_for_transforms_v2
from flambeau.vision.tv_tensors import BoundingBoxes, BoundingBoxFormat, Mask, Video


def targets(dataset):
    return [target for _, target in dataset]


def test_coco_has_boxes_from_corner_to_corner_labels_and_the_id(miniature):
    dataset = wrap_dataset_for_transforms_v2(miniature("cocodetection").dataset)
    image, target = dataset[1]
    assert isinstance(image, Image.Image)
    assert sorted(target) == ["boxes", "image_id", "labels"]
    assert target["image_id"] == 9
    assert isinstance(target["boxes"], BoundingBoxes)
    assert (target["boxes"].format, target["boxes"].canvas_size) == (BoundingBoxFormat.XYXY, (8, 12))
    assert target["boxes"].tolist() == [[2.0, 1.0, 8.0, 5.0]] * 2
    assert target["labels"].tolist() == [18, 1]


def test_a_coco_picture_without_annotations_has_zero_of_everything(miniature):
    dataset = wrap_dataset_for_transforms_v2(miniature("cocodetection").dataset, "all")
    target = dataset[0][1]
    assert target["image_id"] == 5
    assert (target["boxes"].shape, target["boxes"].dtype) == ((0, 4), torch.float32)
    assert (target["labels"].shape, target["labels"].dtype) == ((0,), torch.int64)
    assert (target["masks"].shape, type(target["masks"])) == ((0, 8, 12), Mask)


def test_coco_has_masks_and_its_own_keys_on_demand(miniature):
    coco = miniature("cocodetection").dataset
    target = wrap_dataset_for_transforms_v2(coco, ("masks", "iscrowd"))[-1][1]
    assert sorted(target) == ["iscrowd", "masks"]
    assert target["iscrowd"] == [1]
    assert target["masks"].all()
    with pytest.raises(
        ValueError, match=r"target_keys has \['mask'\], but the target's keys are \['area', 'bbox', 'boxes'"
    ):
        wrap_dataset_for_transforms_v2(coco, ["mask"])[1]


def test_transforms_get_what_is_wrapped_and_the_dataset_stays_as_it_was(miniature):
    seen = []

    def transforms(image, target):
        seen.append(type(target["boxes"]))
        return "image", target

    dataset = miniature("cocodetection").build(transforms=transforms)
    wrapped = wrap_dataset_for_transforms_v2(dataset)
    assert wrapped[1][0] == "image"
    assert seen == [BoundingBoxes]
    assert dataset.transforms is transforms


def test_a_wrapped_dataset_is_one_of_its_kind_with_its_attributes(miniature):
    wrapped = wrap_dataset_for_transforms_v2(miniature("cocodetection").dataset, ["labels"])
    assert isinstance(wrapped, CocoDetection)
    assert (len(wrapped), wrapped.ids) == (3, [5, 9, 25])
    copy = pickle.loads(pickle.dumps(wrapped))
    assert list(copy[1][1]) == ["labels"]
    assert repr(wrapped).startswith("Dataset WrappedCocoDetection\n    Number of datapoints: 3")
    with pytest.raises(AttributeError, match="nothing"):
        wrapped.nothing


def test_voc_has_boxes_and_labels_even_of_nothing(miniature):
    first, _, nothing = targets(wrap_dataset_for_transforms_v2(miniature("vocdetection").dataset))
    assert first["boxes"].tolist() == [[1, 2, 9, 7], [2, 2, 9, 7]]
    assert first["labels"].tolist() == [15, 1]
    assert nothing["boxes"].shape == (0, 4)
    assert "annotation" in wrap_dataset_for_transforms_v2(miniature("vocdetection").dataset, "all")[0][1]


@pytest.mark.parametrize(
    ("name", "options", "shape"),
    [
        ("vocsegmentation", {}, (8, 12)),
        ("sbdataset", {"mode": "segmentation"}, (8, 12)),
        ("sbdataset", {}, (20, 8, 12)),
    ],
)
def test_areas_become_masks(miniature, name, options, shape):
    dataset = miniature(name).build(**options)
    _, mask = wrap_dataset_for_transforms_v2(dataset)[0]
    assert isinstance(mask, Mask)
    assert mask.shape[-len(shape) :] == shape
    assert np.array_equal(mask.numpy().reshape(shape), np.asarray(dataset[0][1]))


def test_pets_wrap_the_trimap_alone(miniature):
    dataset = miniature("oxfordiiitpet").build(target_types=["category", "segmentation"])
    breed, trimap = wrap_dataset_for_transforms_v2(dataset)[1][1]
    assert breed == 1
    assert isinstance(trimap, Mask)


def test_kitti_has_boxes_and_nothing_for_the_test(miniature):
    kitti = miniature("kitti")
    first, second = targets(wrap_dataset_for_transforms_v2(kitti.dataset))
    assert first["boxes"].tolist() == [[7.5, 1.0, 8.25, 3.0]]
    assert (first["labels"].tolist(), second["labels"].tolist()) == ([3], [])
    assert targets(wrap_dataset_for_transforms_v2(kitti.build(split="test"))) == [None, None]
    assert wrap_dataset_for_transforms_v2(kitti.dataset, ["type"])[0][1] == {"type": ["Pedestrian"]}


def test_widerface_boxes_go_from_corner_to_corner(miniature):
    first, none, _ = targets(wrap_dataset_for_transforms_v2(miniature("widerface").dataset))
    assert first["bbox"].tolist() == [[1, 2, 4, 6], [5, 2, 8, 6]]
    assert none["bbox"].shape == (0, 4)


def test_cityscapes_has_a_mask_for_every_instance(miniature):
    cityscapes = miniature("cityscapes")
    dataset = cityscapes.build(target_type=["instance", "semantic"])
    instances, semantic = wrap_dataset_for_transforms_v2(dataset)[0][1]
    numbers = np.asarray(dataset[0][1][0]).astype(np.int64)
    assert instances["masks"].shape == (len(np.unique(numbers)), 8, 12)
    assert torch.equal(instances["masks"].sum(0), torch.ones(8, 12, dtype=torch.int64))
    expected = [number // 1000 if number >= 1000 else number for number in np.unique(numbers).tolist()]
    assert instances["labels"].tolist() == expected
    assert isinstance(semantic, Mask)


def test_celeba_wraps_boxes_alone(miniature):
    dataset = miniature("celeba").build(target_type=["bbox", "identity"])
    box, identity = wrap_dataset_for_transforms_v2(dataset)[1][1]
    assert box.tolist() == [[1, 2, 31, 42]]
    assert identity == 101


def test_videos_are_typed(miniature):
    wrapped = wrap_dataset_for_transforms_v2(miniature("movingmnist").build(transform=lambda video: (video,)))
    (video,) = wrapped[0]
    assert isinstance(video, Video)


@pytest.mark.parametrize("name", ["cifar10", "mnist", "food101", "imagefolder", "country211", "svhn", "cococaptions"])
def test_other_targets_stay_as_they_are(miniature, name):
    dataset = miniature(name).build(target_transform=lambda target: ("target", target))
    image, target = wrap_dataset_for_transforms_v2(dataset)[0]
    assert isinstance(image, Image.Image)
    assert target == dataset[0][1]


@pytest.mark.parametrize("name", ["imagefolder", "celeba", "cityscapes", "vocsegmentation"])
def test_targets_that_are_no_dicts_have_no_keys_to_choose(miniature, name):
    with pytest.raises(ValueError, match="target_keys chooses among the keys of CocoDetection"):
        wrap_dataset_for_transforms_v2(miniature(name).dataset, "all")


def test_a_picture_without_annotations_has_an_empty_list_for_coco_s_own_keys(miniature):
    target = wrap_dataset_for_transforms_v2(miniature("cocodetection").dataset, ["iscrowd", "boxes"])[0][1]
    assert (target["iscrowd"], target["boxes"].shape) == ([], (0, 4))


@pytest.mark.parametrize("keys", ["boxes", 3, ["boxes", 3]])
def test_keys_that_are_none_are_refused(miniature, keys):
    with pytest.raises(ValueError, match=r"target_keys is .*, expected None, 'all' or a collection"):
        wrap_dataset_for_transforms_v2(miniature("cocodetection").dataset, keys)


def test_what_has_no_wrapping_is_refused_with_a_way_out(miniature):
    for dataset in (miniature("flyingchairs").dataset, Dataset()):
        name = type(dataset).__name__
        with pytest.raises(TypeError, match=f"knows no {name}. Make its items in a class of your own"):
            wrap_dataset_for_transforms_v2(dataset)
