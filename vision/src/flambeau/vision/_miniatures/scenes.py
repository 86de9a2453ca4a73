"""Sets with boxes and areas: Pascal VOC, COCO, SBD, Cityscapes, KITTI, WIDER FACE."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from flambeau.vision._miniatures.files import lines, noise, picture
from flambeau.vision.datasets._readers import reader

__all__ = ["WRITERS"]

_OBJECT = (
    "<object><name>{name}</name><pose>Left</pose><bndbox><xmin>{x}</xmin><ymin>2</ymin><xmax>9</xmax><ymax>7</ymax>"
    "</bndbox></object>"
)


def voc(root: Path) -> None:
    """Three photographs of 2012, with two things, one thing and nothing; and one of the test of 2007."""
    for folder, sets in (("VOC2012", ("train", "trainval", "val")), ("VOC2007", ("test",))):
        base = root / "VOCdevkit" / folder
        names = ["2007_000027", "2007_000032", "2007_000039"] if "val" in sets else ["000001"]
        for position, name in enumerate(names):
            picture(base / "JPEGImages" / f"{name}.jpg")
            objects = [
                _OBJECT.format(name=label, x=1 + at) for at, label in enumerate(["person", "aeroplane"][position:])
            ]
            lines(
                base / "Annotations" / f"{name}.xml",
                "<annotation>",
                f"  <filename>{name}.jpg</filename>",
                "  <size><width>12</width><height>8</height><depth>3</depth></size>",
                *objects,
                "</annotation>",
            )
            _indexed(base / "SegmentationClass" / f"{name}.png")
        for image_set in sets:
            lines(base / "ImageSets" / "Main" / f"{image_set}.txt", *names)
            lines(base / "ImageSets" / "Segmentation" / f"{image_set}.txt", *names)


def _indexed(path: Path) -> None:
    """A mask with a palette: background, two classes, border."""
    indices = np.zeros((8, 12), np.uint8)
    indices[2:5, 3:9], indices[5:7, 3:9], indices[4, 3:9] = 1, 20, 255
    mask = Image.fromarray(indices).convert("P")
    mask.putdata(indices.reshape(-1).tolist())
    mask.putpalette([value % 256 for value in range(3 * 256)])
    path.parent.mkdir(parents=True, exist_ok=True)
    mask.save(path)


def coco(root: Path) -> dict[str, Any]:
    """Three photographs: with a polygon and runs, with nothing, with a crowd."""
    names = {9: "000000000009.jpg", 25: "000000000025.jpg", 5: "000000000005.jpg"}
    for name in names.values():
        picture(root / "val2017" / name)
    box = [2.0, 1.0, 6.0, 4.0]
    base = {"bbox": box, "area": 24.0, "iscrowd": 0}
    annotations = [
        {**base, "id": 1, "image_id": 9, "category_id": 18, "segmentation": [[2, 1, 8, 1, 8, 5, 2, 5]]},
        {**base, "id": 2, "image_id": 9, "category_id": 1, "segmentation": {"size": [8, 12], "counts": [8, 4, 84]}},
        {**base, "id": 3, "image_id": 25, "category_id": 1, "iscrowd": 1,
         "segmentation": {"size": [8, 12], "counts": [0, 96]}},
    ]  # fmt: skip
    captions = [{"id": 7, "image_id": 9, "caption": "a dog"}, {"id": 8, "image_id": 9, "caption": "a good dog"}]
    images = [{"id": number, "file_name": name, "height": 8, "width": 12} for number, name in names.items()]
    categories = [{"id": 1, "name": "person"}, {"id": 18, "name": "dog"}]
    instances = {"images": images, "annotations": annotations, "categories": categories}
    lines(root / "annotations" / "instances_val2017.json", json.dumps(instances))
    lines(root / "annotations" / "captions_val2017.json", json.dumps({"images": images, "annotations": captions}))
    return {"root": root / "val2017", "annFile": str(root / "annotations" / "instances_val2017.json")}


def coco_captions(root: Path) -> dict[str, Any]:
    """The photographs of `coco`, the first with two captions."""
    return {**coco(root), "annFile": str(root / "annotations" / "captions_val2017.json")}


def sbd(root: Path) -> None:
    """Two photographs with areas and twenty boundaries each."""
    scipy = reader("scipy.sparse", "the miniature of SBDataset")
    folder = root / "benchmark_RELEASE" / "dataset"
    (folder / "cls").mkdir(parents=True)
    for name in ("2008_000002", "2008_000003"):
        picture(folder / "img" / f"{name}.jpg")
        boundaries = np.empty((20, 1), dtype=object)
        for label in range(20):
            boundaries[label, 0] = scipy.csc_matrix((noise((name, label), 8, 12) % 2).astype(np.uint8))
        content = {"Segmentation": noise(name, 8, 12) % 21, "Boundaries": boundaries}
        reader("scipy.io", "the miniature of SBDataset").savemat(folder / "cls" / f"{name}.mat", {"GTcls": content})
    lines(folder / "train.txt", "2008_000002", "2008_000003")
    lines(folder / "val.txt", "2008_000003")
    lines(root / "train_noval.txt", "2008_000002")


def cityscapes(root: Path) -> None:
    """Two streets of two cities, fine and coarse."""
    for split, mode in (("train", "gtFine"), ("train_extra", "gtCoarse")):
        for city in ("ulm", "aachen"):
            name = f"{city}_000000_000019"
            picture(root / "leftImg8bit" / split / city / f"{name}_leftImg8bit.png")
            folder = root / mode / split / city
            for kind in ("labelIds", "color"):
                picture(folder / f"{name}_{mode}_{kind}.png", channels=1 if kind == "labelIds" else 3)
            instances = noise(name, 8, 12).astype(np.uint16) * 100
            Image.fromarray(instances).save(folder / f"{name}_{mode}_instanceIds.png")
            polygons = {"imgHeight": 8, "imgWidth": 12, "objects": [{"label": "road", "polygon": [[0, 1], [2, 3]]}]}
            lines(folder / f"{name}_{mode}_polygons.json", json.dumps(polygons))


def kitti(root: Path) -> None:
    """Two photographs with labels and two without."""
    for part in ("training", "testing"):
        for name in ("000001", "000000"):
            picture(root / "Kitti" / "raw" / part / "image_2" / f"{name}.png")
    rows = ["Pedestrian 0.00 1 -0.20 7.5 1.0 8.25 3.0 1.89 0.48 1.20 1.84 1.47 8.41 0.01"]
    lines(root / "Kitti" / "raw" / "training" / "label_2" / "000000.txt", *rows)
    lines(root / "Kitti" / "raw" / "training" / "label_2" / "000001.txt")


def widerface(root: Path) -> None:
    """Three photographs with two faces, none, and one; two for the test."""
    folder = root / "widerface"
    faces = ["1 2 3 4 0 1 0 1 2 0 ", "5 2 3 4 2 0 1 0 1 1 ", "0 0 0 0 0 0 0 0 0 0 ", "4 4 2 2 1 0 0 0 0 0 "]
    rows = ["0--Parade/a.jpg", "2", *faces[:2], "0--Parade/b.jpg", "0", faces[2]]
    rows += ["1--Handshaking/c.jpg", "1", faces[3]]
    for split in ("train", "val"):
        lines(folder / "wider_face_split" / f"wider_face_{split}_bbx_gt.txt", *rows)
    lines(folder / "wider_face_split" / "wider_face_test_filelist.txt", "0--Parade/a.jpg", "1--Handshaking/c.jpg")
    for split in ("train", "val", "test"):
        for name in ("0--Parade/a.jpg", "0--Parade/b.jpg", "1--Handshaking/c.jpg"):
            picture(folder / f"WIDER_{split}" / "images" / name)


WRITERS: dict[str, Any] = {
    "cityscapes": cityscapes,
    "cococaptions": coco_captions,
    "cocodetection": coco,
    "kitti": kitti,
    "sbdataset": sbd,
    "vocdetection": voc,
    "vocsegmentation": voc,
    "widerface": widerface,
}
