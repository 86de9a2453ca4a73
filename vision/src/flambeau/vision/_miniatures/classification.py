"""The fourteen sets of pictures with classes that came together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from flambeau.vision._miniatures.files import lines, noise, picture
from flambeau.vision.datasets._readers import reader

__all__ = ["WRITERS"]


def clevr(root: Path) -> None:
    """Two scenes a split, with three and four objects."""
    folder = root / "clevr" / "CLEVR_v1.0"
    for split in ("train", "val", "test"):
        names = [f"CLEVR_{split}_{index:06d}.png" for index in range(2)]
        for name in names:
            picture(folder / "images" / split / name)
        if split != "test":
            scenes = [{"image_filename": n, "objects": [{"shape": "cube"}] * (3 + i)} for i, n in enumerate(names)]
            lines(folder / "scenes" / f"CLEVR_{split}_scenes.json", json.dumps({"info": {}, "scenes": scenes}))


def gtsrb(root: Path) -> None:
    """Two kinds of signs for training, two signs for testing."""
    folder = root / "gtsrb" / "GTSRB"
    for kind in (0, 1, 42):
        picture(folder / "Training" / f"{kind:05d}" / "00000_00000.ppm")
        lines(folder / "Training" / f"{kind:05d}" / f"GT-{kind:05d}.csv", "Filename;Width")
    for index in (0, 1):
        picture(folder / "Final_Test" / "Images" / f"{index:05d}.ppm")
    lines(
        root / "gtsrb" / "GT-final_test.csv",
        "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId",
        "00000.ppm;12;8;1;1;11;7;16",
        "00001.ppm;12;8;1;1;11;7;1",
    )


def fer2013(root: Path) -> None:
    """Kaggle's train.csv and test.csv."""
    faces = [" ".join(map(str, noise(("fer2013", index), 48 * 48))) for index in range(4)]
    lines(root / "fer2013" / "train.csv", "emotion,pixels", f'0,"{faces[0]}"', f'6,"{faces[1]}"')
    lines(root / "fer2013" / "test.csv", "pixels", f'"{faces[2]}"', f'"{faces[3]}"')


def sun397(root: Path) -> None:
    """Three scenes, one of a class whose name has two parts."""
    lines(root / "SUN397" / "ClassName.txt", "/a/abbey", "/a/apse/indoor", "/z/zoo")
    for name in ("a/abbey/sun_b.jpg", "a/abbey/sun_a.jpg", "a/apse/indoor/sun_c.jpg"):
        picture(root / "SUN397" / name)


def country211(root: Path) -> None:
    """Two countries."""
    for split in ("train", "valid", "test"):
        for code in ("AD", "ZW"):
            picture(root / "country211" / split / code / f"{code}.jpg")


def flowers102(root: Path) -> None:
    """Six flowers, two a split."""
    folder = root / "flowers-102"
    for number in range(1, 7):
        picture(folder / "jpg" / f"image_{number:05d}.jpg")
    save = reader("scipy.io", "the miniature of Flowers102").savemat
    save(folder / "imagelabels.mat", {"labels": np.array([[77, 77, 1, 1, 102, 102]], dtype=np.uint8)})
    splits = {"trnid": [1, 3], "valid": [2, 4], "tstid": [5, 6]}
    save(folder / "setid.mat", {name: np.array([numbers], dtype=np.uint16) for name, numbers in splits.items()})


def fgvc_aircraft(root: Path) -> None:
    """Two aircraft a split, in every annotation level."""
    folder = root / "fgvc-aircraft-2013b" / "data"
    names = {
        "variant": ("707-320", "Boeing 717", "variants.txt"),
        "family": ("Boeing 707", "Boeing 717", "families.txt"),
        "manufacturer": ("Boeing", "Airbus", "manufacturers.txt"),
    }
    for number in ("0034309", "1025794"):
        picture(folder / "images" / f"{number}.jpg")
    for level, (first, second, classes) in names.items():
        lines(folder / classes, first, second)
        for split in ("train", "val", "trainval", "test"):
            lines(folder / f"images_{level}_{split}.txt", f"0034309 {second}", f"1025794 {first}")


