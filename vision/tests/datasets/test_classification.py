"""Parsers of the fourteen sets of pictures with classes, each over its miniature."""

import json
import pickle

import numpy as np
import pytest

from flambeau.core.errors import DatasetMissingError, GatedError
from flambeau.vision.datasets import _readers


def targets(dataset):
    return [target for _, target in dataset]


def test_clevr_counts_objects_and_leaves_the_test_without_a_number(miniature):
    assert targets(miniature("clevrclassification").build(split="val")) == [3, 4]
    assert targets(miniature("clevrclassification").build(split="test")) == [None, None]


def test_clevr_goes_by_file_names_and_not_by_the_order_of_the_scenes(miniature):
    clevr = miniature("clevrclassification")
    _ = clevr.dataset
    path = clevr.placed / "clevr/CLEVR_v1.0/scenes/CLEVR_train_scenes.json"
    scenes = json.loads(path.read_text())
    path.write_text(json.dumps({"scenes": scenes["scenes"][::-1]}))
    assert targets(clevr.build()) == [3, 4]


def test_gtsrb_reads_classes_from_folders_and_from_the_table(miniature):
    assert targets(miniature("gtsrb").build(split="train")) == [0, 1, 2]  # of the folders that are there
    assert targets(miniature("gtsrb").build(split="test")) == [16, 1]


def test_fer2013_has_no_labels_in_the_table_of_the_test(miniature):
    assert targets(miniature("fer2013").build(split="train")) == [0, 6]
    assert targets(miniature("fer2013").build(split="test")) == [None, None]
    face, _ = miniature("fer2013").build(split="test")[0]
    assert (face.mode, face.size) == ("L", (48, 48))


@pytest.mark.parametrize(("table", "blank"), [("fer2013", ""), ("icml_face_data", " ")])
def test_fer2013_prefers_the_tables_that_hold_everything(miniature, table, blank):
    fer = miniature("fer2013")
    _ = fer.config
    pixels = " ".join(["7"] * 48 * 48)
    rows = "".join(f"{label},{use},{pixels}\n" for label, use in enumerate(["Training", "PublicTest", "PrivateTest"]))
    path = fer.placed / "fer2013" / f"{table}.csv"
    path.write_text(f"emotion,{blank}Usage,{blank}pixels\n{rows}")
    assert targets(fer.build(split="train")) == [0]
    assert targets(fer.build(split="test")) == [1, 2]


def test_fer2013_says_where_the_tables_are_obtained(tmp_path, miniature):
    with pytest.raises(DatasetMissingError, match=r"(?s)train.csv is missing.*kaggle.com"):
        miniature("fer2013").target(tmp_path)


def test_sun397_has_classes_of_several_parts_and_sorts_its_files(miniature):
    dataset = miniature("sun397").dataset
    assert dataset.classes == ["abbey", "apse/indoor", "zoo"]
    assert targets(dataset) == [0, 0, 1]
    assert [path.rpartition("/")[2] for path, _ in dataset.samples] == ["sun_a.jpg", "sun_b.jpg", "sun_c.jpg"]


@pytest.mark.parametrize(("split", "expected"), [("train", [76, 0]), ("val", [76, 0]), ("test", [101, 101])])
def test_flowers102_counts_from_zero(miniature, split, expected):
    dataset = miniature("flowers102").build(split=split)
    assert targets(dataset) == expected
    assert len(dataset.classes) == 102
    assert dataset.classes[76] == "passion flower"


def test_aircraft_are_labelled_on_three_levels(miniature):
    aircraft = miniature("fgvcaircraft")
    assert targets(aircraft.build()) == [1, 0]
    assert aircraft.build(annotation_level="manufacturer").classes == ["Boeing", "Airbus"]
    assert aircraft.build(annotation_level="family").class_to_idx == {"Boeing 707": 0, "Boeing 717": 1}
    with pytest.raises(ValueError, match="'model' for argument annotation_level"):
        aircraft.build(annotation_level="model")


def test_pets_have_three_kinds_of_targets(miniature):
    pets = miniature("oxfordiiitpet")
    dataset = pets.build(target_types=["category", "binary-category", "segmentation"])
    image, (breed, species, trimap) = dataset[1]
    assert (breed, species) == (1, 1)
    assert trimap.mode == "L"
    assert trimap.size == image.size
    assert dataset.classes == ["Abyssinian", "American Bulldog"]
    assert pets.build(target_types=[])[0][1] is None
    assert pets.build(transforms=lambda image, target: (target, image))[0][0] == 0


@pytest.mark.parametrize("partition", [0, 11, "1"])
def test_dtd_refuses_partitions_there_are_not(miniature, partition):
    with pytest.raises((ValueError, TypeError), match=r"partition is .*, expected an integer from 1 to 10"):
        miniature("dtd").build(partition=partition)


def test_dtd_reads_the_partition_it_is_told(miniature):
    dataset = miniature("dtd").build(partition=10, split="val")
    assert (targets(dataset), dataset.classes) == ([0, 1], ["banded", "zigzagged"])


def test_food101_sorts_its_classes(miniature):
    dataset = miniature("food101").build(split="test")
    assert dataset.classes == ["apple_pie", "waffles"]
    assert targets(dataset) == [1, 0]


def test_rendered_sst2_calls_its_validation_split_val(miniature):
    dataset = miniature("renderedsst2").build(split="val")
    assert targets(dataset) == [0, 1]
    with pytest.raises(ValueError, match="'valid' for argument split"):
        miniature("renderedsst2").build(split="valid")


@pytest.mark.parametrize("split", ["train", "test"])
def test_stanford_cars_count_from_zero(miniature, split):
    dataset = miniature("stanfordcars").build(split=split)
    assert targets(dataset) == [0, 1]
    assert dataset.classes[1] == "Acura RL Sedan 2012"


def test_stanford_cars_cannot_be_downloaded_and_say_so(tmp_path, miniature):
    with pytest.raises(GatedError, match=r"cars_train.*cannot be fetched by program.*Kaggle"):
        miniature("stanfordcars").target(tmp_path, download=True)


def test_pcam_opens_its_file_anew_in_a_copy(miniature):
    dataset = miniature("pcam").build(split="val")
    first, target = dataset[0]
    copy = pickle.loads(pickle.dumps(dataset))
    assert np.array_equal(np.asarray(copy[0][0]), np.asarray(first))
    assert (target, targets(copy)) == (1, [1, 0, 1])


def test_a_reader_that_is_not_installed_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(_readers.MissingReaderError, match=r"PCAM needs h5py .*flambeau-vision\[datasets\]"):
        _readers.reader("h5py", "PCAM")
    assert issubclass(_readers.MissingReaderError, ImportError)


def test_country211_and_eurosat_are_folders_with_their_own_root(miniature):
    country = miniature("country211")
    assert country.build(split="valid").classes == ["AD", "ZW"]
    assert country.dataset.root == str(country.placed)
    assert miniature("eurosat").dataset[1][1] == 1
