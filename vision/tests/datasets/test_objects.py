"""Parsers of sets of objects, faces, species and scenes, each over its miniature."""

import pickle

import numpy as np
import pytest
import torch

from flambeau.core.errors import DatasetMissingError, GatedError
from flambeau.vision._miniatures.files import picture
from flambeau.vision.datasets import INaturalist, LFWPeople, LSUNClass, Places365


def targets(dataset):
    return [target for _, target in dataset]


def test_caltech101_gives_classes_and_outlines(miniature):
    caltech = miniature("caltech101")
    assert caltech.dataset.categories == ["Motorbikes", "anchor"]
    image, (label, outline) = caltech.build(target_type=["category", "annotation"])[1]
    assert (image.mode, label) == ("RGB", 1)
    assert np.array_equal(outline, np.arange(6.0).reshape(2, 3))
    assert caltech.build(target_type="annotation")[0][1].shape == (2, 3)  # its folder has another name


def test_caltech256_keeps_modes_and_leaves_other_files_out(miniature):
    dataset = miniature("caltech256").dataset
    assert targets(dataset) == [0, 0, 1]
    assert [image.mode for image, _ in dataset] == ["L", "RGB", "RGB"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("identity", [102, 103]),
        ("bbox", [[2, 2, 30, 40], [3, 2, 30, 40]]),
        ("landmarks", [list(range(2, 12)), list(range(3, 13))]),
        ("attr", [[column % 2 for column in range(40)], [(column + 1) % 2 for column in range(40)]]),
    ],
)
def test_celeba_has_four_kinds_of_targets(miniature, kind, expected):
    dataset = miniature("celeba").build(split="valid", target_type=kind)
    assert [target.tolist() for target in targets(dataset)] == expected
    assert all(target.dtype == torch.int64 for target in targets(dataset))


def test_celeba_makes_a_tuple_of_several_targets_and_none_of_none(miniature):
    celeba = miniature("celeba")
    assert len(celeba.build(target_type=["attr", "bbox"])[0][1]) == 2
    assert celeba.build(target_type=[])[0][1] is None
    assert len(celeba.build(split="all")) == 6
    assert celeba.dataset.attr_names[39] == "Attribute_39"


def test_lfw_reads_people_in_folds_and_in_one_piece(miniature):
    people = miniature("lfwpeople")
    assert targets(people.dataset) == [2, 0, 0, 1]
    assert targets(people.build(split="test")) == [0, 0, 2]
    assert people.dataset.class_to_idx == {"Ann_Lee": 0, "Bo_Day": 1, "Cy_Fox": 2}


def test_lfw_pairs_show_one_person_or_two(miniature):
    pairs = miniature("lfwpairs")
    dataset = pairs.dataset
    assert [same for *_, same in dataset] == [1, 0, 1, 0]
    assert dataset.pair_names[3] == ("Bo_Day", "Cy_Fox")
    assert dataset.data[1][0].endswith("Ann_Lee_0002.jpg")
    assert [same for *_, same in pairs.build(split="train")] == [1, 0]


def test_lfw_cannot_be_downloaded_and_says_what_to_place(tmp_path):
    with pytest.raises(DatasetMissingError, match=r"(?s)lfw-funneled.tgz is missing.*Place by hand.*md5 1b42dfed"):
        LFWPeople(str(tmp_path))
    with pytest.raises(GatedError, match=r"(?s)lfw-funneled.tgz.*often gone"):
        LFWPeople(str(tmp_path), download=True)


def test_inaturalist_has_ranks_since_2021(miniature):
    inaturalist = miniature("inaturalist")
    dataset = inaturalist.build(target_type=["full", "kingdom", "genus"])
    assert targets(dataset) == [(0, 0, 0), (1, 0, 0), (2, 1, 1)]
    assert dataset.category_name("genus", 1) == "Poa"
    assert dataset.category_name("full", 2).startswith("00002_Plantae")
    with pytest.raises(ValueError, match="genus is 2, expected 0 to 1"):
        dataset.category_name("genus", 2)
    with pytest.raises(ValueError, match="'super' for argument target_type"):
        inaturalist.build(target_type="super")


