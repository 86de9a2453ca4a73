"""Larger sets of objects, faces, species and scenes."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from flambeau.vision._miniatures.files import lines, noise, picture
from flambeau.vision.datasets._readers import reader

__all__ = ["WRITERS", "imagenet_archives"]


def _pack(archive: Path, folder: Path, mode: str = "w") -> None:
    """Put the content of a folder into an archive."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, mode) as packed:  # type: ignore[call-overload]  # a mode made of parts
        for path in sorted(folder.iterdir()):
            packed.add(path, path.name)


def caltech101(root: Path) -> None:
    """Two classes with outlines, and clutter; two archives, as in the published one."""
    folder = root / "caltech101"
    pictures, outlines = folder / "101_ObjectCategories", folder / "Annotations"
    for label in ("Motorbikes", "anchor", "BACKGROUND_Google"):
        picture(pictures / label / "image_0001.jpg")
        if label != "BACKGROUND_Google":
            mat = outlines / {"Motorbikes": "Motorbikes_16"}.get(label, label) / "annotation_0001.mat"
            mat.parent.mkdir(parents=True)
            outline = {"obj_contour": np.arange(6.0).reshape(2, 3), "box_coord": np.arange(4)}
            reader("scipy.io", "the miniature of Caltech101").savemat(mat, outline)
    inner = folder / "caltech-101"
    inner.mkdir()
    for part, name in ((pictures, "101_ObjectCategories.tar.gz"), (outlines, "Annotations.tar")):
        with tarfile.open(inner / name, "w:gz" if name.endswith("gz") else "w") as packed:
            packed.add(part, part.name)


def caltech256(root: Path) -> None:
    """Two classes, one with a grey picture."""
    folder = root / "caltech256" / "256_ObjectCategories"
    picture(folder / "001.ak47" / "001_0002.jpg")
    picture(folder / "001.ak47" / "001_0001.jpg", channels=1)
    picture(folder / "257.clutter" / "257_0001.jpg")
    lines(folder / "257.clutter" / "RENAME2", "not a picture")


def celeba(root: Path) -> None:
    """Two faces a split, with every kind of target."""
    folder = root / "celeba"
    names = [f"{number:06d}.jpg" for number in range(1, 7)]
    attributes = " ".join(f"Attribute_{number}" for number in range(40))
    for name in names:
        picture(folder / "img_align_celeba" / name, height=218, width=178)
    signs = [" ".join("1" if (row + column) % 2 else "-1" for column in range(40)) for row in range(6)]
    lines(folder / "list_attr_celeba.txt", "6", attributes, *map("  ".join, zip(names, signs, strict=True)))
    lines(folder / "identity_CelebA.txt", *(f"{name} {100 + row}" for row, name in enumerate(names)))
    boxes = [f"{name}  {row}  2  30  40" for row, name in enumerate(names)]
    lines(folder / "list_bbox_celeba.txt", "6", "image_id x_1 y_1 width height", *boxes)
    landmarks = [f"{name} " + " ".join(str(row + column) for column in range(10)) for row, name in enumerate(names)]
    lines(folder / "list_landmarks_align_celeba.txt", "6", "lefteye_x lefteye_y", *landmarks)
    lines(folder / "list_eval_partition.txt", *(f"{name} {row // 2}" for row, name in enumerate(names)))


def lfw(root: Path) -> None:
    """Three people, in every list and one alignment."""
    folder = root / "lfw-py"
    for name, count in (("Ann_Lee", 2), ("Bo_Day", 1), ("Cy_Fox", 1)):
        for number in range(1, count + 1):
            picture(folder / "lfw_funneled" / name / f"{name}_{number:04d}.jpg")
    lines(folder / "lfw-names.txt", "Ann_Lee\t2", "Bo_Day\t1", "Cy_Fox\t1")
    lines(folder / "people.txt", "2", "1", "Cy_Fox\t1", "2", "Ann_Lee\t2", "Bo_Day\t1")
    same, other = "Ann_Lee\t1\t2", "Ann_Lee\t2\tBo_Day\t1"
    lines(folder / "pairs.txt", "2\t1", same, other, same, "Bo_Day\t1\tCy_Fox\t1")
    for part in ("DevTrain", "DevTest"):
        lines(folder / f"people{part}.txt", "2", "Ann_Lee\t2", "Cy_Fox\t1")
        lines(folder / f"pairs{part}.txt", "1", same, other)


