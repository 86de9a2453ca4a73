"""Parsers of sets with boxes, areas and captions, each over its miniature."""

import json
import os
import zipfile

import numpy as np
import pytest
import torch

from flambeau.core.datasets.registered import stand_in
from flambeau.core.errors import DatasetMissingError
from flambeau.core.testing.server import FileServer, Reply
from flambeau.vision.datasets import SBU, CocoDetection, Flickr8k, SBDataset
from flambeau.vision.datasets._coco_index import CocoFormatError
from flambeau.vision.datasets._xml import XmlError, read_xml


def targets(dataset):
    return [target for _, target in dataset]


def test_voc_annotations_always_have_a_list_of_objects(miniature):
    annotations = [target["annotation"] for target in targets(miniature("vocdetection").dataset)]
    assert [[thing["name"] for thing in each["object"]] for each in annotations] == [
        ["person", "aeroplane"], ["aeroplane"], [],
    ]  # fmt: skip
    assert annotations[0]["object"][1]["bndbox"] == {"xmin": "2", "ymin": "2", "xmax": "9", "ymax": "7"}
    assert annotations[0]["size"]["width"] == "12"


def test_voc_masks_keep_their_indices(miniature):
    image, mask = miniature("vocsegmentation").dataset[0]
    assert (image.mode, mask.mode) == ("RGB", "P")
    assert set(np.unique(np.asarray(mask))) == {0, 1, 20, 255}


def test_voc_has_a_test_in_2007_alone(miniature):
    voc = miniature("vocdetection")
    assert len(voc.build(year="2007", image_set="test")) == 1
    with pytest.raises(ValueError, match="'test' for argument image_set"):
        voc.build(year="2012", image_set="test")
    with pytest.raises(ValueError, match="'2007-test' for argument year"):
        voc.build(year="2007-test")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('<!DOCTYPE a [<!ENTITY b "bb">]><a>&b;</a>', "declares the entity 'b'"),
        ('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', "declares the entity 'b'"),
        ("<a><b></a>", "no whole XML file: mismatched tag"),
        ("", "no whole XML file: no element found"),
    ],
)
def test_xml_with_entities_or_faults_is_refused(tmp_path, content, message):
    (tmp_path / "a.xml").write_text(content)
    with pytest.raises(XmlError, match=message):
        read_xml(tmp_path / "a.xml")


def test_coco_gives_annotations_by_the_order_of_ids(miniature):
    dataset = miniature("cocodetection").dataset
    assert dataset.ids == [5, 9, 25]
    assert [[record["id"] for record in target] for target in targets(dataset)] == [[], [1, 2], [3]]
    assert dataset.coco.loadCats(18) == [{"id": 18, "name": "dog"}]
    with pytest.raises(ValueError, match="items are numbered by int"):
        dataset[[0]]


def test_coco_masks_come_from_polygons_and_runs(miniature):
    coco = miniature("cocodetection").dataset.coco
    polygon, runs, crowd = (coco.annToMask(record) for record in coco.loadAnns([1, 2, 3]))
    assert polygon[1:5, 2:8].all()
    assert polygon.sum() == 24
    assert (runs.sum(), runs[0, 1], runs[3, 1], runs[4, 1]) == (4, 1, 1, 0)
    assert crowd.all()


def test_coco_captions_are_lists_of_text(miniature):
    assert targets(miniature("cococaptions").dataset) == [[], ["a dog", "a good dog"], []]


def test_coco_says_what_an_annotation_file_is(tmp_path):
    with pytest.raises(DatasetMissingError, match=r"instances.json is missing.*annotations_trainval2017.zip"):
        CocoDetection(tmp_path, str(tmp_path / "instances.json"))
    for content, message in (
        ("{", "is no JSON"),
        ("[]", "no list 'images'"),
        (json.dumps({"a": 1}), "no list 'images'"),
    ):
        (tmp_path / "instances.json").write_text(content)
        with pytest.raises(CocoFormatError, match=message):
            CocoDetection(tmp_path, str(tmp_path / "instances.json"))