def oxford_iiit_pet(root: Path) -> None:
    """Two pets a split, with trimaps."""
    folder = root / "oxford-iiit-pet"
    rows = ["Abyssinian_100 1 1 1", "american_bulldog_203 2 2 1"]
    for row in rows:
        name = row.split()[0]
        picture(folder / "images" / f"{name}.jpg")
        trimap = folder / "annotations" / "trimaps" / f"{name}.png"
        picture(trimap, channels=1)
    for split in ("trainval", "test"):
        lines(folder / "annotations" / f"{split}.txt", *rows)


def dtd(root: Path) -> None:
    """Two textures, in the first two partitions."""
    folder = root / "dtd" / "dtd"
    for name in ("banded/banded_0002.jpg", "zigzagged/zigzagged_0001.jpg"):
        picture(folder / "images" / name)
        for split in ("train", "val", "test"):
            for partition in (1, 10):
                label = folder / "labels" / f"{split}{partition}.txt"
                lines(label, *(label.read_text().split() if label.exists() else ()), name)


def food101(root: Path) -> None:
    """Two dishes a split."""
    for split in ("train", "test"):
        listing = {dish: [f"{dish}/{split}1"] for dish in ("waffles", "apple_pie")}
        for dish in listing:
            picture(root / "food-101" / "images" / dish / f"{split}1.jpg")
        lines(root / "food-101" / "meta" / f"{split}.json", json.dumps(listing))


def rendered_sst2(root: Path) -> None:
    """A sentence of each kind a split."""
    for split in ("train", "valid", "test"):
        for kind in ("positive", "negative"):
            picture(root / "rendered-sst2" / split / kind / f"{split}_{kind}_0.png")


def stanford_cars(root: Path) -> None:
    """Two cars a split."""
    folder = root / "stanford_cars"
    fields = [("fname", object), ("class", object)]
    save = reader("scipy.io", "the miniature of StanfordCars").savemat
    (folder / "devkit").mkdir(parents=True)
    for split, target in (
        ("train", folder / "devkit" / "cars_train_annos.mat"),
        ("test", folder / "cars_test_annos_withlabels.mat"),
    ):
        rows = [(f"{number:05d}.jpg", number) for number in (1, 2)]
        for name, _ in rows:
            picture(folder / f"cars_{split}" / name)
        save(target, {"annotations": np.array(rows, dtype=fields)})
    names = np.array(["AM General Hummer SUV 2000", "Acura RL Sedan 2012"], dtype=object)
    save(folder / "devkit" / "cars_meta.mat", {"class_names": names})


def pcam(root: Path) -> None:
    """Three patches a split."""
    h5py = reader("h5py", "the miniature of PCAM")
    (root / "pcam").mkdir(parents=True)
    for split in ("train", "valid", "test"):
        name = f"camelyonpatch_level_2_split_{split}"
        with h5py.File(root / "pcam" / f"{name}_x.h5", "w") as file:
            file["x"] = noise(split, 3, 96, 96, 3)
        with h5py.File(root / "pcam" / f"{name}_y.h5", "w") as file:
            file["y"] = np.array([1, 0, 1], dtype=np.uint8).reshape(3, 1, 1, 1)


def eurosat(root: Path) -> None:
    """Two classes of land."""
    for name in ("AnnualCrop", "River"):
        picture(root / "eurosat" / "2750" / name / f"{name}_1.jpg", height=64, width=64)


WRITERS: dict[str, Any] = {
    "clevrclassification": clevr,
    "country211": country211,
    "dtd": dtd,
    "eurosat": eurosat,
    "fer2013": fer2013,
    "fgvcaircraft": fgvc_aircraft,
    "flowers102": flowers102,
    "food101": food101,
    "gtsrb": gtsrb,
    "oxfordiiitpet": oxford_iiit_pet,
    "pcam": pcam,
    "renderedsst2": rendered_sst2,
    "stanfordcars": stanford_cars,
    "sun397": sun397,
}