def inaturalist(root: Path) -> None:
    """Three species of 2021."""
    for name in ("00000_Animalia_Chordata_Aves_Ciconiiformes_Ciconiidae_Ciconia_ciconia",
                 "00001_Animalia_Chordata_Aves_Ciconiiformes_Ciconiidae_Ciconia_nigra",
                 "00002_Plantae_Tracheophyta_Liliopsida_Poales_Poaceae_Poa_annua"):  # fmt: skip
        picture(root / "2021_train" / "train" / name / f"{name[:5]}.jpg")


def imagenette(root: Path) -> None:
    """Two classes in two sizes."""
    for folder in ("imagenette2", "imagenette2-160"):
        for split in ("train", "val"):
            for wnid in ("n01440764", "n03888257"):
                picture(root / folder / split / wnid / f"{wnid}_1.JPEG")


def imagenet_archives(root: Path) -> None:
    """The three archives of ILSVRC 2012 with three classes, one of them no leaf; two pictures each."""
    scratch = root / "scratch"
    synsets = [
        (1, "n02", "cat, true cat", "a feline", 0, [], 0, 2),
        (2, "n01", "dog", "a canine", 0, [], 0, 2),
        (3, "n00", "animal", "a living being", 2, [1, 2], 1, 4),
    ]
    for _, wnid, _, _, children, *_ in synsets:
        if not children:
            for number in (1, 2):
                picture(scratch / wnid / f"{wnid}_{number}.JPEG")
            _pack(scratch / "train" / f"{wnid}.tar", scratch / wnid)
    _pack(root / "ILSVRC2012_img_train.tar", scratch / "train")
    for number in (1, 2, 3):
        picture(scratch / "val" / f"ILSVRC2012_val_{number:08d}.JPEG")
    _pack(root / "ILSVRC2012_img_val.tar", scratch / "val")
    kit = scratch / "kit" / "ILSVRC2012_devkit_t12" / "data"
    kit.mkdir(parents=True)
    names = (
        "ILSVRC2012_ID",
        "WNID",
        "words",
        "gloss",
        "num_children",
        "children",
        "wordnet_height",
        "num_train_images",
    )
    mat = {"synsets": np.array(synsets, dtype=[(name, object) for name in names]).reshape(-1, 1)}
    reader("scipy.io", "the miniature of ImageNet").savemat(kit / "meta.mat", mat)
    lines(kit / "ILSVRC2012_validation_ground_truth.txt", "2", "1", "2")
    _pack(root / "ILSVRC2012_devkit_t12.tar.gz", scratch / "kit", "w:gz")
    for path in sorted(scratch.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    scratch.rmdir()


def lsun_class(folder: Path, items: int = 2) -> None:
    """A database of a few pictures; the keys are not in the order of writing."""
    lmdb = reader("lmdb", "the miniature of LSUN")
    folder.mkdir(parents=True, exist_ok=True)
    with lmdb.open(str(folder), map_size=1 << 20) as database, database.begin(write=True) as transaction:
        for number in reversed(range(items)):
            buffer = io.BytesIO()
            Image.fromarray(noise((folder.name, number), 8, 12, 3)).save(buffer, "WEBP", lossless=True)
            transaction.put(f"{number:040x}".encode(), buffer.getvalue())


def lsun(root: Path) -> dict[str, Any]:
    """Two databases."""
    lsun_class(root / "bedroom_train_lmdb")
    lsun_class(root / "tower_val_lmdb", items=3)
    return {"classes": ["bedroom_train", "tower_val"]}


def places365(root: Path) -> dict[str, Any]:
    """Two scenes, small and large, in every split."""
    names = ["/a/airfield", "/z/zen_garden"]
    lines(root / "categories_places365.txt", *(f"{name} {number}" for number, name in enumerate(names)))
    for variant in ("standard", "challenge"):
        files = [f"{name}/00000001.jpg" for name in names[::-1]]
        rows = [f"{file} {number}" for number, file in zip((1, 0), files, strict=True)]
        lines(root / f"places365_train_{variant}.txt", *rows)
        for file in files:
            picture(root / f"data_256_{variant}" / "data_256" / file[1:])
    for split, label in (("val", " 1"), ("test", "")):
        files = [f"Places365_{split}_{number:08d}.jpg" for number in (1, 2)]
        lines(root / f"places365_{split}.txt", *(f"{file}{label}" for file in files))
        for file in files:
            picture(root / f"{split}_256" / file)
            picture(root / f"{split}_large" / file, height=20, width=30)
    return {"small": True}


WRITERS: dict[str, Any] = {
    "caltech101": caltech101,
    "caltech256": caltech256,
    "celeba": celeba,
    "imagenet": imagenet_archives,
    "imagenette": imagenette,
    "inaturalist": inaturalist,
    "lfwpairs": lfw,
    "lfwpeople": lfw,
    "lsun": lsun,
    "lsunclass": lsun_class,
    "places365": places365,
}