def test_inaturalist_has_names_in_2017_and_numbers_later(tmp_path):
    for name in ("Plantae/Poa annua", "Aves/Ciconia ciconia"):
        picture(tmp_path / "2017" / "train_val_images" / name / "a.jpg")
    for name in ("Plantae/0", "Birds/2"):  # unpacked as upstream does it
        picture(tmp_path / "2019" / name / "a.jpg")
    early = INaturalist(tmp_path, "2017", ["full", "super"])
    late = INaturalist(tmp_path, "2019", ["full", "super"])
    assert early.all_categories == ["Aves/Ciconia ciconia", "Plantae/Poa annua"]
    assert targets(early) == [(0, 0), (1, 1)]
    assert late.all_categories == ["Plantae/0", "", "Birds/2"]
    assert targets(late) == [(0, 1), (2, 0)]


def test_inaturalist_names_a_folder_that_is_not_in_its_layout(tmp_path):
    picture(tmp_path / "2021_valid" / "00000_Animalia" / "a.jpg")
    with pytest.raises(RuntimeError, match="00000_Animalia: expected 00000, six ranks and a species"):
        INaturalist(tmp_path, "2021_valid")


def test_imagenette_has_synonyms_and_sizes(miniature):
    imagenette = miniature("imagenette")
    dataset = imagenette.build(split="val", size="160px")
    assert dataset.classes == [("tench", "Tinca tinca"), ("parachute", "chute")]
    assert dataset.class_to_idx["chute"] == 1
    assert "imagenette2-160" in dataset.samples[0][0]


def test_imagenet_unpacks_archives_of_archives_once(miniature):
    imagenet = miniature("imagenet")
    train = imagenet.build(split="train")
    assert train.wnids == ["n01", "n02"]
    assert train.classes == [("dog",), ("cat", "true cat")]
    assert train.class_to_idx == {"dog": 0, "cat": 1, "true cat": 1}
    assert targets(train) == [0, 0, 1, 1]
    (imagenet.placed / "ILSVRC2012_img_train.tar").unlink()
    assert len(imagenet.build(split="train")) == 4


def test_imagenet_sorts_pictures_for_validation_by_the_development_kit(miniature):
    imagenet = miniature("imagenet")
    val = imagenet.build(split="val")
    assert [(path.rpartition("_")[2], label) for path, label in val.samples] == [
        ("00000001.JPEG", 0), ("00000003.JPEG", 0), ("00000002.JPEG", 1),
    ]  # fmt: skip
    assert not list(imagenet.placed.glob(".flambeau-unpacking-*"))


def test_lsun_joins_databases_in_the_order_of_keys(miniature):
    lsun = miniature("lsun")
    dataset = lsun.dataset
    assert targets(dataset) == [0, 0, 1, 1, 1]
    assert [key[-1:] for key in dataset.dbs[1].keys] == [b"0", b"1", b"2"]
    again = LSUNClass(str(lsun.placed / "tower_val_lmdb"))
    assert again.keys == dataset.dbs[1].keys
    assert pickle.loads(pickle.dumps(dataset))[4][1] == 1


def test_lsun_keeps_its_keys_as_text_and_distrusts_a_list_of_another_length(miniature):
    lsun = miniature("lsunclass")
    keys = lsun.dataset.keys
    listing = lsun.placed / "flambeau-keys.txt"
    assert [bytes.fromhex(line) for line in listing.read_text().split()] == keys
    listing.write_text("00\n")
    assert lsun.build().keys == keys


@pytest.mark.parametrize(
    ("classes", "message"),
    [("bedroom", "'bedroom' for argument classes"), (["attic_train"], "'attic_train' for"), (7, "classes is a int")],
)
def test_lsun_refuses_classes_there_are_not(miniature, classes, message):
    with pytest.raises(ValueError, match=message):
        miniature("lsun").build(classes=classes)


@pytest.mark.parametrize(
    ("split", "expected"),
    [("train-standard", [1, 0]), ("train-challenge", [1, 0]), ("val", [1, 1]), ("test", [None] * 2)],
)
def test_places365_reads_its_lists(miniature, split, expected):
    dataset = miniature("places365").build(split=split)
    assert targets(dataset) == expected
    assert dataset.classes == ["/a/airfield", "/z/zen_garden"]
    assert dataset.targets == expected


def test_places365_has_large_pictures_too(miniature):
    assert miniature("places365").build(split="val", small=False)[0][0].size == (30, 20)


def test_places365_reads_training_pictures_where_upstream_leaves_them(miniature):
    places = miniature("places365")
    _ = places.facts
    folder = places.placed / "data_256_standard"
    (folder / "data_256" / "a").rename(folder / "a")
    (folder / "data_256" / "z").rename(folder / "z")
    for path in (folder / "data_256",):
        path.rmdir()
    dataset: Places365 = places.build()
    assert dataset.images_dir == str(folder)
    assert dataset[0][1] == 1
