"""CIFAR from a miniature of the published archive: fetched over HTTP, verified, unpacked, read."""

import contextlib
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from flambeau.core.datasets import get_dataset, get_dataset_info
from flambeau.core.datasets.registered import stand_in
from flambeau.core.errors import DatasetMissingError, HashMismatchError, HubWarning
from flambeau.core.testing.miniature import miniature_facts, served
from flambeau.vision.conformance import write_cifar
from flambeau.vision.datasets import CIFAR10, CIFAR100
from flambeau.vision.datasets._unpickle import UnsafePickleError, load_arrays

KINDS = pytest.mark.parametrize("kind", [CIFAR10, CIFAR100])


@contextlib.contextmanager
def published(kind: type[CIFAR10], folder: Path):
    """A server with a miniature archive, whose checksums stand for the published ones while the context lasts."""
    originals, archives = folder / "originals", folder / "archives"
    write_cifar(kind, originals)
    facts = miniature_facts(kind.facts(), originals, archives)
    with served(facts, archives) as (on_loopback, log), stand_in(on_loopback):
        yield log, archives / kind.filename


@KINDS
def test_the_facts_are_those_that_are_published(kind):
    info = get_dataset_info(f"vision/{kind.__name__.lower()}")
    (file,) = info.files
    assert (file.url, file.md5) == (kind.url, kind.tgz_md5)
    assert {Path(c.path).name: c.md5 for c in file.contents} == {
        **dict(kind.train_list), **dict(kind.test_list), kind.meta["filename"]: kind.meta["md5"],
    }  # fmt: skip
    assert dict(info.sizes) == {"train": 50_000, "test": 10_000}


@KINDS
def test_it_is_downloaded_once_and_read(tmp_path, kind):
    with published(kind, tmp_path) as (log, _):
        train = kind(tmp_path / "data", train=True, download=True)
        test = kind(tmp_path / "data", train=False, download=True)
        assert len(log) == 1
    assert (len(train), len(test)) == (4 * len(kind.train_list), 4)
    assert train.data.shape[1:] == (32, 32, 3)
    assert train.data.dtype == np.uint8
    assert train.targets == [index % len(train.classes) for index in range(len(train))]
    assert len(train.classes) == (100 if kind is CIFAR100 else 10)
    assert train.class_to_idx["class 3"] == 3


def test_pictures_are_in_rgb_planes_row_by_row(tmp_path):
    with published(CIFAR10, tmp_path):
        dataset = CIFAR10(tmp_path / "originals", train=False)
        raw = load_arrays(tmp_path / "originals" / "cifar-10-batches-py" / "test_batch")["data"][1]
    image, target = dataset[1]
    assert (image.mode, image.size, target) == ("RGB", (32, 32), 1)
    assert image.getpixel((5, 2)) == tuple(raw[channel * 1024 + 2 * 32 + 5] for channel in range(3))


def test_the_registry_knows_splits(tmp_path):
    with published(CIFAR10, tmp_path):
        root = tmp_path / "data"
        assert len(get_dataset("vision/cifar10", split="train", root=root, download=True)) == 20
        assert len(get_dataset("cifar10", split="test", root=root)) == 4
        assert len(get_dataset("cifar10", train=False, root=str(root))) == 4
        with pytest.raises(ValueError, match=r"'val' for argument split. Valid values are \{'train', 'test'\}"):
            get_dataset("cifar10", split="val", root=root)


def test_without_files_the_error_says_what_is_missing_and_both_ways_out(tmp_path):
    with pytest.raises(DatasetMissingError, match=r"cifar-10-python.tar.gz is missing.*download=True") as caught:
        CIFAR10(tmp_path)
    assert isinstance(caught.value, FileNotFoundError | RuntimeError)
    assert "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_batch_is_noticed_and_repaired_from_the_archive(tmp_path):
    with published(CIFAR10, tmp_path):
        root = tmp_path / "data"
        CIFAR10(root, download=True)
        batch = root / "cifar-10-batches-py" / "data_batch_3"
        batch.write_bytes(batch.read_bytes()[:-5])
        with pytest.warns(HubWarning, match=r"data_batch_3: md5 is .*unpacked again"):
            assert len(CIFAR10(root, download=True)) == 20


def test_an_archive_with_another_checksum_is_refused(tmp_path):
    with published(CIFAR10, tmp_path) as (_, archive):
        pass
    facts = CIFAR10.facts()  # the true checksums, the miniature's bytes
    refused = pytest.raises(HashMismatchError, match="expected c58f30108f718f92721af3b95e74349a")
    with served(facts, archive.parent) as (on_loopback, _), stand_in(on_loopback), refused:
        CIFAR10(tmp_path / "data", download=True)
    assert not (tmp_path / "data" / "cifar-10-batches-py").exists()


class Harm:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_hostile_pickle_raises_and_runs_nothing(tmp_path, protocol):
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps({"data": Harm(tmp_path / "harm")}, protocol=protocol))
    with pytest.raises(pickle.UnpicklingError, match=r"asks for .*mkdir; only NumPy arrays"):
        load_arrays(path)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cbuiltins\neval\n(S'1+1'\ntR.",
        b"cnumpy\nsave\n(S'harm'\n(ltR.",
        b"cnumpy.core.multiarray\nscalar\n(tR.",
        b"cflambeau.core\n__getattr__\n(S'x'\ntR.",
    ],
)
def test_nothing_but_the_parts_of_arrays_can_be_named(tmp_path, content):
    (tmp_path / "batch").write_bytes(content)
    with pytest.raises(UnsafePickleError):
        load_arrays(tmp_path / "batch")


def test_text_is_encoded_as_latin1_alone(tmp_path):
    (tmp_path / "batch").write_bytes(b"c_codecs\nencode\n(Vabc\nVzlib\ntR.")
    with pytest.raises(UnsafePickleError, match="'zlib'; arrays need latin1"):
        load_arrays(tmp_path / "batch")


@pytest.mark.parametrize("protocol", [0, 1, 2])
def test_arrays_of_old_pickles_are_read(tmp_path, protocol):
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    (tmp_path / "batch").write_bytes(pickle.dumps({"data": array, "labels": [1, 2]}, protocol=protocol))
    loaded = load_arrays(tmp_path / "batch")
    assert np.array_equal(loaded["data"], array)
    assert loaded["labels"] == [1, 2]


def test_the_miniature_is_packed_as_the_published_archive_is(tmp_path):
    with published(CIFAR10, tmp_path) as (_, archive), tarfile.open(archive) as packed:
        assert sorted(packed.getnames())[:2] == ["cifar-10-batches-py/batches.meta", "cifar-10-batches-py/data_batch_1"]


def test_the_text_names_the_split(tmp_path):
    with published(CIFAR10, tmp_path):
        assert "Split: Test" in repr(CIFAR10(tmp_path / "originals", train=False))
