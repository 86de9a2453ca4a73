# ruff: noqa: E501  # a line of a table is a program
"""Datasets beside torchvision's: the same trees of files, every class, every form of arguments."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from miniature_trees import MARK, arguments, believed, empty_folder, listed
from pictures import NAMES, describe
from PIL import Image

from flambeau.core.testing.differential import Cell, Library, Recorder, Suite, program

pytest.importorskip("torchvision.datasets")
_TREE = re.compile(rf"/[^'\"\s]*{MARK}\w+")


def describe_places(value: Any, recorder: Recorder, where: str) -> Any:
    """Each library reads a copy of the tree; a path in it is where it lies below the root."""
    if isinstance(value, str | Path) and MARK in str(value):
        text = _TREE.sub("<root>", str(value))
        return text if isinstance(value, str) else {"path": text}
    return NotImplemented


SUITE = Suite(
    "datasets",
    ours="flambeau.vision",
    peer="torchvision",
    differences=Path(__file__).with_name("differences.toml"),
    describers=[describe_places, describe],
)

# Each class with the forms of its further arguments; the first is what further programs are run with.
FORMS: dict[str, list[str]] = {
    "CIFAR10": ["", "train=False", "train=True, download=False"],
    "CIFAR100": ["", "train=False"],
    "CLEVRClassification": ["", "split='val'", "split='test'", "split='none'", "loader=len"],
    "CREStereo": [""],
    "Caltech101": ["", "target_type='annotation'", "target_type=['category', 'annotation']", "target_type='none'"],
    "Caltech256": [""],
    "CarlaStereo": [""],
    "CelebA": ["", "split='valid'", "split='test'", "split='all'", "target_type=['attr', 'identity', 'bbox', 'landmarks']",
               "target_type=[]", "target_type='bbox'", "target_type='none'", "split='none'"],
    "Cityscapes": ["", "split='train', mode='fine', target_type='semantic'", "target_type=['instance', 'color', 'polygon']",
                   "split='train_extra', mode='coarse', target_type='polygon'", "split='train_extra'", "mode='none'",
                   "split='none'", "target_type='none'", "target_type=['semantic', 'semantic']"],
    "CocoCaptions": [""],
    "CocoDetection": [""],
    "Country211": ["", "split='valid'", "split='test'", "split='val'"],
    "DTD": ["", "split='val'", "split='test', partition=10", "partition=2", "partition=11", "partition='1'", "split='none'"],
    "ETH3DStereo": ["", "split='test'", "split='val'"],
    "EuroSAT": [""],
    "FER2013": ["", "split='test'", "split='none'"],
    "FGVCAircraft": ["", "split='train', annotation_level='family'", "annotation_level='manufacturer'", "split='test'",
                     "annotation_level='none'", "split='none'"],
    "FallingThingsStereo": ["", "variant='mixed'", "variant='both'", "variant='none'"],
    "FashionMNIST": ["", "train=False"],
    "Flickr30k": [""],
    "Flickr8k": [""],
    "Flowers102": ["", "split='val'", "split='test'", "split='none'"],
    "FlyingChairs": ["", "split='val'", "split='test'"],
    "FlyingThings3D": ["", "split='test'", "pass_name='final', camera='right'", "pass_name='both', camera='both'",
                       "pass_name='none'", "camera='none'", "split='val'"],
    "Food101": ["", "split='test'", "split='val'"],
    "GTSRB": ["", "split='test'", "split='val'"],
    "HD1K": ["", "split='test'", "split='val'"],
    "HMDB51": ["", "fold=2", "train=False", "fold=4", "output_format='TCHW'", "output_format='none'", "frame_rate=5"],
    "INaturalist": ["", "target_type='kingdom'", "target_type=['full', 'genus', 'class']", "target_type='super'",
                    "target_type=[]", "version='2021_valid'", "version='none'"],
    "ImageFolder": ["", "is_valid_file=lambda path: path.endswith('0.png')", "allow_empty=True", "loader=len",
                    "is_valid_file=lambda path: False", "is_valid_file=lambda path: False, allow_empty=True"],
    "ImageNet": ["", "split='val'", "split='test'"],
    "Imagenette": ["", "split='val'", "size='160px'", "size='320px'", "size='none'", "split='test'"],
    "InStereo2k": ["", "split='test'", "split='val'"],
    "KMNIST": ["", "train=False"],
    "Kinetics": ["", "output_format='THWC'", "split='val'", "num_classes='500'", "split='none'", "frame_rate=5",
                 "extensions=('avi',)", "frames_per_clip=2"],
    "Kitti": ["", "train=False"],
    "Kitti2012Stereo": ["", "split='test'", "split='val'"],
    "Kitti2015Stereo": ["", "split='test'", "split='val'"],
    "KittiFlow": ["", "split='test'", "split='val'"],
    "LFWPairs": ["", "split='train'", "split='test'", "image_set='original'", "image_set='none'", "split='none'"],
    "LFWPeople": ["", "split='train'", "split='test'", "image_set='original'", "image_set='none'", "split='none'"],
    "LSUN": ["", "classes=['tower_val']", "classes='val'", "classes=['none_train']", "classes=['tower_none']", "classes=3",
             "classes='none'"],
    "LSUNClass": [""],
    "MNIST": ["", "train=False"],
    "Middlebury2014Stereo": ["", "split='test', calibration=None", "calibration='imperfect'", "calibration='both'",
                             "use_ambient_views=True", "calibration=None", "calibration='none'", "split='val'", "split='test'"],
    "MovingMNIST": ["", "split='train'", "split='test'", "split='train', split_ratio=15", "split='none'",
                    "split_ratio=0", "split='train', split_ratio=20", "split_ratio='1'"],
    "Omniglot": ["", "background=False"],
    "OxfordIIITPet": ["", "split='test'", "target_types='segmentation'", "target_types=['category', 'segmentation']",
                      "target_types='binary-category'", "target_types=[]", "target_types='none'", "split='val'"],
    "PCAM": ["", "split='val'", "split='test'", "split='none'"],
    "PhotoTour": ["", "train=False", "name='none'"],
    "Places365": ["", "split='val'", "split='train-challenge'", "split='test'", "split='none'", "split='val', small=False",
                  "small=False"],
    "QMNIST": ["", "train=False", "what='test'", "what='test10k'", "what='test50k'", "what='nist'", "compat=False",
               "what='none'", "what='train', compat=False"],
    "RenderedSST2": ["", "split='val'", "split='test'", "split='valid'"],
    "SBDataset": ["", "mode='segmentation'", "image_set='val'", "image_set='train_noval', mode='segmentation'",
                  "image_set='none'", "mode='none'"],
    "SBU": [""],
    "SEMEION": [""],
    "STL10": ["", "split='test'", "split='unlabeled'", "split='train+unlabeled'", "folds=0", "folds=9", "folds=10",
              "folds='1'", "split='none'"],
    "SUN397": ["", "loader=len"],
    "SVHN": ["", "split='test'", "split='extra'", "split='none'"],
    "SceneFlowStereo": ["", "variant='Driving'", "variant='Monkaa', pass_name='final'", "pass_name='both'", "variant='none'",
                        "pass_name='none'"],
    "Sintel": ["", "split='test'", "pass_name='final'", "pass_name='both'", "pass_name='none'", "split='val'"],
    "SintelStereo": ["", "pass_name='clean'", "pass_name='both'", "pass_name='none'"],
    "StanfordCars": ["", "split='test'", "split='val'"],
    "UCF101": ["", "fold=2", "train=False", "fold=4", "output_format='TCHW'", "output_format='none'", "frame_rate=5"],
    "USPS": ["", "train=False"],
    "VOCDetection": ["", "image_set='val'", "image_set='trainval'", "year='2007', image_set='test'", "image_set='test'",
                     "year='2013'", "year='2007'", "image_set='none'"],
    "VOCSegmentation": ["", "image_set='val'", "year='2007', image_set='test'", "image_set='test'"],
    "WIDERFace": ["", "split='val'", "split='test'", "split='none'"],
    "EMNIST": ["", "train=False", "split='none'", "split='digits'"],
}  # fmt: skip
# Datasets that take `transforms` beside the other two, or alone, or take none of them.
BOTH = {"CocoCaptions", "CocoDetection", "Cityscapes", "Kitti", "OxfordIIITPet", "VOCDetection", "VOCSegmentation"}
ALONE = {name for name in FORMS if name.endswith("Stereo") or name == "CREStereo"} | {
    "FlyingChairs", "FlyingThings3D", "HD1K", "KittiFlow", "SBDataset", "Sintel",
}  # fmt: skip
IMAGE_ONLY = {"HMDB51", "Kinetics", "MovingMNIST", "PhotoTour", "UCF101"}
# What torchvision documents of its datasets, and what their users reach for.
ATTRIBUTES = (
    "annotations", "attr", "attr_names", "background", "bbox", "captions", "cat_to_idx", "categories_index", "category_to_idx", "class_to_idx", "classes",
    "data", "db_paths", "dbs", "file_to_class", "fold", "frames_per_clip", "identity", "ids",
    "image_set", "images", "imgs", "indices", "labels", "landmarks_align", "length", "lens", "load_path", "matches", "means",
    "meta", "mode", "n_points", "n_way", "name", "nist", "num_classes", "photos", "plist", "raw_folder", "processed_folder",
    "samples", "size", "split", "stds", "step_between_clips", "target_type", "target_types", "targets", "test_labels",
    "train", "train_labels", "transform", "variant", "version", "what", "wnid_to_idx", "wnids", "y", "masks",
    "target_transform", "transforms", "train_file", "compat", "split_ratio", "video_list", "bytes", "has_extras", "img_info",
    "index", "batch", "images_dir", "targets_dir",
    # What differs on purpose comes last, since of an object the first difference is told.
    "file_list", "coco", "url", "filename", "folds_list_file", "root",
)  # fmt: skip
WRAPPED: dict[str, list[str]] = {
    "CocoDetection": ["'all'", "['boxes']", "('masks', 'labels', 'iscrowd')", "['none']", "'boxes'", "3", "[]"],
    "VOCDetection": ["'all'", "['annotation']", "{'boxes'}", "['none']"],
    "Kitti": ["'all'", "['type', 'alpha', 'boxes']", "['none']"],
    "WIDERFace": ["'all'", "['blur']", "['none']"],
    "Cityscapes": ["'all'", "['masks']", "['none']"],
    "ImageFolder": ["'all'", "['boxes']", "None"],
    "CelebA": ["'all'", "['boxes']"],
    "VOCSegmentation": ["'all'", "['boxes']"],
    "OxfordIIITPet": ["'all'", "['boxes']"],
    "SBDataset": ["'all'", "['boxes']"],
}


def items(dataset: Any) -> list[Any]:
    """Its length and first items."""
    return [len(dataset), *(dataset[index] for index in range(min(len(dataset), 12)))]


def in_order(value: Any) -> Any:
    """Items of dictionaries sorted by key: torchvision's wrapper takes the order of a set."""
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return type(value)(map(in_order, value)) if type(value) in (list, tuple) else value