def test_sbd_gives_areas_or_boundaries(miniature):
    sbd = miniature("sbdataset")
    _, boundaries = sbd.dataset[0]
    assert (boundaries.shape, boundaries.dtype, boundaries.max()) == ((20, 8, 12), np.uint8, 1)
    _, areas = sbd.build(mode="segmentation", image_set="val")[0]
    assert areas.size == (12, 8)
    assert len(sbd.build(image_set="train_noval")) == 1


def test_sbd_reads_files_where_upstream_puts_them(miniature):
    sbd = miniature("sbdataset")
    _ = sbd.facts
    for path in (sbd.placed / "benchmark_RELEASE" / "dataset").iterdir():
        path.rename(sbd.placed / path.name)
    assert len(SBDataset(sbd.placed, "train")) == 2
    assert len(SBDataset(sbd.placed, "train_noval")) == 1


def test_cityscapes_gives_targets_of_four_kinds(miniature):
    dataset = miniature("cityscapes").build(target_type=["instance", "semantic", "color", "polygon"])
    image, (instance, semantic, color, polygon) = dataset[0]
    assert (image.mode, semantic.mode, color.mode) == ("RGB", "L", "RGB")
    assert np.asarray(instance).max() > 255
    assert polygon["objects"][0]["label"] == "road"
    assert "aachen" in dataset.images[0]
    assert (len(dataset.classes), dataset.classes[7].name, dataset.classes[7].train_id) == (35, "road", 0)


def test_cityscapes_has_other_splits_in_each_mode(miniature):
    cityscapes = miniature("cityscapes")
    assert len(cityscapes.build(split="train_extra", mode="coarse", target_type="semantic")) == 2
    with pytest.raises(ValueError, match="'train_extra' for argument split"):
        cityscapes.build(split="train_extra")


def test_cityscapes_unpacks_archives_that_are_placed(tmp_path, miniature):
    cityscapes = miniature("cityscapes")
    _ = cityscapes.dataset
    for folder, archive in (("leftImg8bit", "leftImg8bit_trainvaltest.zip"), ("gtFine", "gtFine_trainvaltest.zip")):
        with zipfile.ZipFile(tmp_path / archive, "w") as packed:
            for path in sorted((cityscapes.placed / folder).rglob("*.*")):
                packed.write(path, path.relative_to(cityscapes.placed))
    assert len(cityscapes.target(tmp_path)) == 2


def test_kitti_reads_objects_of_sorted_pictures(miniature):
    kitti = miniature("kitti")
    (first,), second = targets(kitti.dataset)
    assert second == []
    assert first == {
        "type": "Pedestrian", "truncated": 0.0, "occluded": 1, "alpha": -0.2, "bbox": [7.5, 1.0, 8.25, 3.0],
        "dimensions": [1.89, 0.48, 1.2], "location": [1.84, 1.47, 8.41], "rotation_y": 0.01,
    }  # fmt: skip
    assert targets(kitti.build(split="test")) == [None, None]


def test_widerface_skips_the_zeros_that_stand_for_no_face(miniature):
    wider = miniature("widerface")
    faces = targets(wider.build(split="val"))
    assert [face["bbox"].tolist() for face in faces] == [[[1, 2, 3, 4], [5, 2, 3, 4]], [], [[4, 4, 2, 2]]]
    assert faces[1]["bbox"].shape == (0, 4)
    assert {name: values.tolist() for name, values in faces[0].items() if name != "bbox"} == {
        "blur": [0, 2], "expression": [1, 0], "illumination": [0, 1], "occlusion": [2, 1], "pose": [0, 1],
        "invalid": [1, 0],
    }  # fmt: skip
    assert targets(wider.build(split="test")) == [None, None]


