"""Folders of files as datasets."""

import os
from pathlib import Path

import pytest
import torch

import flambeau.vision
from flambeau.vision.datasets import DatasetFolder, ImageFolder
from flambeau.vision.datasets.folder import (
    IMG_EXTENSIONS,
    default_loader,
    find_classes,
    has_file_allowed_extension,
    is_image_file,
    make_dataset,
)
from flambeau.vision.io import write_png


@pytest.fixture
def root(tmp_path):
    """Three classes; files are made in an order that is not the sorted one."""
    for name in ["dog/b.png", "dog/a.PNG", "dog/more/c.jpeg", "cat/z.png", "cat/notes.txt", "ape/x.webp"]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_png(torch.full((3, 4, 5), len(name), dtype=torch.uint8), path)
    (tmp_path / "stray.png").write_bytes(b"")
    return tmp_path


def relative(samples, root):
    return [(Path(path).relative_to(root).as_posix(), target) for path, target in samples]


def test_classes_are_the_sorted_folders(root):
    assert find_classes(root) == (["ape", "cat", "dog"], {"ape": 0, "cat": 1, "dog": 2})


def test_a_folder_without_classes_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="has no folders in it"):
        find_classes(tmp_path)


def test_files_come_sorted_by_class_and_then_by_folder_and_name(root):
    dataset = ImageFolder(root)
    assert relative(dataset.samples, root) == [
        ("ape/x.webp", 0), ("cat/z.png", 1), ("dog/a.PNG", 2), ("dog/b.png", 2), ("dog/more/c.jpeg", 2),
    ]  # fmt: skip
    assert dataset.targets == [0, 1, 2, 2, 2]
    assert dataset.imgs is dataset.samples
    assert dataset.classes == ["ape", "cat", "dog"]


def test_items_are_rgb_pictures_and_class_indices(root):
    image, target = ImageFolder(str(root))[1]
    assert (image.mode, image.size, target) == ("RGB", (5, 4), 1)
    assert image.getpixel((0, 0)) == (9, 9, 9)


def test_transforms_are_applied_to_each_part(root):
    dataset = ImageFolder(root, transform=lambda image: image.size, target_transform=lambda target: -target)
    assert dataset[4] == ((5, 4), -2)
    assert len(dataset) == 5


def test_linked_folders_are_followed(root):
    (root / "outside").mkdir()
    os.rename(root / "dog" / "more", root / "outside" / "more")
    os.symlink(root / "outside" / "more", root / "dog" / "linked")
    assert ("dog/linked/c.jpeg", 2) in relative(make_dataset(root, {"dog": 2}, IMG_EXTENSIONS), root)


def test_a_class_without_a_file_is_an_error_unless_it_is_allowed(root):
    (root / "bee").mkdir()
    with pytest.raises(FileNotFoundError, match=r"ends in .jpg.* was found for the classes bee in "):
        ImageFolder(root)
    dataset = ImageFolder(root, allow_empty=True)
    assert dataset.classes == ["ape", "bee", "cat", "dog"]
    assert 1 not in dataset.targets


def test_the_caller_may_say_which_files_are_valid(root):
    dataset = ImageFolder(root, is_valid_file=lambda path: path.endswith(".png") or "ape" in path)
    assert [path.rsplit("/", 1)[1] for path, _ in dataset.samples] == ["x.webp", "z.png", "b.png"]


@pytest.mark.parametrize("options", [{}, {"extensions": ".png", "is_valid_file": bool}])
def test_extensions_and_a_function_exclude_each_other(root, options):
    with pytest.raises(ValueError, match="by extensions or by is_valid_file"):
        make_dataset(root, **options)


def test_an_empty_table_of_classes_is_refused(root):
    with pytest.raises(ValueError, match="class_to_idx is empty"):
        make_dataset(root, {}, IMG_EXTENSIONS)
    with pytest.raises(ValueError, match="class_to_idx is None"):
        DatasetFolder.make_dataset(root, None, IMG_EXTENSIONS)


def test_other_files_need_a_loader_and_extensions(root):
    dataset = DatasetFolder(root, loader=lambda path: Path(path).name, extensions=(".txt", ".webp"), allow_empty=True)
    assert [dataset[i] for i in range(len(dataset))] == [("x.webp", 0), ("notes.txt", 1)]


def test_subclasses_choose_their_classes(root):
    class Pets(ImageFolder):
        def find_classes(self, directory):
            return ["cat", "dog"], {"cat": 0, "dog": 1}

    assert Pets(root).targets == [0, 1, 1, 1]


@pytest.mark.parametrize(("name", "expected"), [("a.JPG", True), ("a.webp", True), ("a.gif", False), ("png", False)])
def test_picture_files_are_told_by_their_extension(name, expected):
    assert is_image_file(name) is expected
    assert has_file_allowed_extension(name, (".jpg", ".webp")) is expected


def test_the_loader_follows_the_image_backend(root, monkeypatch):
    flambeau.vision.set_image_backend("accimage")
    try:
        with pytest.raises(ImportError, match="accimage"):
            default_loader(root / "cat" / "z.png")
    finally:
        flambeau.vision.set_image_backend("PIL")
    assert default_loader(root / "cat" / "z.png").mode == "RGB"


def test_the_text_of_a_dataset_says_what_and_where(root):
    assert repr(ImageFolder(root, transform=len)).splitlines() == [
        "Dataset ImageFolder",
        "    Number of datapoints: 5",
        f"    Root location: {root}",
        "    StandardTransform",
        "Transform: <built-in function len>",  # as upstream has it
    ]