def attributes(dataset: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Those of the attributes that the peer's dataset has; ours may have more."""
    found = {key: getattr(dataset, key, "<none>") for key in _attributes_of_peer(name, repr(options))}
    return {
        key: {_TREE.sub("<root>", str(one)): item for one, item in sorted(value.items(), key=str)}
        if isinstance(value, dict) else value
        for key, value in found.items()
    }  # fmt: skip


@functools.cache
def _attributes_of_peer(name: str, options: str) -> list[str]:
    import torchvision

    kind = getattr(torchvision.datasets, name)
    peer = Library("torchvision", ours=False)
    with believed(peer, name), listed(sorted):
        built = kind(**(arguments(name, ours=False) | eval(options)))
    return [key for key in ATTRIBUTES if hasattr(built, key)]


def seen(*values: Any) -> Any:
    """A transform that shows what it was given."""
    return ("transformed", *(_kind(value) for value in values), *values)


def _kind(value: Any) -> str:
    return "picture" if isinstance(value, Image.Image) else type(value).__name__


def pair(image: Any, target: Any) -> Any:
    """A transform of both."""
    return (("image", image), ("target", target))


LENT = NAMES | {"items": items, "in_order": in_order, "seen": seen, "pair": pair, "empty": empty_folder}


@dataclass(frozen=True)
class Read:
    """A program on a dataset's miniature, in which `D` builds it with the miniature's arguments and more.

    Args:
        name: of the class.
        text: the program.
        order: of a folder's names, where the file system has its own.
    """

    name: str
    text: str
    order: Any = sorted

    def __call__(self, library: Library, given: dict[str, Any]) -> Any:
        config = arguments(self.name, ours=library.ours)
        if self.name == "LSUNClass":  # upstream takes no path
            config = {"root": str(config["root"])}
        kind = getattr(library.datasets, self.name)

        def build(*values: Any, **more: Any) -> Any:
            return kind(*values, **(config | more))

        def shown(**options: Any) -> dict[str, Any]:
            return attributes(build(**options), self.name, options)

        lent = LENT | {"D": build, "kind": kind, "config": config, "attributes": shown}
        with believed(library, self.name), listed(self.order):
            # Pictures are read late, and so while they are described; by then other names would have come.
            return program(self.text, lent)(library, given)


def cell(area: str, name: str, text: str, order: Any = sorted) -> Cell:
    return Cell(f"{area}/{name}/{text}", area, Read(name, text, order), effects=False, printed=False)


def _programs(name: str, forms: list[str]) -> list[Cell]:
    cells = []
    for form in forms:
        cells += [cell("items", name, f"items(D({form}))"), cell("repr", name, f"repr(D({form}))")]
        cells += [cell("attributes", name, f"attributes({form})")] if "lambda" not in form and "len" not in form else []
    cells += [
        cell("indices", name, "D()[-1]"),
        cell("indices", name, "D()[1000]"),
        cell("indices", name, "list(zip(range(3), D()))"),
        cell("indices", name, "torch.utils.data.Subset(D(), [0])[0]"),
        cell("missing", name, "D(root=empty())"),
        cell("missing", name, "D(root=empty() / 'none')"),
        cell("missing", name, "D(root=str(empty()))"),
        cell("arguments", name, "kind()"),
        cell("arguments", name, "D(unknown=1)"),
        cell("arguments", name, "items(D(root=str(config['root'])))"),
        cell("repr", name, "repr(D(root=str(config['root'])))"),
        cell("arguments", name, "isinstance(D(), torch.utils.data.Dataset), isinstance(D(), datasets.VisionDataset)"),
        cell("arguments", name, "len(__import__('pickle').loads(__import__('pickle').dumps(D())))"),
    ]
    options = ["transforms=pair"] if name in ALONE else ["transform=seen"]
    if name not in ALONE | IMAGE_ONLY:
        options += ["target_transform=seen", "transform=seen, target_transform=seen"]
    if name in BOTH:
        options += ["transforms=pair", "transforms=pair, transform=seen", "transforms=pair, target_transform=seen"]
    for option in options:
        cells += [cell("transforms", name, f"items(D({option}))"), cell("transforms", name, f"repr(D({option}))")]
    wrap = "datasets.wrap_dataset_for_transforms_v2"
    cells += [
        cell("wrapped", name, f"in_order(items({wrap}(D())))"),
        cell("wrapped", name, f"isinstance({wrap}(D()), kind)"),
        *(cell("wrapped", name, f"in_order(items({wrap}(D(), target_keys={keys})))") for keys in WRAPPED.get(name, ())),
        *(
            cell("wrapped", name, f"in_order(items({wrap}(D({form}))))")
            for form in forms[1:]
            if "type" in form or "mode" in form
        ),
    ]
    if name not in ALONE | IMAGE_ONLY:
        cells.append(cell("wrapped", name, f"in_order(items({wrap}(D(transform=seen, target_transform=seen))))"))
    return cells


def backwards(names: list[str]) -> list[str]:
    """The order of a file system that has its own."""
    return sorted(names, reverse=True)


for name, forms in FORMS.items():
    SUITE.add(*_programs(name, forms))


SUITE.add(
    *(cell("order", name, "items(D())", backwards) for name in FORMS if name not in ("HMDB51", "Kinetics", "UCF101"))
)


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
