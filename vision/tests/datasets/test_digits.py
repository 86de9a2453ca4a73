"""Parsers of sets of small pictures: IDX files, MATLAB tables, text."""

import numpy as np
import pytest
import torch

from flambeau.core.datasets import get_dataset_info
from flambeau.core.datasets.registered import stand_in
from flambeau.core.errors import DatasetMissingError
from flambeau.vision._miniatures.digits import idx
from flambeau.vision.datasets import EMNIST, MNIST, QMNIST
from flambeau.vision.datasets._idx import IdxError, read_idx


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 4), (0, 28, 28)])
def test_an_idx_file_is_read_back(tmp_path, dtype, shape):
    array = np.arange(np.prod(shape)).reshape(shape) * 1001 % 251
    (tmp_path / "array").write_bytes(idx(array.astype(dtype)))
    read = read_idx(tmp_path / "array")
    assert np.array_equal(read.numpy(), array)
    assert read.numpy().dtype == dtype


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "starts with nothing"),
        (b"\x1f\x8b\x08\0more", "starts with 1f8b0800"),
        (b"\0\0\x08\x03\0\0", "6 bytes"),
        (idx(np.zeros((2, 2), np.uint8))[:-1], r"header announces shape \[2, 2\]"),
        (idx(np.zeros((2, 2), np.uint8)) + b"\0", r"header announces shape \[2, 2\]"),
        (b"\0\0\x08\x01\xff\xff\xff\xff", r"shape \[-1\]"),
        (b"\0\0\x08\x02\x7f\xff\xff\xff\x7f\xff\xff\xff", "shape"),
    ],
)
def test_a_file_that_is_no_whole_idx_file_is_refused(tmp_path, content, message):
    (tmp_path / "array").write_bytes(content)
    with pytest.raises(IdxError, match=message):
        read_idx(tmp_path / "array")


@pytest.mark.parametrize("name", ["mnist", "fashionmnist", "kmnist"])
def test_the_mnist_family_gives_grey_digits_by_split(miniature, name):
    dataset = miniature(name).build(split="test")
    assert dataset.data.shape == (3, 28, 28)
    assert dataset.targets.tolist() == [7, 0, 9]
    assert dataset.targets.dtype == torch.int64
    image, target = dataset[0]
    assert (image.mode, target) == ("L", 7)
    assert image.getpixel((5, 2)) == dataset.data[0, 2, 5]
    assert len(dataset.class_to_idx) == 10
    assert dataset.train is False


def test_mnist_reads_the_two_tensors_of_old_releases(tmp_path):
    folder = tmp_path / "MNIST" / "processed"
    folder.mkdir(parents=True)
    torch.save((torch.zeros(2, 28, 28, dtype=torch.uint8), torch.tensor([4, 5])), folder / "test.pt")
    assert [target for _, target in MNIST(tmp_path, train=False)] == [4, 5]


def test_mnist_has_both_mirrors():
    (file, *_) = get_dataset_info("vision/mnist").files
    assert [url.rpartition("/")[0] for url in file.urls] == [mirror.rstrip("/") for mirror in MNIST.mirrors]


def test_emnist_unpacks_its_own_files_alone(miniature):
    emnist = miniature("emnist")
    with stand_in(emnist.facts):
        dataset = EMNIST(emnist.placed, "letters", train=False)
    assert [target for _, target in dataset] == [1, 26, 2]
    assert (dataset.classes[1], len(dataset.classes)) == ("a", 27)
    raw = emnist.placed / "EMNIST" / "raw"
    assert sorted(path.name for path in raw.glob("emnist-*")) == [
        "emnist-letters-test-images-idx3-ubyte", "emnist-letters-test-labels-idx1-ubyte",
    ]  # fmt: skip
    assert "letters" in repr(dataset)


def test_emnist_refuses_a_cut_there_is_not(tmp_path):
    with pytest.raises(ValueError, match=r"'letter' for argument split.*Did you mean 'letters'"):
        EMNIST(tmp_path, "letter")


def test_qmnist_gives_classes_or_rows(miniature):
    qmnist = miniature("qmnist")
    assert [target for _, target in qmnist.build(what="nist")] == [7, 0, 9]
    rows = qmnist.build(train=False, compat=False)
    assert rows[1][1].tolist() == [0, 4, 1, 3, 48, 101, 0, 0]
    assert rows.what == "test"
    assert (len(qmnist.build(what="test10k")), len(qmnist.build(what="test50k"))) == (3, 0)
    with pytest.raises(ValueError, match="'valid' for argument what"):
        QMNIST(qmnist.placed, what="valid")


def test_svhn_calls_ten_zero_and_reads_pixels_in_place(miniature):
    dataset = miniature("svhn").build(split="extra")
    assert dataset.labels.tolist() == [1, 0, 9]
    image, _ = dataset[2]
    assert image.getpixel((5, 2)) == tuple(int(value) for value in dataset.data[2, :, 2, 5])
    assert dataset.data.shape == (3, 3, 32, 32)


def test_stl10_goes_down_columns_first(miniature):
    stl10 = miniature("stl10")
    dataset = stl10.build(split="test")
    raw = np.frombuffer((stl10.placed / "stl10_binary" / "test_X.bin").read_bytes(), np.uint8).reshape(2, 3, 96, 96)
    assert dataset[1][0].getpixel((5, 2)) == tuple(int(value) for value in raw[1, :, 5, 2])
    assert dataset.labels.tolist() == [0, 1]


def test_stl10_has_folds_and_pictures_without_labels(miniature):
    stl10 = miniature("stl10")
    assert stl10.build(split="train", folds=9).labels.tolist() == [9, 0]
    assert stl10.build(split="train+unlabeled", folds=3).labels.tolist() == [3, 4, -1, -1]
    assert "Fold: 3" in repr(stl10.build(folds=3))
    with pytest.raises(ValueError, match="folds is 10, expected None or an integer from 0 to 9"):
        stl10.build(folds=10)


def test_usps_maps_its_range_to_bytes_and_fills_what_is_left_out(miniature):
    dataset = miniature("usps").build(split="test")
    assert dataset.targets == [9, 0]
    assert (dataset.data[0, 0, 0], dataset.data[0, 15, 15]) == (0, 255)
    assert (dataset.data[1, 0, 0], dataset.data[1, 7, 7], dataset.data[1, 15, 15]) == (0, 127, 255)


def test_semeion_is_black_and_white(miniature):
    dataset = miniature("semeion").dataset
    assert dataset.labels.tolist() == [3, 0]
    assert set(np.unique(dataset.data)) == {0, 255}


def test_omniglot_numbers_characters_over_alphabets(miniature):
    omniglot = miniature("omniglot")
    assert [target for _, target in omniglot.build(background=False)] == [0, 0, 1, 1, 2, 2]
    assert omniglot.build(split="evaluation").background is False
    assert omniglot.dataset[0][0].mode == "L"
    with pytest.raises(ValueError, match=r"'test' for argument split. Valid values are \{'background', 'evaluation'\}"):
        omniglot.build(split="test")


def test_a_missing_file_is_named_with_its_place(tmp_path):
    with pytest.raises(DatasetMissingError, match=r"MNIST/raw/t10k-images-idx3-ubyte.gz is missing"):
        MNIST(tmp_path, train=False)
