"""Sets with captions, patches of photographs, and bouncing digits."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from flambeau.vision._miniatures.files import lines, noise, picture

__all__ = ["WRITERS"]


def sbu(root: Path) -> dict[str, Any]:
    """Two photographs; they are in the archive too, since nobody serves the miniature's."""
    folder = root / "dataset"
    urls = [f"http://static.flickr.com/2723/{name}.jpg" for name in ("4385058960_b0f291553e", "4385058961_c1")]
    lines(folder / "SBU_captioned_photo_dataset_urls.txt", *urls)
    lines(folder / "SBU_captioned_photo_dataset_captions.txt", "A wooden chair ", "In the park")
    for url in urls:
        picture(folder / url.rpartition("/")[2])
    with tarfile.open(root / "SBUCaptionedPhotoDataset.tar.gz", "w:gz") as packed:
        packed.add(folder, "dataset")
    return {"download": False}


def flickr8k(root: Path) -> dict[str, Any]:
    """Two photographs, and one that is gone."""
    for name in ("2513260012_03d33305cf.jpg", "1141739219_2c47195e4c.jpg"):
        picture(root / name)
    page = root / "8k-pictures.html"
    rows = []
    for number in ("2513260012", "1141739219"):
        link = f"http://www.flickr.com/photos/someone/{number}/"
        rows.append(f'<tr><td><a href="{link}">{link}</a></td><td><ul><li>A dog .</li><li>Dogs &amp; cats .</li></ul>')
    rows.append("<tr><td>Image Not Found</td><td><ul><li>Nobody .</li></ul>")
    lines(page, "<html><body><h5>Captions</h5><table border=1>", *rows, "</table>", "<a>end</a>", "</body></html>")
    return {"ann_file": str(page)}


def flickr30k(root: Path) -> dict[str, Any]:
    """Two photographs with two captions."""
    names = ["1000092795.jpg", "10002456.jpg"]
    for name in names:
        picture(root / name)
    rows = [f"{name}#{number}\tCaption {number} of {name} ." for name in names for number in range(2)]
    return {"ann_file": str(lines(root / "results_20130124.token", *rows))}


def phototour(root: Path) -> dict[str, Any]:
    """A grid of four patches, of which three count."""
    folder = root / "liberty"
    folder.mkdir(parents=True)
    Image.fromarray(noise("liberty", 128, 128)).save(folder / "patches0000.bmp")
    lines(folder / "info.txt", "7 0", "7 0", "9 0")
    lines(folder / "m50_100000_100000_0.txt", "0 7 0 1 7 0 0", "1 7 0 2 9 0 0")
    return {"name": "liberty"}


def moving_mnist(root: Path) -> None:
    """Three videos."""
    (root / "MovingMNIST").mkdir(parents=True)
    np.save(root / "MovingMNIST" / "mnist_test_seq.npy", noise("moving", 20, 3, 64, 64))


WRITERS: dict[str, Any] = {
    "flickr30k": flickr30k,
    "flickr8k": flickr8k,
    "movingmnist": moving_mnist,
    "phototour": phototour,
    "sbu": sbu,
}