def test_sbu_takes_the_photographs_that_are_there(miniature):
    sbu = miniature("sbu")
    assert targets(sbu.dataset) == ["A wooden chair", "In the park"]
    (sbu.placed / "dataset" / "4385058961_c1.jpg").unlink()
    assert targets(sbu.build()) == ["A wooden chair"]


def test_sbu_leaves_out_photographs_that_are_gone(miniature):
    sbu = miniature("sbu")
    _ = sbu.facts
    folder = sbu.placed / "dataset"
    urls = folder / "SBU_captioned_photo_dataset_urls.txt"
    (folder / "4385058961_c1.jpg").unlink()
    with FileServer({"here.jpg": (folder / "4385058960_b0f291553e.jpg").read_bytes()}) as server, stand_in(sbu.facts):
        server.always["gone.jpg"] = Reply(status=404)
        urls.write_text(f"{server.url('gone.jpg')}\n{server.url('here.jpg')}\n")
        assert targets(SBU(sbu.placed, download=True)) == ["In the park"]
        assert [request.path for request in server.log] == ["gone.jpg", "here.jpg"]


def test_flickr8k_reads_captions_from_the_page(miniature):
    dataset = miniature("flickr8k").dataset
    assert targets(dataset) == [["A dog .", "Dogs & cats ."]] * 2
    assert dataset.ids[0].endswith("1141739219_2c47195e4c.jpg")


def test_flickr8k_names_a_picture_that_is_missing(tmp_path):
    (tmp_path / "page.html").write_text("<table><a>http://flickr.com/photos/x/77/</a><li>A dog .</li></table>")
    with pytest.raises(DatasetMissingError, match=r"77_\*.jpg is missing.*DenotationGraph"):
        Flickr8k(tmp_path, str(tmp_path / "page.html"))


def test_flickr30k_joins_the_captions_of_a_picture(miniature):
    dataset = miniature("flickr30k").dataset
    assert dataset.ids == ["1000092795.jpg", "10002456.jpg"]
    assert dataset[1][1] == ["Caption 0 of 10002456.jpg .", "Caption 1 of 10002456.jpg ."]


def test_phototour_cuts_grids_into_patches(miniature):
    tour = miniature("phototour")
    dataset = tour.dataset
    assert dataset.data.shape == (3, 64, 64)
    assert dataset.labels.tolist() == [7, 7, 9]
    first, second, same = tour.build(train=False)[1]
    assert torch.equal(first, dataset.data[1])
    assert torch.equal(second, dataset.data[2])
    assert (same, len(tour.build(train=False))) == (0, 2)


def test_phototour_reads_anew_when_its_files_have_changed(miniature):
    tour = miniature("phototour")
    _ = tour.dataset
    info = tour.placed / "liberty" / "info.txt"
    cached = tour.placed / "liberty.pt"
    info.write_text("1 0\n2 0\n3 0\n")
    os.utime(info, ns=(cached.stat().st_mtime_ns + 10**9,) * 2)
    assert tour.build().labels.tolist() == [1, 2, 3]


@pytest.mark.parametrize(("split", "frames"), [(None, 20), ("train", 7), ("test", 13)])
def test_moving_mnist_splits_every_video_by_time(miniature, split, frames):
    moving = miniature("movingmnist")
    dataset = moving.build(split=split, split_ratio=7)
    assert (len(dataset), dataset[0].shape) == (3, (frames, 1, 64, 64))
    whole = np.load(moving.placed / "MovingMNIST" / "mnist_test_seq.npy")
    start = 7 if split == "test" else 0
    assert np.array_equal(dataset[2][0, 0].numpy(), whole[start, 2])


@pytest.mark.parametrize("ratio", [0, 20, 2.5])
def test_moving_mnist_refuses_a_ratio_out_of_range(miniature, ratio):
    with pytest.raises((ValueError, TypeError), match="expected from 1 to 19 whole frames"):
        miniature("movingmnist").build(split_ratio=ratio)
